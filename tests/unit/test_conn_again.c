/* Connections that have work left: they are called again, behind the others, for a slice of each
 * turn. */
#include <sluice/conn.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/files.h"
#include "support/sockets.h"

enum { PEERS = 20, SLICE_MS = 5 };

static uint64_t extra_ns; /* that the clock is ahead */

int __real_clock_gettime(clockid_t id, struct timespec *ret_time);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret_time);

/* What takes long is said to by moving the clock. */
int __wrap_clock_gettime(clockid_t id, struct timespec *ret_time) {
    int result = __real_clock_gettime(id, ret_time);
    uint64_t ns = (uint64_t)ret_time->tv_nsec + extra_ns;
    ret_time->tv_sec += (time_t)(ns / 1000000000);
    ret_time->tv_nsec = (long)(ns % 1000000000);
    return result;
}

typedef struct worker_conn {
    sluice_conn *conn;
    int peer;
    unsigned rounds;  /* that it asks for */
    uint64_t cost_ms; /* of each */
    bool closes;
    bool drops_data; /* its next events have no on_data */
    unsigned data, ends, closed;
    unsigned data_at_end;
    int error;      /* of the last end */
    unsigned order; /* of its last call, among all */
} worker_conn;

static unsigned calls;

static void on_end(sluice_conn *conn, int error, void *user) {
    worker_conn *w = user;
    (void)conn;
    w->ends++;
    w->error = error;
    w->data_at_end = w->data;
}

static void on_closed(sluice_conn *conn, void *user) {
    worker_conn *w = user;
    (void)conn;
    w->closed++;
}

static const sluice_conn_events without_data = {.size = sizeof without_data, .on_end = on_end, .on_closed = on_closed};

static void on_data(sluice_conn *conn, void *user) {
    worker_conn *w = user;
    w->data++;
    w->order = ++calls;
    extra_ns += w->cost_ms * 1000000;
    sluice_chain_skip(sluice_conn_chain(conn), SIZE_MAX);
    if (w->rounds > 0) {
        w->rounds--;
        sluice_conn_again(conn);
        sluice_conn_again(conn);
    }
    if (w->drops_data)
        assert_int_equal(sluice_conn_set_events(conn, &without_data, w), 0);
    if (w->closes)
        sluice_conn_close(conn);
}

static const sluice_conn_events events = {
    .size = sizeof events, .on_data = on_data, .on_end = on_end, .on_closed = on_closed};

static void open_one(loop_rig *rig, worker_conn *w) {
    int fds[2];
    sockets_tcp_pair(fds);
    w->peer = fds[1];
    assert_int_equal(sluice_conn_new(rig->loop, fds[0], &events, w, &w->conn), 0);
}

static void close_one(loop_rig *rig, worker_conn *w) {
    sluice_conn_close(w->conn);
    turn_until_count(rig->loop, &w->closed, 1);
    if (w->peer >= 0)
        close(w->peer);
}

static void begin(worker_conn *w) {
    sockets_write(w->peer, "x", 1);
    sockets_wait_delivered(w->peer);
}

/* Nothing more comes, and whatever is needed: once in each turn, however often it has asked. */
static void it_is_called_once_in_each_turn(void **state) {
    loop_rig rig;
    worker_conn w = {.rounds = 3};
    files_rig_open(&rig, NULL, state);
    open_one(&rig, &w);
    begin(&w);
    turn_until_count(rig.loop, &w.data, 1);
    sluice_conn_set_need(w.conn, 1000);
    for (unsigned data = 2; data <= 4; data++) {
        assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
        assert_int_equal(w.data, data);
    }
    turn_through(rig.loop, 5);
    assert_int_equal(w.data, 4);
    close_one(&rig, &w);
    files_rig_close(&rig);
}

/* Its peer's end is told when all has been done. */
static void the_end_comes_last(void **state) {
    loop_rig rig;
    worker_conn w = {.rounds = 5};
    files_rig_open(&rig, NULL, state);
    open_one(&rig, &w);
    sockets_write(w.peer, "x", 1);
    assert_int_equal(shutdown(w.peer, SHUT_WR), 0);
    turn_until_count(rig.loop, &w.ends, 1);
    assert_int_equal(w.data_at_end, 6);
    turn_through(rig.loop, 5);
    assert_int_equal(w.data, 6);
    close_one(&rig, &w);
    files_rig_close(&rig);
}

/* A request that no events take any more holds up neither an end nor a failure. */
static void the_end_comes_without_on_data(void **state) {
    for (int resets = 0; resets < 2; resets++) {
        loop_rig rig;
        worker_conn w = {.rounds = 1, .drops_data = true};
        files_rig_open(&rig, NULL, state);
        open_one(&rig, &w);
        begin(&w);
        turn_until_count(rig.loop, &w.data, 1);
        if (resets) {
            turn_through(rig.loop, 3);
            sockets_reset_on_close(w.peer);
            close(w.peer);
            w.peer = -1;
        } else {
            assert_int_equal(shutdown(w.peer, SHUT_WR), 0);
        }
        turn_until_count(rig.loop, &w.ends, 1);
        turn_through(rig.loop, 5);
        assert_int_equal(w.ends, 1);
        assert_int_equal(w.error, resets ? -ECONNRESET : 0);
        assert_int_equal(w.data, 1);
        close_one(&rig, &w);
        files_rig_close(&rig);
    }
}

static void nothing_is_called_behind_a_close(void **state) {
    loop_rig rig;
    worker_conn w = {.rounds = 5, .closes = true};
    files_rig_open(&rig, NULL, state);
    open_one(&rig, &w);
    begin(&w);
    turn_until_count(rig.loop, &w.closed, 1);
    assert_int_equal(w.data, 1);
    close(w.peer);
    files_rig_close(&rig);
}

static void detached(const sluice_conn_handover *handover, void *user) {
    *(sluice_conn_handover *)user = *handover;
}

/* What it has asked for is of the loop that it leaves; the next one tells of the bytes that there
 * are. */
static void it_may_leave_with_work(void **state) {
    loop_rig rig;
    worker_conn w = {.rounds = 5};
    sluice_conn_handover handover = {.fd = -1};
    files_rig_open(&rig, NULL, state);
    open_one(&rig, &w);
    begin(&w);
    turn_until_count(rig.loop, &w.data, 1);
    assert_int_equal(sluice_conn_detach(w.conn, detached, &handover), 0);
    sluice_conn_again(w.conn);
    while (handover.fd < 0)
        turn_through(rig.loop, 1);
    assert_int_equal(w.data, 1);
    assert_int_equal(sluice_conn_adopt(rig.loop, &handover, &events, &w, &w.conn), 0);
    turn_through(rig.loop, 5);
    assert_int_equal(w.data, 1);
    sluice_conn_again(w.conn);
    turn_until_count(rig.loop, &w.data, 2);
    close_one(&rig, &w);
    files_rig_close(&rig);
}

/* Those that have work left share a slice of a turn, in order; one that has none does not wait for
 * them. */
static void many_share_a_slice_of_the_turn(void **state) {
    loop_rig rig;
    worker_conn busy[PEERS] = {0}, light = {0};
    files_rig_open(&rig, NULL, state);
    for (unsigned i = 0; i < PEERS; i++) {
        busy[i].rounds = 100;
        open_one(&rig, &busy[i]);
        begin(&busy[i]);
        turn_until_count(rig.loop, &busy[i].data, 1);
    }
    open_one(&rig, &light);
    turn_through(rig.loop, 3);
    /* Each takes as long as the slice: one is called in a turn, each in its turn. */
    for (unsigned i = 0; i < PEERS; i++)
        busy[i].cost_ms = SLICE_MS;
    for (unsigned round = 0; round < 2 * PEERS; round++) {
        unsigned before = calls;
        assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
        assert_int_equal(calls - before, 1);
    }
    unsigned least = UINT32_MAX, most = 0;
    for (unsigned i = 0; i < PEERS; i++) {
        least = busy[i].data < least ? busy[i].data : least;
        most = busy[i].data > most ? busy[i].data : most;
    }
    assert_in_range(most - least, 0, PEERS);
    begin(&light);
    unsigned before = calls;
    turn_until_count(rig.loop, &light.data, 1);
    /* Before the one of its turn; and that one came behind it. */
    assert_int_equal(light.order, calls - 1);
    assert_in_range(calls - before, 2, 4);
    for (unsigned i = 0; i < PEERS; i++)
        close_one(&rig, &busy[i]);
    close_one(&rig, &light);
    files_rig_close(&rig);
}

/* More that comes meanwhile is no reason to be called earlier. */
static void who_sends_on_waits_for_its_turn(void **state) {
    loop_rig rig;
    worker_conn busy[2] = {{.rounds = 50}, {.rounds = 50}};
    files_rig_open(&rig, NULL, state);
    for (unsigned i = 0; i < 2; i++) {
        open_one(&rig, &busy[i]);
        begin(&busy[i]);
        turn_until_count(rig.loop, &busy[i].data, 1);
    }
    busy[0].cost_ms = busy[1].cost_ms = SLICE_MS;
    turn_through(rig.loop, 2);
    unsigned first = busy[0].data, second = busy[1].data;
    for (unsigned round = 0; round < 10; round++) {
        begin(&busy[0]);
        turn_through(rig.loop, 2);
    }
    assert_int_equal(busy[0].data - first, 10);
    assert_int_equal(busy[1].data - second, 10);
    for (unsigned i = 0; i < 2; i++)
        close_one(&rig, &busy[i]);
    files_rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FILES_ON_BOTH(it_is_called_once_in_each_turn),  FILES_ON_BOTH(the_end_comes_last),
        FILES_ON_BOTH(the_end_comes_without_on_data),   FILES_ON_BOTH(nothing_is_called_behind_a_close),
        FILES_ON_BOTH(it_may_leave_with_work),          FILES_ON_BOTH(many_share_a_slice_of_the_turn),
        FILES_ON_BOTH(who_sends_on_waits_for_its_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
