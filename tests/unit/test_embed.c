/* A loop that a host runs by its descriptor: here one that knows poll(2) only. */
#include <sluice/loop.h>

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/conn.h>

#include "backends/uring_abi.h"
#include "support/echo.h"
#include "support/sockets.h"

enum {
    GUARD = 60,
    CLIENTS = 6,
    POSTERS = 4,
    POSTS = 2000,
    MANY = 200,        /* descriptors ready at once */
    SILENT = 100,      /* more than are armed in one turn */
    QUIET_TURNS = 100, /* more than a loop needs to come to rest */
    REST_TURNS = 6,    /* more than it needs after one event */
};

/* A kernel that signals a registered eventfd once and never again: what it signals is another one,
 * of which one signal is passed on. */
static bool signals_once;
static struct {
    pthread_t thread;
    int from, to;
    atomic_bool ends;
} passing = {.from = -1};

int __real_io_uring_register_eventfd(struct io_uring *ring, int fd);
int __wrap_io_uring_register_eventfd(struct io_uring *ring, int fd);
int __real_io_uring_unregister_eventfd(struct io_uring *ring);
int __wrap_io_uring_unregister_eventfd(struct io_uring *ring);

static void *pass_one(void *unused) {
    uint64_t one = 1;
    assert_int_equal(read(passing.from, &one, sizeof one), sizeof one);
    one = 1;
    if (!atomic_load(&passing.ends))
        assert_int_equal(write(passing.to, &one, sizeof one), sizeof one);
    return unused;
}

static void end_passing(void) {
    const uint64_t one = 1;
    if (passing.from < 0)
        return;
    atomic_store(&passing.ends, true);
    assert_int_equal(write(passing.from, &one, sizeof one), sizeof one);
    assert_int_equal(pthread_join(passing.thread, NULL), 0);
    close(passing.from);
    close(passing.to);
    passing.from = -1;
}

int __wrap_io_uring_register_eventfd(struct io_uring *ring, int fd) {
    if (!signals_once)
        return __real_io_uring_register_eventfd(ring, fd);
    end_passing();
    passing.from = eventfd(0, EFD_CLOEXEC);
    assert_true(passing.from >= 0);
    /* Its own descriptor: the probe closes the other one while the signal may be on its way. */
    passing.to = dup(fd);
    assert_true(passing.to >= 0);
    atomic_store(&passing.ends, false);
    assert_int_equal(pthread_create(&passing.thread, NULL, pass_one, NULL), 0);
    return __real_io_uring_register_eventfd(ring, passing.from);
}

int __wrap_io_uring_unregister_eventfd(struct io_uring *ring) {
    int error = __real_io_uring_unregister_eventfd(ring);
    end_passing();
    return error;
}

static bool is_readable(sluice_loop *loop) {
    struct pollfd watched = {.fd = sluice_loop_fd(loop), .events = POLLIN};
    int ready = poll(&watched, 1, 0);
    assert_true(ready >= 0);
    return ready == 1;
}

/* One round of the host; sleeps where the loop says that it may. */
static void host(sluice_loop *loop) {
    struct pollfd watched = {.fd = sluice_loop_fd(loop), .events = POLLIN};
    if (poll(&watched, 1, sluice_loop_timeout(loop)) < 0)
        assert_int_equal(errno, EINTR);
    assert_int_equal(sluice_loop_turn(loop, 0), 0);
}

static void host_until_count(sluice_loop *loop, const unsigned *count, unsigned goal) {
    while (*count < goal)
        host(loop);
}

/* Until the host would sleep; says after how many turns. */
static unsigned host_until_rest(sluice_loop *loop) {
    unsigned turns = 0;
    while (sluice_loop_timeout(loop) == 0 || is_readable(loop)) {
        assert_int_equal(sluice_loop_turn(loop, 0), 0);
        assert_true(++turns < QUIET_TURNS);
    }
    return turns;
}

static void count_call(void *user) {
    unsigned *count = user;
    ++*count;
}

static void count_timer(sluice_timer *timer, void *user) {
    (void)timer;
    count_call(user);
}

static void there_is_one_descriptor(void **state) {
    (void)state;
    loop_rig rig;
    unsigned posted = 0;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    /* What was asked for before anybody watched waits for the first turn. */
    assert_int_equal(sluice_loop_post(rig.loop, count_call, &posted), 0);
    int fd = sluice_loop_fd(rig.loop);
    assert_true(fd >= 0);
    assert_int_equal(sluice_loop_fd(rig.loop), fd);
    assert_true(is_readable(rig.loop));
    host_until_rest(rig.loop);
    assert_int_equal(posted, 1);
    assert_int_equal(sluice_loop_fd(rig.loop), fd);
    assert_int_equal(sluice_loop_timeout(rig.loop), -1);
    loop_rig_close(&rig);
}

typedef struct watched_conn {
    sluice_conn *conn;
    int peer;
    unsigned data, gathered, ended, closed;
} watched_conn;

static void watched_data(sluice_conn *conn, void *user) {
    watched_conn *w = user;
    w->data++;
    sluice_chain_skip(sluice_conn_chain(conn), SIZE_MAX);
}

static size_t watched_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    static char byte = 'x';
    watched_conn *w = user;
    (void)conn, (void)max;
    if (w->gathered++ > 0)
        return 0;
    iov[0] = (struct iovec){&byte, 1};
    return 1;
}

static void watched_end(sluice_conn *conn, int error, void *user) {
    watched_conn *w = user;
    (void)conn, (void)error;
    w->ended++;
}

static void watched_closed(sluice_conn *conn, void *user) {
    watched_conn *w = user;
    (void)conn;
    w->closed++;
}

static const sluice_conn_events watched_events = {.size = sizeof watched_events,
                                                  .on_data = watched_data,
                                                  .on_gather = watched_gather,
                                                  .on_end = watched_end,
                                                  .on_closed = watched_closed};

static void watched_open(watched_conn *w, sluice_loop *loop) {
    int fds[2];
    sockets_unix_pair(fds);
    *w = (watched_conn){.peer = fds[1]};
    assert_int_equal(sluice_conn_new(loop, fds[0], &watched_events, w, &w->conn), 0);
}

static void not_accepted(sluice_listener *listener, int fd, void *user) {
    (void)listener;
    close(fd);
    count_call(user);
}

/* Each of these is queued only; without a turn it would never reach the kernel. */
static void what_is_asked_for_between_turns_shows(void **state) {
    (void)state;
    loop_rig rig;
    watched_conn w;
    char byte;
    unsigned posted = 0, accepted = 0;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    assert_true(sluice_loop_fd(rig.loop) >= 0);
    host_until_rest(rig.loop);

    watched_open(&w, rig.loop);
    assert_true(is_readable(rig.loop));
    host_until_rest(rig.loop);

    sluice_conn_want_send(w.conn);
    assert_true(is_readable(rig.loop));
    host_until_rest(rig.loop);
    assert_int_equal(recv(w.peer, &byte, 1, MSG_DONTWAIT), 1);

    sluice_conn_pause(w.conn);
    assert_true(is_readable(rig.loop));
    host_until_rest(rig.loop);
    sockets_write(w.peer, "a", 1);
    host_until_rest(rig.loop);
    assert_int_equal(w.data, 0);

    sluice_conn_resume(w.conn);
    assert_true(is_readable(rig.loop));
    host_until_count(rig.loop, &w.data, 1);
    host_until_rest(rig.loop);

    assert_int_equal(sluice_loop_post(rig.loop, count_call, &posted), 0);
    assert_true(is_readable(rig.loop));
    host_until_rest(rig.loop);
    assert_int_equal(posted, 1);

    const struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_storage address;
    sluice_listener *listener;
    assert_int_equal(
        sluice_listener_new(rig.loop, (const struct sockaddr *)&any, sizeof any, not_accepted, &accepted, &listener),
        0);
    assert_true(is_readable(rig.loop));
    host_until_rest(rig.loop);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(sluice_listener_address(listener, &address), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof any), 0);
    host_until_count(rig.loop, &accepted, 1);
    close(fd);
    host_until_rest(rig.loop);
    sluice_listener_free(listener);
    assert_true(is_readable(rig.loop));
    host_until_rest(rig.loop);

    sluice_conn_close(w.conn);
    assert_true(is_readable(rig.loop));
    host_until_count(rig.loop, &w.closed, 1);
    assert_int_equal(recv(w.peer, &byte, 1, MSG_DONTWAIT), 0);
    close(w.peer);
    loop_rig_close(&rig);
}

static void timers_set_the_timeout(void **state) {
    (void)state;
    loop_rig rig;
    sluice_timer *late, *early;
    unsigned late_fired = 0, early_fired = 0;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    assert_true(sluice_loop_fd(rig.loop) >= 0);
    host_until_rest(rig.loop);
    assert_int_equal(sluice_timer_new(rig.loop, count_timer, &late_fired, &late), 0);
    assert_int_equal(sluice_timer_new(rig.loop, count_timer, &early_fired, &early), 0);

    sluice_timer_start(late, 1000000);
    assert_true(is_readable(rig.loop));
    host_until_rest(rig.loop);
    int timeout = sluice_loop_timeout(rig.loop);
    assert_true(timeout > 0 && timeout <= 1000001);

    uint64_t begin = clock_now();
    sluice_timer_start(early, 20);
    assert_true(is_readable(rig.loop));
    assert_true(sluice_loop_timeout(rig.loop) <= 21);
    host_until_count(rig.loop, &early_fired, 1);
    assert_true(clock_now() - begin >= 20);
    assert_int_equal(late_fired, 0);
    assert_true(host_until_rest(rig.loop) <= REST_TURNS);
    assert_true(sluice_loop_timeout(rig.loop) > 0);

    /* One that cannot be the next to fire need not wake the host. */
    sluice_timer_start(early, 2000000);
    assert_false(is_readable(rig.loop));
    sluice_timer_free(late);
    sluice_timer_free(early);
    assert_int_equal(sluice_loop_timeout(rig.loop), -1);
    loop_rig_close(&rig);
}

static void close_conn(sluice_timer *timer, void *user) {
    (void)timer;
    sluice_conn_close(user);
}

/* In a turn that nothing else follows from. */
static void what_a_timer_asks_for_is_done(void **state) {
    (void)state;
    loop_rig rig;
    watched_conn w;
    sluice_timer *timer;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    assert_true(sluice_loop_fd(rig.loop) >= 0);
    watched_open(&w, rig.loop);
    assert_int_equal(sluice_timer_new(rig.loop, close_conn, w.conn, &timer), 0);
    sluice_timer_start(timer, 10);
    host_until_count(rig.loop, &w.closed, 1);
    sluice_timer_free(timer);
    close(w.peer);
    loop_rig_close(&rig);
}

static void it_comes_to_rest(void **state) {
    (void)state;
    loop_rig rig;
    watched_conn w;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    assert_true(sluice_loop_fd(rig.loop) >= 0);
    watched_open(&w, rig.loop);
    host_until_rest(rig.loop);
    for (unsigned i = 1; i <= 100; i++) {
        sockets_write(w.peer, "a", 1);
        host_until_count(rig.loop, &w.data, i);
        assert_true(host_until_rest(rig.loop) <= REST_TURNS);
    }
    /* To stop a run says nothing to a host, which would not know how to end this. */
    sluice_loop_stop(rig.loop);
    assert_true(host_until_rest(rig.loop) <= REST_TURNS);
    close(w.peer);
    loop_rig_close(&rig);
}

/* More completions than the kernel posts at one go, and not one of them may be left for a turn that
 * never comes. */
static void many_are_ready_at_once(void **state) {
    (void)state;
    loop_rig rig;
    if (!sockets_allow(2 * MANY + 64)) {
        print_message("skipped: the limit of open descriptors is below %d\n", 2 * MANY + 64);
        skip();
    }
    watched_conn *many = calloc(MANY, sizeof *many);
    assert_non_null(many);
    loop_rig_open(&rig, NULL, NULL, GUARD);
    assert_true(sluice_loop_fd(rig.loop) >= 0);
    for (unsigned i = 0; i < MANY; i++)
        watched_open(&many[i], rig.loop);
    for (unsigned round = 1; round <= 20; round++) {
        host_until_rest(rig.loop);
        for (unsigned i = 0; i < MANY; i++)
            sockets_write(many[i].peer, "a", 1);
        for (unsigned i = 0; i < MANY; i++)
            host_until_count(rig.loop, &many[i].data, round);
    }
    for (unsigned i = 0; i < MANY; i++)
        close(many[i].peer);
    for (unsigned i = 0; i < MANY; i++)
        host_until_count(rig.loop, &many[i].ended, 1);
    loop_rig_close(&rig);
    free(many);
}

/* Nobody who is silent keeps others from being received from: a host that sleeps has armed them
 * all. */
static void a_host_sleeps_when_all_are_armed(void **state) {
    (void)state;
    loop_rig rig;
    sluice_loop_stats stats = {.size = sizeof stats};
    watched_conn *many = calloc(SILENT, sizeof *many);
    assert_non_null(many);
    loop_rig_open(&rig, NULL, NULL, GUARD);
    assert_true(sluice_loop_fd(rig.loop) >= 0);
    for (unsigned i = 0; i < SILENT; i++)
        watched_open(&many[i], rig.loop);
    host_until_rest(rig.loop);
    sluice_loop_get_stats(rig.loop, &stats);
    assert_int_equal(stats.waiting, 0);
    assert_int_equal(sluice_loop_timeout(rig.loop), -1);
    for (unsigned i = 0; i < SILENT; i++)
        close(many[i].peer);
    for (unsigned i = 0; i < SILENT; i++)
        host_until_count(rig.loop, &many[i].ended, 1);
    loop_rig_close(&rig);
    free(many);
}

typedef struct poster {
    sluice_loop *loop;
    pthread_t thread;
    sem_t called;
    unsigned *count;
    bool failed;
} poster;

static void called(void *user) {
    poster *p = user;
    ++*p->count;
    sem_post(&p->called);
}

/* The host goes to sleep between any two of them, and each must wake it. */
static void *post_one_by_one(void *user) {
    poster *p = user;
    for (int i = 0; i < POSTS && !p->failed; i++) {
        p->failed = sluice_loop_post(p->loop, called, p) < 0;
        while (!p->failed && sem_wait(&p->called) < 0)
            ;
    }
    return NULL;
}

static void every_post_wakes_the_host(void **state) {
    (void)state;
    for (unsigned posters = 1; posters <= POSTERS; posters *= 2) {
        loop_rig rig;
        poster all[POSTERS];
        unsigned count = 0;
        loop_rig_open(&rig, NULL, NULL, GUARD);
        assert_true(sluice_loop_fd(rig.loop) >= 0);
        for (unsigned i = 0; i < posters; i++) {
            all[i] = (poster){.loop = rig.loop, .count = &count};
            assert_int_equal(sem_init(&all[i].called, 0, 0), 0);
            assert_int_equal(pthread_create(&all[i].thread, NULL, post_one_by_one, &all[i]), 0);
        }
        host_until_count(rig.loop, &count, posters * POSTS);
        for (unsigned i = 0; i < posters; i++) {
            assert_int_equal(pthread_join(all[i].thread, NULL), 0);
            assert_false(all[i].failed);
            sem_destroy(&all[i].called);
        }
        assert_true(host_until_rest(rig.loop) <= REST_TURNS);
        loop_rig_close(&rig);
    }
}

static void run_echo(const sluice_pool_options *pool, const sluice_loop_options *options, uint64_t total) {
    loop_rig rig;
    echo_server server;
    echo_client *clients = calloc(CLIENTS, sizeof *clients);
    assert_non_null(clients);
    loop_rig_open(&rig, pool, options, GUARD);
    assert_true(sluice_loop_fd(rig.loop) >= 0);
    echo_server_open(&server, rig.loop);
    for (unsigned i = 0; i < CLIENTS; i++)
        echo_client_open(&clients[i], &server, i + 1, total);
    for (unsigned i = 0; i < CLIENTS; i++) {
        host_until_count(rig.loop, &clients[i].closed, 1);
        echo_client_check(&clients[i]);
    }
    host_until_count(rig.loop, &server.served, CLIENTS);
    assert_int_equal(server.open, 0);
    host_until_rest(rig.loop);
    loop_rig_close(&rig);
    free(clients);
}

static void streams_go_both_ways(void **state) {
    (void)state;
    run_echo(NULL, NULL, 4 << 20);
}

static void streams_go_on_with_a_small_stock(void **state) {
    (void)state;
    const sluice_pool_options pool = {
        .size = sizeof pool, .slab_blocks = 64, .max_blocks = 8192, .no_huge_pages = true};
    run_echo(&pool, &(sluice_loop_options){.size = sizeof(sluice_loop_options), .stock_bytes = 4 * 4096}, 1 << 20);
}

/* At a window of a tenth of a second for each of these, the guard would end the test. */
static void a_turn_without_wait_has_no_batching_window(void **state) {
    (void)state;
    loop_rig rig;
    watched_conn w;
    loop_rig_open(&rig, NULL, &(sluice_loop_options){.size = sizeof(sluice_loop_options), .batch_us = 100000}, GUARD);
    assert_true(sluice_loop_fd(rig.loop) >= 0);
    watched_open(&w, rig.loop);
    for (unsigned i = 1; i <= 2000; i++) {
        sockets_write(w.peer, "a", 1);
        host_until_count(rig.loop, &w.data, i);
    }
    close(w.peer);
    loop_rig_close(&rig);
}

/* Blocks that are given back between turns, on the loop's own thread or another one, go to who
 * waits for them. */
static void *release_all(void *user) {
    sluice_slice *slice = user;
    sluice_slice_release(slice);
    return NULL;
}

typedef struct hoarder {
    sluice_conn *conn;
    uint64_t received;
    bool ended;
} hoarder;

static void hoarder_end(sluice_conn *conn, int error, void *user) {
    hoarder *h = user;
    (void)conn;
    h->ended = error == 0;
}

static const sluice_conn_events hoarder_events = {.size = sizeof hoarder_events, .on_end = hoarder_end};

static unsigned waiting(const sluice_loop *loop) {
    sluice_loop_stats stats = {.size = sizeof stats};
    sluice_loop_get_stats(loop, &stats);
    return stats.waiting;
}

static void who_waits_for_blocks_goes_on(void **state) {
    (void)state;
    const sluice_pool_options pool = {.size = sizeof pool,
                                      .block_size = 4096,
                                      .slab_blocks = 16,
                                      .max_blocks = 32,
                                      .reserve_blocks = 4,
                                      .no_huge_pages = true};
    const uint64_t total = 1 << 20;
    loop_rig rig;
    hoarder h = {0};
    socket_writer writer;
    int fds[2];
    loop_rig_open(&rig, &pool, &(sluice_loop_options){.size = sizeof(sluice_loop_options), .stock_bytes = 8 * 4096},
                  GUARD);
    assert_true(sluice_loop_fd(rig.loop) >= 0);
    sockets_tcp_pair(fds);
    assert_int_equal(sluice_conn_new(rig.loop, fds[0], &hoarder_events, &h, &h.conn), 0);
    socket_writer_start(&writer, fds[1], 1, total, 4096, 65536);
    for (unsigned i = 0; !h.ended; i++) {
        sluice_slice slice;
        pthread_t thread;
        while (!h.ended && waiting(rig.loop) == 0)
            host(rig.loop);
        host_until_rest(rig.loop);
        /* Now everything is held, or was a moment ago. */
        size_t length = sluice_chain_length(sluice_conn_chain(h.conn));
        assert_int_equal(sluice_chain_take(sluice_conn_chain(h.conn), length, &slice), 0);
        assert_true(pattern_slice_matches(1, h.received, &slice));
        h.received += length;
        if (i % 2) {
            sluice_slice_release(&slice);
        } else {
            assert_int_equal(pthread_create(&thread, NULL, release_all, &slice), 0);
            /* The end may have come before the rest, and then nobody waits for what is given
             * back. */
            if (!h.ended)
                host(rig.loop);
            assert_int_equal(pthread_join(thread, NULL), 0);
        }
        if (!h.ended)
            host(rig.loop);
    }
    h.received += sluice_chain_length(sluice_conn_chain(h.conn));
    assert_int_equal(h.received, total);
    socket_writer_join(&writer);
    close(fds[1]);
    loop_rig_close(&rig);
}

/*
 * A host that waits with epoll, and sees the descriptor among others. Many times, since the end
 * comes while it wakes up for bytes: of a receive that completes many times the kernel may lose it
 * then.
 */
static void a_host_may_wait_with_epoll(void **state) {
    (void)state;
    enum { ROUNDS = 50, BYTES = 1 << 17 };
    for (int i = 0; i < ROUNDS; i++) {
        loop_rig rig;
        watched_conn w;
        loop_rig_open(&rig, NULL, NULL, GUARD);
        int set = epoll_create1(EPOLL_CLOEXEC);
        struct epoll_event event = {.events = EPOLLIN};
        assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, sluice_loop_fd(rig.loop), &event), 0);
        watched_open(&w, rig.loop);
        host_until_rest(rig.loop);
        socket_writer writer;
        socket_writer_start(&writer, w.peer, 1, BYTES, 1, 4000);
        while (w.ended == 0) {
            if (epoll_wait(set, &event, 1, sluice_loop_timeout(rig.loop)) < 0)
                assert_int_equal(errno, EINTR);
            assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
        }
        socket_writer_join(&writer);
        close(w.peer);
        close(set);
        loop_rig_close(&rig);
    }
}

/* Straight-line code may wait in a turn, in the middle of a host's life. */
static void turns_that_wait_go_on_working(void **state) {
    (void)state;
    loop_rig rig;
    poster p = {0};
    unsigned count = 0;
    watched_conn w;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    assert_true(sluice_loop_fd(rig.loop) >= 0);
    watched_open(&w, rig.loop);
    host_until_rest(rig.loop);
    p = (poster){.loop = rig.loop, .count = &count};
    assert_int_equal(sem_init(&p.called, 0, 0), 0);
    assert_int_equal(pthread_create(&p.thread, NULL, post_one_by_one, &p), 0);
    turn_until_count(rig.loop, &count, POSTS / 2);
    host_until_count(rig.loop, &count, POSTS);
    assert_int_equal(pthread_join(p.thread, NULL), 0);
    sem_destroy(&p.called);
    sockets_write(w.peer, "a", 1);
    turn_until_count(rig.loop, &w.data, 1);
    sockets_write(w.peer, "a", 1);
    host_until_count(rig.loop, &w.data, 2);
    close(w.peer);
    loop_rig_close(&rig);
}

/* Linux 6.12.117: each arrival wakes the host all the same, and the features say how. */
static void a_kernel_that_signals_once_wakes_the_host_each_time(void **state) {
    (void)state;
    loop_rig rig;
    watched_conn w;
    sluice_loop_stats stats = {.size = sizeof stats};
    const sluice_loop_options options = {.size = sizeof options, .backend = SLUICE_BACKEND_URING};
    loop_rig_open(&rig, NULL, &options, GUARD);
    sluice_loop_get_stats(rig.loop, &stats);
    if (!strstr(stats.features, "defer-taskrun")) {
        loop_rig_close(&rig);
        print_message("skipped: only task work that is deferred is concerned\n");
        skip();
    }
    const char *before = stats.features;
    assert_null(strstr(before, "eventfd-rearm"));
    signals_once = true;
    assert_true(sluice_loop_fd(rig.loop) >= 0);
    sluice_loop_get_stats(rig.loop, &stats);
    assert_non_null(strstr(stats.features, "eventfd-rearm"));
    assert_null(strstr(before, "eventfd-rearm"));
    watched_open(&w, rig.loop);
    host_until_rest(rig.loop);
    for (unsigned i = 1; i <= 20; i++) {
        sockets_write(w.peer, "a", 1);
        host_until_count(rig.loop, &w.data, i);
        host_until_rest(rig.loop);
    }
    close(w.peer);
    host_until_count(rig.loop, &w.ended, 1);
    loop_rig_close(&rig);
    end_passing();
    signals_once = false;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_is_one_descriptor),
        cmocka_unit_test(what_is_asked_for_between_turns_shows),
        cmocka_unit_test(timers_set_the_timeout),
        cmocka_unit_test(what_a_timer_asks_for_is_done),
        cmocka_unit_test(it_comes_to_rest),
        cmocka_unit_test(many_are_ready_at_once),
        cmocka_unit_test(a_host_sleeps_when_all_are_armed),
        cmocka_unit_test(every_post_wakes_the_host),
        cmocka_unit_test(streams_go_both_ways),
        cmocka_unit_test(streams_go_on_with_a_small_stock),
        cmocka_unit_test(a_turn_without_wait_has_no_batching_window),
        cmocka_unit_test(who_waits_for_blocks_goes_on),
        cmocka_unit_test(a_host_may_wait_with_epoll),
        cmocka_unit_test(turns_that_wait_go_on_working),
        cmocka_unit_test(a_kernel_that_signals_once_wakes_the_host_each_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
