/* Receiving while blocks run short: what waits, what goes on; nothing is lost or copied. */
#include <sluice/conn.h>

#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/loop.h>
#include <sluice/slice.h>

#include "memory/chain.h"
#include "support/pressure_rig.h"
#include "support/sockets.h"

static void hoard_take(hoard *h, sluice_pool *pool, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(sluice_block_get(pool, &h->blocks[h->count++]), 0);
}

static void a_starved_connection_waits_and_goes_on(void **state) {
    (void)state;
    loop_rig rig;
    receiver r = {.seed = 3};
    hoard h = {0};
    int peer = starve(&r, &rig, &h);
    /* The end hides behind the bytes that find no block. */
    shutdown(peer, SHUT_WR);
    turn_through(rig.loop, 3);
    assert_false(r.told_end);
    assert_int_equal(stats_of(&rig).waiting, 1);
    r.leaves = false;
    hoard_release(&h);
    turn_until(rig.loop, &r.told_end);
    assert_int_equal(r.error, 0);
    assert_int_equal(r.place, 2 * SMALL * BLOCK);
    assert_false(r.differs);
    assert_int_equal(stats_of(&rig).waiting, 0);
    close(peer);
    patient_rig_close(&rig);
}

static void a_starved_connection_can_be_paused(void **state) {
    (void)state;
    loop_rig rig;
    receiver r = {.seed = 3};
    hoard h = {0};
    int peer = starve(&r, &rig, &h);
    sluice_conn_pause(r.conn);
    assert_int_equal(stats_of(&rig).waiting, 0);
    hoard_release(&h);
    size_t length = sluice_chain_length(sluice_conn_chain(r.conn));
    turn_through(rig.loop, 20);
    assert_int_equal(sluice_chain_length(sluice_conn_chain(r.conn)), length);
    r.leaves = false;
    sluice_conn_resume(r.conn);
    while (r.place < 2 * SMALL * BLOCK)
        turn(rig.loop);
    assert_false(r.differs);
    close(peer);
    patient_rig_close(&rig);
}

static void a_starved_connection_can_be_closed(void **state) {
    (void)state;
    loop_rig rig;
    receiver r = {.seed = 3};
    hoard h = {0};
    int peer = starve(&r, &rig, &h);
    sluice_conn_close(r.conn);
    turn_until_count(rig.loop, &r.closed, 1);
    assert_int_equal(stats_of(&rig).waiting, 0);
    hoard_release(&h);
    close(peer);
    patient_rig_close(&rig);
    assert_int_equal(r.closed, 1);
}

/*
 * A block taken under pressure has room behind its data, then pressure ends, other blocks follow,
 * and pressure comes back: that room is no longer at the stream's end.
 */
enum { QUEUE = 12, ROUNDS = 3 };

/* Every receiver waits, and nothing is left to receive into. */
static void turn_until_all_wait(const loop_rig *rig) {
    while (stats_of(rig).waiting < QUEUE || sluice_pool_available(rig->pool) > 0)
        turn_through(rig->loop, 1);
}

/* Blocks come back one by one: each goes to the connection that has waited for longest. */
static void those_that_wait_take_turns(void **state) {
    (void)state;
    loop_rig rig;
    receiver receivers[QUEUE];
    int peers[QUEUE];
    size_t before[QUEUE];
    hoard h = {0};
    patient_rig_open(&rig, &small_pool, &small_stock);
    hoard_take(&h, rig.pool, QUEUE * ROUNDS);
    for (uint32_t i = 0; i < QUEUE; i++) {
        receivers[i] = (receiver){.seed = i, .leaves = true};
        peers[i] = receiver_open(&receivers[i], &rig);
        pattern_write(peers[i], i, 0, SMALL * BLOCK);
    }
    turn_until_all_wait(&rig);
    for (int i = 0; i < QUEUE; i++)
        before[i] = sluice_chain_length(sluice_conn_chain(receivers[i].conn));
    for (size_t round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < QUEUE; i++) {
            sluice_block_release(h.blocks[--h.count]);
            turn_until_all_wait(&rig);
        }
        for (int i = 0; i < QUEUE; i++)
            assert_int_equal(sluice_chain_length(sluice_conn_chain(receivers[i].conn)) - before[i], round * BLOCK);
    }
    for (int i = 0; i < QUEUE; i++) {
        sluice_conn_close(receivers[i].conn);
        close(peers[i]);
    }
    patient_rig_close(&rig);
}

static void room_behind_old_data_is_not_filled_out_of_order(void **state) {
    (void)state;
    loop_rig rig;
    receiver r = {.seed = 5, .leaves = true};
    hoard h = {0};
    loop_rig_open(&rig, &small_pool, &small_stock, GUARD);
    int peer = receiver_open(&r, &rig);
    turn_through(rig.loop, 3);
    hoard_take(&h, rig.pool, HOARD);
    pattern_write(peer, r.seed, 0, 3000);
    turn_until_buffered(rig.loop, r.conn, 3000);
    hoard_release(&h);
    pattern_write(peer, r.seed, 3000, 100);
    turn_until_buffered(rig.loop, r.conn, 3100);
    hoard_take(&h, rig.pool, HOARD);
    sluice_conn_pause(r.conn);
    turn_through(rig.loop, 5);
    sluice_conn_resume(r.conn);
    turn_through(rig.loop, 5);
    for (size_t n = 3100; n < 3200; n += 50) {
        pattern_write(peer, r.seed, n, 50);
        turn_until_buffered(rig.loop, r.conn, n + 50);
        assert_true(chain_is_sound(sluice_conn_chain(r.conn)));
    }
    assert_true(pattern_consume(sluice_conn_chain(r.conn), 3200, r.seed, &r.place));
    hoard_release(&h);
    close(peer);
    loop_rig_close(&rig);
}

/*
 * A pool of which consumers hold half, which is pressure, and a batching window: what has come is
 * received block by block, but not one for each window. That would take 80 seconds here, and the
 * guard ends it.
 */
static void a_stream_under_pressure_does_not_get_a_block_a_window(void **state) {
    (void)state;
    enum { TOTAL = 800 * BLOCK, SECONDS = 60 };
    loop_rig rig;
    receiver r = {.seed = 8};
    hoard h = {0};
    socket_writer writer;
    loop_rig_open(
        &rig, &small_pool,
        &(sluice_loop_options){.size = sizeof(sluice_loop_options), .batch_us = 100000, .stock_bytes = 8 * BLOCK},
        SECONDS);
    hoard_take(&h, rig.pool, HOARD);
    int peer = receiver_open(&r, &rig);
    socket_writer_start(&writer, peer, r.seed, TOTAL, 65536, 65536);
    turn_until(rig.loop, &r.told_end);
    assert_int_equal(r.error, 0);
    assert_int_equal(r.place, TOTAL);
    assert_false(r.differs);
    socket_writer_join(&writer);
    hoard_release(&h);
    close(peer);
    loop_rig_close(&rig);
}

/* The user appends to the connection's chain while a receive fills the end of the block before. */
static void room_before_the_users_own_bytes_is_not_filled_out_of_order(void **state) {
    (void)state;
    loop_rig rig;
    receiver r = {.seed = 5, .leaves = true};
    hoard h = {0};
    sluice_block *own;
    loop_rig_open(&rig, &small_pool, &small_stock, GUARD);
    hoard_take(&h, rig.pool, HOARD);
    int peer = receiver_open(&r, &rig);
    pattern_write(peer, r.seed, 0, 100);
    turn_until_buffered(rig.loop, r.conn, 100);
    turn_through(rig.loop, 5);
    assert_int_equal(sluice_block_get(rig.pool, &own), 0);
    pattern_fill(r.seed, 100, sluice_block_data(own), 50);
    assert_int_equal(sluice_block_set_length(own, 50), 0);
    sluice_chain_append(sluice_conn_chain(r.conn), own);
    for (size_t n = 150; n < 300; n += 50) {
        pattern_write(peer, r.seed, n, 50);
        turn_until_buffered(rig.loop, r.conn, n + 50);
        assert_true(chain_is_sound(sluice_conn_chain(r.conn)));
    }
    assert_true(stats_of(&rig).aimed > 0);
    assert_true(pattern_consume(sluice_conn_chain(r.conn), 300, r.seed, &r.place));
    hoard_release(&h);
    close(peer);
    loop_rig_close(&rig);
}

/* Bytes that come one by one behind a block that the consumer has emptied: however many, they are
 * one run of memory. */
static void single_bytes_do_not_use_up_the_views(void **state) {
    (void)state;
    enum { BYTES = 1000 };
    loop_rig rig;
    receiver r = {.seed = 6};
    hoard h = {0};
    sluice_slice kept;
    loop_rig_open(&rig, &small_pool, &small_stock, GUARD);
    hoard_take(&h, rig.pool, HOARD);
    r.leaves = true;
    int peer = receiver_open(&r, &rig);
    pattern_write(peer, r.seed, 0, 10);
    turn_until_buffered(rig.loop, r.conn, 10);
    /* A consumer holds the block that the chain lets go. */
    assert_int_equal(sluice_chain_take(sluice_conn_chain(r.conn), 10, &kept), 0);
    for (size_t n = 0; n < BYTES && !r.told_end; n++) {
        pattern_write(peer, r.seed, 10 + n, 1);
        while (sluice_chain_length(sluice_conn_chain(r.conn)) < n + 1 && !r.told_end)
            turn(rig.loop);
    }
    assert_false(r.told_end);
    assert_true(chain_is_sound(sluice_conn_chain(r.conn)));
    assert_true(pattern_slice_matches(r.seed, 0, &kept));
    r.place = 10;
    assert_true(pattern_consume(sluice_conn_chain(r.conn), BYTES, r.seed, &r.place));
    sluice_slice_release(&kept);
    hoard_release(&h);
    close(peer);
    loop_rig_close(&rig);
}

/*
 * A head that comes byte by byte, with all of the pool to be had: it holds a few blocks, and not
 * one for each byte, in order and whole; and when it has been consumed, it holds none.
 */
static void a_dribble_holds_few_blocks(void **state) {
    (void)state;
    enum { BEGIN = 26, BYTES = 400, MOST = 4 };
    loop_rig rig;
    receiver r = {.seed = 7, .leaves = true};
    loop_rig_open(&rig, &small_pool, &every_piece, GUARD);
    int peer = receiver_open(&r, &rig);
    pattern_write(peer, r.seed, 0, BEGIN);
    turn_until_buffered(rig.loop, r.conn, BEGIN);
    for (size_t n = BEGIN; n < BYTES; n++) {
        pattern_write(peer, r.seed, n, 1);
        turn_until_buffered(rig.loop, r.conn, n + 1);
        assert_true(chain_is_sound(sluice_conn_chain(r.conn)));
    }
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(rig.pool, &stats);
    assert_in_range(stats.held, 1, MOST);
    assert_true(stats_of(&rig).aimed > BYTES / 2);
    assert_true(pattern_consume(sluice_conn_chain(r.conn), BYTES, r.seed, &r.place));
    /* Where a receive is under way into its block, the next one no longer is. */
    r.leaves = false;
    pattern_write(peer, r.seed, BYTES, 1000);
    while (r.place < BYTES + 1000)
        turn(rig.loop);
    assert_false(r.differs);
    turn_through(rig.loop, 3);
    sluice_pool_get_stats(rig.pool, &stats);
    assert_int_equal(stats.held, 0);
    close(peer);
    loop_rig_close(&rig);
}

/* Small pieces that are consumed as they come keep no block, and are not received one by one. */
static void small_pieces_that_are_consumed_are_no_dribble(void **state) {
    (void)state;
    loop_rig rig;
    receiver r = {.seed = 7};
    sluice_pool_stats stats = {.size = sizeof stats};
    loop_rig_open(&rig, &small_pool, &every_piece, GUARD);
    int peer = receiver_open(&r, &rig);
    for (size_t n = 0; n < 100; n++) {
        pattern_write(peer, r.seed, n, 1);
        while (r.place < n + 1)
            turn(rig.loop);
    }
    turn_through(rig.loop, 1);
    sluice_pool_get_stats(rig.pool, &stats);
    assert_int_equal(stats.held, 0);
    assert_int_equal(stats_of(&rig).aimed, 0);
    assert_false(r.differs);
    close(peer);
    loop_rig_close(&rig);
}

/* A slice that another reader holds stays as it is while the block behind it fills up. */
static void a_slice_does_not_grow_with_its_block(void **state) {
    (void)state;
    loop_rig rig;
    receiver r = {.seed = 6, .leaves = true};
    hoard h = {0};
    sluice_slice slices[30];
    loop_rig_open(&rig, &small_pool, &small_stock, GUARD);
    hoard_take(&h, rig.pool, HOARD);
    int peer = receiver_open(&r, &rig);
    for (size_t i = 0; i < 30; i++) {
        pattern_write(peer, r.seed, 100 * i, 100);
        turn_until_buffered(rig.loop, r.conn, i ? 150 : 100);
        assert_int_equal(sluice_chain_take(sluice_conn_chain(r.conn), i ? 100 : 50, &slices[i]), 0);
        for (size_t k = 0; k <= i; k++) {
            assert_int_equal(sluice_slice_length(&slices[k]), k ? 100 : 50);
            assert_true(pattern_slice_matches(r.seed, k ? 100 * k - 50 : 0, &slices[k]));
        }
    }
    assert_true(stats_of(&rig).aimed > 0);
    for (size_t i = 0; i < 30; i++)
        sluice_slice_release(&slices[i]);
    hoard_release(&h);
    close(peer);
    loop_rig_close(&rig);
}

/*
 * More connections than blocks, each of which says a little and falls silent. Whether the consumer
 * is done with it at once, or when the connection is already set to receive the next bytes into the
 * rest of the block, a silent connection without data keeps no block from the others.
 */
enum { SILENT = 60 };

static void talk_in_turn(bool late) {
    loop_rig rig;
    receiver receivers[SILENT] = {0};
    int peers[SILENT];
    hoard h = {0};
    loop_rig_open(&rig, &small_pool, &small_stock, GUARD);
    hoard_take(&h, rig.pool, HOARD);
    for (unsigned i = 0; i < SILENT; i++) {
        receivers[i].seed = i;
        receivers[i].leaves = late;
        peers[i] = receiver_open(&receivers[i], &rig);
    }
    for (unsigned i = 0; i < SILENT; i++) {
        receiver *r = &receivers[i];
        pattern_write(peers[i], i, 0, 10);
        while (r->data == 0) {
            turn(rig.loop);
            for (unsigned k = 0; k < SILENT; k++)
                assert_false(receivers[k].told_end);
        }
        if (late) {
            turn_through(rig.loop, 3);
            r->differs |= !pattern_consume(sluice_conn_chain(r->conn), 10, i, &r->place);
        }
        assert_int_equal(r->place, 10);
        assert_false(r->differs);
    }
    hoard_release(&h);
    for (int i = 0; i < SILENT; i++)
        close(peers[i]);
    loop_rig_close(&rig);
}

static void silent_connections_keep_no_blocks(void **state) {
    (void)state;
    talk_in_turn(false);
}

static void silent_connections_give_back_blocks_that_are_consumed_late(void **state) {
    (void)state;
    talk_in_turn(true);
}

/*
 * A connection that receives no more, because its peer has ended or because it is paused, keeps no
 * block for what may come: others that wait would never get it.
 */
static void receive_no_more(bool ends) {
    loop_rig rig;
    receiver r = {.seed = 7, .leaves = true};
    hoard h = {0};
    loop_rig_open(&rig, &small_pool, &small_stock, GUARD);
    hoard_take(&h, rig.pool, HOARD);
    int peer = receiver_open(&r, &rig);
    /* The second piece goes into the block of the first: blocks are short. */
    for (unsigned i = 0; i < 2; i++) {
        pattern_write(peer, r.seed, 10 * i, 10);
        turn_until_buffered(rig.loop, r.conn, 10 * (i + 1));
    }
    if (ends) {
        assert_int_equal(shutdown(peer, SHUT_WR), 0);
        turn_until(rig.loop, &r.told_end);
    } else {
        sluice_conn_pause(r.conn);
    }
    turn_through(rig.loop, 3);
    assert_int_equal(stats_of(&rig).aimed > 0, 1);
    assert_true(pattern_consume(sluice_conn_chain(r.conn), 20, r.seed, &r.place));
    turn_through(rig.loop, 2);
    hoard_release(&h);
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(rig.pool, &stats);
    assert_int_equal(stats.held, 0);
    if (!ends) {
        r.leaves = false;
        sluice_conn_resume(r.conn);
        pattern_write(peer, r.seed, 20, 10);
        while (r.place < 30)
            turn(rig.loop);
        assert_false(r.differs);
    }
    close(peer);
    loop_rig_close(&rig);
}

static void an_ended_stream_keeps_no_block(void **state) {
    (void)state;
    receive_no_more(true);
}

static void a_paused_stream_keeps_no_block(void **state) {
    (void)state;
    receive_no_more(false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_starved_connection_waits_and_goes_on),
        cmocka_unit_test(a_starved_connection_can_be_paused),
        cmocka_unit_test(a_starved_connection_can_be_closed),
        cmocka_unit_test(those_that_wait_take_turns),
        cmocka_unit_test(room_behind_old_data_is_not_filled_out_of_order),
        cmocka_unit_test(room_before_the_users_own_bytes_is_not_filled_out_of_order),
        cmocka_unit_test(a_stream_under_pressure_does_not_get_a_block_a_window),
        cmocka_unit_test(single_bytes_do_not_use_up_the_views),
        cmocka_unit_test(a_dribble_holds_few_blocks),
        cmocka_unit_test(small_pieces_that_are_consumed_are_no_dribble),
        cmocka_unit_test(a_slice_does_not_grow_with_its_block),
        cmocka_unit_test(silent_connections_keep_no_blocks),
        cmocka_unit_test(silent_connections_give_back_blocks_that_are_consumed_late),
        cmocka_unit_test(an_ended_stream_keeps_no_block),
        cmocka_unit_test(a_paused_stream_keeps_no_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
