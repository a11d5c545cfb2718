/* Blocks of several sizes in one pool: who gets memory, and that nobody takes it all; connections
 * of each size. */
#include <sluice/pool.h>

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/chain.h>
#include <sluice/conn.h>
#include <sluice/loop.h>
#include <sluice/slice.h>

#include "memory/chain.h"
#include "support/clock.h"
#include "support/sockets.h"

enum {
    GUARD = 100,
    SLAB = 128 << 10,
    SLABS = 8,
    SIZES = 3,
    SMALLEST = 512,
    MOST = SLABS * SLAB / 4096, /* blocks of the pool's own size */
};

static const uint32_t sizes[SIZES] = {4096, 16384, 65536};

/* A budget of a mebibyte in eight slabs. */
static const sluice_pool_options small_pool = {.size = sizeof small_pool,
                                               .block_size = 4096,
                                               .slab_blocks = SLAB / 4096,
                                               .max_blocks = MOST,
                                               .no_huge_pages = true};

static const sluice_backend_choice both[] = {SLUICE_BACKEND_URING, SLUICE_BACKEND_EPOLL};

static sluice_pool_stats stats_of(sluice_pool *pool) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(pool, &stats);
    return stats;
}

static void open_classes(sluice_pool *pool, sluice_pool *ret_classes[SIZES]) {
    for (int i = 0; i < SIZES; i++) {
        assert_int_equal(sluice_pool_class(pool, sizes[i], &ret_classes[i]), 0);
        assert_int_equal(stats_of(ret_classes[i]).block_size, sizes[i]);
    }
}

/* The counts of each class add up, and those of all stay within the budget. */
static void check_budget(sluice_pool *classes[SIZES]) {
    uint64_t blocks = 0, held = 0;
    uint32_t slabs = 0;
    for (int i = 0; i < SIZES; i++) {
        sluice_pool_stats stats = stats_of(classes[i]);
        assert_int_equal(stats.total, stats.free + stats.kernel + stats.held);
        assert_true(stats.slabs >= 1);
        blocks += (uint64_t)stats.total * sizes[i];
        held += (uint64_t)stats.held * sizes[i];
        slabs += stats.slabs;
    }
    sluice_pool_stats stats = stats_of(classes[0]);
    assert_int_equal(stats.bytes_max, SLABS * SLAB);
    assert_int_equal(stats.bytes_mapped, slabs * SLAB);
    assert_int_equal(blocks, stats.bytes_mapped);
    assert_int_equal(held, stats.bytes_held);
    assert_true(stats.bytes_mapped <= stats.bytes_max);
}

static void pool_done(sluice_pool *pool) {
    sluice_pool_stats stats = stats_of(pool);
    assert_int_equal(stats.bytes_held, 0);
    assert_int_equal(stats.held, 0);
    assert_int_equal(stats.views, 0);
    assert_int_equal(stats.bytes_copied, 0);
    sluice_pool_free(pool);
}

/* Blocks out of the pool, each filled with what only it has. */
typedef struct hoard {
    sluice_block *blocks[SLABS * SLAB / SMALLEST];
    uint32_t count;
    uint32_t seed;
} hoard;

static bool hoard_one(hoard *h, sluice_pool *class) {
    sluice_block *block;
    if (sluice_block_get(class, &block) < 0)
        return false;
    assert_int_equal(sluice_block_capacity(block), stats_of(class).block_size);
    pattern_fill(h->seed, h->count, sluice_block_data(block), sluice_block_capacity(block));
    h->blocks[h->count++] = block;
    return true;
}

static void hoard_all(hoard *h, sluice_pool *class) {
    while (hoard_one(h, class))
        ;
    assert_int_equal(sluice_pool_available(class), stats_of(class).kernel);
}

static void hoard_release(hoard *h, uint32_t left) {
    while (h->count > left) {
        sluice_block *block = h->blocks[--h->count];
        assert_true(pattern_matches(h->seed, h->count, sluice_block_data(block), sluice_block_capacity(block)));
        sluice_block_release(block);
    }
}

/* The pool alone. */

static void sizes_are_checked(void **state) {
    (void)state;
    static const uint32_t wrong[] = {256, 1000, 4097, 12288, 2 << 20, UINT32_MAX, 2 * SLAB};
    sluice_pool *const untouched = (sluice_pool *)(void *)&state;
    sluice_pool *pool = untouched, *class = untouched;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sluice_pool_options options = small_pool;
        options.class_sizes[i % SLUICE_POOL_CLASSES] = wrong[i];
        assert_int_equal(sluice_pool_new(&options, &pool), -EINVAL);
    }
    /* More blocks to a slab than there may be. */
    const sluice_pool_options many = {
        .size = sizeof many, .block_size = 1 << 20, .max_blocks = 1024, .class_sizes = {512}};
    assert_int_equal(sluice_pool_new(&many, &pool), -EINVAL);
    assert_ptr_equal(pool, untouched);

    assert_int_equal(sluice_pool_new(NULL, &pool), 0);
    assert_int_equal(sluice_pool_class(pool, 8192, &class), -EINVAL);
    assert_int_equal(sluice_pool_class(pool, 1, &class), -EINVAL);
    assert_ptr_equal(class, untouched);
    sluice_pool *classes[SIZES], *again;
    open_classes(pool, classes);
    assert_ptr_equal(classes[0], pool);
    /* A class is as good as the pool, and the same each time; giving it up does nothing. */
    assert_int_equal(sluice_pool_class(classes[2], 0, &again), 0);
    assert_ptr_equal(again, pool);
    assert_int_equal(sluice_pool_class(classes[2], 16384, &again), 0);
    assert_ptr_equal(again, classes[1]);
    sluice_pool_free(classes[2]);
    assert_int_equal(stats_of(classes[2]).total, stats_of(pool).total / 16);
    pool_done(pool);
}

static void sizes_can_be_chosen(void **state) {
    (void)state;
    sluice_pool *pool, *class;
    /* They replace the usual ones. The pool's own size is always there. */
    sluice_pool_options options = small_pool;
    options.class_sizes[3] = SLAB;
    options.class_sizes[1] = SMALLEST;
    options.class_sizes[0] = 4096;
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
    assert_int_equal(sluice_pool_class(pool, 16384, &class), -EINVAL);
    assert_int_equal(sluice_pool_class(pool, SMALLEST, &class), 0);
    assert_int_equal(stats_of(class).total, SLAB / SMALLEST);
    assert_int_equal(stats_of(class).max, SLABS * SLAB / SMALLEST);
    assert_int_equal(sluice_pool_class(pool, SLAB, &class), 0);
    assert_int_equal(stats_of(class).total, 1);
    assert_int_equal(sluice_pool_class(pool, 4096, &class), 0);
    assert_ptr_equal(class, pool);
    pool_done(pool);

    /* Of the usual ones there are those that the slabs can hold. */
    options = (sluice_pool_options){
        .size = sizeof(sluice_pool_options), .block_size = 512, .slab_blocks = 32, .max_blocks = 64};
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
    assert_int_equal(sluice_pool_class(pool, 16384, &class), 0);
    assert_int_equal(sluice_pool_class(pool, 65536, &class), -EINVAL);
    pool_done(pool);
}

/* At every step of a random load no more memory is in use than the budget has, and what is said to
 * be there is. */
static void the_budget_is_never_exceeded(void **state) {
    (void)state;
    enum { STEPS = 40000, SEASON = 3000 };
    sluice_pool *pool, *classes[SIZES];
    hoard *hoards = calloc(SIZES, sizeof *hoards);
    uint64_t random = 7;
    unsigned refused = 0, moved = 0;
    uint32_t slabs = 1;
    assert_non_null(hoards);
    assert_int_equal(sluice_pool_new(&small_pool, &pool), 0);
    open_classes(pool, classes);
    for (uint32_t step = 0; step < STEPS; step++) {
        /* Each class has its times of plenty, and of none. */
        uint32_t which = random_between(&random, 0, SIZES - 1);
        hoard *h = &hoards[which];
        h->seed = which;
        if (random_between(&random, 0, 99) < ((step / SEASON + which) % SIZES == 0 ? 80u : 40u)) {
            uint32_t available = sluice_pool_available(classes[which]);
            assert_int_equal(hoard_one(h, classes[which]), available > 0);
            refused += available == 0;
            if (available > 0)
                assert_int_equal(sluice_pool_available(classes[which]), available - 1);
        } else if (h->count > 0) {
            hoard_release(h, h->count - 1);
        }
        if (step % SEASON == SEASON - 1)
            hoard_release(&hoards[(step / SEASON) % SIZES], 0);
        check_budget(classes);
        uint32_t now = stats_of(classes[2]).slabs;
        moved += now < slabs;
        slabs = now;
    }
    assert_true(refused > 0 && moved > 0);
    for (int i = 0; i < SIZES; i++)
        hoard_release(&hoards[i], 0);
    check_budget(classes);
    pool_done(pool);
    free(hoards);
}

/* Whoever needs it gets what the others do not use, but for a slab that each keeps. */
static void idle_slabs_go_to_the_hungry(void **state) {
    (void)state;
    sluice_pool *pool, *classes[SIZES];
    hoard h = {.seed = 4};
    assert_int_equal(sluice_pool_new(&small_pool, &pool), 0);
    open_classes(pool, classes);
    for (int round = 0; round < 2 * SIZES; round++) {
        int hungry = round % SIZES, next = (hungry + 1) % SIZES;
        assert_int_equal(sluice_pool_available(classes[hungry]), (SLABS - SIZES + 1) * (SLAB / sizes[hungry]));
        hoard_all(&h, classes[hungry]);
        assert_int_equal(h.count, (SLABS - SIZES + 1) * (SLAB / sizes[hungry]));
        check_budget(classes);
        /* The others have what is theirs, and no more. */
        for (int i = 0; i < SIZES; i++)
            if (i != hungry)
                assert_int_equal(sluice_pool_available(classes[i]), SLAB / sizes[i]);
        /* The one block in use lies in the slab that the class keeps anyway. */
        hoard_release(&h, 1);
        assert_int_equal(sluice_pool_available(classes[next]), (SLABS - SIZES + 1) * (SLAB / sizes[next]));
        hoard_release(&h, 0);
    }
    pool_done(pool);
}

/* The last slab is what is left of the budget: it may hold no block of a large size, and stays
 * where it is. */
static void an_odd_rest_of_the_budget_is_used(void **state) {
    (void)state;
    enum { REST = 5, SMALL_SLAB = SLAB / 4096 };
    sluice_pool_options options = small_pool;
    options.max_blocks = 2 * SMALL_SLAB + REST;
    sluice_pool *pool, *large;
    hoard h = {.seed = 5}, other = {.seed = 6};
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
    assert_int_equal(sluice_pool_class(pool, 16384, &large), 0);
    assert_int_equal(sluice_pool_available(large), SLAB / 16384 + 1);
    hoard_all(&h, large);
    assert_int_equal(h.count, SLAB / 16384 + 1);
    assert_int_equal(sluice_pool_available(pool), SMALL_SLAB);
    hoard_all(&other, pool);
    assert_int_equal(other.count, SMALL_SLAB);
    /* Of two idle slabs the class keeps one, and the odd one cannot go. */
    hoard_release(&h, 0);
    assert_int_equal(sluice_pool_available(pool), SMALL_SLAB - other.count + SMALL_SLAB);
    hoard_all(&other, pool);
    assert_int_equal(other.count, 2 * SMALL_SLAB);
    assert_int_equal(sluice_pool_available(large), 1);
    hoard_release(&other, 0);
    pool_done(pool);

    /* The other way round. */
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
    hoard_all(&other, pool);
    assert_int_equal(other.count, options.max_blocks);
    assert_int_equal(sluice_pool_class(pool, 65536, &large), -ENOBUFS);
    hoard_release(&other, 0);
    assert_int_equal(sluice_pool_class(pool, 65536, &large), 0);
    hoard_all(&h, large);
    assert_int_equal(h.count, 2 * SLAB / 65536);
    assert_int_equal(sluice_pool_available(pool), REST);
    hoard_all(&other, pool);
    assert_int_equal(other.count, REST);
    hoard_release(&other, 0);
    hoard_release(&h, 0);
    pool_done(pool);
}

static void a_class_needs_a_slab_to_begin(void **state) {
    (void)state;
    sluice_pool *pool, *class = NULL;
    hoard h = {.seed = 7};
    assert_int_equal(sluice_pool_new(&small_pool, &pool), 0);
    hoard_all(&h, pool);
    assert_int_equal(h.count, MOST);
    assert_int_equal(sluice_pool_class(pool, 65536, &class), -ENOBUFS);
    assert_null(class);
    /* The pool is as it was: one size, all of the budget. */
    assert_int_equal(stats_of(pool).reserve, MOST / 16);
    hoard_release(&h, 0);
    assert_int_equal(sluice_pool_available(pool), MOST);
    assert_int_equal(sluice_pool_class(pool, 65536, &class), 0);
    assert_int_equal(sluice_pool_available(pool), MOST - SLAB / 4096);
    pool_done(pool);
}

/* The reserve goes by what a class can have: another one's hunger does not make a reserve of all
 * that there is. */
static void what_is_kept_leaves_a_reserve_in_each_class(void **state) {
    (void)state;
    enum { SHARE = 4, THERE = SLAB / SMALLEST };
    sluice_pool_options options = small_pool;
    options.class_sizes[0] = SMALLEST;
    options.reserve_blocks = MOST / SHARE;
    sluice_pool *pool, *class;
    hoard h = {.seed = 8}, own = {.seed = 9};
    sluice_chain *chain;
    sluice_slice slice, kept;
    sluice_block *block;
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
    assert_int_equal(sluice_pool_class(pool, SMALLEST, &class), 0);
    hoard_all(&h, pool);
    assert_int_equal(sluice_chain_new(class, &chain), 0);
    assert_int_equal(sluice_block_get(class, &block), 0);
    assert_int_equal(sluice_block_set_length(block, 10), 0);
    sluice_chain_append(chain, block);
    assert_int_equal(sluice_chain_take(chain, 10, &slice), 0);
    assert_int_equal(stats_of(class).reserve, THERE / SHARE);
    while (sluice_pool_available(class) > THERE / SHARE) {
        assert_int_equal(sluice_slice_take(&slice, &kept), 0);
        slice = kept;
        assert_true(hoard_one(&own, class));
    }
    assert_int_equal(sluice_slice_take(&slice, &kept), -ENOBUFS);
    hoard_release(&h, 0);
    assert_int_equal(sluice_slice_take(&slice, &kept), 0);
    sluice_slice_release(&kept);
    hoard_release(&own, 0);
    sluice_chain_free(chain);
    pool_done(pool);
}

/* Appends pattern bytes in one block of the class. */
static void append(sluice_chain *chain, sluice_pool *class, uint32_t seed, uint64_t *place, uint32_t n) {
    sluice_block *block;
    assert_int_equal(sluice_block_get(class, &block), 0);
    pattern_fill(seed, *place, sluice_block_data(block), n);
    assert_int_equal(sluice_block_set_length(block, n), 0);
    sluice_chain_append(chain, block);
    *place += n;
}

/* A frame put together of blocks of two sizes: each counts, wherever it lies. */
static void what_is_kept_leaves_a_reserve_of_each_size_in_it(void **state) {
    (void)state;
    static const int orders[][3] = {{0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {0, 1, 0}};
    sluice_pool_options options = small_pool;
    options.class_sizes[0] = SMALLEST;
    sluice_pool *classes[2];
    assert_int_equal(sluice_pool_new(&options, &classes[1]), 0);
    assert_int_equal(sluice_pool_class(classes[1], SMALLEST, &classes[0]), 0);
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        sluice_chain *chain;
        sluice_slice slice, kept;
        uint64_t place = 0;
        assert_int_equal(sluice_chain_new(classes[1], &chain), 0);
        for (int j = 0; j < 3; j++)
            append(chain, classes[orders[i][j]], 12, &place, 100);
        assert_int_equal(sluice_chain_take(chain, place, &slice), 0);
        for (int scarce = 0; scarce < 2; scarce++) {
            hoard h = {.seed = 13};
            while (sluice_pool_available(classes[scarce]) > stats_of(classes[scarce]).reserve) {
                assert_int_equal(sluice_slice_take(&slice, &kept), 0);
                slice = kept;
                assert_true(hoard_one(&h, classes[scarce]));
            }
            assert_true(sluice_pool_available(classes[!scarce]) > stats_of(classes[!scarce]).reserve);
            assert_int_equal(sluice_slice_take(&slice, &kept), -ENOBUFS);
            hoard_release(&h, 0);
        }
        assert_int_equal(sluice_slice_take(&slice, &kept), 0);
        sluice_slice_release(&kept);
        sluice_chain_free(chain);
    }
    pool_done(classes[1]);
}

static void *release_slice(void *user) {
    sluice_slice_release(user);
    return NULL;
}

/* References to blocks of all sizes follow each other, move on, and go home on any thread, in any
 * order. */
static void chains_mix_all_sizes(void **state) {
    (void)state;
    enum { BLOCKS = 12, PIECE = 3000, CUT = 2500 };
    sluice_pool *pool, *classes[SIZES];
    sluice_chain *chain, *to;
    sluice_slice slices[BLOCKS];
    uint64_t place = 0, random = 10;
    assert_int_equal(sluice_pool_new(&small_pool, &pool), 0);
    open_classes(pool, classes);
    assert_int_equal(sluice_chain_new(classes[1], &chain), 0);
    assert_int_equal(sluice_chain_new(classes[2], &to), 0);
    for (int i = 0; i < BLOCKS; i++)
        append(chain, classes[i % SIZES], 11, &place, PIECE);
    assert_true(chain_is_sound(chain));
    assert_int_equal(sluice_chain_move(chain, PIECE + 100, to), 0);
    while (sluice_chain_length(chain) > 0) {
        sluice_slice slice;
        size_t n = sluice_chain_length(chain) < CUT ? sluice_chain_length(chain) : CUT;
        assert_int_equal(sluice_chain_take(chain, n, &slice), 0);
        assert_int_equal(sluice_chain_append_slice(to, &slice), 0);
        sluice_slice_release(&slice);
    }
    assert_true(chain_is_sound(to));
    assert_int_equal(sluice_chain_length(to), place);
    for (int i = 0; i < BLOCKS; i++) {
        assert_int_equal(sluice_chain_take(to, PIECE, &slices[i]), 0);
        assert_true(pattern_slice_matches(11, (uint64_t)i * PIECE, &slices[i]));
    }
    for (uint32_t left = BLOCKS; left > 0; left--) {
        uint32_t i = random_between(&random, 0, left - 1);
        pthread_t thread;
        if (left % 2) {
            assert_int_equal(pthread_create(&thread, NULL, release_slice, &slices[i]), 0);
            assert_int_equal(pthread_join(thread, NULL), 0);
        } else {
            sluice_slice_release(&slices[i]);
        }
        slices[i] = slices[left - 1];
        check_budget(classes);
    }
    sluice_chain_free(chain);
    sluice_chain_free(to);
    pool_done(pool);
}

/* A chain may take another pool's slice as a guest, but not its blocks. */
static void another_pools_blocks_are_guests(void **state) {
    (void)state;
    sluice_pool *pool, *stranger, *class;
    sluice_chain *chain, *to;
    sluice_slice foreign;
    uint64_t place = 0;
    assert_int_equal(sluice_pool_new(&small_pool, &pool), 0);
    assert_int_equal(sluice_pool_new(&small_pool, &stranger), 0);
    assert_int_equal(sluice_pool_class(stranger, 16384, &class), 0);
    assert_int_equal(sluice_chain_new(class, &chain), 0);
    assert_int_equal(sluice_chain_new(pool, &to), 0);
    append(chain, class, 11, &place, 20);
    assert_int_equal(sluice_chain_move(chain, 10, to), -EINVAL);
    assert_int_equal(sluice_chain_take(chain, 10, &foreign), 0);
    assert_int_equal(sluice_chain_append_slice(to, &foreign), 0);
    sluice_slice_release(&foreign);
    sluice_chain_free(chain);
    place = 0;
    assert_true(pattern_consume(to, 10, 11, &place));
    sluice_chain_free(to);
    pool_done(stranger);
    pool_done(pool);
}

/* Blocks of all sizes outlive the pool. */
static void the_last_block_of_any_size_ends_the_pool(void **state) {
    (void)state;
    for (int last = 0; last < SIZES; last++) {
        sluice_pool *pool, *classes[SIZES];
        sluice_block *blocks[SIZES];
        assert_int_equal(sluice_pool_new(&small_pool, &pool), 0);
        open_classes(pool, classes);
        for (int i = 0; i < SIZES; i++)
            assert_int_equal(sluice_block_get(classes[i], &blocks[i]), 0);
        sluice_pool_free(pool);
        for (int i = 1; i <= SIZES; i++) {
            sluice_block *block = blocks[(last + i) % SIZES];
            memset(sluice_block_data(block), i, sluice_block_capacity(block));
            sluice_block_release(block);
        }
    }
}

/* Connections. */

typedef struct receiver {
    sluice_conn *conn;
    uint32_t seed;
    uint32_t size; /* of each block that comes; 0: any */
    uint64_t place;
    bool leaves; /* the bytes stay in the chain */
    bool differs, odd, told_end;
    int error;
    unsigned closed;
} receiver;

static void receiver_data(sluice_conn *conn, void *user) {
    receiver *r = user;
    sluice_chain *chain = sluice_conn_chain(conn);
    for (const sluice_block *block = chain->first; block && r->size; block = block == chain->last ? NULL : block->next)
        r->odd |= block->kind == BLOCK_POOLED && block->capacity != r->size;
    if (!r->leaves)
        r->differs |= !pattern_consume(chain, sluice_chain_length(chain), r->seed, &r->place);
}

static void receiver_end(sluice_conn *conn, int error, void *user) {
    receiver *r = user;
    (void)conn;
    r->told_end = true;
    r->error = error;
}

static void receiver_closed(sluice_conn *conn, void *user) {
    receiver *r = user;
    (void)conn;
    r->closed++;
}

static const sluice_conn_events receiver_events = {
    .size = sizeof receiver_events, .on_data = receiver_data, .on_end = receiver_end, .on_closed = receiver_closed};

static int receiver_open(receiver *r, sluice_loop *loop, uint32_t size) {
    int fds[2];
    sockets_tcp_pair(fds);
    assert_int_equal(sluice_conn_new(loop, fds[0], &receiver_events, r, &r->conn), 0);
    assert_int_equal(sluice_conn_set_block_size(r->conn, size), 0);
    r->size = size;
    return fds[1];
}

/* Time stands still: nobody who waits for blocks is ended because the machine is slow. */
static void rig_open(loop_rig *rig, void **state, const sluice_pool_options *pool) {
    const sluice_backend_choice *backend = *state;
    clock_stop();
    loop_rig_open(rig, pool,
                  &(sluice_loop_options){
                      .size = sizeof(sluice_loop_options), .backend = *backend, .stock_bytes = pool ? SLAB / 2 : 0},
                  GUARD);
}

static void rig_close(loop_rig *rig) {
    sluice_loop_free(rig->loop);
    pool_done(rig->pool);
    hang_guard(0);
}

static sluice_loop_stats loop_stats(const loop_rig *rig) {
    sluice_loop_stats stats = {.size = sizeof stats};
    sluice_loop_get_stats(rig->loop, &stats);
    return stats;
}

static void a_size_must_be_the_pools(void **state) {
    loop_rig rig;
    receiver r = {.seed = 1};
    hoard h = {.seed = 1};
    rig_open(&rig, state, &small_pool);
    int peer = receiver_open(&r, rig.loop, 0);
    assert_int_equal(sluice_conn_set_block_size(r.conn, 8192), -EINVAL);
    hoard_all(&h, rig.pool);
    assert_int_equal(sluice_conn_set_block_size(r.conn, 65536), -ENOBUFS);
    hoard_release(&h, 0);
    /* All of that has changed nothing. */
    r.size = 4096;
    pattern_write(peer, r.seed, 0, 5000);
    while (r.place < 5000)
        turn(rig.loop);
    assert_int_equal(sluice_conn_set_block_size(r.conn, 65536), 0);
    sluice_conn_close(r.conn);
    assert_int_equal(sluice_conn_set_block_size(r.conn, 4096), -EPIPE);
    turn_until_count(rig.loop, &r.closed, 1);
    assert_false(r.odd);
    assert_false(r.differs);
    close(peer);
    rig_close(&rig);
}

/* The same streams into blocks of each size, on one loop. */
static void each_connection_has_blocks_of_its_size(void **state) {
    enum { EACH = 3, STREAMS = EACH * SIZES, BYTES = 3 << 20 };
    loop_rig rig;
    receiver receivers[STREAMS] = {0};
    socket_writer writers[STREAMS];
    int peers[STREAMS];
    rig_open(&rig, state, NULL);
    for (uint32_t i = 0; i < STREAMS; i++) {
        receivers[i].seed = i / SIZES;
        peers[i] = receiver_open(&receivers[i], rig.loop, sizes[i % SIZES]);
        socket_writer_start(&writers[i], peers[i], i / SIZES, BYTES, 1, 60000);
    }
    for (int i = 0; i < STREAMS; i++) {
        turn_until(rig.loop, &receivers[i].told_end);
        socket_writer_join(&writers[i]);
        assert_int_equal(receivers[i].error, 0);
        assert_int_equal(receivers[i].place, BYTES);
        assert_false(receivers[i].differs);
        assert_false(receivers[i].odd);
        close(peers[i]);
    }
    for (int i = 0; i < SIZES; i++) {
        sluice_pool *class;
        assert_int_equal(sluice_pool_class(rig.pool, sizes[i], &class), 0);
        assert_true(stats_of(class).peak_held > 0);
    }
    rig_close(&rig);
}

/* What comes next is in blocks of this size. */
static void receive_in(receiver *r, sluice_loop *loop, int peer, uint32_t size) {
    enum { BYTES = 100000 };
    uint64_t goal = r->place + BYTES;
    /* What was armed before has been stopped. */
    turn_through(loop, 4);
    r->size = size;
    pattern_write(peer, r->seed, r->place, BYTES);
    while (r->place < goal)
        turn(loop);
    assert_false(r->odd);
    assert_false(r->differs);
}

/* A loop for a class: connections begin with its blocks. A pool serves one loop, with all its
 * sizes. */
static void a_loop_can_be_made_for_a_class(void **state) {
    const sluice_backend_choice *backend = *state;
    sluice_pool *pool, *class;
    sluice_loop *loop, *second;
    receiver r = {.seed = 2};
    hang_guard(GUARD);
    assert_int_equal(sluice_pool_new(&small_pool, &pool), 0);
    assert_int_equal(sluice_pool_class(pool, 16384, &class), 0);
    assert_int_equal(
        sluice_loop_new(class, &(sluice_loop_options){.size = sizeof(sluice_loop_options), .backend = *backend}, &loop),
        0);
    assert_int_equal(sluice_loop_new(pool,
                                     &(sluice_loop_options){.size = sizeof(sluice_loop_options), .backend = *backend},
                                     &second),
                     -EBUSY);
    assert_ptr_equal(sluice_loop_pool(loop), class);
    int peer = receiver_open(&r, loop, 0);
    receive_in(&r, loop, peer, 16384);
    /* The pool's own size is one among others then, and 0 leads back. */
    assert_int_equal(sluice_conn_set_block_size(r.conn, 4096), 0);
    receive_in(&r, loop, peer, 4096);
    assert_int_equal(sluice_conn_set_block_size(r.conn, 0), 0);
    receive_in(&r, loop, peer, 16384);
    close(peer);
    sluice_loop_free(loop);
    pool_done(pool);
    hang_guard(0);
}

/* In the middle of a stream, at any moment. */
static void a_change_of_size_loses_nothing(void **state) {
    enum { ROUNDS = 400 };
    loop_rig rig;
    receiver r = {.seed = 3};
    uint64_t random = 33, written = 0;
    rig_open(&rig, state, &small_pool);
    int peer = receiver_open(&r, rig.loop, 0);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 3; i++) {
            uint32_t n = random_between(&random, 0, 20000);
            pattern_write(peer, r.seed, written, n);
            written += n;
            for (unsigned turns = random_between(&random, 0, 2); turns > 0; turns--)
                assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
            if (random_between(&random, 0, 3) == 0)
                sluice_conn_pause(r.conn);
            assert_int_equal(sluice_conn_set_block_size(r.conn, sizes[random_between(&random, 0, SIZES - 1)]), 0);
            if (random_between(&random, 0, 1))
                sluice_conn_resume(r.conn);
        }
        sluice_conn_resume(r.conn);
        while (r.place + sluice_chain_length(sluice_conn_chain(r.conn)) < written)
            turn(rig.loop);
        assert_true(chain_is_sound(sluice_conn_chain(r.conn)));
        size_t length = sluice_chain_length(sluice_conn_chain(r.conn));
        assert_true(pattern_consume(sluice_conn_chain(r.conn), length, r.seed, &r.place));
        assert_int_equal(r.place, written);
        assert_false(r.differs);
        r.leaves = round % 2;
    }
    close(peer);
    rig_close(&rig);
}

static void count_received(sluice_conn *conn, int error, size_t done, void *user) {
    (void)conn;
    assert_int_equal(error, 0);
    *(size_t *)user = done;
}

/* A value received straight into memory has nothing to do with blocks: what follows it comes in the
 * new ones. */
static void a_change_of_size_leaves_a_value_alone(void **state) {
    enum { VALUE = 50000, HAD = 20000, BEHIND = 3000 };
    for (unsigned turns = 0; turns < 4; turns++) {
        loop_rig rig;
        receiver r = {.seed = 4, .leaves = true};
        static uint8_t memory[VALUE];
        size_t done = 0;
        rig_open(&rig, state, &small_pool);
        int peer = receiver_open(&r, rig.loop, 0);
        turn_through(rig.loop, 3);
        assert_int_equal(sluice_conn_receive_into(r.conn, memory, VALUE, count_received, &done), 0);
        turn_through(rig.loop, turns);
        pattern_write(peer, r.seed, 0, HAD);
        turn_through(rig.loop, turns / 2);
        assert_int_equal(sluice_conn_set_block_size(r.conn, 65536), 0);
        pattern_write(peer, r.seed, HAD, VALUE - HAD + BEHIND);
        turn_until_size(rig.loop, &done, VALUE);
        assert_true(pattern_matches(r.seed, 0, memory, VALUE));
        turn_until_buffered(rig.loop, r.conn, BEHIND);
        r.place = VALUE;
        if (turns > 0)
            assert_int_equal(sluice_conn_chain(r.conn)->last->capacity, 65536);
        assert_true(pattern_consume(sluice_conn_chain(r.conn), BEHIND, r.seed, &r.place));
        close(peer);
        sluice_loop_free(rig.loop);
        assert_int_equal(stats_of(rig.pool).bytes_held, 0);
        sluice_pool_free(rig.pool);
        hang_guard(0);
    }
}

/* Turns until the one connection waits whose blocks have all gone. */
static void turn_until_starved(const loop_rig *rig, sluice_pool *class) {
    while (loop_stats(rig).waiting == 0 || sluice_pool_available(class) > 0)
        turn_through(rig->loop, 1);
}

/* The hungry one has every block that it can get, and waits for more; all the others receive as
 * ever. */
static void one_starved_class_leaves_the_others(void **state) {
    enum { BYTES = 2 << 20 };
    for (int hungry = 0; hungry < SIZES; hungry++) {
        loop_rig rig;
        sluice_pool *classes[SIZES];
        receiver receivers[SIZES] = {0};
        socket_writer writers[SIZES];
        int peers[SIZES];
        hoard h = {.seed = 4};
        rig_open(&rig, state, &small_pool);
        open_classes(rig.pool, classes);
        for (uint32_t i = 0; i < SIZES; i++) {
            receivers[i].seed = i;
            peers[i] = receiver_open(&receivers[i], rig.loop, sizes[i]);
        }
        turn_through(rig.loop, 3);
        receivers[hungry].leaves = true;
        hoard_all(&h, classes[hungry]);
        socket_writer_start(&writers[hungry], peers[hungry], (uint32_t)hungry, BYTES, 1, 30000);
        turn_until_starved(&rig, classes[hungry]);
        for (int i = 0; i < SIZES; i++) {
            if (i == hungry)
                continue;
            socket_writer_start(&writers[i], peers[i], (uint32_t)i, BYTES, 1, 30000);
            while (!receivers[i].told_end) {
                turn(rig.loop);
                check_budget(classes);
            }
            assert_int_equal(receivers[i].error, 0);
            assert_int_equal(receivers[i].place, BYTES);
        }
        /* It may be armed just now, with nothing to receive into. */
        turn_until_starved(&rig, classes[hungry]);
        assert_false(receivers[hungry].told_end);
        assert_int_equal(loop_stats(&rig).waiting, 1);
        /* And it goes on when it gets blocks again. */
        hoard_release(&h, 0);
        receivers[hungry].leaves = false;
        turn_until(rig.loop, &receivers[hungry].told_end);
        assert_int_equal(receivers[hungry].error, 0);
        for (int i = 0; i < SIZES; i++) {
            assert_int_equal(receivers[i].place, BYTES);
            assert_false(receivers[i].differs);
            assert_false(receivers[i].odd);
            socket_writer_join(&writers[i]);
            close(peers[i]);
        }
        check_budget(classes);
        rig_close(&rig);
    }
}

/* Under pressure in its class, and only then, a connection fills its blocks to the end before it
 * takes others. */
static void pressure_is_a_matter_of_each_class(void **state) {
    enum { WRITES = 10, LITTLE = 100 };
    for (int pressed = 0; pressed < SIZES; pressed++) {
        loop_rig rig;
        sluice_pool *classes[SIZES];
        hoard h = {.seed = 5};
        rig_open(&rig, state, &small_pool);
        open_classes(rig.pool, classes);
        while (sluice_pool_available(classes[pressed]) * 5 > stats_of(classes[pressed]).held * 4)
            assert_true(hoard_one(&h, classes[pressed]));
        for (int i = 0; i < SIZES; i++) {
            receiver r = {.seed = (uint32_t)i, .leaves = true};
            int peer = receiver_open(&r, rig.loop, sizes[i]);
            for (int k = 0; k < WRITES; k++) {
                pattern_write(peer, r.seed, (uint64_t)k * LITTLE, LITTLE);
                turn_until_buffered(rig.loop, r.conn, (size_t)(k + 1) * LITTLE);
                turn_through(rig.loop, 2);
            }
            size_t blocks = sluice_chain_blocks(sluice_conn_chain(r.conn));
            if (i == pressed)
                assert_in_range(blocks, 1, 2);
            else if (i == 0)
                /*
                 * The large ones are so few that a small number of them is pressure. Without it a
                 * chain is fragmented with three blocks; io_uring may have begun a fourth by then.
                 */
                assert_in_range(blocks, 3, 4);
            assert_true(pattern_consume(sluice_conn_chain(r.conn), WRITES * LITTLE, r.seed, &r.place));
            sluice_conn_close(r.conn);
            turn_until_count(rig.loop, &r.closed, 1);
            assert_false(r.odd);
            close(peer);
        }
        hoard_release(&h, 0);
        rig_close(&rig);
    }
}

/* More connections than there is memory for, of all sizes, whose consumers let the bytes lie for a
 * while. */
static void all_sizes_under_load(void **state) {
    enum { STREAMS = 24, BYTES = 256 << 10, HELD = 6 };
    loop_rig rig;
    sluice_pool *classes[SIZES];
    receiver receivers[STREAMS] = {0};
    socket_writer writers[STREAMS];
    int peers[STREAMS];
    uint64_t random = 66;
    unsigned ended = 0;
    rig_open(&rig, state, &small_pool);
    open_classes(rig.pool, classes);
    for (uint32_t i = 0; i < STREAMS; i++) {
        receivers[i].seed = i;
        peers[i] = receiver_open(&receivers[i], rig.loop, sizes[i % SIZES]);
        socket_writer_start(&writers[i], peers[i], i, BYTES, 1, i % 2 ? 20000 : 1000);
    }
    while (ended < STREAMS) {
        for (int i = 0; i < STREAMS; i++)
            receivers[i].leaves = random_between(&random, 0, HELD) > 0;
        turn_through(rig.loop, 1);
        check_budget(classes);
        ended = 0;
        for (int i = 0; i < STREAMS; i++) {
            sluice_chain *chain = sluice_conn_chain(receivers[i].conn);
            if (random_between(&random, 0, 3) == 0 || receivers[i].told_end)
                receivers[i].differs |= !pattern_consume(chain, sluice_chain_length(chain), receivers[i].seed,
                                                         &receivers[i].place);
            ended += receivers[i].told_end;
        }
    }
    for (int i = 0; i < STREAMS; i++) {
        assert_int_equal(receivers[i].error, 0);
        assert_int_equal(receivers[i].place, BYTES);
        assert_false(receivers[i].differs);
        assert_false(receivers[i].odd);
        socket_writer_join(&writers[i]);
        close(peers[i]);
    }
    rig_close(&rig);
}

#define ON_BOTH(test)                                                                                                  \
    {#test " (io_uring)", test, NULL, NULL, (void *)&both[0]}, {                                                       \
#test " (epoll)", test, NULL, NULL, (void *)&both[1]                                                           \
    }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test(sizes_can_be_chosen),
        cmocka_unit_test(the_budget_is_never_exceeded),
        cmocka_unit_test(idle_slabs_go_to_the_hungry),
        cmocka_unit_test(an_odd_rest_of_the_budget_is_used),
        cmocka_unit_test(a_class_needs_a_slab_to_begin),
        cmocka_unit_test(what_is_kept_leaves_a_reserve_in_each_class),
        cmocka_unit_test(what_is_kept_leaves_a_reserve_of_each_size_in_it),
        cmocka_unit_test(chains_mix_all_sizes),
        cmocka_unit_test(another_pools_blocks_are_guests),
        cmocka_unit_test(the_last_block_of_any_size_ends_the_pool),
        ON_BOTH(a_size_must_be_the_pools),
        ON_BOTH(each_connection_has_blocks_of_its_size),
        ON_BOTH(a_loop_can_be_made_for_a_class),
        ON_BOTH(a_change_of_size_loses_nothing),
        ON_BOTH(a_change_of_size_leaves_a_value_alone),
        ON_BOTH(one_starved_class_leaves_the_others),
        ON_BOTH(pressure_is_a_matter_of_each_class),
        ON_BOTH(all_sizes_under_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
