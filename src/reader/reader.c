#include <sluice/reader.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory/chain.h"
#include "memory/pool.h"
#include "reader/cursor.h"
#include "reader/reader.h"

enum mark_state {
    MARK_NONE,
    MARK_SET,
    MARK_LOST, /* dropped at its limit, or void since others consumed */
};

struct sluice_reader {
    sluice_chain *chain;
    sluice_block *lent;  /* referenced while a view of consumed bytes is out: until the next call */
    uint64_t skipping;   /* bytes to drop before anything else is read */
    uint64_t scanned_at; /* place in the stream (bytes consumed) from which `scanned` counts */
    size_t scanned;      /* bytes known to hold no line end */
    enum mark_state mark;
    sluice_slice behind;  /* what has been consumed since the mark; ends where the chain begins */
    size_t behind_blocks; /* references of behind */
    size_t mark_limit;
    uint64_t marked_at; /* place in the stream (bytes consumed) */
};

int sluice_reader_new(sluice_chain *chain, sluice_reader **ret_reader) {
    sluice_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return -ENOMEM;
    reader->chain = chain;
    *ret_reader = reader;
    return 0;
}

static void end_loan(sluice_reader *reader) {
    sluice_block_release(reader->lent);
    reader->lent = NULL;
}

void sluice_reader_free(sluice_reader *reader) {
    if (!reader)
        return;
    end_loan(reader);
    sluice_slice_release(&reader->behind);
    free(reader);
}

static void drop_mark(sluice_reader *reader, enum mark_state state) {
    sluice_slice_release(&reader->behind);
    reader->behind_blocks = 0;
    reader->mark = state;
}

/* Others have consumed since the last consumption that the mark has seen. */
static bool mark_is_void(const sluice_reader *reader) {
    return chain_consumed(reader->chain) != reader->marked_at + reader->behind.length;
}

/* The next @n bytes, which are there, are about to be consumed. */
static void hold_for_mark(sluice_reader *reader, size_t n) {
    if (reader->mark != MARK_SET)
        return;
    if (mark_is_void(reader) || n > reader->mark_limit - reader->behind.length)
        drop_mark(reader, MARK_LOST);
    else
        reader->behind_blocks += chain_hold(reader->chain, n, &reader->behind);
}

/* Consumes up to @n bytes. Whoever takes them instead calls hold_for_mark() himself. */
static size_t consume(sluice_reader *reader, size_t n) {
    if (n > chain_length(reader->chain))
        n = chain_length(reader->chain);
    hold_for_mark(reader, n);
    return sluice_chain_skip(reader->chain, n);
}

/* Every call begins here: ends the last view's life and drops what earlier skips owe; false while they owe more. */
static bool settle(sluice_reader *reader) {
    end_loan(reader);
    if (reader->skipping > 0) {
        size_t n = reader->skipping < SIZE_MAX ? (size_t)reader->skipping : SIZE_MAX;
        reader->skipping -= consume(reader, n);
    }
    return reader->skipping == 0;
}

sluice_chain *reader_chain(sluice_reader *reader) {
    return settle(reader) ? reader->chain : NULL;
}

size_t sluice_reader_buffered(const sluice_reader *reader) {
    size_t length = chain_length(reader->chain);
    return reader->skipping < length ? length - (size_t)reader->skipping : 0;
}

uint64_t sluice_reader_total(const sluice_reader *reader) {
    return chain_consumed(reader->chain);
}

static int read_integer(sluice_reader *reader, unsigned n, bool big_endian, uint64_t *ret_value) {
    if (n < 1 || n > 8)
        return -EINVAL;
    if (!settle(reader))
        return -EAGAIN;
    sluice_cursor cursor = cursor_of_chain(reader->chain);
    bool whole = big_endian ? cursor_be(&cursor, n, ret_value) : cursor_le(&cursor, n, ret_value);
    if (!whole)
        return -EAGAIN;
    consume(reader, n);
    return 0;
}

int sluice_reader_u8(sluice_reader *reader, uint8_t *ret_value) {
    uint64_t value;
    int error = read_integer(reader, 1, true, &value);
    if (!error)
        *ret_value = (uint8_t)value;
    return error;
}

int sluice_reader_be(sluice_reader *reader, unsigned n, uint64_t *ret_value) {
    return read_integer(reader, n, true, ret_value);
}

int sluice_reader_le(sluice_reader *reader, unsigned n, uint64_t *ret_value) {
    return read_integer(reader, n, false, ret_value);
}

int sluice_reader_leb128(sluice_reader *reader, uint64_t *ret_value) {
    enum { MAX_BYTES = 10 };
    if (!settle(reader))
        return -EAGAIN;
    sluice_cursor cursor = cursor_of_chain(reader->chain);
    uint64_t value = 0;
    for (unsigned n = 1; n <= MAX_BYTES; n++) {
        uint8_t byte;
        if (!cursor_u8(&cursor, &byte))
            return -EAGAIN;
        /* Of the tenth byte's bits one is left of 64. */
        if (n == MAX_BYTES && (byte & 0x80) == 0 && byte > 1)
            return -EOVERFLOW;
        value |= (uint64_t)(byte & 0x7F) << (7 * (n - 1));
        if ((byte & 0x80) == 0) {
            consume(reader, n);
            *ret_value = value;
            return 0;
        }
    }
    return -EPROTO;
}

/* The first n bytes of the chain in one piece: in place, or gathered in scratch. The chain has that many. */
static int gather(const sluice_chain *chain, size_t n, void *scratch, const uint8_t **ret_view) {
    sluice_cursor cursor = cursor_of_chain(chain);
    size_t here;
    const uint8_t *view = cursor_view(&cursor, &here);
    if (here >= n) {
        *ret_view = view;
        return 0;
    }
    if (!scratch)
        return -ENOBUFS;
    for (size_t done = 0; done < n;) {
        view = cursor_view(&cursor, &here);
        if (here > n - done)
            here = n - done;
        memcpy((uint8_t *)scratch + done, view, here);
        done += here;
        cursor_skip(&cursor, here);
    }
    pool_count_copied(chain->pool, n);
    *ret_view = scratch;
    return 0;
}

int sluice_reader_peek(sluice_reader *reader, size_t n, void *scratch, const uint8_t **ret_view) {
    if (!settle(reader) || n > chain_length(reader->chain))
        return -EAGAIN;
    return gather(reader->chain, n, scratch, ret_view);
}

int sluice_reader_skip(sluice_reader *reader, uint64_t n) {
    if (n > UINT64_MAX - reader->skipping)
        return -EOVERFLOW;
    reader->skipping += n;
    settle(reader);
    return 0;
}

uint64_t sluice_reader_skipping(const sluice_reader *reader) {
    size_t length = chain_length(reader->chain);
    return reader->skipping > length ? reader->skipping - length : 0;
}

int sluice_reader_range(sluice_reader *reader, size_t n, sluice_reader_view_fn *view, void *user, size_t *ret_done) {
    size_t done = 0;
    bool go_on = settle(reader);
    bool stopped = false;
    while (go_on && done < n && chain_length(reader->chain) > 0) {
        sluice_cursor cursor = cursor_of_chain(reader->chain);
        size_t here;
        const uint8_t *bytes = cursor_view(&cursor, &here);
        if (here > n - done)
            here = n - done;
        go_on = view(bytes, here, user);
        stopped = !go_on;
        consume(reader, here);
        done += here;
    }
    *ret_done = done;
    if (stopped)
        return -ECANCELED;
    return done < n ? -EAGAIN : 0;
}

int sluice_reader_slice(sluice_reader *reader, size_t n, sluice_slice *ret_slice) {
    if (!settle(reader) || n > chain_length(reader->chain))
        return -EAGAIN;
    hold_for_mark(reader, n);
    return sluice_chain_take(reader->chain, n, ret_slice);
}

size_t sluice_reader_copy(sluice_reader *reader, void *dst, size_t n) {
    if (!settle(reader))
        return 0;
    if (n > chain_length(reader->chain))
        n = chain_length(reader->chain);
    sluice_slice slice;
    hold_for_mark(reader, n);
    sluice_chain_take(reader->chain, n, &slice);
    size_t done = sluice_slice_copy(&slice, 0, dst, n);
    sluice_slice_release(&slice);
    return done;
}

/* Finds LF from where the last search ended, at most @limit bytes in. */
static bool find_line_end(sluice_reader *reader, size_t limit, size_t *ret_place) {
    const sluice_chain *chain = reader->chain;
    if (reader->scanned_at != chain_consumed(chain)) {
        reader->scanned_at = chain_consumed(chain);
        reader->scanned = 0;
    }
    sluice_cursor cursor = cursor_of_chain(chain);
    cursor_skip(&cursor, reader->scanned);
    while (reader->scanned < limit && cursor_left(&cursor) > 0) {
        size_t here;
        const uint8_t *view = cursor_view(&cursor, &here);
        if (here > limit - reader->scanned)
            here = limit - reader->scanned;
        const uint8_t *end = memchr(view, '\n', here);
        if (end) {
            *ret_place = reader->scanned + (size_t)(end - view);
            return true;
        }
        reader->scanned += here;
        cursor_skip(&cursor, here);
    }
    return false;
}

int sluice_reader_line(sluice_reader *reader, char *scratch, size_t size, const char **ret_line, size_t *ret_length) {
    if (!settle(reader))
        return -EAGAIN;
    if (size > SIZE_MAX - 2)
        size = SIZE_MAX - 2;
    size_t place;
    if (!find_line_end(reader, size + 2, &place))
        return reader->scanned >= size + 2 ? -EMSGSIZE : -EAGAIN;

    sluice_cursor cursor = cursor_of_chain(reader->chain);
    uint8_t before = 0;
    if (place > 0) {
        cursor_skip(&cursor, place - 1);
        before = cursor_byte(&cursor);
    }
    size_t length = place > 0 && before == '\r' ? place - 1 : place;
    if (length > size)
        return -EMSGSIZE;
    /* The line is consumed, but its view must stay: a contiguous one lies in the first block. */
    if (length == 0) {
        *ret_line = scratch;
    } else {
        const uint8_t *view;
        int error = gather(reader->chain, length, scratch, &view);
        if (error)
            return error;
        *ret_line = (const char *)view;
        if (*ret_line != scratch) {
            reader->lent = reader->chain->first;
            block_ref(reader->lent);
        }
    }
    *ret_length = length;
    consume(reader, place + 1);
    return 0;
}

int sluice_reader_mark(sluice_reader *reader, size_t limit) {
    if (!settle(reader))
        return -EAGAIN;
    drop_mark(reader, MARK_SET);
    reader->mark_limit = limit;
    reader->marked_at = chain_consumed(reader->chain);
    return 0;
}

int sluice_reader_rewind(sluice_reader *reader) {
    end_loan(reader);
    if (reader->mark == MARK_NONE)
        return -EINVAL;
    if (reader->mark == MARK_SET && mark_is_void(reader))
        drop_mark(reader, MARK_LOST);
    if (reader->mark == MARK_LOST)
        return -ESTALE;
    chain_put_back(reader->chain, &reader->behind, reader->behind_blocks);
    reader->behind_blocks = 0;
    reader->skipping = 0;
    return 0;
}

void sluice_reader_unmark(sluice_reader *reader) {
    end_loan(reader);
    drop_mark(reader, MARK_NONE);
}
