/*
 * What a turn does at most of each kind (sends, pieces, submissions, completions, accepts, reads, cancels, posted
 * calls, timers), one step and ten times beyond it, on both backends: all of it is done, and nobody else waits for it.
 * What waits is counted in turns, not in time.
 */
#include <sluice/conn.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "backends/uring.h"
#include "support/sockets.h"

enum {
    GUARD = 240,
    SOCKETS = 16,      /* that senders share: a descriptor for each sender, but few sockets */
    SPARE_FDS = 64,    /* of the test itself */
    PINGS = 290,       /* connections that are to be heard while others send */
    CLIENTS = 380,     /* and accepted */
    ARMED_TURNS = 200, /* receives are armed a few at a time */
    PATIENCE = 1000,   /* turns, for what takes some dozens */
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

static void rig_open(loop_rig *rig, void **state) {
    loop_rig_open(rig, NULL, &(sluice_loop_options){.backend = *(const sluice_backend_choice *)*state}, GUARD);
}

/* Senders: many connections that always have something to send, and always room to do so. */

typedef struct senders {
    sluice_loop *loop;
    sluice_conn **conns;
    unsigned count;
    unsigned pieces;     /* of each send */
    unsigned long most;  /* sends in all; each is asked for anew until then */
    unsigned long asked; /* sends that have been asked for */
    unsigned long sent;  /* bytes */
    unsigned closed;
    int sockets[SOCKETS][2];
} senders;

static size_t sender_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    static char byte = 's';
    senders *s = user;
    (void)conn;
    assert_true(max >= s->pieces);
    if (s->asked == s->most)
        return 0;
    s->asked++;
    for (unsigned i = 0; i < s->pieces; i++)
        iov[i] = (struct iovec){&byte, 1};
    return s->pieces;
}

static void sender_sent(sluice_conn *conn, size_t bytes, void *user) {
    senders *s = user;
    s->sent += bytes;
    assert_int_equal(bytes, s->pieces);
    sluice_conn_want_send(conn);
}

static void sender_closed(sluice_conn *conn, void *user) {
    (void)conn;
    ((senders *)user)->closed++;
}

static const sluice_conn_events sender_events = {
    .on_gather = sender_gather,
    .on_sent = sender_sent,
    .on_closed = sender_closed,
};

/* Each wants to send from the first turn on. */
static void senders_open(senders *s, sluice_loop *loop, unsigned count, unsigned pieces, unsigned long most) {
    const int size = 1 << 22;
    *s = (senders){.loop = loop, .count = count, .pieces = pieces, .most = most};
    s->conns = calloc(count, sizeof(sluice_conn *));
    assert_non_null(s->conns);
    for (unsigned i = 0; i < SOCKETS; i++) {
        sockets_tcp_pair(s->sockets[i]);
        (void)setsockopt(s->sockets[i][0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    }
    for (unsigned i = 0; i < count; i++) {
        int fd = duplicate(s->sockets[i % SOCKETS][0]);
        assert_int_equal(sluice_conn_new(loop, fd, &sender_events, s, &s->conns[i]), 0);
        sluice_conn_pause(s->conns[i]);
        sluice_conn_want_send(s->conns[i]);
    }
}

/* Their peers take what there is. */
static void senders_drain(senders *s) {
    static char bytes[1 << 16];
    for (unsigned i = 0; i < SOCKETS; i++)
        while (recv(s->sockets[i][1], bytes, sizeof bytes, MSG_DONTWAIT) > 0)
            continue;
}

static void senders_close(senders *s) {
    for (unsigned i = 0; i < s->count; i++)
        sluice_conn_close(s->conns[i]);
    turn_until_count(s->loop, &s->closed, s->count);
    for (unsigned i = 0; i < SOCKETS; i++) {
        close(s->sockets[i][0]);
        close(s->sockets[i][1]);
    }
    free(s->conns);
}

/* Others: peers that have sent a byte each, and clients that have connected. */

typedef struct others {
    int peers[PINGS], clients[CLIENTS];
    unsigned pings, accepts;
    sluice_listener *listener;
} others;

static void ping_data(sluice_conn *conn, void *user) {
    others *o = user;
    o->pings += (unsigned)sluice_chain_length(sluice_conn_chain(conn));
    sluice_chain_skip(sluice_conn_chain(conn), sluice_chain_length(sluice_conn_chain(conn)));
}

static void count_accept(sluice_listener *listener, int fd, void *user) {
    (void)listener;
    ((others *)user)->accepts++;
    close(fd);
}

static const sluice_conn_events ping_events = {.on_data = ping_data};

static void listen_here(sluice_loop *loop, others *o) {
    const struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(
        sluice_listener_new(loop, (const struct sockaddr *)&address, sizeof address, count_accept, o, &o->listener), 0);
}

/* All that the kernel is asked for on their behalf is with it when this is done. */
static void others_open(others *o, sluice_loop *loop) {
    *o = (others){0};
    for (unsigned i = 0; i < PINGS; i++) {
        sluice_conn *conn;
        int fds[2];
        sockets_tcp_pair(fds);
        o->peers[i] = fds[1];
        assert_int_equal(sluice_conn_new(loop, fds[0], &ping_events, o, &conn), 0);
    }
    listen_here(loop, o);
    turn_through(loop, 10);
    for (int turns = 0; turns < ARMED_TURNS; turns++)
        assert_int_equal(sluice_loop_turn(loop, 0), 0);
}

/* A connected client of the listener, that nobody has accepted yet. */
static int connect_client(const others *o) {
    struct sockaddr_storage address;
    assert_int_equal(sluice_listener_address(o->listener, &address), 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(struct sockaddr_in)), 0);
    return fd;
}

/* It is with this kernel when this is done: only the loop is waited for. */
static void others_come(others *o) {
    for (unsigned i = 0; i < PINGS; i++)
        sockets_write(o->peers[i], "p", 1);
    for (unsigned i = 0; i < PINGS; i++)
        sockets_wait_delivered(o->peers[i]);
    for (unsigned i = 0; i < CLIENTS; i++)
        o->clients[i] = connect_client(o);
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

/* Others are heard and accepted while so many send in every turn. */
static void serve_beside(void **state, unsigned count, unsigned pieces) {
    loop_rig rig;
    senders s;
    others o;
    count = descriptors(count + 2 * PINGS + CLIENTS) - 2 * PINGS - CLIENTS;
    rig_open(&rig, state);
    others_open(&o, rig.loop);
    senders_open(&s, rig.loop, count, pieces, ULONG_MAX);
    others_come(&o);
    unsigned turns = 0;
    for (; turns < PATIENCE && !others_are_served(&o); turns++) {
        assert_int_equal(sluice_loop_turn(rig.loop, -1), 0);
        senders_drain(&s);
    }
    print_message("%u senders of %u pieces: %u of %d pings, %u of %d accepts in %u turns\n", count, pieces, o.pings,
                  PINGS, o.accepts, CLIENTS, turns);
    assert_int_equal(o.pings, PINGS);
    assert_int_equal(o.accepts, CLIENTS);
    senders_close(&s);
    others_close(&o);
    loop_rig_close(&rig);
    hang_guard(0);
}

static void sends_of_a_turn_starve_nobody(void **state) {
    serve_beside(state, URING_SENDS, 1);
    serve_beside(state, URING_SENDS + 1, 1);
    serve_beside(state, 700, 1);
    serve_beside(state, 10 * URING_SENDS, 1);
}

static void pieces_of_a_turn_starve_nobody(void **state) {
    const unsigned full = URING_IOVECS / URING_SEND_PIECES;
    serve_beside(state, full, URING_SEND_PIECES);
    serve_beside(state, full + 1, URING_SEND_PIECES);
    serve_beside(state, 10 * full, URING_SEND_PIECES);
}

static sluice_backend_choice uring_choice = SLUICE_BACKEND_URING, epoll_choice = SLUICE_BACKEND_EPOLL;

#define ON_BOTH(test)                                                                                                  \
    {.name = #test ", io_uring", .test_func = test, .initial_state = &uring_choice}, {                                 \
        .name = #test ", epoll", .test_func = test, .initial_state = &epoll_choice                                     \
    }

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_BOTH(sends_of_a_turn_starve_nobody),
        ON_BOTH(pieces_of_a_turn_starve_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
