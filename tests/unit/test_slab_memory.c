/*
 * The pool may grow, and the system has no memory for the next slab: connections wait as for a
 * block, at rest, and go on when there is some.
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

#include "support/sockets.h"

enum {
    GUARD = 60,
    BLOCK = 4096,
    SLAB = 8,            /* blocks of one */
    SENT = 4 * SLAB + 1, /* blocks */
    TURNS = 50,
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

static uint32_t waiting(const loop_rig *rig) {
    sluice_loop_stats stats = {.size = sizeof stats};
    assert_int_equal(sluice_loop_get_stats(rig->loop, &stats), 0);
    return stats.waiting;
}

static void ended(sluice_conn *conn, int error, void *user) {
    (void)conn;
    (void)user;
    fail_msg("the connection ended: %d", error);
}

static void waits_at_rest(void **state) {
    (void)state;
    static const sluice_conn_events events = {.size = sizeof events, .on_end = ended};
    loop_rig rig;
    sluice_conn *conn;
    int fds[2];
    uint64_t place = 0;
    sockets_tcp_pair(fds);
    fails = false;
    refused = 0;
    loop_rig_open(&rig, &pool_options, &loop_options, GUARD);
    assert_int_equal(sluice_conn_new(rig.loop, fds[0], &events, NULL, &conn), 0);
    pattern_write(fds[1], 1, 0, BLOCK);
    turn_until_buffered(rig.loop, conn, BLOCK);
    fails = true;
    pattern_write(fds[1], 1, BLOCK, (SENT - 1) * BLOCK);
    while (waiting(&rig) == 0)
        assert_int_equal(sluice_loop_turn(rig.loop, 1), 0);
    /* The socket has more, which is no reason for the next turn. */
    struct pollfd watched = {.fd = sluice_loop_fd(rig.loop), .events = POLLIN};
    for (unsigned i = 0; i < 2 * TURNS; i++) {
        assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
        if (i >= TURNS) {
            assert_int_equal(poll(&watched, 1, 0), 0);
            assert_true(sluice_loop_timeout(rig.loop) > 0);
        }
    }
    assert_int_equal(waiting(&rig), 1);
    assert_true(refused > 0);
    assert_in_range(sluice_chain_length(sluice_conn_chain(conn)), BLOCK, SLAB * BLOCK);
    fails = false;
    turn_until_buffered(rig.loop, conn, SENT * BLOCK);
    assert_true(pattern_consume(sluice_conn_chain(conn), SENT * BLOCK, 1, &place));
    sluice_conn_close(conn);
    close(fds[1]);
    loop_rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_at_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
