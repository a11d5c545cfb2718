/*
 * When nobody gets a block for seconds, the connection that holds most gives way: whether it waits
 * for a block itself, says nothing any more, sends a byte now and then into the block that it has,
 * or is paused. Never one that holds little because another one holds much.
 */
#include <sluice/conn.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/loop.h>

#include "memory/chain.h"
#include "support/clock.h"
#include "support/sockets.h"

enum {
    GUARD = 60,
    BLOCK = 4096,
    BLOCKS = 64,
    STOCK = 8,  /* blocks that the kernel has */
    SMALL = 3,  /* blocks of the victim's first part */
    LIMIT = 40, /* seconds of the test's clock, of which five would do */
};

static const sluice_pool_options pool_options = {.size = sizeof pool_options,
                                                 .block_size = BLOCK,
                                                 .slab_blocks = 8,
                                                 .max_blocks = BLOCKS,
                                                 .reserve_blocks = 4,
                                                 .no_huge_pages = true};
static const sluice_loop_options loop_options = {
    .size = sizeof loop_options, .stock_bytes = STOCK * BLOCK, .no_low_water = true};

typedef struct holder {
    sluice_conn *conn;
    int peer;
    uint32_t seed;
    size_t sent;
    bool ended;
    int error;
    unsigned closed;
} holder;

/* The bytes stay: a frame that is not whole. */
static void holder_end(sluice_conn *conn, int error, void *user) {
    holder *h = user;
    h->ended = true;
    h->error = error;
    sluice_conn_close(conn);
}

static void holder_closed(sluice_conn *conn, void *user) {
    holder *h = user;
    (void)conn;
    h->conn = NULL;
    h->closed++;
}

static const sluice_conn_events events = {.size = sizeof events, .on_end = holder_end, .on_closed = holder_closed};

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
    return h->conn ? sluice_chain_length(sluice_conn_chain(h->conn)) : 0;
}

/*
 * A large holder, a small one that begins, and then all blocks are the large one's: nobody else
 * gets any. It waits for no block itself: all that it has sent has come.
 */
static void exhaust(loop_rig *rig, holder *large, holder *small) {
    loop_rig_open(rig, &pool_options, &loop_options, GUARD);
    clock_stop();
    holder_open(large, rig, 1);
    holder_open(small, rig, 2);
    holder_send(small, SMALL * BLOCK);
    turn_until_buffered(rig->loop, small->conn, SMALL * BLOCK);
    sluice_pool_stats stats = {.size = sizeof stats};
    do {
        holder_send(large, BLOCK);
        turn_until_buffered(rig->loop, large->conn, large->sent);
        turn_through(rig->loop, 1);
        sluice_pool_get_stats(rig->pool, &stats);
    } while (stats.held < BLOCKS - 1);
    assert_int_equal(loop_rig_waiting(rig), 0);
}

static void finish(loop_rig *rig, holder *large, holder *small) {
    sluice_conn_close(large->conn);
    sluice_conn_close(small->conn);
    close(large->peer);
    close(small->peer);
    loop_rig_close(rig);
    clock_go_on();
}

/* The small one sends what needs more blocks than there are, and @each_turn happens until it has
 * all. */
static void starve_the_small_one(loop_rig *rig, holder *large, holder *small, void each_turn(holder *large)) {
    holder_send(small, (STOCK + 4) * BLOCK);
    while (loop_rig_waiting(rig) == 0)
        turn_through(rig->loop, 1);
    for (unsigned seconds = 0; seconds < LIMIT && held(small) < small->sent && !small->ended; seconds++) {
        if (each_turn && large->conn)
            each_turn(large);
        turn_through(rig->loop, 3);
        clock_forward(1000);
    }
    assert_false(small->ended);
    assert_int_equal(held(small), small->sent);
    assert_true(large->ended);
    assert_int_equal(large->error, -ENOBUFS);
    uint64_t place = 0;
    assert_true(pattern_consume(sluice_conn_chain(small->conn), small->sent, small->seed, &place));
}

static void one_that_falls_silent_gives_way(void **state) {
    (void)state;
    loop_rig rig;
    holder large, small;
    exhaust(&rig, &large, &small);
    starve_the_small_one(&rig, &large, &small, NULL);
    finish(&rig, &large, &small);
}

/* Not before five seconds, of which time in which the process stood still is one at most. */
static void nobody_gives_way_early(void **state) {
    (void)state;
    loop_rig rig;
    holder large, small;
    exhaust(&rig, &large, &small);
    holder_send(&small, (STOCK + 4) * BLOCK);
    while (loop_rig_waiting(&rig) == 0)
        turn_through(rig.loop, 1);
    turn_through(rig.loop, 3);
    clock_forward(60000);
    turn_through(rig.loop, 3);
    for (unsigned seconds = 0; seconds < 3; seconds++) {
        clock_forward(1000);
        turn_through(rig.loop, 3);
    }
    assert_false(large.ended);
    assert_false(small.ended);
    finish(&rig, &large, &small);
}

static void send_a_byte(holder *large) {
    holder_send(large, 1);
}

/* It brings its own room, so it never waits; and that it goes on is no progress for the others. */
static void one_that_goes_on_in_its_last_block_gives_way(void **state) {
    (void)state;
    loop_rig rig;
    holder large, small;
    exhaust(&rig, &large, &small);
    holder_send(&large, 1);
    turn_through(rig.loop, 5);
    starve_the_small_one(&rig, &large, &small, send_a_byte);
    finish(&rig, &large, &small);
}

static void one_that_is_paused_gives_way(void **state) {
    (void)state;
    loop_rig rig;
    holder large, small;
    exhaust(&rig, &large, &small);
    sluice_conn_pause(large.conn);
    turn_through(rig.loop, 5);
    starve_the_small_one(&rig, &large, &small, NULL);
    finish(&rig, &large, &small);
}

/* One that has ended has been told so: what it still holds is its user's to consume. The next
 * largest gives way. */
static void one_that_has_ended_is_told_once(void **state) {
    (void)state;
    static const sluice_conn_events stays = {.size = sizeof stays, .on_closed = holder_closed};
    loop_rig rig;
    holder large, small, over;
    loop_rig_open(&rig, &pool_options, &loop_options, GUARD);
    clock_stop();
    holder_open(&over, &rig, 3);
    sluice_conn_set_events(over.conn, &stays, &over);
    holder_send(&over, 36 * BLOCK);
    shutdown(over.peer, SHUT_WR);
    turn_until_buffered(rig.loop, over.conn, over.sent);
    turn_through(rig.loop, 5);
    sluice_conn_set_events(over.conn, &events, &over);
    holder_open(&large, &rig, 1);
    holder_open(&small, &rig, 2);
    holder_send(&small, SMALL * BLOCK);
    turn_until_buffered(rig.loop, small.conn, SMALL * BLOCK);
    sluice_pool_stats stats = {.size = sizeof stats};
    do {
        holder_send(&large, BLOCK);
        turn_until_buffered(rig.loop, large.conn, large.sent);
        turn_through(rig.loop, 1);
        sluice_pool_get_stats(rig.pool, &stats);
    } while (stats.held < BLOCKS - 1);
    assert_true(sluice_chain_footprint(sluice_conn_chain(over.conn)) >
                sluice_chain_footprint(sluice_conn_chain(large.conn)));
    starve_the_small_one(&rig, &large, &small, NULL);
    assert_false(over.ended);
    assert_int_equal(held(&over), over.sent);
    sluice_conn_close(over.conn);
    close(over.peer);
    finish(&rig, &large, &small);
}

/* Where connections hold nothing, none of them is the cause, and to end one would help nobody. */
static void none_gives_way_for_what_consumers_hold(void **state) {
    (void)state;
    loop_rig rig;
    holder h;
    sluice_slice taken;
    sluice_block *blocks[BLOCKS];
    unsigned count = 0;
    loop_rig_open(&rig, &pool_options, &loop_options, GUARD);
    clock_stop();
    holder_open(&h, &rig, 1);
    turn_through(rig.loop, 3);
    while (sluice_block_get(rig.pool, &blocks[count]) == 0)
        count++;
    holder_send(&h, 2 * BLOCKS * BLOCK);
    while (loop_rig_waiting(&rig) == 0 || sluice_pool_available(rig.pool) > 0)
        turn_through(rig.loop, 1);
    size_t first = held(&h);
    assert_int_equal(sluice_chain_take(sluice_conn_chain(h.conn), first, &taken), 0);
    for (unsigned seconds = 0; seconds < LIMIT; seconds++) {
        turn_through(rig.loop, 2);
        clock_forward(1000);
    }
    assert_false(h.ended);
    sluice_slice_release(&taken);
    while (count > 0)
        sluice_block_release(blocks[--count]);
    turn_until_buffered(rig.loop, h.conn, (STOCK + 1) * BLOCK);
    sluice_conn_close(h.conn);
    close(h.peer);
    loop_rig_close(&rig);
    clock_go_on();
}

/* Blocks of one size are short: one that holds those gives way, and not one that holds more of
 * another size. */
static void one_of_the_size_that_is_short_gives_way(void **state) {
    (void)state;
    enum { LARGE = 16384 };
    static const sluice_pool_options sizes = {.size = sizeof sizes,
                                              .block_size = BLOCK,
                                              .slab_blocks = 8,
                                              .max_blocks = BLOCKS,
                                              .reserve_blocks = 4,
                                              .class_sizes = {BLOCK, LARGE},
                                              .no_huge_pages = true};
    loop_rig rig;
    holder other, large, small, later;
    loop_rig_open(&rig, &sizes, &loop_options, GUARD);
    clock_stop();
    holder_open(&other, &rig, 3);
    holder_open(&large, &rig, 1);
    holder_open(&small, &rig, 2);
    holder_open(&later, &rig, 4);
    assert_int_equal(sluice_conn_set_block_size(other.conn, LARGE), 0);
    assert_int_equal(sluice_conn_set_block_size(later.conn, LARGE), 0);
    turn_through(rig.loop, 5);
    holder_send(&other, 5 * LARGE);
    turn_until_buffered(rig.loop, other.conn, other.sent);
    holder_send(&later, 5 * LARGE);
    turn_until_buffered(rig.loop, later.conn, later.sent);
    holder_send(&small, 1);
    turn_until_buffered(rig.loop, small.conn, 1);
    while (sluice_pool_available(rig.pool) > 0) {
        holder_send(&large, 1000);
        turn_until_buffered(rig.loop, large.conn, large.sent);
        turn_through(rig.loop, 1);
        if (sluice_chain_footprint(sluice_conn_chain(large.conn)) > 8 * BLOCK)
            break;
    }
    assert_true(sluice_chain_footprint(sluice_conn_chain(other.conn)) >
                sluice_chain_footprint(sluice_conn_chain(large.conn)));
    holder_send(&small, 2 * BLOCKS * BLOCK);
    while (loop_rig_waiting(&rig) == 0)
        turn_through(rig.loop, 1);
    for (unsigned seconds = 0; seconds < LIMIT && !large.ended && !small.ended; seconds++) {
        turn_through(rig.loop, 3);
        clock_forward(1000);
    }
    /* The small one is the larger of the two by now. */
    assert_true(small.ended || large.ended);
    assert_false(other.ended);
    assert_false(later.ended);
    sluice_conn_close(other.conn);
    close(other.peer);
    sluice_conn_close(later.conn);
    close(later.peer);
    finish(&rig, &large, &small);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_falls_silent_gives_way),
        cmocka_unit_test(nobody_gives_way_early),
        cmocka_unit_test(one_that_goes_on_in_its_last_block_gives_way),
        cmocka_unit_test(one_that_is_paused_gives_way),
        cmocka_unit_test(one_that_has_ended_is_told_once),
        cmocka_unit_test(none_gives_way_for_what_consumers_hold),
        cmocka_unit_test(one_of_the_size_that_is_short_gives_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
