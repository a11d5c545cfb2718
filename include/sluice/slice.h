/**
 * @file slice.h
 * A slice is a range of bytes in one or more blocks, with a reference on each block.
 *
 * A slice is a value of four words and needs no allocation. While a slice exists, its bytes neither
 * change nor move. Copying the struct does not copy the references: release exactly one of the
 * copies.
 *
 * Threads: any thread may read, reference and release a slice; use each slice value on one thread
 * at a time.
 */
#ifndef SLUICE_SLICE_H
#define SLUICE_SLICE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <sluice/pool.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A range of bytes with references. All zero is the empty slice. Fields are private to the library;
 * use the calls.
 */
typedef struct sluice_slice {
    sluice_block *first; /**< Block of the first byte. */
    sluice_block *last;  /**< Block of the last byte. */
    uint32_t offset;     /**< Of the first byte within its block. */
    size_t length;       /**< In bytes. */
} sluice_slice;

/** Number of bytes. */
static inline size_t sluice_slice_length(const sluice_slice *slice) {
    return slice->length;
}

/**
 * Takes over a frame's slice so that it stays valid after the framer moves on. Moves the references
 * from @p slice, which becomes empty, to @p ret_taken; no reference count changes.
 *
 * Fails if the pool has only its reserve left of a block size that the slice holds, or an eighth of
 * its views or fewer (see SLUICE_POOL_VIEWS_PER_BLOCK), so that retained frames leave enough blocks
 * and views for receiving and framing. A slice that consists only of the user's memory is never
 * rejected. Pool owner's thread only.
 * @return 0, or -ENOBUFS (both slices unchanged: use the bytes now, or release older slices and
 *         retry)
 */
SLUICE_API int sluice_slice_take(sluice_slice *slice, sluice_slice *ret_taken);

/**
 * Makes a second slice of the same bytes, with references of its own. It does not count against the
 * reserve: the blocks are in use already.
 */
SLUICE_API void sluice_slice_ref(const sluice_slice *slice, sluice_slice *ret_ref);

/**
 * Makes a slice of a part, with references of its own.
 * @return 0, or -EINVAL if offset + length is beyond the slice's end
 */
SLUICE_API int sluice_slice_sub(const sluice_slice *slice, size_t offset, size_t length, sluice_slice *ret_part);

/**
 * Drops the references and makes the slice empty, so a second release does nothing. NULL is
 * allowed.
 */
SLUICE_API void sluice_slice_release(sluice_slice *slice);

/**
 * Returns the contiguous pieces of the slice from @p offset on, in order. They are borrowed: valid
 * while the slice is held.
 * @param iov room for @p max pieces; may be NULL if max is 0
 * @return total number of pieces, which may exceed @p max (only the first @p max are written); 0 if
 *         @p offset is at or beyond the end
 */
SLUICE_API size_t sluice_slice_iov(const sluice_slice *slice, size_t offset, struct iovec *iov, size_t max);

/**
 * Copies bytes from the slice and adds them to the pool's bytes_copied.
 * @return bytes copied: @p n, or fewer if the slice ends before
 */
SLUICE_API size_t sluice_slice_copy(const sluice_slice *slice, size_t offset, void *dst, size_t n);

/**
 * Hints that the slice will be released, or referenced, in a moment: fetches what that needs of its
 * first block into the processor's cache. For walks over many slices that were not used for long.
 */
static inline void sluice_slice_prefetch(const sluice_slice *slice) {
#if defined(__GNUC__)
    __builtin_prefetch(slice->first, 1);
#else
    (void)slice;
#endif
}

/** Number of blocks and views that the slice references. */
SLUICE_API size_t sluice_slice_blocks(const sluice_slice *slice);

/**
 * Number of the pool's blocks that the slice keeps in use, without the first and last block of @p
 * before if this slice continues in them. Summed over the slices of a stream in order, this gives
 * the blocks that they use together. This also holds for slices composed of bytes of one block
 * (headers) and of consecutive bytes of other blocks.
 * @param before the previous slice of the stream, or NULL
 */
SLUICE_API size_t sluice_slice_footprint(const sluice_slice *slice, const sluice_slice *before);

#ifdef __cplusplus
}
#endif

#endif
