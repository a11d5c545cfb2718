/**
 * @file resp_client.h
 * A client of RESP (Redis) servers on a loop: sends commands, receives replies, without copying
 * values.
 *
 * Replies arrive in the order of the commands, so any number of commands may be pending. Each has
 * an entry in a ring of fixed size, and its callback is called exactly once, in the order of the
 * commands, from a later turn of the loop and never inside the call that queued the command.
 * Commands queued during a turn are sent together.
 *
 * An error reported by the server, and null, are replies. A callback gets a negative errno only if
 * there will be no reply, because the connection has ended. Then all pending commands get the same
 * error, in their order:
 * - -EPIPE: the server has closed the connection, or the connection was closed for sending
 * - -ECONNRESET, or another errno of the socket
 * - -EPROTO: the data is not RESP, or a reply without a command; -EOPNOTSUPP: a streamed type
 * - -EMSGSIZE: a reply exceeds a limit
 * - -ETIMEDOUT: the oldest command was not answered in time
 * - -EPROTONOSUPPORT: the server rejected "HELLO 3"
 * - -ENOMEM: a command could be queued only in part
 * - another errno of the stage, if there is one: see sluice_resp_client_stage()
 * - -ECANCELED: sluice_resp_client_close(), sluice_resp_client_free() or sluice_loop_free()
 *
 * After that the client is unusable: every further command fails with -EPIPE. It never reconnects
 * and never sends a command twice. It is unknown whether the server has executed an unanswered
 * command, and replies after an incomplete one cannot be identified; the caller decides whether to
 * repeat a command on a new connection. This also applies after part of a value has been written
 * into the caller's memory.
 *
 * Threads: the loop's.
 */
#ifndef SLUICE_RESP_CLIENT_H
#define SLUICE_RESP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/conn.h>
#include <sluice/loop.h>
#include <sluice/resp.h>
#include <sluice/slice.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A client; opaque. */
typedef struct sluice_resp_client sluice_resp_client;

enum {
    /** Default maximum number of pending commands. */
    SLUICE_RESP_CLIENT_DEFAULT_COMMANDS = 1024,
    SLUICE_RESP_CLIENT_MAX_COMMANDS = 1 << 20, /**< Highest value that can be set. */
    /** Default maximum number of bytes queued for sending. */
    SLUICE_RESP_CLIENT_DEFAULT_QUEUED = 1 << 30,
};

/** Settings of a client. Zero in any field means its default. */
typedef struct sluice_resp_client_options {
    size_t size; /**< sizeof(sluice_resp_client_options). */
    /**
     * Maximum number of pending commands, 1 to SLUICE_RESP_CLIENT_MAX_COMMANDS.
     * sluice_resp_client_new() allocates their entries, under 100 bytes each.
     */
    uint32_t max_commands;
    /** Maximum number of bytes of commands queued for sending, including lent memory and slices. */
    size_t max_queued;
    /**
     * Time limit from queueing a command to its complete reply, milliseconds, including the time
     * for earlier replies. When it passes, the connection is closed, because late replies could not
     * be told apart from later ones. Default: no limit.
     */
    uint32_t timeout_ms;
    /**
     * Start with "HELLO 3". Commands may be queued at once. If the server rejects it, the
     * connection ends (-EPROTONOSUPPORT). To log in with HELLO, or to fall back to RESP2, send
     * HELLO as the first sluice_resp_client_command() instead.
     */
    bool resp3;
    /**
     * Limits of replies; read during the call. A complete reply is held in the pool's blocks: by
     * default @c reply is at most half of the pool; it may be set to all of it. Values received
     * into the caller's memory are not subject to it.
     */
    const sluice_resp_limits *limits;
    /**
     * A stage for the connection, such as sluice_tls_conn_stage(); it must outlive the client.
     * Commands may be queued at once. Values for the caller's memory are then copied there from the
     * stage's blocks. Lent memory is returned to the caller as before. Default: none.
     */
    const sluice_conn_stage *stage;
    /** For the stage, such as sluice_tls_stage_options; read during the call. */
    const void *stage_options;
} sluice_resp_client_options;

/**
 * Callbacks of a client besides those of its commands. Any may be NULL, and any may close or free
 * the client.
 */
typedef struct sluice_resp_client_events {
    size_t size; /**< sizeof(sluice_resp_client_events). */

    /**
     * A message that is not a reply: a push of RESP3, or a message on a channel with RESP2. The
     * first element is its kind. The reply is borrowed as in sluice_resp_reply_fn. If this is NULL,
     * such messages are dropped.
     */
    void (*on_push)(sluice_resp_client *client, sluice_resp_reply *reply, void *user);

    /**
     * The last callback: the connection is closed, and the callbacks of all commands have been
     * called. @p error is 0 after sluice_resp_client_close(), sluice_resp_client_free() and
     * sluice_loop_free(), otherwise the error that the commands got. The client exists until
     * sluice_resp_client_free().
     */
    void (*on_closed)(sluice_resp_client *client, int error, void *user);
} sluice_resp_client_events;

/**
 * Reports the result of a command. Every callback may queue commands, and may close or free the
 * client.
 * @param error 0, or the reason for a missing reply: see the head of this file
 * @param reply the reply, which may be an error of the server; NULL if @p error is not 0. Borrowed
 *              until the callback returns; sluice_slice_take(&reply->bytes, ...) keeps it, and
 *              sluice_resp_keep() keeps the text of one value
 */
typedef void sluice_resp_reply_fn(sluice_resp_client *client, int error, sluice_resp_reply *reply, void *user);

/**
 * Reports the result of a command whose value is received into the caller's memory. The memory
 * belongs to the caller again.
 * @param error  0; -EFBIG (the value exceeds the memory, to which nothing was written; the value is
 *               dropped as it arrives, without buffering, and the connection stays usable); or the
 *               reason for a missing reply: see the head of this file. In that case the content of
 *               the memory is undefined
 * @param length size of the value, bytes: written if @p error is 0, also reported with -EFBIG;
 *               otherwise 0
 * @param reply  NULL if the reply was a string; otherwise the reply, such as null or an error of
 *               the server, and nothing was written. Borrowed as in sluice_resp_reply_fn
 */
typedef void sluice_resp_into_fn(sluice_resp_client *client, int error, uint64_t length, sluice_resp_reply *reply,
                                 void *user);

/**
 * Makes a client on a connected stream socket. The caller owns the client. For TCP, set
 * TCP_NODELAY: the client already combines the commands of a turn.
 * @param fd      always taken over: it is closed even if this fails, possibly in a later turn
 * @param options settings, or NULL for the defaults
 * @param events  NULL, or callbacks that must outlive the client
 * @return 0, -EINVAL (a setting is out of range, or no descriptor), -ENOMEM, or the stage's error
 */
SLUICE_API int sluice_resp_client_new(sluice_loop *loop, int fd, const sluice_resp_client_options *options,
                                      const sluice_resp_client_events *events, void *user,
                                      sluice_resp_client **ret_client);

/**
 * Closes the connection. In a later turn, when the kernel no longer uses lent memory, pending
 * commands get -ECANCELED and then on_closed is called. Closing twice is allowed, and so is NULL.
 */
SLUICE_API void sluice_resp_client_close(sluice_resp_client *client);

/**
 * Closes like sluice_resp_client_close(), and frees the client once on_closed has been called. If
 * that has already happened, the client is freed at once, which is allowed even after the loop is
 * freed. Allowed in every callback. NULL is allowed.
 */
SLUICE_API void sluice_resp_client_free(sluice_resp_client *client);

/**
 * The stage of the options, for what is to be known of it, such as the reason of a failure: with
 * sluice_tls_conn_stage() it is a sluice_tls. The client calls it; the user may query it, until
 * on_closed returns. NULL: there is none (any more).
 */
SLUICE_API void *sluice_resp_client_stage(const sluice_resp_client *client);

/** One argument of a command. */
typedef struct sluice_resp_client_arg {
    const void *data; /**< The bytes; may be NULL if @c length is 0. */
    size_t length;    /**< In bytes. */
    /**
     * Send the bytes in place. They must stay valid and unchanged until the command's callback,
     * which returns them to the caller; if the reply arrives before all is sent, the callback is
     * delayed until then. If false, the bytes are copied and free for other use after the call.
     */
    bool is_lent;
    /**
     * If not NULL: used instead of data, and sent in place with references of the client's own. The
     * slice may be released after the call.
     */
    const sluice_slice *slice;
} sluice_resp_client_arg;

/**
 * Queues a command. The first argument is its name, and must not be a slice.
 *
 * Commands that do not have exactly one reply are rejected: MONITOR, SYNC, PSYNC, CLIENT REPLY, and
 * those for which sluice_resp_client_subscribe() exists. After HELLO and RESET the client continues
 * with the protocol version of the reply.
 * @param args  free for other use after the call, as are bytes that are not lent
 * @param count 1 to INT32_MAX
 * @param fn    may be NULL if the reply is not needed and lent memory outlives the command
 * @return 0, -EINVAL (no argument, or a rejected command), -EMSGSIZE (more than max_queued: it
 *         never fits), -EAGAIN (the limit of pending commands or queued bytes is reached), -EPIPE
 *         (the connection is closed or has failed), -ENOMEM; on failure nothing is queued and the
 *         callback is not called
 */
SLUICE_API int sluice_resp_client_command(sluice_resp_client *client, const sluice_resp_client_arg *args, size_t count,
                                          sluice_resp_reply_fn *fn, void *user);

/**
 * Queues a command, such as GET, GETRANGE or HGET, whose reply is received into the caller's memory
 * if it is a string. The part that arrived together with other bytes is copied (and added to the
 * pool's bytes_copied); the kernel writes the rest directly into the memory.
 *
 * Memory for large values should start on a page boundary (aligned_alloc()). Large memory from
 * malloc() does not: it starts at byte 16 of a page. In the kernel, a reply often starts on a page
 * boundary, and its value some 10 bytes later. If the memory lies 1 to 15 bytes further into its
 * page than the value does, AMD processors with FSRM copy at a thirteenth of their speed.
 * @param memory destination; belongs to the client until the callback, and the kernel may write to
 *               it. May be NULL if @p size is 0
 * @param size   size of the memory, bytes. For longer values see -EFBIG of sluice_resp_into_fn
 * @param fn     must not be NULL
 * @return as sluice_resp_client_command()
 */
SLUICE_API int sluice_resp_client_command_into(sluice_resp_client *client, const sluice_resp_client_arg *args,
                                               size_t count, void *memory, size_t size, sluice_resp_into_fn *fn,
                                               void *user);

/**
 * Sends SET, with the value sent in place from the caller's memory, which is lent until the
 * callback: see sluice_resp_client_arg. The key is copied.
 * @return as sluice_resp_client_command()
 */
SLUICE_API int sluice_resp_client_set(sluice_resp_client *client, const sluice_resp_arg *key,
                                      const sluice_resp_arg *value, sluice_resp_reply_fn *fn, void *user);

/**
 * Sends SET, with the value sent from the blocks of a slice, for example the blocks it was received
 * into. The caller keeps the slice and may release it after the call.
 * @return as sluice_resp_client_command()
 */
SLUICE_API int sluice_resp_client_set_slice(sluice_resp_client *client, const sluice_resp_arg *key,
                                            const sluice_slice *value, sluice_resp_reply_fn *fn, void *user);

/** GET into the caller's memory. @return as sluice_resp_client_command_into() */
SLUICE_API int sluice_resp_client_get_into(sluice_resp_client *client, const sluice_resp_arg *key, void *memory,
                                           size_t size, sluice_resp_into_fn *fn, void *user);

/**
 * Sends SUBSCRIBE, PSUBSCRIBE, SSUBSCRIBE or a command that ends one of them, outside of MULTI. The
 * server confirms each channel separately; @p fn gets the last of these confirmations, or an error.
 * Messages are passed to on_push. While an RESP2 connection has a channel, the server accepts few
 * other commands.
 * @param count 2 or more: the confirmations can be counted only if the channels are named
 * @return as sluice_resp_client_command(); -EINVAL (another command)
 */
SLUICE_API int sluice_resp_client_subscribe(sluice_resp_client *client, const sluice_resp_client_arg *args,
                                            size_t count, sluice_resp_reply_fn *fn, void *user);

/** Number of pending commands, including the "HELLO 3" of the options. */
SLUICE_API size_t sluice_resp_client_waiting(const sluice_resp_client *client);

/**
 * Runs turns of the loop until no command is pending, including commands queued by callbacks
 * meanwhile. For tools and tests that have nothing else to do. Everything else on the loop
 * continues. sluice_loop_stop() has no effect on it.
 * @param timeout_ms milliseconds; negative: no limit
 * @return 0 (none is pending), -ETIMEDOUT (some are still pending), -EBUSY (inside a callback of
 *         the loop; nothing is done), the error that the commands got if the connection ended
 *         during the call, -EPIPE if it had ended before, or another error of sluice_loop_turn()
 */
SLUICE_API int sluice_resp_client_wait(sluice_resp_client *client, int timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
