/*
 * Chains, slices and pools: the input is a program of calls, and after each of them every chain and
 * slice holds what a plain array of bytes says. Blocks may run out; then nothing may have changed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "memory/chain.h"
#include "memory/poison.h"

enum { CHAINS = 3, SLICES = 5, MOST = 6000, MOST_CALLS = 300, ROOM = 4, CONNECTIONS = 2 };

/* What bytes there should be. */
typedef struct model {
    size_t length;
    uint8_t bytes[MOST];
} model;

typedef struct machine {
    sluice_pool *pool;
    sluice_chain *chains[CHAINS];
    model in_chain[CHAINS];
    uint64_t consumed[CHAINS];
    sluice_slice slices[SLICES];
    model in_slice[SLICES];
    struct iovec reserved[CHAINS][ROOM]; /* of each chain, the room that is out */
    int pieces[CHAINS];
    /* a block that is filled bit by bit, as multishot receives do; or NULL */
    sluice_block *receiving;
    unsigned lent, returned; /* pieces of memory */
    uint8_t next;            /* of the bytes that are made up */
} machine;

/* A call: two numbers that say of what, one how much. */
typedef struct call {
    uint8_t a, b;
    size_t n;
} call;

static void make_bytes(machine *m, uint8_t *to, size_t n) {
    for (size_t i = 0; i < n; i++)
        to[i] = m->next++;
}

static void model_append(model *to, const uint8_t *bytes, size_t n) {
    FUZZ_CHECK(n <= MOST - to->length);
    memcpy(to->bytes + to->length, bytes, n);
    to->length += n;
}

static void model_consume(model *from, size_t n) {
    FUZZ_CHECK(n <= from->length);
    from->length -= n;
    memmove(from->bytes, from->bytes + n, from->length);
}

static void check_slice(const sluice_slice *slice, const model *expected) {
    static uint8_t bytes[MOST];
    FUZZ_CHECK(sluice_slice_length(slice) == expected->length);
    FUZZ_CHECK(sluice_slice_copy(slice, 0, bytes, MOST) == expected->length);
    FUZZ_CHECK(memcmp(bytes, expected->bytes, expected->length) == 0);
    FUZZ_CHECK(sluice_slice_iov(slice, 0, NULL, 0) == sluice_slice_blocks(slice));
}

static void check_chain(const machine *m, unsigned i) {
    const sluice_chain *chain = m->chains[i];
    FUZZ_CHECK(chain_is_sound(chain));
    FUZZ_CHECK(sluice_chain_length(chain) == m->in_chain[i].length);
    FUZZ_CHECK(sluice_chain_consumed(chain) == m->consumed[i]);
    sluice_slice all = {.first = chain->first,
                        .last = chain->last,
                        .offset = chain_offset(chain),
                        .length = sluice_chain_length(chain)};
    check_slice(&all, &m->in_chain[i]);
    FUZZ_CHECK(sluice_chain_blocks(chain) == sluice_slice_blocks(&all));
}

static void drop(machine *m, unsigned i) {
    check_slice(&m->slices[i], &m->in_slice[i]);
    sluice_slice_release(&m->slices[i]);
    m->in_slice[i].length = 0;
}

static size_t room(const machine *m, unsigned i) {
    return MOST - m->in_chain[i].length;
}

/* ---- The calls ---- */

static void append_block(machine *m, call c) {
    sluice_pool *class;
    sluice_block *block;
    if (sluice_pool_class(m->pool, c.b % 4 == 0 ? 4096 : 0, &class) != 0)
        return;
    int result = sluice_block_get(class, &block);
    if (result != 0) {
        FUZZ_CHECK(result == -ENOBUFS);
        return;
    }
    size_t n = c.n;
    if (n > sluice_block_capacity(block))
        n = sluice_block_capacity(block);
    if (n > room(m, c.a))
        n = room(m, c.a);
    make_bytes(m, sluice_block_data(block), n);
    FUZZ_CHECK(sluice_block_set_length(block, (uint32_t)n) == 0);
    model_append(&m->in_chain[c.a], sluice_block_data(block), n);
    sluice_chain_append(m->chains[c.a], block);
}

static void returned(const void *memory, size_t n, void *user) {
    (void)n;
    ((machine *)user)->returned++;
    free((void *)memory);
}

static void append_memory(machine *m, call c) {
    size_t n = c.n < room(m, c.a) ? c.n : room(m, c.a);
    uint8_t *memory = (uint8_t *)fuzz_copy("", 0);
    if (n > 0) {
        free(memory);
        memory = malloc(n);
        FUZZ_CHECK(memory);
        make_bytes(m, memory, n);
    }
    m->lent++;
    model_append(&m->in_chain[c.a], memory, n);
    if (sluice_chain_append_memory(m->chains[c.a], memory, n, returned, m) != 0) {
        m->in_chain[c.a].length -= n;
        returned(memory, n, m);
    }
}

/* Bytes that come into the free end of a block, wherever the bytes before them have gone: to a
 * connection's chain. */
static void receive(machine *m, call c) {
    c.a %= CONNECTIONS;
    if (!m->receiving || block_tail(m->receiving) == 0) {
        sluice_block_release(m->receiving);
        m->receiving = NULL;
        if (sluice_block_get(m->pool, &m->receiving) != 0)
            return;
    }
    size_t n = c.n % 100 + 1;
    if (n > block_tail(m->receiving))
        n = block_tail(m->receiving);
    if (n > room(m, c.a))
        return;
    uint8_t bytes[100];
    make_bytes(m, bytes, n);
    memcpy(block_tail_data(m->receiving), bytes, n);
    if (m->receiving->length == 0) {
        FUZZ_CHECK(sluice_block_set_length(m->receiving, (uint32_t)n) == 0);
        block_ref(m->receiving);
        sluice_chain_append(m->chains[c.a], m->receiving);
    } else if (chain_extend(m->chains[c.a], m->receiving, (uint32_t)n) != 0) {
        return;
    }
    model_append(&m->in_chain[c.a], bytes, n);
}

/* Room that is filled later, whatever is done to the chain until then. */
static void reserve(machine *m, call c) {
    int result = sluice_chain_reserve(m->chains[c.a], c.n, m->reserved[c.a], 1 + c.b % ROOM);
    bool valid = c.n > 0 && c.a >= CONNECTIONS;
    FUZZ_CHECK(result <= 1 + c.b % ROOM);
    FUZZ_CHECK(valid ? result > 0 || result == -ENOBUFS : result == -EINVAL);
    if (valid)
        m->pieces[c.a] = result > 0 ? result : 0;
}

static void commit(machine *m, call c) {
    uint8_t bytes[MOST];
    size_t most = 0, n = c.n < room(m, c.a) ? c.n : room(m, c.a), done = 0;
    for (int i = 0; i < m->pieces[c.a]; i++)
        most += m->reserved[c.a][i].iov_len;
    if (n > most) {
        FUZZ_CHECK(sluice_chain_commit(m->chains[c.a], n) == -EINVAL);
        return;
    }
    make_bytes(m, bytes, n);
    for (const struct iovec *piece = m->reserved[c.a]; done < n; done += (piece++)->iov_len)
        memcpy(piece->iov_base, bytes + done, piece->iov_len < n - done ? piece->iov_len : n - done);
    m->pieces[c.a] = 0;
    int result = sluice_chain_commit(m->chains[c.a], n);
    FUZZ_CHECK(result == 0 || result == -ENOBUFS);
    if (result == 0)
        model_append(&m->in_chain[c.a], bytes, n);
}

static void take(machine *m, call c) {
    sluice_slice slice;
    int result = sluice_chain_take(m->chains[c.a], c.n, &slice);
    FUZZ_CHECK(result == (c.n <= m->in_chain[c.a].length ? 0 : -EAGAIN));
    if (result != 0)
        return;
    drop(m, c.b);
    m->slices[c.b] = slice;
    model_append(&m->in_slice[c.b], m->in_chain[c.a].bytes, c.n);
    model_consume(&m->in_chain[c.a], c.n);
    m->consumed[c.a] += c.n;
}

static void skip(machine *m, call c) {
    size_t n = sluice_chain_skip(m->chains[c.a], c.n);
    FUZZ_CHECK(n == (c.n < m->in_chain[c.a].length ? c.n : m->in_chain[c.a].length));
    model_consume(&m->in_chain[c.a], n);
    m->consumed[c.a] += n;
}

static void move(machine *m, call c) {
    unsigned to = c.b % CHAINS;
    if (to == c.a || c.n > room(m, to))
        return;
    int result = sluice_chain_move(m->chains[c.a], c.n, m->chains[to]);
    if (c.n > m->in_chain[c.a].length)
        FUZZ_CHECK(result == -EAGAIN);
    else
        FUZZ_CHECK(result == 0 || result == -ENOBUFS);
    if (result != 0)
        return;
    model_append(&m->in_chain[to], m->in_chain[c.a].bytes, c.n);
    model_consume(&m->in_chain[c.a], c.n);
    m->consumed[c.a] += c.n;
}

static void append_slice(machine *m, call c) {
    const model *from = &m->in_slice[c.b];
    if (from->length > room(m, c.a))
        return;
    int result = sluice_chain_append_slice(m->chains[c.a], &m->slices[c.b]);
    FUZZ_CHECK(result == 0 || result == -ENOBUFS);
    if (result == 0)
        model_append(&m->in_chain[c.a], from->bytes, from->length);
}

static void sub(machine *m, call c) {
    unsigned from = c.a % SLICES;
    size_t offset = c.n / 2, length = c.n - offset;
    sluice_slice part = {0};
    int result = sluice_slice_sub(&m->slices[from], offset, length, &part);
    FUZZ_CHECK(result == (c.n <= m->in_slice[from].length ? 0 : -EINVAL));
    if (result != 0)
        return;
    model expected = {0};
    model_append(&expected, m->in_slice[from].bytes + offset, length);
    FUZZ_CHECK(sluice_slice_footprint(&part, &m->slices[from]) <= sluice_slice_blocks(&part));
    drop(m, c.b);
    m->slices[c.b] = part;
    m->in_slice[c.b] = expected;
    check_slice(&part, &expected);
}

static void keep(machine *m, call c) {
    sluice_slice kept = {0};
    if (sluice_slice_take(&m->slices[c.b], &kept) == 0) {
        check_slice(&m->slices[c.b], &(model){0});
        m->slices[c.b] = kept;
    }
    check_slice(&m->slices[c.b], &m->in_slice[c.b]);
}

static void ref_and_drop(machine *m, call c) {
    unsigned from = c.a % SLICES;
    sluice_slice ref;
    sluice_slice_ref(&m->slices[from], &ref);
    model expected = m->in_slice[from];
    drop(m, c.b);
    m->slices[c.b] = ref;
    m->in_slice[c.b] = expected;
}

static void iov(machine *m, call c) {
    const model *expected = &m->in_slice[c.b];
    struct iovec pieces[4];
    size_t count = sluice_slice_iov(&m->slices[c.b], c.n, pieces, 4), at = c.n;
    FUZZ_CHECK((count > 0) == (c.n < expected->length));
    for (size_t i = 0; i < count && i < 4; at += pieces[i++].iov_len) {
        FUZZ_CHECK(pieces[i].iov_len <= expected->length - at);
        FUZZ_CHECK(memcmp(pieces[i].iov_base, expected->bytes + at, pieces[i].iov_len) == 0);
    }
    FUZZ_CHECK(count == 0 || count > 4 || at == expected->length);
}

static void release(machine *m, call c) {
    drop(m, c.b);
}

/* The pool's counts agree with each other; at most what was lent has come back. */
static void check_pool(machine *m) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(m->pool, &stats);
    FUZZ_CHECK(stats.total == stats.free + stats.kernel + stats.held);
    FUZZ_CHECK(stats.foreign == m->lent - m->returned);
    FUZZ_CHECK(stats.bytes_held <= stats.bytes_mapped && stats.bytes_mapped <= stats.bytes_max);
}

static void (*const calls[])(machine *m, call c) = {append_block, append_memory, receive, take,         skip,
                                                    move,         append_slice,  sub,     ref_and_drop, iov,
                                                    release,      keep,          reserve, commit};

static sluice_pool *pool_of(const fuzz_run *run) {
    const sluice_pool_options options = {.size = sizeof options,
                                         .block_size = 512,
                                         .slab_blocks = 8,
                                         .max_blocks = 8u << run->settings[0] % 8,
                                         .reserve_blocks = 1 + run->settings[1] % 7,
                                         .no_huge_pages = true};
    sluice_pool *pool;
    FUZZ_CHECK(sluice_pool_new(&options, &pool) == 0);
    return pool;
}

void fuzz_target(fuzz_run *run) {
    static machine m;
    memset(&m, 0, sizeof m);
    m.pool = pool_of(run);
    for (unsigned i = 0; i < CHAINS; i++)
        FUZZ_CHECK(sluice_chain_new(m.pool, &m.chains[i]) == 0);
    for (unsigned i = 0; i < CONNECTIONS; i++)
        m.chains[i]->is_users = false; /* The user fills the others. */
    for (unsigned i = 0; i < MOST_CALLS && run->size - run->done >= 3; i++) {
        const uint8_t *at = run->bytes + run->done;
        run->done += 3;
        call c = {(uint8_t)(at[0] / 16 % CHAINS), (uint8_t)(at[1] % SLICES), at[2] | (at[1] / 16 % 8) << 8};
        calls[at[0] % 16 % (sizeof calls / sizeof *calls)](&m, c);
        for (unsigned k = 0; k < CHAINS; k++)
            check_chain(&m, k);
        check_pool(&m);
    }
    for (unsigned i = 0; i < SLICES; i++)
        drop(&m, i);
    for (unsigned i = 0; i < CHAINS; i++)
        sluice_chain_free(m.chains[i]);
    sluice_block_release(m.receiving);
    check_pool(&m);
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(m.pool, &stats);
    FUZZ_CHECK(stats.held == 0 && stats.views == 0 && stats.foreign == 0 && m.lent == m.returned);
    sluice_pool_free(m.pool);
}
