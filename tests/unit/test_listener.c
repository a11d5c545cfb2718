/* Listening sockets that are handed over: no connection is refused, lost or given to nobody. */
#include <sluice/conn.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/loop.h>

#include "support/sockets.h"

enum {
    GUARD = 60,
    CLIENTS = 25, /* each time */
};

/* Who accepts: tells each client who it is, and closes. */
typedef struct acceptor {
    char name;
    unsigned accepted;
    unsigned stopped;
} acceptor;

static void greet(sluice_listener *listener, int fd, void *user) {
    acceptor *a = user;
    assert_non_null(listener);
    sockets_write(fd, &a->name, 1);
    close(fd);
    a->accepted++;
}

static void count_stop(void *user) {
    acceptor *a = user;
    a->stopped++;
}

/* At an address of this process's own: a port that it has given up is not another test's a moment
 * later. */
static int listen_somewhere(struct sockaddr_in *ret_address) {
    uint32_t own = (INADDR_LOOPBACK & IN_CLASSA_NET) | 1 << 16 | ((uint32_t)getpid() & 0xFFFF);
    socklen_t length = sizeof *ret_address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *ret_address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(own)};
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)ret_address, length), 0);
    assert_int_equal(listen(fd, 1024), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)ret_address, &length), 0);
    return fd;
}

static int duplicate(int fd) {
    int other = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    assert_true(other >= 0);
    return other;
}

static void connect_clients(const struct sockaddr_in *address, int *clients) {
    for (unsigned i = 0; i < CLIENTS; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(clients[i] >= 0);
        assert_int_equal(connect(clients[i], (const struct sockaddr *)address, sizeof *address), 0);
    }
}

/* Each has been greeted by somebody, and then ended well. */
static unsigned count_greeted(const int *clients, unsigned count, char name) {
    unsigned greeted = 0;
    for (unsigned i = 0; i < count; i++) {
        char byte, end;
        assert_int_equal(recv(clients[i], &byte, 1, 0), 1);
        assert_int_equal(recv(clients[i], &end, 1, 0), 0);
        greeted += byte == name;
        close(clients[i]);
    }
    return greeted;
}

static void a_socket_goes_from_loop_to_loop(void **state) {
    (void)state;
    for (unsigned turns = 0; turns < 8; turns++) {
        acceptor first = {.name = 'a'}, second = {.name = 'b'};
        loop_rig rigs[2];
        struct sockaddr_in address;
        sluice_listener *listeners[2];
        int clients[4 * CLIENTS], fd = listen_somewhere(&address);
        for (int i = 0; i < 2; i++)
            loop_rig_open(&rigs[i], NULL, NULL, GUARD);
        assert_int_equal(sluice_listener_adopt(rigs[0].loop, fd, greet, &first, &listeners[0]), 0);
        assert_int_equal(sluice_listener_fd(listeners[0]), fd);
        int other = duplicate(fd);
        connect_clients(&address, clients);
        turn_until_count(rigs[0].loop, &first.accepted, CLIENTS);
        connect_clients(&address, clients + CLIENTS);
        turn_through(rigs[0].loop, turns);
        /* The kernel goes on accepting for the first until it knows. */
        connect_clients(&address, clients + 2 * CLIENTS);
        assert_int_equal(sluice_listener_stop(listeners[0], count_stop), 0);
        assert_int_equal(sluice_listener_stop(listeners[0], count_stop), -EALREADY);
        turn_until_count(rigs[0].loop, &first.stopped, 1);
        unsigned of_first = first.accepted;
        connect_clients(&address, clients + 3 * CLIENTS);
        turn_through(rigs[0].loop, 5);
        assert_int_equal(first.accepted, of_first);

        assert_int_equal(sluice_listener_adopt(rigs[1].loop, other, greet, &second, &listeners[1]), 0);
        turn_until_count(rigs[1].loop, &second.accepted, 4 * CLIENTS - of_first);
        assert_true(second.accepted >= CLIENTS);
        assert_int_equal(count_greeted(clients, 4 * CLIENTS, 'a'), of_first);
        assert_int_equal(first.stopped, 1);
        for (int i = 0; i < 2; i++)
            loop_rig_close(&rigs[i]);
    }
}

/* Service managers give such; and so does a process on epoll. */
static void a_non_blocking_socket_is_waited_at(void **state) {
    (void)state;
    loop_rig rig;
    acceptor a = {.name = 'a'};
    struct sockaddr_in address;
    sluice_listener *listener;
    int clients[CLIENTS], fd = listen_somewhere(&address);
    loop_rig_open(&rig, NULL, NULL, GUARD);
    sockets_set_blocking(fd, false);
    assert_int_equal(sluice_listener_adopt(rig.loop, fd, greet, &a, &listener), 0);
    turn_through(rig.loop, 5);
    connect_clients(&address, clients);
    turn_until_count(rig.loop, &a.accepted, CLIENTS);
    assert_int_equal(count_greeted(clients, CLIENTS, 'a'), CLIENTS);
    loop_rig_close(&rig);
}

static void once_stopped_nobody_listens(void **state) {
    (void)state;
    loop_rig rig;
    acceptor a = {.name = 'a'};
    struct sockaddr_in address;
    sluice_listener *listener;
    int fd = listen_somewhere(&address);
    loop_rig_open(&rig, NULL, NULL, GUARD);
    assert_int_equal(sluice_listener_adopt(rig.loop, fd, greet, &a, &listener), 0);
    /* Also one that has not begun yet. */
    assert_int_equal(sluice_listener_stop(listener, count_stop), 0);
    turn_until_count(rig.loop, &a.stopped, 1);
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof address), -1);
    assert_int_equal(errno, ECONNREFUSED);
    close(client);
    loop_rig_close(&rig);
}

/* Who frees it wants to hear no more, and what was accepted is closed. */
static void freed_while_it_stops_it_is_silent(void **state) {
    (void)state;
    for (int by_loop = 0; by_loop < 2; by_loop++) {
        loop_rig rig;
        acceptor a = {.name = 'a'};
        struct sockaddr_in address;
        sluice_listener *listener;
        int clients[CLIENTS], fd = listen_somewhere(&address);
        loop_rig_open(&rig, NULL, NULL, GUARD);
        assert_int_equal(sluice_listener_adopt(rig.loop, fd, greet, &a, &listener), 0);
        turn_through(rig.loop, 3);
        connect_clients(&address, clients);
        assert_int_equal(sluice_listener_stop(listener, count_stop), 0);
        if (!by_loop)
            sluice_listener_free(listener);
        loop_rig_close(&rig);
        assert_int_equal(a.stopped, 0);
        assert_int_equal(a.accepted, 0);
        for (unsigned i = 0; i < CLIENTS; i++) {
            char byte;
            assert_true(recv(clients[i], &byte, 1, 0) <= 0);
            close(clients[i]);
        }
    }
}

static void what_does_not_listen_is_refused(void **state) {
    (void)state;
    loop_rig rig;
    acceptor a = {0};
    struct sockaddr_in address;
    sluice_listener *const untouched = (sluice_listener *)(void *)&a;
    sluice_listener *listener = untouched;
    int pipes[2], pair[2], fd = listen_somewhere(&address);
    loop_rig_open(&rig, NULL, NULL, GUARD);
    sockets_tcp_pair(pair);
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(sluice_listener_adopt(rig.loop, fd, NULL, &a, &listener), -EINVAL);
    assert_int_equal(sluice_listener_adopt(rig.loop, pair[0], greet, &a, &listener), -EINVAL);
    assert_int_equal(sluice_listener_adopt(rig.loop, pipes[0], greet, &a, &listener), -ENOTSOCK);
    assert_int_equal(sluice_listener_adopt(rig.loop, -1, greet, &a, &listener), -EBADF);
    assert_ptr_equal(listener, untouched);
    /* They are still the caller's. */
    assert_int_equal(close(fd) | close(pair[0]) | close(pair[1]) | close(pipes[0]) | close(pipes[1]), 0);

    fd = listen_somewhere(&address);
    assert_int_equal(sluice_listener_adopt(rig.loop, fd, greet, &a, &listener), 0);
    assert_int_equal(sluice_listener_stop(listener, NULL), -EINVAL);
    loop_rig_close(&rig);
}

typedef struct time_note {
    sluice_loop *loop;
    uint64_t now; /* of the loop, when it called */
    bool called;
} time_note;

static void note_time(sluice_listener *listener, int fd, void *user) {
    time_note *noted = user;
    assert_non_null(listener);
    noted->now = sluice_loop_now(noted->loop);
    noted->called = true;
    close(fd);
}

/* However long nobody has turned the loop before: a deadline that begins with the connection must
 * not be over then. */
static void the_time_is_when_it_was_accepted(void **state) {
    (void)state;
    loop_rig rig;
    struct sockaddr_in address;
    sluice_listener *listener;
    int fd = listen_somewhere(&address), client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    loop_rig_open(&rig, NULL, NULL, GUARD);
    time_note noted = {.loop = rig.loop};
    assert_int_equal(sluice_listener_adopt(rig.loop, fd, note_time, &noted, &listener), 0);
    turn_through(rig.loop, 5);
    uint64_t turned = clock_now();
    while (clock_now() == turned)
        continue;
    assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof address), 0);
    turn_until(rig.loop, &noted.called);
    assert_true(noted.now > turned);
    close(client);
    loop_rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_socket_goes_from_loop_to_loop), cmocka_unit_test(a_non_blocking_socket_is_waited_at),
        cmocka_unit_test(once_stopped_nobody_listens),     cmocka_unit_test(freed_while_it_stops_it_is_silent),
        cmocka_unit_test(what_does_not_listen_is_refused), cmocka_unit_test(the_time_is_when_it_was_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
