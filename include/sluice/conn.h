/**
 * @file conn.h
 * Connections and listeners on a loop.
 *
 * A connection receives into its chain while it is open and not paused, and calls back. To send,
 * call sluice_conn_want_send(): once per turn the loop collects the pieces with on_gather and
 * passes them to the kernel in one operation, in place.
 *
 * Threads: the loop's.
 */
#ifndef SLUICE_CONN_H
#define SLUICE_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <sluice/chain.h>
#include <sluice/loop.h>
#include <sluice/reader.h>
#include <sluice/slice.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A connected stream socket on a loop; opaque. */
typedef struct sluice_conn sluice_conn;

/**
 * Callbacks of a connection. Any may be NULL, and any may close the connection. None is called
 * inside a sluice_conn_ call. After sluice_conn_close() only on_closed is called (and, before it,
 * the callback of a pending sluice_conn_receive_into()).
 */
typedef struct sluice_conn_events {
    size_t size; /**< sizeof(sluice_conn_events). */

    /** The chain has grown and holds at least the bytes set by sluice_conn_set_need(). */
    void (*on_data)(sluice_conn *conn, void *user);

    /**
     * Receiving has ended. Bytes received before are in the chain. A failure may follow an end.
     * Close the connection when done with it. @p error is
     *
     * - 0: the peer has finished sending; this side may still send.
     * - -ETIMEDOUT: nothing was received for the time set by sluice_conn_set_timeout(). Sending may
     *   continue; sluice_conn_resume() continues receiving.
     * - another negative errno: the connection has failed; nothing more is received or sent.
     *   -ECONNABORTED is used when the kernel gave up on the peer (reported by the kernel as
     *   ETIMEDOUT). If sending fails because the peer has closed, the bytes that it had sent before
     *   are received first, unless receiving is paused or there are no blocks for them.
     */
    void (*on_end)(sluice_conn *conn, int error, void *user);

    /**
     * Provides the next data to send: writes up to @p max pieces. They must stay valid and
     * unchanged until the matching on_sent, or on_closed.
     * @return pieces written; 0 if there is nothing to send
     */
    size_t (*on_gather)(sluice_conn *conn, struct iovec *iov, size_t max, void *user);

    /**
     * The kernel has taken the first @p bytes of the pieces last returned by on_gather; the rest
     * was not sent and must be returned again. The kernel no longer uses any of those pieces, so
     * they may be freed, and the next on_gather may return others.
     *
     * 0 bytes normally mean that the socket buffer is full. on_gather is called again when there is
     * room, which may never happen if the peer does not read. Until then the connection refers to
     * no data, and the sender may drop data that it has not begun to send.
     */
    void (*on_sent)(sluice_conn *conn, size_t bytes, void *user);

    /**
     * The last callback: the kernel no longer uses anything of the connection, the descriptor is
     * closed, and the connection is freed after this call.
     */
    void (*on_closed)(sluice_conn *conn, void *user);
} sluice_conn_events;

/**
 * Takes over a connected stream socket and starts to receive. On success the descriptor belongs to
 * the connection.
 * @param events must outlive the connection
 * @return 0, -ENOMEM, -EINVAL (no descriptor, no events, or events->size is not set)
 */
SLUICE_API int sluice_conn_new(sluice_loop *loop, int fd, const sluice_conn_events *events, void *user,
                               sluice_conn **ret_conn);

/**
 * Closes the connection. From now on only on_closed is called, in a later turn (and, before it, the
 * callback of a pending sluice_conn_receive_into()). Blocks that the kernel may still write to are
 * released when it is done. Data not yet taken by the kernel is not sent. Closing twice is allowed,
 * and so is NULL.
 */
SLUICE_API void sluice_conn_close(sluice_conn *conn);

/**
 * Whether the connection is being closed or detached, so that nothing but its last callback comes:
 * for code between a connection and its user, whose callbacks may do that.
 */
SLUICE_API bool sluice_conn_is_closing(const sluice_conn *conn);

/** Received, unconsumed bytes. Owned by the connection. */
SLUICE_API sluice_chain *sluice_conn_chain(sluice_conn *conn);

/** The loop of the connection. */
SLUICE_API sluice_loop *sluice_conn_loop(const sluice_conn *conn);

/** The descriptor, for socket options and addresses; owned by the connection. */
SLUICE_API int sluice_conn_fd(const sluice_conn *conn);

/** The user pointer passed to the connection's callbacks. */
SLUICE_API void *sluice_conn_user(const sluice_conn *conn);

/**
 * Replaces the callbacks and their user pointer, for a connection that changes its protocol.
 * @return 0, -EINVAL (no events, or events->size is not set; nothing has changed)
 */
SLUICE_API int sluice_conn_set_events(sluice_conn *conn, const sluice_conn_events *events, void *user);

/**
 * Sets the minimum chain length for on_data: it is called only when the chain holds @p bytes, or
 * the peer has finished. 0 and 1 mean any length. Stays in force until changed. If the chain held
 * less than the previous value but holds enough for the new one, on_data is called in the next turn
 * even if nothing arrives.
 *
 * On a loop without a batching window the kernel, too, delays wake-ups until the missing bytes have
 * arrived (SO_RCVLOWAT). This is done if one receive was not enough, hundreds of bytes are missing
 * and the connection has no timeout. A frame that arrives in many pieces then costs one wake-up,
 * and is not delivered later. sluice_loop_options.no_low_water disables this.
 */
SLUICE_API void sluice_conn_set_need(sluice_conn *conn, size_t bytes);

/**
 * Calls on_data again in a later turn, regardless of new data and of sluice_conn_set_need(): for a
 * callback that stops before it has processed everything, so that other connections are served.
 * Such connections are called in order after the others, and share 5 milliseconds of each turn.
 * on_end is delayed until on_data returns without this request; the request lapses if the events of
 * that turn have no on_data. May be called from any callback of the loop; a repeated call has no
 * further effect. No effect after sluice_conn_close() and sluice_conn_detach(). A pending
 * sluice_conn_receive_into() completes first.
 *
 * Receiving continues meanwhile; use sluice_conn_pause() to bound the chain.
 */
SLUICE_API void sluice_conn_again(sluice_conn *conn);

/**
 * Sets whether a receive takes all available data (true, the default) or at most one block. Use
 * false for a protocol in which one part of a message decides where the following bytes go: then at
 * most one block arrives in blocks ahead of sluice_conn_receive_into() and has to be copied. Set it
 * before such bytes are requested: receives that have already begun still deliver their data. With
 * false each block takes a turn of its own.
 */
SLUICE_API void sluice_conn_set_read_ahead(sluice_conn *conn, bool read_ahead);

/**
 * Sets how often the connection is read: every @p milliseconds, rather than when something comes
 * (0, the default). For data that may wait: what comes costs no wake-up and no event, and
 * one read takes all that has come. Bytes, and the end of the stream, are noticed up to so much
 * later. They wait in the socket's buffer meanwhile, so the kernel's flow control slows a fast
 * peer down; therefore a read that brings 32 KiB or more is followed by another one within 10
 * milliseconds, and one that has taken as much as a read can (64 KiB, or one block if that is
 * larger) in the next turn. Sending, pausing and closing are as usual, and what
 * sluice_conn_receive_into() receives comes as it comes. What was received before the call is
 * reported as usual. A turn reads 32 such connections at most: on a loop that has too much to do
 * they are later, and what comes to others is not. A time of sluice_conn_set_timeout() should be
 * longer than the interval. An adopted connection has no interval, and neither has one of which a
 * send has failed: what its peer had sent is received at once.
 * @param milliseconds 0 to 100, rounded up to tens
 * @return 0, also after sluice_conn_close(); -EINVAL: more than 100
 */
SLUICE_API int sluice_conn_set_receive_interval(sluice_conn *conn, uint32_t milliseconds);

/**
 * Sets the block size to receive into: one of the sizes of the loop's pool, each with its own
 * blocks published to the kernel. 0 is the size of the pool or class that the loop was made with,
 * the default. Small blocks use little memory for small messages; large blocks give fewer pieces
 * for large messages. May be called at any time: data in the chain stays in its blocks, and
 * receives that have already begun still deliver their data. A shortage of blocks of one size does
 * not delay connections that use other sizes: see sluice_pool_class().
 * @return 0, -EINVAL (the pool has no such size), -ENOBUFS (first use of the size, and the pool's
 *         budget is used up), -ENOMEM, -EPIPE (the connection has been closed); on failure nothing
 *         has changed
 */
SLUICE_API int sluice_conn_set_block_size(sluice_conn *conn, uint32_t block_size);

/**
 * Stops receiving into blocks. Data that the kernel has already put into blocks still arrives. A
 * pending sluice_conn_receive_into() continues.
 */
SLUICE_API void sluice_conn_pause(sluice_conn *conn);

/**
 * Whether receiving into blocks was held up (paused, or without a free block) at any time since the
 * previous call, or since the connection was made. In that case silence is not caused by the peer:
 * restart any measurement of it. A connection that has ended is not held up.
 */
SLUICE_API bool sluice_conn_was_held_up(sluice_conn *conn);

/** Resumes receiving after a pause, or after a timeout of sluice_conn_set_timeout(). */
SLUICE_API void sluice_conn_resume(sluice_conn *conn);

/**
 * Result of sluice_conn_receive_into(). The memory belongs to the user again. The callback may
 * start another receive or close the connection.
 * @param error 0: all bytes are received; -ENODATA: the peer finished before; -ECANCELED:
 *              sluice_conn_receive_cancel() or sluice_conn_close() was called before; -ETIMEDOUT:
 *              the time of sluice_conn_set_timeout() has passed; otherwise the errno with which the
 *              connection failed
 * @param done  bytes written to the front of the memory, consumed from the stream; all of them if
 *              error is 0
 */
typedef void sluice_conn_received_fn(sluice_conn *conn, int error, size_t done, void *user);

/**
 * Receives the next @p n bytes into the user's memory. Bytes in the chain are copied at once (and
 * added to sluice_pool_stats.bytes_copied), and so are bytes that the kernel is currently putting
 * into blocks. The kernel writes the rest directly into the memory (sluice_loop_stats.direct). This
 * needs no block, so it continues under memory pressure and while the connection is paused. No more
 * than @p n bytes are taken; later bytes are received into the chain as usual, unless the
 * connection is paused.
 *
 * Useful for values of many blocks: stopping and restarting the receive into blocks costs one or
 * two turns.
 *
 * Until @p received is called, the kernel owns the memory, on_data and on_end are not called, and
 * the chain must not be used; a reader on it must have no mark and nothing left to skip. After the
 * peer has finished or the connection has failed, bytes in the chain can still be received this
 * way.
 * @param memory   room for @p n bytes
 * @param received called exactly once if this returns 0, from a turn, never inside this call;
 *                 otherwise not called
 * @return 1: all bytes are in the memory (also if @p n is 0); 0: @p received will be called;
 *         -EINVAL (no memory or no callback), -EBUSY (another receive is pending), -EPIPE (the
 *         connection has been closed)
 */
SLUICE_API int sluice_conn_receive_into(sluice_conn *conn, void *memory, size_t n, sluice_conn_received_fn *received,
                                        void *user);

/**
 * Cancels the pending receive. Its callback is called from a turn, once the kernel no longer uses
 * the memory, with the bytes received by then (and with error 0 if they are all). Later bytes are
 * received into the chain, unless the connection is paused. No effect without a pending receive.
 */
SLUICE_API void sluice_conn_receive_cancel(sluice_conn *conn);

/**
 * Sets the time limit for receiving nothing. When it has passed (never earlier, and soon after),
 * receiving pauses and on_end reports -ETIMEDOUT. A pending sluice_conn_receive_into() ends with
 * -ETIMEDOUT instead, and another may follow. No bytes are lost. The time counts from this call,
 * from sluice_conn_resume() and sluice_conn_receive_into(), and from the last received bytes; it
 * does not count while receiving is paused or the connection waits for a block. There is no cost
 * per byte; each connection has one timer that fires once per period. No effect after
 * sluice_conn_close().
 * @param milliseconds 0: no limit, the default
 * @return 0, -ENOMEM (only at the first call)
 */
SLUICE_API int sluice_conn_set_timeout(sluice_conn *conn, uint32_t milliseconds);

/**
 * Resets a reader (sluice_reader_reset()) to the connection's chain, with the connection as its
 * source. Its calls never wait. If the chain holds too few bytes, they return -EAGAIN (more may
 * arrive), -ENODATA (the peer has finished), -ETIMEDOUT (the time of sluice_conn_set_timeout() has
 * passed and receiving has not been resumed), -ECANCELED (after sluice_conn_close()), or the error
 * of the connection. The reader returns these errors from the turn in which they occur, before
 * on_end reports them.
 *
 * The reader is detached when the connection ends, just before on_closed or the callback of
 * sluice_conn_detach(). It may still be used, but until it is attached or reset again, calls that
 * need bytes return -ECANCELED, its mark is lost (-ESTALE), and its borrowed views are invalid. If
 * the connection continues in another loop, its bytes are in the handover. There, attach the reader
 * to the adopted connection, set its mark again, and skip the bytes that it still had to skip:
 * sluice_reader_skipping(), read in the detached callback. The progress of sluice_headers_read() is
 * stored in the sluice_headers.
 * @param reader owned by the caller; may be freed at any time
 */
SLUICE_API void sluice_conn_attach_reader(sluice_conn *conn, sluice_reader *reader);

/**
 * Requests a send. on_gather is called once per turn until it returns 0. When the sends of a turn
 * have taken 20 milliseconds, the remaining connections are the first ones of the next turn.
 */
SLUICE_API void sluice_conn_want_send(sluice_conn *conn);

/**
 * True between on_gather and on_sent, while the kernel may read the pieces, and while the socket
 * has no room for the pieces last gathered (reported by on_sent with 0 bytes).
 */
SLUICE_API bool sluice_conn_is_sending(const sluice_conn *conn);

/**
 * Shuts down the sending side, which tells the peer that nothing more is sent. Call it after the
 * last on_sent. @return 0, -errno of shutdown(2)
 */
SLUICE_API int sluice_conn_finish(sluice_conn *conn);

/** Counters of a connection since it was made, across all loops. */
typedef struct sluice_conn_stats {
    size_t size;             /**< sizeof(sluice_conn_stats), set by the caller. */
    uint64_t received_bytes; /**< Bytes received, into blocks and into user memory. */
    /** Receives with data: completions on io_uring, calls on epoll. */
    uint64_t receives;
    /** Times that receiving had to wait for a free block (-ENOBUFS). */
    uint64_t starved;
    uint64_t sent_bytes; /**< Bytes that the kernel has taken. */
    uint64_t sends;      /**< Sends that took them. */
    uint64_t blocked;    /**< Sends that had to wait for room in the socket. */
} sluice_conn_stats;

/**
 * Reads the counters. Allowed as long as the connection exists, including in on_closed.
 * @param ret_stats the caller sets its size
 * @return 0, -EINVAL (ret_stats->size is not set; nothing is written)
 */
SLUICE_API int sluice_conn_get_stats(const sluice_conn *conn, sluice_conn_stats *ret_stats);

/**
 * A connection on its way from one loop to another: the result of sluice_conn_detach(), and the
 * input of sluice_conn_adopt(). Its holder owns the descriptor and the slice, and may pass it to
 * another thread.
 */
typedef struct sluice_conn_handover {
    int fd; /**< The socket; -1: the handover is empty. */
    /** Received, unconsumed bytes, in blocks of the previous loop's pool. */
    sluice_slice received;
    uint64_t consumed; /**< Initial value of sluice_chain_consumed(). */
    /** Identifies the stream to framers that move with the connection; 0: a different stream. */
    uint64_t stream;
    uint64_t receives;   /**< Continued counters: see sluice_conn_stats. */
    uint64_t starved;    /**< Likewise. */
    uint64_t sent_bytes; /**< Likewise. */
    uint64_t sends;      /**< Likewise. */
    uint64_t blocked;    /**< Likewise. */
    bool ended;          /**< Nothing more will be received. */
    bool told;           /**< on_end has reported it. */
    /** The error of the connection, or 0. Without @c ended: sending has failed with it, and the
     *  rest of what the peer had sent is still to be received. */
    int error;
} sluice_conn_handover;

/**
 * The last callback of a connection that leaves its loop, in place of on_closed: the kernel no
 * longer uses anything of the connection, and the connection is freed after this call. Called from
 * a turn, never inside sluice_conn_detach().
 * @param handover to be copied by the callee, which then adopts or discards it
 */
typedef void sluice_conn_detached_fn(const sluice_conn_handover *handover, void *user);

/**
 * Removes the connection from its loop so that another loop can continue it. Receiving stops. Once
 * the kernel has released all its buffers, @p detached gets the descriptor, the unconsumed bytes
 * and the state of the connection. No data is lost: bytes that arrive meanwhile are among the
 * unconsumed bytes or stay in the kernel. EOF or an error meanwhile is reported by the adopter's
 * on_end.
 *
 * Until @p detached no callback is called, and only sluice_conn_close() has an effect: it closes
 * the connection here, so that on_closed is called and @p detached is not. A writer of the
 * connection is disconnected as it is at the end of a connection, and so is an attached reader: see
 * sluice_conn_attach_reader(). Framers move along unchanged, also in the middle of a message, and
 * continue after sluice_conn_adopt(); the framer of a delivered message releases that message's
 * blocks on the new thread.
 *
 * All data must have been sent before; send further data in the other loop.
 * @return 0, -EINVAL (no callback), -EBUSY (a send or a sluice_conn_receive_into() is pending;
 *         nothing has changed), -EPIPE (the connection has been closed, or is already being
 *         detached)
 */
SLUICE_API int sluice_conn_detach(sluice_conn *conn, sluice_conn_detached_fn *detached, void *user);

/**
 * Continues a connection in this loop; on the loop's thread. The bytes of the handover come first
 * in its chain, by reference: they stay in blocks of the other pool, which may belong to another
 * thread (see sluice_chain_append_slice()). on_data reports them in the next turn, and on_end
 * reports an end that has not been reported yet. In all other respects the connection is new: need,
 * timeout, block size and so on have their defaults, and it receives.
 * @param handover emptied on success; untouched on failure
 * @return 0, -EINVAL (an empty handover, no events), -ENOBUFS (too many views in use), -ENOMEM
 */
SLUICE_API int sluice_conn_adopt(sluice_loop *loop, sluice_conn_handover *handover, const sluice_conn_events *events,
                                 void *user, sluice_conn **ret_conn);

/** Closes the socket and releases the bytes. An empty handover is allowed. Any thread. */
SLUICE_API void sluice_conn_handover_discard(sluice_conn_handover *handover);

/**
 * A stage between a connection and those who frame and send its bytes, such as TLS: the calls of a
 * library that has stages, for clients that make their connection themselves. The client calls them
 * from the connection's events. For users of this table; sluice_tls_conn_stage() returns one.
 *
 * While there is a stage, only the stage consumes from the connection's chain and calls
 * sluice_conn_set_need() and sluice_conn_finish().
 */
typedef struct sluice_conn_stage {
    size_t size; /**< sizeof(sluice_conn_stage). */
    /**
     * Makes the stage of a connection that has sent and consumed nothing.
     * @param options   the library's, such as sluice_tls_stage_options; read only during the call
     * @param ret_stage untouched on failure
     * @return 0, or a negative errno
     */
    int (*begin)(sluice_conn *conn, const void *options, void **ret_stage);
    /** Frees it, with the bytes of its chain: in on_closed, or before the first turn. */
    void (*release)(void *stage);
    /**
     * For on_data: takes what has arrived. What it leaves for a later turn it requests by
     * sluice_conn_again(); a failure is final, and is returned again.
     * @return 1: the stage's chain has grown; 0: it has not; -ENODATA: the peer has ended the
     *         stream as the stage's protocol does; another negative errno: the stage has failed
     */
    int (*receive)(void *stage);
    /**
     * For on_end with error 0.
     * @return 0: the stream has ended as its sender intended; -EAGAIN: not all is taken: on_data
     *         is called for that, and the question is to be repeated after @c receive; another
     *         negative errno: it has not, or the stage has failed
     */
    int (*end)(void *stage);
    /** The bytes for framers. Owned by the stage. */
    sluice_chain *(*chain)(void *stage);
    /**
     * Takes bytes to be sent. The pieces are free for other use after the call.
     * @param ret_done bytes that were taken, also on failure
     * @return 0 (all), -EAGAIN (the rest after the next @c sent or @c receive), -ENOBUFS (no block:
     *         on_data is called to repeat it), or another negative errno: nothing can be sent any
     *         more; @c receive reports why, if the stage has failed
     */
    int (*send)(void *stage, const struct iovec *pieces, size_t count, size_t *ret_done);
    /** Bytes that wait for the kernel. */
    size_t (*queued)(const void *stage);
    /** For on_gather: writes up to @p max pieces of what is queued. @return pieces written */
    size_t (*gather)(void *stage, struct iovec *iov, size_t max);
    /** For on_sent. */
    void (*sent)(void *stage, size_t bytes);
    /**
     * For on_gather: whether it may return the user's own pieces in place of the stage's, as where
     * the kernel encrypts. on_sent passes their bytes to @c sent.
     */
    bool (*may_pass)(void *stage);
    /** Before sluice_conn_close(): tells the peer, as far as the socket takes it at once. */
    void (*finish)(void *stage);
} sluice_conn_stage;

/** A listening socket on a loop; opaque. */
typedef struct sluice_listener sluice_listener;

/**
 * Called for each accepted connection. The descriptor (blocking mode, close-on-exec) belongs to the
 * callee.
 */
typedef void sluice_listener_fn(sluice_listener *listener, int fd, void *user);

/**
 * Binds a stream socket and listens. IPv6 sockets accept IPv6 only. When descriptors run out,
 * accepting pauses for 100 milliseconds at a time; connections wait in the backlog.
 * @param address IPv4 or IPv6; port 0 lets the system choose
 * @return 0, -ENOMEM, -EINVAL, or the errno of socket(2), bind(2), listen(2), such as -EADDRINUSE
 */
SLUICE_API int sluice_listener_new(sluice_loop *loop, const struct sockaddr *address, socklen_t length,
                                   sluice_listener_fn *accepted, void *user, sluice_listener **ret_listener);

/**
 * Accepts on a socket that already listens, for example one opened by a service manager or by a
 * previous process. On epoll it is made non-blocking, in all processes that share it.
 * @param fd a stream socket; owned and closed by the listener on success, kept by the caller on
 *           failure
 * @return 0, -EINVAL (not a listening stream socket, or no callback), -EBADF, -ENOTSOCK, -ENOMEM
 */
SLUICE_API int sluice_listener_adopt(sluice_loop *loop, int fd, sluice_listener_fn *accepted, void *user,
                                     sluice_listener **ret_listener);

/**
 * The socket, for example to pass a duplicate to another process. Owned by the listener; valid
 * until the listener is stopped or freed.
 */
SLUICE_API int sluice_listener_fd(const sluice_listener *listener);

/** The user pointer passed to the listener's callbacks. */
SLUICE_API void *sluice_listener_user(const sluice_listener *listener);

/** Called once when a listener has stopped. */
typedef void sluice_listener_stopped_fn(void *user);

/**
 * Stops accepting without losing connections. Connections that the kernel has already accepted are
 * still passed to the listener's callback; then the socket is closed, @p stopped is called with the
 * listener's user pointer, and the listener is freed. Later connections wait in the backlog for
 * another process that has the socket open, or are refused if there is none.
 * @param listener not to be used after @p stopped. sluice_listener_free() before that drops the
 *                 remaining connections and the call of @p stopped
 * @return 0, -EINVAL (no callback), -EALREADY (already stopping)
 */
SLUICE_API int sluice_listener_stop(sluice_listener *listener, sluice_listener_stopped_fn *stopped);

/**
 * Stops accepting and closes the socket. Connections already passed to the callback are not
 * affected; others that the kernel has accepted are closed. NULL is allowed.
 */
SLUICE_API void sluice_listener_free(sluice_listener *listener);

/** The bound address. @return 0, -errno of getsockname(2) */
SLUICE_API int sluice_listener_address(const sluice_listener *listener, struct sockaddr_storage *ret_address);

#ifdef __cplusplus
}
#endif

#endif
