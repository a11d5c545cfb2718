/* A reader on a chain of its own, with a pool of small blocks. */
#ifndef SLUICE_TESTS_SUPPORT_READER_FIXTURE_H
#define SLUICE_TESTS_SUPPORT_READER_FIXTURE_H

#include <sluice/chain.h>
#include <sluice/pool.h>
#include <sluice/reader.h>

#include "support/feed.h"

typedef struct fixture {
    sluice_pool *pool;
    sluice_chain *chain;
    sluice_reader *reader;
} fixture;

static inline fixture reader_fixture_open(uint32_t max_blocks) {
    fixture f;
    sluice_pool_options options = {
        .size = sizeof options, .block_size = 512, .slab_blocks = 8, .max_blocks = max_blocks, .reserve_blocks = 1};
    assert_int_equal(sluice_pool_new(&options, &f.pool), 0);
    assert_int_equal(sluice_chain_new(f.pool, &f.chain), 0);
    assert_int_equal(sluice_reader_new(f.chain, &f.reader), 0);
    return f;
}

/* Every block must have come back. */
static inline void reader_fixture_close(fixture *f) {
    sluice_reader_free(f->reader);
    sluice_chain_free(f->chain);
    feed_assert_returned(f->pool);
    sluice_pool_free(f->pool);
}

#endif
