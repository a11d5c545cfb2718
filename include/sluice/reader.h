/**
 * @file reader.h
 * Reading a chain: integers, views, lines and slices, across the borders of blocks.
 *
 * A reader over a chain alone never waits: a call that needs more bytes than the chain holds says
 * -EAGAIN; call it again when the chain has grown. With a source (sluice_reader_set_source()) the
 * call asks the source for more until there is enough, and where the source has no more it returns
 * what the source says:
 *
 * - -EAGAIN: more comes later. A source that is driven by events says this; see
 *   sluice_conn_attach_reader().
 * - -ENODATA: the stream has ended.
 * - -ETIMEDOUT: the time of sluice_reader_set_timeout() has passed. The call may be made again;
 *   nothing is lost.
 * - what the source has failed with, such as -ECONNRESET.
 *
 * Bytes that came before an end or a failure, or with it, are read first. A call that fails has
 * consumed nothing, except for those that are streaming and say exactly how far they came:
 * sluice_reader_range(), sluice_reader_read(), sluice_reader_read_into() and sluice_reader_skip();
 * and for a window, of which the caller knows how much it has read.
 *
 * Views that a call hands out are borrowed: valid until the next call on this reader, or on its
 * chain. To keep bytes, take a slice.
 *
 * Threads: the chain's. While a call waits, nobody else may use the reader, nor consume from its
 * chain.
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
 * Makes a reader over a chain, which stays the caller's and must outlive the reader.
 * @return 0, -ENOMEM
 */
SLUICE_API int sluice_reader_new(sluice_chain *chain, sluice_reader **ret_reader);

/** Frees the reader and its mark, not its chain, which may be gone. NULL is allowed. */
SLUICE_API void sluice_reader_free(sluice_reader *reader);

/**
 * Makes a reader as new, over another chain or the same, without an allocation: what it holds of
 * blocks goes, and mark, debt, source and timeout are forgotten. The old chain is not touched, and
 * may be gone.
 * @param chain as for sluice_reader_new(); NULL for a reader that waits for its next use: then only
 *              this call and sluice_reader_free() may follow
 */
SLUICE_API void sluice_reader_reset(sluice_reader *reader, sluice_chain *chain);

/**
 * Where a reader's bytes come from, as functions that the reader calls when its chain holds too
 * few. Neither may consume from the chain, nor call the reader.
 */
typedef struct sluice_reader_source {
    size_t size; /**< sizeof(sluice_reader_source). */

    /**
     * Waits until the chain has grown, best until it holds @p need bytes; or until the deadline.
     * One that reads from a descriptor has room for that by sluice_chain_reserve().
     * @param need     bytes that the chain should hold; it holds fewer
     * @param deadline nanoseconds of CLOCK_MONOTONIC; UINT64_MAX: none
     * @return 0 (the chain has grown), -EAGAIN (more comes later), -ENODATA (the stream has ended),
     *         -ETIMEDOUT (the deadline has passed), or what the source has failed with; the chain
     *         may have grown in any case. -ECANCELED: it has been closed, and chain and reader may
     *         be gone: the reader touches neither.
     */
    int (*fill)(void *user, size_t need, uint64_t deadline);

    /**
     * For sluice_reader_read_into(), while the chain is empty: has the next bytes written straight
     * into the memory, at least one and no more than @p n; or does what fill does, where that is
     * better. May be NULL: they come by way of the chain.
     * @param ret_done bytes written, also on failure; the memory is no longer in use after the call
     * @return as for fill
     */
    int (*read_into)(void *user, void *memory, size_t n, uint64_t deadline, size_t *ret_done);
} sluice_reader_source;

/**
 * Gives the reader a source. Not while a call is under way.
 * @param source must outlive its use; NULL for none: the reader never waits
 * @param user   what its functions are called with
 * @return 0, -EINVAL (the source's size; nothing has changed)
 */
SLUICE_API int sluice_reader_set_source(sluice_reader *reader, const sluice_reader_source *source, void *user);

/**
 * How long each call may wait in all, from the moment when it first has to; then it returns
 * -ETIMEDOUT. For sources that wait: where a call never does, as on connections, there is
 * sluice_conn_set_timeout().
 * @param milliseconds 0: for any length, which is the default
 */
SLUICE_API void sluice_reader_set_timeout(sluice_reader *reader, uint32_t milliseconds);

/** Bytes that can be read now. O(1). */
SLUICE_API size_t sluice_reader_buffered(const sluice_reader *reader);

/**
 * Bytes consumed through the chain since it was made, less those that a rewind has put back: a
 * place in the stream.
 */
SLUICE_API uint64_t sluice_reader_total(const sluice_reader *reader);

/**
 * Has @p n bytes buffered, without consuming any: for a framer that reads the same chain and says
 * how many it needs.
 * @return 0, -EAGAIN or what else the source says
 */
SLUICE_API int sluice_reader_fill(sluice_reader *reader, size_t n);

/**
 * What sluice_reader_u8() does at the end of a block, with a mark, and where it has to wait. The
 * same result.
 */
SLUICE_API int sluice_reader_u8_slow(sluice_reader *reader, uint8_t *ret_value);

/**
 * Reads one byte. Who reads many one after the other uses a window: sluice_reader_window_u8().
 * @return 0, -EAGAIN or what else the source says
 */
static inline int sluice_reader_u8(sluice_reader *reader, uint8_t *ret_value) {
    /* A reader begins with the pointer to the bytes that may be taken without further ado. The last
     * of a block are not among them, since with it the block is given back. */
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
 * The reader's next bytes as far as they lie in one piece, for who reads them one after the other.
 * In a local variable both pointers stay in registers, and a byte costs a comparison and a load.
 * All zero is a window that is closed.
 *
 *     sluice_reader_window window = {0};
 *     uint8_t byte;
 *     int error;
 *     while ((error = sluice_reader_window_u8(reader, &window, &byte)) == 0 && byte != 0)
 *         ...
 *     sluice_reader_close_window(reader, &window);
 *
 * What is read of it is consumed when the window moves on to the next piece, and when it is closed:
 * until then it is not in sluice_reader_total(), nor behind a mark. A window is closed before the
 * next call on the reader, or on its chain. The bytes stay valid until that or the next move.
 */
typedef struct sluice_reader_window {
    /** The next byte. May be moved on, up to the end, by who reads several in place. */
    const uint8_t *at;
    const uint8_t *end; /**< Behind the last byte of the piece. */
} sluice_reader_window;

/** What sluice_reader_next_window() does, for a window that lies in memory. The same result. */
SLUICE_API int sluice_reader_next_window_apart(sluice_reader *reader, sluice_reader_window *window);

/** What sluice_reader_close_window() does, likewise. */
SLUICE_API int sluice_reader_close_window_apart(sluice_reader *reader, sluice_reader_window *window);

/**
 * Moves a window on: consumes what has been read of it, and makes it what lies there then, at least
 * one byte. Before the end of the piece that are its remaining bytes, and what has come behind
 * them.
 * @param window closed after a failure; what had been read of it is consumed also then, unless it
 *   is -ESTALE
 * @return 0, -ESTALE (the reader or its chain was used while the window was open, so its place is
 *         lost: nothing is consumed, and the next move begins where the reader is), -EAGAIN or what
 *         else the source says
 */
static inline int sluice_reader_next_window(sluice_reader *reader, sluice_reader_window *window) {
    /* Of a copy, since the address of what is to stay in registers may be given to nobody. */
    sluice_reader_window copy = *window;
    int error = sluice_reader_next_window_apart(reader, &copy);
    *window = copy;
    return error;
}

/**
 * Consumes what has been read of a window, and closes it. One that is closed already stays so.
 * @return 0, -ESTALE (as above; nothing is consumed)
 */
static inline int sluice_reader_close_window(sluice_reader *reader, sluice_reader_window *window) {
    sluice_reader_window copy = *window;
    int error = sluice_reader_close_window_apart(reader, &copy);
    *window = copy;
    return error;
}

/**
 * Reads one byte of a window, which moves on where it has none. @return 0, or what
 * sluice_reader_next_window() says
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
 * Reads an unsigned integer of @p n bytes (1 to 8), most significant first. A signed one is the
 * same bits; where n is below 8, the caller extends the sign.
 * @return 0, -EINVAL (n), -EAGAIN or what else the source says
 */
SLUICE_API int sluice_reader_be(sluice_reader *reader, unsigned n, uint64_t *ret_value);

/**
 * Reads an unsigned integer of @p n bytes (1 to 8), least significant first.
 * @return 0, -EINVAL (n), -EAGAIN or what else the source says
 */
SLUICE_API int sluice_reader_le(sluice_reader *reader, unsigned n, uint64_t *ret_value);

/**
 * Reads an unsigned LEB128: seven bits a byte, least significant first, the top bit set on all but
 * the last. Padding with zero groups is allowed (AV1 has it) up to ten bytes in all. What is wrong
 * is refused as soon as it has come.
 * @return 0, -EPROTO (no end within ten bytes), -EOVERFLOW (above 2^64 - 1), -EAGAIN or what else
 *         the source says; on failure nothing is consumed
 */
SLUICE_API int sluice_reader_leb128(sluice_reader *reader, uint64_t *ret_value);

/**
 * Looks at the next @p n bytes without consuming them.
 * @param scratch  room for @p n bytes, used (and the copy counted) only where the bytes straddle
 *                 blocks; NULL to refuse a copy
 * @param ret_view into the block where the bytes are contiguous, else @p scratch
 * @return 0, -EXDEV (they straddle blocks and scratch is NULL), -EAGAIN or what else the source
 *   says
 */
SLUICE_API int sluice_reader_peek(sluice_reader *reader, size_t n, void *scratch, const uint8_t **ret_view);

/**
 * Consumes the next @p n bytes without looking at them, even those that have not arrived: what is
 * not there is owed, and dropped as it comes, before any later call reads. A source that waits is
 * asked until nothing is owed; what is still owed after a failure stays so, and to wait for it
 * again, skip 0 bytes.
 * @return 0 (also where the rest comes later), -EOVERFLOW (more than 2^64 - 1 bytes to drop:
 *         nothing has changed), or what the source says other than -EAGAIN;
 *         sluice_reader_skipping() tells how many bytes were not there
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
 * Calls back with each contiguous view of the next @p n bytes as they come, and consumes them; the
 * n bytes need not be there at one time. The callback may not use the reader, nor its chain.
 * @param ret_done bytes consumed, also when the callback stopped, and on failure: ask for the rest
 * @return 0 (the n bytes are done), -ECANCELED (the callback stopped), -EAGAIN (some are to come)
 *         or what else the source says
 */
SLUICE_API int sluice_reader_range(sluice_reader *reader, size_t n, sluice_reader_view_fn *view, void *user,
                                   size_t *ret_done);

/**
 * Takes the next @p n bytes as a slice with references of its own, valid until released, on any
 * thread.
 * @return 0, -EAGAIN or what else the source says
 */
SLUICE_API int sluice_reader_slice(sluice_reader *reader, size_t n, sluice_slice *ret_slice);

/**
 * Copies up to @p n bytes out, of those that are there, and consumes them; never waits. The copy is
 * counted in the pool's bytes_copied.
 * @return how many
 */
SLUICE_API size_t sluice_reader_copy(sluice_reader *reader, void *dst, size_t n);

/**
 * Copies the next @p n bytes out and consumes them; the copy is counted in the pool's bytes_copied.
 * Needs room in the pool for a part of them only, however many they are.
 * @param ret_done bytes copied and consumed, also on failure: ask for the rest
 * @return 0 (done is n), -EAGAIN or what else the source says
 */
SLUICE_API int sluice_reader_read(sluice_reader *reader, void *dst, size_t n, size_t *ret_done);

/**
 * The same for payload that is to lie in the caller's memory in the end: what has arrived is copied
 * and counted, and the rest is written there by the kernel itself, where the source can have that
 * done, it is worth its while and no mark is set.
 * @param memory not to be touched until the call returns
 */
SLUICE_API int sluice_reader_read_into(sluice_reader *reader, void *memory, size_t n, size_t *ret_done);

/**
 * Reads a line up to LF; LF and one CR before it are consumed and are not part of it. How far the
 * search came is remembered, so a line that arrives in many pieces is scanned once. What follows
 * the last line end of a stream is not a line: it stays where it is.
 * @param scratch  room for a line that straddles blocks (then copied and counted); it is also the
 *                 limit
 * @param size     bytes of scratch: the longest line, without its end
 * @param ret_line into the block, or scratch; not terminated by NUL
 * @return 0, -EMSGSIZE (no line end within the limit), -EXDEV (the line straddles blocks and
 *         scratch is NULL), -EAGAIN or what else the source says; on failure nothing is consumed
 */
SLUICE_API int sluice_reader_line(sluice_reader *reader, char *scratch, size_t size, const char **ret_line,
                                  size_t *ret_length);

/**
 * The same, where the scratch is a byte builder: a line that straddles blocks is gathered there
 * (and counted), which allocates nothing as long as the line is no longer than SLUICE_BYTES_INLINE.
 * @param bytes    made empty first; its limit is the longest line, without its end
 * @param ret_line into the block, or into @p bytes; in the latter case valid as long as that is not
 *   changed
 * @return 0, -EMSGSIZE (no line end within the limit), -ENOMEM, -EAGAIN or what else the source
 *         says; on failure nothing is consumed
 */
SLUICE_API int sluice_reader_line_bytes(sluice_reader *reader, sluice_bytes *bytes, const char **ret_line,
                                        size_t *ret_length);

/**
 * Marks this place in the stream, so that sluice_reader_rewind() can come back to it; the reader
 * has one mark, and an older one is forgotten. From here on what this reader consumes stays in its
 * blocks, by reference: nothing is copied, and the blocks stay out of the pool until
 * sluice_reader_unmark(). Not within a callback of sluice_reader_range().
 * @param limit most bytes to hold behind the reader; the call that consumes more drops the mark and
 *   what it holds
 * @return 0; -EAGAIN or what else the source says, when an earlier skip owes bytes, so that the
 *         place has not come (an older mark stays)
 */
SLUICE_API int sluice_reader_mark(sluice_reader *reader, size_t limit);

/**
 * Goes back to the mark: the bytes consumed since are in the chain again, in their old blocks.
 * Bytes that a skip made since the mark still owes are owed no longer. The mark stays, so this can
 * be done again. To go back only as far as to the last n bytes, rewind and then skip what was
 * before them. Not within a callback of sluice_reader_range().
 *
 * Takes back sluice_chain_consumed() as well. Only what this reader has consumed can come back:
 * when anybody else consumes from the chain after the mark, the mark is void.
 * @return 0, -EINVAL (there is no mark), -ESTALE (the mark was dropped: more than its limit was
 *         consumed, or others consumed; said until the next mark or unmark); on failure nothing has
 *         changed
 */
SLUICE_API int sluice_reader_rewind(sluice_reader *reader);

/** Forgets the mark and releases what it holds. Without a mark it does nothing. */
SLUICE_API void sluice_reader_unmark(sluice_reader *reader);

#ifdef __cplusplus
}
#endif

#endif
