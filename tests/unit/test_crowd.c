/* Many connections that wait for a few blocks, while the pool has plenty. */
#include <sluice/conn.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "backends/uring.h"
#include "loop/loop.h"
#include "support/pressure_rig.h"

enum {
    STOCK = 8, /* of the ring: a crowd is more than a quarter of it */
    LARGE_STOCK = 64,
    CROWD = 40,
};

typedef struct crowd {
    loop_rig rig;
    receiver receivers[CROWD];
    int peers[CROWD];
    uint64_t sent;
} crowd;

static const uring *uring_of(const crowd *c) {
    return (const uring *)(const void *)c->rig.loop->backend;
}

static void crowd_open(crowd *c, uint32_t stock) {
    const sluice_loop_options options = {.size = sizeof options, .stock_bytes = stock * BLOCK};
    static const sluice_pool_options pool = {.size = sizeof pool, .block_size = BLOCK, .no_huge_pages = true};
    *c = (crowd){0};
    loop_rig_open(&c->rig, &pool, &options, GUARD);
    for (uint32_t i = 0; i < CROWD; i++) {
        c->receivers[i] = (receiver){.seed = i};
        c->peers[i] = receiver_open(&c->receivers[i], &c->rig);
    }
}

static void crowd_close(crowd *c) {
    for (uint32_t i = 0; i < CROWD; i++) {
        assert_false(c->receivers[i].differs);
        sluice_conn_close(c->receivers[i].conn);
        close(c->peers[i]);
    }
    loop_rig_close(&c->rig);
}

static void crowd_send(crowd *c, size_t n) {
    for (uint32_t i = 0; i < CROWD; i++)
        pattern_write(c->peers[i], i, c->sent, n);
    c->sent += n;
}

static bool crowd_has(const crowd *c, uint64_t place) {
    for (uint32_t i = 0; i < CROWD; i++)
        if (c->receivers[i].place < place)
            return false;
    return true;
}

/* Turns until each has received that much. */
static unsigned crowd_receive(crowd *c, uint64_t place) {
    unsigned turns = 0;
    for (; !crowd_has(c, place); turns++)
        turn_through(c->rig.loop, 1);
    return turns;
}

static const sluice_io *io_of(const crowd *c, uint32_t i) {
    return (const sluice_io *)(const void *)c->receivers[i].conn; /* its first member */
}

static unsigned crowd_outrunning(const crowd *c) {
    unsigned count = 0;
    for (uint32_t i = 0; i < CROWD; i++)
        count += io_of(c, i)->outrun;
    return count;
}

static bool is_polled(const sluice_io *io) {
    return io->receiving == IO_RECV_POLLED || io->receiving == IO_RECV_UNREAD;
}

static unsigned crowd_polled(const crowd *c) {
    unsigned count = 0;
    for (uint32_t i = 0; i < CROWD; i++)
        count += is_polled(io_of(c, i));
    return count;
}

/* The ring's blocks would bring STOCK of them a turn, to all together. */
static void crowd_is_read(crowd *c) {
    enum { BLOCKS = 12, BY_THE_RING = CROWD * BLOCKS / STOCK };
    crowd_send(c, BLOCKS * BLOCK);
    unsigned turns = crowd_receive(c, c->sent);
    print_message("%u turns, at least %u by the ring\n", turns, BY_THE_RING);
    assert_in_range(turns, 1, BY_THE_RING / 2);
}

static void a_crowd_is_not_bounded_by_the_rings_blocks(void **state) {
    (void)state;
    crowd c;
    crowd_open(&c, STOCK);
    crowd_is_read(&c);
    crowd_close(&c);
}

/* It is where nothing suggests that a read takes more than a block. */
static void a_crowd_with_a_little_each_is_not_polled(void **state) {
    (void)state;
    crowd c;
    crowd_open(&c, STOCK);
    for (unsigned i = 0; i < 4; i++) {
        crowd_send(&c, BLOCK / 8);
        crowd_receive(&c, c.sent);
    }
    assert_int_equal(crowd_polled(&c), 0);
    crowd_close(&c);
}

/* Reads of 4, 8 and 16 blocks do not empty the sockets: bundles take over, until they do. */
static void what_outruns_reads_is_left_to_bundles(void **state) {
    enum { BLOCKS = 4 + 8 + 16 + 64 };
    (void)state;
    crowd c;
    crowd_open(&c, LARGE_STOCK);
    const int size = BLOCKS * BLOCK;
    for (uint32_t i = 0; i < CROWD; i++)
        assert_int_equal(setsockopt(sluice_conn_fd(c.receivers[i].conn), SOL_SOCKET, SO_RCVBUF, &size, sizeof size), 0);
    bool bundles = loop_rig_is_uring(&c.rig) && uring_of(&c)->features.bundle;
    crowd_send(&c, BLOCKS * BLOCK);
    for (uint32_t i = 0; i < CROWD; i++)
        sockets_wait_received(sluice_conn_fd(c.receivers[i].conn), c.sent);
    while (!crowd_has(&c, c.sent)) {
        turn_through(c.rig.loop, 1);
        for (uint32_t i = 0; bundles && i < CROWD; i++)
            assert_false(io_of(&c, i)->outrun && is_polled(io_of(&c, i)));
    }
    if (bundles)
        assert_int_equal(crowd_outrunning(&c), CROWD);
    crowd_send(&c, BLOCK);
    crowd_receive(&c, c.sent);
    assert_int_equal(crowd_outrunning(&c), 0);
    crowd_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crowd_is_not_bounded_by_the_rings_blocks),
        cmocka_unit_test(a_crowd_with_a_little_each_is_not_polled),
        cmocka_unit_test(what_outruns_reads_is_left_to_bundles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
