/* Listeners: what they accept, at which addresses, and what happens when descriptors run out. */
#include <sluice/conn.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "backends/uring.h"
#include "support/conn_rig.h"
#include "support/sockets.h"

typedef struct acceptor {
    loop_rig *rig;
    unsigned accepted;
    int last;
    bool close_on_exec;
    bool frees, keeps;
    unsigned closed;
} acceptor;

static void accept_one(sluice_listener *listener, int fd, void *user) {
    acceptor *a = user;
    a->accepted++;
    a->last = fd;
    a->close_on_exec = fcntl(fd, F_GETFD) & FD_CLOEXEC;
    if (!a->keeps)
        close(fd);
    if (a->frees)
        sluice_listener_free(listener);
}

/* This process's own: a port that it has given up is not another test's a moment later. */
static struct sockaddr_in loopback(void) {
    uint32_t own = (INADDR_LOOPBACK & IN_CLASSA_NET) | 1 << 16 | ((uint32_t)getpid() & 0xFFFF);
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(own)};
}

static sluice_listener *listen_on_loopback(loop_rig *rig, sluice_listener_fn *accepted, void *user,
                                           struct sockaddr_storage *ret_address) {
    struct sockaddr_in address = loopback();
    sluice_listener *listener;
    assert_int_equal(
        sluice_listener_new(rig->loop, (struct sockaddr *)&address, sizeof address, accepted, user, &listener), 0);
    assert_int_equal(sluice_listener_address(listener, ret_address), 0);
    assert_int_not_equal(((struct sockaddr_in *)ret_address)->sin_port, 0);
    return listener;
}

/* A socket, not yet connected. */
static int client_new(const struct sockaddr_storage *address) {
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    return fd;
}

static void client_connect(int fd, const struct sockaddr_storage *address) {
    assert_int_equal(connect(fd, (const struct sockaddr *)address, sizeof *address), 0);
}

static void a_listener_accepts(void **state) {
    (void)state;
    loop_rig rig;
    acceptor a = {0};
    struct sockaddr_storage address;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    sluice_listener *listener = listen_on_loopback(&rig, accept_one, &a, &address);
    for (unsigned i = 1; i <= 50; i++) {
        int fd = client_new(&address);
        client_connect(fd, &address);
        turn_until_count(rig.loop, &a.accepted, i);
        assert_true(a.close_on_exec);
        close(fd);
    }
    sluice_listener_free(listener);
    sluice_listener_free(NULL);
    turn_through(rig.loop, 5);
    int fd = client_new(&address);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), -1);
    assert_int_equal(errno, ECONNREFUSED);
    close(fd);
    loop_rig_close(&rig);
}

static void listener_arguments_are_checked(void **state) {
    (void)state;
    loop_rig rig;
    acceptor a = {0};
    struct sockaddr_storage taken;
    struct sockaddr_in address = loopback();
    struct sockaddr unknown = {.sa_family = AF_MAX};
    sluice_listener *const untouched = (sluice_listener *)(void *)&a;
    sluice_listener *listener = untouched;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    listen_on_loopback(&rig, accept_one, &a, &taken);
    assert_int_equal(
        sluice_listener_new(rig.loop, (struct sockaddr *)&taken, sizeof address, accept_one, &a, &listener),
        -EADDRINUSE);
    assert_int_equal(sluice_listener_new(rig.loop, NULL, 0, accept_one, &a, &listener), -EINVAL);
    assert_int_equal(sluice_listener_new(rig.loop, (struct sockaddr *)&address, sizeof address, NULL, &a, &listener),
                     -EINVAL);
    assert_int_equal(sluice_listener_new(rig.loop, &unknown, sizeof unknown, accept_one, &a, &listener), -EAFNOSUPPORT);
    assert_int_equal(sluice_listener_new(rig.loop, (struct sockaddr *)&address, 1, accept_one, &a, &listener), -EINVAL);
    assert_ptr_equal(listener, untouched);
    loop_rig_close(&rig);
}

static void a_listener_takes_ipv6(void **state) {
    (void)state;
    loop_rig rig;
    acceptor a = {0};
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_storage bound;
    sluice_listener *listener;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    int error = sluice_listener_new(rig.loop, (struct sockaddr *)&address, sizeof address, accept_one, &a, &listener);
    if (error == -EAFNOSUPPORT || error == -EADDRNOTAVAIL) {
        loop_rig_close(&rig);
        print_message("skipped: this machine has no IPv6\n");
        skip();
    }
    assert_int_equal(error, 0);
    assert_int_equal(sluice_listener_address(listener, &bound), 0);
    int fd = client_new(&bound);
    client_connect(fd, &bound);
    turn_until_count(rig.loop, &a.accepted, 1);
    close(fd);
    loop_rig_close(&rig);
}

static void a_freed_listener_accepts_no_more(void **state) {
    (void)state;
    enum { CLIENTS = 20 };
    /* Freed before it was armed; from its own call, with others in the backlog; and after the
     * turn. */
    for (int how = 0; how < 3; how++) {
        loop_rig rig;
        acceptor a = {.frees = how == 1};
        struct sockaddr_storage address;
        int clients[CLIENTS];
        char byte;
        loop_rig_open(&rig, NULL, NULL, GUARD);
        sluice_listener *listener = listen_on_loopback(&rig, accept_one, &a, &address);
        if (how == 2)
            turn_through(rig.loop, 2);
        for (int i = 0; i < CLIENTS; i++) {
            clients[i] = client_new(&address);
            client_connect(clients[i], &address);
        }
        if (how != 1)
            sluice_listener_free(listener);
        turn_through(rig.loop, 10);
        assert_int_equal(a.accepted, how == 1);
        /* None hangs: each peer is told. */
        for (int i = 0; i < CLIENTS; i++) {
            assert_true(recv(clients[i], &byte, 1, 0) <= 0);
            close(clients[i]);
        }
        loop_rig_close(&rig);
        assert_int_equal(a.accepted, how == 1);
    }
}

/* More entries than the queue takes before the first turn: a free must not be lost among them. */
static void listeners_freed_before_the_first_turn_are_closed(void **state) {
    (void)state;
    enum { LISTENERS = URING_ENTRIES * 2 / 3 };
    if (!sockets_allow(LISTENERS + 400)) {
        print_message("skipped: the limit of open descriptors is below %d\n", LISTENERS + 400);
        skip();
    }
    loop_rig rig;
    acceptor a = {0};
    static sluice_listener *listeners[LISTENERS];
    static struct sockaddr_storage addresses[LISTENERS];
    loop_rig_open(&rig, NULL, NULL, GUARD);
    for (int i = 0; i < LISTENERS; i++)
        listeners[i] = listen_on_loopback(&rig, accept_one, &a, &addresses[i]);
    for (int i = 0; i < LISTENERS; i++)
        sluice_listener_free(listeners[i]);
    /* The kernel reports a few at a time. */
    turn_through(rig.loop, LISTENERS / 4);
    for (int i = 0; i < LISTENERS; i++) {
        int fd = client_new(&addresses[i]);
        assert_int_equal(connect(fd, (struct sockaddr *)&addresses[i], sizeof addresses[i]), -1);
        close(fd);
    }
    loop_rig_close(&rig);
}

/* Every free descriptor below the limit is in use; the peer waits until one is closed, or the limit
 * rises. */
static void a_peer_waits_while_descriptors_are_exhausted(void **state) {
    (void)state;
    for (int rise = 0; rise < 2; rise++) {
        loop_rig rig;
        acceptor a = {0};
        struct sockaddr_storage address;
        struct rlimit limit;
        loop_rig_open(&rig, NULL, NULL, GUARD);
        sluice_listener *listener = listen_on_loopback(&rig, accept_one, &a, &address);
        int client = client_new(&address);
        int spare = dup(client);
        assert_true(spare > client);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
        struct rlimit low = {.rlim_cur = (rlim_t)spare + 1, .rlim_max = limit.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
        client_connect(client, &address);
        turn_through(rig.loop, 20);
        assert_int_equal(a.accepted, 0);

        if (rise)
            assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        else
            close(spare);
        turn_until_count(rig.loop, &a.accepted, 1);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        if (rise)
            close(spare);
        close(client);
        sluice_listener_free(listener);
        loop_rig_close(&rig);
        assert_int_equal(a.accepted, 1);
    }
}

/* Lives: connections come, say something, and go. */

enum { LIVES = 1000 };

typedef struct life {
    acceptor *acceptor;
    receiver receiver;
} life;

static void life_end(sluice_conn *conn, int error, void *user) {
    receiver_end(conn, error, &((life *)user)->receiver);
    sluice_conn_close(conn);
}

static void life_data(sluice_conn *conn, void *user) {
    receiver_data(conn, &((life *)user)->receiver);
}

static void life_closed(sluice_conn *conn, void *user) {
    life *l = user;
    (void)conn;
    if (l->receiver.place == 3000 && !l->receiver.differs && l->receiver.error == 0)
        l->acceptor->closed++;
    free(l);
}

static void begin_life(sluice_listener *listener, int fd, void *user) {
    static const sluice_conn_events events = {
        .size = sizeof events, .on_data = life_data, .on_end = life_end, .on_closed = life_closed};
    acceptor *a = user;
    life *l = calloc(1, sizeof *l);
    (void)listener;
    assert_non_null(l);
    l->acceptor = a;
    l->receiver.seed = SEED;
    a->accepted++;
    assert_int_equal(sluice_conn_new(a->rig->loop, fd, &events, l, &l->receiver.conn), 0);
}

static void *live(void *user) {
    const struct sockaddr_storage *address = user;
    uint8_t bytes[3000];
    pattern_fill(SEED, 0, bytes, sizeof bytes);
    for (int i = 0; i < LIVES; i++) {
        char byte;
        int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool well = connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 &&
                    send(fd, bytes, sizeof bytes, MSG_NOSIGNAL) == (ssize_t)sizeof bytes && shutdown(fd, SHUT_WR) == 0;
        /* The other side closes. */
        well = well && recv(fd, &byte, 1, 0) == 0;
        close(fd);
        if (!well)
            abort();
    }
    return NULL;
}

static void connections_come_and_go(void **state) {
    (void)state;
    loop_rig rig;
    acceptor a = {.rig = &rig};
    struct sockaddr_storage address;
    pthread_t thread;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    listen_on_loopback(&rig, begin_life, &a, &address);
    assert_int_equal(pthread_create(&thread, NULL, live, &address), 0);
    turn_until_count(rig.loop, &a.closed, LIVES);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(a.accepted, LIVES);
    assert_int_equal(stats_of(rig.loop).connections, 0);
    loop_rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_listener_accepts),
        cmocka_unit_test(listener_arguments_are_checked),
        cmocka_unit_test(a_listener_takes_ipv6),
        cmocka_unit_test(a_freed_listener_accepts_no_more),
        cmocka_unit_test(listeners_freed_before_the_first_turn_are_closed),
        cmocka_unit_test(a_peer_waits_while_descriptors_are_exhausted),
        cmocka_unit_test(connections_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
