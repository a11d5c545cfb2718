/* Connections: arguments, how they close, and lives by chance. */
#include <sluice/conn.h>

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/loop.h>

#include "memory/chain.h"
#include "support/conn_rig.h"
#include "support/sockets.h"

static void arguments_are_checked(void **state) {
    (void)state;
    loop_rig rig;
    receiver r = {0};
    int fds[2];
    sluice_conn *const untouched = (sluice_conn *)(void *)&r;
    sluice_conn *conn = untouched;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    assert_int_equal(sluice_conn_new(rig.loop, -1, &receiver_events, &r, &conn), -EINVAL);
    sockets_unix_pair(fds);
    assert_int_equal(sluice_conn_new(rig.loop, fds[0], NULL, &r, &conn), -EINVAL);
    assert_ptr_equal(conn, untouched);
    /* The descriptor is still the caller's. */
    assert_int_equal(sluice_conn_new(rig.loop, fds[0], &receiver_events, &r, &conn), 0);
    assert_int_equal(sluice_conn_fd(conn), fds[0]);
    assert_ptr_equal(sluice_conn_loop(conn), rig.loop);
    assert_false(sluice_conn_is_sending(conn));
    assert_int_equal(stats_of(rig.loop).connections, 1);
    sluice_conn_close(conn);
    sluice_conn_close(NULL);
    turn_until_count(rig.loop, &r.closed, 1);
    assert_int_equal(stats_of(rig.loop).connections, 0);
    assert_int_equal(fcntl(fds[0], F_GETFD), -1);
    close(fds[1]);
    loop_rig_close(&rig);
}

/* Closing. */

enum closer_call { ON_DATA, ON_END, ON_FAILURE, ON_GATHER, ON_SENT, ON_CLOSED, CALLS };

typedef struct closer {
    enum closer_call where;
    unsigned calls[CALLS];
    unsigned after; /* calls after the close, but for on_closed */
    bool closing;
} closer;

static void closer_called(closer *c, sluice_conn *conn, enum closer_call which) {
    c->calls[which]++;
    c->after += c->closing && which != ON_CLOSED;
    if (which == c->where) {
        sluice_conn_close(conn);
        sluice_conn_close(conn);
        c->closing = true;
    }
}

static void closer_data(sluice_conn *conn, void *user) {
    closer_called(user, conn, ON_DATA);
}

static void closer_end(sluice_conn *conn, int error, void *user) {
    closer_called(user, conn, error ? ON_FAILURE : ON_END);
}

static size_t closer_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    static uint8_t bytes[1000];
    assert_true(max > 0);
    closer_called(user, conn, ON_GATHER);
    iov[0] = (struct iovec){bytes, sizeof bytes};
    return 1;
}

static void closer_sent(sluice_conn *conn, size_t bytes, void *user) {
    (void)bytes;
    closer_called(user, conn, ON_SENT);
}

static void closer_closed(sluice_conn *conn, void *user) {
    closer_called(user, conn, ON_CLOSED);
}

static const sluice_conn_events closer_events = {.size = sizeof closer_events,
                                                 .on_data = closer_data,
                                                 .on_end = closer_end,
                                                 .on_gather = closer_gather,
                                                 .on_sent = closer_sent,
                                                 .on_closed = closer_closed};

static void any_call_may_close(void **state) {
    (void)state;
    for (enum closer_call where = ON_DATA; where < CALLS; where++) {
        loop_rig rig;
        closer c = {.where = where};
        sluice_conn *conn;
        int fds[2];
        loop_rig_open(&rig, NULL, NULL, GUARD);
        sockets_tcp_pair(fds);
        assert_int_equal(sluice_conn_new(rig.loop, fds[0], &closer_events, &c, &conn), 0);
        pattern_write(fds[1], SEED, 0, 100000);
        if (where == ON_END)
            shutdown(fds[1], SHUT_WR);
        if (where == ON_GATHER || where == ON_SENT)
            sluice_conn_want_send(conn);
        if (where == ON_FAILURE)
            sockets_reset_on_close(fds[1]);
        if (where == ON_CLOSED) {
            turn_until_count(rig.loop, &c.calls[ON_DATA], 1);
            sluice_conn_close(conn);
            c.closing = true;
        }
        if (where == ON_FAILURE || where == ON_CLOSED)
            close(fds[1]);
        turn_until_count(rig.loop, &c.calls[ON_CLOSED], 1);
        assert_int_equal(c.calls[where], 1);
        assert_int_equal(c.after, 0);
        if (where != ON_FAILURE && where != ON_CLOSED)
            close(fds[1]);
        loop_rig_close(&rig);
        assert_int_equal(c.calls[ON_CLOSED], 1);
        assert_int_equal(c.after, 0);
    }
}

typedef struct rivals {
    sluice_conn *conns[2];
    unsigned data, closed;
} rivals;

static void rival_data(sluice_conn *conn, void *user) {
    rivals *r = user;
    r->data++;
    sluice_conn_close(r->conns[conn == r->conns[0]]);
}

static void rival_closed(sluice_conn *conn, void *user) {
    rivals *r = user;
    (void)conn;
    r->closed++;
}

/* Both have data in the same turn; who is told first closes the other, which then is told
 * nothing. */
static void a_call_may_close_another_connection(void **state) {
    (void)state;
    static const sluice_conn_events events = {.size = sizeof events, .on_data = rival_data, .on_closed = rival_closed};
    loop_rig rig;
    rivals r = {0};
    int fds[2][2];
    loop_rig_open(&rig, NULL, NULL, GUARD);
    for (int i = 0; i < 2; i++) {
        sockets_unix_pair(fds[i]);
        sockets_write(fds[i][1], "x", 1);
        assert_int_equal(sluice_conn_new(rig.loop, fds[i][0], &events, &r, &r.conns[i]), 0);
    }
    turn_until_count(rig.loop, &r.closed, 1);
    assert_int_equal(r.data, 1);
    loop_rig_close(&rig);
    assert_int_equal(r.data, 1);
    assert_int_equal(r.closed, 2);
    close(fds[0][1]);
    close(fds[1][1]);
}

static void a_close_with_data_in_flight_returns_all_blocks(void **state) {
    (void)state;
    for (int i = 0; i < 30; i++) {
        loop_rig rig;
        receiver r = {.seed = SEED, .leaves = true};
        socket_writer writer;
        sluice_pool_stats stats = {.size = sizeof stats};
        loop_rig_open(&rig, NULL, NULL, GUARD);
        int peer = receiver_open(&r, &rig, i % 2 ? sockets_tcp_pair : sockets_unix_pair);
        socket_writer_start(&writer, peer, SEED, UINT64_MAX, 1, 100000);
        if (i % 3)
            turn_until_count(rig.loop, &r.data, 1);
        if (i % 5 == 0)
            sluice_conn_pause(r.conn);
        r.closed = 0;
        sluice_conn_close(r.conn);
        sluice_conn_close(r.conn);
        assert_int_equal(r.closed, 0);
        turn_until_count(rig.loop, &r.closed, 1);
        sluice_pool_get_stats(rig.pool, &stats);
        assert_int_equal(stats.held, 0);
        socket_writer_join(&writer);
        assert_true(writer.broken);
        close(peer);
        loop_rig_close(&rig);
        assert_int_equal(r.closed, 1);
        assert_false(r.late);
    }
}

/* Lives: connections come, say something, and go. */

static void actor_close(actor *a) {
    a->closing = true;
    sluice_conn_close(a->conn);
}

static void actor_consume(actor *a) {
    sluice_chain *chain = sluice_conn_chain(a->conn);
    size_t length = sluice_chain_length(chain);
    if (length > 0 && random_between(&a->stage->random, 0, 2) > 0)
        length = random_between(&a->stage->random, 0, (uint32_t)length);
    wrong(a->stage, !chain_is_sound(chain), "a chain is not sound");
    wrong(a->stage, !pattern_consume(chain, length, a->seed, &a->place), "received bytes differ");
}

static void actor_fidget(actor *a) {
    switch (random_between(&a->stage->random, 0, 60)) {
    case 0:
        actor_close(a);
        break;
    case 1:
    case 2:
        sluice_conn_pause(a->conn);
        break;
    case 3:
    case 4:
    case 5:
        sluice_conn_resume(a->conn);
        break;
    case 6:
        sluice_conn_set_need(a->conn, random_between(&a->stage->random, 0, 9000));
        break;
    case 7:
        sluice_conn_want_send(a->conn);
        break;
    case 8:
        assert_int_equal(sluice_conn_set_timeout(a->conn, random_between(&a->stage->random, 0, 3)), 0);
        break;
    default:
        break;
    }
}

static void actor_data(sluice_conn *conn, void *user) {
    actor *a = user;
    wrong(a->stage, a->closing, "data after a close");
    wrong(a->stage, a->failed, "data after a failure");
    wrong(a->stage, conn != a->conn, "another connection's data");
    actor_consume(a);
    actor_fidget(a);
}

static void actor_end(sluice_conn *conn, int error, void *user) {
    actor *a = user;
    wrong(a->stage, a->closing, "an end after a close");
    wrong(a->stage, a->failed, "an end after a failure");
    if (error == -ETIMEDOUT) {
        wrong(a->stage, a->finished, "silence after the end");
        sluice_conn_resume(conn);
        return;
    }
    wrong(a->stage, error == 0 && a->finished, "a second end");
    wrong(a->stage, error == 0 && !a->peer_finished, "an end that the peer has not made");
    a->finished = true;
    a->failed = error != 0;
    actor_fidget(a);
}

static size_t actor_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    actor *a = user;
    stage *s = a->stage;
    size_t count = random_between(&s->random, 0, max < 30 ? (uint32_t)max : 30);
    uint64_t at = a->sent;
    (void)conn;
    wrong(s, a->closing || a->failed, "a gather after the end");
    for (size_t i = 0; i < count; i++) {
        size_t n = random_between(&s->random, 1, 3000);
        if (n > sizeof s->bytes - at % sizeof s->bytes)
            n = sizeof s->bytes - at % sizeof s->bytes;
        iov[i] = (struct iovec){s->bytes + at % sizeof s->bytes, n};
        at += n;
    }
    a->gathered = at - a->sent;
    actor_fidget(a);
    return count;
}

static void actor_sent(sluice_conn *conn, size_t bytes, void *user) {
    actor *a = user;
    (void)conn;
    wrong(a->stage, a->closing, "sent after a close");
    wrong(a->stage, bytes > a->gathered, "more sent than gathered");
    a->sent += bytes;
    actor_fidget(a);
}

static void actor_closed(sluice_conn *conn, void *user) {
    actor *a = user;
    wrong(a->stage, !a->closing || a->conn != conn, "closed unasked");
    a->conn = NULL;
}

static const sluice_conn_events actor_events = {.size = sizeof actor_events,
                                                .on_data = actor_data,
                                                .on_end = actor_end,
                                                .on_gather = actor_gather,
                                                .on_sent = actor_sent,
                                                .on_closed = actor_closed};

static void actor_begin(stage *s, actor *a) {
    int fds[2];
    if (random_between(&s->random, 0, 1))
        sockets_tcp_pair(fds);
    else
        sockets_unix_pair(fds);
    *a = (actor){.stage = s, .peer = fds[1], .seed = ++s->born};
    assert_int_equal(sluice_conn_new(s->rig.loop, fds[0], &actor_events, a, &a->conn), 0);
}

static void actor_peer_writes(actor *a) {
    uint8_t bytes[9000];
    size_t n = random_between(&a->stage->random, 0, 3) ? random_between(&a->stage->random, 1, 200)
                                                       : random_between(&a->stage->random, 1, sizeof bytes);
    if (a->peer_finished)
        return;
    pattern_fill(a->seed, a->written, bytes, n);
    ssize_t sent = send(a->peer, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0)
        a->written += (uint64_t)sent;
}

static void actor_peer_reads(actor *a) {
    uint8_t bytes[20000];
    ssize_t got = recv(a->peer, bytes, random_between(&a->stage->random, 1, sizeof bytes), MSG_DONTWAIT);
    for (ssize_t i = 0; i < got; i++, a->read++)
        wrong(a->stage, bytes[i] != a->stage->bytes[a->read % sizeof a->stage->bytes], "sent bytes differ");
}

static void actor_peer_ends(actor *a) {
    switch (random_between(&a->stage->random, 0, 2)) {
    case 0:
        shutdown(a->peer, SHUT_WR);
        break;
    case 1:
        sockets_reset_on_close(a->peer);
        /* fall through */
    default:
        close(a->peer);
        a->peer = -1;
        break;
    }
    a->peer_finished = true;
}

static void stage_hoard(stage *s) {
    while (s->hoarded > 0)
        sluice_block_release(s->hoard[--s->hoarded]);
    uint32_t count = random_between(&s->random, 0, s->most_hoarded);
    while (s->hoarded < count && sluice_block_get(s->rig.pool, &s->hoard[s->hoarded]) == 0)
        s->hoarded++;
}

static void actor_acts(actor *a) {
    stage *s = a->stage;
    uint32_t what = random_between(&s->random, 0, 99);
    if (what < 40 && a->peer >= 0)
        actor_peer_writes(a);
    else if (what < 50 && a->peer >= 0)
        actor_peer_reads(a);
    else if (what < 51 && a->peer >= 0)
        actor_peer_ends(a);
    else if (what < 60 && a->conn && !a->closing)
        actor_consume(a);
    else if (what < 70 && a->conn && !a->closing)
        actor_fidget(a);
    else if (what < 75 && a->conn && !a->closing)
        sluice_conn_resume(a->conn);
    else if (what < 76)
        stage_hoard(s);
    else if (what < 77 && a->conn && !a->closing && a->peer < 0)
        actor_close(a);
    else if (what > 85)
        assert_int_equal(sluice_loop_turn(s->rig.loop, 0), 0);
}

static void live_at_random(const sluice_pool_options *options, uint32_t most_hoarded, unsigned steps) {
    stage *s = calloc(1, sizeof *s);
    assert_non_null(s);
    loop_rig_open(&s->rig, options, NULL, GUARD);
    s->most_hoarded = most_hoarded;
    pattern_fill(SEED, 0, s->bytes, sizeof s->bytes);
    for (int i = 0; i < ACTORS; i++)
        actor_begin(s, &s->actors[i]);
    for (unsigned step = 0; step < steps && !s->wrong; step++) {
        actor *a = &s->actors[random_between(&s->random, 0, ACTORS - 1)];
        if (!a->conn) {
            if (a->peer >= 0)
                close(a->peer);
            actor_begin(s, a);
        }
        actor_acts(a);
    }
    if (s->wrong)
        fail_msg("%s", s->what);
    s->most_hoarded = 0;
    stage_hoard(s);
    for (int i = 0; i < ACTORS; i++)
        s->actors[i].closing = true;
    loop_rig_close(&s->rig);
    assert_true(s->born > ACTORS);
    for (int i = 0; i < ACTORS; i++) {
        assert_null(s->actors[i].conn);
        if (s->actors[i].peer >= 0)
            close(s->actors[i].peer);
    }
    if (s->wrong)
        fail_msg("%s", s->what);
    free(s);
}

static void random_lives_with_memory_to_spare(void **state) {
    (void)state;
    live_at_random(NULL, 0, 150000);
}

static void random_lives_under_pressure(void **state) {
    (void)state;
    sluice_pool_options options = {
        .size = sizeof options, .slab_blocks = 8, .max_blocks = 64, .reserve_blocks = 4, .no_huge_pages = true};
    live_at_random(&options, HOARD, 300000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(any_call_may_close),
        cmocka_unit_test(a_call_may_close_another_connection),
        cmocka_unit_test(a_close_with_data_in_flight_returns_all_blocks),
        cmocka_unit_test(random_lives_with_memory_to_spare),
        cmocka_unit_test(random_lives_under_pressure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
