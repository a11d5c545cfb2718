/* A send fails because the peer has gone: what the peer had sent before is received first, and then
 * the connection fails. */
#include <sluice/conn.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/loop.h>
#include <sluice/pool.h>
#include <sluice/slice.h>

#include "backends/uring.h"
#include "loop/loop.h"
#include "support/sockets.h"

enum {
    GUARD = 60,
    SEED = 5,
    BYTES = 50000,
    BLOCK = 4096,
    BLOCKS = 64,
    SMALL = 512, /* so many such blocks are less than the bytes take */
};

/* What a connection was told: bytes of the pattern, and how it has ended. */
typedef struct watcher {
    sluice_conn *conn;
    uint64_t place;   /* consumed */
    bool leaves;      /* the bytes stay in the chain */
    bool pauses;      /* as soon as it is told of some */
    bool sends;       /* has something to send, always */
    bool differs;     /* from the pattern */
    bool late;        /* told of data after the end */
    unsigned gathers; /* after the failure */
    unsigned ends, closed;
    bool told_end;
    int error;
} watcher;

static void watcher_data(sluice_conn *conn, void *user) {
    watcher *w = user;
    sluice_chain *chain = sluice_conn_chain(conn);
    w->late |= w->told_end;
    if (w->pauses)
        sluice_conn_pause(conn);
    if (!w->leaves)
        w->differs |= !pattern_consume(chain, sluice_chain_length(chain), SEED, &w->place);
    sluice_conn_want_send(conn);
}

static void watcher_end(sluice_conn *conn, int error, void *user) {
    watcher *w = user;
    (void)conn;
    w->told_end = true;
    w->ends++;
    w->error = error;
}

static size_t watcher_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    watcher *w = user;
    (void)conn, (void)max;
    w->gathers++;
    iov[0] = (struct iovec){(void *)(uintptr_t) "late", 4};
    return w->sends;
}

static void watcher_closed(sluice_conn *conn, void *user) {
    watcher *w = user;
    (void)conn;
    w->closed++;
}

static const sluice_conn_events events = {.size = sizeof events,
                                          .on_data = watcher_data,
                                          .on_end = watcher_end,
                                          .on_gather = watcher_gather,
                                          .on_closed = watcher_closed};

/* A connection with a peer that has not read what it was sent. */
static int watcher_open(watcher *w, const loop_rig *rig, void pair(int fds[2])) {
    int fds[2];
    pair(fds);
    sockets_write(fds[0], "unread", 6);
    sockets_wait_readable(fds[1]);
    assert_int_equal(sluice_conn_new(rig->loop, fds[0], &events, w, &w->conn), 0);
    return fds[1];
}

/* It has to notice by a send: the loop has not looked since the peer has gone. */
static void send_now(watcher *w, const loop_rig *rig) {
    w->sends = true;
    sluice_conn_want_send(w->conn);
    turn_until(rig->loop, &w->told_end);
}

static void check_whole(const watcher *w, uint64_t bytes) {
    assert_int_equal(w->place, bytes);
    assert_false(w->differs);
    assert_false(w->late);
    assert_int_equal(w->ends, 1);
    assert_true(w->error == -ECONNRESET || w->error == -EPIPE);
}

enum ending {
    CLOSES,          /* with unread bytes: a reset */
    RESETS,          /* with a lingering time of 0 */
    FINISHES_CLOSES, /* an end, and then the reset */
    ENDINGS,
};

static void peer_ends(int peer, enum ending ending) {
    if (ending == RESETS)
        sockets_reset_on_close(peer);
    if (ending == FINISHES_CLOSES)
        assert_int_equal(shutdown(peer, SHUT_WR), 0);
    close(peer);
}

/* Every kind of end, with bytes in many blocks and with few. */
static void what_was_sent_before_is_received(void **state) {
    static const struct {
        void (*pair)(int fds[2]);
        bool is_tcp;
    } kinds[] = {{sockets_tcp_pair, true}, {sockets_unix_pair, false}};
    static const size_t sizes[] = {1, BLOCK, BYTES};
    (void)state;
    for (size_t i = 0; i < ENDINGS * 2 * 3; i++) {
        const enum ending ending = (enum ending)(i % ENDINGS);
        const size_t bytes = sizes[i / ENDINGS % 3], kind = i / ENDINGS / 3;
        loop_rig rig;
        watcher w = {0};
        loop_rig_open_small(&rig, BLOCK, BLOCKS, 0, GUARD);
        int peer = watcher_open(&w, &rig, kinds[kind].pair);
        pattern_write(peer, SEED, 0, bytes);
        if (kinds[kind].is_tcp)
            sockets_wait_delivered(peer);
        peer_ends(peer, ending);
        send_now(&w, &rig);
        check_whole(&w, bytes);
        loop_rig_close(&rig);
        assert_int_equal(w.closed, 1);
    }
}

/* The same where it has received before, in all ways that the backend knows. */
static void so_it_is_in_the_midst_of_a_stream(void **state) {
    static const uring_features features[] = {{.multishot = true, .bundle = true}, {.multishot = true}, {0}};
    (void)state;
    for (size_t i = 0; i < 3 * ENDINGS; i++) {
        loop_rig rig;
        watcher w = {0};
        loop_rig_open_small(&rig, BLOCK, BLOCKS, 0, GUARD);
        if (loop_rig_is_uring(&rig)) {
            uring *backend = (uring *)rig.loop->backend;
            backend->features.multishot &= features[i / ENDINGS].multishot;
            backend->features.bundle &= features[i / ENDINGS].bundle;
        }
        int peer = watcher_open(&w, &rig, sockets_tcp_pair);
        for (uint64_t sent = 0; sent < 20 * BYTES; sent += BYTES) {
            pattern_write(peer, SEED, sent, BYTES);
            while (w.place < sent + BYTES)
                turn(rig.loop);
        }
        pattern_write(peer, SEED, 20 * BYTES, BYTES);
        sockets_wait_delivered(peer);
        peer_ends(peer, (enum ending)(i % ENDINGS));
        send_now(&w, &rig);
        check_whole(&w, 21 * BYTES);
        loop_rig_close(&rig);
    }
}

/* A reset is told, whatever it comes with. */
static void a_reset_behind_bytes_is_told_without_a_send(void **state) {
    static const uring_features features[] = {{.multishot = true, .bundle = true}, {.multishot = true}, {0}};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        loop_rig rig;
        watcher w = {0};
        loop_rig_open_small(&rig, BLOCK, BLOCKS, 0, GUARD);
        if (loop_rig_is_uring(&rig)) {
            uring *backend = (uring *)rig.loop->backend;
            backend->features.multishot &= features[i].multishot;
            backend->features.bundle &= features[i].bundle;
        }
        int peer = watcher_open(&w, &rig, sockets_tcp_pair);
        for (uint64_t sent = 0; sent < 20 * BYTES; sent += BYTES) {
            pattern_write(peer, SEED, sent, BYTES);
            while (w.place < sent + BYTES)
                turn(rig.loop);
        }
        pattern_write(peer, SEED, 20 * BYTES, 1);
        sockets_wait_delivered(peer);
        peer_ends(peer, RESETS);
        turn_until(rig.loop, &w.told_end);
        check_whole(&w, 20 * BYTES + 1);
        loop_rig_close(&rig);
    }
}

/* Nothing is asked for any more, and writers are told so, while the rest is received. */
static void nothing_is_sent_meanwhile(void **state) {
    (void)state;
    loop_rig rig;
    watcher w = {.sends = true};
    loop_rig_open_small(&rig, BLOCK, BLOCKS, 0, GUARD);
    int peer = watcher_open(&w, &rig, sockets_tcp_pair);
    pattern_write(peer, SEED, 0, BYTES);
    sockets_wait_delivered(peer);
    close(peer);
    sluice_conn_want_send(w.conn);
    turn_until(rig.loop, &w.told_end);
    check_whole(&w, BYTES);
    /* on_data has asked each time. */
    assert_int_equal(w.gathers, 1);
    assert_false(conn_can_send(w.conn));
    loop_rig_close(&rig);
}

/* The chain keeps all of it, with what is told of the need, and a reader finds it. */
static void the_end_ends_a_need(void **state) {
    (void)state;
    loop_rig rig;
    watcher w = {.leaves = true};
    loop_rig_open_small(&rig, BLOCK, BLOCKS, 0, GUARD);
    int peer = watcher_open(&w, &rig, sockets_tcp_pair);
    sluice_conn_set_need(w.conn, 10 * BYTES);
    pattern_write(peer, SEED, 0, BYTES);
    sockets_wait_delivered(peer);
    close(peer);
    send_now(&w, &rig);
    assert_int_equal(sluice_chain_length(sluice_conn_chain(w.conn)), BYTES);
    assert_int_equal(conn_read_state(w.conn), w.error);
    assert_true(pattern_consume(sluice_conn_chain(w.conn), BYTES, SEED, &w.place));
    check_whole(&w, BYTES);
    loop_rig_close(&rig);
}

/* A user that takes nothing for now is told at once, as ever: the peer has gone. */
static void a_pause_goes_before_the_rest(void **state) {
    (void)state;
    for (int later = 0; later < 2; later++) {
        loop_rig rig;
        watcher w = {.pauses = later};
        loop_rig_open_small(&rig, BLOCK, BLOCKS, 0, GUARD);
        int peer = watcher_open(&w, &rig, sockets_tcp_pair);
        sluice_conn_set_read_ahead(w.conn, false);
        if (!later)
            sluice_conn_pause(w.conn);
        turn_through(rig.loop, 2);
        pattern_write(peer, SEED, 0, BYTES);
        sockets_wait_delivered(peer);
        close(peer);
        send_now(&w, &rig);
        assert_in_range(w.place, later, BYTES - 1);
        check_whole(&w, w.place);
        loop_rig_close(&rig);
    }
}

/* A receive that was under way may end with an error of its own, in a later turn: the backend's
 * report of that is made here, since the kernel leaves its order to chance. */
static void a_connection_fails_once(void **state) {
    (void)state;
    loop_rig rig;
    watcher w = {0};
    loop_rig_open_small(&rig, BLOCK, BLOCKS, 0, GUARD);
    int peer = watcher_open(&w, &rig, sockets_tcp_pair);
    sluice_conn_pause(w.conn);
    turn_through(rig.loop, 2);
    close(peer);
    send_now(&w, &rig);
    int first = w.error;
    sluice_io *io = (sluice_io *)w.conn;
    io->events->ended(io, -EHOSTUNREACH);
    turn_through(rig.loop, 3);
    assert_int_equal(w.ends, 1);
    assert_int_equal(conn_read_state(w.conn), first);
    loop_rig_close(&rig);
}

/* What has no blocks for the rest is told at once: they may be what it holds itself. */
static void a_want_of_blocks_goes_before_the_rest(void **state) {
    (void)state;
    loop_rig rig;
    watcher w = {.leaves = true};
    loop_rig_open_small(&rig, SMALL, BLOCKS, 0, GUARD);
    int peer = watcher_open(&w, &rig, sockets_tcp_pair);
    pattern_write(peer, SEED, 0, BYTES);
    sockets_wait_delivered(peer);
    close(peer);
    send_now(&w, &rig);
    assert_int_equal(w.ends, 1);
    assert_true(w.error == -ECONNRESET || w.error == -EPIPE);
    assert_in_range(sluice_chain_length(sluice_conn_chain(w.conn)), 1, BLOCKS * SMALL);
    loop_rig_close(&rig);
}

static void placed(sluice_conn *conn, int error, size_t done, void *user) {
    int *result = user;
    (void)conn;
    *result = error ? error : (int)done;
}

/* A receive into the user's memory gets its bytes. */
static void a_target_is_filled(void **state) {
    (void)state;
    for (size_t lacking = 0; lacking < 2; lacking++) {
        static uint8_t memory[BYTES + 1];
        loop_rig rig;
        watcher w = {0};
        int result = 0;
        loop_rig_open_small(&rig, BLOCK, BLOCKS, 0, GUARD);
        int peer = watcher_open(&w, &rig, sockets_tcp_pair);
        turn_through(rig.loop, 2);
        assert_int_equal(sluice_conn_receive_into(w.conn, memory, BYTES + lacking, placed, &result), 0);
        pattern_write(peer, SEED, 0, BYTES);
        sockets_wait_delivered(peer);
        close(peer);
        send_now(&w, &rig);
        assert_true(pattern_matches(SEED, 0, memory, BYTES));
        assert_int_equal(result, lacking ? w.error : BYTES);
        check_whole(&w, 0);
        loop_rig_close(&rig);
    }
}

static void keep_handover(const sluice_conn_handover *handover, void *user) {
    *(sluice_conn_handover *)user = *handover;
}

/* A connection that moves meanwhile receives the rest in its new loop. */
static void the_rest_moves(void **state) {
    (void)state;
    loop_rig rig;
    watcher w = {.leaves = true};
    sluice_conn_handover handover = {.fd = -1};
    loop_rig_open_small(&rig, BLOCK, BLOCKS, 0, GUARD);
    int peer = watcher_open(&w, &rig, sockets_tcp_pair);
    pattern_write(peer, SEED, 0, BYTES);
    sockets_wait_delivered(peer);
    close(peer);
    w.sends = true;
    sluice_conn_want_send(w.conn);
    while (conn_can_send(w.conn))
        turn(rig.loop);
    assert_int_equal(sluice_conn_detach(w.conn, keep_handover, &handover), 0);
    while (handover.fd < 0)
        turn(rig.loop);
    assert_int_equal(w.ends, 0);
    assert_false(handover.ended);
    assert_true(handover.error == -ECONNRESET || handover.error == -EPIPE);
    w.leaves = false;
    assert_int_equal(sluice_conn_adopt(rig.loop, &handover, &events, &w, &w.conn), 0);
    assert_false(conn_can_send(w.conn));
    turn_until(rig.loop, &w.told_end);
    check_whole(&w, BYTES);
    loop_rig_close(&rig);
}

/* It may be closed at any time. */
static void a_close_leaves_the_rest(void **state) {
    (void)state;
    loop_rig rig;
    watcher w = {0};
    loop_rig_open_small(&rig, BLOCK, BLOCKS, 0, GUARD);
    int peer = watcher_open(&w, &rig, sockets_tcp_pair);
    pattern_write(peer, SEED, 0, BYTES);
    sockets_wait_delivered(peer);
    close(peer);
    w.sends = true;
    sluice_conn_want_send(w.conn);
    while (conn_can_send(w.conn))
        turn(rig.loop);
    sluice_conn_close(w.conn);
    turn_until_count(rig.loop, &w.closed, 1);
    assert_int_equal(w.ends, 0);
    loop_rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_sent_before_is_received),
        cmocka_unit_test(so_it_is_in_the_midst_of_a_stream),
        cmocka_unit_test(a_reset_behind_bytes_is_told_without_a_send),
        cmocka_unit_test(nothing_is_sent_meanwhile),
        cmocka_unit_test(the_end_ends_a_need),
        cmocka_unit_test(a_pause_goes_before_the_rest),
        cmocka_unit_test(a_connection_fails_once),
        cmocka_unit_test(a_want_of_blocks_goes_before_the_rest),
        cmocka_unit_test(a_target_is_filled),
        cmocka_unit_test(the_rest_moves),
        cmocka_unit_test(a_close_leaves_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
