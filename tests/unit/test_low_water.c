/* What the kernel holds back until there is as much as a connection needs, and how small pieces are
 * collected. */
#include <sluice/conn.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/sockets.h"

enum {
    GUARD = 60,
    FRAME = 5000,
    PIECE = 250,
    MANY = 64 << 10, /* more than a socket's low water is set to */
    TURNS = 20,
    CROWD = 300, /* connections; more than blocks of 4096 bytes in the default stock */
    ROUNDS = 12,
    SMALL = 100,
};

typedef struct taker {
    loop_rig rig;
    sluice_conn *conn;
    int peer;
    uint64_t sent, taken;
    size_t need; /* of the next frame */
    unsigned calls;
    bool ended;
} taker;

/* Takes whole frames, and what is left at the end. */
static void taker_data(sluice_conn *conn, void *user) {
    taker *t = user;
    sluice_chain *chain = sluice_conn_chain(conn);
    t->calls++;
    while (sluice_chain_length(chain) >= t->need)
        assert_true(pattern_consume(chain, t->need, 1, &t->taken));
}

static void taker_end(sluice_conn *conn, int error, void *user) {
    taker *t = user;
    assert_int_equal(error, 0);
    assert_true(pattern_consume(sluice_conn_chain(conn), sluice_chain_length(sluice_conn_chain(conn)), 1, &t->taken));
    t->ended = true;
}

static const sluice_conn_events taker_events = {
    .size = sizeof taker_events, .on_data = taker_data, .on_end = taker_end};

static void taker_open(taker *t, const sluice_loop_options *options, size_t need) {
    int fds[2];
    *t = (taker){.need = need};
    loop_rig_open(&t->rig, NULL, options, GUARD);
    sockets_tcp_pair(fds);
    t->peer = fds[1];
    assert_int_equal(sluice_conn_new(t->rig.loop, fds[0], &taker_events, t, &t->conn), 0);
    sluice_conn_set_need(t->conn, need);
}

static void taker_close(taker *t) {
    sluice_conn_close(t->conn);
    close(t->peer);
    loop_rig_close(&t->rig);
}

/* Sends, and waits until the receiving socket, or what was received from it, has it. */
static void taker_send(taker *t, size_t n) {
    int queued = 0;
    pattern_write(t->peer, 1, t->sent, n);
    t->sent += n;
    while (t->taken + sluice_chain_length(sluice_conn_chain(t->conn)) + (uint64_t)queued < t->sent)
        assert_int_equal(ioctl(sluice_conn_fd(t->conn), FIONREAD, &queued), 0);
}

static int low_water(const taker *t) {
    int bytes;
    socklen_t size = sizeof bytes;
    assert_int_equal(getsockopt(sluice_conn_fd(t->conn), SOL_SOCKET, SO_RCVLOWAT, &bytes, &size), 0);
    return bytes;
}

static uint64_t completions(const taker *t) {
    sluice_loop_stats stats = {.size = sizeof stats};
    sluice_loop_get_stats(t->rig.loop, &stats);
    return stats.completions;
}

static void a_frame_in_pieces_is_one_event(void **state) {
    (void)state;
    taker t;
    taker_open(&t, NULL, FRAME);
    turn_through(t.rig.loop, TURNS);
    for (int frame = 0; frame < 3; frame++) {
        /* The first piece of all shows that it is pieces that come. */
        if (frame == 0) {
            taker_send(&t, PIECE);
            turn_until_buffered(t.rig.loop, t.conn, PIECE);
        }
        uint64_t before = completions(&t);
        while (t.sent % FRAME < FRAME - PIECE) {
            taker_send(&t, PIECE);
            turn_through(t.rig.loop, 2);
        }
        assert_int_equal(completions(&t), before);
        assert_int_equal(t.calls, frame);
        taker_send(&t, PIECE);
        turn_until_count(t.rig.loop, &t.calls, frame + 1);
        assert_int_equal(t.taken, t.sent);
    }
    taker_close(&t);
}

/* More than the kernel is asked to hold back, then what is less than that: nothing is left
 * lying. */
static void a_large_frame_arrives_whole(void **state) {
    (void)state;
    taker t;
    taker_open(&t, NULL, MANY);
    socket_writer writer;
    socket_writer_start(&writer, t.peer, 1, 4 * MANY + 1, 1, 3000);
    turn_until(t.rig.loop, &t.ended);
    socket_writer_join(&writer);
    assert_int_equal(t.taken, 4 * MANY + 1);
    taker_close(&t);
}

static void less_is_needed_after_all(void **state) {
    (void)state;
    taker t;
    taker_open(&t, NULL, FRAME);
    turn_through(t.rig.loop, TURNS);
    taker_send(&t, PIECE);
    turn_until_buffered(t.rig.loop, t.conn, PIECE);
    taker_send(&t, PIECE);
    turn_through(t.rig.loop, TURNS);
    assert_int_equal(t.calls, 0);
    t.need = 2 * PIECE;
    sluice_conn_set_need(t.conn, 2 * PIECE);
    assert_int_equal(low_water(&t), 1);
    turn_until_count(t.rig.loop, &t.calls, 1);
    assert_int_equal(t.taken, 2 * PIECE);
    taker_close(&t);
}

static void the_end_comes_with_what_there_is(void **state) {
    (void)state;
    taker t;
    taker_open(&t, NULL, FRAME);
    turn_through(t.rig.loop, TURNS);
    taker_send(&t, PIECE);
    turn_until_buffered(t.rig.loop, t.conn, PIECE);
    taker_send(&t, PIECE);
    assert_int_equal(shutdown(t.peer, SHUT_WR), 0);
    turn_until(t.rig.loop, &t.ended);
    assert_int_equal(t.taken, 2 * PIECE);
    taker_close(&t);
}

/* Where every piece counts, the socket is left as it is. */
static void nothing_is_held_back(void **state) {
    (void)state;
    static const sluice_loop_options choices[] = {{.size = sizeof(sluice_loop_options), .no_low_water = true},
                                                  {.size = sizeof(sluice_loop_options), .batch_us = 1000},
                                                  {.size = sizeof(sluice_loop_options)},
                                                  {.size = sizeof(sluice_loop_options)}};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        taker t;
        taker_open(&t, &choices[i], FRAME);
        if (i == 2)
            assert_int_equal(sluice_conn_set_timeout(t.conn, GUARD * 1000), 0);
        if (i == 3)
            sluice_conn_set_need(t.conn, 2 * PIECE);
        taker_send(&t, PIECE);
        turn_until_buffered(t.rig.loop, t.conn, PIECE);
        assert_int_equal(low_water(&t), 1);
        taker_close(&t);
    }
    taker t;
    taker_open(&t, NULL, FRAME);
    taker_send(&t, PIECE);
    turn_until_buffered(t.rig.loop, t.conn, PIECE);
    assert_int_equal(low_water(&t), FRAME - PIECE);
    assert_int_equal(sluice_conn_set_timeout(t.conn, GUARD * 1000), 0);
    assert_int_equal(low_water(&t), 1);
    assert_int_equal(sluice_conn_set_timeout(t.conn, 0), 0);
    assert_int_equal(low_water(&t), FRAME - PIECE);
    taker_close(&t);
}

/* Everybody's small packet at once, in a window: there are blocks for all when it is known how
 * small they are. */
static void small_packets_of_many_do_not_starve(void **state) {
    (void)state;
    static taker crowd[CROWD];
    loop_rig rig;
    sluice_loop_stats stats = {.size = sizeof stats};
    assert_true(sockets_allow(2 * CROWD + 100));
    loop_rig_open(&rig, NULL, &(sluice_loop_options){.size = sizeof(sluice_loop_options), .batch_us = 1000}, GUARD);
    for (int i = 0; i < CROWD; i++) {
        int fds[2];
        sockets_tcp_pair(fds);
        crowd[i] = (taker){.rig = rig, .peer = fds[1], .need = SMALL};
        assert_int_equal(sluice_conn_new(rig.loop, fds[0], &taker_events, &crowd[i], &crowd[i].conn), 0);
    }
    uint64_t starved = 0;
    for (int round = 0; round < ROUNDS; round++) {
        sluice_loop_get_stats(rig.loop, &stats);
        starved = stats.starved;
        for (int i = 0; i < CROWD; i++)
            taker_send(&crowd[i], SMALL);
        for (int i = 0; i < CROWD; i++)
            while (crowd[i].taken < crowd[i].sent)
                turn(rig.loop);
        turn_through(rig.loop, 3);
    }
    sluice_loop_get_stats(rig.loop, &stats);
    assert_int_equal(stats.starved, starved);
    for (int i = 0; i < CROWD; i++) {
        sluice_conn_close(crowd[i].conn);
        close(crowd[i].peer);
    }
    loop_rig_close(&rig);
}

/* Pieces of a few bytes, faster than they are worked off: no stream loses one or waits for the
 * others. */
static void a_dribble_in_windows_is_unchanged(void **state) {
    (void)state;
    enum { STREAMS = 4, TOTAL = 200000 };
    static taker streams[STREAMS];
    socket_writer writers[STREAMS];
    loop_rig rig;
    loop_rig_open(&rig, NULL, &(sluice_loop_options){.size = sizeof(sluice_loop_options), .batch_us = 2000}, GUARD);
    for (int i = 0; i < STREAMS; i++) {
        int fds[2];
        sockets_tcp_pair(fds);
        streams[i] = (taker){.rig = rig, .peer = fds[1], .need = SMALL};
        assert_int_equal(sluice_conn_new(rig.loop, fds[0], &taker_events, &streams[i], &streams[i].conn), 0);
        socket_writer_start(&writers[i], fds[1], 1, TOTAL, 1, 32);
    }
    for (int i = 0; i < STREAMS; i++) {
        turn_until(rig.loop, &streams[i].ended);
        socket_writer_join(&writers[i]);
        assert_int_equal(streams[i].taken, TOTAL);
        sluice_conn_close(streams[i].conn);
        close(streams[i].peer);
    }
    loop_rig_close(&rig);
}

/*
 * What there was no block for has waited for a window, and does not wait for one more each time the
 * ring's only block comes back: a hundred windows would be ten seconds.
 */
static void what_starved_waits_for_no_other_window(void **state) {
    (void)state;
    enum { WINDOW_MS = 100, BLOCK = 4096, BLOCKS = 100 };
    static const sluice_backend_choice backends[] = {SLUICE_BACKEND_URING, SLUICE_BACKEND_EPOLL};
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        taker t;
        unsigned windows = 0;
        taker_open(&t,
                   &(sluice_loop_options){.size = sizeof(sluice_loop_options),
                                          .batch_us = WINDOW_MS * 1000,
                                          .stock_bytes = BLOCK,
                                          .backend = backends[i]},
                   PIECE);
        /* All of it is there before the first turn: nothing but a window is waited for. */
        pattern_write(t.peer, 1, 0, BLOCKS * BLOCK);
        shutdown(t.peer, SHUT_WR);
        while (!t.ended) {
            uint64_t before = clock_now();
            turn(t.rig.loop);
            windows += clock_now() - before >= WINDOW_MS - 1;
        }
        /* A test that is stopped for a while takes that for one. */
        assert_true(windows < BLOCKS / 2);
        assert_int_equal(t.taken, BLOCKS * BLOCK);
        taker_close(&t);
    }
}

static void note_accepted(sluice_listener *listener, int fd, void *user) {
    (void)listener;
    close(fd);
    *(bool *)user = true;
}

/*
 * One block at a time, each there before it is asked for: what completes at once in each window
 * must not be all that is looked at.
 */
static void others_are_heard_beside_what_completes_at_once(void **state) {
    (void)state;
    const struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_storage address;
    sluice_listener *listener;
    taker t;
    bool accepted = false;
    taker_open(&t, &(sluice_loop_options){.size = sizeof(sluice_loop_options), .batch_us = 2000}, PIECE);
    sluice_conn_set_read_ahead(t.conn, false);
    assert_int_equal(
        sluice_listener_new(t.rig.loop, (const struct sockaddr *)&any, sizeof any, note_accepted, &accepted, &listener),
        0);
    assert_int_equal(sluice_listener_address(listener, &address), 0);
    int peer = socket(AF_INET, SOCK_STREAM, 0);
    for (unsigned i = 0; i < 2 * TURNS && !accepted; i++) {
        if (i == TURNS)
            assert_int_equal(connect(peer, (struct sockaddr *)&address, sizeof any), 0);
        taker_send(&t, PIECE);
        turn(t.rig.loop);
    }
    assert_true(accepted);
    close(peer);
    sluice_listener_free(listener);
    taker_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_in_pieces_is_one_event),
        cmocka_unit_test(a_large_frame_arrives_whole),
        cmocka_unit_test(less_is_needed_after_all),
        cmocka_unit_test(the_end_comes_with_what_there_is),
        cmocka_unit_test(nothing_is_held_back),
        cmocka_unit_test(small_packets_of_many_do_not_starve),
        cmocka_unit_test(a_dribble_in_windows_is_unchanged),
        cmocka_unit_test(what_starved_waits_for_no_other_window),
        cmocka_unit_test(others_are_heard_beside_what_completes_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
