/**
 * @file conn.h
 * Connections and listeners on a loop.
 *
 * A connection receives into its chain as long as it is open and not paused, and calls back. To
 * send, the user says that there is something (sluice_conn_want_send()); once a turn the loop asks
 * for the pieces and hands them to the kernel in one operation, in place.
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
 * What a connection calls. Any may be NULL, and any may close the connection. None is called from
 * inside a sluice_conn_ call, and after sluice_conn_close() only on_closed is (and before it the
 * callback of a sluice_conn_receive_into() that is under way).
 */
typedef struct sluice_conn_events {
    size_t size; /**< sizeof(sluice_conn_events). */

    /** The chain has grown, and holds at least what sluice_conn_set_need() said. */
    void (*on_data)(sluice_conn *conn, void *user);

    /**
     * Receiving has ended: @p error is 0 when the peer has finished (sending may go on); -ETIMEDOUT
     * when nothing has come for as long as sluice_conn_set_timeout() allows (sending may go on, and
     * so may receiving, after sluice_conn_resume()); else another negative errno: the connection
     * has failed, and nothing more is received or sent (-ECONNABORTED where the kernel has given
     * the peer up and calls it ETIMEDOUT). A failure may follow an end. Bytes that came before are
     * in the chain. Close the connection when done with it.
     */
    void (*on_end)(sluice_conn *conn, int error, void *user);

    /**
     * What is to be sent next: writes up to @p max pieces. They must stay valid and unchanged until
     * on_sent has accounted for them, or on_closed.
     * @return pieces written; 0 when there is nothing to send
     */
    size_t (*on_gather)(sluice_conn *conn, struct iovec *iov, size_t max, void *user);

    /**
     * The kernel has taken the first @p bytes of what on_gather gave last; the rest was not sent,
     * and is asked for again. In any case it is done with all of those pieces: none of them need be
     * valid any more, and what on_gather gives next may be others. With 0 bytes the socket had no
     * room, as a rule: on_gather is asked when it has, which may be never where the peer does not
     * read. Until then the connection holds nothing of what is to be sent, and whoever sends may
     * drop what has not been begun.
     */
    void (*on_sent)(sluice_conn *conn, size_t bytes, void *user);

    /**
     * The last call: the kernel is done with everything, the descriptor is closed, the connection
     * goes.
     */
    void (*on_closed)(sluice_conn *conn, void *user);
} sluice_conn_events;

/**
 * Takes over a connected stream socket and begins to receive. The descriptor belongs to the
 * connection on success.
 * @param events  must outlive the connection
 * @return 0, -ENOMEM, -EINVAL (no descriptor, no events, or their size was not set)
 */
SLUICE_API int sluice_conn_new(sluice_loop *loop, int fd, const sluice_conn_events *events, void *user,
                               sluice_conn **ret_conn);

/**
 * Closes: from now on only on_closed is called, later (and before it the callback of a
 * sluice_conn_receive_into()). Blocks that the kernel may still write to come back when it is done.
 * Data not yet taken by the kernel is not sent. Closing twice, and NULL, are allowed.
 */
SLUICE_API void sluice_conn_close(sluice_conn *conn);

/** What has been received and not consumed. The connection's. */
SLUICE_API sluice_chain *sluice_conn_chain(sluice_conn *conn);

/** The loop of the connection. */
SLUICE_API sluice_loop *sluice_conn_loop(const sluice_conn *conn);

/** The descriptor, for socket options and names; the connection's. */
SLUICE_API int sluice_conn_fd(const sluice_conn *conn);

/** The pointer that the connection's events get. */
SLUICE_API void *sluice_conn_user(const sluice_conn *conn);

/**
 * Exchanges the events and their user value, for a connection that changes its protocol.
 * @return 0, -EINVAL (no events, or a size that was not set; nothing has changed)
 */
SLUICE_API int sluice_conn_set_events(sluice_conn *conn, const sluice_conn_events *events, void *user);

/**
 * on_data is not called before the chain holds @p bytes, or the peer has finished; 0 and 1 mean
 * any. Stays until changed. Where the chain held too little for the need before, and holds enough
 * for this one, on_data follows in the next turn although nothing has come.
 *
 * On a loop without a batching window, the kernel is asked not to tell of less either
 * (SO_RCVLOWAT), where a piece has not been enough, hundreds of bytes are lacking and the
 * connection has no timeout: a frame that comes in many pieces then costs one wake-up, and is not
 * delivered a moment later. sluice_loop_options.no_low_water leaves the socket as it is.
 */
SLUICE_API void sluice_conn_set_need(sluice_conn *conn, size_t bytes);

/**
 * Has on_data called again in a later turn, whether or not more has come and whatever is needed:
 * for a callback that stops before everything is done, so that other connections are served
 * meanwhile. Connections that have asked for this are called one after the other, behind those that
 * have not, and share 5 milliseconds of each turn. on_end is put off until on_data has returned
 * without asking again. From any callback of the loop; asking twice is asking once. No effect
 * behind sluice_conn_close() and sluice_conn_detach(); a sluice_conn_receive_into() that is under
 * way is waited for.
 *
 * Receiving goes on meanwhile: sluice_conn_pause() bounds what gathers in the chain.
 */
SLUICE_API void sluice_conn_again(sluice_conn *conn);

/**
 * Whether as much may be received at once as there is, which is what a connection begins with, or
 * one block at a time. The latter is for a protocol whose next bytes say where those behind them
 * go: what comes into blocks ahead of sluice_conn_receive_into(), and must be copied, is a block at
 * most. Set it before such bytes are asked for: what the kernel has already begun to fill still
 * arrives. Every block then takes a turn of its own.
 */
SLUICE_API void sluice_conn_set_read_ahead(sluice_conn *conn, bool read_ahead);

/**
 * Chooses the size of the blocks that are received into: one of the sizes that the loop's pool has,
 * each with a stock of its own with the kernel; 0: the size of the pool, or class, that the loop
 * was made with, which is what a connection begins with. Small blocks hold little memory for small
 * messages; large ones mean few pieces for large messages. At any time: what is in the chain stays
 * there, and what the kernel has already begun to fill still arrives. When blocks of one size run
 * short, connections with other sizes are not held up: see sluice_pool_class().
 * @return 0, -EINVAL (the pool has no such blocks), -ENOBUFS (nobody has used the size before, and
 *         there is no memory left in the pool's budget), -ENOMEM, -EPIPE (the connection has been
 *         closed); on failure nothing has changed
 */
SLUICE_API int sluice_conn_set_block_size(sluice_conn *conn, uint32_t block_size);

/**
 * Stops receiving into blocks: what the kernel had already put into blocks still arrives. A
 * sluice_conn_receive_into() goes on.
 */
SLUICE_API void sluice_conn_pause(sluice_conn *conn);

/**
 * Whether receiving into blocks was held up at any time since this was last asked, or since the
 * connection was made: it was paused, or found no block. Then silence is not the peer's: whoever
 * measures it begins anew. An ended connection is not held up.
 */
SLUICE_API bool sluice_conn_was_held_up(sluice_conn *conn);

/** Receives again after a pause, or after the time of sluice_conn_set_timeout() was over. */
SLUICE_API void sluice_conn_resume(sluice_conn *conn);

/**
 * What sluice_conn_receive_into() has come to. The memory is the user's again. Another receive may
 * be asked for from inside, and the connection may be closed.
 * @param error 0: all bytes are there; -ENODATA: the peer has finished before; -ECANCELED:
 *              sluice_conn_receive_cancel() or sluice_conn_close() came before; -ETIMEDOUT: the
 *              time of sluice_conn_set_timeout() is over; else the connection has failed with this
 *              errno
 * @param done  bytes at the front of the memory that are the stream's next, and consumed; with
 *              error 0 all of them
 */
typedef void sluice_conn_received_fn(sluice_conn *conn, int error, size_t done, void *user);

/**
 * Receives the next @p n bytes into memory of the user's. What the chain holds is copied at once
 * (and counted in sluice_pool_stats.bytes_copied), and so is what the kernel is putting into blocks
 * at the moment. The rest the kernel writes straight into the memory (sluice_loop_stats.direct):
 * that takes no block, so it goes on under memory pressure, and in a connection that is paused.
 * Never more than @p n bytes are taken; what comes behind them is received into the chain as ever,
 * unless the connection is paused.
 *
 * Worth its while for values of many blocks: stopping what is armed for blocks, and beginning
 * again, costs a turn or two.
 *
 * Until @p received is called the memory is the kernel's, on_data and on_end are not called, and
 * the chain is to be left alone; a reader on it has no mark and nothing to skip. After the peer has
 * finished, or the connection has failed, what the chain holds can still be had this way.
 * @param memory   room for @p n bytes
 * @param received called exactly once when this returns 0, from a turn, never from inside this
 *   call; not otherwise
 * @return 1: all bytes are in the memory (at once for an @p n of 0); 0: @p received will be called;
 *         -EINVAL (no memory or no callback), -EBUSY (one is under way), -EPIPE (the connection has
 *         been closed)
 */
SLUICE_API int sluice_conn_receive_into(sluice_conn *conn, void *memory, size_t n, sluice_conn_received_fn *received,
                                        void *user);

/**
 * Ends the receive that is under way: its callback follows from a turn, once the kernel is done
 * with the memory, with what has come by then (and with error 0 where that is all). Bytes that come
 * later are received into the chain, unless the connection is paused. Without such a receive
 * nothing happens.
 */
SLUICE_API void sluice_conn_receive_cancel(sluice_conn *conn);

/**
 * How long the connection may receive nothing. Then receiving pauses, and on_end says -ETIMEDOUT:
 * no earlier, and soon after. A sluice_conn_receive_into() that is under way ends with -ETIMEDOUT
 * instead, and another may follow. Nothing is lost by it. Counted from this call, from
 * sluice_conn_resume() and sluice_conn_receive_into(), and from the last bytes that came; not while
 * receiving is paused, nor while the connection waits for a block. Cheap: it costs nothing per
 * byte, and one timer per connection that is looked at once in that time. No effect behind
 * sluice_conn_close().
 * @param milliseconds 0: for any length, which is the default
 * @return 0, -ENOMEM (for the first time only)
 */
SLUICE_API int sluice_conn_set_timeout(sluice_conn *conn, uint32_t milliseconds);

/**
 * Makes a reader as new (sluice_reader_reset()), over the connection's chain and with the
 * connection as its source. It never waits: where the chain does not hold enough, its calls say
 * -EAGAIN as long as more may come, -ENODATA when the peer has finished, -ETIMEDOUT when the time
 * of sluice_conn_set_timeout() was over and receiving has not been resumed, -ECANCELED after
 * sluice_conn_close(), and what the connection has failed with. Such a state is known to the reader
 * in the turn in which it comes, before on_end tells it.
 *
 * The reader is cut off when the connection goes, just before on_closed or the callback of
 * sluice_conn_detach(): it may still be used, but calls that need bytes say -ECANCELED, its mark is
 * lost (-ESTALE), and what it gave in place is void, until it is attached again or reset. The bytes
 * of a connection that goes on in another loop are in the handover. There, attach the reader to the
 * adopted connection, set its mark anew, and skip what it still owed: in the detached callback
 * sluice_reader_skipping() says how much. How far sluice_headers_read() has come stays with the
 * sluice_headers.
 * @param reader stays the caller's, to be freed at any time
 */
SLUICE_API void sluice_conn_attach_reader(sluice_conn *conn, sluice_reader *reader);

/** Says that on_gather has something. It is asked once per turn until it has nothing. */
SLUICE_API void sluice_conn_want_send(sluice_conn *conn);

/**
 * True from on_gather until on_sent, while the kernel may be reading the pieces; and while the
 * socket has no room for what on_gather gave last, which on_sent has told with 0 bytes.
 */
SLUICE_API bool sluice_conn_is_sending(const sluice_conn *conn);

/**
 * Tells the peer that nothing more will be sent. For after the last on_sent. @return 0, -errno of
 * shutdown(2)
 */
SLUICE_API int sluice_conn_finish(sluice_conn *conn);

/** What a connection has done since it was made, in all the loops that it has been in. */
typedef struct sluice_conn_stats {
    size_t size;             /**< sizeof(sluice_conn_stats), set by the caller. */
    uint64_t received_bytes; /**< Bytes received, into blocks and into the user's memory. */
    /** Receives that brought them: completions on io_uring, calls on epoll. */
    uint64_t receives;
    /** Times that it had to wait for a block, because there was none (-ENOBUFS). */
    uint64_t starved;
    uint64_t sent_bytes; /**< Bytes that the kernel has taken. */
    uint64_t sends;      /**< Sends by which it took them. */
    uint64_t blocked;    /**< Sends that found no room in the socket and had to wait for it. */
} sluice_conn_stats;

/**
 * Reads the counters. While the connection exists: in on_closed too.
 * @param ret_stats its size is set by the caller, and stays
 * @return 0, -EINVAL (a size that was not set; nothing is written)
 */
SLUICE_API int sluice_conn_get_stats(const sluice_conn *conn, sluice_conn_stats *ret_stats);

/**
 * A connection between two loops: what sluice_conn_detach() gives and sluice_conn_adopt() takes.
 * Whoever has it owns the descriptor and the slice, and may carry it to another thread.
 */
typedef struct sluice_conn_handover {
    int fd; /**< The socket; -1: this holds nothing. */
    /** What was received and not consumed; its blocks are of the pool of the loop that it left. */
    sluice_slice received;
    uint64_t consumed; /**< Bytes consumed before: sluice_chain_consumed() goes on from here. */
    /** Which stream it is: by this, framers that come along know it again. 0: another one. */
    uint64_t stream;
    uint64_t receives;   /**< Its counters, which go on: see sluice_conn_stats. */
    uint64_t starved;    /**< The same. */
    uint64_t sent_bytes; /**< The same. */
    uint64_t sends;      /**< The same. */
    uint64_t blocked;    /**< The same. */
    bool ended;          /**< Nothing more will be received. */
    bool told;           /**< and on_end has said so. */
    int error;           /**< What the connection has failed with, or 0. */
} sluice_conn_handover;

/**
 * The last call of a connection that leaves its loop, in place of on_closed: the kernel is done
 * with everything, and the connection goes. From a turn, never from inside sluice_conn_detach().
 * @param handover the callee's to copy, and then to adopt or discard
 */
typedef void sluice_conn_detached_fn(const sluice_conn_handover *handover, void *user);

/**
 * Takes the connection out of its loop, for another one to go on with it: receiving stops, and once
 * the kernel has given back what it had, @p detached gets the descriptor, the bytes that nobody has
 * consumed, and how the connection stands. Nothing is lost by it: what arrives meanwhile is among
 * those bytes, or still with the kernel. A peer that ends or fails meanwhile is told to who adopts.
 * Until @p detached no event is called, and no call of the connection does anything but
 * sluice_conn_close(), which has it closed here after all: then on_closed comes, and @p detached
 * does not. A writer that is tied to the connection loses it, as at its end; so does an attached
 * reader: see sluice_conn_attach_reader(). Framers go along as they are, with a part of a message
 * or without, and go on behind sluice_conn_adopt(); the framer of a message that was delivered
 * before releases its blocks in the new thread.
 *
 * All that was to be sent must have gone: who has more in mind sends it in the other loop.
 * @return 0, -EINVAL (no callback), -EBUSY (a send or a sluice_conn_receive_into() is under way;
 *         nothing has changed), -EPIPE (it has been closed, or is leaving already)
 */
SLUICE_API int sluice_conn_detach(sluice_conn *conn, sluice_conn_detached_fn *detached, void *user);

/**
 * Goes on with a connection in this loop; on the loop's thread. The bytes in hand come first in its
 * chain, by reference: they stay blocks of the other pool, which may be another thread's (see
 * sluice_chain_append_slice()). on_data tells of them in the next turn, and on_end of an end that
 * nobody has been told of. Else the connection is a new one: need, timeout, block size and the like
 * are as they begin, and it receives.
 * @param handover emptied on success; untouched on failure
 * @return 0, -EINVAL (an empty handover, no events), -ENOBUFS (too many views in use), -ENOMEM
 */
SLUICE_API int sluice_conn_adopt(sluice_loop *loop, sluice_conn_handover *handover, const sluice_conn_events *events,
                                 void *user, sluice_conn **ret_conn);

/** Closes the socket and gives the bytes back. One that holds nothing is allowed. Any thread. */
SLUICE_API void sluice_conn_handover_discard(sluice_conn_handover *handover);

/** A listening socket on a loop; opaque. */
typedef struct sluice_listener sluice_listener;

/**
 * What a listener calls for each connection that it accepts. The descriptor (blocking mode,
 * close-on-exec) belongs to the callee.
 */
typedef void sluice_listener_fn(sluice_listener *listener, int fd, void *user);

/**
 * Binds a stream socket and listens. IPv6 sockets take IPv6 only. When descriptors run out,
 * accepting pauses for 100 milliseconds at a time; the peers wait in the backlog.
 * @param address IPv4 or IPv6; port 0 lets the system choose
 * @return 0, -ENOMEM, -EINVAL, or the errno of socket(2), bind(2), listen(2), such as -EADDRINUSE
 */
SLUICE_API int sluice_listener_new(sluice_loop *loop, const struct sockaddr *address, socklen_t length,
                                   sluice_listener_fn *accepted, void *user, sluice_listener **ret_listener);

/**
 * Accepts on a socket that listens already, such as one that a service manager has opened, or the
 * process before this one. On epoll it is made non-blocking, which it then is for all processes
 * that have it.
 * @param fd a stream socket; the listener's on success, which closes it; the caller's on failure
 * @return 0, -EINVAL (not a stream socket that listens, no callback), -EBADF, -ENOTSOCK, -ENOMEM
 */
SLUICE_API int sluice_listener_adopt(sluice_loop *loop, int fd, sluice_listener_fn *accepted, void *user,
                                     sluice_listener **ret_listener);

/**
 * The socket, for another process to go on with: who gives it away gives a duplicate. The
 * listener's; valid until it is stopped or freed.
 */
SLUICE_API int sluice_listener_fd(const sluice_listener *listener);

/** The pointer that the listener's callbacks get. */
SLUICE_API void *sluice_listener_user(const sluice_listener *listener);

/** What a listener that has stopped calls, once. */
typedef void sluice_listener_stopped_fn(void *user);

/**
 * Stops accepting without losing a connection: those that the kernel has accepted already are still
 * given to the listener's callback; then the socket is closed, @p stopped is called with the
 * listener's user pointer, and the listener is gone. From then on what comes stays in the backlog
 * for whoever else has the socket; without anybody, it is refused.
 * @param listener not to be used after @p stopped; sluice_listener_free() before it loses what is
 *                 still to come, and the call of @p stopped
 * @return 0, -EINVAL (no callback), -EALREADY (it is stopping)
 */
SLUICE_API int sluice_listener_stop(sluice_listener *listener, sluice_listener_stopped_fn *stopped);

/**
 * Stops accepting and closes. Connections that have been given to the callback are not touched;
 * others that the kernel has accepted are closed. NULL is allowed.
 */
SLUICE_API void sluice_listener_free(sluice_listener *listener);

/** The address it is bound to. @return 0, -errno of getsockname(2) */
SLUICE_API int sluice_listener_address(const sluice_listener *listener, struct sockaddr_storage *ret_address);

#ifdef __cplusplus
}
#endif

#endif
