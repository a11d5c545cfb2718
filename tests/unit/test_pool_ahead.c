/* The pool: slabs that are mapped ahead. */
#include <sluice/pool.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "memory/pool.h"
#include "support/pool_rig.h"

static void see_ahead(void *context, const struct iovec *memory) {
    observed *seen = context;
    seen->ahead[seen->aheads++] = *memory;
}

static const pool_observer far_observer = {.slab_ahead = see_ahead, .released = see_release};

/* 1 MiB: a smaller slab is not worth it. */
enum { FAR_SLAB = (1 << 20) / BLOCK };

/*
 * The next slab's memory is there when an eighth of the last one is left and not before, within the
 * budget, once; it is the slab that follows.
 */
static void the_next_slab_is_mapped_ahead(void **state) {
    (void)state;
    enum { MAX = 2 * FAR_SLAB + FAR_SLAB / 2 };
    static sluice_block *blocks[MAX];
    sluice_pool *pool = new_pool(FAR_SLAB, MAX, 1);
    observed seen = {0};
    assert_int_equal(pool_observe(pool, &far_observer, &seen), 0);
    uint64_t mapped = (uint64_t)FAR_SLAB * BLOCK;
    for (uint32_t i = 0; i < MAX; i++) {
        blocks[i] = get(pool);
        uint32_t in_slab = i % FAR_SLAB + 1;
        uint32_t ahead = in_slab > FAR_SLAB - FAR_SLAB / 8 ? i / FAR_SLAB + 1 : i / FAR_SLAB;
        assert_int_equal(seen.aheads, ahead < 2 ? ahead : 2);
        assert_int_equal(counts(pool).bytes_mapped, ahead < 2 ? (ahead + 1) * mapped : (uint64_t)MAX * BLOCK);
        assert_int_equal(counts(pool).slabs, i / FAR_SLAB + 1);
    }
    for (uint32_t i = 0; i < seen.aheads; i++) {
        struct iovec slab;
        pool_slab(pool, i + 1, &slab);
        assert_ptr_equal(seen.ahead[i].iov_base, slab.iov_base);
        assert_int_equal(seen.ahead[i].iov_len, slab.iov_len);
    }
    assert_int_equal(seen.ahead[1].iov_len, MAX * BLOCK - 2 * mapped);
    sluice_block *none;
    assert_int_equal(sluice_block_get(pool, &none), -ENOBUFS);
    assert_int_equal(pool_observe(pool, NULL, NULL), 0);
    for (uint32_t i = 0; i < MAX; i++)
        sluice_block_release(blocks[i]);
    free_pool(pool);
}

/*
 * Of a large slab 2 MiB at a time: of what is told, an eighth of a slab is always left, and no more
 * than that and a piece is told of beyond what is in use.
 */
static void a_large_slab_is_told_of_in_pieces(void **state) {
    (void)state;
    enum { PIECE = 2 << 20, SLAB_PIECES = 2, LARGE = SLAB_PIECES * PIECE / 4096, SLABS = 3 };
    static sluice_block *blocks[SLABS * LARGE];
    const sluice_pool_options options = {.size = sizeof options,
                                         .block_size = 4096,
                                         .slab_blocks = LARGE,
                                         .max_blocks = SLABS * LARGE,
                                         .no_huge_pages = true};
    sluice_pool *pool;
    observed seen = {0};
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
    assert_int_equal(pool_observe(pool, &far_observer, &seen), 0);
    for (uint32_t i = 0; i < SLABS * LARGE; i++) {
        blocks[i] = get(pool);
        /* The first slab is touched as it comes. */
        uint32_t ready = LARGE + seen.aheads * (PIECE / 4096), most = ready - (i + 1);
        assert_true(ready == SLABS * LARGE || most >= LARGE / 8);
        assert_true(i < LARGE || most <= LARGE / 8 + PIECE / 4096);
    }
    assert_int_equal(seen.aheads, (SLABS - 1) * SLAB_PIECES);
    for (uint32_t i = 0; i < seen.aheads; i++) {
        struct iovec slab;
        pool_slab(pool, 1 + i / SLAB_PIECES, &slab);
        assert_ptr_equal(seen.ahead[i].iov_base, (uint8_t *)slab.iov_base + i % SLAB_PIECES * PIECE);
        assert_int_equal(seen.ahead[i].iov_len, PIECE);
    }
    assert_int_equal(pool_observe(pool, NULL, NULL), 0);
    for (uint32_t i = 0; i < SLABS * LARGE; i++)
        sluice_block_release(blocks[i]);
    free_pool(pool);
}

static uint32_t slabs_of(sluice_pool *pool) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(pool, &stats);
    return stats.slabs;
}

/* Blocks of 4 KiB in slabs of two pieces, beside a class of 16 KiB that may have some. */
enum { TOLD_PIECE = 2 << 20, TOLD_SLAB = 2 * TOLD_PIECE / 4096 };

static sluice_pool *new_pool_of_two(uint32_t slabs) {
    const sluice_pool_options options = {.size = sizeof options,
                                         .block_size = 4096,
                                         .slab_blocks = TOLD_SLAB,
                                         .max_blocks = slabs * TOLD_SLAB,
                                         .class_sizes = {16384},
                                         .no_huge_pages = true};
    sluice_pool *pool;
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
    return pool;
}

/* What a class has begun is told of to its end, though another class has taken a slab meanwhile. */
static void what_a_class_has_begun_is_told_of_to_its_end(void **state) {
    (void)state;
    static sluice_block *blocks[2 * TOLD_SLAB];
    sluice_pool *pool = new_pool_of_two(4), *large;
    observed seen = {0};
    struct iovec slab;
    assert_int_equal(pool_observe(pool, &far_observer, &seen), 0);
    for (uint32_t i = 0; i < TOLD_SLAB + 1; i++)
        blocks[i] = get(pool);
    assert_int_equal(seen.aheads, 1);
    assert_int_equal(sluice_pool_class(pool, 16384, &large), 0);
    for (uint32_t i = TOLD_SLAB + 1; i < 2 * TOLD_SLAB; i++)
        blocks[i] = get(pool);
    /* The rest of it, and then the beginning of the next: of the fourth, since the third is the
     * other class's. */
    assert_int_equal(seen.aheads, 3);
    pool_slab(pool, 1, &slab);
    assert_ptr_equal(seen.ahead[1].iov_base, (uint8_t *)slab.iov_base + TOLD_PIECE);
    pool_slab(pool, 3, &slab);
    assert_ptr_equal(seen.ahead[2].iov_base, slab.iov_base);
    assert_int_equal(pool_observe(pool, NULL, NULL), 0);
    for (uint32_t i = 0; i < 2 * TOLD_SLAB; i++)
        sluice_block_release(blocks[i]);
    sluice_pool_free(pool);
}

/* As much at a time as is to be ready: an eighth of a slab, where that is more than a huge page. */
static void of_a_huge_slab_larger_pieces_are_told(void **state) {
    (void)state;
    enum { BYTES = 65536, LARGE = 1024, LATER = 300 };
    static sluice_block *blocks[LARGE + LATER];
    const sluice_pool_options options = {.size = sizeof options,
                                         .block_size = BYTES,
                                         .slab_blocks = LARGE,
                                         .max_blocks = 3 * LARGE,
                                         .no_huge_pages = true};
    sluice_pool *pool;
    observed seen = {0};
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
    assert_int_equal(pool_observe(pool, &far_observer, &seen), 0);
    for (uint32_t i = 0; i < LARGE + LATER; i++) {
        blocks[i] = get(pool);
        uint32_t ready = LARGE + seen.aheads * LARGE / 8;
        assert_true(ready - (i + 1) >= LARGE / 8);
    }
    assert_int_equal(seen.ahead[0].iov_len, LARGE / 8 * BYTES);
    assert_int_equal(pool_observe(pool, NULL, NULL), 0);
    for (uint32_t i = 0; i < LARGE + LATER; i++)
        sluice_block_release(blocks[i]);
    free_pool(pool);
}

/* What is begun by one class and taken over by another is not told of: it may have been touched. */
static void a_slab_that_changes_its_class_is_not_told_of(void **state) {
    (void)state;
    static sluice_block *blocks[3 * TOLD_SLAB];
    sluice_pool *pool = new_pool_of_two(3), *large;
    observed seen = {0};
    assert_int_equal(sluice_pool_class(pool, 16384, &large), 0);
    assert_int_equal(pool_observe(pool, &far_observer, &seen), 0);
    uint32_t taken = 0;
    while (slabs_of(pool) < 2)
        blocks[taken++] = get(pool);
    assert_int_equal(seen.aheads, 1);
    while (taken > 0)
        sluice_block_release(blocks[--taken]);
    while (sluice_block_get(large, &blocks[taken]) == 0)
        taken++;
    assert_int_equal(slabs_of(large), 2);
    assert_int_equal(seen.aheads, 1);
    while (taken > 0)
        sluice_block_release(blocks[--taken]);
    /* Nor when the class that had begun it runs low. */
    while (sluice_block_get(pool, &blocks[taken]) == 0)
        taken++;
    assert_int_equal(seen.aheads, 1);
    assert_int_equal(pool_observe(pool, NULL, NULL), 0);
    while (taken > 0)
        sluice_block_release(blocks[--taken]);
    sluice_pool_free(pool);
}

/* What the kernel has been given to receive into is no growth: a pool with nothing held maps
 * nothing ahead. */
static void stock_alone_maps_nothing_ahead(void **state) {
    (void)state;
    static sluice_block *blocks[FAR_SLAB];
    sluice_pool *pool = new_pool(FAR_SLAB, 4 * FAR_SLAB, 1);
    observed seen = {0};
    assert_int_equal(pool_observe(pool, &far_observer, &seen), 0);
    for (uint32_t i = 0; i < FAR_SLAB; i++) {
        blocks[i] = get(pool);
        pool_to_kernel(pool, blocks[i]);
    }
    assert_int_equal(seen.aheads, 0);
    assert_int_equal(counts(pool).bytes_mapped, FAR_SLAB * BLOCK);
    for (uint32_t i = 0; i < FAR_SLAB; i++) {
        pool_from_kernel(pool, blocks[i]);
        sluice_block_release(blocks[i]);
    }
    assert_int_equal(pool_observe(pool, NULL, NULL), 0);
    free_pool(pool);
}

/* A pool that is closed meanwhile takes what it has mapped ahead with it, when the last block comes
 * home. */
static void memory_mapped_ahead_goes_with_the_pool(void **state) {
    (void)state;
    static sluice_block *blocks[FAR_SLAB];
    sluice_pool *pool = new_pool(FAR_SLAB, 4 * FAR_SLAB, 1);
    observed seen = {0};
    unsigned char resident[FAR_SLAB];
    assert_int_equal(pool_observe(pool, &far_observer, &seen), 0);
    for (uint32_t i = 0; i < FAR_SLAB; i++)
        blocks[i] = get(pool);
    assert_int_equal(seen.aheads, 1);
    assert_int_equal(pool_observe(pool, NULL, NULL), 0);
    sluice_pool_free(pool);
    for (uint32_t i = 0; i < FAR_SLAB; i++) {
        assert_int_equal(mincore(seen.ahead[0].iov_base, seen.ahead[0].iov_len, resident), 0);
        sluice_block_release(blocks[i]);
    }
#ifndef SANITIZED
    assert_int_equal(mincore(seen.ahead[0].iov_base, seen.ahead[0].iov_len, resident), -1);
    assert_int_equal(errno, ENOMEM);
#endif
}

/* A refused mapping is not tried again before the next slab, which may find memory. */
static void no_memory_for_a_slab_ahead(void **state) {
    (void)state;
#ifdef SANITIZED
    print_message("skipped: the sanitizers' own memory does not fit under the limit\n");
    skip();
#else
    static sluice_block *blocks[FAR_SLAB + 1];
    sluice_pool *pool = new_pool(FAR_SLAB, 4 * FAR_SLAB, 1);
    observed seen = {0};
    struct rlimit limit;
    assert_int_equal(pool_observe(pool, &far_observer, &seen), 0);
    assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
    const struct rlimit tight = {.rlim_cur = 4096, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    int error = 0;
    for (uint32_t i = 0; i < FAR_SLAB && !error; i++)
        error = sluice_block_get(pool, &blocks[i]);
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    assert_int_equal(error, 0);
    assert_int_equal(seen.aheads, 0);
    assert_int_equal(sluice_pool_available(pool), 0);
    pool_ask_again(pool);
    assert_int_equal(counts(pool).bytes_mapped, 2 * FAR_SLAB * BLOCK);
    assert_int_equal(counts(pool).total, FAR_SLAB);
    blocks[FAR_SLAB] = get(pool);
    assert_int_equal(counts(pool).total, 2 * FAR_SLAB);
    assert_int_equal(pool_observe(pool, NULL, NULL), 0);
    for (uint32_t i = 0; i <= FAR_SLAB; i++)
        sluice_block_release(blocks[i]);
    free_pool(pool);
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_slab_is_mapped_ahead),
        cmocka_unit_test(a_large_slab_is_told_of_in_pieces),
        cmocka_unit_test(what_a_class_has_begun_is_told_of_to_its_end),
        cmocka_unit_test(of_a_huge_slab_larger_pieces_are_told),
        cmocka_unit_test(a_slab_that_changes_its_class_is_not_told_of),
        cmocka_unit_test(stock_alone_maps_nothing_ahead),
        cmocka_unit_test(memory_mapped_ahead_goes_with_the_pool),
        cmocka_unit_test(no_memory_for_a_slab_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
