/**
 * @file writer.h
 * A queue of what is to be sent on a connection: headers by copy, slices and the caller's memory by
 * reference.
 *
 * What is queued during a turn leaves in order, and by itself, in one send at the beginning of the
 * next turn, however many pieces it is made of (up to what one send holds, 256 pieces on io_uring;
 * the rest follows a turn later).
 *
 * The connection's user forwards two events. on_gather may also give pieces of its own, as long as
 * on_sent gives the writer only the bytes that were the writer's:
 * @code
 * static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
 *     struct session *session = user;
 *     return sluice_writer_gather(session->writer, iov, max);
 * }
 *
 * static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
 *     struct session *session = user;
 *     sluice_writer_sent(session->writer, bytes);
 *     if (sluice_writer_queued(session->writer) == 0)
 *         session_all_sent(session);
 * }
 * @endcode
 *
 * Threads: the loop's.
 */
#ifndef SLUICE_WRITER_H
#define SLUICE_WRITER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <sluice/conn.h>
#include <sluice/slice.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A queue of what is to be sent; opaque. */
typedef struct sluice_writer sluice_writer;

enum {
    SLUICE_WRITER_COPY_MAX = 2048, /**< Most bytes of one sluice_writer_copy(). */
    /** Most items in one queue. Bytes copied one after another share an item. */
    SLUICE_WRITER_ITEMS_MAX = 65536,
};

/**
 * Gives lent memory back: the library is done with it, because the kernel has taken the bytes or
 * because they will not be sent. It may queue more and may close the connection; it must not free
 * the writer.
 */
typedef void sluice_writer_released_fn(const void *data, size_t size, void *user);

/** What a writer holds, and what it has sent. */
typedef struct sluice_writer_stats {
    size_t size;         /**< sizeof(sluice_writer_stats), set by the caller. */
    size_t limit;        /**< Most bytes queued. */
    size_t queued_bytes; /**< Bytes queued that the kernel has not taken. */
    size_t queued_items; /**< Items that they are made of. */
    uint64_t sent_bytes; /**< Bytes that the kernel has taken, ever. */
    uint64_t sent_items; /**< Items that it has taken whole, ever. */
} sluice_writer_stats;

/**
 * Makes a writer for a connection, which may be in the middle of its life. The caller owns it. Its
 * memory grows with the longest queue that there has been, and is kept: a queue that grows no
 * longer allocates nothing.
 * @param limit most bytes queued, 1 to SIZE_MAX. The bytes count, not the blocks that a slice of
 *   them holds
 * @return 0, -EINVAL (a limit of 0, or no connection), -EPIPE (closed or failed), -ENOMEM
 */
SLUICE_API int sluice_writer_new(sluice_conn *conn, size_t limit, sluice_writer **ret_writer);

/**
 * Frees the writer, and gives back what is queued; it is not sent. NULL is allowed.
 *
 * The place for it is on_closed: the kernel is done, and what was queued has already been given
 * back. It may come later, and also earlier, say when the protocol changes. If the kernel is
 * reading queued bytes at that moment (between on_gather and on_sent), nobody can say how much of
 * them the peer will see: the connection is closed, and what is queued is given back when the
 * kernel is done with it, before on_closed. Afterwards no event may be forwarded.
 */
SLUICE_API void sluice_writer_free(sluice_writer *writer);

/**
 * Queues a copy: for headers and other framing, which is small and has no memory that lasts. Copies
 * that follow each other lie together and leave as one piece. Payload is queued by the other two
 * calls.
 * @param data free for other use after the call; may be NULL when @p size is 0, and then nothing is
 *   queued
 * @return 0, -EMSGSIZE (over SLUICE_WRITER_COPY_MAX, or over the limit: it never fits), -EAGAIN (no
 *         room now), -EPIPE (the connection is closed or has failed), -ENOMEM; on failure nothing
 *         is queued
 */
SLUICE_API int sluice_writer_copy(sluice_writer *writer, const void *data, size_t size);

/**
 * Queues a slice, with references of its own: @p slice stays the caller's and may be released at
 * once. The references go as the kernel takes the bytes, block by block.
 * @return 0, -EMSGSIZE (over the limit: it never fits), -EAGAIN (no room now), -EPIPE (the
 *         connection is closed or has failed), -ENOMEM; on failure nothing is queued. Nothing is
 *         queued of an empty slice either
 */
SLUICE_API int sluice_writer_slice(sluice_writer *writer, const sluice_slice *slice);

/**
 * Queues the caller's memory, which must stay valid and unchanged until @p released is called. That
 * happens exactly once, in every case: when the kernel has taken all of it, or with
 * sluice_writer_free(), or just before the connection's on_closed. It never happens inside this
 * call, also when @p size is 0: then it comes when what was queued before is sent.
 * @param data     may be NULL when @p size is 0
 * @param released may be NULL, for memory that lasts
 * @return 0, -EMSGSIZE (over the limit: it never fits), -EAGAIN (no room now), -EPIPE (the
 *         connection is closed or has failed), -ENOMEM; on failure nothing is queued and @p
 *         released is not called
 */
SLUICE_API int sluice_writer_borrow(sluice_writer *writer, const void *data, size_t size,
                                    sluice_writer_released_fn *released, void *user);

/**
 * Sends now, with a system call of its own, what the socket takes without waiting; the rest goes
 * with the loop's next turn. For a caller that is about to be busy for longer than the peer should
 * wait: otherwise the loop does it, for many connections at once. Does nothing while the kernel has
 * an earlier send of this connection. on_sent is not called for it. Not for a connection whose
 * on_gather has pieces of its own. Errors come by on_end.
 * @return 0, -EPIPE (the connection is closed or has failed)
 */
SLUICE_API int sluice_writer_flush(sluice_writer *writer);

/** For on_gather: writes up to @p max pieces. @return pieces written; 0 when nothing is queued */
SLUICE_API size_t sluice_writer_gather(sluice_writer *writer, struct iovec *iov, size_t max);

/**
 * For on_sent: the kernel has taken so many bytes of what sluice_writer_gather() gave last. More
 * than that is taken for all of it. Calls what is to be called for memory that is done with; the
 * connection may be closed by it.
 */
SLUICE_API void sluice_writer_sent(sluice_writer *writer, size_t bytes);

/** Bytes queued that the kernel has not taken: 0 when all is sent. */
SLUICE_API size_t sluice_writer_queued(const sluice_writer *writer);

/**
 * Bytes that can be queued now: 0 when full, by bytes or by items. To be asked after
 * sluice_writer_sent().
 */
SLUICE_API size_t sluice_writer_room(const sluice_writer *writer);

/** Reads the counters. @return 0, -EINVAL (a size that was not set; nothing is written) */
SLUICE_API int sluice_writer_get_stats(const sluice_writer *writer, sluice_writer_stats *ret_stats);

#ifdef __cplusplus
}
#endif

#endif
