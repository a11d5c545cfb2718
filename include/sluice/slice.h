/**
 * @file slice.h
 * A slice names a run of bytes that lies in one or more blocks, and holds a reference on each of
 * them.
 *
 * A slice is a value of four words; nothing is allocated for it. While it is held, its bytes do not
 * change and stay where they are. Copying the struct does not take references: exactly one of the
 * copies may be released.
 *
 * Threads: a slice may be read, referenced and released on any thread, one thread at a time per
 * slice value.
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
 * A run of bytes with references. All zero is the empty slice. The fields are the library's; use
 * the calls.
 */
typedef struct sluice_slice {
    sluice_block *first; /**< The block with the first byte. */
    sluice_block *last;  /**< The block with the last byte. */
    uint32_t offset;     /**< Of the first byte in the first block. */
    size_t length;       /**< Bytes. */
} sluice_slice;

/** Bytes in the slice. */
static inline size_t sluice_slice_length(const sluice_slice *slice) {
    return slice->length;
}

/**
 * Takes a frame's slice over, to have it beyond the moment at which its framer would release it:
 * moves the references from @p slice, which becomes empty, to @p ret_taken; no count changes.
 * Refused when the pool has no more than its reserve left, or no more than an eighth of its views
 * (see SLUICE_POOL_VIEWS_PER_BLOCK), so that consumers that hold frames by this call never have
 * what receiving and framing need; but not for a slice of the user's own memory alone, which holds
 * none. Pool owner's thread only.
 * @return 0, or -ENOBUFS (both slices unchanged: use the bytes now, or drop older slices and try
 *   again)
 */
SLUICE_API int sluice_slice_take(sluice_slice *slice, sluice_slice *ret_taken);

/**
 * A second slice over the same bytes, with references of its own; blocks that are held already cost
 * no reserve.
 */
SLUICE_API void sluice_slice_ref(const sluice_slice *slice, sluice_slice *ret_ref);

/**
 * A slice over a part, with references of its own.
 * @return 0, or -EINVAL when offset + length is beyond the slice's end
 */
SLUICE_API int sluice_slice_sub(const sluice_slice *slice, size_t offset, size_t length, sluice_slice *ret_part);

/**
 * Drops the references; the slice is empty afterwards, so a second release does nothing. NULL is
 * allowed.
 */
SLUICE_API void sluice_slice_release(sluice_slice *slice);

/**
 * The contiguous pieces of the slice from @p offset on, in order. They are borrowed: valid while
 * the slice is held.
 * @param iov   room for @p max pieces; may be NULL when max is 0
 * @return how many pieces there are in all, even where that is more than @p max (the first @p max
 *         are written); 0 when @p offset is at or beyond the end
 */
SLUICE_API size_t sluice_slice_iov(const sluice_slice *slice, size_t offset, struct iovec *iov, size_t max);

/**
 * Copies bytes out, and counts them in the pool's bytes_copied.
 * @return how many: the lesser of @p n and what lies beyond @p offset
 */
SLUICE_API size_t sluice_slice_copy(const sluice_slice *slice, size_t offset, void *dst, size_t n);

/** Blocks and views that the slice references. */
SLUICE_API size_t sluice_slice_blocks(const sluice_slice *slice);

/**
 * Blocks of the pool whose memory the slice holds, not counting those in which @p before begins or
 * ends when the slice goes on there: summed over the slices of a stream in order, what they hold
 * together. That is so, too, for slices that were put together of bytes of one block (headers) and
 * bytes of others that follow each other.
 * @param before the slice that came before in the stream, or NULL
 */
SLUICE_API size_t sluice_slice_footprint(const sluice_slice *slice, const sluice_slice *before);

#ifdef __cplusplus
}
#endif

#endif
