/* The pool: its options, its accounts, growth and cap, the reserve, order of reuse, views,
 * poisoning, and its end. */
#include <sluice/pool.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/chain.h>
#include <sluice/slice.h>

#include "memory/poison.h"
#include "memory/pool.h"
#include "support/feed.h"
#include "support/pool_rig.h"

static uint32_t pick(uint64_t *seed, uint32_t below) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % below;
}

static void options_out_of_range(void **state) {
    (void)state;
    static const sluice_pool_options bad[] = {
        {.size = sizeof(sluice_pool_options), .block_size = 1},
        {.size = sizeof(sluice_pool_options), .block_size = 256},
        {.size = sizeof(sluice_pool_options), .block_size = 511},
        {.size = sizeof(sluice_pool_options), .block_size = 513},
        {.size = sizeof(sluice_pool_options), .block_size = 4095},
        {.size = sizeof(sluice_pool_options), .block_size = 4096 + 512},
        {.size = sizeof(sluice_pool_options), .block_size = (1 << 20) + 1},
        {.size = sizeof(sluice_pool_options), .block_size = 1 << 21},
        {.size = sizeof(sluice_pool_options), .block_size = UINT32_C(1) << 31},
        {.size = sizeof(sluice_pool_options), .block_size = UINT32_MAX},
        {.size = sizeof(sluice_pool_options), .slab_blocks = 1},
        {.size = sizeof(sluice_pool_options), .slab_blocks = 7},
        {.size = sizeof(sluice_pool_options), .slab_blocks = 65537, .max_blocks = 1 << 20},
        {.size = sizeof(sluice_pool_options), .slab_blocks = UINT32_MAX, .max_blocks = UINT32_MAX},
        {.size = sizeof(sluice_pool_options), .max_blocks = 1},
        {.size = sizeof(sluice_pool_options), .max_blocks = 7},
        {.size = sizeof(sluice_pool_options), .slab_blocks = 8, .max_blocks = 7},
        {.size = sizeof(sluice_pool_options), .slab_blocks = 64, .max_blocks = 63},
        {.size = sizeof(sluice_pool_options), .slab_blocks = 16385},
        {.size = sizeof(sluice_pool_options), .slab_blocks = 65536, .max_blocks = 4194305},
        {.size = sizeof(sluice_pool_options), .slab_blocks = 65536, .max_blocks = UINT32_MAX},
        {.size = sizeof(sluice_pool_options), .max_blocks = 64, .reserve_blocks = 64},
        {.size = sizeof(sluice_pool_options), .max_blocks = 64, .reserve_blocks = 65},
        {.size = sizeof(sluice_pool_options), .reserve_blocks = 16384},
        {.size = sizeof(sluice_pool_options), .reserve_blocks = UINT32_MAX},
        /* Each in its range, but together more slabs than a block's number of its slab can say. */
        {.size = sizeof(sluice_pool_options), .slab_blocks = 8, .max_blocks = 8 * 65535 + 1},
        {.size = sizeof(sluice_pool_options), .slab_blocks = 8, .max_blocks = 4194304},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int place;
        sluice_pool *untouched = (sluice_pool *)&place;
        sluice_pool *pool = untouched;
        if (sluice_pool_new(&bad[i], &pool) != -EINVAL || pool != untouched)
            fail_msg("row %zu was not refused, or the result was touched", i);
    }
}

static void options_at_their_limits(void **state) {
    (void)state;
    static const sluice_pool_options good[] = {
        {.size = sizeof(sluice_pool_options),
         .block_size = 512,
         .slab_blocks = 8,
         .max_blocks = 8,
         .reserve_blocks = 7,
         .no_huge_pages = true},
        {.size = sizeof(sluice_pool_options),
         .block_size = 1 << 20,
         .slab_blocks = 8,
         .max_blocks = 8,
         .reserve_blocks = 1},
        {.size = sizeof(sluice_pool_options),
         .block_size = 512,
         .slab_blocks = 65536,
         .max_blocks = 4194304,
         .reserve_blocks = 4194303},
        {.size = sizeof(sluice_pool_options),
         .block_size = 512,
         .slab_blocks = 8,
         .max_blocks = 8 * 65535,
         .reserve_blocks = 1},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        sluice_pool *pool;
        assert_int_equal(sluice_pool_new(&good[i], &pool), 0);
        sluice_pool_stats stats = counts(pool);
        assert_int_equal(stats.block_size, good[i].block_size);
        assert_int_equal(stats.total, good[i].slab_blocks);
        assert_int_equal(stats.max, good[i].max_blocks);
        assert_int_equal(stats.reserve, good[i].reserve_blocks);
        assert_int_equal(stats.slabs, 1);
        free_pool(pool);
    }
}

static void options_default(void **state) {
    (void)state;
    const sluice_pool_options zero = {.size = sizeof zero};
    const sluice_pool_options *defaults[] = {NULL, &zero};
    for (int i = 0; i < 2; i++) {
        sluice_pool *pool;
        assert_int_equal(sluice_pool_new(defaults[i], &pool), 0);
        sluice_pool_stats stats = counts(pool);
        assert_int_equal(stats.block_size, 4096);
        assert_int_equal(stats.max, 16384);
        assert_int_equal(stats.total, 1024);
        assert_int_equal(stats.free, 1024);
        assert_int_equal(stats.reserve, 1024);
        assert_int_equal(stats.peak_held, 0);
        assert_int_equal(stats.bytes_copied, 0);
        free_pool(pool);
    }
    /* A cap below the default slab makes a pool of one slab; a cap below 16 has no reserve by
     * default. */
    const sluice_pool_options small = {.size = sizeof small, .block_size = BLOCK, .max_blocks = 9};
    sluice_pool *pool;
    assert_int_equal(sluice_pool_new(&small, &pool), 0);
    sluice_pool_stats stats = counts(pool);
    assert_int_equal(stats.total, 9);
    assert_int_equal(stats.reserve, 0);
    free_pool(pool);
}

static void grows_by_slabs_up_to_the_cap(void **state) {
    (void)state;
    enum { MAX = 20 };
    sluice_pool *pool = new_pool(SLAB, MAX, 1);
    sluice_block *blocks[MAX];

    for (uint32_t i = 0; i < MAX; i++) {
        sluice_pool_stats before = counts(pool);
        assert_int_equal(before.held, i);
        blocks[i] = get(pool);
        sluice_pool_stats after = counts(pool);
        assert_int_equal(after.held, i + 1);
        assert_int_equal(after.peak_held, i + 1);
        assert_int_equal(after.total, i < 8 ? 8 : i < 16 ? 16 : MAX);
        assert_int_equal(after.slabs, i / SLAB + 1);
        assert_int_equal(sluice_block_capacity(blocks[i]), BLOCK);
        memset(sluice_block_data(blocks[i]), (int)i + 1, BLOCK);
    }
    /* Each has all its memory to itself. */
    for (uint32_t i = 0; i < MAX; i++)
        for (uint32_t k = 0; k < BLOCK; k++)
            assert_int_equal(sluice_block_data(blocks[i])[k], i + 1);

    for (int i = 0; i < 3; i++) {
        sluice_block *none = blocks[0];
        assert_int_equal(sluice_block_get(pool, &none), -ENOBUFS);
        assert_ptr_equal(none, blocks[0]);
        assert_int_equal(counts(pool).total, MAX);
        assert_null(pool_take(pool));
    }
    assert_int_equal(sluice_pool_available(pool), 0);

    sluice_block_release(blocks[7]);
    blocks[7] = get(pool);
    for (uint32_t i = 0; i < MAX; i++) {
        sluice_block_release(blocks[i]);
        assert_int_equal(counts(pool).free, i + 1);
    }
    sluice_pool_stats stats = counts(pool);
    assert_int_equal(stats.total, MAX);
    assert_int_equal(stats.slabs, 3);
    assert_int_equal(stats.peak_held, MAX);
    free_pool(pool);
}

static void grows_only_when_nothing_is_free(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(SLAB, 64, 1);
    for (int i = 0; i < 1000; i++) {
        sluice_block *blocks[SLAB];
        for (int k = 0; k < SLAB; k++)
            blocks[k] = get(pool);
        for (int k = 0; k < SLAB; k++)
            sluice_block_release(blocks[k]);
    }
    assert_int_equal(counts(pool).total, SLAB);
    free_pool(pool);
}

static void no_memory_for_a_slab(void **state) {
    (void)state;
#ifdef SANITIZED
    print_message("skipped: the sanitizers' own memory does not fit under the limit\n");
    skip();
#else
    sluice_pool *pool = new_pool(SLAB, 64, 1);
    sluice_block *blocks[SLAB + 1];
    for (int i = 0; i < SLAB; i++)
        blocks[i] = get(pool);

    struct rlimit limit, tight;
    assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
    tight = (struct rlimit){.rlim_cur = 4096, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    blocks[SLAB] = NULL;
    int error = sluice_block_get(pool, &blocks[SLAB]);
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    assert_int_equal(error, -ENOMEM);
    assert_null(blocks[SLAB]);
    /* What there is no memory for is not available. */
    assert_int_equal(sluice_pool_available(pool), 0);

    blocks[SLAB] = get(pool);
    assert_int_equal(counts(pool).total, 2 * SLAB);
    for (int i = 0; i <= SLAB; i++)
        sluice_block_release(blocks[i]);
    free_pool(pool);
#endif
}

static void lengths(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(SLAB, SLAB, 1);
    sluice_block *block = get(pool);
    assert_int_equal(sluice_block_set_length(block, BLOCK), 0);
    assert_int_equal(sluice_block_set_length(block, BLOCK + 1), -EINVAL);
    assert_int_equal(sluice_block_set_length(block, UINT32_MAX), -EINVAL);
    assert_int_equal(block->length, BLOCK);
    assert_int_equal(sluice_block_set_length(block, 0), 0);
    assert_int_equal(sluice_block_set_length(block, 7), 0);
    sluice_block_release(block);

    /* A block that comes back has no bytes in it. */
    assert_ptr_equal(get(pool), block);
    assert_int_equal(block->length, 0);
    assert_int_equal(block_tail(block), BLOCK);
    sluice_block_release(block);
    free_pool(pool);
}

static void null_is_nothing(void **state) {
    (void)state;
    sluice_block_release(NULL);
    sluice_pool_free(NULL);
    sluice_slice_release(NULL);
    sluice_chain_free(NULL);
}

static void last_in_is_first_out(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(64, 256, 1);
    sluice_block *a = get(pool), *b = get(pool), *c = get(pool);
    sluice_block_release(b);
    sluice_block_release(a);
    sluice_block_release(c);
    assert_ptr_equal(get(pool), c);
    assert_ptr_equal(get(pool), a);
    assert_ptr_equal(get(pool), b);

    /* What one block serves stays in that block, however many others are free. */
    sluice_block_release(a);
    for (int i = 0; i < 1000; i++) {
        sluice_block *again = get(pool);
        assert_ptr_equal(again, a);
        sluice_block_release(again);
    }
    sluice_block_release(b);
    sluice_block_release(c);
    free_pool(pool);
}

static void a_batch_comes_back_together(void **state) {
    (void)state;
    enum { N = 5 };
    sluice_pool *pool = new_pool(64, 256, 1);
    sluice_chain *chain;
    sluice_slice slice;
    sluice_block *blocks[N];
    assert_int_equal(sluice_chain_new(pool, &chain), 0);
    for (int i = 0; i < N; i++) {
        blocks[i] = get(pool);
        assert_int_equal(sluice_block_set_length(blocks[i], 10), 0);
        sluice_chain_append(chain, blocks[i]);
    }
    assert_int_equal(sluice_chain_take(chain, 10 * N, &slice), 0);
    assert_int_equal(counts(pool).held, N);
    sluice_slice_release(&slice);
    assert_int_equal(counts(pool).held, 0);

    /* They are the next ones out, all five and none twice. */
    bool seen[N] = {false};
    for (int i = 0; i < N; i++) {
        sluice_block *block = get(pool);
        int k = 0;
        while (k < N && blocks[k] != block)
            k++;
        assert_true(k < N);
        assert_false(seen[k]);
        seen[k] = true;
    }
    for (int i = 0; i < N; i++)
        sluice_block_release(blocks[i]);
    sluice_chain_free(chain);
    free_pool(pool);
}

static void kernel_blocks(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(SLAB, SLAB, 1);
    sluice_block *blocks[SLAB];
    for (uint32_t i = 0; i < SLAB; i++) {
        blocks[i] = pool_take(pool);
        assert_int_equal(blocks[i]->state, BLOCK_HELD);
        pool_to_kernel(pool, blocks[i]);
        assert_int_equal(blocks[i]->state, BLOCK_KERNEL);
        sluice_pool_stats stats = counts(pool);
        assert_int_equal(stats.kernel, i + 1);
        assert_int_equal(stats.held, 0);
        assert_int_equal(stats.peak_held, 1);
    }
    assert_int_equal(sluice_pool_available(pool), SLAB);
    assert_int_equal(pool_free_now(pool), 0);
    assert_null(pool_take(pool));
    for (uint32_t i = 0; i < SLAB; i++) {
        pool_from_kernel(pool, blocks[i]);
        sluice_pool_stats stats = counts(pool);
        assert_int_equal(stats.kernel, SLAB - 1 - i);
        assert_int_equal(stats.peak_held, i + 1);
    }
    for (uint32_t i = 0; i < SLAB; i++) {
        sluice_block_release(blocks[i]);
        assert_int_equal(blocks[i]->state, BLOCK_FREE);
    }
    free_pool(pool);
}

static void pressed_below_half(void **state) {
    (void)state;
    enum { MAX = 2 * SLAB };
    sluice_pool *pool = new_pool(SLAB, MAX, 1);
    sluice_block *blocks[MAX];
    for (uint32_t i = 0; i < MAX; i++) {
        assert_int_equal(pool_is_pressed(pool), i > MAX / 2);
        blocks[i] = get(pool);
    }
    /* What the kernel has can still receive. */
    for (uint32_t i = 0; i < MAX / 2; i++) {
        assert_true(pool_is_pressed(pool));
        pool_to_kernel(pool, blocks[i]);
    }
    assert_false(pool_is_pressed(pool));
    for (uint32_t i = 0; i < MAX; i++) {
        if (i < MAX / 2)
            pool_from_kernel(pool, blocks[i]);
        sluice_block_release(blocks[i]);
    }
    free_pool(pool);
}

static void assert_same_slice(const sluice_slice *a, const sluice_slice *b) {
    assert_ptr_equal(a->first, b->first);
    assert_ptr_equal(a->last, b->last);
    assert_int_equal(a->offset, b->offset);
    assert_int_equal(a->length, b->length);
}

/* Keeps exactly when more than the reserve is there; a refusal changes neither slice. */
static void assert_keep_obeys_the_reserve(sluice_pool *pool, sluice_slice *slice) {
    sluice_pool_stats stats = counts(pool);
    const sluice_slice before = *slice;
    const sluice_slice untouched = {.offset = 77, .length = 99};
    sluice_slice kept = untouched;
    int error = sluice_slice_take(slice, &kept);
    if (sluice_pool_available(pool) <= stats.reserve) {
        assert_int_equal(error, -ENOBUFS);
        assert_same_slice(slice, &before);
        assert_same_slice(&kept, &untouched);
    } else {
        const sluice_slice empty = {0};
        assert_int_equal(error, 0);
        assert_same_slice(&kept, &before);
        assert_same_slice(slice, &empty);
        *slice = kept;
    }
    sluice_pool_stats after = counts(pool);
    assert_int_equal(after.held, stats.held);
}

static void keep_leaves_the_reserve(void **state) {
    (void)state;
    enum { MAX = 20, RESERVE = 5 };
    sluice_pool *pool = new_pool(SLAB, MAX, RESERVE);
    sluice_block *blocks[MAX];
    sluice_chain *chain;
    sluice_slice frame;
    assert_int_equal(sluice_chain_new(pool, &chain), 0);
    feed(chain, pool, "frame", 5, 0);
    assert_int_equal(sluice_chain_take(chain, 5, &frame), 0);

    for (uint32_t i = 0; i < MAX - 1; i++) {
        assert_keep_obeys_the_reserve(pool, &frame);
        blocks[i] = get(pool);
    }
    assert_int_equal(sluice_pool_available(pool), 0);
    assert_keep_obeys_the_reserve(pool, &frame);
    /* An empty slice holds nothing, so it is never refused. */
    sluice_slice empty = {0}, kept = {.length = 1};
    assert_int_equal(sluice_slice_take(&empty, &kept), 0);
    assert_int_equal(kept.length, 0);

    /* Blocks that go to the kernel count as there, and so do blocks that are released. */
    for (uint32_t i = 0; i < 3; i++) {
        pool_to_kernel(pool, blocks[i]);
        assert_keep_obeys_the_reserve(pool, &frame);
    }
    for (uint32_t i = 3; i < MAX - 1; i++) {
        sluice_block_release(blocks[i]);
        assert_keep_obeys_the_reserve(pool, &frame);
    }
    for (uint32_t i = 0; i < 3; i++) {
        pool_from_kernel(pool, blocks[i]);
        sluice_block_release(blocks[i]);
    }
    sluice_slice_release(&frame);
    sluice_chain_free(chain);
    free_pool(pool);
}

static void views_hold_their_block(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(SLAB, SLAB, 1);
    sluice_block *block = get(pool), *view, *inner;
    memcpy(sluice_block_data(block), "0123456789", 10);
    assert_int_equal(sluice_block_set_length(block, 10), 0);

    assert_int_equal(pool_view(pool, block, 2, 6, &view), 0);
    assert_int_equal(pool_view(pool, view, 1, 3, &inner), 0);
    assert_ptr_equal(block_owner(inner), block);
    assert_int_equal(counts(pool).views, 2);
    assert_int_equal(counts(pool).held, 1);
    assert_int_equal(block_tail(view), 0);

    /* Neither needs the other, nor the block's own reference. */
    sluice_block_release(view);
    sluice_block_release(block);
    assert_int_equal(counts(pool).views, 1);
    assert_int_equal(counts(pool).held, 1);
    assert_int_equal(inner->length, 3);
    assert_memory_equal(sluice_block_data(inner), "345", 3);
    sluice_block_release(inner);
    free_pool(pool);
}

/* Two threads release their views of a block. The one that is last gives back the block; the other
 * may be interrupted before it gives back its view. */
static void a_view_may_come_back_after_its_block(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(SLAB, SLAB, 1);
    sluice_block *block = get(pool), *first, *second;
    dead_list interrupted = {0};
    assert_int_equal(pool_view(pool, block, 0, 1, &first), 0);
    assert_int_equal(pool_view(pool, block, 0, 1, &second), 0);
    sluice_block_release(block);
    block_release_to(first, &interrupted);
    sluice_block_release(second);
    assert_int_equal(counts(pool).held, 0);
    assert_int_equal(counts(pool).views, 1);
    dead_list_put(&interrupted, pool);
    assert_int_equal(counts(pool).views, 0);
    free_pool(pool);
}

/* As many views as there can be at once. */
static uint32_t take_all_views(sluice_pool *pool, sluice_block *block, sluice_block **views, uint32_t room) {
    uint32_t count = 0;
    for (;;) {
        sluice_block *view = block;
        int error = pool_view(pool, block, 0, 1, &view);
        if (error) {
            assert_int_equal(error, -ENOBUFS);
            assert_ptr_equal(view, block);
            break;
        }
        assert_true(count < room);
        views[count++] = view;
        assert_int_equal(counts(pool).views, count);
        assert_int_equal(counts(pool).held, 1);
    }
    return count;
}

static void views_are_limited(void **state) {
    (void)state;
    /* Four views to a block of the cap, and 256 at least. */
    static const struct { uint32_t max, views; } rows[] = {{8, 256}, {64, 256}, {100, 400}, {128, 512}, {200, 800}};
    static sluice_block *views[1024];

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sluice_pool *pool = new_pool(SLAB, rows[i].max, 1);
        sluice_block *block = get(pool);
        assert_int_equal(sluice_block_set_length(block, 1), 0);
        uint32_t count = take_all_views(pool, block, views, 1024);
        assert_int_equal(count, rows[i].views);

        /* One back, one out; and the refusals have left no reference behind. */
        sluice_block_release(views[0]);
        assert_int_equal(pool_view(pool, block, 0, 1, &views[0]), 0);
        sluice_block_release(block);
        for (uint32_t k = 0; k < count; k++) {
            assert_int_equal(counts(pool).held, 1);
            sluice_block_release(views[k]);
        }
        assert_int_equal(counts(pool).held, 0);
        free_pool(pool);
    }
}

static void free_blocks_trap(void **state) {
    (void)state;
#ifndef SLUICE_POISONS
    print_message("skipped: this build does not poison memory\n");
    skip();
#else
    sluice_pool *pool = new_pool(SLAB, SLAB, 1);
    sluice_block *block = get(pool);
    uint8_t *data = sluice_block_data(block);
    for (uint32_t i = 0; i < BLOCK; i++)
        assert_false(__asan_address_is_poisoned(data + i));
    /* A short block is not poisoned only as far as it was filled. */
    assert_int_equal(sluice_block_set_length(block, 3), 0);

    pool_to_kernel(pool, block);
    for (uint32_t i = 0; i < BLOCK; i++)
        assert_true(__asan_address_is_poisoned(data + i));
    pool_from_kernel(pool, block);
    for (uint32_t i = 0; i < BLOCK; i++)
        assert_false(__asan_address_is_poisoned(data + i));
    sluice_block_release(block);
    for (uint32_t i = 0; i < BLOCK; i++)
        assert_true(__asan_address_is_poisoned(data + i));

    /* Also those that nobody has ever taken. */
    struct iovec slab;
    pool_slab(pool, 0, &slab);
    assert_int_equal(slab.iov_len, SLAB * BLOCK);
    for (size_t i = 0; i < slab.iov_len; i++)
        assert_true(__asan_address_is_poisoned((uint8_t *)slab.iov_base + i));
    /* A neighbour in use does not lay open the others. */
    block = get(pool);
    size_t open = 0;
    for (size_t i = 0; i < slab.iov_len; i++)
        open += !__asan_address_is_poisoned((uint8_t *)slab.iov_base + i);
    assert_int_equal(open, BLOCK);
    sluice_block_release(block);
    free_pool(pool);
#endif
}

/* A chain with three blocks' bytes, as a slice with a view at its end. */
static void make_long_slice(sluice_pool *pool, sluice_slice *ret_slice) {
    sluice_chain *chain, *other;
    sluice_slice part;
    assert_int_equal(sluice_chain_new(pool, &chain), 0);
    assert_int_equal(sluice_chain_new(pool, &other), 0);
    feed(chain, pool, "onetwothree", 11, 3);
    feed(other, pool, "-four-", 6, 0);
    assert_int_equal(sluice_chain_skip(other, 1), 1);
    assert_int_equal(sluice_chain_take(other, 4, &part), 0);
    assert_int_equal(sluice_chain_append_slice(chain, &part), 0);
    assert_int_equal(sluice_chain_take(chain, 15, ret_slice), 0);
    sluice_slice_release(&part);
    sluice_chain_free(other);
    sluice_chain_free(chain);
}

static void the_pool_outlives_its_users(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(SLAB, SLAB, 1);
    sluice_slice whole, part, again;
    make_long_slice(pool, &whole);
    sluice_block *block = get(pool);
    uint8_t *data = sluice_block_data(block);
    memset(data, 7, BLOCK);
    struct iovec slab;
    pool_slab(pool, 0, &slab);
    sluice_pool_free(pool);

    /* All that needs no block still works. */
    char bytes[16] = {0};
    assert_int_equal(sluice_slice_copy(&whole, 0, bytes, sizeof bytes), 15);
    assert_string_equal(bytes, "onetwothreefour");
    assert_int_equal(sluice_slice_sub(&whole, 4, 9, &part), 0);
    sluice_slice_ref(&part, &again);
    sluice_slice_release(&whole);
    assert_int_equal(sluice_slice_iov(&part, 0, NULL, 0), 4);
    sluice_slice_release(&part);
    assert_int_equal(sluice_slice_copy(&again, 0, bytes, sizeof bytes), 9);
    assert_memory_equal(bytes, "wothreefo", 9);
    sluice_slice_release(&again);
    assert_int_equal(data[0], 7);
    assert_int_equal(data[BLOCK - 1], 7);
#ifndef SANITIZED
    /* The memory goes with the last of them, and not before. */
    void *page = (void *)((uintptr_t)slab.iov_base & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1));
    unsigned char resident;
    assert_int_equal(mincore(page, 1, &resident), 0);
    sluice_block_release(block);
    assert_int_equal(mincore(page, 1, &resident), -1);
    assert_int_equal(errno, ENOMEM);
#else
    sluice_block_release(block);
#endif
}

static void keep_after_the_pool_was_given_up(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(SLAB, SLAB, 1);
    sluice_slice slice, kept;
    make_long_slice(pool, &slice);
    sluice_pool_free(pool);
    /* A framer's last frame outlives the pool: there is no receiving left to keep blocks for. */
    assert_int_equal(sluice_slice_take(&slice, &kept), 0);
    assert_int_equal(sluice_slice_length(&kept), 15);
    sluice_slice_release(&kept);
}

static const pool_observer observer = {.released = see_release};

static void each_block_lies_in_the_slab_that_it_names(void **state) {
    (void)state;
    enum { MAX = 20 };
    sluice_pool *pool = new_pool(SLAB, MAX, 1);
    observed seen = {0}, other = {0};
    sluice_block *blocks[MAX];
    assert_int_equal(counts(pool).slabs, 1);
    assert_int_equal(pool_max_slabs(pool), 3);
    assert_int_equal(pool_observe(pool, &observer, &seen), 0);
    assert_int_equal(pool_observe(pool, &observer, &other), -EBUSY);
    for (uint32_t i = 0; i < MAX; i++) {
        blocks[i] = get(pool);
        assert_int_equal(blocks[i]->slab, i / SLAB);
        assert_int_equal(counts(pool).slabs, i / SLAB + 1);
    }

    /* Wholly; the last slab is as short as the cap makes it. */
    size_t size = 0;
    for (uint32_t i = 0; i < MAX; i++) {
        struct iovec slab;
        pool_slab(pool, blocks[i]->slab, &slab);
        uint8_t *data = sluice_block_data(blocks[i]);
        assert_true(data >= (uint8_t *)slab.iov_base);
        assert_true(data + BLOCK <= (uint8_t *)slab.iov_base + slab.iov_len);
    }
    for (uint32_t i = 0; i < counts(pool).slabs; i++) {
        struct iovec slab;
        pool_slab(pool, i, &slab);
        size += slab.iov_len;
    }
    assert_int_equal(size, MAX * BLOCK);

    assert_int_equal(pool_observe(pool, NULL, NULL), 0);
    assert_int_equal(pool_observe(pool, &observer, &other), 0);
    assert_int_equal(pool_observe(pool, NULL, NULL), 0);
    assert_int_equal(seen.released + other.released, 0);
    for (uint32_t i = 0; i < MAX; i++)
        sluice_block_release(blocks[i]);
    free_pool(pool);
}

/* One step of the walk below: a block or view that is taken, moved or released at random. */
typedef struct walk {
    sluice_pool *pool;
    sluice_block *held[64], *kernel[64], *views[256];
    uint32_t held_count, kernel_count, view_count;
    uint32_t pinned; /* blocks that only views hold */
    uint64_t seed;
    uint32_t refused;
} walk;

static void walk_take(walk *w) {
    sluice_block *block = pool_take(w->pool);
    if (!block) {
        assert_int_equal(counts(w->pool).free, 0);
        assert_int_equal(counts(w->pool).total, counts(w->pool).max);
        w->refused++;
        return;
    }
    assert_int_equal(sluice_block_set_length(block, BLOCK), 0);
    w->held[w->held_count++] = block;
}

static void walk_release(walk *w) {
    if (w->held_count == 0)
        return;
    uint32_t i = pick(&w->seed, w->held_count);
    sluice_block *block = w->held[i];
    w->held[i] = w->held[--w->held_count];
    bool viewed = false;
    for (uint32_t k = 0; k < w->view_count; k++)
        viewed = viewed || w->views[k]->parent == block;
    w->pinned += viewed;
    sluice_block_release(block);
}

static void walk_release_view(walk *w) {
    if (w->view_count == 0)
        return;
    uint32_t i = pick(&w->seed, w->view_count);
    sluice_block *view = w->views[i], *parent = view->parent;
    w->views[i] = w->views[--w->view_count];
    bool used = false;
    for (uint32_t k = 0; k < w->view_count; k++)
        used = used || w->views[k]->parent == parent;
    for (uint32_t k = 0; k < w->held_count; k++)
        used = used || w->held[k] == parent;
    w->pinned -= !used;
    sluice_block_release(view);
}

static void walk_step(walk *w) {
    sluice_block *block;
    switch (pick(&w->seed, 7)) {
    case 0:
    case 1:
        walk_take(w);
        break;
    case 2:
        walk_release(w);
        break;
    case 3:
        block = pool_take(w->pool);
        if (block) {
            pool_to_kernel(w->pool, block);
            w->kernel[w->kernel_count++] = block;
        }
        break;
    case 4:
        if (w->kernel_count > 0) {
            block = w->kernel[--w->kernel_count];
            pool_from_kernel(w->pool, block);
            w->held[w->held_count++] = block;
        }
        break;
    case 5:
        if (w->held_count == 0)
            break;
        block = w->held[pick(&w->seed, w->held_count)];
        if (pool_view(w->pool, block, pick(&w->seed, BLOCK), 1, &w->views[w->view_count]) == 0)
            w->view_count++;
        break;
    default:
        walk_release_view(w);
    }
}

static void accounts_hold_on_a_random_walk(void **state) {
    (void)state;
    static walk w;
    w = (walk){.pool = new_pool(SLAB, 50, 6), .seed = 20240131};
    uint32_t total = SLAB, kernel_most = 0;
    for (int i = 0; i < 50000; i++) {
        walk_step(&w);
        sluice_pool_stats stats = counts(w.pool);
        assert_int_equal(stats.held, w.held_count + w.pinned);
        assert_int_equal(stats.kernel, w.kernel_count);
        assert_int_equal(stats.views, w.view_count);
        assert_true(stats.total >= total);
        assert_true(stats.total % SLAB == 0 || stats.total == 50);
        total = stats.total;
        if (w.kernel_count > kernel_most)
            kernel_most = w.kernel_count;
    }
    /* The walk went where it should. */
    assert_true(w.refused > 0 && kernel_most > 5);

    while (w.view_count > 0)
        walk_release_view(&w);
    while (w.held_count > 0)
        walk_release(&w);
    while (w.kernel_count > 0) {
        sluice_block *block = w.kernel[--w.kernel_count];
        pool_from_kernel(w.pool, block);
        sluice_block_release(block);
    }
    assert_int_equal(w.pinned, 0);
    free_pool(w.pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_out_of_range),
        cmocka_unit_test(options_at_their_limits),
        cmocka_unit_test(options_default),
        cmocka_unit_test(grows_by_slabs_up_to_the_cap),
        cmocka_unit_test(grows_only_when_nothing_is_free),
        cmocka_unit_test(no_memory_for_a_slab),
        cmocka_unit_test(lengths),
        cmocka_unit_test(null_is_nothing),
        cmocka_unit_test(last_in_is_first_out),
        cmocka_unit_test(a_batch_comes_back_together),
        cmocka_unit_test(kernel_blocks),
        cmocka_unit_test(pressed_below_half),
        cmocka_unit_test(keep_leaves_the_reserve),
        cmocka_unit_test(views_hold_their_block),
        cmocka_unit_test(a_view_may_come_back_after_its_block),
        cmocka_unit_test(views_are_limited),
        cmocka_unit_test(free_blocks_trap),
        cmocka_unit_test(the_pool_outlives_its_users),
        cmocka_unit_test(each_block_lies_in_the_slab_that_it_names),
        cmocka_unit_test(accounts_hold_on_a_random_walk),
        cmocka_unit_test(keep_after_the_pool_was_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
