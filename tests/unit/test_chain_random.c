/* The chain and slices at random beside plain arrays. */
#include <sluice/chain.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "memory/chain.h"
#include "support/chain_rig.h"

/*
 * The random walk: some chains and slices of a small pool, and beside each a plain array of the
 * bytes that it must hold. The pool's limits are met on the way, and a refusal must have changed
 * nothing.
 */
enum {
    CHAINS = 3,
    SLICES = 40,
    ROOM = 64 * 1024,
    STEPS = 40000,
};

typedef struct model_chain {
    sluice_chain *chain;
    sluice_block *tail; /* where the next receive may aim */
    uint64_t consumed;
    size_t length;
    uint8_t bytes[ROOM];
} model_chain;

typedef struct model_slice {
    sluice_slice slice;
    size_t length;
    uint8_t *bytes;
} model_slice;

typedef struct model {
    sluice_pool *pool;
    model_chain chains[CHAINS];
    model_slice slices[SLICES]; /* those in use come first */
    uint32_t slice_count;
    uint64_t copied;
    uint64_t seed;
    bool hoards; /* for a while: more is referenced than released */
    uint32_t without_blocks, without_views, grown, extended;
} model;

static uint32_t pick(model *m, uint32_t below) {
    m->seed = m->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(m->seed >> 33) % below;
}

/* A length: mostly short, sometimes all there is, rarely too much. */
static size_t pick_length(model *m, size_t most) {
    switch (pick(m, 8)) {
    case 0:
        return most;
    case 1:
        return most + 1 + pick(m, 5);
    case 2:
        return pick(m, 3);
    default:
        return pick(m, (uint32_t)(most < 700 ? most : 700) + 1);
    }
}

static void drop_tail(model_chain *c) {
    sluice_block_release(c->tail);
    c->tail = NULL;
}

static void model_append(model_chain *c, const uint8_t *bytes, size_t n) {
    assert_true(c->length + n <= ROOM);
    memmove(c->bytes + c->length, bytes, n);
    c->length += n;
}

static void model_consume(model_chain *c, size_t n) {
    c->length -= n;
    c->consumed += n;
    memmove(c->bytes, c->bytes + n, c->length);
}

static void model_keep(model *m, const sluice_slice *slice, const uint8_t *bytes, size_t n) {
    uint8_t *copy = malloc(n + 1);
    assert_non_null(copy);
    memcpy(copy, bytes, n);
    m->slices[m->slice_count++] = (model_slice){*slice, n, copy};
}

static void model_release(model *m, uint32_t i) {
    sluice_slice_release(&m->slices[i].slice);
    sluice_slice_release(&m->slices[i].slice);
    free(m->slices[i].bytes);
    m->slices[i] = m->slices[--m->slice_count];
}

static void step_append(model *m, model_chain *c) {
    sluice_block *block;
    if (c->length + BLOCK > ROOM / 4)
        return;
    if (sluice_block_get(m->pool, &block) < 0) {
        assert_int_equal(counts(m->pool).free, 0);
        m->without_blocks++;
        return;
    }
    uint32_t n = pick(m, 4) == 0 ? pick(m, BLOCK + 1) : pick(m, 40);
    for (uint32_t i = 0; i < n; i++)
        block->data[i] = (uint8_t)pick(m, 256);
    assert_int_equal(sluice_block_set_length(block, n), 0);
    model_append(c, block->data, n);
    drop_tail(c);
    if (n > 0 && n < BLOCK && pick(m, 2) == 0) {
        c->tail = block;
        block_ref(block);
    }
    sluice_chain_append(c->chain, block);
}

static void step_extend(model *m, model_chain *c) {
    if (!c->tail || c->length + BLOCK > ROOM / 4)
        return;
    uint32_t n = 1 + pick(m, pick(m, 3) ? 20 : BLOCK);
    if (n > block_tail(c->tail))
        n = block_tail(c->tail);
    if (n == 0) {
        drop_tail(c);
        return;
    }
    bool is_last = c->chain->last == c->tail;
    uint8_t *place = tail_of(c->tail);
    for (uint32_t i = 0; i < n; i++)
        place[i] = (uint8_t)pick(m, 256);
    int error = chain_extend(c->chain, c->tail, n);
    if (error) {
        assert_int_equal(error, -ENOBUFS);
        assert_false(is_last);
        m->without_views++;
        return;
    }
    m->grown += is_last;
    m->extended += !is_last;
    model_append(c, place, n);
}

static void step_take(model *m, model_chain *c) {
    sluice_slice slice = {.length = 77};
    if (m->slice_count == SLICES)
        return;
    size_t n = pick_length(m, c->length);
    int error = sluice_chain_take(c->chain, n, &slice);
    assert_int_equal(error, n > c->length ? -EAGAIN : 0);
    if (error) {
        assert_int_equal(slice.length, 77);
        return;
    }
    model_keep(m, &slice, c->bytes, n);
    model_consume(c, n);
}

static void step_move(model *m, model_chain *from, model_chain *to) {
    size_t n = pick_length(m, from->length);
    if (n <= from->length && to->length + n > ROOM / 4)
        return;
    int error = sluice_chain_move(from->chain, n, to->chain);
    if (n > from->length) {
        assert_int_equal(error, -EAGAIN);
        return;
    }
    if (error) {
        assert_int_equal(error, -ENOBUFS);
        m->without_views++;
        return;
    }
    model_append(to, from->bytes, n);
    model_consume(from, n);
    if (n > 0)
        drop_tail(to);
}

static void step_append_slice(model *m, model_chain *c) {
    if (m->slice_count == 0)
        return;
    model_slice *s = &m->slices[pick(m, m->slice_count)];
    if (c->length + s->length > ROOM / 4)
        return;
    int error = sluice_chain_append_slice(c->chain, &s->slice);
    if (error) {
        assert_int_equal(error, -ENOBUFS);
        m->without_views++;
        return;
    }
    model_append(c, s->bytes, s->length);
    if (s->length > 0)
        drop_tail(c);
}

static void step_sub(model *m) {
    sluice_slice part;
    if (m->slice_count == 0 || m->slice_count == SLICES)
        return;
    model_slice *s = &m->slices[pick(m, m->slice_count)];
    size_t offset = pick(m, (uint32_t)s->length + 1);
    size_t n = pick_length(m, s->length - offset);
    int error = sluice_slice_sub(&s->slice, offset, n, &part);
    assert_int_equal(error, n > s->length - offset ? -EINVAL : 0);
    if (!error)
        model_keep(m, &part, s->bytes + offset, n);
}

static void step_ref(model *m) {
    sluice_slice again;
    if (m->slice_count == 0 || m->slice_count == SLICES)
        return;
    model_slice *s = &m->slices[pick(m, m->slice_count)];
    sluice_slice_ref(&s->slice, &again);
    model_keep(m, &again, s->bytes, s->length);
}

static void step_copy(model *m) {
    uint8_t bytes[ROOM / 4];
    if (m->slice_count == 0)
        return;
    model_slice *s = &m->slices[pick(m, m->slice_count)];
    size_t offset = pick(m, (uint32_t)s->length + 1);
    size_t n = pick_length(m, s->length - offset);
    size_t done = sluice_slice_copy(&s->slice, offset, bytes, n);
    assert_int_equal(done, n < s->length - offset ? n : s->length - offset);
    assert_memory_equal(bytes, s->bytes + offset, done);
    m->copied += done;
}

static void step(model *m) {
    model_chain *c = &m->chains[pick(m, CHAINS)];
    switch (pick(m, 16)) {
    case 0:
    case 1:
    case 2:
        step_append(m, c);
        break;
    case 3:
    case 4:
        step_extend(m, c);
        break;
    case 5:
    case 6:
        step_take(m, c);
        break;
    case 7: {
        size_t n = pick_length(m, c->length);
        size_t done = sluice_chain_skip(c->chain, n);
        assert_int_equal(done, n < c->length ? n : c->length);
        model_consume(c, done);
        break;
    }
    case 8:
        step_move(m, c, &m->chains[pick(m, CHAINS)]);
        break;
    case 9:
        step_append_slice(m, c);
        break;
    case 10:
        step_sub(m);
        break;
    case 11:
        step_ref(m);
        break;
    case 12:
        step_copy(m);
        break;
    default:
        if (m->hoards && pick(m, 4) > 0)
            step_append_slice(m, c);
        else if (m->slice_count > 0)
            model_release(m, pick(m, m->slice_count));
    }
}

static void assert_matches(model *m, bool all_slices) {
    for (int i = 0; i < CHAINS; i++) {
        assert_holds(m->chains[i].chain, m->chains[i].bytes, m->chains[i].length);
        assert_int_equal(sluice_chain_consumed(m->chains[i].chain), m->chains[i].consumed);
    }
    uint8_t bytes[ROOM / 4];
    for (uint32_t i = 0; all_slices && i < m->slice_count; i++) {
        model_slice *s = &m->slices[i];
        assert_int_equal(sluice_slice_copy(&s->slice, 0, bytes, sizeof bytes), s->length);
        assert_memory_equal(bytes, s->bytes, s->length);
        m->copied += s->length;
    }
    assert_int_equal(counts(m->pool).bytes_copied, m->copied);
}

static void a_random_walk_matches_plain_arrays(void **state) {
    (void)state;
    model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->pool = new_pool(64);
    m->seed = 42;
    for (int i = 0; i < CHAINS; i++)
        m->chains[i].chain = new_chain(m->pool);
    for (int i = 0; i < STEPS; i++) {
        m->hoards = i / 500 % 2 == 1;
        step(m);
        assert_matches(m, i % 16 == 0);
    }
    /* The walk went into every corner. */
    assert_true(m->without_blocks > 0 && m->without_views > 0 && m->grown > 100 && m->extended > 50);

    for (int i = 0; i < CHAINS; i++) {
        drop_tail(&m->chains[i]);
        sluice_chain_free(m->chains[i].chain);
    }
    while (m->slice_count > 0)
        model_release(m, pick(m, m->slice_count));
    free_pool(m->pool);
    free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_random_walk_matches_plain_arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
