/* Blocks that another thread releases while a loop is about to wait for them, or waits. */
#include <sluice/conn.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "memory/pool.h"
#include "support/clock.h"
#include "support/files.h"

enum {
    BLOCK = 4096,
    SLAB = 8, /* blocks */
    BLOCKS = 64,
    STOCK = 4, /* blocks that the kernel has */
    SEED = 19,
    SENT = 16 * BLOCK,
};

static const sluice_loop_options uring = {
    .size = sizeof uring, .backend = SLUICE_BACKEND_URING, .stock_bytes = STOCK * BLOCK, .no_low_water = true};
static const sluice_loop_options epoll = {
    .size = sizeof epoll, .backend = SLUICE_BACKEND_EPOLL, .stock_bytes = STOCK * BLOCK, .no_low_water = true};

static struct {
    sluice_block *block; /* released by another thread before the next request */
    unsigned requests;   /* for an announcement */
    bool no_slabs;       /* there is no memory for more */
} meddling;

static void *release(void *user) {
    sluice_block *block = user;
    sluice_block_release(block);
    return NULL;
}

/* Returns when the other thread has ended. */
static void release_elsewhere(sluice_block *block) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, release, block), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* The linker puts these in the place of the calls (--wrap). */
bool __real_pool_want_release(sluice_pool *pool);
bool __wrap_pool_want_release(sluice_pool *pool);
int __real_posix_memalign(void **ret_memory, size_t alignment, size_t size);
int __wrap_posix_memalign(void **ret_memory, size_t alignment, size_t size);

bool __wrap_pool_want_release(sluice_pool *pool) {
    sluice_block *block = meddling.block;
    meddling.block = NULL;
    meddling.requests++;
    if (block)
        release_elsewhere(block);
    return __real_pool_want_release(pool);
}

int __wrap_posix_memalign(void **ret_memory, size_t alignment, size_t size) {
    return meddling.no_slabs ? ENOMEM : __real_posix_memalign(ret_memory, alignment, size);
}

/* A connection whose bytes stay, and blocks that the test has. */
typedef struct starving {
    loop_rig rig;
    sluice_conn *conn;
    int peer;
    sluice_block *blocks[BLOCKS];
    unsigned count;
} starving;

/* The kernel has its stock. Time stands still: nobody gives way. */
static void starving_open(starving *s, void **state) {
    static const sluice_pool_options pool = {.size = sizeof pool,
                                             .block_size = BLOCK,
                                             .slab_blocks = SLAB,
                                             .max_blocks = BLOCKS,
                                             .reserve_blocks = 4,
                                             .no_huge_pages = true};
    static const sluice_conn_events events = {.size = sizeof events};
    int fds[2];
    *s = (starving){.count = 0};
    meddling.requests = 0;
    files_rig_open(&s->rig, &pool, state);
    clock_stop();
    sockets_tcp_pair(fds);
    assert_int_equal(sluice_conn_new(s->rig.loop, fds[0], &events, NULL, &s->conn), 0);
    s->peer = fds[1];
    turn_through(s->rig.loop, 3);
}

static size_t buffered(const starving *s) {
    return sluice_chain_length(sluice_conn_chain(s->conn));
}

/* With every block that the kernel does not have in the test's hands. Turns until the connection
 * waits for one. */
static void starve(starving *s) {
    sluice_loop_stats stats = {.size = sizeof stats};
    while (sluice_block_get(s->rig.pool, &s->blocks[s->count]) == 0)
        s->count++;
    pattern_write(s->peer, SEED, 0, SENT);
    do {
        turn_through(s->rig.loop, 1);
        sluice_loop_get_stats(s->rig.loop, &stats);
    } while (stats.waiting == 0);
    assert_true(buffered(s) < SENT);
}

/* All bytes come when the blocks do. */
static void starving_close(starving *s) {
    uint64_t place = 0;
    while (s->count > 0)
        sluice_block_release(s->blocks[--s->count]);
    turn_until_buffered(s->rig.loop, s->conn, SENT);
    assert_true(pattern_consume(sluice_conn_chain(s->conn), SENT, SEED, &place));
    close(s->peer);
    files_rig_close(&s->rig);
    clock_go_on();
}

/* Nobody has asked for it to be announced: the next turn is due at once. */
static void a_release_before_the_request_is_no_wait(void **state) {
    starving s;
    starving_open(&s, state);
    starve(&s);
    size_t before = buffered(&s);
    assert_int_equal(sluice_pool_available(s.rig.pool), 0);
    assert_int_equal(meddling.requests, 0);
    meddling.block = s.blocks[--s.count];
    assert_int_equal(sluice_loop_turn(s.rig.loop, -1), 0);
    assert_int_equal(meddling.requests, 1);
    assert_null(meddling.block);
    assert_int_equal(sluice_loop_timeout(s.rig.loop), 0);
    turn_until_buffered(s.rig.loop, s.conn, before + 1);
    starving_close(&s);
}

/* The pool may grow, but cannot: the loop neither tries that again and again, nor misses the
 * release of a block that it has. */
static void a_release_is_announced_where_no_slab_can_be_had(void **state) {
    starving s;
    starving_open(&s, state);
    meddling.no_slabs = true;
    starve(&s);
    assert_int_equal(s.count, SLAB - STOCK);
    while (meddling.requests == 0)
        turn_through(s.rig.loop, 1);
    size_t before = buffered(&s);
    struct pollfd watched = {.fd = sluice_loop_fd(s.rig.loop), .events = POLLIN};
    assert_true(watched.fd >= 0);
    turn_through(s.rig.loop, 5);
    assert_int_equal(buffered(&s), before);
    assert_int_equal(poll(&watched, 1, 0), 0);
    assert_true(sluice_loop_timeout(s.rig.loop) > 0);
    release_elsewhere(s.blocks[--s.count]);
    assert_int_equal(poll(&watched, 1, 0), 1);
    turn_until_buffered(s.rig.loop, s.conn, before + 1);
    meddling.no_slabs = false;
    starving_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        {"a_release_before_the_request_is_no_wait (io_uring)", a_release_before_the_request_is_no_wait, NULL, NULL,
         (void *)&uring},
        {"a_release_before_the_request_is_no_wait (epoll)", a_release_before_the_request_is_no_wait, NULL, NULL,
         (void *)&epoll},
        {"a_release_is_announced_where_no_slab_can_be_had (io_uring)", a_release_is_announced_where_no_slab_can_be_had,
         NULL, NULL, (void *)&uring},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
