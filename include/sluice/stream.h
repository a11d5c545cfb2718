/**
 * @file stream.h
 * A connection in straight-line style: a call waits until its bytes are there, and runs the loop
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
 * everything else on the loop goes on: its calls are made from inside the wait. There a call of any
 * stream succeeds as long as it need not wait; else it says -EBUSY and has done nothing. Nor may
 * such a call free the stream that waits.
 *
 * A stream whose turn to be read does not come holds no more of the pool than its options allow:
 * what else its peer sends stays with the kernel.
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
    uint32_t timeout_ms; /**< As sluice_stream_set_timeout() has it. Default 0: none. */
    /**
     * Received bytes that may wait to be read before receiving pauses; more where a call needs more
     * at one time. What is on its way to the stream then comes on top. Default 262,144.
     */
    uint32_t read_ahead;
} sluice_stream_options;

/**
 * Takes over a connected stream socket and begins to receive with the loop's next turn. The
 * descriptor belongs to the stream on success.
 * @param loop    stays the caller's; when it is freed first, the stream can still be freed, and
 *                what had been received can be read
 * @param options settings, or NULL for the defaults
 * @return 0, -EINVAL (no descriptor), -ENOMEM
 */
SLUICE_API int sluice_stream_new(sluice_loop *loop, int fd, const sluice_stream_options *options,
                                 sluice_stream **ret_stream);

/**
 * Closes, and frees the stream, its reader and its writer. The peer hears of it with the loop's
 * next turn, or from sluice_loop_free(). What is queued and not sent is given back. NULL is
 * allowed. Not while a call of it waits.
 */
SLUICE_API void sluice_stream_free(sluice_stream *stream);

/**
 * The reader: the stream's. Its calls wait, and return what <sluice/reader.h> says, or
 *
 * - -ECONNRESET and the like: the connection has failed; and so a failure of the stream's writing
 *   that closed it.
 * - -ECANCELED: the connection was closed, or the loop freed.
 * - -EINTR: sluice_loop_stop() was called. Nothing is lost; the call may be made again.
 * - -EBUSY: it would have to wait inside a call of the loop.
 * - the error of sluice_loop_turn(): the loop is broken. Memory that was given to
 *   sluice_reader_read_into() is to be left alone until sluice_loop_free().
 *
 * sluice_reader_read_into() has the kernel write to the caller's memory when 32,768 bytes or more
 * are to come; fewer are cheaper to copy. Do not reset the reader or give it another source.
 */
SLUICE_API sluice_reader *sluice_stream_reader(sluice_stream *stream);

/**
 * What has been received and not consumed, for a framer; sluice_reader_fill() gets it more. The
 * stream's. To be asked for again after each call that waits, since the chain moves when the
 * connection closes.
 */
SLUICE_API sluice_chain *sluice_stream_chain(sluice_stream *stream);

/**
 * The connection, for its descriptor and the like, and to close it; its events, pauses and times
 * are the stream's. NULL when it is closed for good.
 */
SLUICE_API sluice_conn *sluice_stream_conn(const sluice_stream *stream);

/**
 * The writer, for headers and slices; the stream's. What is queued leaves with the next turn, or
 * sooner by a flush.
 */
SLUICE_API sluice_writer *sluice_stream_writer(sluice_stream *stream);

/**
 * How long each call may wait in all; the reader's calls too. @param milliseconds 0: for any length
 */
SLUICE_API void sluice_stream_set_timeout(sluice_stream *stream, uint32_t milliseconds);

/**
 * Sends the caller's memory in place, behind what is queued, and waits until the kernel has taken
 * it. The memory is not in use after the call. When that cannot be had otherwise, because the time
 * is over or the loop stopped in the middle, the connection is closed: the peer has got a part, and
 * nothing can follow. What had been received can still be read.
 * @param ret_done bytes that the kernel has taken, also on failure; may be NULL
 * @return 0 (all of them), -ETIMEDOUT, -EINTR (sluice_loop_stop()), -EBUSY (inside a call of the
 *         loop: nothing has been done), -EAGAIN (too many items are queued: nothing has been done),
 *         -ENOMEM (the same), -ECANCELED (the connection was closed), or what it has failed with,
 *         such as -EPIPE or -ECONNRESET
 */
SLUICE_API int sluice_stream_write(sluice_stream *stream, const void *memory, size_t n, size_t *ret_done);

/**
 * Waits until the kernel has taken what is queued.
 * @return 0, -ETIMEDOUT or -EINTR (the rest stays queued; the call may be made again), or as
 *   sluice_stream_write()
 */
SLUICE_API int sluice_stream_flush(sluice_stream *stream);

#ifdef __cplusplus
}
#endif

#endif
