/*
 * Receive bundles are used where a loop has seen that they bring bytes in order, and nowhere else.
 * What kernels do that this machine does not have is done to the probe by the linker; the
 * simulation (tests/sim) has such a kernel as well.
 */
#include <sluice/conn.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cmocka.h>

#include "backends/backend.h"
#include "backends/probe_socket.h"
#include "backends/uring_abi.h"
#include "support/sockets.h"

enum { GUARD = 60, SEED = 5, BYTES = 1 << 20, BLOCK = 4096 };

/* What is wrong with the kernel. */
static enum fault {
    NONE,
    NO_TCP,         /* there is no loopback, or it is forbidden */
    NO_STOP,        /* the case that shows it does not come */
    BLOCKS_SWAPPED, /* two blocks of a bundle have each other's bytes */
    BYTE_MISSING,   /* a bundle has a gap: what follows begins a byte further on */
    FAILS_ONCE,     /* the first try fails for want of something */
} fault;

static bool is_rejected; /* the loop says that the kernel's bundles did not pass */

static struct io_uring_buf_ring *probed; /* the ring of blocks that was registered first */

int __real_probe_socket_open(const void *bytes, size_t n, size_t stop, int *ret_fd);
int __wrap_probe_socket_open(const void *bytes, size_t n, size_t stop, int *ret_fd);

int __wrap_probe_socket_open(const void *bytes, size_t n, size_t stop, int *ret_fd) {
    int fds[2];
    if (fault == NO_TCP)
        return -EAFNOSUPPORT;
    if (fault == FAILS_ONCE) {
        fault = NONE;
        return -ENOBUFS;
    }
    if (fault != NO_STOP)
        return __real_probe_socket_open(bytes, n, stop, ret_fd);
    sockets_tcp_pair(fds);
    sockets_write(fds[1], bytes, n);
    sockets_wait_delivered(fds[1]);
    close(fds[1]);
    *ret_fd = fds[0];
    return 0;
}

int __real_io_uring_register_buf_ring(struct io_uring *ring, struct io_uring_buf_reg *registration, unsigned flags);
int __wrap_io_uring_register_buf_ring(struct io_uring *ring, struct io_uring_buf_reg *registration, unsigned flags);

int __wrap_io_uring_register_buf_ring(struct io_uring *ring, struct io_uring_buf_reg *registration, unsigned flags) {
    if (!probed)
        probed = (struct io_uring_buf_ring *)(uintptr_t)registration->ring_addr;
    return __real_io_uring_register_buf_ring(ring, registration, flags);
}

static void spoil(void) {
    unsigned char *first = (unsigned char *)(uintptr_t)probed->bufs[0].addr;
    unsigned char *second = (unsigned char *)(uintptr_t)probed->bufs[1].addr;
    unsigned char kept[256];
    if (fault == BLOCKS_SWAPPED) {
        memcpy(kept, first, sizeof kept);
        memcpy(first, second, sizeof kept);
        memcpy(second, kept, sizeof kept);
    } else if (fault == BYTE_MISSING) {
        memmove(second, second + 1, sizeof kept - 1);
    }
}

int __real_io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **ret_cqe, unsigned wait,
                                            struct __kernel_timespec *timeout, sigset_t *mask);
int __wrap_io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **ret_cqe, unsigned wait,
                                            struct __kernel_timespec *timeout, sigset_t *mask);

int __wrap_io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **ret_cqe, unsigned wait,
                                            struct __kernel_timespec *timeout, sigset_t *mask) {
    int result = __real_io_uring_submit_and_wait_timeout(ring, ret_cqe, wait, timeout, mask);
    if (fault > NO_STOP && probed)
        spoil();
    fault = fault > NO_STOP ? NONE : fault; /* the first completion alone */
    return result;
}

typedef struct stream {
    sluice_conn *conn;
    uint64_t place;
    bool differs, ended;
} stream;

static void on_data(sluice_conn *conn, void *user) {
    stream *s = user;
    sluice_chain *chain = sluice_conn_chain(conn);
    if (!pattern_consume(chain, sluice_chain_length(chain), SEED, &s->place))
        s->differs = true;
}

static void on_end(sluice_conn *conn, int error, void *user) {
    stream *s = user;
    assert_int_equal(error, 0);
    s->ended = true;
    sluice_conn_close(conn);
}

static const sluice_conn_events events = {.size = sizeof events, .on_data = on_data, .on_end = on_end};

/* A loop on a kernel with this fault. */
static sluice_loop_stats open_on(loop_rig *rig, enum fault with, const sluice_loop_options *options) {
    sluice_loop_stats stats = {.size = sizeof stats};
    hang_guard(GUARD);
    fault = with;
    probed = NULL;
    assert_int_equal(sluice_pool_new(NULL, &rig->pool), 0);
    assert_int_equal(sluice_loop_new(rig->pool, options, &rig->loop), 0);
    fault = NONE;
    sluice_loop_get_stats(rig->loop, &stats);
    return stats;
}

/* Bytes arrive as they were sent. */
static void receive_and_close(loop_rig *rig) {
    socket_writer writer;
    stream s = {0};
    int fds[2];
    sockets_tcp_pair(fds);
    assert_int_equal(sluice_conn_new(rig->loop, fds[0], &events, &s, &s.conn), 0);
    socket_writer_start(&writer, fds[1], SEED, BYTES, 1, 20000);
    turn_until(rig->loop, &s.ended);
    socket_writer_join(&writer);
    assert_false(s.differs);
    assert_int_equal(s.place, BYTES);
    close(fds[1]);
    loop_rig_close(rig);
    hang_guard(0);
}

/* Whether bundles are in use on a kernel with this fault. */
static bool has_bundles(enum fault with) {
    loop_rig rig;
    const sluice_loop_stats stats = open_on(
        &rig, with, &(sluice_loop_options){.size = sizeof(sluice_loop_options), .backend = SLUICE_BACKEND_URING});
    assert_string_equal(stats.backend, "io_uring");
    assert_int_equal(stats.reason, SLUICE_REASON_REQUESTED);
    assert_non_null(strstr(stats.features, "multishot"));
    is_rejected = strstr(stats.features, "bundle-rejected");
    bool bundles = strstr(stats.features, "bundle") && !is_rejected;
    receive_and_close(&rig);
    return bundles;
}

/* Kernels that have them, and in order. */
static bool kernel_is_known_to_be_sound(void) {
    struct utsname name;
    unsigned major = 0, minor = 0;
    assert_int_equal(uname(&name), 0);
    assert_int_equal(sscanf(name.release, "%u.%u", &major, &minor), 2);
    return major > 6 || (major == 6 && (minor >= 15 || (minor >= 10 && minor <= 12)));
}

static void a_sound_kernel_bundles(void **state) {
    (void)state;
    for (unsigned i = 0; i < 10; i++)
        if (!has_bundles(NONE) && kernel_is_known_to_be_sound())
            fail_msg("no bundles, time %u", i);
}

static void bytes_out_of_order_disable_bundles(void **state) {
    (void)state;
    bool has_any = has_bundles(NONE);
    assert_false(has_bundles(BLOCKS_SWAPPED));
    assert_false(has_bundles(BYTE_MISSING));
    /* Where there would be some, it is said. */
    assert_true(is_rejected || !has_any);
}

static void what_has_failed_once_is_tried_again(void **state) {
    (void)state;
    bool has_any = has_bundles(NONE);
    assert_int_equal(has_bundles(FAILS_ONCE), has_any);
}

static void what_cannot_be_tried_is_not_used(void **state) {
    (void)state;
    assert_false(has_bundles(NO_TCP));
    assert_false(has_bundles(NO_STOP));
}

/* The backend of a loop that leaves the choice open, on a kernel with this fault. */
static const char *chosen(enum fault with, uint32_t batch_us, sluice_backend_reason *ret_reason) {
    loop_rig rig;
    const sluice_loop_stats stats = open_on(
        &rig, with, &(sluice_loop_options){.size = sizeof(sluice_loop_options), .batch_us = batch_us});
    *ret_reason = stats.reason;
    assert_int_equal(stats.fallback_error, 0);
    receive_and_close(&rig);
    return stats.backend;
}

static void without_bundles_and_window_epoll_is_chosen(void **state) {
    (void)state;
    sluice_backend_reason reason;
    for (enum fault with = NO_TCP; with <= BYTE_MISSING; with++) {
        assert_string_equal(chosen(with, 0, &reason), "epoll");
        assert_int_equal(reason, SLUICE_REASON_EPOLL_CHEAPER);
    }
    assert_string_equal(chosen(NO_STOP, 1, &reason), "io_uring");
    assert_int_equal(reason, SLUICE_REASON_URING_WORKS);
}

static void with_bundles_io_uring_is_chosen(void **state) {
    (void)state;
    sluice_backend_reason reason;
    bool bundles = has_bundles(NONE);
    assert_string_equal(chosen(NONE, 0, &reason), bundles ? "io_uring" : "epoll");
    assert_int_equal(reason, bundles ? SLUICE_REASON_URING_WORKS : SLUICE_REASON_EPOLL_CHEAPER);
    assert_string_equal(chosen(NONE, 2000, &reason), "io_uring");
}

/*
 * Without bundles, a connection that fills several blocks at a time is polled, and read from by
 * system calls that fill many.
 */
typedef struct flooded {
    loop_rig rig;
    stream s;
    int fds[2];
    uint64_t sent, urgent;
} flooded;

static void flooded_open_on(flooded *f, enum fault with, sluice_backend_choice backend) {
    *f = (flooded){0};
    fault = with;
    probed = NULL;
    loop_rig_open(&f->rig, NULL, &(sluice_loop_options){.size = sizeof(sluice_loop_options), .backend = backend},
                  GUARD);
    fault = NONE;
    sockets_tcp_pair(f->fds);
    assert_int_equal(sluice_conn_new(f->rig.loop, f->fds[0], &events, &f->s, &f->s.conn), 0);
}

static void flooded_open(flooded *f, enum fault with) {
    flooded_open_on(f, with, SLUICE_BACKEND_URING);
}

static void flooded_close(flooded *f) {
    assert_false(f->s.differs);
    if (!f->s.ended)
        sluice_conn_close(f->s.conn);
    if (f->fds[1] >= 0)
        close(f->fds[1]);
    loop_rig_close(&f->rig);
    hang_guard(0);
}

static void flooded_send(flooded *f, size_t n) {
    pattern_write(f->fds[1], SEED, f->sent, n);
    f->sent += n;
    sockets_wait_received(f->fds[0], f->sent + f->urgent);
}

/* A byte beside the others. */
static void flooded_send_urgent(flooded *f) {
    assert_int_equal(send(f->fds[1], "!", 1, MSG_OOB), 1);
    f->urgent++;
}

static void flooded_receive(flooded *f) {
    for (unsigned turns = 0; turns < 10000 && f->s.place < f->sent; turns++)
        assert_int_equal(sluice_loop_turn(f->rig.loop, 1000), 0);
    assert_int_equal(f->s.place, f->sent);
}

static uint64_t flooded_receives(const flooded *f) {
    sluice_conn_stats stats = {.size = sizeof stats};
    assert_int_equal(sluice_conn_get_stats(f->s.conn, &stats), 0);
    return stats.receives;
}

enum { FLOOD = 40000, FLOODS = 20 };

/* In this state it is polled, and not by chance. */
static void flood(flooded *f) {
    for (unsigned i = 0; i < FLOODS; i++) {
        flooded_send(f, FLOOD);
        flooded_receive(f);
    }
}

static void flooded_frames(flooded *f, size_t frame, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        flooded_send(f, frame);
        flooded_receive(f);
    }
}

/* A little at a time. */
static void trickle(flooded *f, unsigned times) {
    flooded_frames(f, 100, times);
}

static bool is_polled(const flooded *f) {
    const sluice_io *io = (const sluice_io *)(const void *)f->s.conn; /* its first member */
    return io->receiving == IO_RECV_POLLED || io->receiving == IO_RECV_UNREAD;
}

static void without_bundles_reads_take_many_blocks(void **state) {
    (void)state;
    flooded f;
    flooded_open(&f, NO_STOP);
    flood(&f);
    uint64_t before = flooded_receives(&f);
    flood(&f);
    uint64_t receives = flooded_receives(&f) - before;
    print_message("%u receives for %u times %u bytes\n", (unsigned)receives, FLOODS, FLOOD);
    assert_int_equal(receives, FLOODS);
    /* Little at a time, for long, and much again. */
    trickle(&f, 300);
    flood(&f);
    flooded_close(&f);
}

/* A stream stays polled between its key pictures, unless those are far apart. */
static void without_bundles_small_frames_are_polled_for(void **state) {
    (void)state;
    flooded f;
    flooded_open(&f, NO_STOP);
    flooded_frames(&f, 4 * BLOCK + 1, 12);
    trickle(&f, 249);
    assert_true(is_polled(&f));
    trickle(&f, 1);
    assert_false(is_polled(&f));
    flooded_frames(&f, 4 * BLOCK + 1, 12);
    assert_true(is_polled(&f));
    flooded_close(&f);
}

static const size_t one_read[] = {BLOCK + 1,     BLOCK + 2, 2 * BLOCK - 1, 2 * BLOCK,  2 * BLOCK + 1,  3 * BLOCK,
                                  4 * BLOCK + 1, 20000,     FLOOD,         12 * BLOCK, 15 * BLOCK + 1, 16 * BLOCK - 1};

static void takes_a_receive_each(enum fault with, sluice_backend_choice backend, size_t frame) {
    enum { FRAMES = 20 };
    flooded f;
    flooded_open_on(&f, with, backend);
    flooded_frames(&f, frame, 12);
    uint64_t before = flooded_receives(&f);
    flooded_frames(&f, frame, FRAMES);
    uint64_t receives = flooded_receives(&f) - before;
    if (receives != FRAMES)
        fail_msg("%u receives for %d times %zu bytes", (unsigned)receives, FRAMES, frame);
    flooded_close(&f);
}

/*
 * The kernel's bundles have as many blocks as its array of the receive has room for. A frame that
 * is one block larger takes two, and so does each that follows: until one read takes it.
 */
static void frames_of_one_size_take_a_receive_each(void **state) {
    (void)state;
    if (!has_bundles(NONE))
        return;
    for (size_t i = 0; i < sizeof one_read / sizeof *one_read; i++)
        takes_a_receive_each(NONE, SLUICE_BACKEND_URING, one_read[i]);
}

/* As many blocks as the frames need, whatever the rest of one that was read in two has filled. */
static void reads_become_as_large_as_the_frames(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof one_read / sizeof *one_read; i++) {
        takes_a_receive_each(NONE, SLUICE_BACKEND_EPOLL, one_read[i]);
        if (one_read[i] > 3 * BLOCK)
            takes_a_receive_each(NO_STOP, SLUICE_BACKEND_URING, one_read[i]);
    }
}

static void a_bundle_of_a_block_or_of_64_kib_does_not_count_as_cut(void **state) {
    (void)state;
    if (!has_bundles(NONE))
        return;
    static const size_t frames[] = {BLOCK - 1, BLOCK, 16 * BLOCK + 1};
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        flooded f;
        flooded_open(&f, NONE);
        flooded_frames(&f, frames[i], 20);
        assert_false(is_polled(&f));
        flooded_close(&f);
    }
}

/* Small frames are left to the kernel again, and so are those that fill a read. */
static void reads_give_way_to_bundles(void **state) {
    (void)state;
    if (!has_bundles(NONE))
        return;
    flooded f;
    flooded_open(&f, NONE);
    flooded_frames(&f, 4 * BLOCK + 1, 12);
    assert_true(is_polled(&f));
    trickle(&f, 15);
    assert_true(is_polled(&f));
    trickle(&f, 1);
    assert_false(is_polled(&f));
    flooded_close(&f);

    flooded_open(&f, NONE);
    flooded_frames(&f, 4 * BLOCK + 1, 12);
    flooded_frames(&f, 8 * BLOCK, 20);
    flooded_frames(&f, 16 * BLOCK - 1, 20);
    assert_true(is_polled(&f));
    flooded_frames(&f, 16 * BLOCK, 1);
    assert_false(is_polled(&f));
    flooded_close(&f);
}

static void bytes_and_the_end_together_are_both_received(void **state) {
    (void)state;
    for (size_t last = 1; last < 70000; last = 7 * last + 1) {
        flooded f;
        flooded_open(&f, NO_STOP);
        flood(&f);
        flooded_send(&f, last);
        close(f.fds[1]);
        f.fds[1] = -1;
        turn_until(f.rig.loop, &f.s.ended);
        assert_int_equal(f.s.place, f.sent);
        flooded_close(&f);
    }
}

static void bytes_behind_an_urgent_one_are_received(void **state) {
    (void)state;
    flooded f;
    flooded_open(&f, NO_STOP);
    flood(&f);
    for (unsigned i = 0; i < 10; i++) {
        flooded_send(&f, FLOOD / 8);
        flooded_send_urgent(&f);
        flooded_send(&f, FLOOD / 8);
        flooded_receive(&f);
    }
    flooded_send_urgent(&f);
    flooded_send(&f, 3);
    close(f.fds[1]);
    f.fds[1] = -1;
    turn_until(f.rig.loop, &f.s.ended);
    assert_int_equal(f.s.place, f.sent);
    flooded_close(&f);
}

static void a_pause_leaves_the_rest_to_the_kernel(void **state) {
    (void)state;
    flooded f;
    flooded_open(&f, NO_STOP);
    flood(&f);
    sluice_conn_pause(f.s.conn);
    flooded_send(&f, FLOOD);
    for (unsigned turns = 0; turns < 20; turns++)
        assert_int_equal(sluice_loop_turn(f.rig.loop, 0), 0);
    assert_int_equal(f.s.place, f.sent - FLOOD);
    sluice_conn_resume(f.s.conn);
    flooded_receive(&f);
    flood(&f);
    flooded_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_kernel_bundles),
        cmocka_unit_test(bytes_out_of_order_disable_bundles),
        cmocka_unit_test(what_has_failed_once_is_tried_again),
        cmocka_unit_test(what_cannot_be_tried_is_not_used),
        cmocka_unit_test(without_bundles_and_window_epoll_is_chosen),
        cmocka_unit_test(with_bundles_io_uring_is_chosen),
        cmocka_unit_test(without_bundles_reads_take_many_blocks),
        cmocka_unit_test(without_bundles_small_frames_are_polled_for),
        cmocka_unit_test(frames_of_one_size_take_a_receive_each),
        cmocka_unit_test(reads_become_as_large_as_the_frames),
        cmocka_unit_test(a_bundle_of_a_block_or_of_64_kib_does_not_count_as_cut),
        cmocka_unit_test(reads_give_way_to_bundles),
        cmocka_unit_test(bytes_and_the_end_together_are_both_received),
        cmocka_unit_test(bytes_behind_an_urgent_one_are_received),
        cmocka_unit_test(a_pause_leaves_the_rest_to_the_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
