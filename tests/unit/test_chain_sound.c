/* chain_is_sound(), on which the other tests and the fuzz targets rely: each thing that it is to
 * notice is noticed. */
#include <sluice/chain.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "memory/chain.h"
#include "support/slices.h"

/* Twenty bytes in blocks of eight, two of them consumed. */
static sluice_chain *new_chain(sluice_pool *pool) {
    sluice_chain *chain = http_feed_chain(pool);
    feed(chain, pool, "abcdefghijklmnopqrst", 20, 8);
    assert_int_equal(sluice_chain_skip(chain, 2), 2);
    assert_true(chain_is_sound(chain));
    return chain;
}

/* Makes the chain wrong for a moment. */
#define ASSERT_NOTICED(chain, place, wrong)                                                                            \
    do {                                                                                                               \
        __typeof__(place) right = (place);                                                                             \
        (place) = (wrong);                                                                                             \
        assert_false(chain_is_sound(chain));                                                                           \
        (place) = right;                                                                                               \
        assert_true(chain_is_sound(chain));                                                                            \
    } while (0)

static void counts_that_are_wrong(void **state) {
    (void)state;
    sluice_pool *pool = http_feed_pool(512, 64);
    sluice_chain *chain = new_chain(pool);
    ASSERT_NOTICED(chain, chain->blocks, 2);
    ASSERT_NOTICED(chain, chain->blocks, 4);
    ASSERT_NOTICED(chain, chain->behind, 11);
    ASSERT_NOTICED(chain, chain->behind, 13);
    ASSERT_NOTICED(chain, chain->footprint, 512);
    ASSERT_NOTICED(chain, chain->last->length, 3);
    ASSERT_NOTICED(chain, chain->first->next->length, 0);
    ASSERT_NOTICED(chain, chain->last->length, chain->last->capacity + 1);
    sluice_chain_free(chain);
    http_feed_pool_done(pool);
}

static void places_that_are_wrong(void **state) {
    (void)state;
    sluice_pool *pool = http_feed_pool(512, 64);
    sluice_chain *chain = new_chain(pool);
    ASSERT_NOTICED(chain, chain->front.end, chain->front.end - 1);
    /* a used-up block stays at the front */
    ASSERT_NOTICED(chain, chain->front.at, chain->front.end);
    ASSERT_NOTICED(chain, chain->last, chain->first->next);
    ASSERT_NOTICED(chain, chain->first->next, NULL);
    ASSERT_NOTICED(chain, chain->last, NULL);
    sluice_block *gone = chain->first;
    chain_walk_at(chain, 15);
    ASSERT_NOTICED(chain, chain->found.at, chain->found.at + 1);
    ASSERT_NOTICED(chain, chain->found.block, chain->first->next);
    assert_int_equal(sluice_chain_skip(chain, 7), 7);
    ASSERT_NOTICED(chain, chain->found.block, gone);
    sluice_chain_free(chain);
    http_feed_pool_done(pool);
}

/* A block in the chain to which nobody refers. */
static void a_block_that_is_gone(void **state) {
    (void)state;
    sluice_pool *pool = http_feed_pool(512, 64);
    sluice_chain *chain = new_chain(pool);
    uint32_t refs = atomic_load(&chain->last->refs);
    atomic_store(&chain->last->refs, 0);
    assert_false(chain_is_sound(chain));
    atomic_store(&chain->last->refs, refs);
    sluice_chain_free(chain);
    http_feed_pool_done(pool);
}

static void an_empty_chain_that_is_not(void **state) {
    (void)state;
    sluice_pool *pool = http_feed_pool(512, 64);
    sluice_chain *full = new_chain(pool), *chain = http_feed_chain(pool);
    assert_true(chain_is_sound(chain));
    ASSERT_NOTICED(chain, chain->last, full->last);
    ASSERT_NOTICED(chain, chain->front.at, full->front.at);
    ASSERT_NOTICED(chain, chain->front.end, full->front.end);
    ASSERT_NOTICED(chain, chain->behind, 1);
    ASSERT_NOTICED(chain, chain->blocks, 1);
    sluice_chain_free(chain);
    sluice_chain_free(full);
    http_feed_pool_done(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_that_are_wrong),
        cmocka_unit_test(places_that_are_wrong),
        cmocka_unit_test(a_block_that_is_gone),
        cmocka_unit_test(an_empty_chain_that_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
