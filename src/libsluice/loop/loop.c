#include "loop/loop.h"

#include <errno.h>
#include <stdlib.h>

#include "abi/sized.h"
#include "memory/clock.h"
#include "memory/pool.h"

enum {
    STARVED_WAIT_MS = 100, /* maximum wait of a turn while a connection or file needs blocks */
};

uint64_t loop_clock(void) {
    return clock_ns() / 1000000;
}

static int choose_backend(sluice_loop *loop, sluice_pool *pool, backend_options settings) {
    settings.if_cheaper = true;
    int result = uring_backend.create(pool, &settings, &loop->backend);
    if (result == 0) {
        loop->reason = SLUICE_REASON_URING_WORKS;
        return 0;
    }
    /* Whatever it is: what io_uring is not to blame for, epoll refuses too. */
    loop->reason = result == BACKEND_COSTS_MORE ? SLUICE_REASON_EPOLL_CHEAPER : SLUICE_REASON_URING_FAILED;
    loop->fallback_error = result == BACKEND_COSTS_MORE ? 0 : result;
    return epoll_backend.create(pool, &settings, &loop->backend);
}

static int make_backend(sluice_loop *loop, sluice_pool *pool, const backend_options *settings,
                        sluice_backend_choice choice) {
    switch (choice) {
    case SLUICE_BACKEND_AUTO:
        return choose_backend(loop, pool, *settings);
    case SLUICE_BACKEND_URING:
        return uring_backend.create(pool, settings, &loop->backend);
    case SLUICE_BACKEND_EPOLL:
        return epoll_backend.create(pool, settings, &loop->backend);
    }
    return -EINVAL;
}

int sluice_loop_new(sluice_pool *pool, const sluice_loop_options *options, sluice_loop **ret_loop) {
    sluice_loop_options o;
    int error = SIZED_READ(&o, options);
    if (error)
        return error;
    const backend_options settings = {.batch_us = o.batch_us, .stock_bytes = o.stock_bytes, .no_fixed = o.no_fixed};
    sluice_loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return -ENOMEM;
    error = -pthread_mutex_init(&loop->post_lock, NULL);
    if (!error)
        error = make_backend(loop, pool, &settings, o.backend);
    if (error) {
        free(loop);
        return error;
    }
    loop->pool = pool;
    loop->backend->largest = conns_largest;
    loop->backend->user = loop;
    loop->batch_us = settings.batch_us;
    loop->low_water = settings.batch_us == 0 && !o.no_low_water;
    loop->posted_end = &loop->posted;
    loop_list_init(&loop->connectors.open);
    loop_list_init(&loop->connectors.due);
    loop_list_init(&loop->files.open);
    loop_list_init(&loop->files.due);
    loop_list_init(&loop->files.starving);
    loop_list_init(&loop->files.ready);
    loop_list_init(&loop->file_writers.open);
    loop_list_init(&loop->file_writers.due);
    loop_list_init(&loop->file_writers.ready);
    io_thread_init(&loop->works.thread, loop->backend);
    loop_list_init(&loop->works.open);
    loop_list_init(&loop->works.ready);
    loop->now = loop_clock();
    *ret_loop = loop;
    return 0;
}

int sluice_loop_set_batch(sluice_loop *loop, uint32_t batch_us) {
    if (batch_us > BACKEND_BATCH_MOST || (batch_us > 0) != (loop->batch_us > 0))
        return -EINVAL;
    loop->batch_us = batch_us;
    loop->backend->operations->set_window(loop->backend, batch_us);
    return 0;
}

static void run_posted(sluice_loop *loop) {
    if (!atomic_exchange(&loop->post_waits, false))
        return;
    loop->again = true;
    pthread_mutex_lock(&loop->post_lock);
    sluice_call *posted = loop->posted;
    loop->posted = NULL;
    loop->posted_end = &loop->posted;
    pthread_mutex_unlock(&loop->post_lock);
    while (posted) {
        sluice_call *next = posted->next;
        bool allocated = posted->allocated;
        posted->call(posted->user);
        /* What is not ours may be gone, or posted again. */
        if (allocated)
            free(posted);
        posted = next;
    }
}

static void post(sluice_loop *loop, sluice_call *posted) {
    pthread_mutex_lock(&loop->post_lock);
    *loop->posted_end = posted;
    loop->posted_end = &posted->next;
    atomic_store(&loop->post_waits, true);
    loop->backend->operations->wake(loop->backend);
    pthread_mutex_unlock(&loop->post_lock);
}

int sluice_loop_post(sluice_loop *loop, sluice_loop_fn *call, void *user) {
    sluice_call *posted = malloc(sizeof *posted);
    if (!posted)
        return -ENOMEM;
    *posted = (sluice_call){.call = call, .user = user, .allocated = true};
    post(loop, posted);
    return 0;
}

void sluice_loop_post_call(sluice_loop *loop, sluice_call *posted, sluice_loop_fn *call, void *user) {
    *posted = (sluice_call){.call = call, .user = user};
    post(loop, posted);
}

void sluice_loop_stop(sluice_loop *loop) {
    pthread_mutex_lock(&loop->post_lock);
    atomic_store(&loop->stopping, true);
    loop->backend->operations->wake(loop->backend);
    pthread_mutex_unlock(&loop->post_lock);
}

void loop_touched(sluice_loop *loop) {
    if (loop->turning)
        loop->again = true;
    else if (loop->embedded)
        loop->backend->operations->wake(loop->backend);
}

uint64_t loop_heard_at(sluice_loop *loop) {
    if (loop->heard_turn != loop->turns) {
        loop->heard_turn = loop->turns;
        loop->heard_at = loop_clock();
    }
    return loop->heard_at;
}

/* Something is to be told or done that no completion will bring. */
static bool has_work(const sluice_loop *loop) {
    return atomic_load(&loop->post_waits) || loop->ready.first || loop->later.first || loop->sending.first ||
           loop->unread.first || !loop_list_is_empty(&loop->connectors.due) || !loop_list_is_empty(&loop->files.due) ||
           !loop_list_is_empty(&loop->files.ready) || !loop_list_is_empty(&loop->file_writers.due) ||
           !loop_list_is_empty(&loop->file_writers.ready) || works_are_ready(loop);
}

/* Milliseconds; negative: for any length. */
static int64_t soonest(int64_t wait, int64_t other) {
    return other >= 0 && (wait < 0 || other < wait) ? other : wait;
}

static int64_t wait_us(const sluice_loop *loop, int timeout_ms) {
    int64_t wait = soonest(timeout_ms, timers_wait_ms(loop, loop_clock()));
    if (!loop_list_is_empty(&loop->files.starving))
        wait = soonest(wait, STARVED_WAIT_MS);
    /* Not for a stop: that ends the wait, and the caller of the turns handles it. */
    if (has_work(loop))
        wait = 0;
    return wait < 0 ? -1 : wait * 1000;
}

static uint64_t completions(const sluice_loop *loop) {
    backend_stats stats;
    loop->backend->operations->get_stats(loop->backend, &stats);
    return stats.completions;
}

void sluice_loop_on_shortage(sluice_loop *loop, uint32_t blocks, sluice_loop_fn *call, void *user) {
    loop->shortage.call = call;
    loop->shortage.user = user;
    loop->shortage.blocks = blocks;
}

static void look_for_shortage(sluice_loop *loop) {
    if (loop->shortage.call && sluice_pool_available(loop->pool) < loop->shortage.blocks)
        loop->shortage.call(loop->shortage.user);
}

/* Most turns have connections alone. */
static void prepare_others(sluice_loop *loop) {
    if (!loop_list_is_empty(&loop->connectors.due))
        connectors_prepare(loop);
    if (!loop_list_is_empty(&loop->files.due) || !loop_list_is_empty(&loop->files.starving))
        files_prepare(loop);
    if (!loop_list_is_empty(&loop->file_writers.due))
        file_writers_prepare(loop);
}

int sluice_loop_turn(sluice_loop *loop, int timeout_ms) {
    const struct backend_operations *operations = loop->backend->operations;
    if (loop->turning)
        return -EBUSY;
    if (fork_mark_is_child(&loop->backend->mark))
        return -ECHILD;
    uint64_t completed = completions(loop);
    loop->turns++;
    loop->turning = true;
    loop->again = false;
    pool_ask_again(loop->pool);
    conns_flush(loop);
    prepare_others(loop);
    int error = operations->turn(loop->backend, wait_us(loop, timeout_ms));
    loop->now = loop_clock();
    if (!error) {
        conns_dispatch(loop);
        files_dispatch(loop);
        file_writers_dispatch(loop);
        works_dispatch(loop);
        timers_run(loop);
        run_posted(loop);
        look_for_shortage(loop);
    }
    /* Completions may have left receives to be armed. */
    loop->again |= completions(loop) != completed;
    loop->turning = false;
    return error;
}

int sluice_loop_fd(sluice_loop *loop) {
    int fd = loop->backend->operations->descriptor(loop->backend);
    if (fd >= 0)
        loop->embedded = true;
    return fd;
}

/* Not `stopping`: that ends a run, and the host of an embedded loop has none. */
int sluice_loop_timeout(const sluice_loop *loop) {
    if (loop->again || has_work(loop))
        return 0;
    int64_t most_us = loop->backend->operations->may_wait(loop->backend);
    int64_t wait = soonest(timers_wait_ms(loop, loop_clock()), most_us < 0 ? -1 : (most_us + 999) / 1000);
    /* Blocks that the loop's own thread releases between turns are not announced. */
    if (!loop_list_is_empty(&loop->files.starving))
        wait = soonest(wait, STARVED_WAIT_MS);
    return (int)wait;
}

bool loop_obey_stop(sluice_loop *loop) {
    return atomic_exchange(&loop->stopping, false);
}

int sluice_loop_run(sluice_loop *loop) {
    int error = 0;
    while (!error && !atomic_load(&loop->stopping))
        error = sluice_loop_turn(loop, -1);
    loop_obey_stop(loop);
    return error;
}

/* There is something that has to be waited for. */
static bool is_in_use(sluice_loop *loop) {
    return loop->open.first || !loop_list_is_empty(&loop->files.open) ||
           !loop_list_is_empty(&loop->file_writers.open) || !loop_list_is_empty(&loop->works.open) ||
           !loop_list_is_empty(&loop->works.ready) || !loop_list_is_empty(&loop->connectors.open) || loop->listeners ||
           atomic_load(&loop->post_waits);
}

/* Calls, work and closes may give rise to more of both. @timeout_ms: negative: no limit */
static int close_all(sluice_loop *loop, int timeout_ms) {
    const uint64_t deadline = timeout_ms < 0 ? UINT64_MAX : loop_clock() + (uint64_t)timeout_ms;
    int error;
    do {
        run_posted(loop);
        connectors_close_all(loop);
        listeners_close_all(loop);
        conns_close_all(loop);
        files_close_all(loop);
        file_writers_close_all(loop);
        error = sluice_loop_turn(loop, is_in_use(loop) ? 10 : 0);
    } while (!error && is_in_use(loop) && loop_clock() < deadline);
    return !error && is_in_use(loop) ? -ETIMEDOUT : error;
}

int sluice_loop_close_within(sluice_loop *loop, int timeout_ms) {
    if (!loop)
        return -EINVAL;
    if (loop->turning)
        return -EBUSY;
    return fork_mark_is_child(&loop->backend->mark) ? -ECHILD : close_all(loop, timeout_ms);
}

int sluice_loop_close(sluice_loop *loop) {
    return sluice_loop_close_within(loop, -1);
}

void sluice_loop_free(sluice_loop *loop) {
    /* What a child would end is its parent's, and the threads that it would wait for are not in
     * it. */
    if (!loop || fork_mark_is_child(&loop->backend->mark))
        return;
    /* On another thread than the loop's io_uring makes no turn: then nothing is left to close. */
    (void)close_all(loop, -1);
    /* What has ended the run, or posted the last call, may still be waking the loop. */
    pthread_mutex_lock(&loop->post_lock);
    pthread_mutex_unlock(&loop->post_lock);
    io_thread_end(&loop->works.thread);
    loop->backend->operations->destroy(loop->backend);
    timers_discard(loop);
    pthread_mutex_destroy(&loop->post_lock);
    free(loop);
}

uint64_t sluice_loop_now(const sluice_loop *loop) {
    return loop->now;
}

void sluice_loop_set_user(sluice_loop *loop, void *user) {
    loop->user = user;
}

void *sluice_loop_user(const sluice_loop *loop) {
    return loop->user;
}

sluice_pool *sluice_loop_pool(const sluice_loop *loop) {
    return loop->pool;
}

int sluice_loop_get_stats(const sluice_loop *loop, sluice_loop_stats *ret_stats) {
    backend_stats stats;
    loop->backend->operations->get_stats(loop->backend, &stats);
    const sluice_loop_stats known = {
        .backend = loop->backend->operations->name,
        .features = stats.features,
        .turns = loop->turns,
        .enters = stats.enters,
        .completions = stats.completions,
        .starved = stats.starved,
        .aimed = stats.aimed,
        .direct = stats.direct,
        .overflows = stats.overflows,
        .connections = loop->connections,
        .waiting = stats.waiting,
        .footprint = loop->footprint,
        .fallback_error = loop->fallback_error,
        .reason = loop->reason,
    };
    return SIZED_WRITE(ret_stats, &known);
}
