/**
 * @file reader.h
 * Reads a chain across block boundaries: integers, views, lines and slices.
 *
 * A reader over a chain alone never waits. A call that needs more bytes than the chain holds
 * returns -EAGAIN; repeat it when the chain has grown. A reader with a source
 * (sluice_reader_set_source()) requests bytes from the source until it has enough. If the source
 * has no more, the call returns the source's error:
 *
 * - -EAGAIN: more bytes may come later. Event-driven sources return this; see
 *   sluice_conn_attach_reader().
 * - -ENODATA: the stream has ended.
 * - -ETIMEDOUT: the time of sluice_reader_set_timeout() has passed. The call may be repeated; no
 *   bytes are lost.
 * - the error of a failed source, such as -ECONNRESET.
 *
 * Bytes that arrived before or together with an end or a failure are read first. A failed call
 * consumes nothing. Exceptions are the streaming calls, which report how far they came
 * (sluice_reader_range(), sluice_reader_read(), sluice_reader_read_into() and
 * sluice_reader_skip()), and windows, where the caller knows how much it has read.
 *
 * Views returned by a call are borrowed: valid until the next call on this reader or its chain. To
 * keep bytes, take a slice.
 *
 * Threads: the chain's. While a call waits, other code must neither use the reader nor consume from
 * its chain.
 */
#ifndef SLUICE_READER_H
#define SLUICE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/bytes.h>
#include <sluice/chain.h>
#include <sluice/slice.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A reader; opaque. */
typedef struct sluice_reader sluice_reader;

/**
 * Makes a reader over a chain. The caller keeps the chain, which must outlive the reader.
 * @return 0, -ENOMEM
 */
SLUICE_API int sluice_reader_new(sluice_chain *chain, sluice_reader **ret_reader);

/**
 * Frees the reader and its mark. Does not touch the chain, which may already be freed. NULL is
 * allowed.
 */
SLUICE_API void sluice_reader_free(sluice_reader *reader);

/**
 * Resets a reader to a chain, without an allocation: releases its blocks and clears mark, remaining
 * skip, source and timeout. Does not touch the old chain, which may already be freed.
 * @param chain as for sluice_reader_new(). NULL for an unused reader: then only this call and
 *              sluice_reader_free() may follow
 */
SLUICE_API void sluice_reader_reset(sluice_reader *reader, sluice_chain *chain);

/**
 * The source of a reader's bytes: functions that the reader calls when its chain holds too few.
 * They must neither consume from the chain nor call the reader.
 */
typedef struct sluice_reader_source {
    size_t size; /**< sizeof(sluice_reader_source). */

    /**
     * Waits until the chain has grown, preferably to @p need bytes, or until the deadline. A source
     * that reads from a descriptor gets memory from sluice_chain_reserve().
     * @param need     number of bytes that the chain should hold; it holds fewer
     * @param deadline nanoseconds of CLOCK_MONOTONIC; UINT64_MAX: none
     * @return 0 (the chain has grown), -EAGAIN (more bytes may come later), -ENODATA (the stream
     *         has ended), -ETIMEDOUT (the deadline has passed), or the error of the source; the
     *         chain may have grown in any case. -ECANCELED: the source has been closed, and chain
     *         and reader may be freed; the reader touches neither
     */
    int (*fill)(void *user, size_t need, uint64_t deadline);

    /**
     * Used by sluice_reader_read_into() while the chain is empty: writes the next bytes directly
     * into the memory, at least 1 and at most @p n; or appends to the chain as fill does, if that
     * is cheaper. May be NULL: the bytes then always go through the chain.
     * @param ret_done bytes written, also on failure; the memory is no longer in use after the call
     * @return as for fill
     */
    int (*read_into)(void *user, void *memory, size_t n, uint64_t deadline, size_t *ret_done);
} sluice_reader_source;

/**
 * Sets the reader's source. Not allowed while a call waits.
 * @param source must stay valid while it is set; NULL: none, so the reader never waits
 * @param user   argument of the source's functions
 * @return 0, -EINVAL (source->size is not set; nothing has changed)
 */
SLUICE_API int sluice_reader_set_source(sluice_reader *reader, const sluice_reader_source *source, void *user);

/**
 * Limits the total waiting time of each call, counted from its first wait; then it returns
 * -ETIMEDOUT. For sources that wait. On connections, where calls never wait, use
 * sluice_conn_set_timeout().
 * @param milliseconds 0: no limit, the default
 */
SLUICE_API void sluice_reader_set_timeout(sluice_reader *reader, uint32_t milliseconds);

/** Number of bytes that can be read now. Constant time. */
SLUICE_API size_t sluice_reader_buffered(const sluice_reader *reader);

/**
 * Position in the stream: bytes consumed through the chain since it was made, minus those restored
 * by a rewind.
 */
SLUICE_API uint64_t sluice_reader_total(const sluice_reader *reader);

/**
 * Waits until @p n bytes are buffered, without consuming any: for a framer on the same chain that
 * reports how many bytes it needs.
 * @return 0, -EAGAIN or another error of the source
 */
SLUICE_API int sluice_reader_fill(sluice_reader *reader, size_t n);

/**
 * Implementation of sluice_reader_u8() at the end of a block, with a mark, and when it has to wait.
 * Same result.
 */
SLUICE_API int sluice_reader_u8_slow(sluice_reader *reader, uint8_t *ret_value);

/**
 * Reads one byte. To read many bytes one by one, use a window: sluice_reader_window_u8().
 * @return 0, -EAGAIN or another error of the source
 */
static inline int sluice_reader_u8(sluice_reader *reader, uint8_t *ret_value) {
    /*
     * The first field of a reader points to the bytes that can be read without further checks. The
     * last byte of a block is not among them: reading it releases the block.
     */
    sluice_chain_front *front = *(sluice_chain_front **)(void *)reader;
    const uint8_t *at = front->at;
    if ((uintptr_t)at + 1 < (uintptr_t)front->end) { /* both may be NULL */
        front->at = at + 1;
        *ret_value = *at;
        return 0;
    }
    return sluice_reader_u8_slow(reader, ret_value);
}

/**
 * The contiguous part of the reader's next bytes, for reading them one by one. In a local variable
 * both pointers stay in registers, and a byte costs a comparison and a load. All zero is a closed
 * window.
 *
 *     sluice_reader_window window = {0};
 *     uint8_t byte;
 *     int error;
 *     while ((error = sluice_reader_window_u8(reader, &window, &byte)) == 0 && byte != 0)
 *         ...
 *     sluice_reader_close_window(reader, &window);
 *
 * Bytes read from a window are consumed when it moves to the next piece and when it is closed;
 * until then, sluice_reader_total() and a mark do not count them. Close the window before the next
 * call on the reader or its chain. Its bytes stay valid until it moves or is closed.
 */
typedef struct sluice_reader_window {
    /** Next byte. To read several bytes in place, the caller may advance it, up to the end. */
    const uint8_t *at;
    const uint8_t *end; /**< One past the last byte of the piece. */
} sluice_reader_window;

/** Implementation of sluice_reader_next_window() on a window in memory. Same result. */
SLUICE_API int sluice_reader_next_window_apart(sluice_reader *reader, sluice_reader_window *window);

/** Implementation of sluice_reader_close_window(), likewise. */
SLUICE_API int sluice_reader_close_window_apart(sluice_reader *reader, sluice_reader_window *window);

/**
 * Moves a window to the next piece: consumes the bytes read from it and sets it to the bytes that
 * follow, at least one. If the piece is not used up, these are its remaining bytes and those that
 * arrived after them.
 * @param window closed after a failure; the bytes read from it are still consumed, except with
 *               -ESTALE
 * @return 0, -ESTALE (the reader or its chain was used while the window was open, so its position
 *         is lost: nothing is consumed, and the next move starts at the reader's position), -EAGAIN
 *         or another error of the source
 */
static inline int sluice_reader_next_window(sluice_reader *reader, sluice_reader_window *window) {
    /* A copy: a variable whose address is taken cannot stay in registers. */
    sluice_reader_window copy = *window;
    int error = sluice_reader_next_window_apart(reader, &copy);
    *window = copy;
    return error;
}

/**
 * Consumes the bytes read from a window and closes it. No effect on a closed window.
 * @return 0, -ESTALE (as above; nothing is consumed)
 */
static inline int sluice_reader_close_window(sluice_reader *reader, sluice_reader_window *window) {
    sluice_reader_window copy = *window;
    int error = sluice_reader_close_window_apart(reader, &copy);
    *window = copy;
    return error;
}

/**
 * Reads one byte of a window, and moves the window if it is empty.
 * @return 0, or an error of sluice_reader_next_window()
 */
static inline int sluice_reader_window_u8(sluice_reader *reader, sluice_reader_window *window, uint8_t *ret_value) {
    if (window->at == window->end) {
        int error = sluice_reader_next_window(reader, window);
        if (error < 0)
            return error;
    }
    *ret_value = *window->at++;
    return 0;
}

/**
 * Reads an unsigned big-endian integer of @p n bytes (1 to 8). For a signed integer of fewer than 8
 * bytes, the caller extends the sign.
 * @return 0, -EINVAL (n), -EAGAIN or another error of the source
 */
SLUICE_API int sluice_reader_be(sluice_reader *reader, unsigned n, uint64_t *ret_value);

/**
 * Reads an unsigned little-endian integer of @p n bytes (1 to 8).
 * @return 0, -EINVAL (n), -EAGAIN or another error of the source
 */
SLUICE_API int sluice_reader_le(sluice_reader *reader, unsigned n, uint64_t *ret_value);

/**
 * Reads an unsigned LEB128 number: seven bits per byte, least significant first; the top bit is set
 * in all bytes but the last. Padding with zero groups, as in AV1, is allowed up to ten bytes in
 * total. Invalid numbers are rejected at the first invalid byte.
 * @return 0, -EPROTO (no end within ten bytes), -EOVERFLOW (above 2^64 - 1), -EAGAIN or another
 *         error of the source; on failure nothing is consumed
 */
SLUICE_API int sluice_reader_leb128(sluice_reader *reader, uint64_t *ret_value);

/**
 * Returns a view of the next @p n bytes without consuming them.
 * @param scratch  room for @p n bytes. If the bytes span blocks, they are copied there, and the
 *                 copy is counted; NULL: never copy
 * @param ret_view points into the block if the bytes are contiguous, otherwise to @p scratch
 * @return 0, -EXDEV (the bytes span blocks and scratch is NULL), -EAGAIN or another error of the
 *         source
 */
SLUICE_API int sluice_reader_peek(sluice_reader *reader, size_t n, void *scratch, const uint8_t **ret_view);

/**
 * Skips the next @p n bytes, including bytes that have not arrived: these are dropped on arrival,
 * before any later call reads. With a source that waits, the call waits until all are skipped.
 * After a failure the remaining bytes are still to be skipped; to wait for them again, skip 0
 * bytes.
 * @return 0 (also if the rest arrives later), -EOVERFLOW (more than 2^64 - 1 bytes to skip; nothing
 *         has changed), or an error of the source other than -EAGAIN. sluice_reader_skipping()
 *         returns how many bytes are missing
 */
SLUICE_API int sluice_reader_skip(sluice_reader *reader, uint64_t n);

/** Bytes still to be skipped that have not arrived. */
SLUICE_API uint64_t sluice_reader_skipping(const sluice_reader *reader);

/**
 * Called by sluice_reader_range() with each contiguous view, which is valid during the call.
 * @return true to continue, false to stop after this view
 */
typedef bool sluice_reader_view_fn(const uint8_t *view, size_t length, void *user);

/**
 * Passes the next @p n bytes to a function, as contiguous views, as they arrive, and consumes them.
 * The bytes need not be in the chain all at once. The function must use neither the reader nor its
 * chain.
 * @param ret_done bytes consumed, also if the function stopped the call, and on failure: repeat the
 *                 call for the rest
 * @return 0 (n bytes done), -ECANCELED (stopped by the function), -EAGAIN (more bytes are to come)
 *         or another error of the source
 */
SLUICE_API int sluice_reader_range(sluice_reader *reader, size_t n, sluice_reader_view_fn *view, void *user,
                                   size_t *ret_done);

/**
 * Takes the next @p n bytes as a slice with references of its own, valid until released, on any
 * thread.
 * @return 0, -EAGAIN or another error of the source
 */
SLUICE_API int sluice_reader_slice(sluice_reader *reader, size_t n, sluice_slice *ret_slice);

/**
 * Copies up to @p n buffered bytes and consumes them; never waits. The copy is added to the pool's
 * bytes_copied.
 * @return number of bytes copied
 */
SLUICE_API size_t sluice_reader_copy(sluice_reader *reader, void *dst, size_t n);

/**
 * Copies the next @p n bytes and consumes them; the copy is added to the pool's bytes_copied. The
 * bytes pass through the pool in parts, so @p n may exceed the pool.
 * @param ret_done bytes copied and consumed, also on failure: repeat the call for the rest
 * @return 0 (done is n), -EAGAIN or another error of the source
 */
SLUICE_API int sluice_reader_read(sluice_reader *reader, void *dst, size_t n, size_t *ret_done);

/**
 * Like sluice_reader_read(), for payload whose destination is the caller's memory. Bytes that have
 * arrived are copied and counted; the kernel writes the rest directly into the memory if the source
 * supports it, enough bytes remain and no mark is set.
 * @param memory must not be touched until the call returns
 */
SLUICE_API int sluice_reader_read_into(sluice_reader *reader, void *memory, size_t n, size_t *ret_done);

/**
 * Reads a line up to LF. The LF and one CR before it are consumed but are not part of the line. The
 * progress of the search is remembered, so a line that arrives in many pieces is scanned once.
 * Bytes after the last line end of a stream are not a line and stay in the chain.
 * @param scratch  room for a line that spans blocks (it is copied and counted); also the limit
 * @param size     size of scratch, bytes: the longest line, without its end
 * @param ret_line points into the block, or to scratch; not NUL-terminated
 * @return 0, -EMSGSIZE (no line end within the limit), -EXDEV (the line spans blocks and scratch is
 *         NULL), -EAGAIN or another error of the source; on failure nothing is consumed
 */
SLUICE_API int sluice_reader_line(sluice_reader *reader, char *scratch, size_t size, const char **ret_line,
                                  size_t *ret_length);

/**
 * Like sluice_reader_line(), with a byte builder as scratch: a line that spans blocks is copied
 * (and counted) there. This does not allocate for lines up to SLUICE_BYTES_INLINE bytes.
 * @param bytes    emptied first; its limit is the longest line, without its end
 * @param ret_line points into the block, or into @p bytes; in the latter case valid until that is
 *                 changed
 * @return 0, -EMSGSIZE (no line end within the limit), -ENOMEM, -EAGAIN or another error of the
 *         source; on failure nothing is consumed
 */
SLUICE_API int sluice_reader_line_bytes(sluice_reader *reader, sluice_bytes *bytes, const char **ret_line,
                                        size_t *ret_length);

/**
 * Sets a mark at the current position, for sluice_reader_rewind(). A reader has one mark; a new one
 * replaces it. From here on, bytes that this reader consumes stay in their blocks, by reference:
 * nothing is copied, and the blocks stay in use until sluice_reader_unmark(). Not allowed in a
 * callback of sluice_reader_range().
 * @param limit maximum number of bytes to keep; a call that consumes more drops the mark and these
 *              bytes
 * @return 0; -EAGAIN or another error of the source if bytes of an earlier skip have not arrived,
 *         so that the position has not been reached (an older mark is kept)
 */
SLUICE_API int sluice_reader_mark(sluice_reader *reader, size_t limit);

/**
 * Returns to the mark: the bytes consumed since are in the chain again, in their old blocks. Skips
 * made since the mark are cancelled, including bytes that have not arrived. The mark stays, so this
 * can be repeated. To return to the last n bytes only, rewind and then skip the bytes before them.
 * Not allowed in a callback of sluice_reader_range().
 *
 * sluice_chain_consumed() decreases accordingly. Only bytes consumed by this reader can be
 * restored: the mark expires if other code consumes from the chain.
 * @return 0, -EINVAL (there is no mark), -ESTALE (the mark has expired: more than its limit was
 *         consumed, or other code consumed; returned until the next mark or unmark); on failure
 *         nothing has changed
 */
SLUICE_API int sluice_reader_rewind(sluice_reader *reader);

/** Removes the mark and releases its blocks. No effect without a mark. */
SLUICE_API void sluice_reader_unmark(sluice_reader *reader);

#ifdef __cplusplus
}
#endif

#endif
