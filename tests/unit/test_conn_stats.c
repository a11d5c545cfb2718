/* What a connection has received and sent, and where it had to wait; and the pointers that users
 * have given. */
#include <sluice/conn.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/file.h>
#include <sluice/loop.h>
#include <sluice/writer.h>

#include "support/sockets.h"

enum { GUARD = 60, SEED = 5, BLOCK = 512, BLOCKS = 64 };

/* A connection that keeps what comes, and sends what its writer has. */
struct side {
    loop_rig rig;
    sluice_conn *conn;
    sluice_writer *writer;
    sluice_conn_handover handover;
    int peer;
    bool detached, placed;
};

static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    struct side *side = user;
    (void)conn;
    return side->writer ? sluice_writer_gather(side->writer, iov, max) : 0;
}

static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    struct side *side = user;
    (void)conn;
    sluice_writer_sent(side->writer, bytes);
}

static const sluice_conn_events events = {.size = sizeof events, .on_gather = on_gather, .on_sent = on_sent};

static void side_open(struct side *side) {
    int fds[2];
    memset(side, 0, sizeof *side);
    loop_rig_open_small(&side->rig, BLOCK, BLOCKS, 1, GUARD);
    sockets_tcp_pair(fds);
    side->peer = fds[1];
    assert_int_equal(sluice_conn_new(side->rig.loop, fds[0], &events, side, &side->conn), 0);
}

static void side_close(struct side *side) {
    sluice_writer_free(side->writer);
    close(side->peer);
    loop_rig_close(&side->rig);
}

static sluice_conn_stats stats_of(const sluice_conn *conn) {
    sluice_conn_stats stats = {.size = sizeof stats};
    assert_int_equal(sluice_conn_get_stats(conn, &stats), 0);
    assert_int_equal(stats.size, sizeof stats);
    return stats;
}

static void what_comes_is_counted(void **state) {
    (void)state;
    struct side side;
    side_open(&side);
    sluice_conn_stats stats = stats_of(side.conn);
    assert_int_equal(stats.received_bytes, 0);
    assert_int_equal(stats.receives, 0);
    for (unsigned i = 1; i <= 3; i++) {
        pattern_write(side.peer, SEED, 0, 100);
        turn_until_buffered(side.rig.loop, side.conn, 100);
        /* Whether it is still in the chain makes no difference. */
        stats = stats_of(side.conn);
        assert_int_equal(stats.received_bytes, 100 * i);
        assert_int_equal(stats.receives, i);
        sluice_chain_skip(sluice_conn_chain(side.conn), 100);
        assert_int_equal(stats_of(side.conn).received_bytes, 100 * i);
    }
    assert_int_equal(stats.starved + stats.sent_bytes + stats.sends + stats.blocked, 0);
    side_close(&side);
}

static void placed(sluice_conn *conn, int error, size_t done, void *user) {
    struct side *side = user;
    (void)conn, (void)error, (void)done;
    side->placed = true;
}

static void so_is_what_comes_into_the_users_memory(void **state) {
    (void)state;
    struct side side;
    uint8_t memory[1000];
    side_open(&side);
    turn_through(side.rig.loop, 2);
    assert_int_equal(sluice_conn_receive_into(side.conn, memory, sizeof memory, placed, &side), 0);
    turn_through(side.rig.loop, 3);
    pattern_write(side.peer, SEED, 0, sizeof memory);
    turn_until(side.rig.loop, &side.placed);
    sluice_conn_stats stats = stats_of(side.conn);
    assert_int_equal(stats.received_bytes, sizeof memory);
    assert_int_equal(stats.receives, 1);
    side_close(&side);
}

static void a_want_of_blocks_is_counted(void **state) {
    (void)state;
    struct side side;
    sluice_block *hoard[BLOCKS];
    unsigned count = 0;
    side_open(&side);
    turn_through(side.rig.loop, 2);
    while (sluice_block_get(side.rig.pool, &hoard[count]) == 0)
        count++;
    assert_int_equal(stats_of(side.conn).starved, 0);
    pattern_write(side.peer, SEED, 0, 2 * BLOCKS * BLOCK);
    while (stats_of(side.conn).starved == 0)
        turn_through(side.rig.loop, 1);
    while (count > 0)
        sluice_block_release(hoard[--count]);
    side_close(&side);
}

static void what_goes_is_counted(void **state) {
    (void)state;
    struct side side;
    static uint8_t bytes[4 << 20];
    side_open(&side);
    assert_int_equal(sluice_writer_new(side.conn, sizeof bytes, &side.writer), 0);
    assert_int_equal(sluice_writer_copy(side.writer, "first", 5), 0);
    turn_through(side.rig.loop, 3);
    sluice_conn_stats stats = stats_of(side.conn);
    assert_int_equal(stats.sent_bytes, 5);
    assert_int_equal(stats.sends, 1);

    /* Without the loop. */
    assert_int_equal(sluice_writer_copy(side.writer, "second", 6), 0);
    assert_int_equal(sluice_writer_flush(side.writer), 0);
    stats = stats_of(side.conn);
    assert_int_equal(stats.sent_bytes, 11);
    assert_int_equal(stats.sends, 2);
    assert_int_equal(stats.blocked, 0);

    /* More than the sockets hold. */
    sockets_hold_little(sluice_conn_fd(side.conn), side.peer);
    assert_int_equal(sluice_writer_borrow(side.writer, bytes, sizeof bytes, NULL, NULL), 0);
    turn_until_blocked(side.rig.loop, side.conn);
    stats = stats_of(side.conn);
    /* The kernel may have made room once or twice until all of its room was used. */
    assert_in_range(stats.blocked, 1, 100);
    turn_through(side.rig.loop, 3);
    assert_int_equal(stats_of(side.conn).blocked, stats.blocked);
    assert_int_equal(stats.sent_bytes, 11 + sizeof bytes - sluice_writer_queued(side.writer));
    side_close(&side);
}

static void left(const sluice_conn_handover *handover, void *user) {
    struct side *side = user;
    side->handover = *handover;
    side->detached = true;
}

static void the_counters_go_along_to_another_loop(void **state) {
    (void)state;
    struct side from, to;
    side_open(&from);
    side_open(&to);
    assert_int_equal(sluice_writer_new(from.conn, 100, &from.writer), 0);
    assert_int_equal(sluice_writer_copy(from.writer, "first", 5), 0);
    pattern_write(from.peer, SEED, 0, 100);
    turn_until_buffered(from.rig.loop, from.conn, 100);
    turn_through(from.rig.loop, 3);
    sluice_chain_skip(sluice_conn_chain(from.conn), 30);
    sluice_conn_stats before = stats_of(from.conn);
    assert_int_equal(before.sent_bytes, 5);
    assert_int_equal(sluice_conn_detach(from.conn, left, &from), 0);
    turn_until(from.rig.loop, &from.detached);

    sluice_conn *conn;
    assert_int_equal(sluice_conn_adopt(to.rig.loop, &from.handover, &events, &to, &conn), 0);
    sluice_conn_stats after = stats_of(conn);
    assert_memory_equal(&after, &before, sizeof after);
    pattern_write(from.peer, SEED, 100, 50);
    turn_until_buffered(to.rig.loop, conn, 120);
    after = stats_of(conn);
    assert_int_equal(after.received_bytes, 150);
    assert_int_equal(after.receives, before.receives + 1);
    side_close(&to);
    side_close(&from);
}

static void a_size_says_which_counters_there_are(void **state) {
    (void)state;
    struct side side;
    struct {
        sluice_conn_stats stats;
        uint64_t behind;
    } larger;
    side_open(&side);
    memset(&larger, 0x5A, sizeof larger);
    larger.stats.size = sizeof larger;
    assert_int_equal(sluice_conn_get_stats(side.conn, &larger.stats), 0);
    assert_int_equal(larger.stats.blocked, 0);
    assert_int_equal(larger.behind, 0x5A5A5A5A5A5A5A5A);

    sluice_conn_stats smaller = {.size = sizeof smaller - 1, .blocked = 7};
    assert_int_equal(sluice_conn_get_stats(side.conn, &smaller), -EINVAL);
    smaller.size = 0;
    assert_int_equal(sluice_conn_get_stats(side.conn, &smaller), -EINVAL);
    assert_int_equal(smaller.blocked, 7);
    side_close(&side);
}

static void accepted(sluice_listener *listener, int fd, void *user) {
    (void)listener, (void)user;
    close(fd);
}

static void on_time(sluice_timer *timer, void *user) {
    (void)timer, (void)user;
}

static void users_find_their_pointers_again(void **state) {
    (void)state;
    struct side side;
    int listener_user, timer_user, file_user, loop_user;
    struct sockaddr_storage address = {.ss_family = AF_INET};
    sluice_listener *listener;
    sluice_timer *timer;
    sluice_file *file;
    side_open(&side);
    sluice_loop *loop = side.rig.loop;
    assert_ptr_equal(sluice_conn_user(side.conn), &side);
    sluice_conn_set_events(side.conn, &events, &listener_user);
    assert_ptr_equal(sluice_conn_user(side.conn), &listener_user);
    sluice_conn_set_events(side.conn, &events, &side);

    assert_int_equal(
        sluice_listener_new(loop, (struct sockaddr *)&address, sizeof address, accepted, &listener_user, &listener), 0);
    assert_ptr_equal(sluice_listener_user(listener), &listener_user);
    assert_int_equal(sluice_timer_new(loop, on_time, &timer_user, &timer), 0);
    assert_ptr_equal(sluice_timer_user(timer), &timer_user);
    sluice_timer_free(timer);
    FILE *somewhere = tmpfile();
    assert_non_null(somewhere);
    int fd = dup(fileno(somewhere));
    fclose(somewhere);
    assert_int_equal(sluice_file_new(loop, fd, NULL, NULL, &file_user, &file), 0);
    assert_ptr_equal(sluice_file_user(file), &file_user);
    sluice_file_close(file);
    assert_null(sluice_loop_user(loop));
    sluice_loop_set_user(loop, &loop_user);
    assert_ptr_equal(sluice_loop_user(loop), &loop_user);
    side_close(&side);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_is_counted),
        cmocka_unit_test(so_is_what_comes_into_the_users_memory),
        cmocka_unit_test(a_want_of_blocks_is_counted),
        cmocka_unit_test(what_goes_is_counted),
        cmocka_unit_test(the_counters_go_along_to_another_loop),
        cmocka_unit_test(a_size_says_which_counters_there_are),
        cmocka_unit_test(users_find_their_pointers_again),
    };
    return cmocka_run_group_tests_name("conn_stats", tests, NULL, NULL);
}
