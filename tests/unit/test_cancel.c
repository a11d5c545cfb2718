/*
 * Receives that are to stop while the kernel takes nothing: the submission queue is full, and
 * io_uring_submit() says EAGAIN, as it does without memory for a request. What is asked for then
 * happens with a later turn, whether the peer sends or not. epoll, which has no such queue, must
 * show the same.
 */
#include <sluice/conn.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "backends/uring.h"
#include "loop/loop.h"
#include "support/feed.h"
#include "support/sockets.h"

enum { GUARD = 60, SEED = 7, BYTES = 100 };

static const sluice_backend_choice both[] = {SLUICE_BACKEND_URING, SLUICE_BACKEND_EPOLL};

static bool submit_fails;

int __real_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring);

int __wrap_io_uring_submit(struct io_uring *ring) {
    return submit_fails ? -EAGAIN : __real_io_uring_submit(ring);
}

typedef struct cancel_rig {
    loop_rig loop;
    sluice_conn *conn;
    int peer;
    unsigned ends, closed, told, detached;
    size_t done;
    int error;
    sluice_conn_handover handover;
} cancel_rig;

static void on_data(sluice_conn *conn, void *user) {
    (void)conn, (void)user;
}

static void on_end(sluice_conn *conn, int error, void *user) {
    (void)conn, (void)error;
    ((cancel_rig *)user)->ends++;
}

static void on_closed(sluice_conn *conn, void *user) {
    (void)conn;
    ((cancel_rig *)user)->closed++;
}

static void on_received(sluice_conn *conn, int error, size_t done, void *user) {
    cancel_rig *rig = user;
    (void)conn;
    rig->told++;
    rig->error = error;
    rig->done = done;
}

static void on_detached(const sluice_conn_handover *handover, void *user) {
    cancel_rig *rig = user;
    rig->detached++;
    rig->handover = *handover;
}

static const sluice_conn_events events = {
    .size = sizeof events, .on_data = on_data, .on_end = on_end, .on_closed = on_closed};

/* A connection whose receive is armed. */
static void rig_open(cancel_rig *rig, void **state) {
    const sluice_backend_choice *backend = *state;
    int fds[2];
    *rig = (cancel_rig){0};
    loop_rig_open(&rig->loop, NULL, &(sluice_loop_options){.size = sizeof(sluice_loop_options), .backend = *backend},
                  GUARD);
    sockets_tcp_pair(fds);
    rig->peer = fds[1];
    assert_int_equal(sluice_conn_new(rig->loop.loop, fds[0], &events, rig, &rig->conn), 0);
    turn_through(rig->loop.loop, 3);
}

static void rig_close(cancel_rig *rig) {
    submit_fails = false;
    close(rig->peer);
    loop_rig_close(&rig->loop);
    hang_guard(0);
}

static uring *uring_of(const cancel_rig *rig) {
    return loop_rig_is_uring(&rig->loop) ? (uring *)rig->loop.loop->backend : NULL;
}

/* The kernel takes nothing more until the next turn. */
static void fill_queue(const cancel_rig *rig) {
    uring *u = uring_of(rig);
    if (!u)
        return;
    assert_int_equal(u->armed, 1);
    submit_fails = true;
    for (struct io_uring_sqe *sqe; (sqe = io_uring_get_sqe(&u->ring));) {
        io_uring_prep_nop(sqe);
        sqe->user_data = URING_TAG_NONE;
    }
    assert_int_equal(io_uring_sq_space_left(&u->ring), 0);
}

/* The turn that follows may submit again, and the kernel is done with the receive after some. */
static void turn_until_stopped(const cancel_rig *rig) {
    const uring *u = uring_of(rig);
    submit_fails = false;
    turn_through(rig->loop.loop, 2);
    while (u && u->armed > 0)
        turn(rig->loop.loop);
}

static void a_pause_stops(void **state) {
    cancel_rig rig;
    rig_open(&rig, state);
    fill_queue(&rig);
    sluice_conn_pause(rig.conn);
    turn_until_stopped(&rig);
    pattern_write(rig.peer, SEED, 0, BYTES);
    sockets_wait_delivered(rig.peer);
    turn_through(rig.loop.loop, 5);
    assert_int_equal(sluice_chain_length(sluice_conn_chain(rig.conn)), 0);
    sluice_conn_resume(rig.conn);
    turn_until_buffered(rig.loop.loop, rig.conn, BYTES);
    sluice_conn_close(rig.conn);
    turn_until_count(rig.loop.loop, &rig.closed, 1);
    rig_close(&rig);
}

/* The receive ends by itself before its cancel could be sent; what comes then is received as
 * ever. */
static void a_receive_that_ends_first_needs_no_cancel(void **state) {
    cancel_rig rig;
    rig_open(&rig, state);
    for (unsigned resumes = 0; resumes < 3; resumes++) {
        fill_queue(&rig);
        sluice_conn_pause(rig.conn);
        if (resumes > 0)
            sluice_conn_resume(rig.conn);
        if (resumes > 1) {
            close(rig.peer);
            rig.peer = -1;
        }
        /* Nothing but the entries that fill the queue is submitted with this one. */
        turn_through(rig.loop.loop, 1);
        submit_fails = false;
        turn_through(rig.loop.loop, 5);
        if (resumes == 0)
            sluice_conn_resume(rig.conn);
        if (resumes < 2) {
            pattern_write(rig.peer, SEED, (uint64_t)resumes * BYTES, BYTES);
            turn_until_buffered(rig.loop.loop, rig.conn, (size_t)(resumes + 1) * BYTES);
        }
        turn_through(rig.loop.loop, 5);
    }
    turn_until_count(rig.loop.loop, &rig.ends, 1);
    assert_int_equal(sluice_chain_length(sluice_conn_chain(rig.conn)), 2 * BYTES);
    sluice_conn_close(rig.conn);
    turn_until_count(rig.loop.loop, &rig.closed, 1);
    rig_close(&rig);
}

static void a_receive_into_memory_is_cancelled(void **state) {
    cancel_rig rig;
    uint8_t memory[BYTES];
    rig_open(&rig, state);
    assert_int_equal(sluice_conn_receive_into(rig.conn, memory, sizeof memory, on_received, &rig), 0);
    turn_through(rig.loop.loop, 10);
    fill_queue(&rig);
    sluice_conn_receive_cancel(rig.conn);
    submit_fails = false;
    turn_until_count(rig.loop.loop, &rig.told, 1);
    assert_int_equal(rig.done, 0);
    assert_int_equal(rig.error, -ECANCELED);
    sluice_conn_close(rig.conn);
    turn_until_count(rig.loop.loop, &rig.closed, 1);
    rig_close(&rig);
}

static void a_connection_leaves(void **state) {
    cancel_rig rig;
    rig_open(&rig, state);
    fill_queue(&rig);
    assert_int_equal(sluice_conn_detach(rig.conn, on_detached, &rig), 0);
    submit_fails = false;
    turn_until_count(rig.loop.loop, &rig.detached, 1);
    sluice_conn_handover_discard(&rig.handover);
    rig_close(&rig);
}

/* Paused, and then closed before the pause's cancel could be sent; the queue stays full for another
 * turn. */
static void a_pause_before_the_end(void **state) {
    cancel_rig rig;
    rig_open(&rig, state);
    fill_queue(&rig);
    sluice_conn_pause(rig.conn);
    sluice_conn_close(rig.conn);
    turn_through(rig.loop.loop, 1);
    submit_fails = false;
    turn_until_count(rig.loop.loop, &rig.closed, 1);
    rig_close(&rig);
}

#define ON_BOTH(test)                                                                                                  \
    cmocka_unit_test_prestate(test, (void *)&both[0]), cmocka_unit_test_prestate(test, (void *)&both[1])

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_BOTH(a_pause_stops),
        ON_BOTH(a_receive_that_ends_first_needs_no_cancel),
        ON_BOTH(a_receive_into_memory_is_cancelled),
        ON_BOTH(a_connection_leaves),
        ON_BOTH(a_pause_before_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
