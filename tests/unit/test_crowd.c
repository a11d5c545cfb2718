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
    uint64_t sent[CROWD];
} crowd;

static const uring *uring_of(const crowd *c) {
    return (const uring *)(const void *)c->rig.loop->backend;
}

/* Without it each receive is one system call's, and no poll takes its place. */
static bool crowd_is_multishot(const crowd *c) {
    return !loop_rig_is_uring(&c->rig) || uring_of(c)->features.multishot;
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

/* And it is in the sockets then. */
static void crowd_send(crowd *c, size_t n) {
    for (uint32_t i = 0; i < CROWD; i++)
        pattern_write(c->peers[i], i, c->sent[i], n);
    for (uint32_t i = 0; i < CROWD; i++) {
        c->sent[i] += n;
        sockets_wait_received(sluice_conn_fd(c->receivers[i].conn), c->sent[i]);
    }
}

/* As much as the sockets take. */
static void crowd_fill(crowd *c) {
    uint8_t bytes[4 * BLOCK];
    for (uint32_t i = 0; i < CROWD; i++) {
        ssize_t n;
        do {
            pattern_fill(i, c->sent[i], bytes, sizeof bytes);
            n = send(c->peers[i], bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
            c->sent[i] += n > 0 ? (uint64_t)n : 0;
        } while (n > 0);
    }
}

static bool crowd_has_all(const crowd *c) {
    for (uint32_t i = 0; i < CROWD; i++)
        if (c->receivers[i].place < c->sent[i])
            return false;
    return true;
}

static uint64_t crowd_received(const crowd *c) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < CROWD; i++)
        bytes += c->receivers[i].place;
    return bytes;
}

/* Turns until each has received all. */
static unsigned crowd_receive(crowd *c) {
    unsigned turns = 0;
    for (; !crowd_has_all(c); turns++)
        turn_through(c->rig.loop, 1);
    return turns;
}

static const sluice_io *io_of(const crowd *c, uint32_t i) {
    return (const sluice_io *)(const void *)c->receivers[i].conn; /* its first member */
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
static void a_crowd_is_not_bounded_by_the_rings_blocks(void **state) {
    enum { BLOCKS = 12, BY_THE_RING = CROWD * BLOCKS / STOCK };
    (void)state;
    crowd c;
    crowd_open(&c, STOCK);
    crowd_send(&c, BLOCKS * BLOCK);
    unsigned turns = crowd_receive(&c);
    print_message("%u turns, at least %u by the ring\n", turns, BY_THE_RING);
    if (crowd_is_multishot(&c))
        assert_in_range(turns, 1, BY_THE_RING / 2);
    crowd_close(&c);
}

/* However many find no block at once: here all receives are armed, and the ring has 8 blocks. */
static void a_crowd_with_a_little_each_is_not_polled(void **state) {
    (void)state;
    crowd c;
    crowd_open(&c, STOCK);
    for (unsigned i = 0; i < 4; i++) {
        for (unsigned turn = 0; turn < CROWD; turn++)
            assert_int_equal(sluice_loop_turn(c.rig.loop, 0), 0);
        crowd_send(&c, BLOCK / 8);
        while (!crowd_has_all(&c)) {
            turn_through(c.rig.loop, 1);
            assert_int_equal(crowd_polled(&c), 0);
        }
    }
    crowd_close(&c);
}

/* Reads of 4, 8 and 16 blocks do not empty the sockets: bundles take over, until they do. */
static void what_outruns_reads_is_left_to_bundles(void **state) {
    enum { TURNS = 60 };
    (void)state;
    crowd c;
    bool seen[CROWD] = {0}, before[CROWD];
    crowd_open(&c, LARGE_STOCK);
    bool bundles = loop_rig_is_uring(&c.rig) && uring_of(&c)->features.bundle;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        crowd_fill(&c);
        for (uint32_t i = 0; i < CROWD; i++)
            before[i] = io_of(&c, i)->outrun;
        turn_through(c.rig.loop, 1);
        for (uint32_t i = 0; bundles && i < CROWD; i++) {
            assert_false(before[i] && is_polled(io_of(&c, i)));
            seen[i] |= io_of(&c, i)->outrun;
        }
    }
    for (uint32_t i = 0; bundles && i < CROWD; i++)
        assert_true(seen[i]);
    crowd_receive(&c);
    crowd_send(&c, BLOCK);
    crowd_receive(&c);
    for (uint32_t i = 0; i < CROWD; i++)
        assert_false(io_of(&c, i)->outrun);
    crowd_close(&c);
}

/* All that is read in a turn is held until the consumers run. */
static void a_turn_reads_no_more_than_some_stocks(void **state) {
    enum { TURNS = 20, STOCKS = 16, LONGEST = 64 << 10 };
    (void)state;
    crowd c;
    uint64_t most = 0;
    crowd_open(&c, STOCK);
    for (unsigned turn = 0; turn < TURNS; turn++) {
        crowd_fill(&c);
        uint64_t before = crowd_received(&c);
        turn_through(c.rig.loop, 1);
        uint64_t now = crowd_received(&c) - before;
        most = now > most ? now : most;
    }
    print_message("%u KiB in a turn\n", (unsigned)(most >> 10));
    if (loop_rig_is_uring(&c.rig))
        assert_in_range(most, STOCK * BLOCK, STOCKS * STOCK * BLOCK + LONGEST + STOCK * BLOCK);
    for (uint32_t i = 0; i < CROWD; i++)
        assert_true(c.receivers[i].place > 0);
    crowd_receive(&c);
    crowd_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crowd_is_not_bounded_by_the_rings_blocks),
        cmocka_unit_test(a_crowd_with_a_little_each_is_not_polled),
        cmocka_unit_test(what_outruns_reads_is_left_to_bundles),
        cmocka_unit_test(a_turn_reads_no_more_than_some_stocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
