/**
 * @file file.h
 * Reads files on a loop: their bytes are appended to a chain, ahead of the consumer.
 *
 * A file is read into blocks of the loop's pool, as far ahead as its window allows, and reading
 * continues as the chain is consumed. On io_uring several reads are pending at once and none delays
 * the loop. On epoll the loop's thread reads a few pieces per turn, and blocks on the disk for data
 * that is not in the page cache.
 *
 * Use callbacks, as for a connection, or wait for bytes: with sluice_file_fill() or the calls of a
 * reader (sluice_file_attach_reader()).
 *
 * Threads: the loop's.
 */
#ifndef SLUICE_FILE_H
#define SLUICE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include <sluice/chain.h>
#include <sluice/loop.h>
#include <sluice/reader.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A file being read on a loop; opaque. */
typedef struct sluice_file sluice_file;

/** Settings of a file. Zero in any field means its default. */
typedef struct sluice_file_options {
    size_t size;     /**< sizeof(sluice_file_options). */
    uint64_t offset; /**< Start position in the file, bytes. Default 0. */
    /** Maximum number of bytes to read from there. Default: to the end of the file. */
    uint64_t length;
    /**
     * The window: maximum number of bytes pending, or in the chain after its first block, unless
     * the consumer needs more (sluice_file_set_need()). At least one block. Default 262,144.
     */
    uint32_t read_ahead;
    /** Block size to read into: see sluice_pool_class(). Default: the size of the loop's pool. */
    uint32_t block_size;
} sluice_file_options;

/**
 * Callbacks of a file. Any may be NULL, and any may close or seek the file. None is called inside a
 * sluice_file_ call except sluice_file_fill(). After sluice_file_close() only on_closed is called.
 */
typedef struct sluice_file_events {
    size_t size; /**< sizeof(sluice_file_events). */

    /** The chain has grown and holds at least the bytes set by sluice_file_set_need(). */
    void (*on_data)(sluice_file *file, void *user);

    /**
     * Reading has ended. @p error is 0 at the end of the file or of the requested length, whichever
     * comes first; otherwise a negative errno of the read, or -ENOBUFS if the pool has had no block
     * for seconds while the consumer waits. Bytes read before are in the chain.
     */
    void (*on_end)(sluice_file *file, int error, void *user);

    /**
     * The last callback: the kernel no longer uses any block, the descriptor is closed, and the
     * file object is freed after this call.
     */
    void (*on_closed)(sluice_file *file, void *user);
} sluice_file_events;

/**
 * Takes over the descriptor of a file and starts to read. On success the descriptor belongs to the
 * file object; its own position is neither used nor changed. For regular files, block devices (one
 * read at a time), and files that look regular, as in /proc. With O_DIRECT, offset, length and
 * block size must have the alignment that the file requires.
 *
 * The end of the file is determined when reading reaches it: data truncated before is missing, data
 * appended before is read, data appended afterwards is not.
 * @param options settings, or NULL for the defaults
 * @param events  must outlive the file object; NULL if the caller waits for bytes
 * @return 0, -EINVAL (an offset beyond any file, or a block size that is no class of the pool),
 *         -EISDIR, -ESPIPE (a pipe, socket or terminal cannot be read by position), -ENOBUFS (the
 *         class has no block yet, and every slab is in use), -ENOMEM, or an error of fstat(2), such
 *         as -EBADF
 */
SLUICE_API int sluice_file_new(sluice_loop *loop, int fd, const sluice_file_options *options,
                               const sluice_file_events *events, void *user, sluice_file **ret_file);

/**
 * Closes the file. From now on only on_closed is called, in a later turn. The chain is freed at
 * that time; blocks of pending reads are released when the kernel is done with them. Closing twice
 * is allowed, and so is NULL.
 */
SLUICE_API void sluice_file_close(sluice_file *file);

/** Bytes read and not consumed. Owned by the file object. */
SLUICE_API sluice_chain *sluice_file_chain(sluice_file *file);

/**
 * Pool memory that the file keeps in use, in bytes: whole blocks in its chain
 * (sluice_chain_footprint()) and of pending reads, including reads whose data is no longer needed.
 * Slices taken from the chain do not count. 0 until the first turn, in which reading starts.
 * Constant time.
 */
SLUICE_API size_t sluice_file_footprint(const sluice_file *file);

/** The loop of the file. */
SLUICE_API sluice_loop *sluice_file_loop(const sluice_file *file);

/** The user pointer passed to the file's callbacks. */
SLUICE_API void *sluice_file_user(const sluice_file *file);

/** The descriptor; owned by the file object. */
SLUICE_API int sluice_file_fd(const sluice_file *file);

/** Position in the file of the chain's first byte, or of the next byte to arrive. */
SLUICE_API uint64_t sluice_file_offset(const sluice_file *file);

/**
 * Sets the minimum chain length for on_data: 0 and 1 mean any length. Stays in force until changed.
 * A consumer that leaves bytes in the chain and waits for more must set it, because beyond the
 * window only the needed bytes are read.
 */
SLUICE_API void sluice_file_set_need(sluice_file *file, size_t bytes);

/**
 * Continues at another position. The content of the chain is dropped (and counts as consumed) and
 * reading restarts, also after an end or an error. Blocks of pending reads are released when the
 * kernel is done with them.
 * @param offset from the start of the file
 * @param length maximum number of bytes to read; 0: to the end of the file
 * @return 0, -EINVAL (an offset beyond any file), -EBADF (closed), or an error of fstat(2); on
 *         failure nothing has changed
 */
SLUICE_API int sluice_file_seek(sluice_file *file, uint64_t offset, uint64_t length);

/**
 * Waits for bytes: runs turns of the loop until the chain has grown and holds @p need bytes,
 * reading ends, or the deadline passes. Everything else on the loop continues meanwhile. Inside a
 * callback of the loop it does not wait.
 * @param need     minimum chain length; in any case the call waits for at least one more byte
 * @param deadline nanoseconds of CLOCK_MONOTONIC. In the past: returns what is available without
 *                 waiting; UINT64_MAX: no deadline
 * @return 0 (the chain has grown; at the end or the deadline possibly to less than @p need),
 *         -ENODATA (reading has ended and the chain has not grown), -ETIMEDOUT, -EAGAIN (called
 *         inside a turn, and more data will come), -EINTR (sluice_loop_stop() was called; no bytes
 *         are lost), -ECANCELED (closed: the file object may be freed), the error that ended
 *         reading (see on_end), or an error of sluice_loop_turn()
 */
SLUICE_API int sluice_file_fill(sluice_file *file, size_t need, uint64_t deadline);

/**
 * Resets a reader (sluice_reader_reset()) to the file's chain, with the file as its source. Its
 * calls wait like sluice_file_fill() and return the same errors. sluice_reader_set_timeout()
 * applies.
 * @param reader owned by the caller; free or reset it in on_closed at the latest
 */
SLUICE_API void sluice_file_attach_reader(sluice_file *file, sluice_reader *reader);

#ifdef __cplusplus
}
#endif

#endif
