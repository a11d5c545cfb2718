/* Receiving one block at a time, or as much as there is, on both backends. */
#include <sluice/conn.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/loop.h>

#include "support/feed.h"
#include "support/sockets.h"

enum { GUARD = 100, BLOCK = 4096, MEBIBYTE = 1 << 20 };

static const sluice_backend_choice both[] = {SLUICE_BACKEND_URING, SLUICE_BACKEND_EPOLL};

typedef struct peer_stream {
    loop_rig rig;
    sluice_conn *conn;
    int peer;
    uint32_t seed;
    uint64_t place; /* consumed so far */
    size_t most;    /* that on_data has found at once */
    uint8_t *memory;
    bool done;
    bool intact;
} peer_stream;

static void open_stream(peer_stream *s, void **state, const sluice_conn_events *events) {
    const sluice_backend_choice *backend = *state;
    int fds[2];
    loop_rig_open(&s->rig, NULL, &(sluice_loop_options){.size = sizeof(sluice_loop_options), .backend = *backend},
                  GUARD);
    sockets_tcp_pair(fds);
    s->peer = fds[1];
    assert_int_equal(sluice_conn_new(s->rig.loop, fds[0], events, s, &s->conn), 0);
}

static void close_stream(peer_stream *s) {
    close(s->peer);
    sluice_conn_close(s->conn);
    loop_rig_close(&s->rig);
}

static void received(sluice_conn *conn, int error, size_t done, void *user) {
    peer_stream *s = user;
    (void)conn;
    s->intact = error == 0 && done == MEBIBYTE && pattern_matches(s->seed, s->place, s->memory, MEBIBYTE);
    s->done = true;
}

/* The first bytes say that what follows goes into the memory. */
static void take_value(sluice_conn *conn, void *user) {
    peer_stream *s = user;
    enum { HEAD = 10 };
    if (s->done || s->place > 0)
        return;
    assert_true(pattern_consume(sluice_conn_chain(conn), HEAD, s->seed, &s->place));
    assert_int_equal(sluice_conn_receive_into(conn, s->memory, MEBIBYTE, received, s), 0);
}

static uint64_t copied(const peer_stream *s) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(s->rig.pool, &stats);
    return stats.bytes_copied;
}

/* All of a value is there when its head is seen. */
static void what_comes_with_a_head_is_a_block(void **state) {
    static const sluice_conn_events events = {.size = sizeof events, .on_data = take_value};
    for (int was_receiving = 0; was_receiving < 2; was_receiving++) {
        peer_stream s = {.seed = 1};
        socket_writer writer;
        s.memory = malloc(MEBIBYTE);
        assert_non_null(s.memory);
        open_stream(&s, state, &events);
        if (was_receiving)
            turn_through(s.rig.loop, 3);
        sluice_conn_set_read_ahead(s.conn, false);
        turn_through(s.rig.loop, 3);
        socket_writer_start(&writer, s.peer, s.seed, MEBIBYTE + 10, 100000, 100000);
        turn_until(s.rig.loop, &s.done);
        socket_writer_join(&writer);
        assert_true(s.intact);
        assert_true(copied(&s) <= BLOCK);
        close_stream(&s);
        free(s.memory);
    }
}

static void take_all(sluice_conn *conn, void *user) {
    peer_stream *s = user;
    size_t n = sluice_chain_length(sluice_conn_chain(conn));
    if (n > s->most)
        s->most = n;
    assert_true(pattern_consume(sluice_conn_chain(conn), n, s->seed, &s->place));
}

/* Bytes that wait, told of a block at a time, then of more, whatever was armed before. */
static void it_can_change_at_any_time(void **state) {
    static const sluice_conn_events events = {.size = sizeof events, .on_data = take_all};
    enum { ROUNDS = 40, BYTES = 20 * BLOCK };
    peer_stream s = {.seed = 2};
    uint64_t written = 0;
    open_stream(&s, state, &events);
    for (int round = 0; round < ROUNDS; round++) {
        bool ahead = round % 2;
        sluice_conn_set_read_ahead(s.conn, ahead);
        sluice_conn_set_read_ahead(s.conn, ahead);
        turn_through(s.rig.loop, round % 5);
        if (ahead) {
            /* Whatever is armed for a block ends with it. */
            pattern_write(s.peer, s.seed, written++, 1);
            while (s.place < written)
                turn(s.rig.loop);
        } else {
            turn_through(s.rig.loop, 2);
        }
        s.most = 0;
        pattern_write(s.peer, s.seed, written, BYTES);
        written += BYTES;
        while (s.place < written)
            turn(s.rig.loop);
        if (!ahead)
            assert_true(s.most <= BLOCK);
        else if (loop_rig_is_uring(&s.rig))
            assert_true(s.most > BLOCK);
    }
    close_stream(&s);
}

/* The end, and a close, come as ever. */
static void ended(sluice_conn *conn, int error, void *user) {
    peer_stream *s = user;
    (void)conn;
    s->done = error == 0;
}

static void the_end_comes_behind_the_last_block(void **state) {
    static const sluice_conn_events events = {.size = sizeof events, .on_data = take_all, .on_end = ended};
    peer_stream s = {.seed = 3};
    open_stream(&s, state, &events);
    sluice_conn_set_read_ahead(s.conn, false);
    pattern_write(s.peer, s.seed, 0, 3 * BLOCK);
    sluice_conn_pause(s.conn);
    sluice_conn_resume(s.conn);
    shutdown(s.peer, SHUT_WR);
    turn_until(s.rig.loop, &s.done);
    assert_int_equal(s.place, 3 * BLOCK);
    sluice_conn_close(s.conn);
    sluice_conn_set_read_ahead(s.conn, true);
    close_stream(&s);
}

#define ON_BOTH(test)                                                                                                  \
    {#test " (io_uring)", test, NULL, NULL, (void *)&both[0]}, {                                                       \
#test " (epoll)", test, NULL, NULL, (void *)&both[1]                                                           \
    }

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_BOTH(what_comes_with_a_head_is_a_block),
        ON_BOTH(it_can_change_at_any_time),
        ON_BOTH(the_end_comes_behind_the_last_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
