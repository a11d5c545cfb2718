/* A loop inside libevent: its connections, timers and posts beside the base's own events, in one
 * thread. */
#include <sluice/libevent.h>

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/conn.h>

#include "support/echo.h"
#include "support/sockets.h"

enum {
    GUARD = 60,
    CLIENTS = 6,
    TOTAL = 4 << 20,
    POSTS = 5000,
    TICK_MS = 2,
    IDLE_TICKS = 50,
    REST_TURNS = 6,  /* more than a loop needs to come to rest after one event */
    BUSY_TURNS = 30, /* at least so many make a busy loop */
};

/* A loop in its base. */
typedef struct host_rig {
    loop_rig rig;
    struct event_base *base;
    sluice_libevent *place;
} host_rig;

static void host_open(host_rig *host) {
    loop_rig_open(&host->rig, NULL, NULL, GUARD);
    host->base = event_base_new();
    assert_non_null(host->base);
    assert_int_equal(sluice_libevent_attach(host->rig.loop, host->base, &host->place), 0);
}

static void host_close(host_rig *host) {
    assert_int_equal(sluice_libevent_error(host->place), 0);
    sluice_libevent_free(host->place);
    loop_rig_close(&host->rig);
    event_base_free(host->base);
}

static void host_until_count(const host_rig *host, const unsigned *count, unsigned goal) {
    while (*count < goal)
        assert_int_equal(event_base_loop(host->base, EVLOOP_ONCE), 0);
}

static uint64_t turns_of(const sluice_loop *loop) {
    sluice_loop_stats stats = {.size = sizeof stats};
    sluice_loop_get_stats(loop, &stats);
    return stats.turns;
}

static void count_call(void *user) {
    unsigned *count = user;
    ++*count;
}

static void count_timer(sluice_timer *timer, void *user) {
    (void)timer;
    count_call(user);
}

static void count_event(evutil_socket_t fd, short what, void *user) {
    (void)fd, (void)what;
    count_call(user);
}

/* The base's own timer, again and again. */
static struct event *ticks_new(const host_rig *host, unsigned *count) {
    struct event *ticks = event_new(host->base, -1, EV_PERSIST, count_event, count);
    assert_non_null(ticks);
    assert_int_equal(event_add(ticks, &(struct timeval){.tv_usec = TICK_MS * 1000}), 0);
    return ticks;
}

static void arguments_are_checked(void **state) {
    (void)state;
    host_rig host;
    host_open(&host);
    sluice_libevent *const untouched = host.place;
    sluice_libevent *place = untouched;
    assert_int_equal(sluice_libevent_attach(NULL, host.base, &place), -EINVAL);
    assert_int_equal(sluice_libevent_attach(host.rig.loop, NULL, &place), -EINVAL);
    assert_ptr_equal(place, untouched);
    sluice_libevent_free(NULL);
    host_close(&host);
}

static void ignored(evutil_socket_t fd, short what, void *user) {
    (void)fd, (void)what, (void)user;
}

/* The base's own sockets, one of which is readable at every moment. */
typedef struct ping_pong {
    struct event *events[2];
    int fds[2];
    unsigned count;
    bool failed;
} ping_pong;

static void ping_readable(evutil_socket_t fd, short what, void *user) {
    ping_pong *p = user;
    char byte;
    (void)what;
    p->count++;
    p->failed |= read(fd, &byte, 1) != 1 || write(fd, &byte, 1) != 1;
}

static void ping_pong_open(ping_pong *p, struct event_base *base) {
    *p = (ping_pong){0};
    sockets_unix_pair(p->fds);
    for (int i = 0; i < 2; i++) {
        p->events[i] = event_new(base, p->fds[i], EV_READ | EV_PERSIST, ping_readable, p);
        assert_non_null(p->events[i]);
        assert_int_equal(event_add(p->events[i], NULL), 0);
    }
    sockets_write(p->fds[0], "p", 1);
}

static void ping_pong_close(ping_pong *p) {
    assert_false(p->failed);
    for (int i = 0; i < 2; i++) {
        event_free(p->events[i]);
        close(p->fds[i]);
    }
}

static void ours_and_theirs_make_progress(void **state) {
    (void)state;
    host_rig host;
    echo_server server;
    echo_client *clients = calloc(CLIENTS, sizeof *clients);
    ping_pong theirs;
    unsigned ticks = 0, fired = 0;
    sluice_timer *timer;
    assert_non_null(clients);
    host_open(&host);
    echo_server_open(&server, host.rig.loop);
    ping_pong_open(&theirs, host.base);
    struct event *ticker = ticks_new(&host, &ticks);
    assert_int_equal(sluice_timer_new(host.rig.loop, count_timer, &fired, &timer), 0);
    sluice_timer_start(timer, 1);
    for (unsigned i = 0; i < CLIENTS; i++)
        echo_client_open(&clients[i], &server, i + 1, TOTAL);
    for (unsigned i = 0; i < CLIENTS; i++) {
        host_until_count(&host, &clients[i].closed, 1);
        echo_client_check(&clients[i]);
    }
    /* Neither kept the other waiting: a round of the base has a turn or two in it, and a ping or a
     * pong. */
    uint64_t turns = turns_of(host.rig.loop);
    assert_true(turns >= BUSY_TURNS);
    assert_true(theirs.count >= turns / 4);
    host_until_count(&host, &server.served, CLIENTS);
    host_until_count(&host, &fired, 1);
    host_until_count(&host, &ticks, 10);
    sluice_timer_free(timer);
    event_free(ticker);
    ping_pong_close(&theirs);
    host_close(&host);
    free(clients);
}

typedef struct poster {
    sluice_loop *loop;
    unsigned *count;
    bool failed;
} poster;

static void *post_many(void *user) {
    poster *p = user;
    for (int i = 0; i < POSTS; i++)
        p->failed |= sluice_loop_post(p->loop, count_call, p->count) < 0;
    return NULL;
}

static void other_threads_post(void **state) {
    (void)state;
    host_rig host;
    pthread_t threads[4];
    poster posters[4];
    unsigned count = 0;
    host_open(&host);
    for (int i = 0; i < 4; i++) {
        posters[i] = (poster){.loop = host.rig.loop, .count = &count};
        assert_int_equal(pthread_create(&threads[i], NULL, post_many, &posters[i]), 0);
    }
    host_until_count(&host, &count, 4 * POSTS);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_false(posters[i].failed);
    }
    host_close(&host);
}

static void timers_of_both_fire(void **state) {
    (void)state;
    host_rig host;
    sluice_timer *timers[20];
    unsigned fired = 0, ticks = 0;
    host_open(&host);
    struct event *ticker = ticks_new(&host, &ticks);
    uint64_t begin = clock_now();
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(sluice_timer_new(host.rig.loop, count_timer, &fired, &timers[i]), 0);
        sluice_timer_start(timers[i], 40 - 2 * i);
    }
    host_until_count(&host, &fired, 20);
    assert_true(clock_now() - begin >= 40);
    host_until_count(&host, &ticks, 5);
    /* And alone: the base has nothing but the loop to wake for. */
    event_free(ticker);
    sluice_timer_start(timers[0], 10);
    host_until_count(&host, &fired, 21);
    for (unsigned i = 0; i < 20; i++)
        sluice_timer_free(timers[i]);
    host_close(&host);
}

/* The base's own callbacks use the loop, which does not know of it until then. */
typedef struct outsider {
    host_rig *host;
    echo_server server;
    echo_client client;
    sluice_timer *timer;
    unsigned fired;
} outsider;

static void outside_start(evutil_socket_t fd, short what, void *user) {
    outsider *o = user;
    (void)fd, (void)what;
    sluice_timer_start(o->timer, 5);
    echo_client_open(&o->client, &o->server, 3, 100000);
}

static void outside_close(evutil_socket_t fd, short what, void *user) {
    outsider *o = user;
    (void)fd, (void)what;
    sluice_conn_close(o->client.conn);
}

static void callbacks_of_the_base_use_the_loop(void **state) {
    (void)state;
    host_rig host;
    outsider *o = calloc(1, sizeof *o);
    assert_non_null(o);
    host_open(&host);
    o->host = &host;
    echo_server_open(&o->server, host.rig.loop);
    assert_int_equal(sluice_timer_new(host.rig.loop, count_timer, &o->fired, &o->timer), 0);
    const struct timeval soon = {.tv_usec = 5000};
    assert_int_equal(event_base_once(host.base, -1, EV_TIMEOUT, outside_start, o, &soon), 0);
    host_until_count(&host, &o->fired, 1);
    host_until_count(&host, &o->client.closed, 1);
    echo_client_check(&o->client);

    echo_client_open(&o->client, &o->server, 4, 0);
    host_until_count(&host, &o->server.open, 1);
    assert_int_equal(event_base_once(host.base, -1, EV_TIMEOUT, outside_close, o, &soon), 0);
    host_until_count(&host, &o->client.closed, 1);
    host_until_count(&host, &o->server.served, 2);
    sluice_timer_free(o->timer);
    host_close(&host);
    free(o);
}

/* While nothing happens to it the loop does not turn, however much the base has to do. */
static void an_idle_loop_does_not_turn(void **state) {
    (void)state;
    host_rig host;
    echo_server server;
    echo_client *client = calloc(1, sizeof *client);
    sluice_timer *timer;
    unsigned ticks = 0, fired = 0;
    assert_non_null(client);
    host_open(&host);
    struct event *ticker = ticks_new(&host, &ticks);
    echo_server_open(&server, host.rig.loop);
    echo_client_open(client, &server, 1, 0);
    host_until_count(&host, &server.open, 1);
    assert_int_equal(sluice_timer_new(host.rig.loop, count_timer, &fired, &timer), 0);
    sluice_timer_start(timer, 1000000);
    host_until_count(&host, &ticks, ticks + 5);

    uint64_t before = turns_of(host.rig.loop);
    host_until_count(&host, &ticks, ticks + IDLE_TICKS);
    assert_in_range(turns_of(host.rig.loop) - before, 0, REST_TURNS);
    before = turns_of(host.rig.loop);

    /* One event costs a few. */
    assert_int_equal(sluice_loop_post(host.rig.loop, count_call, &fired), 0);
    host_until_count(&host, &fired, 1);
    host_until_count(&host, &ticks, ticks + IDLE_TICKS);
    assert_in_range(turns_of(host.rig.loop) - before, 1, REST_TURNS);
    sluice_timer_free(timer);
    event_free(ticker);
    host_close(&host);
    free(client);
}

static void it_goes_before_loop_and_base(void **state) {
    (void)state;
    for (int base_first = 0; base_first < 2; base_first++) {
        for (int rounds = 0; rounds < 4; rounds += 3) {
            host_rig host;
            echo_server server;
            echo_client *client = calloc(1, sizeof *client);
            assert_non_null(client);
            host_open(&host);
            echo_server_open(&server, host.rig.loop);
            echo_client_open(client, &server, 1, TOTAL);
            for (int i = 0; i < rounds; i++)
                assert_int_equal(event_base_loop(host.base, EVLOOP_ONCE), 0);
            sluice_libevent_free(host.place);
            if (base_first)
                event_base_free(host.base);
            loop_rig_close(&host.rig);
            if (!base_first)
                event_base_free(host.base);
            assert_int_equal(client->closed, 1);
            free(client);
        }
    }
}

static void free_place(void *user) {
    host_rig *host = user;
    sluice_libevent_free(host->place);
    host->place = NULL;
}

static void free_place_in_event(evutil_socket_t fd, short what, void *user) {
    (void)fd, (void)what;
    free_place(user);
}

static void it_may_go_in_a_call(void **state) {
    (void)state;
    for (int from_loop = 0; from_loop < 2; from_loop++) {
        host_rig host;
        unsigned called = 0;
        host_open(&host);
        if (from_loop)
            assert_int_equal(sluice_loop_post(host.rig.loop, free_place, &host), 0);
        else
            assert_int_equal(event_base_once(host.base, -1, EV_TIMEOUT, free_place_in_event, &host, NULL), 0);
        assert_int_equal(sluice_loop_post(host.rig.loop, count_call, &called), 0);
        /* Ends, for the base has no events any more. */
        assert_int_equal(event_base_dispatch(host.base), 1);
        assert_null(host.place);
        /* The turn that was under way has been completed. */
        assert_int_equal(called, from_loop);
        loop_rig_close(&host.rig);
        assert_int_equal(called, 1);
        event_base_free(host.base);
    }
}

static void a_loop_may_change_its_host(void **state) {
    (void)state;
    host_rig host;
    echo_server server;
    echo_client *clients = calloc(4, sizeof *clients);
    assert_non_null(clients);
    host_open(&host);
    echo_server_open(&server, host.rig.loop);
    for (unsigned i = 0; i < 4; i++) {
        /* By itself, then in a new base; each with what the one before has left. */
        echo_client_open(&clients[i], &server, i + 1, TOTAL);
        assert_int_equal(event_base_loop(host.base, EVLOOP_ONCE), 0);
        sluice_libevent_free(host.place);
        event_base_free(host.base);
        if (i % 2)
            turn_until_count(host.rig.loop, &clients[i].closed, 1);
        host.base = event_base_new();
        assert_non_null(host.base);
        assert_int_equal(sluice_libevent_attach(host.rig.loop, host.base, &host.place), 0);
        host_until_count(&host, &clients[i].closed, 1);
        echo_client_check(&clients[i]);
    }
    host_close(&host);
    free(clients);
}

static void *dispatch_elsewhere(void *user) {
    host_rig *host = user;
    return (void *)(intptr_t)event_base_dispatch(host->base);
}

static void leave_base(void *user) {
    event_base_loopexit(user, NULL);
}

/* A ring that belongs to the thread of its first turn refuses one on another thread, and that ends
 * the run; a loop without such a ring goes on there. */
static void a_turn_that_fails_ends_the_run(void **state) {
    (void)state;
    host_rig host;
    pthread_t thread;
    void *result;
    sluice_loop_stats stats = {.size = sizeof stats};
    host_open(&host);
    sluice_loop_get_stats(host.rig.loop, &stats);
    bool bound = strstr(stats.features, "single-issuer");
    assert_int_equal(sluice_loop_turn(host.rig.loop, 0), 0);
    struct event *forever = event_new(host.base, -1, EV_PERSIST, ignored, NULL);
    assert_non_null(forever);
    assert_int_equal(event_add(forever, &(struct timeval){.tv_sec = 1000}), 0);
    assert_int_equal(sluice_loop_post(host.rig.loop, leave_base, host.base), 0);
    assert_int_equal(pthread_create(&thread, NULL, dispatch_elsewhere, &host), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_int_equal((intptr_t)result, 0);
    assert_int_equal(event_base_got_break(host.base), bound);
    assert_int_equal(event_base_got_exit(host.base), !bound);
    assert_int_equal(sluice_libevent_error(host.place), bound ? -EEXIST : 0);
    event_free(forever);
    sluice_libevent_free(host.place);
    loop_rig_close(&host.rig);
    event_base_free(host.base);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(ours_and_theirs_make_progress),
        cmocka_unit_test(other_threads_post),
        cmocka_unit_test(timers_of_both_fire),
        cmocka_unit_test(callbacks_of_the_base_use_the_loop),
        cmocka_unit_test(an_idle_loop_does_not_turn),
        cmocka_unit_test(it_goes_before_loop_and_base),
        cmocka_unit_test(it_may_go_in_a_call),
        cmocka_unit_test(a_loop_may_change_its_host),
        cmocka_unit_test(a_turn_that_fails_ends_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
