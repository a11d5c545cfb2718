/**
 * @file stream.h
 * Blocking calls on a connection: a call waits until its bytes have arrived, and runs the loop
 * meanwhile.
 * @code
 * sluice_stream *stream;
 * int error = sluice_stream_new(loop, fd, &(sluice_stream_options){.timeout_ms = 5000}, &stream);
 * if (!error)
 *     error = sluice_stream_write(stream, "PING\r\n", 6, NULL);
 * if (!error)
 *     error = sluice_reader_line(sluice_stream_reader(stream), scratch, sizeof scratch, &line,
 *     &length);
 * sluice_stream_free(stream);
 * @endcode
 *
 * Any number of streams, connections and timers can share a loop. While a call of one stream waits,
 * it runs the loop, so the callbacks of everything else on the loop run inside the wait. In such a
 * callback, calls of any stream succeed if they need not wait; otherwise they return -EBUSY and do
 * nothing. The callback must not free the stream that waits.
 *
 * A stream that is not being read holds no more of the pool than its options allow; further data of
 * the peer stays in the kernel.
 *
 * Threads: the loop's.
 */
#ifndef SLUICE_STREAM_H
#define SLUICE_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include <sluice/chain.h>
#include <sluice/conn.h>
#include <sluice/loop.h>
#include <sluice/reader.h>
#include <sluice/visibility.h>
#include <sluice/writer.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A connected stream socket whose calls wait; opaque. */
typedef struct sluice_stream sluice_stream;

/** Settings of a stream. Zero in any field means its default. */
typedef struct sluice_stream_options {
    size_t size;         /**< sizeof(sluice_stream_options). */
    uint32_t timeout_ms; /**< Milliseconds: see sluice_stream_set_timeout(). Default 0: no limit. */
    /**
     * Receiving pauses while this many received bytes are unread, or more if a call needs more at
     * once. Data already on its way can exceed it. Default 262,144.
     */
    uint32_t read_ahead;
} sluice_stream_options;

/**
 * Takes over a connected stream socket and starts to receive with the loop's next turn. On success
 * the descriptor belongs to the stream.
 * @param loop    owned by the caller. If it is freed first, the stream can still be freed, and
 *                received bytes can still be read
 * @param options settings, or NULL for the defaults
 * @return 0, -EINVAL (no descriptor), -ENOMEM
 */
SLUICE_API int sluice_stream_new(sluice_loop *loop, int fd, const sluice_stream_options *options,
                                 sluice_stream **ret_stream);

/**
 * Closes the connection and frees the stream, its reader and its writer. The socket is closed in
 * the loop's next turn or in sluice_loop_free(). Queued data is dropped and its memory released.
 * NULL is allowed. Not allowed while a call of this stream waits.
 */
SLUICE_API void sluice_stream_free(sluice_stream *stream);

/**
 * The reader, owned by the stream. Its calls wait. They return the errors listed in
 * <sluice/reader.h>, or
 *
 * - -ECONNRESET and similar: the connection has failed, including a failed write that closed it.
 * - -ECANCELED: the connection was closed, or the loop was freed.
 * - -EINTR: sluice_loop_stop() was called. No bytes are lost; the call may be repeated.
 * - -EBUSY: the call would have to wait inside a callback of the loop.
 * - the error of sluice_loop_turn(): the loop is broken. Do not touch memory passed to
 *   sluice_reader_read_into() until sluice_loop_free().
 *
 * sluice_reader_read_into() lets the kernel write into the caller's memory if at least 32,768 bytes
 * remain; copying fewer is cheaper. Do not reset the reader or change its source.
 */
SLUICE_API sluice_reader *sluice_stream_reader(sluice_stream *stream);

/**
 * Received, unconsumed bytes, for a framer; sluice_reader_fill() adds more. Owned by the stream.
 * Get the pointer again after each call that waits: the chain moves when the connection closes.
 */
SLUICE_API sluice_chain *sluice_stream_chain(sluice_stream *stream);

/**
 * The connection, for its descriptor and similar, and to close it. Its events, pauses and timeouts
 * are controlled by the stream. NULL once it is closed.
 */
SLUICE_API sluice_conn *sluice_stream_conn(const sluice_stream *stream);

/**
 * The writer, for headers and slices, owned by the stream. Queued data is sent in the next turn, or
 * earlier by a flush.
 */
SLUICE_API sluice_writer *sluice_stream_writer(sluice_stream *stream);

/**
 * Limits the total waiting time of each call, including the reader's calls. @param milliseconds 0:
 * no limit
 */
SLUICE_API void sluice_stream_set_timeout(sluice_stream *stream, uint32_t milliseconds);

/**
 * Sends the caller's memory in place, after the queued data, and waits until the kernel has taken
 * all of it. The memory is no longer in use when the call returns. If the timeout expires or the
 * loop is stopped in the middle, the library closes the connection to ensure this: the peer has
 * received a part, and nothing can follow. Bytes received before can still be read.
 * @param ret_done bytes that the kernel has taken, also on failure; may be NULL
 * @return 0 (all of them), -ETIMEDOUT, -EINTR (sluice_loop_stop()), -EBUSY (inside a callback of
 *         the loop; nothing is done), -EAGAIN (too many items are queued; nothing is done), -ENOMEM
 *         (nothing is done), -ECANCELED (the connection was closed), or the error of the
 *         connection, such as -EPIPE or -ECONNRESET
 */
SLUICE_API int sluice_stream_write(sluice_stream *stream, const void *memory, size_t n, size_t *ret_done);

/**
 * Waits until the kernel has taken all queued data.
 * @return 0, -ETIMEDOUT or -EINTR (the rest stays queued; the call may be repeated), or an error as
 *         for sluice_stream_write()
 */
SLUICE_API int sluice_stream_flush(sluice_stream *stream);

#ifdef __cplusplus
}
#endif

#endif
