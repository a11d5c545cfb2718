/*
 * Releases on other threads: blocks that come home from there, pools that are given up meanwhile,
 * and how the owner learns of a release it waits for. Made to run under ThreadSanitizer too.
 *
 * Other threads do not assert (that would leave their stack): they count what they find wrong.
 */
#include <sluice/pool.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sluice/chain.h>
#include <sluice/slice.h>

#include "memory/chain.h"
#include "memory/pool.h"

enum {
    BLOCK = 512,
    WORKERS = 3,
};

static sluice_pool *new_pool(uint32_t max_blocks, uint32_t reserve_blocks) {
    sluice_pool *pool;
    sluice_pool_options options = {.size = sizeof options,
                                   .block_size = BLOCK,
                                   .slab_blocks = 8,
                                   .max_blocks = max_blocks,
                                   .reserve_blocks = reserve_blocks,
                                   .no_huge_pages = true};
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
    return pool;
}

static sluice_pool_stats counts(sluice_pool *pool) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(pool, &stats);
    assert_int_equal(stats.total, stats.free + stats.kernel + stats.held);
    return stats;
}

static void free_pool(sluice_pool *pool) {
    sluice_pool_stats stats = counts(pool);
    assert_int_equal(stats.held, 0);
    assert_int_equal(stats.views, 0);
    sluice_pool_free(pool);
}

static uint32_t pick(uint64_t *seed, uint32_t below) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % below;
}

/* Slices on their way to a thread; one that is empty tells it to end. */
enum { QUEUE = 256 };

typedef struct queue {
    pthread_mutex_t lock;
    sem_t filled, room;
    struct message {
        sluice_slice slice;
        uint8_t first; /* the slice's bytes count up from here */
    } messages[QUEUE];
    uint32_t in, out;
} queue;

static void queue_init(queue *q) {
    *q = (queue){.in = 0};
    assert_int_equal(pthread_mutex_init(&q->lock, NULL), 0);
    assert_int_equal(sem_init(&q->filled, 0, 0), 0);
    assert_int_equal(sem_init(&q->room, 0, QUEUE), 0);
}

static void queue_destroy(queue *q) {
    pthread_mutex_destroy(&q->lock);
    sem_destroy(&q->filled);
    sem_destroy(&q->room);
}

static void queue_push(queue *q, const sluice_slice *slice, uint8_t first) {
    sem_wait(&q->room);
    pthread_mutex_lock(&q->lock);
    q->messages[q->in++ % QUEUE] = (struct message){*slice, first};
    pthread_mutex_unlock(&q->lock);
    sem_post(&q->filled);
}

static struct message queue_pop(queue *q) {
    sem_wait(&q->filled);
    pthread_mutex_lock(&q->lock);
    struct message message = q->messages[q->out++ % QUEUE];
    pthread_mutex_unlock(&q->lock);
    sem_post(&q->room);
    return message;
}

typedef struct worker {
    pthread_t thread;
    queue *queue;
    uint64_t seed;
    atomic_uint wrong;
} worker;

static bool counts_up(const sluice_slice *slice, uint8_t first) {
    struct iovec iov[64];
    size_t count = sluice_slice_iov(slice, 0, iov, 64), length = 0;
    if (count > 64)
        return false;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < iov[i].iov_len; k++, length++)
            if (((const uint8_t *)iov[i].iov_base)[k] != (uint8_t)(first + length))
                return false;
    return length == sluice_slice_length(slice);
}

/* Whatever a consumer may do on its own thread: look, copy, cut, reference, and release in any
 * order. */
static void consume(worker *w, sluice_slice *slice, uint8_t first) {
    uint8_t out[64];
    sluice_slice again, part = {0};
    size_t length = sluice_slice_length(slice), offset = pick(&w->seed, (uint32_t)length + 1);
    sluice_slice_ref(slice, &again);
    w->wrong += sluice_slice_sub(slice, offset, pick(&w->seed, (uint32_t)(length - offset) + 1), &part) != 0;
    w->wrong += !counts_up(slice, first);
    if (pick(&w->seed, 2))
        sluice_slice_release(slice);
    size_t done = sluice_slice_copy(&again, offset, out, sizeof out);
    for (size_t i = 0; i < done; i++)
        w->wrong += out[i] != (uint8_t)(first + offset + i);
    w->wrong += sluice_slice_blocks(&again) == 0;
    sluice_slice_release(&again);
    w->wrong += !counts_up(&part, (uint8_t)(first + offset));
    sluice_slice_release(slice);
    sluice_slice_release(&part);
}

static void *worker_run(void *context) {
    worker *w = context;
    for (;;) {
        struct message message = queue_pop(w->queue);
        if (sluice_slice_length(&message.slice) == 0)
            return NULL;
        consume(w, &message.slice, message.first);
    }
}

static void workers_start(worker *workers, queue *q) {
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (worker){.queue = q, .seed = 1000u + i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]), 0);
    }
}

static void workers_end(worker *workers, queue *q) {
    const sluice_slice end = {0};
    for (int i = 0; i < WORKERS; i++)
        queue_push(q, &end, 0);
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_int_equal(workers[i].wrong, 0);
    }
}

/* An owner that waits for releases as a backend does. */
typedef struct waiting {
    sem_t wake;
    atomic_uint released;
    uint32_t wanted;
} waiting;

static void wake_owner(void *context) {
    waiting *w = context;
    atomic_fetch_add(&w->released, 1);
    sem_post(&w->wake);
}

static const pool_observer observer = {.released = wake_owner};

static void wait_init(waiting *w, sluice_pool *pool) {
    *w = (waiting){.wanted = 0};
    assert_int_equal(sem_init(&w->wake, 0, 0), 0);
    assert_int_equal(pool_observe(pool, &observer, w), 0);
}

static void wait_end(waiting *w, sluice_pool *pool) {
    assert_int_equal(pool_observe(pool, NULL, NULL), 0);
    sem_destroy(&w->wake);
}

/* A block, if need be after sleeping until another thread gives one back. A wake-up that is lost
 * hangs here. */
static sluice_block *take_or_wait(waiting *w, sluice_pool *pool) {
    sluice_block *block;
    while (!(block = pool_take(pool))) {
        w->wanted++;
        if (pool_want_release(pool))
            sem_wait(&w->wake);
    }
    return block;
}

/*
 * The owner's side of a stream: received into blocks to their ends, cut into frames that share
 * blocks with each other and with what follows. So other threads read and release slices while the
 * owner links and fills their last blocks.
 */
typedef struct stream {
    sluice_pool *pool;
    sluice_chain *chain;
    sluice_block *aim;
    uint8_t next; /* byte to be received */
    uint64_t seed;
} stream;

static int receive(stream *s, waiting *w) {
    uint32_t n = 1 + pick(&s->seed, 300);
    if (!s->aim || block_tail(s->aim) < n) {
        sluice_block_release(s->aim);
        s->aim = take_or_wait(w, s->pool);
        block_ref(s->aim);
        for (uint32_t i = 0; i < n; i++)
            s->aim->data[i] = s->next++;
        s->aim->length = n;
        sluice_chain_append(s->chain, s->aim);
        return 0;
    }
    uint8_t *tail = s->aim->data + (s->aim->capacity - block_tail(s->aim));
    for (uint32_t i = 0; i < n; i++)
        tail[i] = (uint8_t)(s->next + i);
    int error = chain_extend(s->chain, s->aim, n);
    if (!error)
        s->next = (uint8_t)(s->next + n);
    return error;
}

static void frames_are_released_elsewhere(void **state) {
    (void)state;
    enum { FRAMES = 20000 };
    sluice_pool *pool = new_pool(32, 1);
    stream s = {.pool = pool, .seed = 99};
    static queue q;
    worker workers[WORKERS];
    waiting w;
    uint8_t first = 0;
    uint64_t seed = 5;

    assert_int_equal(sluice_chain_new(pool, &s.chain), 0);
    wait_init(&w, pool);
    queue_init(&q);
    workers_start(workers, &q);
    for (int i = 0; i < FRAMES; i++) {
        size_t n = 1 + pick(&seed, i % 64 ? 400 : 3000);
        sluice_slice frame;
        while (sluice_chain_length(s.chain) < n)
            while (receive(&s, &w) != 0)
                sched_yield(); /* every view is in use: the other threads have them */
        assert_int_equal(sluice_chain_take(s.chain, n, &frame), 0);
        queue_push(&q, &frame, first);
        first = (uint8_t)(first + n);
        if (i % 16 == 0)
            counts(pool);
    }
    sluice_block_release(s.aim);
    sluice_chain_free(s.chain);
    workers_end(workers, &q);
    wait_end(&w, pool);
    assert_true(w.released <= w.wanted);
    queue_destroy(&q);
    free_pool(pool);
}

/* The same in room that the owner fills himself, some of it behind a block that has left the chain
 * meanwhile. */
static void frames_in_reserved_room_are_released_elsewhere(void **state) {
    (void)state;
    enum { FRAMES = 10000, PIECES = 4 };
    sluice_pool *pool = new_pool(64, 1);
    sluice_chain *chain;
    static queue q;
    worker workers[WORKERS];
    uint8_t first = 0, next = 0;
    uint64_t seed = 6;

    assert_int_equal(sluice_chain_new(pool, &chain), 0);
    queue_init(&q);
    workers_start(workers, &q);
    for (int i = 0; i < FRAMES;) {
        struct iovec room[PIECES];
        size_t n = 1 + pick(&seed, 900), done = 0;
        int count;
        while ((count = sluice_chain_reserve(chain, n, room, PIECES)) < 0)
            sched_yield(); /* every block is in use: the other threads have them */
        for (int k = 0; k < count; k++)
            for (size_t at = 0; at < room[k].iov_len && done < n; at++, done++)
                ((uint8_t *)room[k].iov_base)[at] = (uint8_t)(next + done);
        bool late = pick(&seed, 4) == 0;
        if (!late)
            assert_int_equal(sluice_chain_commit(chain, done), 0);
        while (sluice_chain_length(chain) > 0) {
            sluice_slice frame;
            size_t length = sluice_chain_length(chain), part = 1 + pick(&seed, (uint32_t)length);
            assert_int_equal(sluice_chain_take(chain, part, &frame), 0);
            queue_push(&q, &frame, first);
            first = (uint8_t)(first + part);
            i++;
            if (!late && pick(&seed, 3) == 0)
                break;
        }
        if (!late || sluice_chain_commit(chain, done) == 0)
            next = (uint8_t)(next + done);
    }
    sluice_chain_free(chain);
    workers_end(workers, &q);
    queue_destroy(&q);
    free_pool(pool);
}

/* Views go home from other threads as well, and with the last one its block. */
static void views_are_released_elsewhere(void **state) {
    (void)state;
    enum { ROUNDS = 4000 };
    sluice_pool *pool = new_pool(32, 1);
    static queue q;
    worker workers[WORKERS];
    sluice_chain *from, *to;
    waiting w;

    assert_int_equal(sluice_chain_new(pool, &from), 0);
    assert_int_equal(sluice_chain_new(pool, &to), 0);
    wait_init(&w, pool);
    queue_init(&q);
    workers_start(workers, &q);
    for (int i = 0; i < ROUNDS; i++) {
        sluice_slice slice;
        for (int k = 0; k < 2; k++) {
            sluice_block *block = take_or_wait(&w, pool);
            for (uint32_t b = 0; b < BLOCK; b++)
                block->data[b] = (uint8_t)(k * BLOCK + b);
            block->length = BLOCK;
            sluice_chain_append(from, block);
        }
        while (sluice_chain_move(from, 2 * BLOCK - 100, to) != 0)
            sched_yield();
        assert_int_equal(sluice_chain_take(to, BLOCK - 10, &slice), 0);
        queue_push(&q, &slice, 0);
        assert_int_equal(sluice_chain_take(to, BLOCK - 90, &slice), 0);
        queue_push(&q, &slice, (uint8_t)(BLOCK - 10));
        assert_int_equal(sluice_chain_skip(from, 100), 100);
        assert_true(chain_is_sound(from) && chain_is_sound(to));
    }
    sluice_chain_free(from);
    sluice_chain_free(to);
    workers_end(workers, &q);
    wait_end(&w, pool);
    queue_destroy(&q);
    free_pool(pool);
}

/* Hands blocks to another thread, which releases them one by one. */
typedef struct lane {
    sem_t filled, done;
    sluice_block *blocks[64];
    uint32_t count;
    bool ends;
    pthread_t thread;
} lane;

static void *lane_run(void *context) {
    lane *l = context;
    for (;;) {
        sem_wait(&l->filled);
        if (l->ends)
            return NULL;
        for (uint32_t i = 0; i < l->count; i++)
            sluice_block_release(l->blocks[i]);
        sem_post(&l->done);
    }
}

static void lane_start(lane *l) {
    *l = (lane){.count = 0};
    assert_int_equal(sem_init(&l->filled, 0, 0), 0);
    assert_int_equal(sem_init(&l->done, 0, 0), 0);
    assert_int_equal(pthread_create(&l->thread, NULL, lane_run, l), 0);
}

static void lane_end(lane *l) {
    l->ends = true;
    sem_post(&l->filled);
    assert_int_equal(pthread_join(l->thread, NULL), 0);
    sem_destroy(&l->filled);
    sem_destroy(&l->done);
}

/* Releases on the other thread, and waits until it is through. */
static void release_elsewhere(lane *l, sluice_block **blocks, uint32_t count) {
    memcpy(l->blocks, blocks, count * sizeof *blocks);
    l->count = count;
    sem_post(&l->filled);
    sem_wait(&l->done);
}

static void no_wake_up_is_lost(void **state) {
    (void)state;
    enum { ROUNDS = 20000, MAX = 8 };
    sluice_pool *pool = new_pool(MAX, 1);
    waiting w;
    lane l;
    wait_init(&w, pool);
    lane_start(&l);
    for (int i = 0; i < ROUNDS; i++) {
        /* The other thread has all there are; the owner goes to sleep just when they come, or just
         * before or after. */
        for (l.count = 0; l.count < MAX; l.count++)
            l.blocks[l.count] = take_or_wait(&w, pool);
        sem_post(&l.filled);
        sluice_block_release(take_or_wait(&w, pool));
        sem_wait(&l.done);
    }
    lane_end(&l);
    wait_end(&w, pool);
    assert_true(w.released <= w.wanted);
    free_pool(pool);
}

static void take_all(sluice_pool *pool, sluice_block **blocks, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        assert_non_null(blocks[i] = pool_take(pool));
    assert_null(pool_take(pool));
}

static void a_release_is_announced_once(void **state) {
    (void)state;
    enum { MAX = 8 };
    sluice_pool *pool = new_pool(MAX, 1);
    sluice_block *blocks[MAX];
    waiting w;
    lane l;
    wait_init(&w, pool);
    lane_start(&l);

    /* Nothing has been asked for. */
    take_all(pool, blocks, MAX);
    release_elsewhere(&l, blocks, 2);
    assert_int_equal(w.released, 0);
    /* They are there already, only not taken in. Who has asked before may wait for others, so the
     * request stays. */
    assert_false(pool_want_release(pool));
    assert_int_equal(w.released, 0);
    take_all(pool, blocks, 2);
    release_elsewhere(&l, blocks, 2);
    assert_int_equal(w.released, 1);
    take_all(pool, blocks, 2);

    /* Once for each wish, whatever the number of releases. */
    for (uint32_t i = 1; i <= 100; i++) {
        assert_true(pool_want_release(pool));
        assert_int_equal(w.released, i);
        release_elsewhere(&l, blocks, 1 + i % 5);
        assert_int_equal(w.released, i + 1);
        release_elsewhere(&l, blocks + 1 + i % 5, 1);
        assert_int_equal(w.released, i + 1);
        assert_int_equal(pool_free_now(pool), 2 + i % 5);
        take_all(pool, blocks, 2 + i % 5);
    }

    /* The owner knows of what it releases itself. */
    assert_true(pool_want_release(pool));
    sluice_block_release(blocks[0]);
    assert_int_equal(w.released, 101);
    blocks[0] = pool_take(pool);
    /* Who observes no more hears no more. */
    wait_end(&w, pool);
    release_elsewhere(&l, blocks, MAX);
    assert_int_equal(w.released, 101);
    lane_end(&l);
    free_pool(pool);
}

/* A class that finds blocks leaves the request of one that has none. */
static void a_request_is_not_taken_back_by_another_class(void **state) {
    (void)state;
    enum { MAX = 16, FIRST = 8, LARGE = 8 * BLOCK };
    sluice_pool *pool = new_pool(MAX, 1), *large;
    sluice_block *blocks[FIRST];
    waiting w;
    lane l;
    assert_int_equal(sluice_pool_class(pool, LARGE, &large), 0);
    wait_init(&w, pool);
    lane_start(&l);
    take_all(pool, blocks, FIRST);
    assert_true(pool_want_release(pool));
    assert_false(pool_want_release(large));
    release_elsewhere(&l, blocks, FIRST);
    assert_int_equal(w.released, 1);
    wait_end(&w, pool);
    lane_end(&l);
    free_pool(pool);
}

/* A callback that is under way when the observer leaves. */
typedef struct slow {
    sem_t entered, go_on;
    int left; /* not atomic: the pool's lock alone orders it */
} slow;

static void released_slowly(void *context) {
    slow *s = context;
    sem_post(&s->entered);
    sem_wait(&s->go_on);
    s->left = 1;
}

static void the_observer_leaves_after_its_last_call(void **state) {
    (void)state;
    static const pool_observer slow_observer = {.released = released_slowly};
    enum { ROUNDS = 200, MAX = 8 };
    sluice_pool *pool = new_pool(MAX, 1);
    lane l;
    lane_start(&l);
    for (int i = 0; i < ROUNDS; i++) {
        sluice_block *blocks[MAX];
        slow s = {.left = 0};
        assert_int_equal(sem_init(&s.entered, 0, 0), 0);
        assert_int_equal(sem_init(&s.go_on, 0, 0), 0);
        assert_int_equal(pool_observe(pool, &slow_observer, &s), 0);
        take_all(pool, blocks, MAX);
        assert_true(pool_want_release(pool));
        memcpy(l.blocks, blocks, sizeof blocks);
        l.count = MAX;
        sem_post(&l.filled);
        sem_wait(&s.entered);
        sem_post(&s.go_on);
        assert_int_equal(pool_observe(pool, NULL, NULL), 0);
        assert_int_equal(s.left, 1);
        sem_wait(&l.done);
        sem_destroy(&s.entered);
        sem_destroy(&s.go_on);
    }
    lane_end(&l);
    free_pool(pool);
}

/* What other threads have released counts at once, for the reserve and in the statistics. */
static void remote_releases_count_at_once(void **state) {
    (void)state;
    enum { MAX = 16, RESERVE = 6 };
    sluice_pool *pool = new_pool(MAX, RESERVE);
    sluice_block *blocks[MAX];
    sluice_chain *chain;
    sluice_slice frame, kept;
    lane l;
    lane_start(&l);
    take_all(pool, blocks, MAX);
    assert_int_equal(sluice_chain_new(pool, &chain), 0);
    blocks[0]->length = 1;
    sluice_chain_append(chain, blocks[0]);
    assert_int_equal(sluice_chain_take(chain, 1, &frame), 0);

    for (uint32_t i = 1; i < MAX; i++) {
        int error = sluice_slice_take(&frame, &kept);
        assert_int_equal(error, i - 1 > RESERVE ? 0 : -ENOBUFS);
        if (!error)
            frame = kept;
        release_elsewhere(&l, &blocks[i], 1);
        if (i % 2)
            assert_int_equal(counts(pool).free, i);
        else
            assert_int_equal(sluice_pool_available(pool), i);
    }
    sluice_slice_release(&frame);
    sluice_chain_free(chain);
    lane_end(&l);
    free_pool(pool);
}

/* Two owners in turn; the one whose turn it is not releases like anybody else. */
typedef struct handover {
    sluice_pool *pool;
    sluice_block *blocks[8];
    sem_t turn[2];
    uint32_t wrong;
} handover;

static void *second_owner(void *context) {
    handover *h = context;
    for (int i = 0; i < 1000; i++) {
        sem_wait(&h->turn[1]);
        pool_bind(h->pool);
        /* Blocks of the first owner come straight back; then some are taken that it releases from
         * afar. */
        for (int k = 0; k < 4; k++)
            sluice_block_release(h->blocks[k]);
        h->wrong += pool_take(h->pool) != h->blocks[3];
        sluice_block_release(h->blocks[3]);
        for (int k = 0; k < 4; k++)
            h->blocks[k] = pool_take(h->pool);
        sem_post(&h->turn[0]);
    }
    return NULL;
}

static void the_owner_changes(void **state) {
    (void)state;
    handover h = {.pool = new_pool(8, 1)};
    pthread_t thread;
    assert_int_equal(sem_init(&h.turn[0], 0, 0), 0);
    assert_int_equal(sem_init(&h.turn[1], 0, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, second_owner, &h), 0);
    for (int k = 0; k < 4; k++)
        assert_non_null(h.blocks[k] = pool_take(h.pool));
    for (int i = 0; i < 1000; i++) {
        sem_post(&h.turn[1]);
        sem_wait(&h.turn[0]);
        /* Not the owner now: these lie with what other threads have released, until the owner
         * looks. */
        for (int k = 0; k < 4; k++)
            sluice_block_release(h.blocks[k]);
        pool_bind(h.pool);
        assert_int_equal(counts(h.pool).held, 0);
        for (int k = 0; k < 4; k++)
            assert_non_null(h.blocks[k] = pool_take(h.pool));
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(h.wrong, 0);
    for (int k = 0; k < 4; k++)
        sluice_block_release(h.blocks[k]);
    sem_destroy(&h.turn[0]);
    sem_destroy(&h.turn[1]);
    free_pool(h.pool);
}

/* A slice of several blocks and views that overlaps with the one made before it. */
static void make_slice(sluice_chain *chain, sluice_chain *views, sluice_slice *ret_slice) {
    sluice_slice part;
    assert_int_equal(sluice_chain_take(chain, BLOCK, &part), 0);
    assert_int_equal(sluice_chain_append_slice(views, &part), 0);
    sluice_slice_release(&part);
    assert_int_equal(sluice_chain_take(views, BLOCK - 100, ret_slice), 0);
    assert_int_equal(sluice_chain_skip(views, 100), 100);
}

/*
 * The pool is given up while other threads have slices of it: they read them, and the last release,
 * wherever it is, takes the memory down. Whether all of it goes, the leak checker sees.
 */
static void a_pool_is_given_up_under_way(void **state) {
    (void)state;
    enum { ROUNDS = 2000, SLICES = 6 };
    static queue q;
    worker workers[WORKERS];
    uint64_t seed = 17;
    queue_init(&q);
    workers_start(workers, &q);
    for (int i = 0; i < ROUNDS; i++) {
        sluice_pool *pool = new_pool(16, 1);
        sluice_chain *chain, *views;
        sluice_slice mine = {0}, slice;
        assert_int_equal(sluice_chain_new(pool, &chain), 0);
        assert_int_equal(sluice_chain_new(pool, &views), 0);
        /* Off by some bytes, so that neighbours share a block. */
        for (int k = 0; k <= SLICES; k++) {
            sluice_block *block = pool_take(pool);
            for (uint32_t b = 0; b < BLOCK; b++)
                block->data[b] = (uint8_t)(k * BLOCK + b);
            block->length = BLOCK;
            sluice_chain_append(chain, block);
        }
        sluice_chain_skip(chain, 50);
        for (int k = 0; k < SLICES; k++) {
            make_slice(chain, views, &slice);
            uint8_t first = (uint8_t)(50 + k * BLOCK);
            if (k == 3)
                sluice_slice_ref(&slice, &mine);
            queue_push(&q, &slice, first);
        }
        sluice_chain_free(chain);
        sluice_chain_free(views);
        for (uint32_t yields = pick(&seed, 4); yields > 0; yields--)
            sched_yield();
        sluice_pool_free(pool);
        /* The owner's own goes the same way now. */
        assert_true(counts_up(&mine, (uint8_t)(50 + 3 * BLOCK)));
        sluice_slice_release(&mine);
    }
    workers_end(workers, &q);
    queue_destroy(&q);
}

/* The last of a pool that is gone already is released on another thread, when its owner has
 * ended. */
static void *make_and_leave(void *context) {
    sluice_slice *slice = context;
    sluice_pool_options options = {.size = sizeof options, .block_size = BLOCK, .slab_blocks = 8, .max_blocks = 8};
    sluice_pool *pool;
    sluice_chain *chain;
    sluice_block *block;
    if (sluice_pool_new(&options, &pool) != 0 || sluice_chain_new(pool, &chain) != 0)
        return NULL;
    for (int k = 0; k < 2; k++) {
        block = pool_take(pool);
        for (uint32_t b = 0; b < BLOCK; b++)
            block->data[b] = (uint8_t)b;
        block->length = BLOCK;
        sluice_chain_append(chain, block);
    }
    sluice_chain_take(chain, BLOCK + 10, slice);
    sluice_chain_free(chain);
    sluice_pool_free(pool);
    return NULL;
}

static void slices_outlive_their_owner(void **state) {
    (void)state;
    for (int i = 0; i < 100; i++) {
        sluice_slice slice = {0};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, make_and_leave, &slice), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(sluice_slice_length(&slice), BLOCK + 10);
        assert_true(counts_up(&slice, 0));
        sluice_slice_release(&slice);
    }
}

/*
 * When the counts say that all has come home, the pool may go: the thread that released last must
 * not touch it any more. Nothing but the counts orders the two here, as in a program whose
 * consumers come and go.
 */
typedef struct courier {
    _Atomic(sluice_block *) block;
    atomic_bool ends;
} courier;

static void *courier_run(void *context) {
    courier *c = context;
    while (!atomic_load(&c->ends)) {
        sluice_block *block = atomic_exchange(&c->block, NULL);
        if (block)
            sluice_block_release(block);
        else
            sched_yield();
    }
    return NULL;
}

static void a_pool_goes_when_all_is_home(void **state) {
    (void)state;
    enum { ROUNDS = 5000 };
    courier c = {.block = NULL};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, courier_run, &c), 0);
    for (int i = 0; i < ROUNDS; i++) {
        sluice_pool *pool = new_pool(8, 1);
        atomic_store(&c.block, pool_take(pool));
        while (counts(pool).held > 0)
            sched_yield();
        sluice_pool_free(pool);
    }
    atomic_store(&c.ends, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_released_elsewhere),
        cmocka_unit_test(frames_in_reserved_room_are_released_elsewhere),
        cmocka_unit_test(views_are_released_elsewhere),
        cmocka_unit_test(no_wake_up_is_lost),
        cmocka_unit_test(a_release_is_announced_once),
        cmocka_unit_test(a_request_is_not_taken_back_by_another_class),
        cmocka_unit_test(the_observer_leaves_after_its_last_call),
        cmocka_unit_test(remote_releases_count_at_once),
        cmocka_unit_test(the_owner_changes),
        cmocka_unit_test(a_pool_is_given_up_under_way),
        cmocka_unit_test(slices_outlive_their_owner),
        cmocka_unit_test(a_pool_goes_when_all_is_home),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
