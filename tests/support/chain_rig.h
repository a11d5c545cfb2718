/* Chains whose text is in pieces of several sizes. */
#ifndef SLUICE_TESTS_SUPPORT_CHAIN_RIG_H
#define SLUICE_TESTS_SUPPORT_CHAIN_RIG_H

#include <sluice/chain.h>

#include <stdlib.h>

#include "memory/chain.h"
#include "reader/cursor.h"

enum {
    BLOCK = 512,
    TEXT = 43,
};

static inline sluice_pool *new_pool(uint32_t max_blocks) {
    sluice_pool *pool;
    sluice_pool_options options = {
        .size = sizeof options, .block_size = BLOCK, .slab_blocks = 8, .max_blocks = max_blocks, .reserve_blocks = 1};
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
    return pool;
}

static inline sluice_pool_stats counts(sluice_pool *pool) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(pool, &stats);
    assert_int_equal(stats.total, stats.free + stats.kernel + stats.held);
    return stats;
}

static inline void free_pool(sluice_pool *pool) {
    sluice_pool_stats stats = counts(pool);
    assert_int_equal(stats.held, 0);
    assert_int_equal(stats.views, 0);
    sluice_pool_free(pool);
}

static inline sluice_chain *new_chain(sluice_pool *pool) {
    sluice_chain *chain;
    assert_int_equal(sluice_chain_new(pool, &chain), 0);
    return chain;
}

/* The chain holds these bytes and no others; nothing is copied or consumed to see that. */
static inline void assert_holds(const sluice_chain *chain, const void *bytes, size_t size) {
    assert_true(chain_is_sound(chain));
    assert_int_equal(sluice_chain_length(chain), size);
    sluice_cursor cursor = cursor_of_chain(chain);
    const uint8_t *expected = bytes;
    while (cursor_left(&cursor) > 0) {
        size_t here;
        const uint8_t *view = cursor_view(&cursor, &here);
        assert_memory_equal(view, expected, here);
        expected += here;
        assert_true(cursor_skip(&cursor, here));
    }
    assert_ptr_equal(expected, (const uint8_t *)bytes + size);
}

/* Where the next receive may aim. */
static inline uint8_t *tail_of(sluice_block *block) {
    return block->data + (block->capacity - block_tail(block));
}

#endif
