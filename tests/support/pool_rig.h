/* Pools of small blocks, with counts that must hold at every moment. */
#ifndef SLUICE_TESTS_SUPPORT_POOL_RIG_H
#define SLUICE_TESTS_SUPPORT_POOL_RIG_H

#include <sluice/pool.h>

#include <stdlib.h>

#include "support/sanitized.h"

enum {
    BLOCK = 512,
    SLAB = 8,
};

/* The counts, with what must hold of them at every moment. */
static inline sluice_pool_stats counts(sluice_pool *pool) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(pool, &stats);
    assert_int_equal(stats.total, stats.free + stats.kernel + stats.held);
    assert_true(stats.total <= stats.max);
    assert_true(stats.held <= stats.peak_held);
    assert_true(stats.reserve < stats.max);
    assert_int_equal(sluice_pool_available(pool), stats.max - stats.held);
    return stats;
}

static inline sluice_pool *new_pool(uint32_t slab_blocks, uint32_t max_blocks, uint32_t reserve_blocks) {
    sluice_pool *pool;
    sluice_pool_options options = {.size = sizeof options,
                                   .block_size = BLOCK,
                                   .slab_blocks = slab_blocks,
                                   .max_blocks = max_blocks,
                                   .reserve_blocks = reserve_blocks,
                                   .no_huge_pages = true};
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
    return pool;
}

/* Frees the pool, into which everything has come back. */
static inline void free_pool(sluice_pool *pool) {
    sluice_pool_stats stats = counts(pool);
    assert_int_equal(stats.held, 0);
    assert_int_equal(stats.views, 0);
    assert_int_equal(stats.kernel, 0);
    sluice_pool_free(pool);
}

static inline sluice_block *get(sluice_pool *pool) {
    sluice_block *block;
    assert_int_equal(sluice_block_get(pool, &block), 0);
    return block;
}

typedef struct observed {
    struct iovec ahead[8];
    uint32_t aheads;
    uint32_t released;
} observed;

static inline void see_release(void *context) {
    observed *seen = context;
    seen->released++;
}

#endif
