/**
 * @file file_writer.h
 * Writing a file on a loop: slices go to the disk from the blocks they were received into.
 *
 * A writer is a queue of what is to be done to one file, in order: bytes to be written, places to
 * go on at, syncing, renaming, and calls of the user's that may block. One thing is under way at a
 * time, and a write takes all the bytes at the front of the queue that fit into one call. Nothing
 * here waits for the disk: on io_uring the kernel writes, syncs, renames and closes by itself, on
 * epoll a thread of the loop's does.
 *
 * The queue is bounded. Who fills it faster than the disk empties it is told so, and decides what
 * to leave out.
 *
 * Threads: the loop's.
 */
#ifndef SLUICE_FILE_WRITER_H
#define SLUICE_FILE_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include <sluice/loop.h>
#include <sluice/slice.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What is to be written to a file; opaque. */
typedef struct sluice_file_writer sluice_file_writer;

enum {
    SLUICE_FILE_WRITER_COPY_MAX = 32, /**< Most bytes of one sluice_file_writer_copy(). */
    /** Most items in one queue. Bytes copied one after another share an item. */
    SLUICE_FILE_WRITER_ITEMS_MAX = 65536,
};

/** Settings of a writer. Zero in any field means its default. */
typedef struct sluice_file_writer_options {
    size_t size;     /**< sizeof(sluice_file_writer_options). */
    uint64_t offset; /**< Where in the file the first byte goes. Default 0. */
    /** Most bytes queued, those that are being written included. Default 8,388,608. */
    size_t limit;
    /**
     * Fewer bytes than these are not written before sluice_file_writer_flush(), or before something
     * else is queued behind them. Default 0: a write begins with the next turn.
     */
    size_t gather;
} sluice_file_writer_options;

/**
 * What a writer calls. Any may be NULL, and any may queue more and close the writer. None is called
 * from inside a sluice_file_writer_ call, and after sluice_file_writer_close() only on_closed is.
 */
typedef struct sluice_file_writer_events {
    size_t size; /**< sizeof(sluice_file_writer_events). */

    /** Something has been done, so that there may be room in the queue. Once a turn at most. */
    void (*on_progress)(sluice_file_writer *writer, void *user);

    /**
     * The first thing in the queue has failed: @p error is the negative errno of write(2),
     * fdatasync(2), rename(2), close(2), or what a call of the user's has returned. Bytes before
     * sluice_file_writer_offset() are in the file. The queue stays as it is, and nothing more is
     * done, until sluice_file_writer_retry() or _close(). Where this is NULL, the writer closes.
     */
    void (*on_error)(sluice_file_writer *writer, int error, void *user);

    /**
     * The last call: the kernel is done with every block, the descriptor is closed, the writer
     * goes. @p error is 0 when all that was queued before sluice_file_writer_finish() has been
     * done, else -ECANCELED.
     */
    void (*on_closed)(sluice_file_writer *writer, int error, void *user);
} sluice_file_writer_events;

/**
 * Makes a writer.
 * @param fd      a regular file, which the writer takes over on success; its own position is
 *                neither used nor moved. Or a pipe that blocks, where offsets mean nothing, and a
 *                close waits until somebody has read what is being written, or has closed the other
 *                end; the latter is -EPIPE, and raises no signal. Or -1: the first thing that is
 *                queued is a sluice_file_writer_run() that opens the file.
 * @param options settings, or NULL for the defaults
 * @param events  must outlive the writer; may be NULL
 * @return 0, -EINVAL (an offset that no file has), -EBADF, -ENOMEM
 */
SLUICE_API int sluice_file_writer_new(sluice_loop *loop, int fd, const sluice_file_writer_options *options,
                                      const sluice_file_writer_events *events, void *user,
                                      sluice_file_writer **ret_writer);

/**
 * Queues a slice, whose references move to the writer on success; they are dropped as the bytes are
 * written. An empty slice is allowed.
 * @return 0, -EAGAIN (the queue has no room for it now), -EMSGSIZE (it is larger than the limit),
 *         -ENOMEM, -EPIPE (closed, or finishing); on failure the slice stays the caller's
 */
SLUICE_API int sluice_file_writer_slice(sluice_file_writer *writer, sluice_slice *slice);

/**
 * Queues a copy of a few bytes, such as a header.
 * @param size at most SLUICE_FILE_WRITER_COPY_MAX
 * @return 0, -EMSGSIZE, -EAGAIN, -ENOMEM, -EPIPE, as sluice_file_writer_slice()
 */
SLUICE_API int sluice_file_writer_copy(sluice_file_writer *writer, const void *data, size_t size);

/**
 * What is queued from now on is written at this place.
 * @return 0, -EINVAL (a place that no file has), -EAGAIN, -ENOMEM, -EPIPE
 */
SLUICE_API int sluice_file_writer_seek(sluice_file_writer *writer, uint64_t offset);

/**
 * What has been written so far is to be on the disk (fdatasync(2)). @return 0, -EAGAIN, -ENOMEM,
 * -EPIPE
 */
SLUICE_API int sluice_file_writer_sync(sluice_file_writer *writer);

/**
 * Renames a file; nothing is replaced: -EEXIST when there is one called @p to (where the file
 * system cannot promise that, it is not asked to).
 * @param directory descriptor that both names begin at; the caller's, open until this is done
 * @param from, to  copied
 * @return 0, -EAGAIN, -ENOMEM, -EPIPE
 */
SLUICE_API int sluice_file_writer_rename(sluice_file_writer *writer, int directory, const char *from, const char *to);

/**
 * A call that may block, made on a thread of the loop's. @p fd is the writer's descriptor.
 * @return where @p fd is -1: a descriptor that the writer takes over. Else 0 or more. A negative
 *   errno fails.
 */
typedef int sluice_file_writer_run_fn(int fd, void *user);

/**
 * Queues such a call. It may be made again after it has failed, and is made to its end when the
 * writer is closed meanwhile: what it uses must last until on_closed.
 * @return 0, -EAGAIN, -ENOMEM, -EPIPE
 */
SLUICE_API int sluice_file_writer_run(sluice_file_writer *writer, sluice_file_writer_run_fn *run, void *user);

/** What is queued now is written without waiting for more. */
SLUICE_API void sluice_file_writer_flush(sluice_file_writer *writer);

/** After on_error: tries again what has failed. */
SLUICE_API void sluice_file_writer_retry(sluice_file_writer *writer);

/** Closes when all that is queued has been done; nothing more can be queued. Twice is allowed. */
SLUICE_API void sluice_file_writer_finish(sluice_file_writer *writer);

/**
 * Closes: what is under way is waited for, the rest of the queue is dropped. Only on_closed is
 * called from now on, later. Twice, and NULL, are allowed.
 */
SLUICE_API void sluice_file_writer_close(sluice_file_writer *writer);

/** Bytes queued that are not in the file yet. */
SLUICE_API size_t sluice_file_writer_queued(const sluice_file_writer *writer);

/** Bytes that can be queued now; 0 also where there is not room for 16 items more. */
SLUICE_API size_t sluice_file_writer_room(const sluice_file_writer *writer);

/** Where in the file the next byte goes. */
SLUICE_API uint64_t sluice_file_writer_offset(const sluice_file_writer *writer);

#ifdef __cplusplus
}
#endif

#endif
