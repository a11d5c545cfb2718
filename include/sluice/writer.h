/**
 * @file writer.h
 * A queue of data to send on a connection: headers by copy, slices and the caller's memory by
 * reference.
 *
 * Data queued during a turn is sent in order, automatically, at the beginning of the next turn, in
 * one send of up to 256 pieces on io_uring; further pieces follow in later turns.
 *
 * The connection's user forwards two events. on_gather may add pieces of its own, if on_sent passes
 * only the writer's bytes to the writer:
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

/** A queue of data to send; opaque. */
typedef struct sluice_writer sluice_writer;

enum {
    SLUICE_WRITER_COPY_MAX = 2048, /**< Maximum size of one sluice_writer_copy(), bytes. */
    /** Maximum number of items in one queue. Consecutive copies share an item. */
    SLUICE_WRITER_ITEMS_MAX = 65536,
};

/**
 * Returns borrowed memory: the library no longer uses it, because the kernel has taken the bytes or
 * because they will not be sent. The callback may queue more and may close the connection; it must
 * not free the writer.
 */
typedef void sluice_writer_released_fn(const void *data, size_t size, void *user);

/** State and counters of a writer. */
typedef struct sluice_writer_stats {
    size_t size;         /**< sizeof(sluice_writer_stats), set by the caller. */
    size_t limit;        /**< Maximum number of bytes queued. */
    size_t queued_bytes; /**< Bytes queued that the kernel has not taken. */
    size_t queued_items; /**< Items queued. */
    uint64_t sent_bytes; /**< Bytes that the kernel has taken, in total. */
    uint64_t sent_items; /**< Items that the kernel has taken completely, in total. */
} sluice_writer_stats;

/**
 * Makes a writer for a connection, new or in use. The caller owns the writer. Its memory grows to
 * the longest queue so far and is kept; below that length, queueing does not allocate.
 * @param limit maximum number of bytes queued, 1 to SIZE_MAX. A slice counts with its length, not
 *              with the blocks that it holds
 * @return 0, -EINVAL (a limit of 0, or no connection), -EPIPE (closed or failed), -ENOMEM
 */
SLUICE_API int sluice_writer_new(sluice_conn *conn, size_t limit, sluice_writer **ret_writer);

/**
 * Frees the writer. Queued data is not sent, and its memory is released. NULL is allowed.
 *
 * Call it in on_closed: the kernel no longer uses the memory, and queued data has already been
 * released. It may also be called later, or earlier, for example when the protocol changes. If the
 * kernel is reading queued bytes at that moment (between on_gather and on_sent), it is unknown how
 * many of them reach the peer. The connection is then closed, and the queued memory is released
 * before on_closed, when the kernel is done with it. Afterwards no event may be forwarded.
 */
SLUICE_API void sluice_writer_free(sluice_writer *writer);

/**
 * Queues a copy, for headers and other framing: small data without memory that lasts. Consecutive
 * copies are stored contiguously and sent as one piece. Queue payload with the other two calls.
 * @param data free for other use after the call. May be NULL if @p size is 0; then nothing is
 *             queued
 * @return 0, -EMSGSIZE (over SLUICE_WRITER_COPY_MAX or the limit: it never fits), -EAGAIN (no room
 *         now), -EPIPE (the connection is closed or has failed), -ENOMEM; on failure nothing is
 *         queued
 */
SLUICE_API int sluice_writer_copy(sluice_writer *writer, const void *data, size_t size);

/**
 * Queues a slice, with references of its own: the caller keeps @p slice and may release it at once.
 * The references are dropped block by block as the kernel takes the bytes.
 * @return 0 (an empty slice queues nothing), -EMSGSIZE (over the limit: it never fits), -EAGAIN (no
 *         room now), -EPIPE (the connection is closed or has failed), -ENOMEM; on failure nothing
 *         is queued
 */
SLUICE_API int sluice_writer_slice(sluice_writer *writer, const sluice_slice *slice);

/**
 * Queues the caller's memory, which must stay valid and unchanged until @p released is called. That
 * happens exactly once: when the kernel has taken all of it, in sluice_writer_free(), or just
 * before the connection's on_closed. It never happens inside this call, even if @p size is 0: then
 * @p released is called when all data queued before has been sent.
 * @param data     may be NULL if @p size is 0
 * @param released may be NULL if the memory outlives the writer's use of it
 * @return 0, -EMSGSIZE (over the limit: it never fits), -EAGAIN (no room now), -EPIPE (the
 *         connection is closed or has failed), -ENOMEM; on failure nothing is queued and @p
 *         released is not called
 */
SLUICE_API int sluice_writer_borrow(sluice_writer *writer, const void *data, size_t size,
                                    sluice_writer_released_fn *released, void *user);

/**
 * Sends at once what the socket accepts without waiting, with a system call of its own; the rest is
 * sent in the loop's next turn. Use it before the caller is busy for longer than the peer should
 * wait; otherwise the loop sends for many connections at once. Does nothing while an earlier send
 * of this connection is pending. on_sent is not called for these bytes. Not for a connection whose
 * on_gather adds pieces of its own. Errors are reported by on_end.
 * @return 0, -EPIPE (the connection is closed or has failed)
 */
SLUICE_API int sluice_writer_flush(sluice_writer *writer);

/** For on_gather: writes up to @p max pieces. @return pieces written; 0 when nothing is queued */
SLUICE_API size_t sluice_writer_gather(sluice_writer *writer, struct iovec *iov, size_t max);

/**
 * For on_sent: removes the first @p bytes of the pieces last returned by sluice_writer_gather(),
 * which the kernel has taken. A larger number means all of them. Calls the release callbacks of
 * memory that is no longer used; they may close the connection.
 */
SLUICE_API void sluice_writer_sent(sluice_writer *writer, size_t bytes);

/** Bytes queued that the kernel has not taken: 0 when everything has been sent. */
SLUICE_API size_t sluice_writer_queued(const sluice_writer *writer);

/**
 * Bytes that can be queued now: 0 when the queue is full, in bytes or in items. It grows in
 * sluice_writer_sent().
 */
SLUICE_API size_t sluice_writer_room(const sluice_writer *writer);

/** Reads the counters. @return 0, -EINVAL (ret_stats->size is not set; nothing is written) */
SLUICE_API int sluice_writer_get_stats(const sluice_writer *writer, sluice_writer_stats *ret_stats);

#ifdef __cplusplus
}
#endif

#endif
