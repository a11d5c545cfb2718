/*
 * Connections that go from one loop to another: every byte arrives once and in order, ends and
 * failures are told once, and nothing is left behind, whatever the kernel had under way. Made to
 * run under ThreadSanitizer too.
 */
#include <sluice/conn.h>

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/loop.h>
#include <sluice/writer.h>

#include "support/sockets.h"

enum {
    GUARD = 60,
    SEED = 23,
};

/* A connection that may move, and what it was told wherever it was. */
typedef struct traveller {
    sluice_conn *conn;
    sluice_conn_handover handover;
    uint64_t place; /* consumed */
    bool differs;   /* from the pattern */
    bool leaves;    /* the bytes stay in the chain */
    size_t most;    /* bytes that are consumed at once; 0: all */
    bool told_end;
    unsigned data, ends, closed, detached;
    int error; /* of the last end */
} traveller;

static void traveller_data(sluice_conn *conn, void *user) {
    traveller *t = user;
    sluice_chain *chain = sluice_conn_chain(conn);
    size_t n = sluice_chain_length(chain);
    t->data++;
    if (t->most > 0 && n > t->most)
        n = t->most;
    if (!t->leaves && !pattern_consume(chain, n, SEED, &t->place))
        t->differs = true;
}

static void traveller_end(sluice_conn *conn, int error, void *user) {
    traveller *t = user;
    (void)conn;
    t->told_end = true;
    t->error = error;
    t->ends++;
}

static void traveller_closed(sluice_conn *conn, void *user) {
    traveller *t = user;
    (void)conn;
    t->closed++;
}

static const sluice_conn_events traveller_events = {
    .size = sizeof traveller_events, .on_data = traveller_data, .on_end = traveller_end, .on_closed = traveller_closed};

static void traveller_left(const sluice_conn_handover *handover, void *user) {
    traveller *t = user;
    t->handover = *handover;
    t->conn = NULL;
    t->detached++;
}

/* Two loops, each with its pool, and a connection on the first. */
typedef struct road {
    loop_rig rigs[2];
    traveller t;
    int peer;
} road;

/* @second: of the second loop, or NULL. */
static void road_open_with(road *r, void pair(int fds[2]), const sluice_pool_options *first,
                           const sluice_loop_options *second) {
    int fds[2];
    *r = (road){.peer = -1};
    loop_rig_open(&r->rigs[0], first, NULL, GUARD);
    loop_rig_open(&r->rigs[1], NULL, second, GUARD);
    pair(fds);
    r->peer = fds[1];
    assert_int_equal(sluice_conn_new(r->rigs[0].loop, fds[0], &traveller_events, &r->t, &r->t.conn), 0);
}

static void road_open(road *r, void pair(int fds[2])) {
    road_open_with(r, pair, NULL, NULL);
}

/* Every block must be back, and nothing have been copied. */
static void road_close(road *r) {
    if (r->peer >= 0)
        close(r->peer);
    /* The second pool refers to blocks of the first. */
    for (int i = 1; i >= 0; i--)
        loop_rig_close(&r->rigs[i]);
}

static void leave(road *r, int from) {
    unsigned detached = r->t.detached;
    assert_int_equal(sluice_conn_detach(r->t.conn, traveller_left, &r->t), 0);
    assert_int_equal(r->t.detached, detached);
    turn_until_count(r->rigs[from].loop, &r->t.detached, detached + 1);
}

static void arrive(road *r, int at) {
    assert_int_equal(sluice_conn_adopt(r->rigs[at].loop, &r->t.handover, &traveller_events, &r->t, &r->t.conn), 0);
    assert_int_equal(r->t.handover.fd, -1);
    assert_int_equal(sluice_slice_length(&r->t.handover.received), 0);
    assert_ptr_equal(sluice_conn_loop(r->t.conn), r->rigs[at].loop);
}

static uint32_t connections(const loop_rig *rig) {
    sluice_loop_stats stats = {.size = sizeof stats};
    sluice_loop_get_stats(rig->loop, &stats);
    return stats.connections;
}

static void finish(road *r, int at, uint64_t total) {
    shutdown(r->peer, SHUT_WR);
    turn_until(r->rigs[at].loop, &r->t.told_end);
    assert_int_equal(r->t.error, 0);
    assert_int_equal(r->t.ends, 1);
    assert_int_equal(r->t.place, total);
    assert_false(r->t.differs);
    assert_int_equal(sluice_chain_consumed(sluice_conn_chain(r->t.conn)), total);
    sluice_conn_close(r->t.conn);
    turn_until_count(r->rigs[at].loop, &r->t.closed, 1);
}

/*
 * Of what has come a part is consumed before the move, a part is in hand, and the rest comes while
 * it leaves, or behind it: at every place.
 */
static void nothing_is_lost_wherever_it_is_cut(void **state) {
    (void)state;
    enum { TOTAL = 48 };
    for (size_t before = 0; before <= TOTAL; before += 3) {
        for (size_t consumed = 0; consumed <= before; consumed += 5) {
            road r;
            road_open(&r, before % 2 ? sockets_tcp_pair : sockets_unix_pair);
            r.t.leaves = true;
            if (before > 0) {
                pattern_write(r.peer, SEED, 0, before);
                turn_until_buffered(r.rigs[0].loop, r.t.conn, before);
            }
            assert_true(pattern_consume(sluice_conn_chain(r.t.conn), consumed, SEED, &r.t.place));
            r.t.leaves = false;
            assert_int_equal(sluice_conn_detach(r.t.conn, traveller_left, &r.t), 0);
            pattern_write(r.peer, SEED, before, (TOTAL - before) / 2);
            turn_until_count(r.rigs[0].loop, &r.t.detached, 1);
            assert_int_equal(connections(&r.rigs[0]), 0);
            assert_int_equal(r.t.handover.consumed, consumed);
            assert_true(sluice_slice_length(&r.t.handover.received) >= before - consumed);
            unsigned data = r.t.data;
            arrive(&r, 1);
            assert_int_equal(r.t.data, data);
            size_t so_far = before + (TOTAL - before) / 2;
            pattern_write(r.peer, SEED, so_far, TOTAL - so_far);
            finish(&r, 1, TOTAL);
            assert_int_equal(connections(&r.rigs[1]), 0);
            road_close(&r);
        }
    }
}

/* To and fro while a peer sends as fast as it can: receives are in flight at each departure. */
static void to_and_fro(void pair(int fds[2]), uint32_t piece, const sluice_loop_options *second) {
    enum { TOTAL = 4 << 20, MOVES = 16 };
    road r;
    socket_writer writer;
    road_open_with(&r, pair, NULL, second);
    /* Of what has come by then, however much it is, some goes along. */
    r.t.most = TOTAL / MOVES;
    socket_writer_start(&writer, r.peer, SEED, TOTAL, 1, piece);
    int at = 0;
    unsigned moves = 0;
    while (r.t.place < TOTAL) {
        uint64_t place = r.t.place;
        leave(&r, at);
        assert_int_equal(r.t.place, place);
        at = !at;
        arrive(&r, at);
        moves++;
        while (r.t.place == place)
            turn(r.rigs[at].loop);
    }
    socket_writer_join(&writer);
    assert_false(writer.broken);
    assert_true(moves >= MOVES);
    finish(&r, at, TOTAL);
    road_close(&r);
}

static void a_stream_goes_on_from_loop_to_loop(void **state) {
    (void)state;
    to_and_fro(sockets_tcp_pair, 100000, NULL);
    to_and_fro(sockets_tcp_pair, 1500, NULL);
    to_and_fro(sockets_unix_pair, 20000, NULL);
}

/* Loops may have got different backends. */
static void a_stream_goes_on_from_backend_to_backend(void **state) {
    (void)state;
    static const sluice_loop_options epoll = {.size = sizeof epoll, .backend = SLUICE_BACKEND_EPOLL};
    to_and_fro(sockets_tcp_pair, 100000, &epoll);
    to_and_fro(sockets_tcp_pair, 1500, &epoll);
    to_and_fro(sockets_unix_pair, 20000, &epoll);
}

/* Where it has used up all blocks, and waits for one, it leaves with what it has. */
static void one_that_starves_may_leave(void **state) {
    (void)state;
    static const sluice_pool_options few = {.size = sizeof few, .block_size = 512, .slab_blocks = 8, .max_blocks = 8};
    enum { TOTAL = 20000 };
    road r;
    road_open_with(&r, sockets_tcp_pair, &few, NULL);
    r.t.leaves = true;
    pattern_write(r.peer, SEED, 0, TOTAL);
    sluice_loop_stats stats = {.size = sizeof stats};
    while (stats.waiting == 0) {
        turn_through(r.rigs[0].loop, 1);
        sluice_loop_get_stats(r.rigs[0].loop, &stats);
    }
    assert_true(sluice_chain_length(sluice_conn_chain(r.t.conn)) > 0);
    leave(&r, 0);
    r.t.leaves = false;
    arrive(&r, 1);
    finish(&r, 1, TOTAL);
    road_close(&r);
}

/* As the host of an embedded loop does it: what is left to do shows in the descriptor, or in the
 * timeout. */
static void host_until_count(sluice_loop *loop, const unsigned *count, unsigned goal) {
    while (*count < goal) {
        struct pollfd host = {.fd = sluice_loop_fd(loop), .events = POLLIN};
        assert_true(poll(&host, 1, sluice_loop_timeout(loop)) >= 0);
        assert_int_equal(sluice_loop_turn(loop, 0), 0);
    }
}

static void a_host_does_not_sleep_on_a_move(void **state) {
    (void)state;
    road r;
    road_open(&r, sockets_tcp_pair);
    r.t.leaves = true;
    pattern_write(r.peer, SEED, 0, 10);
    host_until_count(r.rigs[0].loop, &r.t.data, 1);
    assert_int_equal(sluice_conn_detach(r.t.conn, traveller_left, &r.t), 0);
    host_until_count(r.rigs[0].loop, &r.t.detached, 1);
    assert_true(sluice_loop_fd(r.rigs[1].loop) >= 0);
    r.t.leaves = false;
    arrive(&r, 1);
    host_until_count(r.rigs[1].loop, &r.t.data, 2);
    assert_int_equal(r.t.place, 10);
    shutdown(r.peer, SHUT_WR);
    host_until_count(r.rigs[1].loop, &r.t.ends, 1);
    sluice_conn_close(r.t.conn);
    host_until_count(r.rigs[1].loop, &r.t.closed, 1);
    road_close(&r);
}

/* Slices of what came along outlive the move and the connection, and go home from the other
 * side. */
static void what_came_along_can_be_held(void **state) {
    (void)state;
    enum { TOTAL = 20000 };
    road r;
    sluice_slice part, kept;
    road_open(&r, sockets_tcp_pair);
    r.t.leaves = true;
    pattern_write(r.peer, SEED, 0, TOTAL);
    turn_until_buffered(r.rigs[0].loop, r.t.conn, TOTAL);
    leave(&r, 0);
    arrive(&r, 1);
    turn_until_count(r.rigs[1].loop, &r.t.data, r.t.data + 1);
    sluice_chain *chain = sluice_conn_chain(r.t.conn);
    assert_int_equal(sluice_chain_take(chain, TOTAL - 7, &part), 0);
    assert_int_equal(sluice_slice_take(&part, &kept), 0);
    sluice_conn_close(r.t.conn);
    turn_until_count(r.rigs[1].loop, &r.t.closed, 1);
    assert_true(pattern_slice_matches(SEED, 0, &kept));
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(r.rigs[0].pool, &stats);
    assert_true(stats.held >= TOTAL / 4096);
    sluice_slice_release(&kept);
    sluice_pool_get_stats(r.rigs[0].pool, &stats);
    assert_int_equal(stats.held, 0);
    road_close(&r);
}

/* Ends. */

static void an_end_before_or_meanwhile_is_told_once(void **state) {
    (void)state;
    enum { TOLD, UNTOLD, MEANWHILE, BETWEEN, CASES };
    for (int when = 0; when < CASES; when++) {
        road r;
        road_open(&r, sockets_tcp_pair);
        pattern_write(r.peer, SEED, 0, 10);
        if (when == TOLD || when == UNTOLD)
            shutdown(r.peer, SHUT_WR);
        if (when == TOLD)
            turn_until(r.rigs[0].loop, &r.t.told_end);
        assert_int_equal(sluice_conn_detach(r.t.conn, traveller_left, &r.t), 0);
        if (when == MEANWHILE)
            shutdown(r.peer, SHUT_WR);
        turn_until_count(r.rigs[0].loop, &r.t.detached, 1);
        if (when == BETWEEN)
            shutdown(r.peer, SHUT_WR);
        assert_int_equal(r.t.ends, when == TOLD);
        arrive(&r, 1);
        if (when != TOLD)
            turn_until(r.rigs[1].loop, &r.t.told_end);
        turn_through(r.rigs[1].loop, 3);
        assert_int_equal(r.t.ends, 1);
        assert_int_equal(r.t.error, 0);
        assert_int_equal(r.t.place, 10);
        sluice_conn_close(r.t.conn);
        turn_until_count(r.rigs[1].loop, &r.t.closed, 1);
        road_close(&r);
    }
}

/* The kernel says it once, to whoever receives then. */
static void a_reset_is_told_where_the_connection_goes(void **state) {
    (void)state;
    for (int when = 0; when < 3; when++) {
        road r;
        road_open(&r, sockets_tcp_pair);
        r.t.leaves = true;
        pattern_write(r.peer, SEED, 0, 10);
        turn_until_buffered(r.rigs[0].loop, r.t.conn, 10);
        sockets_reset_on_close(r.peer);
        if (when == 0)
            close(r.peer);
        assert_int_equal(sluice_conn_detach(r.t.conn, traveller_left, &r.t), 0);
        if (when == 1)
            close(r.peer);
        turn_until_count(r.rigs[0].loop, &r.t.detached, 1);
        if (when == 2)
            close(r.peer);
        r.peer = -1;
        assert_int_equal(r.t.ends, 0);
        arrive(&r, 1);
        r.t.leaves = false;
        turn_until(r.rigs[1].loop, &r.t.told_end);
        assert_int_equal(r.t.error, -ECONNRESET);
        assert_int_equal(r.t.ends, 1);
        assert_int_equal(r.t.place, 10);
        sluice_conn_close(r.t.conn);
        turn_until_count(r.rigs[1].loop, &r.t.closed, 1);
        road_close(&r);
    }
}

static void closed_while_it_leaves_it_stays(void **state) {
    (void)state;
    for (unsigned turns = 0; turns < 3; turns++) {
        road r;
        road_open(&r, sockets_tcp_pair);
        r.t.leaves = true;
        pattern_write(r.peer, SEED, 0, 9000);
        turn_until_buffered(r.rigs[0].loop, r.t.conn, 9000);
        assert_int_equal(sluice_conn_detach(r.t.conn, traveller_left, &r.t), 0);
        turn_through(r.rigs[0].loop, turns);
        if (r.t.detached == 0) {
            sluice_conn_close(r.t.conn);
            turn_until_count(r.rigs[0].loop, &r.t.closed, 1);
            assert_int_equal(r.t.detached, 0);
        } else {
            sluice_conn_handover_discard(&r.t.handover);
            sluice_conn_handover_discard(&r.t.handover);
            assert_int_equal(r.t.closed, 0);
        }
        road_close(&r);
    }
}

static void close_conn(const void *data, size_t size, void *user) {
    traveller *t = user;
    (void)data, (void)size;
    sluice_conn_close(t->conn);
}

/* A writer returns what it has borrowed when all is packed: nothing of that is left behind. */
static void closed_as_its_writer_leaves_it_stays(void **state) {
    (void)state;
    road r;
    sluice_writer *writer;
    sluice_pool_stats stats = {.size = sizeof stats};
    char byte;
    road_open(&r, sockets_tcp_pair);
    r.t.leaves = true;
    pattern_write(r.peer, SEED, 0, 9000);
    turn_until_buffered(r.rigs[0].loop, r.t.conn, 9000);
    assert_int_equal(sluice_writer_new(r.t.conn, 1000, &writer), 0);
    assert_int_equal(sluice_writer_borrow(writer, "lent", 4, close_conn, &r.t), 0);
    assert_int_equal(sluice_conn_detach(r.t.conn, traveller_left, &r.t), 0);
    turn_until_count(r.rigs[0].loop, &r.t.closed, 1);
    assert_int_equal(r.t.detached, 0);
    sluice_pool_get_stats(r.rigs[0].pool, &stats);
    assert_int_equal(stats.held, 0);
    sockets_wait_readable(r.peer);
    assert_int_equal(recv(r.peer, &byte, 1, 0), 0);
    sluice_writer_free(writer);
    road_close(&r);
}

static void the_loops_end_closes_what_is_leaving(void **state) {
    (void)state;
    road r;
    road_open(&r, sockets_tcp_pair);
    turn_through(r.rigs[0].loop, 2);
    pattern_write(r.peer, SEED, 0, 9000);
    assert_int_equal(sluice_conn_detach(r.t.conn, traveller_left, &r.t), 0);
    road_close(&r);
    assert_int_equal(r.t.detached, 0);
    assert_int_equal(r.t.closed, 1);
}

/* What is refused, and by whom. */

static size_t gather_nothing_less(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    static char much[1 << 20];
    (void)conn, (void)max, (void)user;
    iov[0] = (struct iovec){much, sizeof much};
    return 1;
}

static void calls_are_checked(void **state) {
    (void)state;
    static const sluice_conn_events sending = {
        .size = sizeof sending, .on_gather = gather_nothing_less, .on_closed = traveller_closed};
    road r;
    sluice_conn_handover nothing = {.fd = -1};
    sluice_conn *untouched = NULL;
    char memory[8];
    road_open(&r, sockets_tcp_pair);
    assert_int_equal(sluice_conn_adopt(r.rigs[1].loop, &nothing, &traveller_events, &r.t, &untouched), -EINVAL);
    assert_null(untouched);
    sluice_conn_handover_discard(&nothing);
    assert_int_equal(sluice_conn_detach(r.t.conn, NULL, &r.t), -EINVAL);
    sluice_conn_set_events(r.t.conn, &sending, &r.t);
    sluice_conn_want_send(r.t.conn);
    turn_until_blocked(r.rigs[0].loop, r.t.conn);
    assert_int_equal(sluice_conn_detach(r.t.conn, traveller_left, &r.t), -EBUSY);
    sluice_conn_close(r.t.conn);
    assert_int_equal(sluice_conn_detach(r.t.conn, traveller_left, &r.t), -EPIPE);
    turn_until_count(r.rigs[0].loop, &r.t.closed, 1);
    road_close(&r);

    /* Of one that is leaving nothing can be had any more. */
    road_open(&r, sockets_unix_pair);
    turn_through(r.rigs[0].loop, 2);
    assert_int_equal(sluice_conn_detach(r.t.conn, traveller_left, &r.t), 0);
    assert_int_equal(sluice_conn_detach(r.t.conn, traveller_left, &r.t), -EPIPE);
    assert_int_equal(sluice_conn_receive_into(r.t.conn, memory, sizeof memory, NULL, NULL), -EINVAL);
    assert_int_equal(sluice_conn_set_block_size(r.t.conn, 4096), -EPIPE);
    sluice_conn_resume(r.t.conn);
    sluice_conn_pause(r.t.conn);
    sluice_conn_set_need(r.t.conn, 100000);
    sluice_conn_set_read_ahead(r.t.conn, false);
    assert_int_equal(sluice_conn_set_timeout(r.t.conn, 1), 0);
    sluice_conn_want_send(r.t.conn);
    turn_until_count(r.rigs[0].loop, &r.t.detached, 1);
    assert_int_equal(r.t.ends, 0);
    assert_int_equal(sluice_conn_adopt(r.rigs[1].loop, &r.t.handover, NULL, &r.t, &untouched), -EINVAL);
    arrive(&r, 1);
    pattern_write(r.peer, SEED, 0, 3);
    finish(&r, 1, 3);
    road_close(&r);
}

/* Where there is no memory the handover stays whole, and can be tried again. */
static void a_refused_handover_stays_whole(void **state) {
    (void)state;
    static const char byte = 'x';
    enum { TOTAL = 30000 };
    road r;
    sluice_chain *hoard;
    sluice_conn *untouched = NULL;
    road_open(&r, sockets_tcp_pair);
    r.t.leaves = true;
    pattern_write(r.peer, SEED, 0, TOTAL);
    turn_until_buffered(r.rigs[0].loop, r.t.conn, TOTAL);
    leave(&r, 0);
    r.t.leaves = false;
    assert_int_equal(sluice_chain_new(r.rigs[1].pool, &hoard), 0);
    while (sluice_chain_append_memory(hoard, &byte, 1, NULL, NULL) == 0)
        ;
    /* One fewer than it needs. */
    sluice_chain_skip(hoard, 2);
    assert_int_equal(sluice_conn_adopt(r.rigs[1].loop, &r.t.handover, &traveller_events, &r.t, &untouched), -ENOBUFS);
    assert_null(untouched);
    assert_int_equal(connections(&r.rigs[1]), 0);
    assert_int_equal(sluice_slice_length(&r.t.handover.received), TOTAL);
    assert_true(pattern_slice_matches(SEED, 0, &r.t.handover.received));
    sluice_chain_free(hoard);
    arrive(&r, 1);
    finish(&r, 1, TOTAL);
    road_close(&r);
}

/* A writer is its connection's: it goes when that leaves, and another is made where it arrives. */
static void a_writer_stays_behind(void **state) {
    (void)state;
    road r;
    sluice_writer *writer;
    road_open(&r, sockets_tcp_pair);
    assert_int_equal(sluice_writer_new(r.t.conn, 1000, &writer), 0);
    leave(&r, 0);
    assert_int_equal(sluice_writer_copy(writer, "late", 4), -EPIPE);
    sluice_writer_free(writer);
    arrive(&r, 1);
    assert_int_equal(sluice_writer_new(r.t.conn, 1000, &writer), 0);
    assert_int_equal(sluice_writer_copy(writer, "here", 4), 0);
    sluice_writer_free(writer);
    finish(&r, 1, 0);
    road_close(&r);
}

/* Across threads: each runs a loop, and the connection goes round while its peer sends. */

enum { LOOPS = 3, STREAMS = 8, BYTES = 300000 };

typedef struct carousel {
    loop_rig rigs[LOOPS];
    pthread_t threads[LOOPS];
    struct rider {
        struct carousel *carousel;
        sluice_call call;
        sluice_conn *conn;
        sluice_conn_handover handover;
        int at;
        uint64_t place;
        unsigned moves;
        bool differs;
    } riders[STREAMS];
    atomic_uint riding;
    atomic_uint wrong;
} carousel;

static void rider_arrive(void *user);

static void rider_left(const sluice_conn_handover *handover, void *user) {
    struct rider *rider = user;
    rider->handover = *handover;
    rider->at = (rider->at + 1) % LOOPS;
    sluice_loop_post_call(rider->carousel->rigs[rider->at].loop, &rider->call, rider_arrive, rider);
}

static void rider_data(sluice_conn *conn, void *user) {
    struct rider *rider = user;
    sluice_chain *chain = sluice_conn_chain(conn);
    /* Some of it stays in hand. */
    size_t length = sluice_chain_length(chain);
    size_t n = length > 100 ? length - length / 3 : length;
    rider->differs |= !pattern_consume(chain, n, SEED, &rider->place);
    rider->moves++;
    if (sluice_conn_detach(conn, rider_left, rider) < 0)
        atomic_fetch_add(&rider->carousel->wrong, 1);
}

static void rider_end(sluice_conn *conn, int error, void *user) {
    struct rider *rider = user;
    sluice_chain *chain = sluice_conn_chain(conn);
    rider->differs |= error != 0 || !pattern_consume(chain, sluice_chain_length(chain), SEED, &rider->place);
    sluice_conn_close(conn);
}

static void rider_closed(sluice_conn *conn, void *user) {
    struct rider *rider = user;
    (void)conn;
    if (atomic_fetch_sub(&rider->carousel->riding, 1) == 1)
        for (int i = 0; i < LOOPS; i++)
            sluice_loop_stop(rider->carousel->rigs[i].loop);
}

static const sluice_conn_events rider_events = {
    .size = sizeof rider_events, .on_data = rider_data, .on_end = rider_end, .on_closed = rider_closed};

static void rider_arrive(void *user) {
    struct rider *rider = user;
    sluice_loop *loop = rider->carousel->rigs[rider->at].loop;
    if (sluice_conn_adopt(loop, &rider->handover, &rider_events, rider, &rider->conn) < 0)
        atomic_fetch_add(&rider->carousel->wrong, 1);
}

static void *run_loop(void *user) {
    return sluice_loop_run(user) < 0 ? user : NULL;
}

static void connections_go_round_threads(void **state) {
    (void)state;
    static carousel c;
    c = (carousel){.riding = STREAMS};
    socket_writer writers[STREAMS];
    int fds[STREAMS][2];
    for (int i = 0; i < LOOPS; i++)
        loop_rig_open(&c.rigs[i], NULL, NULL, GUARD);
    for (int i = 0; i < STREAMS; i++) {
        struct rider *rider = &c.riders[i];
        *rider = (struct rider){.carousel = &c, .at = i % LOOPS};
        sockets_tcp_pair(fds[i]);
        assert_int_equal(sluice_conn_new(c.rigs[rider->at].loop, fds[i][0], &rider_events, rider, &rider->conn), 0);
        socket_writer_start(&writers[i], fds[i][1], SEED, BYTES, 1, 5000);
    }
    for (int i = 0; i < LOOPS; i++)
        assert_int_equal(pthread_create(&c.threads[i], NULL, run_loop, c.rigs[i].loop), 0);
    for (int i = 0; i < LOOPS; i++) {
        void *error;
        assert_int_equal(pthread_join(c.threads[i], &error), 0);
        assert_null(error);
    }
    assert_int_equal(atomic_load(&c.wrong), 0);
    for (int i = 0; i < STREAMS; i++) {
        socket_writer_join(&writers[i]);
        close(fds[i][1]);
        assert_int_equal(c.riders[i].place, BYTES);
        assert_false(c.riders[i].differs);
        assert_true(c.riders[i].moves > 1);
    }
    for (int i = 0; i < LOOPS; i++)
        sluice_loop_free(c.rigs[i].loop);
    for (int i = 0; i < LOOPS; i++)
        pool_close(c.rigs[i].pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost_wherever_it_is_cut),
        cmocka_unit_test(a_stream_goes_on_from_loop_to_loop),
        cmocka_unit_test(a_stream_goes_on_from_backend_to_backend),
        cmocka_unit_test(one_that_starves_may_leave),
        cmocka_unit_test(a_host_does_not_sleep_on_a_move),
        cmocka_unit_test(what_came_along_can_be_held),
        cmocka_unit_test(an_end_before_or_meanwhile_is_told_once),
        cmocka_unit_test(a_reset_is_told_where_the_connection_goes),
        cmocka_unit_test(closed_while_it_leaves_it_stays),
        cmocka_unit_test(closed_as_its_writer_leaves_it_stays),
        cmocka_unit_test(the_loops_end_closes_what_is_leaving),
        cmocka_unit_test(calls_are_checked),
        cmocka_unit_test(a_refused_handover_stays_whole),
        cmocka_unit_test(a_writer_stays_behind),
        cmocka_unit_test(connections_go_round_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
