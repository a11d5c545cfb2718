/* Feeding bytes to the HTTP framers in pieces of the test's choice. */
#ifndef SLUICE_TESTS_SUPPORT_HTTP_FEED_H
#define SLUICE_TESTS_SUPPORT_HTTP_FEED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <sluice/chain.h>
#include <sluice/pool.h>

#include "memory/chain.h"
#include "memory/poison.h"

/* A pool of small slabs, as every test needs one. */
static inline sluice_pool *http_feed_pool(uint32_t block_size, uint32_t max_blocks) {
    const sluice_pool_options options = {.size = sizeof options,
                                         .block_size = block_size,
                                         .slab_blocks = 8,
                                         .max_blocks = max_blocks,
                                         .no_huge_pages = true};
    sluice_pool *pool;
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
    return pool;
}

/* Every block and view is back, and nothing has been copied; the pool goes. */
static inline void http_feed_pool_done(sluice_pool *pool) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(pool, &stats);
    assert_int_equal(stats.held, 0);
    assert_int_equal(stats.views, 0);
    assert_int_equal(stats.bytes_copied, 0);
    sluice_pool_free(pool);
}

static inline sluice_chain *http_feed_chain(sluice_pool *pool) {
    sluice_chain *chain;
    assert_int_equal(sluice_chain_new(pool, &chain), 0);
    return chain;
}

/*
 * Appends the bytes as one piece: in a block of their own, or as many as they need. What is behind
 * them in the last block traps under AddressSanitizer, until the block is back in the pool. Returns
 * the last block.
 */
static inline sluice_block *http_feed_bytes(sluice_pool *pool, sluice_chain *chain, const void *bytes, size_t n) {
    sluice_block *block = NULL;
    for (size_t done = 0; done < n;) {
        assert_int_equal(sluice_block_get(pool, &block), 0);
        size_t room = sluice_block_capacity(block);
        size_t here = n - done < room ? n - done : room;
        memcpy(sluice_block_data(block), (const uint8_t *)bytes + done, here);
        assert_int_equal(sluice_block_set_length(block, (uint32_t)here), 0);
        poison_memory(sluice_block_data(block) + here, room - here);
        sluice_chain_append(chain, block);
        done += here;
    }
    assert_true(chain_is_sound(chain));
    return block;
}

/* The pieces in which some bytes come: each ends where said, the last at the bytes' end. */
typedef struct http_feed_cuts {
    size_t count;
    size_t at[64];
} http_feed_cuts;

/* Where the piece with this number ends; SIZE_MAX as the only cut stands for single bytes. */
static inline size_t http_feed_piece_end(const http_feed_cuts *cuts, size_t piece, size_t length) {
    if (cuts->count == 1 && cuts->at[0] == SIZE_MAX)
        return piece + 1;
    return piece < cuts->count ? cuts->at[piece] : length;
}

static const http_feed_cuts HTTP_FEED_WHOLE = {0};
static const http_feed_cuts HTTP_FEED_BYTEWISE = {1, {SIZE_MAX}};

/* xorshift64: the same numbers in every run. */
static inline uint64_t http_feed_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/*
 * One change to a head: one of the @count bytes that matter put over, put in before, a byte left
 * out, or a run of bytes again (repeated headers, repeated line ends). Returns its length, which
 * grows by 24 at most.
 */
static inline size_t http_feed_change(uint64_t *seed, const char *telling, size_t count, char *bytes, size_t length) {
    size_t at = http_feed_random(seed) % length;
    char byte = telling[http_feed_random(seed) % count];
    size_t run;
    switch (http_feed_random(seed) % 4) {
    case 0:
        bytes[at] = byte;
        return length;
    case 1:
        memmove(bytes + at + 1, bytes + at, length - at);
        bytes[at] = byte;
        return length + 1;
    case 2:
        memmove(bytes + at, bytes + at + 1, length - at - 1);
        return length - 1;
    default:
        run = 1 + http_feed_random(seed) % 24;
        run = run < length - at ? run : length - at;
        memmove(bytes + at + run, bytes + at, length - at);
        return length + run;
    }
}

/* Up to 12 cuts in ascending order. */
static inline http_feed_cuts http_feed_random_cuts(uint64_t *state, size_t length) {
    http_feed_cuts cuts = {.count = http_feed_random(state) % 13};
    for (size_t i = 0; i < cuts.count; i++) {
        size_t at = http_feed_random(state) % (length + 1);
        size_t place = i;
        for (; place > 0 && cuts.at[place - 1] > at; place--)
            cuts.at[place] = cuts.at[place - 1];
        cuts.at[place] = at;
    }
    return cuts;
}

#endif
