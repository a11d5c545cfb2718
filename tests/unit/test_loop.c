/* The loop: turns, timers, posted calls, stopping, threads, and its end. */
#include <sluice/loop.h>

#include <errno.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/conn.h>

#include "support/clock.h"
#include "support/sockets.h"

enum {
    GUARD = 60,
    POSTERS = 4,
    POSTS = 5000,
    TIMERS = 3000,
    LOOPS = 100,
};

static void count_call(void *user) {
    unsigned *count = user;
    ++*count;
}

static void count_timer(sluice_timer *timer, void *user) {
    (void)timer;
    count_call(user);
}

static sluice_loop_stats stats_of(const sluice_loop *loop) {
    sluice_loop_stats stats = {.size = sizeof stats};
    sluice_loop_get_stats(loop, &stats);
    return stats;
}

/* Lets the clock go on, whatever a loop does. */
static void spin(uint64_t ms) {
    uint64_t until = clock_now() + ms;
    while (clock_now() < until)
        ;
}

static void options_are_checked(void **state) {
    (void)state;
    hang_guard(GUARD);
    sluice_pool *pool;
    assert_int_equal(sluice_pool_new(NULL, &pool), 0);
    sluice_loop *const untouched = (sluice_loop *)(void *)&pool;
    sluice_loop *loop = untouched;
    assert_int_equal(
        sluice_loop_new(pool, &(sluice_loop_options){.size = sizeof(sluice_loop_options), .batch_us = 100001}, &loop),
        -EINVAL);
    assert_ptr_equal(loop, untouched);
    assert_int_equal(
        sluice_loop_new(pool, &(sluice_loop_options){.size = sizeof(sluice_loop_options), .batch_us = 100000}, &loop),
        0);
    sluice_loop_free(loop);
    sluice_loop_free(NULL);
    pool_close(pool);
}

/* A window has another length, and a loop without one gets none. */
static void window_is_changed_where_there_is_one(void **state) {
    (void)state;
    loop_rig rig;
    loop_rig_open(&rig, NULL, &(sluice_loop_options){.size = sizeof(sluice_loop_options), .batch_us = 2000}, GUARD);
    assert_int_equal(sluice_loop_set_batch(rig.loop, 100001), -EINVAL);
    assert_int_equal(sluice_loop_set_batch(rig.loop, 0), -EINVAL);
    assert_int_equal(sluice_loop_set_batch(rig.loop, 100000), 0);
    assert_int_equal(sluice_loop_set_batch(rig.loop, 1), 0);
    loop_rig_close(&rig);
    loop_rig_open(&rig, NULL, NULL, GUARD);
    assert_int_equal(sluice_loop_set_batch(rig.loop, 2000), -EINVAL);
    assert_int_equal(sluice_loop_set_batch(rig.loop, 0), 0);
    loop_rig_close(&rig);
}

static void a_pool_serves_one_loop_at_a_time(void **state) {
    (void)state;
    loop_rig rig;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    sluice_loop *const untouched = (sluice_loop *)(void *)&rig;
    sluice_loop *second = untouched;
    assert_int_equal(sluice_loop_new(rig.pool, NULL, &second), -EBUSY);
    assert_ptr_equal(second, untouched);
    turn_through(rig.loop, 1);
    sluice_loop_free(rig.loop);
    assert_int_equal(sluice_loop_new(rig.pool, NULL, &rig.loop), 0);
    turn_through(rig.loop, 1);
    loop_rig_close(&rig);
}

static void stats_name_the_backend_and_count_turns(void **state) {
    (void)state;
    loop_rig rig;
    loop_rig_open(&rig, NULL, &(sluice_loop_options){.size = sizeof(sluice_loop_options), .no_fixed = true}, GUARD);
    assert_int_equal(stats_of(rig.loop).turns, 0);
    turn_through(rig.loop, 3);
    sluice_loop_stats stats = stats_of(rig.loop);
    assert_string_equal(stats.backend, loop_rig_is_uring(&rig) ? "io_uring" : "epoll");
    assert_null(strstr(stats.features, "fixed-buffers"));
    assert_int_equal(stats.turns, 3);
    assert_true(stats.enters >= 3);
    assert_int_equal(stats.connections, 0);
    assert_ptr_equal(sluice_loop_pool(rig.loop), rig.pool);
    loop_rig_close(&rig);
}

static void a_turn_without_wait_returns(void **state) {
    (void)state;
    loop_rig rig;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
    loop_rig_close(&rig);
}

/* Timers. */

static char fired[16];

static void note(sluice_timer *timer, void *user) {
    (void)timer;
    strcat(fired, user);
}

static void timers_fire_in_order(void **state) {
    (void)state;
    loop_rig rig;
    sluice_timer *timers[4];
    static char *const names[] = {"a", "b", "c", "d"};
    static const uint64_t after[] = {40, 10, 30, 20};
    loop_rig_open(&rig, NULL, NULL, GUARD);
    fired[0] = '\0';
    clock_stop();
    for (int i = 0; i < 4; i++) {
        assert_int_equal(sluice_timer_new(rig.loop, note, names[i], &timers[i]), 0);
        sluice_timer_start(timers[i], after[i]);
    }
    clock_go_on();
    while (strlen(fired) < 4)
        turn(rig.loop);
    assert_string_equal(fired, "bdca");
    for (int i = 0; i < 4; i++)
        sluice_timer_free(timers[i]);
    sluice_timer_free(NULL);
    loop_rig_close(&rig);
}

static void a_started_timer_starts_anew(void **state) {
    (void)state;
    loop_rig rig;
    sluice_timer *first, *second;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    fired[0] = '\0';
    assert_int_equal(sluice_timer_new(rig.loop, note, "a", &first), 0);
    assert_int_equal(sluice_timer_new(rig.loop, note, "b", &second), 0);
    sluice_timer_start(first, 10);
    sluice_timer_start(second, 20);
    sluice_timer_start(first, 40);
    while (strlen(fired) < 2)
        turn(rig.loop);
    assert_string_equal(fired, "ba");
    sluice_timer_start(second, 0);
    sluice_timer_stop(second);
    sluice_timer_stop(second);
    turn_through(rig.loop, 5);
    assert_string_equal(fired, "ba");
    sluice_timer_free(first);
    sluice_timer_free(second);
    loop_rig_close(&rig);
}

/* Timers that are due in the same turn, of which the first does something to the second. */
typedef struct timer_victim {
    sluice_timer *timer;
    bool free_it;
    unsigned calls, victims;
} timer_victim;

static void strike(sluice_timer *timer, void *user) {
    timer_victim *victim = user;
    victim->calls++;
    if (victim->free_it)
        sluice_timer_free(victim->timer);
    else
        sluice_timer_stop(victim->timer);
    sluice_timer_free(timer);
}

static void a_callback_may_stop_and_free_timers(void **state) {
    (void)state;
    loop_rig rig;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    for (int i = 0; i < 2; i++) {
        timer_victim victim = {.free_it = i == 1};
        sluice_timer *striker;
        assert_int_equal(sluice_timer_new(rig.loop, strike, &victim, &striker), 0);
        assert_int_equal(sluice_timer_new(rig.loop, count_timer, &victim.victims, &victim.timer), 0);
        sluice_timer_start(striker, 1);
        sluice_timer_start(victim.timer, 3);
        /* Both are due now. */
        spin(10);
        turn_until_count(rig.loop, &victim.calls, 1);
        turn_through(rig.loop, 10);
        assert_int_equal(victim.victims, 0);
        if (!victim.free_it)
            sluice_timer_free(victim.timer);
    }
    loop_rig_close(&rig);
}

typedef struct ticker {
    sluice_loop *loop;
    unsigned ticks;
    uint64_t turns[20];
} ticker;

static void tick(sluice_timer *timer, void *user) {
    ticker *t = user;
    t->turns[t->ticks++] = stats_of(t->loop).turns;
    if (t->ticks < 20)
        sluice_timer_start(timer, 0);
}

static void a_timer_started_in_its_call_waits_for_a_later_turn(void **state) {
    (void)state;
    loop_rig rig;
    sluice_timer *timer;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    ticker t = {.loop = rig.loop};
    assert_int_equal(sluice_timer_new(rig.loop, tick, &t, &timer), 0);
    sluice_timer_start(timer, 0);
    turn_until_count(rig.loop, &t.ticks, 20);
    for (int i = 1; i < 20; i++)
        assert_true(t.turns[i] > t.turns[i - 1]);
    sluice_timer_free(timer);
    loop_rig_close(&rig);
}

typedef struct timed {
    sluice_loop *loop;
    sluice_timer *next; /* started by this one's call, late in the turn */
    uint64_t started, ms, at;
    struct timed *next_timed;
    unsigned posted;
    bool done;
} timed;

/* Starts a timer, and lets the next turn have another reason to end. */
static void start_timed(timed *t, sluice_timer *timer) {
    t->started = clock_now();
    sluice_timer_start(timer, t->ms);
    assert_int_equal(sluice_loop_post(t->loop, count_call, &t->posted), 0);
}

static void on_time(sluice_timer *timer, void *user) {
    timed *t = user;
    (void)timer;
    t->at = clock_now();
    t->done = true;
    if (t->next) {
        spin(30);
        start_timed(t->next_timed, t->next);
    }
}

/* The time counts from the call, however long the loop has been busy, or idle, since it looked at
 * the clock. */
static void a_timer_is_never_early(void **state) {
    (void)state;
    loop_rig rig;
    sluice_timer *first, *second;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    timed late = {.loop = rig.loop, .ms = 20}, early = {.loop = rig.loop, .ms = 20, .next_timed = &late};
    assert_int_equal(sluice_timer_new(rig.loop, on_time, &early, &first), 0);
    assert_int_equal(sluice_timer_new(rig.loop, on_time, &late, &second), 0);
    early.next = second;

    spin(30);
    start_timed(&early, first);
    turn_until(rig.loop, &late.done);
    assert_true(early.at >= early.started + early.ms);
    assert_true(late.at >= late.started + late.ms);
    sluice_timer_free(first);
    sluice_timer_free(second);
    loop_rig_close(&rig);
}

static void a_timer_may_lie_at_the_end_of_time(void **state) {
    (void)state;
    loop_rig rig;
    sluice_timer *never, *soon;
    unsigned calls = 0, soon_calls = 0;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    assert_int_equal(sluice_timer_new(rig.loop, count_timer, &calls, &never), 0);
    assert_int_equal(sluice_timer_new(rig.loop, count_timer, &soon_calls, &soon), 0);
    sluice_timer_start(never, UINT64_MAX);
    turn_through(rig.loop, 5);
    sluice_timer_start(soon, 5);
    turn_until_count(rig.loop, &soon_calls, 1);
    assert_int_equal(calls, 0);
    sluice_timer_free(never);
    sluice_timer_free(soon);
    loop_rig_close(&rig);
}

/* Many timers at random against what their starts and stops say. */
typedef struct random_timer {
    struct timer_model *model;
    sluice_timer *timer;
    uint64_t least, most; /* between which clock values it is due */
    bool runs;
} random_timer;

typedef struct timer_model {
    random_timer timers[TIMERS];
    uint64_t random;
    uint64_t latest; /* the largest `least` of a timer that has fired */
    unsigned running, restarts;
    bool early, unordered, stopped_fired;
} timer_model;

static void model_start(random_timer *t, uint64_t ms) {
    t->least = clock_now() + ms;
    sluice_timer_start(t->timer, ms);
    /* Up to a millisecond is lost in rounding, at both ends. */
    t->most = clock_now() + ms + 2;
    t->model->running += !t->runs;
    t->runs = true;
}

static void model_stop(random_timer *t) {
    sluice_timer_stop(t->timer);
    t->model->running -= t->runs;
    t->runs = false;
}

static void model_fired(sluice_timer *timer, void *user) {
    random_timer *t = user;
    timer_model *m = t->model;
    m->stopped_fired |= !t->runs || timer != t->timer;
    m->early |= clock_now() < t->least;
    m->unordered |= t->most < m->latest;
    if (t->least > m->latest)
        m->latest = t->least;
    t->runs = false;
    m->running--;
    random_timer *other = &m->timers[random_between(&m->random, 0, TIMERS - 1)];
    switch (random_between(&m->random, 0, 7)) {
    case 0:
        model_stop(other);
        break;
    case 1:
        if (m->restarts-- > 0)
            model_start(other, random_between(&m->random, 0, 100));
        else
            m->restarts = 0;
        break;
    default:
        break;
    }
}

static void timers_agree_with_a_model(void **state) {
    (void)state;
    loop_rig rig;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    timer_model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->restarts = TIMERS;
    for (int i = 0; i < TIMERS; i++) {
        m->timers[i].model = m;
        assert_int_equal(sluice_timer_new(rig.loop, model_fired, &m->timers[i], &m->timers[i].timer), 0);
    }
    for (int i = 0; i < 3 * TIMERS; i++) {
        random_timer *t = &m->timers[random_between(&m->random, 0, TIMERS - 1)];
        if (random_between(&m->random, 0, 3) == 0)
            model_stop(t);
        else
            model_start(t, random_between(&m->random, 0, 200));
    }
    assert_true(m->running > TIMERS / 2);
    while (m->running > 0)
        turn(rig.loop);
    assert_false(m->early);
    assert_false(m->unordered);
    assert_false(m->stopped_fired);
    for (int i = 0; i < TIMERS; i++)
        sluice_timer_free(m->timers[i].timer);
    free(m);
    loop_rig_close(&rig);
}

/* Posts. */

typedef struct post_record {
    sluice_loop *loop;
    unsigned order[3];
    unsigned count;
    uint64_t first_turn, nested_turn;
} post_record;

static void post_nested(void *user) {
    post_record *record = user;
    record->nested_turn = stats_of(record->loop).turns;
    record->order[record->count++] = 2;
}

static void post_first(void *user) {
    post_record *record = user;
    record->first_turn = stats_of(record->loop).turns;
    record->order[record->count++] = 0;
    assert_int_equal(sluice_loop_post(record->loop, post_nested, record), 0);
}

static void post_second(void *user) {
    post_record *record = user;
    record->order[record->count++] = 1;
}

static void posts_are_called_in_order(void **state) {
    (void)state;
    loop_rig rig;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    post_record record = {.loop = rig.loop};
    assert_int_equal(sluice_loop_post(rig.loop, post_first, &record), 0);
    assert_int_equal(sluice_loop_post(rig.loop, post_second, &record), 0);
    assert_int_equal(record.count, 0);
    turn_until_count(rig.loop, &record.count, 3);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(record.order[i], i);
    assert_true(record.nested_turn > record.first_turn);
    loop_rig_close(&rig);
}

/* Their own memory: posted again from inside, and gone with the last call. */
typedef struct own_call {
    sluice_call call;
    sluice_loop *loop;
    unsigned left, *count;
} own_call;

static void call_again(void *user) {
    own_call *own = user;
    ++*own->count;
    if (--own->left > 0)
        sluice_loop_post_call(own->loop, &own->call, call_again, own);
    else
        free(own);
}

static void a_call_may_bring_its_memory(void **state) {
    (void)state;
    loop_rig rig;
    unsigned mine = 0, posted = 0;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    for (unsigned i = 0; i < 3; i++) {
        own_call *own = malloc(sizeof *own);
        assert_non_null(own);
        *own = (own_call){.loop = rig.loop, .left = 3, .count = &mine};
        sluice_loop_post_call(rig.loop, &own->call, call_again, own);
        assert_int_equal(sluice_loop_post(rig.loop, count_call, &posted), 0);
    }
    turn_until_count(rig.loop, &mine, 9);
    assert_int_equal(posted, 3);
    loop_rig_close(&rig);
}

typedef struct poster {
    sluice_loop *loop;
    pthread_t thread;
    unsigned posted;   /* the thread's */
    unsigned received; /* the loop's */
    bool unordered;
    struct poster_call {
        struct poster *poster;
        unsigned number;
    } calls[POSTS];
} poster;

static unsigned posts_to_come;

static void receive_post(void *user) {
    struct poster_call *call = user;
    poster *p = call->poster;
    p->unordered |= call->number != p->received++;
    if (--posts_to_come == 0)
        sluice_loop_stop(p->loop);
}

static void *post_many(void *user) {
    poster *p = user;
    for (unsigned i = 0; i < POSTS; i++) {
        p->calls[i] = (struct poster_call){p, i};
        if (sluice_loop_post(p->loop, receive_post, &p->calls[i]) < 0)
            abort();
    }
    return NULL;
}

static void threads_post_without_loss(void **state) {
    (void)state;
    loop_rig rig;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    poster *posters = calloc(POSTERS, sizeof *posters);
    assert_non_null(posters);
    posts_to_come = POSTERS * POSTS;
    for (int i = 0; i < POSTERS; i++) {
        posters[i].loop = rig.loop;
        assert_int_equal(pthread_create(&posters[i].thread, NULL, post_many, &posters[i]), 0);
    }
    assert_int_equal(sluice_loop_run(rig.loop), 0);
    for (int i = 0; i < POSTERS; i++) {
        assert_int_equal(pthread_join(posters[i].thread, NULL), 0);
        assert_int_equal(posters[i].received, POSTS);
        assert_false(posters[i].unordered);
    }
    free(posters);
    loop_rig_close(&rig);
}

static void post_more(void *user) {
    post_record *record = user;
    record->count++;
    if (record->count < 3)
        assert_int_equal(sluice_loop_post(record->loop, post_more, record), 0);
}

static void the_end_makes_the_calls_not_yet_made(void **state) {
    (void)state;
    for (int turned = 0; turned < 2; turned++) {
        loop_rig rig;
        loop_rig_open(&rig, NULL, NULL, GUARD);
        if (turned)
            turn_through(rig.loop, 2);
        unsigned calls = 0;
        post_record record = {.loop = rig.loop};
        for (int i = 0; i < 5; i++)
            assert_int_equal(sluice_loop_post(rig.loop, count_call, &calls), 0);
        assert_int_equal(sluice_loop_post(rig.loop, post_more, &record), 0);
        loop_rig_close(&rig);
        assert_int_equal(calls, 5);
        assert_int_equal(record.count, 3);
    }
}

/* Stopping. */

static void stop_from_timer(sluice_timer *timer, void *user) {
    (void)timer;
    sluice_loop_stop(user);
}

typedef struct nested_turns {
    sluice_loop *loop;
    unsigned calls, refused;
} nested_turns;

static void turn_inside(void *user) {
    nested_turns *nested = user;
    nested->calls++;
    nested->refused += sluice_loop_turn(nested->loop, -1) == -EBUSY && sluice_loop_run(nested->loop) == -EBUSY;
}

static void turn_inside_timer(sluice_timer *timer, void *user) {
    (void)timer;
    turn_inside(user);
}

/* Whatever a callback waits for by turns, it would wait inside the turn that it is called from. */
static void a_turn_inside_a_turn_is_refused(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        loop_rig rig;
        const sluice_loop_options options = {.size = sizeof options,
                                             .backend = i ? SLUICE_BACKEND_EPOLL : SLUICE_BACKEND_URING};
        loop_rig_open(&rig, NULL, &options, GUARD);
        nested_turns nested = {.loop = rig.loop};
        sluice_timer *timer;
        assert_int_equal(sluice_timer_new(rig.loop, turn_inside_timer, &nested, &timer), 0);
        sluice_timer_start(timer, 0);
        assert_int_equal(sluice_loop_post(rig.loop, turn_inside, &nested), 0);
        turn_until_count(rig.loop, &nested.calls, 2);
        assert_int_equal(nested.refused, 2);
        turn_through(rig.loop, 2);
        sluice_timer_free(timer);
        loop_rig_close(&rig);
    }
}

static void a_run_ends_with_stop_and_may_begin_again(void **state) {
    (void)state;
    loop_rig rig;
    sluice_timer *timer;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    assert_int_equal(sluice_timer_new(rig.loop, stop_from_timer, rig.loop, &timer), 0);
    for (unsigned i = 1; i <= 3; i++) {
        sluice_timer_start(timer, 1);
        assert_int_equal(sluice_loop_run(rig.loop), 0);
        assert_true(stats_of(rig.loop).turns >= i);
    }
    sluice_loop_stop(rig.loop);
    assert_int_equal(sluice_loop_run(rig.loop), 0);
    sluice_timer_free(timer);
    loop_rig_close(&rig);
}

static void *stop_it(void *user) {
    sluice_loop_stop(user);
    return NULL;
}

static void another_thread_stops_a_run(void **state) {
    (void)state;
    loop_rig rig;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    for (int i = 0; i < 200; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, stop_it, rig.loop), 0);
        assert_int_equal(sluice_loop_run(rig.loop), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    loop_rig_close(&rig);
}

/* Threads. */

typedef struct loop_thread {
    pthread_t thread;
    sluice_loop *loop;
    sem_t ready;
    bool ran;
} loop_thread;

/* Makes, runs and frees a loop of its own. */
static void *live_and_die(void *user) {
    loop_thread *t = user;
    sluice_pool *pool;
    sluice_pool_options options = {.size = sizeof options, .slab_blocks = 8, .max_blocks = 8, .no_huge_pages = true};
    if (sluice_pool_new(&options, &pool) < 0 || sluice_loop_new(pool, NULL, &t->loop) < 0)
        abort();
    sluice_loop *loop = t->loop;
    sem_post(&t->ready);
    t->ran = sluice_loop_run(loop) == 0;
    sluice_loop_free(loop);
    sluice_pool_free(pool);
    return NULL;
}

static void call_stop(void *user) {
    sluice_loop_stop(user);
}

/*
 * A loop is freed on its thread, as soon as it has stopped: the thread that stopped it may not have
 * returned from the call. Of use under the sanitizers.
 */
static void a_stopped_loop_may_be_freed_at_once(void **state) {
    (void)state;
    hang_guard(GUARD);
    for (int i = 0; i < LOOPS; i++) {
        loop_thread t = {0};
        assert_int_equal(sem_init(&t.ready, 0, 0), 0);
        assert_int_equal(pthread_create(&t.thread, NULL, live_and_die, &t), 0);
        while (sem_wait(&t.ready) < 0)
            assert_int_equal(errno, EINTR);
        if (i % 2)
            sluice_loop_stop(t.loop);
        else
            assert_int_equal(sluice_loop_post(t.loop, call_stop, t.loop), 0);
        assert_int_equal(pthread_join(t.thread, NULL), 0);
        assert_true(t.ran);
        sem_destroy(&t.ready);
    }
}

typedef struct moved {
    loop_rig rig;
    sluice_conn *conn;
    uint64_t place;
    bool matches, ended;
    int error;
} moved;

static void moved_data(sluice_conn *conn, void *user) {
    moved *m = user;
    sluice_chain *chain = sluice_conn_chain(conn);
    m->matches = pattern_consume(chain, sluice_chain_length(chain), 7, &m->place) && m->matches;
}

static void moved_end(sluice_conn *conn, int error, void *user) {
    moved *m = user;
    m->ended = true;
    m->error = error;
    sluice_conn_close(conn);
    sluice_loop_stop(m->rig.loop);
}

static const sluice_conn_events moved_events = {
    .size = sizeof moved_events, .on_data = moved_data, .on_end = moved_end};

static void *run_moved(void *user) {
    moved *m = user;
    if (sluice_loop_run(m->rig.loop) < 0)
        m->error = -EIO;
    loop_rig_close(&m->rig);
    return NULL;
}

/* The pool's blocks come and go on the new thread from then on: its owner moves with the loop. */
static void a_loop_may_run_on_another_thread_than_made_it(void **state) {
    (void)state;
    moved m = {.matches = true};
    sluice_pool_options options = {.size = sizeof options, .slab_blocks = 64, .max_blocks = 512, .no_huge_pages = true};
    int fds[2];
    socket_writer writer;
    pthread_t thread;
    loop_rig_open(&m.rig, &options, NULL, GUARD);
    sockets_tcp_pair(fds);
    assert_int_equal(sluice_conn_new(m.rig.loop, fds[0], &moved_events, &m, &m.conn), 0);
    socket_writer_start(&writer, fds[1], 7, 4 << 20, 1, 20000);
    assert_int_equal(pthread_create(&thread, NULL, run_moved, &m), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    socket_writer_join(&writer);
    assert_true(m.ended);
    assert_int_equal(m.error, 0);
    assert_true(m.matches);
    assert_int_equal(m.place, 4 << 20);
    close(fds[1]);
}

/* The end. */

enum { OPEN = 6 };

typedef struct open_things {
    loop_rig rig;
    unsigned closed, posted, data;
    int error, inside;
    sluice_conn *conns[OPEN + 1];
    int peers[OPEN + 1];
} open_things;

static void open_closed(sluice_conn *conn, void *user) {
    open_things *o = user;
    (void)conn;
    o->closed++;
}

static size_t open_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    static uint8_t bytes[1 << 20];
    (void)conn, (void)max, (void)user;
    iov[0] = (struct iovec){bytes, sizeof bytes};
    return 1;
}

static void open_data(sluice_conn *conn, void *user) {
    open_things *o = user;
    (void)conn;
    o->data++;
}

static const sluice_conn_events open_events = {
    .size = sizeof open_events, .on_data = open_data, .on_gather = open_gather, .on_closed = open_closed};

/* Opens a connection while the loop is being freed, and posts once more. */
static void open_late(void *user) {
    open_things *o = user;
    int fds[2];
    sockets_unix_pair(fds);
    o->peers[OPEN] = fds[1];
    assert_int_equal(sluice_conn_new(o->rig.loop, fds[0], &open_events, o, &o->conns[OPEN]), 0);
    assert_int_equal(sluice_loop_post(o->rig.loop, count_call, &o->posted), 0);
}

static void not_accepted(sluice_listener *listener, int fd, void *user) {
    (void)listener, (void)user;
    close(fd);
}

static void open_all(open_things *o) {
    sluice_listener *listeners[2];
    struct sockaddr_storage any = {.ss_family = AF_INET};
    loop_rig_open(&o->rig, NULL, NULL, GUARD);
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            sluice_listener_new(o->rig.loop, (struct sockaddr *)&any, sizeof any, not_accepted, NULL, &listeners[i]),
            0);
    for (int i = 0; i < OPEN; i++) {
        int fds[2];
        sockets_tcp_pair(fds);
        o->peers[i] = fds[1];
        assert_int_equal(sluice_conn_new(o->rig.loop, fds[0], &open_events, o, &o->conns[i]), 0);
    }
    pattern_write(o->peers[0], 1, 0, 10000);
    sluice_conn_pause(o->conns[1]);
    sluice_conn_want_send(o->conns[2]);
    sluice_conn_close(o->conns[3]);
    sluice_conn_set_need(o->conns[4], 1000000);
    pattern_write(o->peers[4], 1, 0, 10000);
}

static void assert_all_closed(const open_things *o) {
    assert_int_equal(o->closed, OPEN + 1);
    assert_int_equal(o->posted, 1);
    for (int i = 0; i <= OPEN; i++)
        close(o->peers[i]);
}

static void the_end_closes_what_is_open(void **state) {
    (void)state;
    for (int turns = 0; turns < 2; turns++) {
        open_things o = {0};
        sluice_timer *timer;
        unsigned fired_timers = 0;
        open_all(&o);
        assert_int_equal(sluice_timer_new(o.rig.loop, count_timer, &fired_timers, &timer), 0);
        sluice_timer_start(timer, 100000);
        if (turns) {
            turn_until_count(o.rig.loop, &o.data, 1);
            turn_until_blocked(o.rig.loop, o.conns[2]);
        }
        sluice_timer_free(timer);
        assert_int_equal(sluice_loop_post(o.rig.loop, open_late, &o), 0);
        loop_rig_close(&o.rig);
        assert_all_closed(&o);
        assert_int_equal(fired_timers, 0);
    }
}

static void *run_and_close(void *user) {
    open_things *o = user;
    o->error = sluice_loop_run(o->rig.loop);
    for (int i = 0; i < 2 && !o->error; i++)
        o->error = sluice_loop_close(o->rig.loop);
    return NULL;
}

static void close_inside(void *user) {
    open_things *o = user;
    o->inside = sluice_loop_close(o->rig.loop);
    sluice_loop_stop(o->rig.loop);
}

static void a_loop_is_closed_on_its_thread_and_freed_on_another(void **state) {
    (void)state;
    open_things o = {0};
    pthread_t thread;
    assert_int_equal(sluice_loop_close(NULL), -EINVAL);
    open_all(&o);
    assert_int_equal(sluice_loop_post(o.rig.loop, close_inside, &o), 0);
    assert_int_equal(sluice_loop_post(o.rig.loop, open_late, &o), 0);
    assert_int_equal(pthread_create(&thread, NULL, run_and_close, &o), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(o.error, 0);
    assert_int_equal(o.inside, -EBUSY);
    assert_all_closed(&o);
    loop_rig_close(&o.rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(window_is_changed_where_there_is_one),
        cmocka_unit_test(a_pool_serves_one_loop_at_a_time),
        cmocka_unit_test(stats_name_the_backend_and_count_turns),
        cmocka_unit_test(a_turn_without_wait_returns),
        cmocka_unit_test(timers_fire_in_order),
        cmocka_unit_test(a_started_timer_starts_anew),
        cmocka_unit_test(a_callback_may_stop_and_free_timers),
        cmocka_unit_test(a_timer_started_in_its_call_waits_for_a_later_turn),
        cmocka_unit_test(a_timer_is_never_early),
        cmocka_unit_test(a_timer_may_lie_at_the_end_of_time),
        cmocka_unit_test(timers_agree_with_a_model),
        cmocka_unit_test(posts_are_called_in_order),
        cmocka_unit_test(a_call_may_bring_its_memory),
        cmocka_unit_test(threads_post_without_loss),
        cmocka_unit_test(the_end_makes_the_calls_not_yet_made),
        cmocka_unit_test(a_turn_inside_a_turn_is_refused),
        cmocka_unit_test(a_run_ends_with_stop_and_may_begin_again),
        cmocka_unit_test(another_thread_stops_a_run),
        cmocka_unit_test(a_stopped_loop_may_be_freed_at_once),
        cmocka_unit_test(a_loop_may_run_on_another_thread_than_made_it),
        cmocka_unit_test(the_end_closes_what_is_open),
        cmocka_unit_test(a_loop_is_closed_on_its_thread_and_freed_on_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
