/**
 * @file file_writer.h
 * Writes a file on a loop: slices are written from the blocks they were received into.
 *
 * A writer is a queue of operations on one file, executed in order: writes, seeks, syncs, renames,
 * and user functions that may block. One operation runs at a time; a write combines all bytes at
 * the front of the queue that fit into one call. The loop never waits for the disk: on io_uring the
 * kernel writes, syncs, renames and closes asynchronously, on epoll a thread of the loop does.
 *
 * The queue is bounded. If it is filled faster than the disk empties it, calls return -EAGAIN, and
 * the caller decides what to leave out.
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

/** A queue of operations on a file; opaque. */
typedef struct sluice_file_writer sluice_file_writer;

enum {
    SLUICE_FILE_WRITER_COPY_MAX = 32, /**< Maximum size of one sluice_file_writer_copy(), bytes. */
    /** Maximum number of items in one queue. Consecutive copies share an item. */
    SLUICE_FILE_WRITER_ITEMS_MAX = 65536,
};

/** Settings of a writer. Zero in any field means its default. */
typedef struct sluice_file_writer_options {
    size_t size;     /**< sizeof(sluice_file_writer_options). */
    uint64_t offset; /**< Position in the file of the first byte. Default 0. */
    /** Maximum number of bytes queued, including those being written. Default 8,388,608. */
    size_t limit;
    /**
     * Fewer bytes than this are not written until sluice_file_writer_flush(), or until another
     * operation is queued after them. Default 0: a write starts with the next turn.
     */
    size_t gather;
} sluice_file_writer_options;

/**
 * Callbacks of a writer. Any may be NULL, and any may queue more and close the writer. None is
 * called inside a sluice_file_writer_ call. After sluice_file_writer_close() only on_closed is
 * called.
 */
typedef struct sluice_file_writer_events {
    size_t size; /**< sizeof(sluice_file_writer_events). */

    /** An operation has completed, so the queue may have room. At most once per turn. */
    void (*on_progress)(sluice_file_writer *writer, void *user);

    /**
     * The first operation in the queue has failed. @p error is the negative errno of write(2),
     * fdatasync(2), rename(2) or close(2), or the result of a user function. Bytes before
     * sluice_file_writer_offset() are in the file. The queue is unchanged and stopped until
     * sluice_file_writer_retry() or _close(). If this callback is NULL, the writer closes.
     */
    void (*on_error)(sluice_file_writer *writer, int error, void *user);

    /**
     * The last callback: the kernel no longer uses any block, the descriptor is closed, and the
     * writer is freed after this call. @p error is 0 if everything queued before
     * sluice_file_writer_finish() has been done, otherwise -ECANCELED.
     */
    void (*on_closed)(sluice_file_writer *writer, int error, void *user);
} sluice_file_writer_events;

/**
 * Makes a writer.
 * @param fd      a regular file, which the writer owns on success; its own position is neither used
 *                nor changed. Or a blocking pipe: offsets are ignored, and closing waits until the
 *                data being written is read or the other end is closed; the latter gives -EPIPE and
 *                no signal. Or -1: the first queued operation is a sluice_file_writer_run() that
 *                opens the file
 * @param options settings, or NULL for the defaults
 * @param events  must outlive the writer; may be NULL
 * @return 0, -EINVAL (an offset beyond any file), -EBADF, -ENOMEM
 */
SLUICE_API int sluice_file_writer_new(sluice_loop *loop, int fd, const sluice_file_writer_options *options,
                                      const sluice_file_writer_events *events, void *user,
                                      sluice_file_writer **ret_writer);

/**
 * Queues a slice. On success its references move to the writer, which drops them as the bytes are
 * written. An empty slice is allowed.
 * @return 0, -EAGAIN (no room now), -EMSGSIZE (larger than the limit), -ENOMEM, -EPIPE (closed, or
 *         finishing); on failure the caller keeps the slice
 */
SLUICE_API int sluice_file_writer_slice(sluice_file_writer *writer, sluice_slice *slice);

/**
 * Queues a copy of a few bytes, such as a header.
 * @param size at most SLUICE_FILE_WRITER_COPY_MAX
 * @return 0, -EMSGSIZE, -EAGAIN, -ENOMEM, -EPIPE, as sluice_file_writer_slice()
 */
SLUICE_API int sluice_file_writer_copy(sluice_file_writer *writer, const void *data, size_t size);

/**
 * Sets the position for data queued from now on.
 * @return 0, -EINVAL (a position beyond any file), -EAGAIN, -ENOMEM, -EPIPE
 */
SLUICE_API int sluice_file_writer_seek(sluice_file_writer *writer, uint64_t offset);

/** Queues an fdatasync(2) of the data written so far. @return 0, -EAGAIN, -ENOMEM, -EPIPE */
SLUICE_API int sluice_file_writer_sync(sluice_file_writer *writer);

/**
 * Queues a rename of a file. It does not replace an existing file: -EEXIST if @p to exists (except
 * on file systems that cannot check this).
 * @param directory descriptor of the directory that both names are relative to; owned by the
 *                  caller, open until the rename is done
 * @param from,     to copied
 * @return 0, -EAGAIN, -ENOMEM, -EPIPE
 */
SLUICE_API int sluice_file_writer_rename(sluice_file_writer *writer, int directory, const char *from, const char *to);

/**
 * A user function that may block, called on a thread of the loop. @p fd is the writer's descriptor.
 * @return if @p fd is -1, a descriptor that the writer takes over; otherwise 0 or more. A negative
 *         errno is a failure.
 */
typedef int sluice_file_writer_run_fn(int fd, void *user);

/**
 * Queues a call of a user function. A failed call may be repeated. If the writer is closed during
 * the call, the call still runs to its end: the memory that it uses must last until on_closed.
 * @return 0, -EAGAIN, -ENOMEM, -EPIPE
 */
SLUICE_API int sluice_file_writer_run(sluice_file_writer *writer, sluice_file_writer_run_fn *run, void *user);

/** Writes the queued bytes without waiting for more (see @c gather). */
SLUICE_API void sluice_file_writer_flush(sluice_file_writer *writer);

/** After on_error: retries the failed operation. */
SLUICE_API void sluice_file_writer_retry(sluice_file_writer *writer);

/**
 * Closes the writer after all queued operations; nothing more can be queued. Calling it twice is
 * allowed.
 */
SLUICE_API void sluice_file_writer_finish(sluice_file_writer *writer);

/**
 * Closes the writer: waits for the current operation and drops the rest of the queue. From now on
 * only on_closed is called, in a later turn. Calling it twice is allowed, and so is NULL.
 */
SLUICE_API void sluice_file_writer_close(sluice_file_writer *writer);

/** Bytes queued that are not yet in the file. */
SLUICE_API size_t sluice_file_writer_queued(const sluice_file_writer *writer);

/** Bytes that can be queued now; 0 also if there is no room for 16 more items. */
SLUICE_API size_t sluice_file_writer_room(const sluice_file_writer *writer);

/** Position in the file of the next byte. */
SLUICE_API uint64_t sluice_file_writer_offset(const sluice_file_writer *writer);

#ifdef __cplusplus
}
#endif

#endif
