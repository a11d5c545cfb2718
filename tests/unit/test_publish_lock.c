/*
 * Claims of a stream's name, as the kernel sees the connection of who has it: whether its end has
 * been read or not. On both backends.
 */
#include "daemon/relay/publish_lock.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/relay/player_list.h"
#include "daemon/relay/registry.h"
#include "daemon/server/publisher.h"
#include "daemon/server/session.h"
#include "support/files.h"

enum { PEERS = 3, UNDECIDED = 77, A_TURN = 32, MANY = 3000, POLLS = 2 };

typedef struct claim_rig claim_rig;

/* A publisher that takes a stream, and leaves it when it reads its peer's end. */
typedef struct claimant {
    claim_rig *rig;
    struct session session;
    struct stream_source source;
    struct publish_waiter waiter;
    int peer; /* -1: closed */
    int verdict, kicked;
    unsigned decisions, closed;
    bool has;
} claimant;

struct claim_rig {
    loop_rig loop;
    struct stream_policies policies;
    struct registry *registry;
    struct stream *stream;
    claimant claimants[PEERS];
};

static void leave(claimant *c) {
    if (!c->has)
        return;
    c->has = false;
    stream_detach(c->rig->stream, sluice_loop_now(c->rig->loop.loop));
}

static void on_end(sluice_conn *conn, int error, void *user) {
    claimant *c = user;
    (void)conn;
    (void)error;
    publish_lock_cancel(&c->waiter);
    leave(c);
}

static void on_closed(sluice_conn *conn, void *user) {
    claimant *c = user;
    (void)conn;
    c->closed++;
}

static const sluice_conn_events events = {.size = sizeof events, .on_end = on_end, .on_closed = on_closed};

static void decided(struct publish_waiter *waiter, int error) {
    claimant *c = (claimant *)((char *)waiter - offsetof(claimant, waiter));
    c->verdict = error;
    c->decisions++;
    c->has = error == 0;
}

static void kick(struct session *session, int error) {
    claimant *c = (claimant *)((char *)session - offsetof(claimant, session));
    c->kicked = error;
    leave(c);
}

static const struct session_type type = {.protocol = "test", .kick = kick};
static const struct session_type pull_type = {.protocol = "test", .pulls = true, .kick = kick};

static void open_claimant(claim_rig *rig, claimant *c, unsigned number) {
    int fds[2];
    sockets_tcp_pair(fds);
    *c = (claimant){.rig = rig, .peer = fds[1], .verdict = UNDECIDED, .waiter.decided = decided};
    snprintf(c->source.peer, sizeof c->source.peer, "192.0.2.%u:1000", number);
    c->source.protocol = "test";
    c->source.session = &c->session;
    c->source.calls = &publisher_calls;
    c->session.type = &type;
    assert_int_equal(sluice_conn_new(rig->loop.loop, fds[0], &events, c, &c->session.conn), 0);
}

static void open_rig(claim_rig *rig, void **state) {
    *rig = (claim_rig){.policies.all = {.gop_size = 1 << 20, .player_buffer = 4 << 20, .resume_ms = 1000}};
    const struct stream_limits limits = {.policies = &rig->policies};
    files_rig_open(&rig->loop, NULL, state);
    assert_int_equal(registry_new(rig->loop.loop, &limits, &rig->registry), 0);
    assert_int_equal(registry_get(rig->registry, "live/a", 6, 0, &rig->stream), 0);
    for (unsigned i = 0; i < PEERS; i++)
        open_claimant(rig, &rig->claimants[i], i);
}

static void close_rig(claim_rig *rig) {
    for (unsigned i = 0; i < PEERS; i++) {
        claimant *c = &rig->claimants[i];
        publish_lock_cancel(&c->waiter);
        leave(c);
        sluice_conn_close(c->session.conn);
        turn_until_count(rig->loop.loop, &c->closed, 1);
        if (c->peer >= 0)
            close(c->peer);
    }
    stream_unref(rig->stream);
    assert_int_equal(rig->registry->count, 0);
    assert_null(rig->registry->locks.due.first);
    assert_null(rig->registry->locks.waiting.first);
    registry_free(rig->registry);
    files_rig_close(&rig->loop);
}

static int waiter(claim_rig *rig, unsigned number) {
    claimant *c = &rig->claimants[number];
    int result = publish_lock_acquire(&c->waiter, rig->stream, &c->source);
    c->has = result == 0;
    return result;
}

/* What it is told after it has waited for so long. */
static int decide_after(claim_rig *rig, unsigned number, uint64_t waited) {
    claimant *c = &rig->claimants[number];
    c->waiter.since = sluice_loop_now(rig->loop.loop) - waited;
    publish_locks_decide(&rig->registry->locks);
    return c->verdict;
}

/* Nothing of it has been read: no turn comes before the claims. */
static void end_peer(claim_rig *rig, unsigned number, bool reset) {
    claimant *c = &rig->claimants[number];
    static const char rest[100000];
    sockets_write(c->peer, rest, sizeof rest);
    if (reset)
        sockets_reset_on_close(c->peer);
    close(c->peer);
    c->peer = -1;
}

static void turn_until_decided(claim_rig *rig, unsigned number, int verdict) {
    turn_until_count(rig->loop.loop, &rig->claimants[number].decisions, 1);
    assert_int_equal(rig->claimants[number].verdict, verdict);
}

/* The first has the name. */
static void open_held(claim_rig *rig, void **state) {
    open_rig(rig, state);
    assert_int_equal(waiter(rig, 0), 0);
}

/* The first has the name and has gone, which nobody has read yet; the second waits for it. */
static void open_left(claim_rig *rig, void **state) {
    open_held(rig, state);
    end_peer(rig, 0, false);
    assert_int_equal(waiter(rig, 1), 1);
}

static void a_free_name_is_taken_and_a_held_one_refused(void **state) {
    claim_rig rig;
    open_held(&rig, state);
    assert_true(publish_lock_is_held(rig.stream));
    assert_int_equal(waiter(&rig, 1), 1);
    assert_int_equal(decide_after(&rig, 1, PUBLISH_LOCK_MS - 1), UNDECIDED);
    assert_int_equal(decide_after(&rig, 1, PUBLISH_LOCK_MS), -EEXIST);
    leave(&rig.claimants[0]);
    assert_false(publish_lock_is_held(rig.stream));
    assert_int_equal(waiter(&rig, 2), 0);
    assert_int_equal(rig.claimants[0].decisions + rig.claimants[2].decisions, 0);
    close_rig(&rig);
}

static void come_back(void **state, bool reset) {
    claim_rig rig;
    open_held(&rig, state);
    end_peer(&rig, 0, reset);
    assert_false(publish_lock_is_held(rig.stream));
    assert_int_equal(waiter(&rig, 1), 1);
    assert_true(rig.stream->live);
    assert_int_equal(rig.claimants[1].decisions, 0);
    turn_until_decided(&rig, 1, 0);
    assert_string_equal(rig.stream->source.peer, rig.claimants[1].source.peer);
    assert_true(publish_lock_is_held(rig.stream));
    close_rig(&rig);
}

static void who_has_closed_and_comes_back_gets_the_name(void **state) {
    come_back(state, false);
}

static void who_was_reset_and_comes_back_gets_the_name(void **state) {
    come_back(state, true);
}

/* Its end is behind what its kernel has to send yet. */
static void who_comes_back_before_its_end_is_known_gets_the_name(void **state) {
    claim_rig rig;
    open_held(&rig, state);
    assert_int_equal(waiter(&rig, 1), 1);
    turn_through(rig.loop.loop, 4);
    assert_int_equal(rig.claimants[1].decisions, 0);
    end_peer(&rig, 0, false);
    turn_until_decided(&rig, 1, 0);
    close_rig(&rig);
}

static void a_half_closed_connection_is_ending(void **state) {
    claim_rig rig;
    open_held(&rig, state);
    assert_int_equal(shutdown(rig.claimants[0].peer, SHUT_WR), 0);
    assert_int_equal(waiter(&rig, 1), 1);
    turn_until_decided(&rig, 1, 0);
    close_rig(&rig);
}

/* The first of two gets it; the second is told that it is taken. */
static void the_first_claim_gets_the_name(void **state) {
    claim_rig rig;
    open_left(&rig, state);
    assert_int_equal(waiter(&rig, 2), 1);
    turn_until_decided(&rig, 1, 0);
    assert_int_equal(rig.claimants[2].decisions, 0);
    assert_int_equal(decide_after(&rig, 2, PUBLISH_LOCK_MS), -EEXIST);
    close_rig(&rig);
}

/* One that comes back again, and gives up the connection that waited: whichever end is read
 * first. */
static void who_comes_back_twice_gets_the_name(void **state) {
    claim_rig rig;
    open_left(&rig, state);
    end_peer(&rig, 1, false);
    assert_int_equal(waiter(&rig, 2), 1);
    turn_until_decided(&rig, 2, 0);
    close_rig(&rig);
}

/* The name is free, but it has been promised. */
static void nobody_overtakes_a_claim(void **state) {
    claim_rig rig;
    open_left(&rig, state);
    leave(&rig.claimants[0]);
    assert_false(rig.stream->live);
    assert_int_equal(waiter(&rig, 2), 1);
    turn_until_decided(&rig, 1, 0);
    assert_int_equal(rig.claimants[2].decisions, 0);
    assert_int_equal(decide_after(&rig, 2, PUBLISH_LOCK_MS), -EEXIST);
    close_rig(&rig);
}

static void a_claim_withdrawn_is_not_decided(void **state) {
    claim_rig rig;
    open_left(&rig, state);
    assert_int_equal(waiter(&rig, 2), 1);
    leave(&rig.claimants[0]);
    /* The decision has been posted. */
    publish_lock_cancel(&rig.claimants[1].waiter);
    publish_lock_cancel(&rig.claimants[1].waiter);
    turn_until_decided(&rig, 2, 0);
    assert_int_equal(rig.claimants[1].decisions, 0);
    close_rig(&rig);
}

static void a_claim_does_not_wait_for_ever(void **state) {
    claim_rig rig;
    open_left(&rig, state);
    assert_int_equal(decide_after(&rig, 1, PUBLISH_LOCK_ENDING_MS - 1), UNDECIDED);
    assert_int_equal(decide_after(&rig, 1, PUBLISH_LOCK_ENDING_MS), -EEXIST);
    assert_int_equal(rig.claimants[1].decisions, 1);
    close_rig(&rig);
}

/* Kicked while it waited. */
static void who_is_banned_meanwhile_does_not_get_the_name(void **state) {
    claim_rig rig;
    open_left(&rig, state);
    assert_int_equal(
        bans_add(&rig.registry->bans, "live/a", rig.claimants[1].source.peer, 0, UINT32_MAX, &(struct ban_origin){0}),
        0);
    turn_until_decided(&rig, 1, -EKEYREJECTED);
    assert_int_equal(waiter(&rig, 2), 0);
    bans_clear(&rig.registry->bans);
    close_rig(&rig);
}

static void set_policy(claim_rig *rig, enum same_name policy) {
    const struct stream_limits limits = {.policies = &rig->policies};
    rig->policies.all.same_name = policy;
    registry_set_limits(rig->registry, &limits);
}

/* Not before the next turn: who has the name may be what is read now. */
static void who_takes_over_gets_the_name_in_the_next_turn(void **state) {
    claim_rig rig;
    open_rig(&rig, state);
    set_policy(&rig, SAME_NAME_TAKE_OVER);
    assert_int_equal(waiter(&rig, 0), 0);
    assert_int_equal(waiter(&rig, 1), 1);
    assert_int_equal(rig.claimants[0].kicked, 0);
    turn_until_decided(&rig, 1, 0);
    assert_int_equal(rig.claimants[0].kicked, -ESTALE);
    struct stream_totals totals;
    registry_get_totals(rig.registry, &totals);
    assert_int_equal(totals.displaced, 1);
    close_rig(&rig);
}

static void some_take_nothing_over(void **state) {
    claim_rig rig;
    open_rig(&rig, state);
    set_policy(&rig, SAME_NAME_TAKE_OVER);
    assert_int_equal(waiter(&rig, 0), 0);
    rig.claimants[1].session.type = &pull_type;
    assert_int_equal(waiter(&rig, 1), 1);
    assert_int_equal(decide_after(&rig, 1, PUBLISH_LOCK_MS), -EEXIST);
    /* One that has left again. */
    end_peer(&rig, 2, false);
    assert_int_equal(waiter(&rig, 2), 1);
    publish_locks_decide(&rig.registry->locks);
    assert_int_equal(rig.claimants[2].decisions, 0);
    assert_int_equal(decide_after(&rig, 2, PUBLISH_LOCK_MS), -EEXIST);
    assert_int_equal(rig.claimants[0].kicked, 0);
    close_rig(&rig);
}

static void who_may_not_publish_displaces_nobody(void **state) {
    claim_rig rig;
    open_rig(&rig, state);
    set_policy(&rig, SAME_NAME_TAKE_OVER);
    assert_int_equal(waiter(&rig, 0), 0);
    assert_int_equal(
        bans_add(&rig.registry->bans, "live/a", rig.claimants[1].source.peer, 0, UINT32_MAX, &(struct ban_origin){0}),
        0);
    assert_int_equal(waiter(&rig, 1), 1);
    assert_int_equal(decide_after(&rig, 1, PUBLISH_LOCK_MS), -EEXIST);
    assert_int_equal(rig.claimants[0].kicked, 0);
    bans_clear(&rig.registry->bans);
    close_rig(&rig);
}

/* Closed by us, and not gone yet: it is waited for, whatever the policy. */
static void who_is_closed_holds_nothing(void **state) {
    static const enum same_name policies[] = {SAME_NAME_REFUSE, SAME_NAME_TAKE_OVER, SAME_NAME_RESUME};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        claim_rig rig;
        open_rig(&rig, state);
        set_policy(&rig, policies[i]);
        assert_int_equal(waiter(&rig, 0), 0);
        rig.claimants[0].session.closing = true;
        assert_false(publish_lock_is_held(rig.stream));
        assert_int_equal(waiter(&rig, 1), 1);
        assert_int_equal(decide_after(&rig, 1, PUBLISH_LOCK_MS), UNDECIDED);
        leave(&rig.claimants[0]);
        turn_until_decided(&rig, 1, 0);
        assert_int_equal(rig.claimants[0].kicked, 0);
        struct stream_totals totals;
        registry_get_totals(rig.registry, &totals);
        assert_int_equal(totals.displaced, 0);
        close_rig(&rig);
    }
}

static void who_is_closed_while_it_waits_gets_nothing(void **state) {
    claim_rig rig;
    open_held(&rig, state);
    assert_int_equal(waiter(&rig, 1), 1);
    assert_int_equal(waiter(&rig, 2), 1);
    rig.claimants[1].session.closing = true;
    leave(&rig.claimants[0]);
    turn_until_count(rig.loop.loop, &rig.claimants[2].decisions, 1);
    assert_int_equal(rig.claimants[1].verdict, -ECONNRESET);
    assert_int_equal(rig.claimants[2].verdict, 0);
    close_rig(&rig);
}

/* A ban that is over when it gets the name, though it was not when it came. */
static void what_holds_now_is_what_counts(void **state) {
    claim_rig rig;
    open_held(&rig, state);
    uint64_t now = sluice_loop_now(rig.loop.loop);
    assert_int_equal(bans_add(&rig.registry->bans, "live/a", rig.claimants[1].source.peer, now - 1000, 1000,
                              &(struct ban_origin){0}),
                     0);
    rig.claimants[1].source.since = now - 500;
    assert_int_equal(waiter(&rig, 1), 1);
    leave(&rig.claimants[0]);
    turn_until_decided(&rig, 1, 0);
    leave(&rig.claimants[1]);
    /* Likewise a stream that is not kept any more; and one that is, from before it was. */
    set_policy(&rig, SAME_NAME_RESUME);
    publish_lock_reserve(rig.stream, 0, now - 1500);
    rig.claimants[2].source.since = now - 1000;
    assert_int_equal(waiter(&rig, 2), 0);
    leave(&rig.claimants[2]);
    publish_lock_reserve(rig.stream, 0, sluice_loop_now(rig.loop.loop));
    rig.claimants[0].source.since = now - 5000;
    assert_int_equal(waiter(&rig, 0), -EBUSY);
    publish_lock_unreserve(rig.stream);
    bans_clear(&rig.registry->bans);
    close_rig(&rig);
}

/* A connection that has said nothing since the next one of its host came, and none else. */
static void a_lost_connection_gives_way(void **state) {
    claim_rig rig;
    open_rig(&rig, state);
    set_policy(&rig, SAME_NAME_RESUME);
    assert_int_equal(waiter(&rig, 0), 0);
    assert_int_equal(waiter(&rig, 1), 1);
    assert_int_equal(decide_after(&rig, 1, PUBLISH_LOCK_MS), -EEXIST);
    memcpy(rig.claimants[1].source.peer, "192.0.2.0:9", sizeof "192.0.2.0:9");
    rig.claimants[1].verdict = UNDECIDED;
    assert_int_equal(waiter(&rig, 1), 1);
    rig.stream->received_at = sluice_loop_now(rig.loop.loop) - 10;
    assert_int_equal(decide_after(&rig, 1, PUBLISH_LOCK_MS), -EEXIST);
    rig.stream->received_at = sluice_loop_now(rig.loop.loop) - PUBLISH_LOCK_MS - 10;
    rig.claimants[1].verdict = UNDECIDED;
    assert_int_equal(waiter(&rig, 1), 1);
    assert_int_equal(decide_after(&rig, 1, PUBLISH_LOCK_MS - 1), UNDECIDED);
    assert_int_equal(decide_after(&rig, 1, PUBLISH_LOCK_MS), 0);
    assert_int_equal(rig.claimants[0].kicked, -ESTALE);
    close_rig(&rig);
}

/* One of so many, of some host; without a connection, of which nobody has to ask. */
static int claim_as(claim_rig *rig, claimant *c, unsigned host, struct stream *stream) {
    *c = (claimant){.rig = rig, .peer = -1, .verdict = UNDECIDED, .waiter.decided = decided};
    snprintf(c->source.peer, sizeof c->source.peer, "10.0.%u.%u:1000", host >> 8, host & 255);
    c->source.protocol = "test";
    c->source.session = &c->session;
    c->source.calls = &publisher_calls;
    c->session.type = &type;
    c->session.peer_address = (struct cidr_address){{[10] = 0xff, 0xff, 10, 0, (uint8_t)(host >> 8), (uint8_t)host}};
    return publish_lock_acquire(&c->waiter, stream, &c->source);
}

static void withdraw_all(claimant *waiting, size_t count) {
    for (size_t i = 0; i < count; i++)
        publish_lock_cancel(&waiting[i].waiter);
}

static void so_many_wait_for_a_name(void **state) {
    claim_rig rig;
    claimant waiting[PUBLISH_WAITERS_OF_STREAM + 1];
    open_held(&rig, state);
    /* Of one host a few, of all so many; a place is free again when one gives up. */
    for (unsigned i = 0; i < PUBLISH_WAITERS_OF_HOST; i++)
        assert_int_equal(claim_as(&rig, &waiting[i], 1, rig.stream), 1);
    assert_int_equal(claim_as(&rig, &waiting[PUBLISH_WAITERS_OF_HOST], 1, rig.stream), -EEXIST);
    for (unsigned i = PUBLISH_WAITERS_OF_HOST; i < PUBLISH_WAITERS_OF_STREAM; i++)
        assert_int_equal(claim_as(&rig, &waiting[i], 2 + i, rig.stream), 1);
    assert_int_equal(claim_as(&rig, &waiting[PUBLISH_WAITERS_OF_STREAM], 1000, rig.stream), -EEXIST);
    assert_int_equal(waiting[PUBLISH_WAITERS_OF_STREAM].decisions, 0);
    publish_lock_cancel(&waiting[0].waiter);
    assert_int_equal(claim_as(&rig, &waiting[PUBLISH_WAITERS_OF_STREAM], 1000, rig.stream), 1);
    withdraw_all(waiting, PUBLISH_WAITERS_OF_STREAM + 1);
    /* Nothing is left of the counts. */
    assert_int_equal(claim_as(&rig, &waiting[0], 1, rig.stream), 1);
    withdraw_all(waiting, 1);
    close_rig(&rig);
}

static void a_network_of_64_bits_is_one_host(void **state) {
    claim_rig rig;
    claimant waiting[PUBLISH_WAITERS_OF_HOST + 1];
    open_held(&rig, state);
    for (unsigned i = 0; i <= PUBLISH_WAITERS_OF_HOST; i++) {
        claimant *c = &waiting[i];
        *c = (claimant){.rig = &rig, .peer = -1, .waiter.decided = decided};
        c->source = (struct stream_source){.protocol = "test", .session = &c->session, .calls = &publisher_calls};
        c->session.type = &type;
        c->session.peer_address = (struct cidr_address){{0x20, 1, [15] = (uint8_t)i}};
        assert_int_equal(publish_lock_acquire(&c->waiter, rig.stream, &c->source),
                         i < PUBLISH_WAITERS_OF_HOST ? 1 : -EEXIST);
    }
    waiting[PUBLISH_WAITERS_OF_HOST].session.peer_address.bytes[7] = 1;
    assert_int_equal(publish_lock_acquire(&waiting[PUBLISH_WAITERS_OF_HOST].waiter, rig.stream,
                                          &waiting[PUBLISH_WAITERS_OF_HOST].source),
                     1);
    withdraw_all(waiting, PUBLISH_WAITERS_OF_HOST + 1);
    close_rig(&rig);
}

/* However many names there are. */
static void so_many_of_a_host_wait(void **state) {
    enum { NAMES = PUBLISH_WAITERS_OF_HOST_IN_ALL + 1 };
    static claimant holders[NAMES], waiting[NAMES];
    struct stream *streams[NAMES];
    claim_rig rig;
    open_held(&rig, state);
    for (unsigned i = 0; i < NAMES; i++) {
        char name[32];
        int length = snprintf(name, sizeof name, "live/many-%u", i);
        assert_int_equal(registry_get(rig.registry, name, (size_t)length, 0, &streams[i]), 0);
        assert_int_equal(claim_as(&rig, &holders[i], 1000 + i, streams[i]), 0);
        assert_int_equal(claim_as(&rig, &waiting[i], 1, streams[i]), i < PUBLISH_WAITERS_OF_HOST_IN_ALL ? 1 : -EEXIST);
    }
    assert_int_equal(claim_as(&rig, &waiting[NAMES - 1], 2, streams[NAMES - 1]), 1);
    withdraw_all(waiting, NAMES);
    for (unsigned i = 0; i < NAMES; i++) {
        stream_detach(streams[i], 0);
        stream_unref(streams[i]);
    }
    close_rig(&rig);
}

/* Those whose time is over together are answered in several turns. */
static void so_many_are_decided_in_a_turn(void **state) {
    claim_rig rig;
    claimant waiting[PUBLISH_WAITERS_OF_STREAM];
    open_held(&rig, state);
    uint64_t past = sluice_loop_now(rig.loop.loop) - PUBLISH_LOCK_ENDING_MS;
    for (unsigned i = 0; i < PUBLISH_WAITERS_OF_STREAM; i++) {
        assert_int_equal(claim_as(&rig, &waiting[i], 1 + i, rig.stream), 1);
        waiting[i].waiter.since = past;
    }
    for (unsigned turns = 1; turns <= PUBLISH_WAITERS_OF_STREAM / A_TURN; turns++) {
        unsigned answered = 0;
        assert_int_equal(sluice_loop_turn(rig.loop.loop, 0), 0);
        for (unsigned i = 0; i < PUBLISH_WAITERS_OF_STREAM; i++)
            answered += waiting[i].decisions;
        assert_int_equal(answered, turns * A_TURN);
    }
    close_rig(&rig);
}

static unsigned polls;
int __real_poll(struct pollfd *sockets, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *sockets, nfds_t count, int timeout);

int __wrap_poll(struct pollfd *sockets, nfds_t count, int timeout) {
    polls++;
    return __real_poll(sockets, count, timeout);
}

/* The kernel is asked about who has the name, once in a while, and not for each that waits. */
static void waiting_costs_no_system_calls(void **state) {
    static claimant waiting[MANY];
    claim_rig rig;
    open_held(&rig, state);
    polls = 0;
    unsigned in = 0;
    for (unsigned i = 0; i < MANY; i++) {
        in += claim_as(&rig, &waiting[i], 1 + i, rig.stream) == 1;
        if (i % 100 == 0)
            turn_through(rig.loop.loop, 1);
    }
    assert_int_equal(in, PUBLISH_WAITERS_OF_STREAM);
    assert_int_equal(polls, 0);
    for (unsigned i = 0; i < PUBLISH_WAITERS_OF_STREAM; i++)
        waiting[i].waiter.since = sluice_loop_now(rig.loop.loop) - PUBLISH_LOCK_MS;
    end_peer(&rig, 0, false);
    polls = 0;
    publish_locks_decide(&rig.registry->locks);
    assert_in_range(polls, 1, POLLS);
    withdraw_all(waiting, MANY);
    close_rig(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FILES_ON_BOTH(so_many_wait_for_a_name),
        FILES_ON_BOTH(a_network_of_64_bits_is_one_host),
        FILES_ON_BOTH(so_many_of_a_host_wait),
        FILES_ON_BOTH(so_many_are_decided_in_a_turn),
        FILES_ON_BOTH(waiting_costs_no_system_calls),
        FILES_ON_BOTH(a_free_name_is_taken_and_a_held_one_refused),
        FILES_ON_BOTH(who_has_closed_and_comes_back_gets_the_name),
        FILES_ON_BOTH(who_was_reset_and_comes_back_gets_the_name),
        FILES_ON_BOTH(who_comes_back_before_its_end_is_known_gets_the_name),
        FILES_ON_BOTH(a_half_closed_connection_is_ending),
        FILES_ON_BOTH(the_first_claim_gets_the_name),
        FILES_ON_BOTH(who_comes_back_twice_gets_the_name),
        FILES_ON_BOTH(nobody_overtakes_a_claim),
        FILES_ON_BOTH(a_claim_withdrawn_is_not_decided),
        FILES_ON_BOTH(a_claim_does_not_wait_for_ever),
        FILES_ON_BOTH(who_is_banned_meanwhile_does_not_get_the_name),
        FILES_ON_BOTH(who_takes_over_gets_the_name_in_the_next_turn),
        FILES_ON_BOTH(some_take_nothing_over),
        FILES_ON_BOTH(who_may_not_publish_displaces_nobody),
        FILES_ON_BOTH(who_is_closed_holds_nothing),
        FILES_ON_BOTH(who_is_closed_while_it_waits_gets_nothing),
        FILES_ON_BOTH(what_holds_now_is_what_counts),
        FILES_ON_BOTH(a_lost_connection_gives_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
