/* Memory that connections hold with what is not whole: how much it is, when it runs short, and
 * whose silence it is. */
#include <sluice/conn.h>

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/sockets.h"

enum { GUARD = 60, BLOCK = 4096, SMALL = 64, PEERS = 2, SENT = 2 * SMALL * BLOCK };

static const sluice_pool_options small_pool = {.size = sizeof small_pool,
                                               .block_size = BLOCK,
                                               .slab_blocks = 8,
                                               .max_blocks = SMALL,
                                               .reserve_blocks = 4,
                                               .no_huge_pages = true};
static const sluice_loop_options small_stock = {
    .size = sizeof small_stock, .stock_bytes = 8 * BLOCK, .no_low_water = true};

struct receiver {
    sluice_conn *conn;
    unsigned told;
};

static void on_data(sluice_conn *conn, void *user) {
    struct receiver *receiver = user;
    (void)conn;
    receiver->told++;
}

static const sluice_conn_events events = {.size = sizeof events, .on_data = on_data};

static int receiver_open(struct receiver *receiver, const loop_rig *rig) {
    int fds[2];
    sockets_tcp_pair(fds);
    *receiver = (struct receiver){0};
    assert_int_equal(sluice_conn_new(rig->loop, fds[0], &events, receiver, &receiver->conn), 0);
    return fds[1];
}

static uint64_t footprint(const loop_rig *rig) {
    sluice_loop_stats stats = {.size = sizeof stats};
    sluice_loop_get_stats(rig->loop, &stats);
    return stats.footprint;
}

/* Also of those whose on_data is withheld, since they need more. */
static void the_footprint_is_what_chains_keep(void **state) {
    (void)state;
    loop_rig rig;
    struct receiver receivers[PEERS];
    int peers[PEERS];
    uint64_t sum = 0;
    loop_rig_open(&rig, &small_pool, &small_stock, GUARD);
    assert_int_equal(footprint(&rig), 0);
    for (int i = 0; i < PEERS; i++) {
        peers[i] = receiver_open(&receivers[i], &rig);
        sluice_conn_set_need(receivers[i].conn, SMALL * BLOCK);
        pattern_write(peers[i], 1, 0, (size_t)(i + 1) * 3 * BLOCK);
        turn_until_buffered(rig.loop, receivers[i].conn, (size_t)(i + 1) * 3 * BLOCK);
        assert_int_equal(receivers[i].told, 0);
        sum += sluice_chain_footprint(sluice_conn_chain(receivers[i].conn));
        assert_int_equal(footprint(&rig), sum);
    }
    assert_true(sum >= 9ul * BLOCK);
    /* What is consumed in between is noticed with the next arrival; what is closed when it is
     * gone. */
    sluice_chain_skip(sluice_conn_chain(receivers[0].conn), SIZE_MAX);
    pattern_write(peers[0], 1, 0, 1);
    turn_until_buffered(rig.loop, receivers[0].conn, 1);
    assert_int_equal(footprint(&rig), BLOCK + sluice_chain_footprint(sluice_conn_chain(receivers[1].conn)));
    sluice_conn_close(receivers[1].conn);
    turn_through(rig.loop, 5);
    assert_int_equal(footprint(&rig), BLOCK);
    for (int i = 0; i < PEERS; i++)
        close(peers[i]);
    loop_rig_close(&rig);
}

struct watcher {
    const loop_rig *rig;
    struct receiver *receiver;
    unsigned calls;
    uint32_t available;
    bool gives;
};

static void on_shortage(void *user) {
    struct watcher *watcher = user;
    watcher->calls++;
    watcher->available = sluice_pool_available(watcher->rig->pool);
    if (watcher->gives)
        sluice_chain_skip(sluice_conn_chain(watcher->receiver->conn), SIZE_MAX);
}

static void a_shortage_is_told_in_the_turn_that_it_comes_in(void **state) {
    (void)state;
    loop_rig rig;
    struct receiver receiver;
    struct watcher watcher = {.rig = &rig, .receiver = &receiver};
    loop_rig_open(&rig, &small_pool, &small_stock, GUARD);
    int peer = receiver_open(&receiver, &rig);
    sluice_conn_set_need(receiver.conn, SIZE_MAX);
    sluice_loop_on_shortage(rig.loop, SMALL / 2, on_shortage, &watcher);
    turn_through(rig.loop, 3);
    pattern_write(peer, 1, 0, (size_t)SMALL / 2 * BLOCK);
    /* The last one that is not short, and the first that is. */
    while (sluice_pool_available(rig.pool) > SMALL / 2) {
        assert_int_equal(watcher.calls, 0);
        turn_through(rig.loop, 1);
    }
    pattern_write(peer, 1, 0, (size_t)4 * BLOCK);
    turn_until_count(rig.loop, &watcher.calls, 1);
    assert_true(watcher.available < SMALL / 2);
    assert_int_equal(receiver.told, 0);
    /* Again in each turn, until it is over. */
    turn_through(rig.loop, 2);
    assert_true(watcher.calls >= 3);
    watcher.gives = true;
    turn_through(rig.loop, 1);
    unsigned calls = watcher.calls;
    turn_through(rig.loop, 10);
    assert_int_equal(watcher.calls, calls);
    sluice_loop_on_shortage(rig.loop, SMALL, NULL, NULL);
    turn_through(rig.loop, 2);
    assert_int_equal(watcher.calls, calls);
    close(peer);
    loop_rig_close(&rig);
}

/* The peer sends more than there is room for, of which nothing is consumed. How many blocks the
 * hoard has. */
static unsigned take_all_blocks(const loop_rig *rig, sluice_conn *conn, int peer, sluice_block *hoard[SMALL]) {
    unsigned count = 0;
    while (sluice_block_get(rig->pool, &hoard[count]) == 0)
        count++;
    sluice_conn_set_need(conn, SIZE_MAX);
    pattern_write(peer, 1, 0, SENT);
    while (sluice_pool_available(rig->pool) > 0)
        turn_through(rig->loop, 1);
    turn_through(rig->loop, 5);
    return count;
}

/* A peer's silence is not its own while nobody reads. */
static void who_is_not_read_is_held_up(void **state) {
    (void)state;
    loop_rig rig;
    struct receiver receiver;
    sluice_block *hoard[SMALL];
    loop_rig_open(&rig, &small_pool, &small_stock, GUARD);
    int peer = receiver_open(&receiver, &rig);
    turn_through(rig.loop, 3);
    assert_false(sluice_conn_was_held_up(receiver.conn));
    sluice_conn_pause(receiver.conn);
    sluice_conn_resume(receiver.conn);
    turn_through(rig.loop, 3);
    /* However short it was: a look at the state now would miss it. */
    assert_true(sluice_conn_was_held_up(receiver.conn));
    assert_false(sluice_conn_was_held_up(receiver.conn));
    sluice_conn_pause(receiver.conn);
    turn_through(rig.loop, 3);
    assert_true(sluice_conn_was_held_up(receiver.conn));
    assert_true(sluice_conn_was_held_up(receiver.conn));
    sluice_conn_resume(receiver.conn);
    turn_through(rig.loop, 3);
    assert_true(sluice_conn_was_held_up(receiver.conn));
    assert_false(sluice_conn_was_held_up(receiver.conn));

    unsigned count = take_all_blocks(&rig, receiver.conn, peer, hoard);
    assert_true(sluice_conn_was_held_up(receiver.conn));
    turn_through(rig.loop, 5);
    assert_true(sluice_conn_was_held_up(receiver.conn));
    while (count > 0)
        sluice_block_release(hoard[--count]);
    sluice_conn_set_need(receiver.conn, 0);
    for (size_t length = 0; length < SENT;) {
        turn(rig.loop);
        length += sluice_chain_skip(sluice_conn_chain(receiver.conn), SIZE_MAX);
    }
    turn_through(rig.loop, 5);
    (void)sluice_conn_was_held_up(receiver.conn);
    assert_false(sluice_conn_was_held_up(receiver.conn));
    close(peer);
    loop_rig_close(&rig);
}

/* Where blocks stay scarce it is read a block at a time. After each it waits to be armed again, but
 * for no block. */
static void who_is_read_a_block_at_a_time_is_not_held_up(void **state) {
    (void)state;
    loop_rig rig;
    struct receiver receiver;
    sluice_block *hoard[SMALL];
    loop_rig_open(&rig, &small_pool, &small_stock, GUARD);
    int peer = receiver_open(&receiver, &rig);
    sluice_chain *chain = sluice_conn_chain(receiver.conn);
    unsigned count = take_all_blocks(&rig, receiver.conn, peer, hoard), pieces = 0;
    assert_true(sluice_conn_was_held_up(receiver.conn));
    while (sluice_pool_available(rig.pool) < SMALL / 4)
        sluice_block_release(hoard[--count]);
    sluice_conn_set_need(receiver.conn, 0);
    for (size_t length = sluice_chain_skip(chain, SIZE_MAX), n; length < SENT; length += n) {
        turn(rig.loop);
        n = sluice_chain_skip(chain, SIZE_MAX);
        if (n > 0)
            assert_int_equal(sluice_conn_was_held_up(receiver.conn), pieces++ == 0);
    }
    assert_true(pieces > 2);
    while (count > 0)
        sluice_block_release(hoard[--count]);
    close(peer);
    loop_rig_close(&rig);
}

static void on_piece(sluice_conn *conn, void *user) {
    struct receiver *receiver = user;
    assert_false(sluice_conn_was_held_up(conn));
    receiver->told++;
}

/* However it comes: after each piece a receive may have to be armed anew, for which there are
 * blocks. */
static void small_pieces_are_not_held_up(void **state) {
    (void)state;
    static const sluice_conn_events piece_events = {.size = sizeof piece_events, .on_data = on_piece};
    loop_rig rig;
    struct receiver receiver;
    loop_rig_open(&rig, &small_pool, &small_stock, GUARD);
    int peer = receiver_open(&receiver, &rig);
    sluice_conn_set_events(receiver.conn, &piece_events, &receiver);
    for (size_t sent = 0; sent < (size_t)4 * BLOCK; sent += BLOCK / 16) {
        pattern_write(peer, 1, sent, BLOCK / 16);
        turn_until_buffered(rig.loop, receiver.conn, sent + BLOCK / 16);
    }
    assert_true(receiver.told > 0);
    close(peer);
    loop_rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_footprint_is_what_chains_keep),
        cmocka_unit_test(a_shortage_is_told_in_the_turn_that_it_comes_in),
        cmocka_unit_test(who_is_not_read_is_held_up),
        cmocka_unit_test(who_is_read_a_block_at_a_time_is_not_held_up),
        cmocka_unit_test(small_pieces_are_not_held_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
