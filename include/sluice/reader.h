/**
 * @file reader.h
 * Reading a chain: integers, views, lines and slices, across the borders of blocks.
 *
 * A reader never waits. A call that needs more bytes than the chain holds says -EAGAIN and consumes nothing; call it
 * again when the chain has grown (sluice_reader_skip() and sluice_reader_range() are streaming instead). Views that a
 * call hands out are borrowed: valid until the next call on this reader, or on its chain. To keep bytes, take a slice.
 *
 * Threads: the chain's.
 */
#ifndef SLUICE_READER_H
#define SLUICE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/chain.h>
#include <sluice/slice.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A reader; opaque. */
typedef struct sluice_reader sluice_reader;

/**
 * Makes a reader over a chain, which stays the caller's and must outlive the reader.
 * @return 0, -ENOMEM
 */
SLUICE_API int sluice_reader_new(sluice_chain *chain, sluice_reader **ret_reader);

/** Frees the reader and its mark, not its chain. NULL is allowed. */
SLUICE_API void sluice_reader_free(sluice_reader *reader);

/** Bytes that can be read now. O(1). */
SLUICE_API size_t sluice_reader_buffered(const sluice_reader *reader);

/** Bytes consumed through the chain since it was made, less those that a rewind has put back: a place in the stream. */
SLUICE_API uint64_t sluice_reader_total(const sluice_reader *reader);

/** Reads one byte. @return 0, -EAGAIN */
SLUICE_API int sluice_reader_u8(sluice_reader *reader, uint8_t *ret_value);

/**
 * Reads an unsigned integer of @p n bytes (1 to 8), most significant first. A signed one is the same bits; where n is
 * below 8, the caller extends the sign.
 * @return 0, -EAGAIN, -EINVAL (n)
 */
SLUICE_API int sluice_reader_be(sluice_reader *reader, unsigned n, uint64_t *ret_value);

/** Reads an unsigned integer of @p n bytes (1 to 8), least significant first. @return 0, -EAGAIN, -EINVAL (n) */
SLUICE_API int sluice_reader_le(sluice_reader *reader, unsigned n, uint64_t *ret_value);

/**
 * Reads an unsigned LEB128: seven bits a byte, least significant first, the top bit set on all but the last. Padding
 * with zero groups is allowed (AV1 has it) up to ten bytes in all. What is wrong is refused as soon as it has come.
 * @return 0, -EAGAIN, -EPROTO (no end within ten bytes), -EOVERFLOW (above 2^64 - 1); on failure nothing is consumed
 */
SLUICE_API int sluice_reader_leb128(sluice_reader *reader, uint64_t *ret_value);

/**
 * Looks at the next @p n bytes without consuming them.
 * @param scratch  room for @p n bytes, used (and the copy counted) only where the bytes straddle blocks;
 *                 NULL to refuse a copy
 * @param ret_view into the block where the bytes are contiguous, else @p scratch
 * @return 0, -EAGAIN, -ENOBUFS (they straddle blocks and scratch is NULL)
 */
SLUICE_API int sluice_reader_peek(sluice_reader *reader, size_t n, void *scratch, const uint8_t **ret_view);

/**
 * Consumes the next @p n bytes without looking at them, even those that have not arrived: they are dropped as they
 * come, before any later call reads.
 * @return 0, -EOVERFLOW (more than 2^64 - 1 bytes to drop)
 */
SLUICE_API int sluice_reader_skip(sluice_reader *reader, uint64_t n);

/** Bytes of earlier skips that have not arrived. */
SLUICE_API uint64_t sluice_reader_skipping(const sluice_reader *reader);

/**
 * What sluice_reader_range() calls with each contiguous view, valid during the call.
 * @return true to go on, false to stop after this view
 */
typedef bool sluice_reader_view_fn(const uint8_t *view, size_t length, void *user);

/**
 * Calls back with each contiguous view of up to the next @p n bytes that are there, and consumes them. Does not wait
 * for all: the caller asks for the rest when more has come.
 * @param ret_done bytes consumed, also when the callback stopped
 * @return 0 (the n bytes are done), -EAGAIN (some are to come), -ECANCELED (the callback stopped)
 */
SLUICE_API int sluice_reader_range(sluice_reader *reader, size_t n, sluice_reader_view_fn *view, void *user,
                                   size_t *ret_done);

/**
 * Takes the next @p n bytes as a slice with references of its own, valid until released, on any thread.
 * @return 0, -EAGAIN
 */
SLUICE_API int sluice_reader_slice(sluice_reader *reader, size_t n, sluice_slice *ret_slice);

/**
 * Copies up to @p n bytes out and consumes them; the copy is counted in the pool's bytes_copied.
 * @return how many
 */
SLUICE_API size_t sluice_reader_copy(sluice_reader *reader, void *dst, size_t n);

/**
 * Reads a line up to LF; LF and one CR before it are consumed and are not part of it. How far the search came is
 * remembered, so a line that arrives in many pieces is scanned once.
 * @param scratch  room for a line that straddles blocks (then copied and counted); it is also the limit
 * @param size     bytes of scratch: the longest line, without its end
 * @param ret_line into the block, or scratch; not terminated by NUL
 * @return 0, -EAGAIN, -EMSGSIZE (no line end within the limit; nothing consumed), -ENOBUFS (the line straddles blocks
 *         and scratch is NULL)
 */
SLUICE_API int sluice_reader_line(sluice_reader *reader, char *scratch, size_t size, const char **ret_line,
                                  size_t *ret_length);

/**
 * Marks this place in the stream, so that sluice_reader_rewind() can come back to it; the reader has one mark, and an
 * older one is forgotten. From here on what this reader consumes stays in its blocks, by reference: nothing is copied,
 * and the blocks stay out of the pool until sluice_reader_unmark(). Not within a callback of sluice_reader_range().
 * @param limit most bytes to hold behind the reader; the call that consumes more drops the mark and what it holds
 * @return 0, -EAGAIN (an earlier skip owes bytes, so the place has not come; an older mark stays)
 */
SLUICE_API int sluice_reader_mark(sluice_reader *reader, size_t limit);

/**
 * Goes back to the mark: the bytes consumed since are in the chain again, in their old blocks. Bytes that a skip made
 * since the mark still owes are owed no longer. The mark stays, so this can be done again. To go back only as far as
 * to the last n bytes, rewind and then skip what was before them. Not within a callback of sluice_reader_range().
 *
 * Takes back sluice_chain_consumed() as well. Only what this reader has consumed can come back: when anybody else
 * consumes from the chain after the mark, the mark is void.
 * @return 0, -EINVAL (there is no mark), -ESTALE (the mark was dropped: more than its limit was consumed, or others
 *         consumed; said until the next mark or unmark); on failure nothing has changed
 */
SLUICE_API int sluice_reader_rewind(sluice_reader *reader);

/** Forgets the mark and releases what it holds. Without a mark it does nothing. */
SLUICE_API void sluice_reader_unmark(sluice_reader *reader);

#ifdef __cplusplus
}
#endif

#endif
