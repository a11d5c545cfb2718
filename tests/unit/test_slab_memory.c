/*
 * The pool may grow, and the system has no memory for the next slab: connections and files wait as
 * for a block, at rest, and go on when there is some; what holds most gives way; and only the
 * blocks that are there are available.
 */
#include <sluice/conn.h>

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/loop.h>
#include <sluice/slice.h>

#include "support/clock.h"
#include "support/files.h"

enum {
    GUARD = 60,
    BLOCK = 4096,
    SLAB = 8,            /* blocks of one */
    SENT = 4 * SLAB + 1, /* blocks */
    TURNS = 50,
    LIMIT = 40, /* seconds of the test's clock, of which five would do */
};

static const sluice_pool_options pool_options = {.size = sizeof pool_options,
                                                 .block_size = BLOCK,
                                                 .slab_blocks = SLAB,
                                                 .max_blocks = 16 * SLAB,
                                                 .no_huge_pages = true};
static const sluice_loop_options loop_options = {
    .size = sizeof loop_options, .stock_bytes = SLAB / 2 * BLOCK, .no_low_water = true};

static bool fails;
static unsigned refused;

void *__real_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);

void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    if (!fails)
        return __real_mmap(at, size, protection, flags, fd, offset);
    refused++;
    errno = ENOMEM;
    return MAP_FAILED;
}

/* A connection whose bytes stay. */
typedef struct holder {
    sluice_conn *conn;
    int peer;
    uint32_t seed;
    size_t sent;
    unsigned ends;
    int error;
} holder;

static void holder_end(sluice_conn *conn, int error, void *user) {
    holder *h = user;
    (void)conn;
    h->ends++;
    h->error = error;
}

static size_t holder_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    (void)conn, (void)max, (void)user;
    iov[0] = (struct iovec){(void *)(uintptr_t) "late", 4};
    return 1;
}

static const sluice_conn_events events = {.size = sizeof events, .on_end = holder_end, .on_gather = holder_gather};

static void holder_open(holder *h, const loop_rig *rig, uint32_t seed) {
    int fds[2];
    sockets_tcp_pair(fds);
    *h = (holder){.peer = fds[1], .seed = seed};
    assert_int_equal(sluice_conn_new(rig->loop, fds[0], &events, h, &h->conn), 0);
}

static void holder_send(holder *h, size_t n) {
    pattern_write(h->peer, h->seed, h->sent, n);
    h->sent += n;
}

static size_t held(const holder *h) {
    return sluice_chain_length(sluice_conn_chain(h->conn));
}

/* All that it has been sent has come, and is right. */
static void holder_check(const holder *h, const loop_rig *rig) {
    uint64_t place = 0;
    turn_until_buffered(rig->loop, h->conn, h->sent);
    assert_true(pattern_consume(sluice_conn_chain(h->conn), h->sent, h->seed, &place));
}

static void holder_close(holder *h) {
    sluice_conn_close(h->conn);
    close(h->peer);
}

/* A connection that waits, with more in its socket, since it holds all blocks that there is memory
 * for. */
static void open_with_one_that_waits(loop_rig *rig, holder *h) {
    fails = false;
    refused = 0;
    loop_rig_open(rig, &pool_options, &loop_options, GUARD);
    holder_open(h, rig, 1);
    holder_send(h, BLOCK);
    turn_until_buffered(rig->loop, h->conn, BLOCK);
    fails = true;
    holder_send(h, (SENT - 1) * BLOCK);
    while (loop_rig_waiting(rig) == 0)
        assert_int_equal(sluice_loop_turn(rig->loop, 1), 0);
}

/* What it lacks is no reason for the next turn. */
static void check_rests(const loop_rig *rig) {
    struct pollfd watched = {.fd = sluice_loop_fd(rig->loop), .events = POLLIN};
    for (unsigned i = 0; i < 2 * TURNS; i++) {
        assert_int_equal(sluice_loop_turn(rig->loop, 0), 0);
        if (i >= TURNS) {
            assert_int_equal(poll(&watched, 1, 0), 0);
            assert_int_not_equal(sluice_loop_timeout(rig->loop), 0);
        }
    }
}

static void waits_at_rest(void **state) {
    (void)state;
    loop_rig rig;
    holder h;
    open_with_one_that_waits(&rig, &h);
    check_rests(&rig);
    assert_int_equal(loop_rig_waiting(&rig), 1);
    assert_true(refused > 0);
    assert_in_range(held(&h), BLOCK, SLAB * BLOCK);
    fails = false;
    holder_check(&h, &rig);
    assert_int_equal(h.ends, 0);
    holder_close(&h);
    loop_rig_close(&rig);
}

/* Though there might be memory for more one day. */
static void the_largest_gives_way(void **state) {
    (void)state;
    loop_rig rig;
    holder large, small;
    open_with_one_that_waits(&rig, &large);
    clock_stop();
    holder_open(&small, &rig, 2);
    holder_send(&small, BLOCK);
    for (unsigned seconds = 0; seconds < LIMIT && large.ends == 0; seconds++) {
        turn_through(rig.loop, 3);
        clock_forward(1000);
    }
    assert_int_equal(large.ends, 1);
    assert_int_equal(large.error, -ENOBUFS);
    assert_int_equal(small.ends, 0);
    holder_close(&large);
    holder_check(&small, &rig);
    fails = false;
    clock_go_on();
    holder_close(&small);
    loop_rig_close(&rig);
}

/* What the peer had sent before cannot be received, so the failure of a send is not kept back for
 * it. */
static void a_failed_send_is_told(void **state) {
    (void)state;
    loop_rig rig;
    holder h;
    open_with_one_that_waits(&rig, &h);
    close(h.peer);
    for (unsigned i = 0; i < TURNS && h.ends == 0; i++) {
        sluice_conn_want_send(h.conn);
        assert_int_equal(sluice_loop_turn(rig.loop, 10), 0);
    }
    assert_int_equal(h.ends, 1);
    assert_true(h.error == -ECONNRESET || h.error == -EPIPE);
    check_rests(&rig);
    fails = false;
    sluice_conn_close(h.conn);
    loop_rig_close(&rig);
}

static void a_file_waits_at_rest(void **state) {
    loop_rig rig;
    file_consumer consumer = {0};
    sluice_block *blocks[SLAB];
    unsigned count = 0;
    fails = false;
    files_rig_open(&rig, &pool_options, state);
    turn_through(rig.loop, 1);
    clock_stop();
    fails = true;
    while (count < SLAB && sluice_block_get(rig.pool, &blocks[count]) == 0)
        count++;
    file_consumer_open(&consumer, &rig, files_make(SENT * BLOCK), NULL);
    check_rests(&rig);
    assert_int_equal(consumer.place, 0);
    assert_int_equal(consumer.ends, 0);
    fails = false;
    turn_until(rig.loop, &consumer.told_end);
    assert_int_equal(consumer.error, 0);
    assert_int_equal(consumer.place, SENT * BLOCK);
    assert_false(consumer.differs);
    while (count > 0)
        sluice_block_release(blocks[--count]);
    file_consumer_close(&consumer, &rig);
    files_rig_close(&rig);
    clock_go_on();
}

static void count_call(void *user) {
    ++*(unsigned *)user;
}

/* Whoever asked to be called when blocks run short is, so that caches can give theirs. */
static void it_is_a_shortage(void **state) {
    (void)state;
    loop_rig rig;
    holder h;
    unsigned calls = 0;
    open_with_one_that_waits(&rig, &h);
    fails = false;
    turn_until_buffered(rig.loop, h.conn, h.sent);
    sluice_loop_on_shortage(rig.loop, SLAB, count_call, &calls);
    turn_through(rig.loop, 3);
    assert_int_equal(calls, 0);
    fails = true;
    holder_send(&h, SENT * BLOCK);
    while (calls == 0)
        assert_int_equal(sluice_loop_turn(rig.loop, 1), 0);
    assert_in_range(sluice_pool_available(rig.pool), 0, SLAB - 1);
    /* The system is asked again, whether somebody takes a block or not. */
    fails = false;
    assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
    assert_true(sluice_pool_available(rig.pool) > 4 * SLAB);
    holder_check(&h, &rig);
    holder_close(&h);
    loop_rig_close(&rig);
}

/* What is to be left for receiving is a part of what there is memory for. */
static void slices_can_be_taken(void **state) {
    (void)state;
    loop_rig rig;
    holder h;
    sluice_block *blocks[SLAB];
    sluice_slice slice, taken;
    unsigned count = 0;
    fails = false;
    loop_rig_open(&rig, &pool_options, &loop_options, GUARD);
    holder_open(&h, &rig, 1);
    holder_send(&h, BLOCK);
    turn_until_buffered(rig.loop, h.conn, BLOCK);
    fails = true;
    while (count < SLAB && sluice_block_get(rig.pool, &blocks[count]) == 0)
        count++;
    while (count > 0)
        sluice_block_release(blocks[--count]);
    assert_in_range(sluice_pool_available(rig.pool), 1, SLAB);
    assert_int_equal(sluice_chain_take(sluice_conn_chain(h.conn), BLOCK / 2, &slice), 0);
    assert_int_equal(sluice_slice_take(&slice, &taken), 0);
    sluice_slice_release(&taken);
    fails = false;
    holder_close(&h);
    loop_rig_close(&rig);
}

static void take_all(sluice_pool *pool, sluice_block **blocks, unsigned *ret_count, int error) {
    int result;
    for (*ret_count = 0; (result = sluice_block_get(pool, &blocks[*ret_count])) == 0; ++*ret_count)
        assert_true(*ret_count < 16 * SLAB);
    assert_int_equal(result, error);
}

/* Only what there is memory for is available, and what another class does not use goes over. */
static void other_classes_give_their_slabs(void **state) {
    (void)state;
    enum { LARGE = 2 * BLOCK, SLABS = 3, OF_SLAB = SLAB * BLOCK / LARGE };
    sluice_pool_options options = pool_options;
    sluice_pool *pool, *class;
    sluice_block *blocks[16 * SLAB + 1], *large[SLABS * OF_SLAB];
    unsigned count;
    fails = false;
    options.class_sizes[0] = LARGE;
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
    assert_int_equal(sluice_pool_class(pool, LARGE, &class), 0);
    for (unsigned i = 0; i < SLABS * OF_SLAB; i++)
        assert_int_equal(sluice_block_get(class, &large[i]), 0);
    fails = true;
    take_all(pool, blocks, &count, -ENOMEM);
    assert_int_equal(count, SLAB);
    assert_int_equal(sluice_pool_available(pool), 0);
    /* One is the class's for good. */
    for (unsigned i = 0; i < SLABS * OF_SLAB; i++)
        sluice_block_release(large[i]);
    assert_int_equal(sluice_pool_available(pool), (SLABS - 1) * SLAB);
    take_all(pool, blocks + SLAB, &count, -ENOMEM);
    assert_int_equal(count, (SLABS - 1) * SLAB);
    assert_int_equal(sluice_pool_available(pool), 0);
    fails = false;
    take_all(pool, blocks + SLABS * SLAB, &count, -ENOBUFS);
    assert_int_equal(count, (16 - SLABS - 1) * SLAB);
    for (unsigned i = 0; i < 15 * SLAB; i++)
        sluice_block_release(blocks[i]);
    pool_close(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_at_rest),
        cmocka_unit_test(the_largest_gives_way),
        cmocka_unit_test(a_failed_send_is_told),
        FILES_ON_BOTH(a_file_waits_at_rest),
        cmocka_unit_test(it_is_a_shortage),
        cmocka_unit_test(slices_can_be_taken),
        cmocka_unit_test(other_classes_give_their_slabs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
