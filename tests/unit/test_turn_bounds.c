/*
 * What a turn does at most of each kind (sends, pieces, submissions, completions, accepts, reads,
 * cancels, posted calls, timers), one step and ten times beyond it, on both backends: all of it is
 * done, and nobody else waits for it. What waits is counted in turns, not in time.
 */
#include <sluice/conn.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/file.h>
#include <sluice/file_writer.h>

#include "backends/epoll.h"
#include "backends/uring.h"
#include "support/clock.h"
#include "support/files.h"
#include "support/sockets.h"

enum {
    GUARD = 240,
    BATCH = 1024,   /* completions that end a batching window early */
    ACCEPTS = 64,   /* of one readiness: epoll's */
    BACKLOG = 4096, /* of a listener */
    READS = 64,     /* of 64 KiB that there are pieces for in a turn, at a piece for each block */
    POSTS = 4096,
    TIMERS = 1024,
    SOCKETS = 16,      /* that senders share: a descriptor for each sender, but few sockets */
    SPARE_FDS = 64,    /* of the test itself */
    PINGS = 290,       /* connections that are to be heard while others send */
    CLIENTS = 380,     /* and accepted */
    ARMED_TURNS = 200, /* receives are armed a few at a time */
    PATIENCE = 200,    /* turns, for what takes some dozens */
};

/* The descriptors that a test may use: its sizes are cut to these. */
static unsigned descriptors(unsigned wanted) {
    while (!sockets_allow(wanted + SPARE_FDS) && wanted > 2 * SOCKETS)
        wanted -= wanted / 8;
    return wanted;
}

static int duplicate(int fd) {
    int other = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    assert_true(other >= 0);
    return other;
}

static void rig_open(loop_rig *rig, void **state, uint32_t batch_us) {
    const sluice_loop_options options = {
        .size = sizeof options, .backend = ((const sluice_loop_options *)*state)->backend, .batch_us = batch_us};
    loop_rig_open(rig, NULL, &options, GUARD);
}

static void rig_close(loop_rig *rig) {
    loop_rig_close(rig);
    hang_guard(0);
}

/* Senders: many connections that always have something to send, and always room to do so. */

typedef struct senders {
    sluice_loop *loop;
    struct sender {
        struct senders *senders;
        sluice_conn *conn;
        unsigned asked;
    } * of_each;
    unsigned count;
    unsigned pieces;    /* of each send */
    unsigned long sent; /* sends */
    unsigned closed;
    int sockets[SOCKETS][2];
} senders;

static size_t sender_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    static char byte = 's';
    struct sender *sender = user;
    (void)conn;
    assert_true(max >= sender->senders->pieces);
    sender->asked++;
    for (unsigned i = 0; i < sender->senders->pieces; i++)
        iov[i] = (struct iovec){&byte, 1};
    return sender->senders->pieces;
}

/* Where a socket has no room after all, the peer has it a moment later. */
static void sender_sent(sluice_conn *conn, size_t bytes, void *user) {
    struct sender *sender = user;
    (void)bytes;
    sender->senders->sent++;
    sluice_conn_want_send(conn);
}

static void sender_closed(sluice_conn *conn, void *user) {
    (void)conn;
    ((struct sender *)user)->senders->closed++;
}

static const sluice_conn_events sender_events = {
    .size = sizeof sender_events,
    .on_gather = sender_gather,
    .on_sent = sender_sent,
    .on_closed = sender_closed,
};

/* Each wants to send from the first turn on. */
static void senders_open_as(senders *s, sluice_loop *loop, unsigned count, unsigned pieces,
                            const sluice_conn_events *events) {
    const int size = 1 << 22;
    *s = (senders){.loop = loop, .count = count, .pieces = pieces};
    s->of_each = calloc(count, sizeof *s->of_each);
    assert_non_null(s->of_each);
    for (unsigned i = 0; i < SOCKETS; i++) {
        sockets_tcp_pair(s->sockets[i]);
        (void)setsockopt(s->sockets[i][0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    }
    for (unsigned i = 0; i < count; i++) {
        struct sender *sender = &s->of_each[i];
        sender->senders = s;
        int fd = duplicate(s->sockets[i % SOCKETS][0]);
        assert_int_equal(sluice_conn_new(loop, fd, events, sender, &sender->conn), 0);
        sluice_conn_pause(sender->conn);
        sluice_conn_want_send(sender->conn);
    }
}

static void senders_open(senders *s, sluice_loop *loop, unsigned count, unsigned pieces) {
    senders_open_as(s, loop, count, pieces, &sender_events);
}

/* Their peers take what there is. */
static void senders_drain(void *user) {
    static char bytes[1 << 16];
    const senders *s = user;
    for (unsigned i = 0; i < SOCKETS; i++)
        while (recv(s->sockets[i][1], bytes, sizeof bytes, MSG_DONTWAIT) > 0)
            continue;
}

static void senders_close(senders *s) {
    for (unsigned i = 0; i < s->count; i++)
        sluice_conn_close(s->of_each[i].conn);
    turn_until_count(s->loop, &s->closed, s->count);
    for (unsigned i = 0; i < SOCKETS; i++) {
        close(s->sockets[i][0]);
        close(s->sockets[i][1]);
    }
    free(s->of_each);
}

/* Others: peers that have sent a byte each, and clients that have connected. */

typedef struct others {
    int peers[PINGS], clients[CLIENTS];
    unsigned pings, accepts;
    sluice_listener *listener;
    sluice_loop *loop;
} others;

static void no_noise(void *user) {
    (void)user;
}

static void ping_data(sluice_conn *conn, void *user) {
    sluice_chain *chain = sluice_conn_chain(conn);
    ((others *)user)->pings += (unsigned)sluice_chain_skip(chain, sluice_chain_length(chain));
}

static void count_accept(sluice_listener *listener, int fd, void *user) {
    (void)listener;
    ++*(unsigned *)user;
    close(fd);
}

static const sluice_conn_events ping_events = {.size = sizeof ping_events, .on_data = ping_data};

static void listen_here(sluice_loop *loop, sluice_listener **ret_listener, unsigned *accepts) {
    const struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(sluice_listener_new(loop, (const struct sockaddr *)&address, sizeof address, count_accept, accepts,
                                         ret_listener),
                     0);
}

/* All that the kernel is asked for on their behalf is with it when this is done. */
static void others_open(others *o, sluice_loop *loop) {
    *o = (others){.loop = loop};
    for (unsigned i = 0; i < PINGS; i++) {
        sluice_conn *conn;
        int fds[2];
        sockets_tcp_pair(fds);
        o->peers[i] = fds[1];
        assert_int_equal(sluice_conn_new(loop, fds[0], &ping_events, o, &conn), 0);
    }
    listen_here(loop, &o->listener, &o->accepts);
    for (int turns = 0; turns < ARMED_TURNS; turns++)
        assert_int_equal(sluice_loop_turn(loop, 0), 0);
}

/* A connected client of the listener, that nobody has accepted yet. */
static int connect_client(const sluice_listener *listener) {
    struct sockaddr_storage address;
    assert_int_equal(sluice_listener_address(listener, &address), 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(struct sockaddr_in)), 0);
    return fd;
}

/* Where the kernel works for the loop between turns, on old kernels, it may have accepted them
 * already. */
static void wait_queued(const sluice_loop *loop, const sluice_listener *listener, unsigned count) {
    sluice_loop_stats stats = {.size = sizeof stats};
    sluice_loop_get_stats(loop, &stats);
    if (strcmp(stats.backend, "epoll") == 0 || strstr(stats.features, "defer-taskrun"))
        sockets_wait_queued(sluice_listener_fd(listener), count);
}

/* It is with this kernel when this is done: only the loop is waited for. */
static void others_come(others *o) {
    for (unsigned i = 0; i < PINGS; i++)
        sockets_write(o->peers[i], "p", 1);
    for (unsigned i = 0; i < PINGS; i++)
        sockets_wait_delivered(o->peers[i]);
    for (unsigned i = 0; i < CLIENTS; i++)
        o->clients[i] = connect_client(o->listener);
    wait_queued(o->loop, o->listener, CLIENTS);
}

static bool others_are_served(const others *o) {
    return o->pings == PINGS && o->accepts == CLIENTS;
}

static void others_close(others *o) {
    for (unsigned i = 0; i < PINGS; i++)
        close(o->peers[i]);
    for (unsigned i = 0; i < CLIENTS; i++)
        close(o->clients[i]);
}

/* Turns that do not wait, until the others are served; between them @noise does what it does. In
 * how many. */
static void serve_others(sluice_loop *loop, others *o, void (*noise)(void *), void *user) {
    unsigned turns = 0;
    others_come(o);
    for (; turns < PATIENCE && !others_are_served(o); turns++) {
        noise(user);
        assert_int_equal(sluice_loop_turn(loop, 0), 0);
    }
    print_message("  %u of %d heard, %u of %d accepted in %u turns\n", o->pings, PINGS, o->accepts, CLIENTS, turns);
    assert_int_equal(o->pings, PINGS);
    assert_int_equal(o->accepts, CLIENTS);
}

/* Others are heard and accepted while so many send in every turn. */
static void serve_beside_senders(void **state, unsigned count, unsigned pieces, uint32_t batch_us) {
    loop_rig rig;
    senders s;
    others o;
    count = descriptors(count + 2 * PINGS + CLIENTS) - 2 * PINGS - CLIENTS;
    print_message("%u senders of %u pieces\n", count, pieces);
    rig_open(&rig, state, batch_us);
    others_open(&o, rig.loop);
    senders_open(&s, rig.loop, count, pieces);
    serve_others(rig.loop, &o, senders_drain, &s);
    senders_close(&s);
    others_close(&o);
    rig_close(&rig);
}

static void sends_starve_nobody(void **state) {
    serve_beside_senders(state, URING_SENDS, 1, 0);
    serve_beside_senders(state, URING_SENDS + 1, 1, 0);
    serve_beside_senders(state, 10 * URING_SENDS, 1, 0);
}

static void pieces_starve_nobody(void **state) {
    const unsigned full = URING_IOVECS / URING_SEND_PIECES;
    serve_beside_senders(state, full, URING_SEND_PIECES, 0);
    serve_beside_senders(state, full + 1, URING_SEND_PIECES, 0);
    serve_beside_senders(state, 10 * full, URING_SEND_PIECES, 0);
}

/* Ten times as many are cut to the descriptors that there may be. */
static void completions_starve_nobody(void **state) {
    serve_beside_senders(state, URING_COMPLETIONS, 1, 0);
    serve_beside_senders(state, URING_COMPLETIONS + 1, 1, 0);
    serve_beside_senders(state, 10 * URING_COMPLETIONS, 1, 0);
}

static void completions_of_a_window_starve_nobody(void **state) {
    serve_beside_senders(state, BATCH, 1, 100);
    serve_beside_senders(state, BATCH + 1, 1, 100);
    serve_beside_senders(state, 10 * BATCH, 1, 100);
}

/* A turn leaves out who sends only for as long as others have their turn: all send about as
 * often. */
static void senders_have_equal_shares(void **state) {
    enum { COUNT = 10 * URING_SENDS, ROUNDS = 10 };
    loop_rig rig;
    senders s;
    unsigned count = descriptors(COUNT);
    rig_open(&rig, state, 0);
    senders_open(&s, rig.loop, count, 1);
    while (s.sent < (unsigned long)ROUNDS * count) {
        assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
        senders_drain(&s);
    }
    for (unsigned i = 0; i < count; i++)
        assert_in_range(s.of_each[i].asked, ROUNDS - 2, ROUNDS + 2);
    senders_close(&s);
    rig_close(&rig);
}

static size_t large_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    static uint8_t bytes[1 << 20];
    (void)sender_gather(conn, iov, max, user);
    iov[0] = (struct iovec){bytes, sizeof bytes};
    return 1;
}

/*
 * The clock shows what sends cost when they have happened: so large ones are not submitted all
 * together. In a ring's first turn the kernel takes no submission but the turn's own: what is
 * behind one part is sent in the next one. (With epoll, each is a call.)
 */
static void send_large_ones(void **state, bool first_turn) {
    enum { COUNT = 4 * SOCKETS, PARTS = (COUNT << 20) / URING_SEND_BYTES };
    static const sluice_conn_events events = {
        .size = sizeof events, .on_gather = large_gather, .on_sent = sender_sent, .on_closed = sender_closed};
    loop_rig rig;
    senders s;
    sluice_loop_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    unsigned asked = 0;
    rig_open(&rig, state, 0);
    if (!first_turn)
        turn_through(rig.loop, 1);
    clock_stop();
    senders_open_as(&s, rig.loop, COUNT, 1, &events);
    assert_int_equal(sluice_loop_get_stats(rig.loop, &before), 0);
    assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
    assert_int_equal(sluice_loop_get_stats(rig.loop, &after), 0);
    for (unsigned i = 0; i < COUNT; i++)
        asked += s.of_each[i].asked;
    unsigned parts = loop_rig_is_uring(&rig) && first_turn ? 1 : PARTS;
    assert_int_equal(asked, parts * COUNT / PARTS);
    if (loop_rig_is_uring(&rig))
        assert_in_range(after.enters - before.enters, parts, parts + 2);
    while (s.sent < COUNT) {
        senders_drain(&s);
        assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
    }
    clock_go_on();
    senders_close(&s);
    rig_close(&rig);
}

static void large_sends_are_submitted_in_parts(void **state) {
    send_large_ones(state, false);
    send_large_ones(state, true);
}

/* What a send costs is more the larger it is: here, a millisecond each. */
static size_t slow_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    clock_forward(1);
    return sender_gather(conn, iov, max, user);
}

/* However long sends take, a turn ends after a while, and the others send in the next one. */
static void slow_sends_have_a_slice(void **state) {
    enum { COUNT = 100, SLICE = 20, LOOK = 4 };
    static const sluice_conn_events events = {
        .size = sizeof events, .on_gather = slow_gather, .on_sent = sender_sent, .on_closed = sender_closed};
    loop_rig rig;
    senders s;
    unsigned turns = 0, asked = 0;
    rig_open(&rig, state, 0);
    clock_stop();
    senders_open_as(&s, rig.loop, COUNT, 1, &events);
    while (s.sent < COUNT) {
        unsigned before = asked;
        assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
        senders_drain(&s);
        asked = 0;
        for (unsigned i = 0; i < COUNT; i++)
            asked += s.of_each[i].asked;
        assert_in_range(asked - before, 1, SLICE + LOOK);
        turns++;
    }
    assert_in_range(turns, COUNT / (SLICE + LOOK), COUNT);
    /* Who has sent waits for the others. */
    for (unsigned i = 0; i < COUNT; i++)
        assert_in_range(s.of_each[i].asked, 1, 2);
    senders_close(&s);
    clock_go_on();
    rig_close(&rig);
}

/* Talkers: peers that have something new in every turn. */

typedef struct talkers {
    sluice_loop *loop;
    sluice_conn **conns;
    int *peers;
    unsigned count, closed;
    unsigned long heard;
} talkers;

static void talker_data(sluice_conn *conn, void *user) {
    sluice_chain *chain = sluice_conn_chain(conn);
    ((talkers *)user)->heard += sluice_chain_skip(chain, sluice_chain_length(chain));
}

static void talker_closed(sluice_conn *conn, void *user) {
    (void)conn;
    ((talkers *)user)->closed++;
}

static const sluice_conn_events talker_events = {
    .size = sizeof talker_events, .on_data = talker_data, .on_closed = talker_closed};

static void talkers_open(talkers *t, sluice_loop *loop, unsigned count) {
    *t = (talkers){.loop = loop, .count = count};
    t->conns = calloc(count, sizeof(sluice_conn *));
    t->peers = calloc(count, sizeof(int));
    assert_non_null(t->conns);
    assert_non_null(t->peers);
    for (unsigned i = 0; i < count; i++) {
        int fds[2];
        sockets_unix_pair(fds);
        t->peers[i] = fds[1];
        assert_int_equal(sluice_conn_new(loop, fds[0], &talker_events, t, &t->conns[i]), 0);
    }
}

static void talkers_talk(void *user) {
    const talkers *t = user;
    for (unsigned i = 0; i < t->count; i++)
        (void)!send(t->peers[i], "t", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* All in one turn. A kernel (6.13 and later) works off 20 things that it has deferred each time
 * that it is entered. */
static void talkers_close(talkers *t) {
    for (unsigned i = 0; i < t->count; i++)
        sluice_conn_close(t->conns[i]);
    for (unsigned turns = 0; turns < PATIENCE + t->count && t->closed < t->count; turns++)
        assert_int_equal(sluice_loop_turn(t->loop, 1), 0);
    assert_int_equal(t->closed, t->count);
    for (unsigned i = 0; i < t->count; i++)
        close(t->peers[i]);
    free(t->conns);
    free(t->peers);
}

static void serve_beside_talkers(void **state, unsigned count) {
    loop_rig rig;
    talkers t;
    others o;
    count = (descriptors(2 * (count + PINGS) + CLIENTS) - CLIENTS) / 2 - PINGS;
    print_message("%u talkers\n", count);
    rig_open(&rig, state, 0);
    others_open(&o, rig.loop);
    talkers_open(&t, rig.loop, count);
    for (unsigned turns = 0; turns < ARMED_TURNS + count / 4; turns++)
        assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
    serve_others(rig.loop, &o, talkers_talk, &t);
    talkers_close(&t);
    others_close(&o);
    rig_close(&rig);
}

static void events_starve_nobody(void **state) {
    serve_beside_talkers(state, EPOLL_EVENTS);
    serve_beside_talkers(state, EPOLL_EVENTS + 1);
    serve_beside_talkers(state, 10 * EPOLL_EVENTS);
}

/* Floods: connections that always have more than they are received from; beside them, one has a
 * byte now and then. */

typedef struct flood {
    sluice_conn *conn;
    int peer;
    size_t heard;
} flood;

typedef struct floods {
    flood *each;
    unsigned count;
} floods;

static void flood_data(sluice_conn *conn, void *user) {
    sluice_chain *chain = sluice_conn_chain(conn);
    ((flood *)user)->heard += sluice_chain_skip(chain, sluice_chain_length(chain));
}

static const sluice_conn_events flood_events = {.size = sizeof flood_events, .on_data = flood_data};

static void floods_open(floods *f, sluice_loop *loop, unsigned count) {
    const int size = 1 << 17;
    *f = (floods){.count = count};
    f->each = calloc(count, sizeof(flood));
    assert_non_null(f->each);
    for (unsigned i = 0; i < count; i++) {
        int fds[2];
        sockets_tcp_pair(fds);
        f->each[i].peer = fds[1];
        assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_RCVBUF, &size, sizeof size), 0);
        assert_int_equal(sluice_conn_new(loop, fds[0], &flood_events, &f->each[i], &f->each[i].conn), 0);
    }
}

static void floods_fill(const floods *f) {
    static const char bytes[1 << 16];
    for (unsigned i = 0; i < f->count; i++)
        while (send(f->each[i].peer, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
            continue;
}

static void floods_close(const floods *f) {
    for (unsigned i = 0; i < f->count; i++) {
        sluice_conn_close(f->each[i].conn);
        close(f->each[i].peer);
    }
    free(f->each);
}

static unsigned floods_unheard(const floods *f) {
    unsigned unheard = 0;
    for (unsigned i = 0; i < f->count; i++)
        unheard += f->each[i].heard == 0;
    return unheard;
}

/* Nor does one of them wait for the others without end. */
static void hear_each_flood(floods *f, sluice_loop *loop, unsigned most) {
    unsigned turns = 0;
    for (unsigned i = 0; i < f->count; i++)
        f->each[i].heard = 0;
    for (; turns < 5 * most && floods_unheard(f) > 0; turns++) {
        floods_fill(f);
        assert_int_equal(sluice_loop_turn(loop, 0), 0);
    }
    print_message("%u floods: each is heard within %u turns\n", f->count, turns);
    assert_in_range(turns, 1, most);
}

/* Who takes few blocks gets one at once, however many wait for what others leave of the
 * kernel's. */
static void hear_beside_floods(void **state, unsigned count) {
    enum { ROUNDS = 20, TURNS = 60 };
    loop_rig rig;
    floods f;
    others light = {0};
    sluice_conn *conn;
    unsigned most = 0;
    int fds[2];
    count = descriptors(2 * count) / 2;
    rig_open(&rig, state, 0);
    floods_open(&f, rig.loop, count);
    sockets_tcp_pair(fds);
    assert_int_equal(sluice_conn_new(rig.loop, fds[0], &ping_events, &light, &conn), 0);
    for (unsigned turns = 0; turns < ARMED_TURNS; turns++)
        assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
    for (unsigned round = 1; round <= ROUNDS; round++) {
        unsigned turns = 0;
        sockets_write(fds[1], "p", 1);
        sockets_wait_delivered(fds[1]);
        for (; turns < 5 * TURNS && light.pings < round; turns++) {
            floods_fill(&f);
            assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
        }
        most = turns > most ? turns : most;
    }
    print_message("%u floods: a byte is heard within %u turns\n", count, most);
    assert_in_range(most, 1, TURNS);
    for (int i = 0; i < 3; i++)
        hear_each_flood(&f, rig.loop, TURNS);
    floods_close(&f);
    sluice_conn_close(conn);
    close(fds[1]);
    rig_close(&rig);
}

static void floods_starve_nobody(void **state) {
    hear_beside_floods(state, 12);
    hear_beside_floods(state, 31);
    hear_beside_floods(state, 50);
    hear_beside_floods(state, 500);
}

/*
 * A crowd that always has more does not make its receives small: one that has taken a block in each
 * of many turns counts among those that take many, and gets as many as there are. All of them would
 * get one block each, for ever, and cost three times the processor time.
 */
static void receive_from_floods(void **state, unsigned count) {
    enum { TURNS = 400, LEAST = 2 * 4096 };
    loop_rig rig;
    floods f;
    uint64_t bytes = 0, receives = 0;
    sluice_loop_stats loop = {.size = sizeof loop};
    count = descriptors(2 * count) / 2;
    rig_open(&rig, state, 0);
    floods_open(&f, rig.loop, count);
    for (unsigned turns = 0; turns < TURNS; turns++) {
        floods_fill(&f);
        assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
    }
    for (unsigned i = 0; i < count; i++) {
        sluice_conn_stats stats = {.size = sizeof stats};
        assert_int_equal(sluice_conn_get_stats(f.each[i].conn, &stats), 0);
        bytes += stats.received_bytes;
        receives += stats.receives;
    }
    sluice_loop_get_stats(rig.loop, &loop);
    print_message("%u floods: %u bytes a receive\n", count, (unsigned)(bytes / receives));
    assert_in_range(bytes / receives, strstr(loop.features, "single-shot") ? 1 : LEAST, UINT32_MAX);
    floods_close(&f);
    rig_close(&rig);
}

static void floods_are_received_in_bundles(void **state) {
    receive_from_floods(state, 12);
    receive_from_floods(state, 33);
    receive_from_floods(state, 100);
}

/* More cancels than there are entries, whether the loop has had a turn before or not. */
static void close_together(void **state, unsigned count, bool turned) {
    loop_rig rig;
    talkers t;
    count = descriptors(2 * count) / 2;
    rig_open(&rig, state, 0);
    talkers_open(&t, rig.loop, count);
    if (turned) {
        talkers_talk(&t);
        for (unsigned turns = 0; turns < PATIENCE + count && t.heard < count; turns++)
            assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
        assert_int_equal(t.heard, count);
    }
    talkers_close(&t);
    rig_close(&rig);
}

static void cancels_all_happen(void **state) {
    for (int turned = 0; turned < 2; turned++) {
        close_together(state, URING_ENTRIES, turned);
        close_together(state, URING_ENTRIES + 1, turned);
        close_together(state, 10 * URING_ENTRIES, turned);
    }
}

/* One listener's crowd does not keep others waiting; none of it is lost. */
static void accept_crowd(void **state, unsigned count) {
    loop_rig rig;
    others o;
    unsigned accepts = 0;
    sluice_listener *crowded;
    int *clients;
    count = descriptors(count + 2 * PINGS + CLIENTS) - 2 * PINGS - CLIENTS;
    print_message("%u clients of another listener\n", count);
    rig_open(&rig, state, 0);
    listen_here(rig.loop, &crowded, &accepts);
    others_open(&o, rig.loop);
    clients = calloc(count, sizeof(int));
    assert_non_null(clients);
    for (unsigned i = 0; i < count; i++)
        clients[i] = connect_client(crowded);
    wait_queued(rig.loop, crowded, count);
    serve_others(rig.loop, &o, no_noise, NULL);
    for (unsigned turns = 0; turns < PATIENCE && accepts < count; turns++)
        assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
    assert_int_equal(accepts, count);
    for (unsigned i = 0; i < count; i++)
        close(clients[i]);
    free(clients);
    others_close(&o);
    rig_close(&rig);
}

static void accepts_starve_nobody(void **state) {
    accept_crowd(state, ACCEPTS);
    accept_crowd(state, ACCEPTS + 1);
    accept_crowd(state, 10 * ACCEPTS);
    accept_crowd(state, BACKLOG);
}

/* Posted calls and timers: each that there is, once; and those that come again and again leave
 * others their turn. */

typedef struct calls {
    sluice_loop *loop;
    unsigned made, wanted;
    bool again;
    sluice_call *posted;
    sluice_timer **timers;
} calls;

static void posted_call(void *user) {
    calls *c = user;
    c->made++;
    if (c->again)
        assert_int_equal(sluice_loop_post(c->loop, posted_call, c), 0);
}

static void timer_call(sluice_timer *timer, void *user) {
    calls *c = user;
    c->made++;
    if (c->again)
        sluice_timer_start(timer, 0);
}

static void post(void *user) {
    calls *c = user;
    for (; c->wanted > 0; c->wanted--)
        assert_int_equal(sluice_loop_post(c->loop, posted_call, c), 0);
}

static void serve_beside_posts(void **state, unsigned count) {
    loop_rig rig;
    others o;
    print_message("%u posted calls\n", count);
    rig_open(&rig, state, 0);
    others_open(&o, rig.loop);
    calls c = {.loop = rig.loop, .wanted = count};
    post(&c);
    for (unsigned turns = 0; turns < PATIENCE && c.made < count; turns++)
        assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
    assert_int_equal(c.made, count);
    c.again = true;
    c.wanted = count;
    serve_others(rig.loop, &o, post, &c);
    assert_true(c.made > 2 * count);
    c.again = false;
    others_close(&o);
    rig_close(&rig);
}

static void posts_starve_nobody(void **state) {
    serve_beside_posts(state, POSTS);
    serve_beside_posts(state, POSTS + 1);
    serve_beside_posts(state, 10 * POSTS);
}

static void serve_beside_timers(void **state, unsigned count) {
    loop_rig rig;
    others o;
    print_message("%u timers\n", count);
    rig_open(&rig, state, 0);
    others_open(&o, rig.loop);
    calls c = {.again = true, .timers = calloc(count, sizeof(sluice_timer *))};
    assert_non_null(c.timers);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(sluice_timer_new(rig.loop, timer_call, &c, &c.timers[i]), 0);
        sluice_timer_start(c.timers[i], 0);
    }
    while (c.made < count)
        turn(rig.loop);
    serve_others(rig.loop, &o, no_noise, NULL);
    for (unsigned i = 0; i < count; i++)
        sluice_timer_free(c.timers[i]);
    free(c.timers);
    others_close(&o);
    rig_close(&rig);
}

static void timers_starve_nobody(void **state) {
    serve_beside_timers(state, TIMERS);
    serve_beside_timers(state, TIMERS + 1);
    serve_beside_timers(state, 10 * TIMERS);
}

/* Files: more reads than a turn has pieces for, more writes than there are entries. */

static void read_beside(void **state, unsigned count) {
    const uint64_t size = 3 * 65536;
    loop_rig rig;
    others o;
    file_consumer *consumers = calloc(count, sizeof *consumers);
    unsigned done = 0;
    int fd = files_make(size);
    assert_non_null(consumers);
    assert_true(descriptors(count + 2 * PINGS + CLIENTS) == count + 2 * PINGS + CLIENTS);
    print_message("%u files\n", count);
    rig_open(&rig, state, 0);
    others_open(&o, rig.loop);
    for (unsigned i = 0; i < count; i++)
        file_consumer_open(&consumers[i], &rig, duplicate(fd), NULL);
    serve_others(rig.loop, &o, no_noise, NULL);
    for (unsigned i = 0; i < count; i++) {
        turn_until(rig.loop, &consumers[i].told_end);
        assert_int_equal(consumers[i].error, 0);
        assert_int_equal(consumers[i].place, size);
        assert_false(consumers[i].differs);
        done++;
        file_consumer_close(&consumers[i], &rig);
    }
    assert_int_equal(done, count);
    close(fd);
    free(consumers);
    others_close(&o);
    rig_close(&rig);
}

static void reads_starve_nobody(void **state) {
    read_beside(state, READS);
    read_beside(state, READS + 1);
    read_beside(state, 10 * READS);
}

static void count_written(sluice_file_writer *writer, int error, void *user) {
    (void)writer;
    assert_int_equal(error, 0);
    ++*(unsigned *)user;
}

static void write_together(void **state, unsigned count) {
    static const sluice_file_writer_events events = {.size = sizeof events, .on_closed = count_written};
    loop_rig rig;
    unsigned closed = 0;
    int fd = files_make(0);
    count = descriptors(count);
    rig_open(&rig, state, 0);
    for (unsigned i = 0; i < count; i++) {
        sluice_file_writer *writer;
        const sluice_file_writer_options options = {.size = sizeof options, .offset = i};
        assert_int_equal(sluice_file_writer_new(rig.loop, duplicate(fd), &options, &events, &closed, &writer), 0);
        assert_int_equal(sluice_file_writer_copy(writer, "w", 1), 0);
        sluice_file_writer_finish(writer);
    }
    turn_until_count(rig.loop, &closed, count);
    assert_int_equal(lseek(fd, 0, SEEK_END), count);
    close(fd);
    rig_close(&rig);
}

static void writes_all_happen(void **state) {
    write_together(state, URING_ENTRIES);
    write_together(state, URING_ENTRIES + 1);
    write_together(state, 10 * URING_ENTRIES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FILES_ON_BOTH(sends_starve_nobody),       FILES_ON_BOTH(pieces_starve_nobody),
        FILES_ON_BOTH(completions_starve_nobody), FILES_ON_BOTH(completions_of_a_window_starve_nobody),
        FILES_ON_BOTH(senders_have_equal_shares), FILES_ON_BOTH(events_starve_nobody),
        FILES_ON_BOTH(slow_sends_have_a_slice),   FILES_ON_BOTH(large_sends_are_submitted_in_parts),
        FILES_ON_BOTH(cancels_all_happen),        FILES_ON_BOTH(accepts_starve_nobody),
        FILES_ON_BOTH(posts_starve_nobody),       FILES_ON_BOTH(timers_starve_nobody),
        FILES_ON_BOTH(reads_starve_nobody),       FILES_ON_BOTH(writes_all_happen),
        FILES_ON_BOTH(floods_starve_nobody),      FILES_ON_BOTH(floods_are_received_in_bundles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
