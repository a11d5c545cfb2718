/**
 * @file file.h
 * Files on a loop: their bytes come into a chain, read ahead of the consumer.
 *
 * A file reads into blocks of the loop's pool as far ahead as its window allows, and goes on as the
 * chain is consumed. On io_uring several reads are under way at once and none holds up the loop; on
 * epoll, where a file is always "ready", the loop's thread reads it a few pieces a turn, and waits
 * for the disk when they are not in the page cache.
 *
 * Either a file calls back, as a connection does, or straight-line code waits for bytes: with
 * sluice_file_fill(), or by the calls of a reader (sluice_file_attach_reader()).
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

/** A file that is read on a loop; opaque. */
typedef struct sluice_file sluice_file;

/** Settings of a file. Zero in any field means its default. */
typedef struct sluice_file_options {
    size_t size;     /**< sizeof(sluice_file_options). */
    uint64_t offset; /**< Where in the file to begin, bytes. Default 0. */
    uint64_t length; /**< Most bytes to read from there. Default: to the file's end. */
    /**
     * The window: most bytes in the chain behind its first block, or under way, as long as the
     * consumer needs no more (sluice_file_set_need()). At least one block. Default 262,144.
     */
    uint32_t read_ahead;
    /**
     * Size of the blocks that are read into: see sluice_pool_class(). Default: the size of the
     * loop's pool.
     */
    uint32_t block_size;
} sluice_file_options;

/**
 * What a file calls. Any may be NULL, and any may close or seek the file. None is called from
 * inside a sluice_file_ call other than sluice_file_fill(), and after sluice_file_close() only
 * on_closed is.
 */
typedef struct sluice_file_events {
    size_t size; /**< sizeof(sluice_file_events). */

    /** The chain has grown, and holds at least what sluice_file_set_need() said. */
    void (*on_data)(sluice_file *file, void *user);

    /**
     * Reading has ended: @p error is 0 at the end of the file or of the length that was asked for,
     * whichever came first, else a negative errno: of the read, or -ENOBUFS when the pool has had
     * no block for seconds although the consumer waits. Bytes from before are in the chain.
     */
    void (*on_end)(sluice_file *file, int error, void *user);

    /**
     * The last call: the kernel is done with every block, the descriptor is closed, the file goes.
     */
    void (*on_closed)(sluice_file *file, void *user);
} sluice_file_events;

/**
 * Takes over the descriptor of a file and begins to read. The descriptor belongs to the file on
 * success; its own position is neither used nor moved. For regular files, block devices (one read
 * at a time), and what looks like a regular file, as those in /proc do. With O_DIRECT, offset,
 * length and block size must suit the file.
 *
 * The end is where the file ends when it is reached: what is cut off meanwhile is missing, what is
 * added is read, and what is added after the end was found is not.
 * @param options settings, or NULL for the defaults
 * @param events  must outlive the file; NULL for straight-line use
 * @return 0, -EINVAL (an offset that no file has, a block size that is no class of the pool),
 *         -EISDIR, -ESPIPE (a pipe, socket or terminal: it has no places to read from), -ENOBUFS
 *         (the class has no block yet, and every slab is in use), -ENOMEM, or an error of fstat(2),
 *         such as -EBADF
 */
SLUICE_API int sluice_file_new(sluice_loop *loop, int fd, const sluice_file_options *options,
                               const sluice_file_events *events, void *user, sluice_file **ret_file);

/**
 * Closes: from now on only on_closed is called, later. The chain goes then, and blocks that are
 * being read into come back when the kernel is done with them. Closing twice, and NULL, are
 * allowed.
 */
SLUICE_API void sluice_file_close(sluice_file *file);

/** What has been read and not consumed. The file's. */
SLUICE_API sluice_chain *sluice_file_chain(sluice_file *file);

/**
 * Bytes of the pool's memory that the file keeps from others: whole blocks, of what is in its chain
 * (sluice_chain_footprint()) and of reads under way, wanted or not. What has been taken from the
 * chain is not the file's. A file begins to read with the next turn: before that, 0. Constant time.
 */
SLUICE_API size_t sluice_file_footprint(const sluice_file *file);

/** The loop of the file. */
SLUICE_API sluice_loop *sluice_file_loop(const sluice_file *file);

/** The pointer that the file's events get. */
SLUICE_API void *sluice_file_user(const sluice_file *file);

/** The descriptor; the file's. */
SLUICE_API int sluice_file_fd(const sluice_file *file);

/** Where in the file the first byte of the chain lies, or the next to come. */
SLUICE_API uint64_t sluice_file_offset(const sluice_file *file);

/**
 * on_data is not called before the chain holds @p bytes; 0 and 1 mean any. Stays until changed. A
 * consumer that leaves bytes in the chain and waits for more must say so here: beyond the window is
 * read only what is needed.
 */
SLUICE_API void sluice_file_set_need(sluice_file *file, size_t bytes);

/**
 * Goes on at another place: what is in the chain is dropped (and counts as consumed), and reading
 * begins anew, also after an end or an error. Blocks of reads that are under way come back when the
 * kernel is done with them.
 * @param offset from the beginning of the file
 * @param length most bytes to read from there; 0: to the file's end
 * @return 0, -EINVAL (an offset that no file has), -EBADF (closed), or an error of fstat(2); on
 *   failure nothing changed
 */
SLUICE_API int sluice_file_seek(sluice_file *file, uint64_t offset, uint64_t length);

/**
 * For straight-line code: runs turns of the loop until the chain has grown and holds @p need bytes,
 * or reading ends, or the deadline passes. Everything else on the loop goes on meanwhile. Inside of
 * a call of the loop it does not wait.
 * @param need     bytes that the chain should hold; at least one more than it does now is waited
 *                 for in any case
 * @param deadline nanoseconds of CLOCK_MONOTONIC; one that has passed: what can be had without
 *                 waiting; UINT64_MAX: none
 * @return 0 (the chain has grown, at the end or the deadline perhaps to less than @p need),
 *         -ENODATA (reading has ended, with nothing more in the chain than before), -ETIMEDOUT,
 *         -EAGAIN (called inside of a turn, and more comes), -EINTR (sluice_loop_stop() was called;
 *         nothing is lost), -ECANCELED (closed: the file may be gone), what reading ended with (see
 *         on_end), or an error of sluice_loop_turn()
 */
SLUICE_API int sluice_file_fill(sluice_file *file, size_t need, uint64_t deadline);

/**
 * Makes a reader as new (sluice_reader_reset()), over the file's chain and with the file as its
 * source: its calls wait as sluice_file_fill() does, and return what that returns.
 * sluice_reader_set_timeout() counts.
 * @param reader stays the caller's; to be freed or reset no later than in on_closed
 */
SLUICE_API void sluice_file_attach_reader(sluice_file *file, sluice_reader *reader);

#ifdef __cplusplus
}
#endif

#endif
