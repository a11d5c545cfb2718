/* Connections that are read at intervals rather than when something comes. */
#include <sluice/conn.h>

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/loop.h>

#include "backends/interval.h"
#include "memory/clock.h"
#include "support/conn_rig.h"

enum {
    MOST = 100, /* milliseconds, of an interval */
    SLOT = 10,
    MANY = 200, /* connections: more than there are slots, and than a turn has events */
    LARGE = 4 << 20,
    BLOCK = 4096,
};

static void set_interval(receiver *r, uint32_t ms) {
    assert_int_equal(sluice_conn_set_receive_interval(r->conn, ms), 0);
}

static uint64_t now_ms(void) {
    return clock_ns() / 1000000;
}

static void await(const loop_rig *rig, const receiver *r, uint64_t place) {
    while (r->place < place)
        turn(rig->loop);
}

/* A loop with one connection; its peer comes back. */
static int open_one(loop_rig *rig, receiver *r) {
    loop_rig_open(rig, NULL, NULL, GUARD);
    return receiver_open(r, rig, sockets_tcp_pair);
}

/* The same of a small pool and ring, at the shortest interval. */
static int open_small(loop_rig *rig, receiver *r, uint32_t blocks) {
    loop_rig_open_small(rig, BLOCK, blocks, 4, GUARD);
    int peer = receiver_open(r, rig, sockets_tcp_pair);
    set_interval(r, SLOT);
    return peer;
}

static void close_many(receiver *receivers, const int *peers, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        assert_false(receivers[i].differs);
        sluice_conn_close(receivers[i].conn);
        close(peers[i]);
    }
}

static void close_all(loop_rig *rig, receiver *r, int peer) {
    assert_false(r->differs);
    assert_false(r->late);
    sluice_conn_close(r->conn);
    close(peer);
    loop_rig_close(rig);
    assert_int_equal(r->closed, 1);
}

/* A read is followed by none within the interval but for the slot that it was late in. */
static void what_comes_is_read_an_interval_later(void **state) {
    loop_rig rig;
    receiver r = {.seed = SEED};
    (void)state;
    int peer = open_one(&rig, &r);
    set_interval(&r, MOST);
    /* With epoll the first arrival is still received as it comes, and the slot of the first read is
     * any of them. */
    for (uint64_t i = 0; i < 3; i++) {
        pattern_write(peer, r.seed, i, 1);
        await(&rig, &r, i + 1);
    }
    for (uint64_t i = 3; i < 6; i++) {
        uint64_t before = now_ms();
        unsigned told = r.data;
        pattern_write(peer, r.seed, i, 1);
        await(&rig, &r, i + 1);
        assert_true(now_ms() - before >= MOST - 2 * SLOT);
        assert_int_equal(r.data, told + 1);
    }
    close_all(&rig, &r, peer);
}

/* The interval ends with the call: an arrival that has waited for it is received. */
static void without_one_it_is_received_as_it_comes(void **state) {
    loop_rig rig;
    receiver r = {.seed = SEED};
    (void)state;
    int peer = open_one(&rig, &r);
    for (uint64_t i = 0; i < 40; i++) {
        set_interval(&r, i % 2 ? MOST : 1);
        turn_through(rig.loop, (unsigned)i % 7);
        pattern_write(peer, r.seed, i, 1);
        turn_through(rig.loop, (unsigned)i % 3);
        set_interval(&r, 0);
        await(&rig, &r, i + 1);
    }
    close_all(&rig, &r, peer);
}

static void only_so_long_ones_are_taken(void **state) {
    loop_rig rig;
    receiver r = {.seed = SEED};
    (void)state;
    int peer = open_one(&rig, &r);
    set_interval(&r, MOST);
    assert_int_equal(sluice_conn_set_receive_interval(r.conn, MOST + 1), -EINVAL);
    assert_int_equal(sluice_conn_set_receive_interval(r.conn, UINT32_MAX), -EINVAL);
    pattern_write(peer, r.seed, 0, 100);
    await(&rig, &r, 100);
    sluice_conn_close(r.conn);
    assert_int_equal(sluice_conn_set_receive_interval(r.conn, SLOT), 0);
    close(peer);
    loop_rig_close(&rig);
}

/* More than a read takes, and than the socket's buffer holds, from one that never stops. */
static void a_fast_peer_is_not_held_up(void **state) {
    loop_rig rig;
    receiver r = {.seed = SEED};
    socket_writer writer;
    (void)state;
    int peer = open_one(&rig, &r);
    set_interval(&r, MOST);
    turn_through(rig.loop, 3);
    socket_writer_start(&writer, peer, SEED, LARGE, 1, 100000);
    turn_until(rig.loop, &r.told_end);
    socket_writer_join(&writer);
    assert_int_equal(r.place, LARGE);
    assert_int_equal(r.error, 0);
    close_all(&rig, &r, peer);
}

static void the_end_and_a_reset_are_noticed(void **state) {
    (void)state;
    for (int reset = 0; reset < 2; reset++) {
        loop_rig rig;
        receiver r = {.seed = SEED};
        int peer = open_one(&rig, &r);
        set_interval(&r, 3 * SLOT);
        turn_through(rig.loop, 4);
        pattern_write(peer, r.seed, 0, 5000);
        if (reset)
            await(&rig, &r, 5000);
        const struct linger linger = {.l_onoff = reset};
        assert_int_equal(setsockopt(peer, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
        close(peer);
        turn_until(rig.loop, &r.told_end);
        assert_int_equal(r.error, reset ? -ECONNRESET : 0);
        assert_int_equal(r.place, 5000);
        close_all(&rig, &r, -1);
    }
}

static size_t gather_a_byte(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    static char byte;
    (void)conn, (void)max, (void)user;
    iov[0] = (struct iovec){&byte, 1};
    return 1;
}

/* The loop does not sleep before what the peer had sent is received, so that waits for no slot; a
 * user that sets an interval meanwhile changes nothing. */
static void a_failed_send_ends_it(void **state) {
    enum { FEW = 20 }; /* turns; an interval has thousands of those that do not sleep */
    (void)state;
    for (int sets_again = 0; sets_again < 2; sets_again++) {
        sluice_conn_events sending = receiver_events;
        sending.on_gather = gather_a_byte;
        loop_rig rig;
        receiver r = {.seed = SEED};
        unsigned turns = 0;
        int peer = open_one(&rig, &r);
        sockets_write(sluice_conn_fd(r.conn), "unread", 6);
        sockets_wait_readable(peer);
        set_interval(&r, MOST);
        for (uint64_t i = 0; i < 3; i++) {
            pattern_write(peer, r.seed, i, 1);
            await(&rig, &r, i + 1);
        }
        pattern_write(peer, r.seed, 3, 5000);
        sockets_wait_delivered(peer);
        close(peer);
        assert_int_equal(sluice_conn_set_events(r.conn, &sending, &r), 0);
        sluice_conn_want_send(r.conn);
        while (conn_can_send(r.conn))
            turn(rig.loop);
        if (sets_again)
            set_interval(&r, MOST);
        for (; !r.told_end; turns++)
            turn(rig.loop);
        assert_in_range(turns, 0, FEW);
        assert_true(r.error == -ECONNRESET || r.error == -EPIPE);
        assert_int_equal(r.place, 5003);
        close_all(&rig, &r, -1);
    }
}

/* Each of many has its slot, and all are read. */
static void many_share_the_slots(void **state) {
    static receiver receivers[MANY];
    static int peers[MANY];
    loop_rig rig;
    (void)state;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    for (unsigned i = 0; i < MANY; i++) {
        receivers[i] = (receiver){.seed = i};
        peers[i] = receiver_open(&receivers[i], &rig, sockets_tcp_pair);
        set_interval(&receivers[i], 1 + i % MOST);
    }
    for (uint64_t round = 0; round < 5; round++) {
        for (unsigned i = 0; i < MANY; i++)
            pattern_write(peers[i], i, round * 700, 700);
        for (unsigned i = 0; i < MANY; i++)
            await(&rig, &receivers[i], (round + 1) * 700);
    }
    close_many(receivers, peers, MANY);
    loop_rig_close(&rig);
}

/*
 * All of many are due at the same time. A turn reads a part of them, and what has come to a
 * connection without an interval is received in the first one.
 */
static void a_turn_reads_a_part_of_those_that_are_due(void **state) {
    static receiver receivers[MANY + 1];
    static int peers[MANY + 1];
    loop_rig rig;
    uint64_t left = MANY;
    unsigned turns = 0;
    (void)state;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    for (unsigned i = 0; i <= MANY; i++) {
        receivers[i] = (receiver){.seed = i};
        peers[i] = receiver_open(&receivers[i], &rig, sockets_tcp_pair);
        if (i < MANY)
            set_interval(&receivers[i], MOST);
    }
    for (uint64_t round = 0; round < 2; round++) {
        for (unsigned i = 0; i <= MANY; i++)
            pattern_write(peers[i], i, round * 700, 700);
        for (unsigned i = 0; i <= MANY && round == 0; i++)
            await(&rig, &receivers[i], 700);
    }
    poll(NULL, 0, MOST + SLOT);
    for (; left > 0; turns++) {
        uint64_t before = left;
        turn(rig.loop);
        left = 0;
        for (unsigned i = 0; i < MANY; i++)
            left += receivers[i].place < 1400;
        assert_true(before - left <= INTERVAL_TURN);
        assert_int_equal(receivers[MANY].place, 1400);
    }
    assert_true(turns >= MANY / INTERVAL_TURN);
    close_many(receivers, peers, MANY + 1);
    loop_rig_close(&rig);
}

/* Others wait for the ring to be stocked, turn after turn; the pool has plenty. */
static void it_does_not_wait_for_the_ring(void **state) {
    enum { BLOCKS = 4096, CROWD = 40, EACH = 15 * BLOCK, ITS_OWN = 5 * BLOCK };
    static receiver crowd[CROWD];
    static int peers[CROWD];
    loop_rig rig;
    receiver r = {.seed = SEED};
    (void)state;
    int peer = open_small(&rig, &r, BLOCKS);
    pattern_write(peer, r.seed, 0, ITS_OWN);
    await(&rig, &r, ITS_OWN);
    for (unsigned i = 0; i < CROWD; i++) {
        crowd[i] = (receiver){.seed = i};
        peers[i] = receiver_open(&crowd[i], &rig, sockets_tcp_pair);
        pattern_write(peers[i], i, 0, EACH);
    }
    pattern_write(peer, r.seed, ITS_OWN, ITS_OWN);
    poll(NULL, 0, 2 * SLOT);
    await(&rig, &r, 2 * ITS_OWN);
    uint64_t received = 0;
    for (unsigned i = 0; i < CROWD; i++)
        received += crowd[i].place;
    /* Most of what the crowd has is still to come where a ring of 8 blocks serves it. */
    if (loop_rig_is_uring(&rig))
        assert_true(received < (uint64_t)CROWD * EACH / 2);
    assert_false(sluice_conn_was_held_up(r.conn));
    for (unsigned i = 0; i < CROWD; i++)
        await(&rig, &crowd[i], EACH);
    close_many(crowd, peers, CROWD);
    close_all(&rig, &r, peer);
}

/* A pause holds at an interval as well, whatever follows what. */
static void a_pause_holds(void **state) {
    loop_rig rig;
    receiver r = {.seed = SEED};
    (void)state;
    int peer = open_one(&rig, &r);
    set_interval(&r, SLOT);
    turn_through(rig.loop, 5);
    sluice_conn_pause(r.conn);
    /* What has been received by then is reported. */
    turn_through(rig.loop, 5);
    pattern_write(peer, r.seed, 0, 3000);
    for (uint64_t since = now_ms(); now_ms() < since + 5 * SLOT;)
        assert_int_equal(sluice_loop_turn(rig.loop, SLOT), 0);
    assert_int_equal(r.place, 0);
    set_interval(&r, 2 * SLOT);
    set_interval(&r, 0);
    set_interval(&r, SLOT);
    turn_through(rig.loop, 5);
    assert_int_equal(r.place, 0);
    sluice_conn_resume(r.conn);
    await(&rig, &r, 3000);
    close_all(&rig, &r, peer);
}

static void placed(sluice_conn *conn, int error, size_t done, void *user) {
    receiver *r = user;
    (void)conn;
    r->told_end = true;
    r->error = error;
    r->place += done;
}

/* What goes to the user's memory comes as it comes; then the interval goes on. */
static void memory_is_filled_meanwhile(void **state) {
    static uint8_t memory[50000];
    loop_rig rig;
    receiver r = {.seed = SEED};
    (void)state;
    int peer = open_one(&rig, &r);
    set_interval(&r, MOST);
    turn_through(rig.loop, 3);
    for (int i = 0; i < 3; i++) {
        uint64_t begin = r.place;
        r.told_end = false;
        assert_int_equal(sluice_conn_receive_into(r.conn, memory, sizeof memory, placed, &r), 0);
        pattern_write(peer, r.seed, begin, sizeof memory);
        turn_until(rig.loop, &r.told_end);
        assert_int_equal(r.error, 0);
        assert_true(pattern_matches(r.seed, begin, memory, sizeof memory));
        pattern_write(peer, r.seed, r.place, 900);
        await(&rig, &r, begin + sizeof memory + 900);
    }
    close_all(&rig, &r, peer);
}

/* Without a block it waits for one, and is read again when there is. */
static void it_waits_for_a_block(void **state) {
    enum { BLOCKS = 64 };
    sluice_block *blocks[BLOCKS];
    unsigned count = 0;
    loop_rig rig;
    receiver r = {.seed = SEED};
    (void)state;
    int peer = open_small(&rig, &r, BLOCKS);
    turn_through(rig.loop, 4);
    r.leaves = true;
    pattern_write(peer, r.seed, 0, BLOCKS * BLOCK);
    while (count < BLOCKS && sluice_block_get(rig.pool, &blocks[count]) == 0)
        count++;
    while (!sluice_conn_was_held_up(r.conn))
        assert_int_equal(sluice_loop_turn(rig.loop, SLOT), 0);
    r.leaves = false;
    while (count > 0)
        sluice_block_release(blocks[--count]);
    sluice_conn_again(r.conn);
    await(&rig, &r, BLOCKS * BLOCK);
    close_all(&rig, &r, peer);
}

static void detached(const sluice_conn_handover *handover, void *user) {
    *(sluice_conn_handover *)user = *handover;
}

/* Adopted it has none; before, it leaves the wheel. */
static void it_stays_behind_when_the_connection_moves(void **state) {
    loop_rig rig;
    receiver r = {.seed = SEED};
    sluice_conn_handover handover = {.fd = -1};
    (void)state;
    int peer = open_one(&rig, &r);
    set_interval(&r, MOST);
    turn_through(rig.loop, 3);
    assert_int_equal(sluice_conn_detach(r.conn, detached, &handover), 0);
    while (handover.fd < 0)
        turn(rig.loop);
    pattern_write(peer, r.seed, 0, 2000);
    assert_int_equal(sluice_conn_adopt(rig.loop, &handover, &receiver_events, &r, &r.conn), 0);
    await(&rig, &r, 2000);
    close_all(&rig, &r, peer);
}

/* A host that only polls reads in time, and does not spin: its timeout is the next read's. */
static void a_host_knows_when(void **state) {
    loop_rig rig;
    receiver r = {.seed = SEED};
    (void)state;
    int peer = open_one(&rig, &r);
    int fd = sluice_loop_fd(rig.loop);
    assert_true(fd >= 0);
    set_interval(&r, 5 * SLOT);
    for (uint64_t i = 0; i < 5; i++) {
        pattern_write(peer, r.seed, i * 100, 100);
        while (r.place < (i + 1) * 100) {
            int timeout = sluice_loop_timeout(rig.loop);
            assert_in_range(timeout + 1, 0, MOST + 1);
            (void)poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, timeout < 0 ? MOST : timeout);
            assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
        }
    }
    close_all(&rig, &r, peer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_is_read_an_interval_later),
        cmocka_unit_test(without_one_it_is_received_as_it_comes),
        cmocka_unit_test(only_so_long_ones_are_taken),
        cmocka_unit_test(a_fast_peer_is_not_held_up),
        cmocka_unit_test(the_end_and_a_reset_are_noticed),
        cmocka_unit_test(a_failed_send_ends_it),
        cmocka_unit_test(many_share_the_slots),
        cmocka_unit_test(a_turn_reads_a_part_of_those_that_are_due),
        cmocka_unit_test(it_does_not_wait_for_the_ring),
        cmocka_unit_test(a_pause_holds),
        cmocka_unit_test(memory_is_filled_meanwhile),
        cmocka_unit_test(it_waits_for_a_block),
        cmocka_unit_test(it_stays_behind_when_the_connection_moves),
        cmocka_unit_test(a_host_knows_when),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
