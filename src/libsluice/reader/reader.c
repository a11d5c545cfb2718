#include <sluice/reader.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "abi/sized.h"
#include "memory/chain.h"
#include "memory/clock.h"
#include "memory/pool.h"
#include "reader/cursor.h"
#include "reader/reader.h"

enum mark_state {
    MARK_NONE,
    MARK_SET,
    MARK_LOST, /* dropped at its limit, or void since others consumed */
};

#define NO_WINDOW UINT64_MAX

struct sluice_reader {
    /*
     * First, for sluice_reader_u8(), which is compiled into programs: the chain's, where a byte may
     * be taken with nothing else to do; else `closed`.
     */
    sluice_chain_front *front;
    sluice_chain_front closed; /* always without bytes */
    sluice_chain *chain;
    const sluice_reader_source *source; /* NULL: none */
    void *source_user;
    uint32_t timeout_ms; /* 0: none */
    uint64_t deadline;   /* of the call under way, nanoseconds; 0: it has not had to wait */
    sluice_block *lent;  /* referenced while a view of consumed bytes is out: until the next call */
    uint64_t skipping;   /* bytes to drop before anything else is read */
    /* place in the stream (bytes consumed) at which the open window begins, or NO_WINDOW */
    uint64_t window_at;
    uint64_t scanned_at; /* place in the stream (bytes consumed) from which `scanned` counts */
    size_t scanned;      /* bytes known to hold no line end */
    enum mark_state mark;
    sluice_slice behind;  /* what has been consumed since the mark; ends where the chain begins */
    size_t behind_blocks; /* references of behind */
    size_t mark_limit;
    uint64_t marked_at; /* place in the stream (bytes consumed) */
    reader_list *list;  /* the list that contains it; NULL: none */
    sluice_reader *list_next;
    sluice_chain nothing; /* what a reader reads that has been cut off */
};

/* What programs have of it: another layout is another binary interface (SLUICE_ABI). */
_Static_assert(offsetof(struct sluice_reader, front) == 0 && sizeof(sluice_chain_front) == 2 * sizeof(void *) &&
                   offsetof(sluice_chain_front, at) == 0,
               "sluice_reader_u8() reads so");

int sluice_reader_new(sluice_chain *chain, sluice_reader **ret_reader) {
    sluice_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return -ENOMEM;
    sluice_reader_reset(reader, chain);
    *ret_reader = reader;
    return 0;
}

/* The next call that reads must come by the slow way. */
static void close_front(sluice_reader *reader) {
    reader->front = &reader->closed;
}

/* A window that is open can no longer be closed in its place. */
static void lose_window(sluice_reader *reader) {
    reader->window_at = NO_WINDOW;
}

static void end_loan(sluice_reader *reader) {
    if (reader->lent)
        sluice_block_release(reader->lent);
    reader->lent = NULL;
}

static void leave_list(sluice_reader *reader) {
    if (!reader->list)
        return;
    sluice_reader **link = &reader->list->first;
    while (*link != reader)
        link = &(*link)->list_next;
    *link = reader->list_next;
    reader->list = NULL;
}

void reader_enlist(sluice_reader *reader, reader_list *list) {
    leave_list(reader);
    reader->list = list;
    reader->list_next = list->first;
    list->first = reader;
}

void sluice_reader_reset(sluice_reader *reader, sluice_chain *chain) {
    leave_list(reader);
    end_loan(reader);
    sluice_slice_release(&reader->behind);
    *reader = (sluice_reader){.chain = chain};
    close_front(reader);
    lose_window(reader);
}

void reader_move(sluice_reader *reader, sluice_chain *chain) {
    reader->chain = chain;
    close_front(reader);
    lose_window(reader);
}

void sluice_reader_free(sluice_reader *reader) {
    if (!reader)
        return;
    leave_list(reader);
    end_loan(reader);
    sluice_slice_release(&reader->behind);
    free(reader);
}

int sluice_reader_set_source(sluice_reader *reader, const sluice_reader_source *source, void *user) {
    int error = source ? SIZED_CHECK(source) : 0;
    if (error)
        return error;
    reader->source = source;
    reader->source_user = user;
    return 0;
}

void sluice_reader_set_timeout(sluice_reader *reader, uint32_t milliseconds) {
    reader->timeout_ms = milliseconds;
}

static void drop_mark(sluice_reader *reader, enum mark_state state) {
    sluice_slice_release(&reader->behind);
    reader->behind_blocks = 0;
    reader->mark = state;
}

static int fill_nothing(void *user, size_t need, uint64_t deadline) {
    (void)user, (void)need, (void)deadline;
    return -ECANCELED;
}

static void cut(sluice_reader *reader) {
    static const sluice_reader_source nothing = {.size = sizeof nothing, .fill = fill_nothing};
    uint64_t consumed = chain_consumed(reader->chain);
    if (reader->mark == MARK_SET)
        drop_mark(reader, MARK_LOST);
    chain_init(&reader->nothing, NULL);
    reader->nothing.passed = consumed;
    reader_move(reader, &reader->nothing);
    sluice_reader_set_source(reader, &nothing, NULL);
}

void readers_cut(reader_list *list) {
    while (list->first) {
        sluice_reader *reader = list->first;
        leave_list(reader);
        cut(reader);
    }
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

/* Consumes up to @n bytes. Code that takes them in another way calls hold_for_mark() itself. */
static size_t consume(sluice_reader *reader, size_t n) {
    if (n > chain_length(reader->chain))
        n = chain_length(reader->chain);
    hold_for_mark(reader, n);
    return sluice_chain_skip(reader->chain, n);
}

/* The clock is read by calls that wait only. */
static uint64_t deadline(sluice_reader *reader) {
    if (reader->timeout_ms == 0)
        return UINT64_MAX;
    if (reader->deadline == 0)
        reader->deadline = clock_ns() + (uint64_t)reader->timeout_ms * 1000000;
    return reader->deadline;
}

/* By itself, as is all that is rare in a call: the usual way needs no room on the stack. */
static __attribute__((noinline)) int fill(sluice_reader *reader, size_t need) {
    size_t there;
    while ((there = chain_length(reader->chain)) < need) {
        int error = reader->source->fill(reader->source_user, need, deadline(reader));
        if (error == -ECANCELED)
            return error;
        /* What has come together with an error counts. */
        size_t now = chain_length(reader->chain);
        if (now < need && (error || now == there))
            return error ? error : -EAGAIN;
    }
    return 0;
}

int reader_want(sluice_reader *reader, size_t need) {
    if (chain_length(reader->chain) >= need)
        return 0;
    return reader->source ? fill(reader, need) : -EAGAIN;
}

/* Drops what earlier skips owe, of what is there. */
static void drop_owed(sluice_reader *reader) {
    size_t n = reader->skipping < SIZE_MAX ? (size_t)reader->skipping : SIZE_MAX;
    reader->skipping -= consume(reader, n);
}

/* The same as it comes, until nothing is owed. */
static int pay(sluice_reader *reader) {
    int error = 0;
    drop_owed(reader);
    while (reader->skipping > 0 && !error) {
        error = reader_want(reader, 1);
        if (error == -ECANCELED)
            return error;
        drop_owed(reader);
    }
    return reader->skipping > 0 ? error : 0;
}

static int open_front(sluice_reader *reader) {
    reader->front = reader->mark == MARK_SET ? &reader->closed : &reader->chain->front;
    return 0;
}

/* Closed before it may wait: where that is cancelled, the reader may be gone. */
static __attribute__((noinline)) int begin_owing(sluice_reader *reader) {
    close_front(reader);
    int error = pay(reader);
    return error ? error : open_front(reader);
}

int reader_begin(sluice_reader *reader) {
    reader->deadline = 0;
    end_loan(reader);
    lose_window(reader);
    return reader->skipping > 0 ? begin_owing(reader) : open_front(reader);
}

/* Begins a call that needs @n bytes at one time. */
static int begin_with(sluice_reader *reader, size_t n) {
    int error = reader_begin(reader);
    return error ? error : reader_want(reader, n);
}

sluice_chain *reader_chain(const sluice_reader *reader) {
    return reader->chain;
}

size_t sluice_reader_buffered(const sluice_reader *reader) {
    size_t length = chain_length(reader->chain);
    return reader->skipping < length ? length - (size_t)reader->skipping : 0;
}

uint64_t sluice_reader_total(const sluice_reader *reader) {
    return chain_consumed(reader->chain);
}

int sluice_reader_fill(sluice_reader *reader, size_t n) {
    return begin_with(reader, n);
}

/*
 * The next @n bytes in place, consumed, where there is nothing else to do for that: @n is at most
 * 8, of which all are there to be loaded at once; else NULL.
 */
static const uint8_t *take_open(sluice_reader *reader, unsigned n) {
    const uint8_t *at = reader->front->at;
    if (reader->front->end - at <= 8)
        return NULL;
    reader->front->at += n;
    return at;
}

int sluice_reader_u8_slow(sluice_reader *reader, uint8_t *ret_value) {
    int error = begin_with(reader, 1);
    if (error)
        return error;
    *ret_value = *reader->chain->front.at;
    consume(reader, 1);
    return 0;
}

/* If others have consumed or rewound, the position has changed. */
int sluice_reader_close_window_apart(sluice_reader *reader, sluice_reader_window *window) {
    const uint8_t *at = window->at;
    *window = (sluice_reader_window){0};
    if (!at)
        return 0;
    const sluice_chain *chain = reader->chain;
    if (reader->window_at != chain_consumed(chain) || at < chain->front.at || at > chain->front.end)
        return -ESTALE;
    lose_window(reader);
    consume(reader, (size_t)(at - chain->front.at));
    return 0;
}

int sluice_reader_next_window_apart(sluice_reader *reader, sluice_reader_window *window) {
    int error = sluice_reader_close_window_apart(reader, window);
    if (!error)
        error = begin_with(reader, 1);
    if (error)
        return error;
    *window = (sluice_reader_window){reader->chain->front.at, reader->chain->front.end};
    reader->window_at = chain_consumed(reader->chain);
    return 0;
}

int sluice_reader_be(sluice_reader *reader, unsigned n, uint64_t *ret_value) {
    if (n < 1 || n > 8)
        return -EINVAL;
    const uint8_t *bytes = take_open(reader, n);
    if (bytes) {
        *ret_value = bytes_be64(bytes) >> (64 - 8 * n);
        return 0;
    }
    int error = begin_with(reader, n);
    if (error)
        return error;
    sluice_cursor cursor = cursor_of_chain(reader->chain);
    cursor_be(&cursor, n, ret_value);
    consume(reader, n);
    return 0;
}

int sluice_reader_le(sluice_reader *reader, unsigned n, uint64_t *ret_value) {
    if (n < 1 || n > 8)
        return -EINVAL;
    const uint8_t *bytes = take_open(reader, n);
    if (bytes) {
        *ret_value = bytes_le64(bytes) & UINT64_MAX >> (64 - 8 * n);
        return 0;
    }
    int error = begin_with(reader, n);
    if (error)
        return error;
    sluice_cursor cursor = cursor_of_chain(reader->chain);
    cursor_le(&cursor, n, ret_value);
    consume(reader, n);
    return 0;
}

/* 0, -EAGAIN (the bytes end first), -EPROTO, -EOVERFLOW. */
static int parse_leb128(const sluice_chain *chain, uint64_t *ret_value, unsigned *ret_length) {
    enum { MAX_BYTES = 10 };
    sluice_cursor cursor = cursor_of_chain(chain);
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
            *ret_value = value;
            *ret_length = n;
            return 0;
        }
    }
    return -EPROTO;
}

int sluice_reader_leb128(sluice_reader *reader, uint64_t *ret_value) {
    unsigned n;
    int error = reader_begin(reader);
    if (error)
        return error;
    while ((error = parse_leb128(reader->chain, ret_value, &n)) == -EAGAIN) {
        error = reader_want(reader, chain_length(reader->chain) + 1);
        if (error)
            return error;
    }
    if (!error)
        consume(reader, n);
    return error;
}

/* The first n bytes of the chain in one piece: in place, or gathered in scratch. The chain has that
 * many. */
static int gather(const sluice_chain *chain, size_t n, void *scratch, const uint8_t **ret_view) {
    sluice_cursor cursor = cursor_of_chain(chain);
    size_t here;
    const uint8_t *view = cursor_view(&cursor, &here);
    if (here >= n) {
        *ret_view = view;
        return 0;
    }
    if (!scratch)
        return -EXDEV;
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
    int error = begin_with(reader, n);
    if (error)
        return error;
    return gather(reader->chain, n, scratch, ret_view);
}

int sluice_reader_skip(sluice_reader *reader, uint64_t n) {
    if (n > UINT64_MAX - reader->skipping)
        return -EOVERFLOW;
    reader->skipping += n;
    int error = reader_begin(reader);
    return error == -EAGAIN ? 0 : error;
}

uint64_t sluice_reader_skipping(const sluice_reader *reader) {
    size_t length = chain_length(reader->chain);
    return reader->skipping > length ? reader->skipping - length : 0;
}

int sluice_reader_range(sluice_reader *reader, size_t n, sluice_reader_view_fn *view, void *user, size_t *ret_done) {
    size_t done = 0;
    int error = reader_begin(reader);
    while (!error && done < n) {
        error = reader_want(reader, 1);
        if (error)
            break;
        size_t here = chain_here(reader->chain);
        if (here > n - done)
            here = n - done;
        if (!view(reader->chain->front.at, here, user))
            error = -ECANCELED;
        consume(reader, here);
        done += here;
    }
    *ret_done = done;
    return done < n || error == -ECANCELED ? error : 0;
}

/* The next @n bytes, which are there, leave the chain. */
static void take(sluice_reader *reader, size_t n, sluice_slice *ret_slice) {
    hold_for_mark(reader, n);
    sluice_chain_take(reader->chain, n, ret_slice);
}

int sluice_reader_slice(sluice_reader *reader, size_t n, sluice_slice *ret_slice) {
    /* An open front is the chain's. */
    if (reader->front != &reader->closed && chain_take_within(reader->chain, 0, n, 0, ret_slice))
        return 0;
    int error = begin_with(reader, n);
    if (!error)
        take(reader, n, ret_slice);
    return error;
}

/* Copies up to @n bytes of those that are there. */
static size_t copy_out(sluice_reader *reader, void *dst, size_t n) {
    if (n > chain_length(reader->chain))
        n = chain_length(reader->chain);
    sluice_slice slice;
    take(reader, n, &slice);
    size_t done = sluice_slice_copy(&slice, 0, dst, n);
    sluice_slice_release(&slice);
    return done;
}

size_t sluice_reader_copy(sluice_reader *reader, void *dst, size_t n) {
    end_loan(reader);
    drop_owed(reader);
    return reader->skipping > 0 ? 0 : copy_out(reader, dst, n);
}

int sluice_reader_read(sluice_reader *reader, void *dst, size_t n, size_t *ret_done) {
    size_t done = 0;
    int error = reader_begin(reader);
    while (!error && done < n) {
        error = reader_want(reader, 1);
        if (!error)
            done += copy_out(reader, (uint8_t *)dst + done, n - done);
    }
    *ret_done = done;
    return done < n ? error : 0;
}

/* Has the source write to the caller's memory, past the chain, which is empty; the place in the
 * stream moves along. */
static int read_past(sluice_reader *reader, void *memory, size_t n, size_t *ret_done) {
    size_t done = 0;
    uint64_t place = chain_consumed(reader->chain);
    int error = reader->source->read_into(reader->source_user, memory, n, deadline(reader), &done);
    *ret_done = done;
    /* Chain and reader may be gone. */
    if (error == -ECANCELED)
        return error;
    /* A connection has counted already what it received past its chain. */
    reader->chain->passed += place + done - chain_consumed(reader->chain);
    return error || done > 0 || chain_length(reader->chain) > 0 ? error : -EAGAIN;
}

int sluice_reader_read_into(sluice_reader *reader, void *memory, size_t n, size_t *ret_done) {
    bool past = reader->source && reader->source->read_into && reader->mark != MARK_SET;
    uint8_t *to = memory;
    size_t done = 0;
    int error = reader_begin(reader);
    while (!error && done < n) {
        size_t here = 0;
        if (past && chain_length(reader->chain) == 0)
            error = read_past(reader, to + done, n - done, &here);
        else
            error = reader_want(reader, 1);
        done += here;
        /* Also bytes that arrived in the chain together with an error. */
        if (error != -ECANCELED)
            done += copy_out(reader, to + done, n - done);
    }
    *ret_done = done;
    return done < n ? error : 0;
}

/* Finds LF from where the last search ended, at most @limit bytes in. */
static bool find_line_end(sluice_reader *reader, size_t limit, size_t *ret_place) {
    sluice_chain *chain = reader->chain;
    if (reader->scanned_at != chain_consumed(chain)) {
        reader->scanned_at = chain_consumed(chain);
        reader->scanned = 0;
    }
    sluice_cursor cursor = cursor_of_chain_at(chain, reader->scanned);
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

/* A line's text without its end, and the place of its LF, as soon as that is there. */
static int wait_for_line(sluice_reader *reader, size_t limit, size_t *ret_length, size_t *ret_place) {
    int error = reader_begin(reader);
    if (error)
        return error;
    if (limit > SIZE_MAX - 2)
        limit = SIZE_MAX - 2;
    size_t place;
    while (!find_line_end(reader, limit + 2, &place)) {
        if (reader->scanned >= limit + 2)
            return -EMSGSIZE;
        error = reader_want(reader, chain_length(reader->chain) + 1);
        if (error)
            return error;
    }
    uint8_t before = 0;
    if (place > 0) {
        sluice_cursor cursor = cursor_of_chain_at(reader->chain, place - 1);
        before = cursor_byte(&cursor);
    }
    size_t length = before == '\r' ? place - 1 : place;
    if (length > limit)
        return -EMSGSIZE;
    *ret_length = length;
    *ret_place = place;
    return 0;
}

/* The line is consumed, but its view, which lies in the first block, must stay. */
static void lend_first(sluice_reader *reader) {
    reader->lent = reader->chain->first;
    block_ref(reader->lent);
    close_front(reader);
}

int sluice_reader_line(sluice_reader *reader, char *scratch, size_t size, const char **ret_line, size_t *ret_length) {
    size_t length, place;
    const uint8_t *view = (const uint8_t *)scratch;
    int error = wait_for_line(reader, size, &length, &place);
    if (!error && length > 0)
        error = gather(reader->chain, length, scratch, &view);
    if (error)
        return error;
    if (length > 0 && view != (const uint8_t *)scratch)
        lend_first(reader);
    *ret_line = (const char *)view;
    *ret_length = length;
    consume(reader, place + 1);
    return 0;
}

int sluice_reader_line_bytes(sluice_reader *reader, sluice_bytes *bytes, const char **ret_line, size_t *ret_length) {
    size_t length, place;
    sluice_bytes_clear(bytes);
    int error = wait_for_line(reader, bytes->limit, &length, &place);
    if (error)
        return error;
    if (length > 0 && length <= chain_here(reader->chain)) {
        *ret_line = (const char *)reader->chain->front.at;
        lend_first(reader);
    } else {
        sluice_slice slice = {0};
        chain_hold(reader->chain, length, &slice);
        error = sluice_bytes_append_slice(bytes, &slice);
        sluice_slice_release(&slice);
        if (error)
            return error;
        *ret_line = (const char *)sluice_bytes_view(bytes);
    }
    *ret_length = length;
    consume(reader, place + 1);
    return 0;
}

int sluice_reader_mark(sluice_reader *reader, size_t limit) {
    int error = reader_begin(reader);
    if (error)
        return error;
    drop_mark(reader, MARK_SET);
    close_front(reader);
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
    lose_window(reader);
    chain_put_back(reader->chain, &reader->behind, reader->behind_blocks);
    reader->behind_blocks = 0;
    reader->skipping = 0;
    return 0;
}

void sluice_reader_unmark(sluice_reader *reader) {
    end_loan(reader);
    drop_mark(reader, MARK_NONE);
}
