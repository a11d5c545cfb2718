/**
 * @file resp_client.h
 * A client of a server that speaks RESP (Redis), on a loop: commands out, replies in, values that
 * are not copied.
 *
 * Commands are answered in their order, so any number may be under way: each waits in a ring of
 * fixed size, and its callback is called exactly once, in the order of the commands, from a later
 * turn of the loop and never inside the call that gave the command. What is given during a turn
 * leaves in one send.
 *
 * An answer that says "error", and null, are answers: they come as replies. Callbacks get a
 * negative errno only when there will be no answer, which is when the connection has ended; then
 * all commands that wait get the same one, in their order:
 * - -EPIPE: the server has closed the connection, or the connection was closed for sending
 * - -ECONNRESET, or another errno of the socket
 * - -EPROTO: what came is not RESP, or the answer to nothing; -EOPNOTSUPP: a streamed type
 * - -EMSGSIZE: a reply over a limit
 * - -ETIMEDOUT: the first of the commands was not answered in time
 * - -EPROTONOSUPPORT: the server refuses the "HELLO 3" that was asked for
 * - -ENOMEM: a command could be queued in part only
 * - -ECANCELED: sluice_resp_client_close(), sluice_resp_client_free() or sluice_loop_free()
 *
 * After that the client is done: every further command is refused with -EPIPE. It never connects
 * again and never sends a command twice. Nobody can say whether the server has carried out a
 * command whose answer has not come, and replies that follow an unfinished one cannot be told
 * apart; so whether to ask again, on a new connection, is the caller's decision. That also holds
 * after a part of a value has been written into the caller's memory.
 *
 * Threads: the loop's.
 */
#ifndef SLUICE_RESP_CLIENT_H
#define SLUICE_RESP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    /** Most commands that wait for an answer, unless told otherwise. */
    SLUICE_RESP_CLIENT_DEFAULT_COMMANDS = 1024,
    SLUICE_RESP_CLIENT_MAX_COMMANDS = 1 << 20, /**< What that can be set to. */
    /** Most bytes that wait to be sent, unless told otherwise. */
    SLUICE_RESP_CLIENT_DEFAULT_QUEUED = 1 << 30,
};

/** Settings of a client. Zero in any field means its default. */
typedef struct sluice_resp_client_options {
    size_t size; /**< sizeof(sluice_resp_client_options). */
    /**
     * Most commands that wait for an answer, 1 to SLUICE_RESP_CLIENT_MAX_COMMANDS. Their places are
     * allocated by sluice_resp_client_new(), under 100 bytes each.
     */
    uint32_t max_commands;
    /** Most bytes of commands that wait to be sent; lent memory and slices count. */
    size_t max_queued;
    /**
     * Milliseconds from giving a command until its whole answer is there, also while earlier ones
     * are answered. When they pass, the connection is closed: answers that come later could not be
     * told from those to later commands. Default: no limit.
     */
    uint32_t timeout_ms;
    /**
     * Begin with "HELLO 3". Commands may be given at once. A server that refuses ends the
     * connection (-EPROTONOSUPPORT). Who must give a name and a password with it, or wants to go on
     * with RESP2, gives HELLO by sluice_resp_client_command() before all else.
     */
    bool resp3;
    /**
     * Of replies; read within the call. A whole reply lies in the pool's blocks: @c reply is by
     * default at most half of the pool, and may be all of it. Values that go into the caller's
     * memory are not limited by this.
     */
    const sluice_resp_limits *limits;
} sluice_resp_client_options;

/**
 * What a client calls besides the commands' callbacks. Any may be NULL, and any may close or free
 * the client.
 */
typedef struct sluice_resp_client_events {
    size_t size; /**< sizeof(sluice_resp_client_events). */

    /**
     * Something came out of turn: a push of RESP3, or with RESP2 a message on a channel. The first
     * element says what. The reply is lent as to sluice_resp_reply_fn. Without this call they are
     * dropped.
     */
    void (*on_push)(sluice_resp_client *client, sluice_resp_reply *reply, void *user);

    /**
     * The last call: the connection is gone, and all commands have had their callbacks. @p error is
     * 0 after sluice_resp_client_close(), sluice_resp_client_free() and sluice_loop_free(), else
     * what commands got. The client stays until sluice_resp_client_free().
     */
    void (*on_closed)(sluice_resp_client *client, int error, void *user);
} sluice_resp_client_events;

/**
 * A command is done. Any callback may give commands, and may close or free the client.
 * @param error 0, or why there is no answer: see the head of this file
 * @param reply the answer, which may be an error of the server's; NULL when @p error is not 0. It
 *              is lent, until the callback returns; sluice_slice_take(&reply->bytes, ...) moves it
 *              out, and sluice_resp_keep() holds the text of one value
 */
typedef void sluice_resp_reply_fn(sluice_resp_client *client, int error, sluice_resp_reply *reply, void *user);

/**
 * A command is done whose answer was to go into the caller's memory, which is the caller's again.
 * @param error  0; -EFBIG (the value is longer than the memory, into which nothing was written; it
 *               is dropped as it comes, without being gathered, and the connection goes on); or why
 *               there is no answer: see the head of this file. Then the memory may have been
 *               written to, and what it holds is undefined
 * @param length bytes of the value: written when @p error is 0, and what they would be with -EFBIG;
 *   otherwise 0
 * @param reply  NULL when the answer was a string; otherwise the answer, such as null or an error
 *               of the server's, of which nothing was written. It is lent as to
 *               sluice_resp_reply_fn
 */
typedef void sluice_resp_into_fn(sluice_resp_client *client, int error, uint64_t length, sluice_resp_reply *reply,
                                 void *user);

/**
 * Makes a client on a connected stream socket. For TCP, set TCP_NODELAY: commands are gathered by
 * turns already. The caller owns the client.
 * @param fd      belongs to the client in any case: it is closed also when this fails, by a later
 *                turn perhaps
 * @param options settings, or NULL for the defaults
 * @param events  NULL, or what must outlive the client
 * @return 0, -EINVAL (a setting out of range; not a descriptor), -ENOMEM
 */
SLUICE_API int sluice_resp_client_new(sluice_loop *loop, int fd, const sluice_resp_client_options *options,
                                      const sluice_resp_client_events *events, void *user,
                                      sluice_resp_client **ret_client);

/**
 * Closes the connection. Commands that wait get -ECANCELED, then on_closed is called, all in a
 * later turn, when the kernel is done with the memory that was lent. Closing twice, and NULL, are
 * allowed.
 */
SLUICE_API void sluice_resp_client_close(sluice_resp_client *client);

/**
 * Closes like sluice_resp_client_close(), and frees the client as soon as on_closed has been
 * called; at once when it has been, then also after the loop is gone. Allowed in every callback.
 * NULL is allowed.
 */
SLUICE_API void sluice_resp_client_free(sluice_resp_client *client);

/** One argument of a command. */
typedef struct sluice_resp_client_arg {
    const void *data; /**< The bytes; may be NULL when @c length is 0. */
    size_t length;    /**< Of them. */
    /**
     * The bytes are sent from where they lie. They must stay valid and unchanged until the
     * command's callback, and are the caller's again in it: also when the answer comes before all
     * is sent, the callback waits for that. Otherwise they are copied, and free for other use after
     * the call.
     */
    bool is_lent;
    /**
     * NULL; or the argument's bytes instead of the above, which are sent from where they lie, with
     * references of the client's own: the slice may be released after the call.
     */
    const sluice_slice *slice;
} sluice_resp_client_arg;

/**
 * Gives a command. The first argument is its name, and must not be a slice.
 *
 * Refused are commands that do not have one answer each: MONITOR, SYNC, PSYNC, CLIENT REPLY, and
 * those for which there is sluice_resp_client_subscribe(). After HELLO and RESET the client goes on
 * with the protocol that the answer has.
 * @param args  free for other use after the call, as are the bytes that are not lent
 * @param count 1 to INT32_MAX
 * @param fn    may be NULL, for an answer that nobody wants and memory that lasts
 * @return 0, -EINVAL (no argument; a command that is refused), -EMSGSIZE (more than max_queued: it
 *         never fits), -EAGAIN (as many commands wait as may, or as many bytes), -EPIPE (the
 *         connection is closed or has failed), -ENOMEM; on failure nothing is queued, and the
 *         callback is not called
 */
SLUICE_API int sluice_resp_client_command(sluice_resp_client *client, const sluice_resp_client_arg *args, size_t count,
                                          sluice_resp_reply_fn *fn, void *user);

/**
 * Gives a command whose answer, if it is a string, goes into the caller's memory, such as GET,
 * GETRANGE or HGET. What of it has come with other bytes is copied (and counted in the pool's
 * bytes_copied); the rest the kernel writes straight into the memory.
 * @param memory where to; until the callback it is the client's, and the kernel may write to it.
 *               May be NULL when @p size is 0
 * @param size   bytes of it. Fewer than the value has: see -EFBIG of sluice_resp_into_fn
 * @param fn     must not be NULL
 * @return as sluice_resp_client_command()
 */
SLUICE_API int sluice_resp_client_command_into(sluice_resp_client *client, const sluice_resp_client_arg *args,
                                               size_t count, void *memory, size_t size, sluice_resp_into_fn *fn,
                                               void *user);

/**
 * SET, with the value sent from the caller's memory: lent until the callback, see
 * sluice_resp_client_arg. The key is copied. @return as sluice_resp_client_command()
 */
SLUICE_API int sluice_resp_client_set(sluice_resp_client *client, const sluice_resp_arg *key,
                                      const sluice_resp_arg *value, sluice_resp_reply_fn *fn, void *user);

/**
 * SET, with the value sent from the blocks that a slice names, such as those that it was received
 * into. The slice stays the caller's and may be released after the call. @return as
 * sluice_resp_client_command()
 */
SLUICE_API int sluice_resp_client_set_slice(sluice_resp_client *client, const sluice_resp_arg *key,
                                            const sluice_slice *value, sluice_resp_reply_fn *fn, void *user);

/** GET into the caller's memory. @return as sluice_resp_client_command_into() */
SLUICE_API int sluice_resp_client_get_into(sluice_resp_client *client, const sluice_resp_arg *key, void *memory,
                                           size_t size, sluice_resp_into_fn *fn, void *user);

/**
 * Gives SUBSCRIBE, PSUBSCRIBE, SSUBSCRIBE or the command that ends one of them, outside of MULTI.
 * The server confirms each channel by itself; @p fn gets the last of these confirmations, or an
 * error instead of them. Messages come to on_push. While a connection with RESP2 has a channel, the
 * server accepts few other commands.
 * @param count 2 or more: what is confirmed can be counted only when the channels are named
 * @return as sluice_resp_client_command(); -EINVAL (another command)
 */
SLUICE_API int sluice_resp_client_subscribe(sluice_resp_client *client, const sluice_resp_client_arg *args,
                                            size_t count, sluice_resp_reply_fn *fn, void *user);

/** Commands that wait for their answers, the "HELLO 3" of the options included. */
SLUICE_API size_t sluice_resp_client_waiting(const sluice_resp_client *client);

/**
 * Runs turns of the loop until no command waits, those that callbacks have given meanwhile
 * included: for tools and tests, which have nothing else to do. All else on the loop goes on.
 * sluice_loop_stop() has no effect on it.
 * @param timeout_ms milliseconds; negative: for any length
 * @return 0 (none waits), -ETIMEDOUT (some still wait, and go on waiting), -EBUSY (inside a
 *         callback of the loop; nothing is done), what commands got when the connection has ended
 *         meanwhile, -EPIPE when it had before, or another error of sluice_loop_turn()
 */
SLUICE_API int sluice_resp_client_wait(sluice_resp_client *client, int timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
