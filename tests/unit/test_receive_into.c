/* Receiving into the caller's memory, on both backends. */
#include <sluice/conn.h>

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/loop.h>

#include "memory/chain.h"
#include "support/feed.h"
#include "support/sockets.h"

enum {
    GUARD = 100,
    BLOCK = 4096,
    SMALL = 64,    /* blocks of a small pool */
    MARGIN = 4096, /* bytes behind the memory that nobody may touch */
    UNTOUCHED = 0xEE,
};

static const sluice_backend_choice both[] = {SLUICE_BACKEND_URING, SLUICE_BACKEND_EPOLL};

static const sluice_pool_options small_pool = {.size = sizeof small_pool,
                                               .block_size = BLOCK,
                                               .slab_blocks = 8,
                                               .max_blocks = SMALL,
                                               .reserve_blocks = 4,
                                               .no_huge_pages = true};

static void rig_open(loop_rig *rig, void **state, const sluice_pool_options *pool) {
    const sluice_backend_choice *backend = *state;
    loop_rig_open(rig, pool,
                  &(sluice_loop_options){
                      .size = sizeof(sluice_loop_options), .backend = *backend, .stock_bytes = pool ? 8 * BLOCK : 0},
                  GUARD);
}

static uint64_t direct(const loop_rig *rig) {
    sluice_loop_stats stats = {.size = sizeof stats};
    sluice_loop_get_stats(rig->loop, &stats);
    return stats.direct;
}

static uint64_t copied(const loop_rig *rig) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(rig->pool, &stats);
    return stats.bytes_copied;
}

/* Takes values into its memory, and what comes between them from the chain. */
typedef struct taker {
    sluice_conn *conn;
    uint32_t seed;
    uint64_t place; /* of the stream: consumed so far */
    uint8_t *memory;
    size_t n;
    bool pending;
    unsigned told;
    int error;
    size_t done;
    unsigned data, ends, closed;
    int end_error;
    /* told of data or an end while the receive was pending, or closed before it was told */
    bool early;
    bool differs;
} taker;

static void taker_data(sluice_conn *conn, void *user) {
    taker *t = user;
    (void)conn;
    t->data++;
    t->early |= t->pending;
}

static void taker_end(sluice_conn *conn, int error, void *user) {
    taker *t = user;
    (void)conn;
    t->ends++;
    t->end_error = error;
    t->early |= t->pending;
}

static void taker_closed(sluice_conn *conn, void *user) {
    taker *t = user;
    (void)conn;
    t->closed++;
    t->early |= t->pending;
}

static const sluice_conn_events taker_events = {
    .size = sizeof taker_events, .on_data = taker_data, .on_end = taker_end, .on_closed = taker_closed};

static int taker_open(taker *t, const loop_rig *rig) {
    int fds[2];
    sockets_tcp_pair(fds);
    assert_int_equal(sluice_conn_new(rig->loop, fds[0], &taker_events, t, &t->conn), 0);
    return fds[1];
}

/* The first @done bytes are the stream's, and none behind them has been written. */
static void check_memory(taker *t, size_t done) {
    t->differs |= !pattern_matches(t->seed, t->place, t->memory, done);
    for (size_t i = done; i < t->n + MARGIN; i++)
        t->differs |= t->memory[i] != UNTOUCHED;
    t->place += done;
    free(t->memory);
    t->memory = NULL;
}

static void taker_received(sluice_conn *conn, int error, size_t done, void *user) {
    taker *t = user;
    assert_ptr_equal(conn, t->conn);
    assert_true(t->pending);
    t->pending = false;
    t->told++;
    t->error = error;
    t->done = done;
    check_memory(t, done);
}

/* True when it is still to come. */
static bool take(taker *t, size_t n) {
    t->n = n;
    t->memory = malloc(n + MARGIN);
    assert_non_null(t->memory);
    memset(t->memory, UNTOUCHED, n + MARGIN);
    t->pending = true;
    int result = sluice_conn_receive_into(t->conn, t->memory, n, taker_received, t);
    assert_in_range(result, 0, 1);
    if (result == 0)
        return true;
    t->pending = false;
    t->error = 0;
    t->done = n;
    check_memory(t, n);
    return false;
}

static void turn_until_told(const loop_rig *rig, const taker *t) {
    while (t->pending)
        turn(rig->loop);
}

static void take_whole(const loop_rig *rig, taker *t, size_t n) {
    unsigned told = t->told;
    bool waits = take(t, n);
    turn_until_told(rig, t);
    assert_int_equal(t->told, told + waits);
    assert_int_equal(t->error, 0);
    assert_int_equal(t->done, n);
    assert_false(t->differs);
}

/* The next bytes come through the chain. */
static void consume(const loop_rig *rig, taker *t, size_t n) {
    turn_until_buffered(rig->loop, t->conn, n);
    assert_true(chain_is_sound(sluice_conn_chain(t->conn)));
    assert_true(pattern_consume(sluice_conn_chain(t->conn), n, t->seed, &t->place));
}

static void rig_close(loop_rig *rig, taker *t, int peer) {
    sluice_loop_free(rig->loop);
    feed_assert_returned(rig->pool);
    sluice_pool_free(rig->pool);
    close(peer);
    hang_guard(0);
    assert_int_equal(t->closed, 1);
    assert_false(t->pending);
    assert_false(t->early);
    assert_false(t->differs);
}

static void arguments_are_checked(void **state) {
    loop_rig rig;
    taker t = {.seed = 1};
    uint8_t other[4] = {1, 2, 3, 4};
    rig_open(&rig, state, NULL);
    int peer = taker_open(&t, &rig);
    assert_int_equal(sluice_conn_receive_into(t.conn, NULL, 1, taker_received, &t), -EINVAL);
    assert_int_equal(sluice_conn_receive_into(t.conn, other, 1, NULL, &t), -EINVAL);
    assert_int_equal(sluice_conn_receive_into(t.conn, NULL, 0, taker_received, &t), 1);
    /* There is nothing to cancel. */
    sluice_conn_receive_cancel(t.conn);
    assert_true(take(&t, 10));
    assert_int_equal(sluice_conn_receive_into(t.conn, other, 4, taker_received, &t), -EBUSY);
    pattern_write(peer, t.seed, 0, 10);
    turn_until_told(&rig, &t);
    assert_int_equal(t.done, 10);
    assert_memory_equal(other, ((uint8_t[]){1, 2, 3, 4}), 4);
    sluice_conn_close(t.conn);
    assert_int_equal(sluice_conn_receive_into(t.conn, other, 4, taker_received, &t), -EPIPE);
    sluice_conn_receive_cancel(t.conn);
    turn_until_count(rig.loop, &t.closed, 1);
    assert_int_equal(t.told, 1);
    rig_close(&rig, &t, peer);
}

/* What comes behind each value is in the chain, and in order. */
static void values_of_all_sizes(void **state) {
    static const size_t sizes[] = {0,         1,       2,        BLOCK - 1,      BLOCK, BLOCK + 1, 3 * BLOCK - 1,
                                   3 * BLOCK, 1 << 20, 16 << 20, (1 << 20) + 77, 1,     100};
    static const size_t between[] = {0, 1, 1000, 3 * BLOCK};
    enum { SIZES = sizeof sizes / sizeof *sizes, BETWEEN = sizeof between / sizeof *between };
    for (size_t k = 0; k < BETWEEN; k++) {
        loop_rig rig;
        taker t = {.seed = 2 + (uint32_t)k};
        socket_writer writer;
        uint64_t total = 0, values = 0;
        for (size_t i = 0; i < SIZES; i++)
            values += sizes[i];
        total = values + SIZES * between[k];
        rig_open(&rig, state, NULL);
        int peer = taker_open(&t, &rig);
        socket_writer_start(&writer, peer, t.seed, total, 1, k % 2 ? 100000 : 5000);
        for (size_t i = 0; i < SIZES; i++) {
            take_whole(&rig, &t, sizes[i]);
            consume(&rig, &t, between[k]);
        }
        assert_int_equal(t.place, total);
        turn_until_count(rig.loop, &t.ends, 1);
        assert_int_equal(t.end_error, 0);
        assert_int_equal(copied(&rig) + direct(&rig), values);
        socket_writer_join(&writer);
        rig_close(&rig, &t, peer);
    }
}

/* Not one byte goes through user space but those that were there before. */
static void what_comes_later_is_not_copied(void **state) {
    enum { VALUE = 1 << 20, HAD = 100 };
    loop_rig rig;
    taker t = {.seed = 3};
    rig_open(&rig, state, NULL);
    int peer = taker_open(&t, &rig);
    pattern_write(peer, t.seed, 0, HAD);
    turn_until_buffered(rig.loop, t.conn, HAD);
    assert_true(take(&t, VALUE));
    assert_int_equal(copied(&rig), HAD);
    assert_int_equal(sluice_chain_length(sluice_conn_chain(t.conn)), 0);
    /* Until nothing is armed for blocks any more. */
    turn_through(rig.loop, 5);
    sluice_pool_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    sluice_pool_get_stats(rig.pool, &before);
    for (size_t n = HAD; n < HAD + 10; n++) {
        pattern_write(peer, t.seed, n, 1);
        while (direct(&rig) < n - HAD + 1)
            turn(rig.loop);
    }
    sluice_pool_get_stats(rig.pool, &after);
    assert_int_equal(before.held + before.kernel, after.held + after.kernel);
    pattern_write(peer, t.seed, HAD + 10, 1000);
    shutdown(peer, SHUT_WR);
    turn_until_told(&rig, &t);
    assert_int_equal(t.error, -ENODATA);
    assert_int_equal(t.done, HAD + 1010);
    assert_int_equal(copied(&rig), HAD);
    assert_int_equal(direct(&rig), 1010);
    rig_close(&rig, &t, peer);
}

/* More than was asked for is there already, before and after the receive has been armed. */
static void no_byte_behind_is_taken(void **state) {
    enum { VALUE = 20000, BEHIND = 3000 };
    for (int late = 0; late < 2; late++) {
        loop_rig rig;
        taker t = {.seed = 4};
        rig_open(&rig, state, NULL);
        int peer = taker_open(&t, &rig);
        turn_through(rig.loop, 3);
        if (late) {
            assert_true(take(&t, VALUE));
            turn_through(rig.loop, 3);
        }
        pattern_write(peer, t.seed, 0, VALUE + BEHIND);
        if (!late)
            assert_true(take(&t, VALUE));
        turn_until_told(&rig, &t);
        assert_int_equal(t.error, 0);
        assert_int_equal(t.done, VALUE);
        consume(&rig, &t, BEHIND);
        assert_int_equal(sluice_chain_length(sluice_conn_chain(t.conn)), 0);
        assert_true(t.data > 0);
        /* And all of it is copied when it is in the chain. */
        pattern_write(peer, t.seed, VALUE + BEHIND, 500);
        turn_until_buffered(rig.loop, t.conn, 500);
        assert_false(take(&t, 400));
        assert_int_equal(sluice_chain_length(sluice_conn_chain(t.conn)), 100);
        consume(&rig, &t, 100);
        rig_close(&rig, &t, peer);
    }
}

/* Asked for when what has come into blocks waits to be told of: in the turn of a send's completion
 * before it. */
typedef struct late_taker {
    taker t;
    size_t n;
    bool asked;
} late_taker;

static void late_taker_sent(sluice_conn *conn, size_t bytes, void *user) {
    late_taker *late = user;
    (void)conn, (void)bytes;
    if (!late->asked)
        assert_true(take(&late->t, late->n));
    late->asked = true;
}

static size_t late_taker_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    static char byte;
    const late_taker *late = user;
    (void)conn, (void)max;
    iov[0] = (struct iovec){&byte, 1};
    return late->asked ? 0 : 1;
}

static void what_is_in_blocks_already_comes_first(void **state) {
    enum { HAD = 10000, BEHIND = 30000 };
    static const size_t counts[] = {1, BLOCK, HAD - 1, HAD, HAD + 1, 3 * HAD};
    static const sluice_conn_events events = {.size = sizeof events,
                                              .on_data = taker_data,
                                              .on_end = taker_end,
                                              .on_closed = taker_closed,
                                              .on_gather = late_taker_gather,
                                              .on_sent = late_taker_sent};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        loop_rig rig;
        late_taker late = {.t = {.seed = 17}, .n = counts[i]};
        taker *t = &late.t;
        rig_open(&rig, state, NULL);
        int peer = taker_open(t, &rig);
        sluice_conn_set_events(t->conn, &events, &late);
        turn_through(rig.loop, 3);
        pattern_write(peer, t->seed, 0, HAD);
        sockets_wait_delivered(peer);
        sluice_conn_want_send(t->conn);
        while (!late.asked)
            turn(rig.loop);
        /* io_uring had filled blocks; epoll reads when it is asked. */
        if (*(const sluice_backend_choice *)*state == SLUICE_BACKEND_URING)
            assert_int_equal(copied(&rig), late.n < HAD ? late.n : HAD);
        pattern_write(peer, t->seed, HAD, BEHIND);
        turn_until_told(&rig, t);
        assert_int_equal(t->error, 0);
        assert_int_equal(t->done, late.n);
        assert_int_equal(copied(&rig) + direct(&rig), late.n);
        consume(&rig, t, HAD + BEHIND - late.n);
        assert_true(t->data > 0);
        turn_through(rig.loop, 5);
        pattern_write(peer, t->seed, HAD + BEHIND, 1000);
        consume(&rig, t, 1000);
        assert_int_equal(t->ends, 0);
        rig_close(&rig, t, peer);
    }
}

/* After any number of bytes and turns; what has come goes on being the stream. */
static void a_cancel_loses_nothing(void **state) {
    enum { ROUNDS = 600, MOST = 30000 };
    loop_rig rig;
    taker t = {.seed = 5};
    uint64_t random = 55, written = 0;
    unsigned cancelled = 0, partly = 0, whole = 0;
    rig_open(&rig, state, NULL);
    int peer = taker_open(&t, &rig);
    for (int round = 0; round < ROUNDS; round++) {
        size_t ahead = random_between(&random, 0, 1) ? random_between(&random, 1, MOST) : 0;
        size_t later = random_between(&random, 0, 1) ? random_between(&random, 1, MOST) : 0;
        pattern_write(peer, t.seed, written, ahead);
        turn_through(rig.loop, random_between(&random, 0, 2));
        bool waits = take(&t, random_between(&random, 1, MOST));
        for (unsigned turns = random_between(&random, 0, 3); turns > 0; turns--)
            assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
        pattern_write(peer, t.seed, written + ahead, later);
        written += ahead + later;
        for (unsigned turns = random_between(&random, 0, 2); turns > 0; turns--)
            assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
        sluice_conn_receive_cancel(t.conn);
        sluice_conn_receive_cancel(t.conn);
        if (random_between(&random, 0, 1))
            sluice_conn_pause(t.conn);
        turn_until_told(&rig, &t);
        sluice_conn_resume(t.conn);
        assert_false(t.differs);
        assert_int_equal(t.error, t.done == t.n ? 0 : -ECANCELED);
        whole += waits && t.error == 0;
        cancelled += t.error != 0;
        partly += t.error != 0 && t.done > 0;
        /* The next round begins with nothing, or a part, or all of what has been written. */
        size_t rest = written - t.place;
        consume(&rig, &t, round % 3 == 0 ? rest : round % 3 == 1 ? rest / 2 : 0);
    }
    consume(&rig, &t, written - t.place);
    assert_true(whole > 0 && partly > 0 && cancelled > partly);
    assert_true(direct(&rig) > 0);
    rig_close(&rig, &t, peer);
}

/* Cancelled before anything has come, once the kernel has the memory and before. */
static void an_idle_receive_can_be_cancelled(void **state) {
    for (unsigned turns = 0; turns < 4; turns++) {
        loop_rig rig;
        taker t = {.seed = 6};
        rig_open(&rig, state, NULL);
        int peer = taker_open(&t, &rig);
        turn_through(rig.loop, turns % 2);
        assert_true(take(&t, 1000));
        turn_through(rig.loop, turns);
        sluice_conn_receive_cancel(t.conn);
        assert_int_equal(t.told, 0);
        turn_until_told(&rig, &t);
        assert_int_equal(t.error, -ECANCELED);
        assert_int_equal(t.done, 0);
        assert_int_equal(t.data, 0);
        pattern_write(peer, t.seed, 0, 1000);
        consume(&rig, &t, 1000);
        rig_close(&rig, &t, peer);
    }
}

/* The end in the middle of a value: seen by what was armed for blocks, by the receive into the
 * memory, or before. */
static void an_early_end_tells_the_exact_count(void **state) {
    static const size_t counts[] = {0, 1, BLOCK, 50000};
    for (size_t i = 0; i < 3 * sizeof counts / sizeof *counts; i++) {
        size_t count = counts[i / 3];
        loop_rig rig;
        taker t = {.seed = 7};
        rig_open(&rig, state, NULL);
        int peer = taker_open(&t, &rig);
        turn_through(rig.loop, 2);
        if (i % 3 == 0) {
            pattern_write(peer, t.seed, 0, count);
            shutdown(peer, SHUT_WR);
        }
        if (i % 3 < 2)
            assert_true(take(&t, count + 1));
        turn_through(rig.loop, 3);
        if (i % 3 > 0) {
            pattern_write(peer, t.seed, 0, count);
            shutdown(peer, SHUT_WR);
        }
        if (i % 3 == 2) {
            turn_until_count(rig.loop, &t.ends, 1);
            assert_true(take(&t, count + 1));
        }
        turn_until_told(&rig, &t);
        assert_int_equal(t.error, -ENODATA);
        assert_int_equal(t.done, count);
        turn_until_count(rig.loop, &t.ends, 1);
        assert_int_equal(t.end_error, 0);
        /* And once more. */
        assert_true(take(&t, 1));
        turn_until_told(&rig, &t);
        assert_int_equal(t.error, -ENODATA);
        assert_int_equal(t.done, 0);
        turn_through(rig.loop, 3);
        assert_int_equal(t.ends, 1);
        rig_close(&rig, &t, peer);
    }
}

/* What has come before the end can still be taken after it. */
static void the_last_bytes_can_be_taken_after_the_end(void **state) {
    loop_rig rig;
    taker t = {.seed = 8};
    rig_open(&rig, state, NULL);
    int peer = taker_open(&t, &rig);
    pattern_write(peer, t.seed, 0, 10000);
    shutdown(peer, SHUT_WR);
    turn_until_count(rig.loop, &t.ends, 1);
    assert_false(take(&t, 6000));
    assert_true(take(&t, 6000));
    turn_until_told(&rig, &t);
    assert_int_equal(t.error, -ENODATA);
    assert_int_equal(t.done, 4000);
    assert_int_equal(t.place, 10000);
    assert_int_equal(t.ends, 1);
    rig_close(&rig, &t, peer);
}

/* It must not be taken for an end. */
static void a_reset_is_told_with_the_exact_count(void **state) {
    static const size_t counts[] = {0, 1, 30000};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        loop_rig rig;
        taker t = {.seed = 9};
        rig_open(&rig, state, NULL);
        int peer = taker_open(&t, &rig);
        assert_true(take(&t, 100000));
        turn_through(rig.loop, 3);
        pattern_write(peer, t.seed, 0, counts[i]);
        while (direct(&rig) < counts[i])
            turn(rig.loop);
        turn_through(rig.loop, 3);
        sockets_reset_on_close(peer);
        close(peer);
        turn_until_told(&rig, &t);
        assert_int_equal(t.error, -ECONNRESET);
        assert_int_equal(t.done, counts[i]);
        turn_until_count(rig.loop, &t.ends, 1);
        assert_int_equal(t.end_error, -ECONNRESET);
        assert_true(take(&t, 10));
        turn_until_told(&rig, &t);
        assert_int_equal(t.error, -ECONNRESET);
        assert_int_equal(t.done, 0);
        rig_close(&rig, &t, -1);
    }
}

/* What fails is the other direction. */
static size_t gather_byte(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    static char byte;
    (void)conn, (void)max, (void)user;
    iov[0] = (struct iovec){&byte, 1};
    return 1;
}

static void a_failed_send_ends_it(void **state) {
    static const sluice_conn_events events = {.size = sizeof events,
                                              .on_data = taker_data,
                                              .on_end = taker_end,
                                              .on_closed = taker_closed,
                                              .on_gather = gather_byte};
    for (unsigned turns = 0; turns < 4; turns += 3) {
        loop_rig rig;
        taker t = {.seed = 10};
        rig_open(&rig, state, NULL);
        int peer = taker_open(&t, &rig);
        sluice_conn_set_events(t.conn, &events, &t);
        turn_through(rig.loop, turns);
        assert_true(take(&t, 5000));
        turn_through(rig.loop, turns);
        if (turns > 0) {
            pattern_write(peer, t.seed, 0, 300);
            while (direct(&rig) < 300)
                turn(rig.loop);
        }
        assert_int_equal(sluice_conn_finish(t.conn), 0);
        sluice_conn_want_send(t.conn);
        turn_until_told(&rig, &t);
        assert_int_equal(t.error, -EPIPE);
        assert_int_equal(t.done, turns > 0 ? 300 : 0);
        turn_until_count(rig.loop, &t.ends, 1);
        assert_int_equal(t.end_error, -EPIPE);
        /* Nothing is written there any more. */
        pattern_write(peer, t.seed, t.place, 100);
        turn_through(rig.loop, 3);
        assert_int_equal(t.told, 1);
        assert_int_equal(t.ends, 1);
        rig_close(&rig, &t, peer);
    }
}

/* At any moment of a stream that goes on: the count is exact, and the memory is not touched once it
 * has been told. */
static void a_close_gives_the_memory_back(void **state) {
    enum { TIMES = 60, VALUE = 300000 };
    uint64_t random = 11;
    for (unsigned i = 0; i < TIMES; i++) {
        loop_rig rig;
        taker t = {.seed = 11 + i};
        socket_writer writer;
        rig_open(&rig, state, NULL);
        int peer = taker_open(&t, &rig);
        socket_writer_start(&writer, peer, t.seed, 10 * VALUE, 1, 8000);
        turn_through(rig.loop, random_between(&random, 0, 2));
        size_t length = sluice_chain_length(sluice_conn_chain(t.conn));
        bool waits = take(&t, length + VALUE);
        assert_true(waits);
        for (unsigned turns = random_between(&random, 0, 6); turns > 0 && t.pending; turns--)
            assert_int_equal(sluice_loop_turn(rig.loop, (int)random_between(&random, 0, 1)), 0);
        bool pending = t.pending;
        sluice_conn_close(t.conn);
        assert_int_equal(t.pending, pending);
        turn_until_count(rig.loop, &t.closed, 1);
        assert_int_equal(t.told, 1);
        assert_true(t.error == -ECANCELED ? t.done < t.n : t.error == 0 && t.done == t.n);
        socket_writer_join(&writer);
        assert_int_equal(t.ends, 0);
        rig_close(&rig, &t, peer);
    }
}

static void a_loop_that_goes_gives_the_memory_back(void **state) {
    loop_rig rig;
    taker t = {.seed = 12};
    rig_open(&rig, state, NULL);
    int peer = taker_open(&t, &rig);
    assert_true(take(&t, 5000));
    turn_through(rig.loop, 3);
    pattern_write(peer, t.seed, 0, 4000);
    while (direct(&rig) < 4000)
        turn(rig.loop);
    sluice_loop_free(rig.loop);
    assert_int_equal(t.told, 1);
    assert_int_equal(t.error, -ECANCELED);
    assert_int_equal(t.done, 4000);
    rig.loop = NULL;
    rig_close(&rig, &t, peer);
}

/* A pause is about blocks: before, while and after. */
static void a_paused_connection_receives_it_and_no_more(void **state) {
    enum { VALUE = 50000 };
    for (int when = 0; when < 3; when++) {
        loop_rig rig;
        taker t = {.seed = 13};
        rig_open(&rig, state, NULL);
        int peer = taker_open(&t, &rig);
        turn_through(rig.loop, 2);
        if (when == 0) {
            sluice_conn_pause(t.conn);
            turn_through(rig.loop, 3);
        }
        assert_true(take(&t, VALUE));
        if (when == 1)
            sluice_conn_pause(t.conn);
        turn_through(rig.loop, 3);
        if (when == 2) {
            sluice_conn_pause(t.conn);
            sluice_conn_resume(t.conn);
            sluice_conn_pause(t.conn);
        }
        pattern_write(peer, t.seed, 0, VALUE + 1000);
        turn_until_told(&rig, &t);
        assert_int_equal(t.done, VALUE);
        assert_int_equal(direct(&rig), VALUE);
        turn_through(rig.loop, 5);
        assert_int_equal(sluice_chain_length(sluice_conn_chain(t.conn)), 0);
        assert_int_equal(t.data, 0);
        sluice_conn_resume(t.conn);
        consume(&rig, &t, 1000);
        rig_close(&rig, &t, peer);
    }
}

static void it_needs_no_block(void **state) {
    enum { VALUE = 2 * SMALL * BLOCK };
    loop_rig rig;
    taker t = {.seed = 14};
    sluice_block *hoard[SMALL];
    unsigned count = 0;
    socket_writer writer;
    rig_open(&rig, state, &small_pool);
    int peer = taker_open(&t, &rig);
    turn_through(rig.loop, 3);
    while (count < SMALL && sluice_block_get(rig.pool, &hoard[count]) == 0)
        count++;
    assert_true(count > SMALL / 2);
    /* What blocks the kernel has fill up, and the connection waits for more. */
    socket_writer_start(&writer, peer, t.seed, VALUE + 10000, 1, 20000);
    while (loop_rig_waiting(&rig) == 0 || sluice_pool_available(rig.pool) > 0)
        turn_through(rig.loop, 1);
    assert_true(sluice_chain_length(sluice_conn_chain(t.conn)) < VALUE);
    /* The copied blocks go to the hoard as well. */
    assert_true(take(&t, VALUE));
    while (count < SMALL && sluice_block_get(rig.pool, &hoard[count]) == 0)
        count++;
    turn_until_told(&rig, &t);
    assert_int_equal(t.error, 0);
    while (loop_rig_waiting(&rig) == 0)
        turn_through(rig.loop, 1);
    assert_int_equal(sluice_chain_length(sluice_conn_chain(t.conn)), 0);
    while (count > 0)
        sluice_block_release(hoard[--count]);
    consume(&rig, &t, 10000);
    assert_int_equal(t.place, VALUE + 10000);
    socket_writer_join(&writer);
    rig_close(&rig, &t, peer);
}

/* Under pressure the next bytes are awaited behind the last ones, in the same block. */
static void a_receive_behind_the_last_bytes_gives_way(void **state) {
    enum { HOARD = 40 };
    loop_rig rig;
    taker t = {.seed = 15};
    sluice_block *hoard[HOARD];
    sluice_slice kept;
    rig_open(&rig, state, &small_pool);
    for (int i = 0; i < HOARD; i++)
        assert_int_equal(sluice_block_get(rig.pool, &hoard[i]), 0);
    int peer = taker_open(&t, &rig);
    pattern_write(peer, t.seed, 0, 100);
    turn_until_buffered(rig.loop, t.conn, 100);
    turn_through(rig.loop, 3);
    assert_int_equal(sluice_chain_take(sluice_conn_chain(t.conn), 50, &kept), 0);
    t.place = 50;
    assert_true(take(&t, 1000));
    turn_through(rig.loop, 3);
    pattern_write(peer, t.seed, 100, 1200);
    turn_until_told(&rig, &t);
    assert_int_equal(t.error, 0);
    assert_int_equal(copied(&rig), 50);
    consume(&rig, &t, 250);
    assert_true(pattern_slice_matches(t.seed, 0, &kept));
    sluice_slice_release(&kept);
    for (int i = 0; i < HOARD; i++)
        sluice_block_release(hoard[i]);
    rig_close(&rig, &t, peer);
}

/* A host that polls hears of what was asked for between turns. */
static void an_embedded_loop_is_woken(void **state) {
    loop_rig rig;
    taker t = {.seed = 16};
    rig_open(&rig, state, NULL);
    int fd = sluice_loop_fd(rig.loop);
    assert_true(fd >= 0);
    int peer = taker_open(&t, &rig);
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    for (int i = 0; i < 5; i++) {
        poll(&polled, 1, 0);
        assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
    }
    assert_true(take(&t, 3000));
    pattern_write(peer, t.seed, 0, 1000);
    while (direct(&rig) + copied(&rig) < 1000) {
        assert_true(poll(&polled, 1, sluice_loop_timeout(rig.loop)) >= 0);
        assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
    }
    while (sluice_loop_timeout(rig.loop) == 0)
        assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
    sluice_conn_receive_cancel(t.conn);
    while (t.pending) {
        assert_true(poll(&polled, 1, sluice_loop_timeout(rig.loop)) >= 0);
        assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
    }
    assert_int_equal(t.error, -ECANCELED);
    assert_int_equal(t.done, 1000);
    rig_close(&rig, &t, peer);
}

/* Many at once: each stream goes by turns into memory and through the chain, asked for from inside
 * the callbacks. */
enum { STREAMS = 16, STREAM_BYTES = 2 << 20, LARGEST_VALUE = 100000 };

typedef struct mixer {
    taker t;
    uint64_t random;
    unsigned values;
    size_t wanted; /* through the chain, before the next value */
} mixer;

static void mixer_go_on(mixer *m);

static void mixer_received(sluice_conn *conn, int error, size_t done, void *user) {
    mixer *m = user;
    taker_received(conn, error, done, &m->t);
    m->values++;
    if (!error)
        mixer_go_on(m);
}

/* Takes values until one is still to come, or bytes are to come through the chain. */
static void mixer_go_on(mixer *m) {
    taker *t = &m->t;
    sluice_chain *chain = sluice_conn_chain(t->conn);
    for (;;) {
        if (m->wanted == 0)
            m->wanted = random_between(&m->random, 0, 3) ? random_between(&m->random, 1, 10000) : 0;
        if (sluice_chain_length(chain) < m->wanted) {
            sluice_conn_set_need(t->conn, m->wanted);
            return;
        }
        t->differs |= !pattern_consume(chain, m->wanted, t->seed, &t->place);
        m->wanted = 0;
        t->n = random_between(&m->random, 1, LARGEST_VALUE);
        t->memory = malloc(t->n + MARGIN);
        assert_non_null(t->memory);
        memset(t->memory, UNTOUCHED, t->n + MARGIN);
        t->pending = true;
        if (sluice_conn_receive_into(t->conn, t->memory, t->n, mixer_received, m) == 0)
            return;
        t->pending = false;
        check_memory(t, t->n);
        m->values++;
    }
}

static void mixer_data(sluice_conn *conn, void *user) {
    mixer *m = user;
    taker_data(conn, &m->t);
    /* The rest at the end need not be what was asked for. */
    if (sluice_chain_length(sluice_conn_chain(conn)) >= m->wanted)
        mixer_go_on(m);
}

static void mixer_end(sluice_conn *conn, int error, void *user) {
    mixer *m = user;
    sluice_chain *chain = sluice_conn_chain(conn);
    taker_end(conn, error, &m->t);
    m->t.differs |= !pattern_consume(chain, sluice_chain_length(chain), m->t.seed, &m->t.place);
    sluice_conn_close(conn);
}

static void mixer_closed(sluice_conn *conn, void *user) {
    mixer *m = user;
    taker_closed(conn, &m->t);
}

static void mix(void **state, const sluice_pool_options *pool) {
    static const sluice_conn_events events = {
        .size = sizeof events, .on_data = mixer_data, .on_end = mixer_end, .on_closed = mixer_closed};
    loop_rig rig;
    mixer mixers[STREAMS] = {0};
    socket_writer writers[STREAMS];
    int fds[STREAMS][2];
    rig_open(&rig, state, pool);
    for (uint32_t i = 0; i < STREAMS; i++) {
        mixers[i].t.seed = 100 + i;
        mixers[i].random = 1000 * i;
        if (i % 2)
            sockets_tcp_pair(fds[i]);
        else
            sockets_unix_pair(fds[i]);
        assert_int_equal(sluice_conn_new(rig.loop, fds[i][0], &events, &mixers[i], &mixers[i].t.conn), 0);
        socket_writer_start(&writers[i], fds[i][1], 100 + i, STREAM_BYTES, 1, i % 3 ? 30000 : 600);
    }
    for (uint32_t i = 0; i < STREAMS; i++) {
        turn_until_count(rig.loop, &mixers[i].t.closed, 1);
        socket_writer_join(&writers[i]);
        close(fds[i][1]);
        assert_false(mixers[i].t.differs);
        assert_false(mixers[i].t.early);
        assert_int_equal(mixers[i].t.place, STREAM_BYTES);
        assert_int_equal(mixers[i].t.end_error, 0);
        assert_int_equal(mixers[i].t.ends, 1);
        assert_true(mixers[i].values > 5);
    }
    assert_true(direct(&rig) > 0);
    sluice_loop_free(rig.loop);
    feed_assert_returned(rig.pool);
    sluice_pool_free(rig.pool);
    hang_guard(0);
}

static void many_mix_both_styles(void **state) {
    mix(state, NULL);
}

static void many_mix_both_styles_under_pressure(void **state) {
    mix(state, &small_pool);
}

#define ON_BOTH(test)                                                                                                  \
    {#test " (io_uring)", test, NULL, NULL, (void *)&both[0]}, {                                                       \
#test " (epoll)", test, NULL, NULL, (void *)&both[1]                                                           \
    }

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_BOTH(arguments_are_checked),
        ON_BOTH(values_of_all_sizes),
        ON_BOTH(what_comes_later_is_not_copied),
        ON_BOTH(no_byte_behind_is_taken),
        ON_BOTH(what_is_in_blocks_already_comes_first),
        ON_BOTH(a_cancel_loses_nothing),
        ON_BOTH(an_idle_receive_can_be_cancelled),
        ON_BOTH(an_early_end_tells_the_exact_count),
        ON_BOTH(the_last_bytes_can_be_taken_after_the_end),
        ON_BOTH(a_reset_is_told_with_the_exact_count),
        ON_BOTH(a_failed_send_ends_it),
        ON_BOTH(a_close_gives_the_memory_back),
        ON_BOTH(a_loop_that_goes_gives_the_memory_back),
        ON_BOTH(a_paused_connection_receives_it_and_no_more),
        ON_BOTH(it_needs_no_block),
        ON_BOTH(a_receive_behind_the_last_bytes_gives_way),
        ON_BOTH(an_embedded_loop_is_woken),
        ON_BOTH(many_mix_both_styles),
        ON_BOTH(many_mix_both_styles_under_pressure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
