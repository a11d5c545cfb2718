#include "memory/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "memory/poison.h"

enum {
    DEFAULT_BLOCK_SIZE = 4096, /* with bundled receives the best size measured; larger ones walk cold memory */
    DEFAULT_SLAB_BLOCKS = 1024,
    DEFAULT_MAX_BLOCKS = 16384,
    MIN_BLOCK_SIZE = 512,
    MAX_BLOCK_SIZE = 1 << 20,
    MIN_SLAB_BLOCKS = 8,
    MAX_SLAB_BLOCKS = 1 << 16,
    MAX_BLOCKS = 1 << 22,
    RESERVE_SHARE = 16,
    VIEWS_PER_BLOCK = 4, /* most views and foreign memory in use, as a multiple of the most blocks */
    FIRST_VIEWS = 256,   /* made at once; then as many again as there are */
    HUGE_PAGE = 2 << 20,
};

/* The remote list of a pool that its owner has given up: no list at all. */
#define REMOTE_CLOSED ((sluice_block *)(uintptr_t)1)

/* More than any pool can hold: keeps the count of a closing pool from reaching zero too early. */
#define LIVE_BIAS (INT64_C(1) << 40)

struct slab {
    uint8_t *memory;
    size_t size;
    sluice_block *blocks;
};

struct view_batch {
    struct view_batch *next;
    sluice_block views[];
};

struct sluice_pool {
    /* The owner's, no locks: */
    sluice_block *free_list;  /* last in, first out: the block used last is the one still in the cache */
    sluice_block *free_views; /* blocks without memory: for views and foreign memory */
    uint32_t free;
    uint32_t kernel;
    uint32_t total;
    uint32_t peak_held;
    uint32_t views;
    uint32_t foreign;
    uint32_t views_made;
    uint32_t slab_count;
    uint32_t huge_slabs;
    struct slab *slabs;
    struct view_batch *view_batches;

    /* Set once: */
    uint32_t block_size;
    uint32_t slab_blocks;
    uint32_t max_blocks;
    uint32_t max_slabs;
    uint32_t reserve;
    bool huge_pages;

    /* Any thread's: */
    _Atomic(pthread_t) owner;
    _Atomic(sluice_block *) remote; /* given back by other threads; the owner takes the whole list at once */
    _Atomic int64_t live;           /* what keeps the pool: blocks held once it is closed, releases under way */
    _Atomic uint64_t bytes_copied;
    _Atomic bool release_wanted;

    pthread_mutex_t observer_lock;
    const pool_observer *observer;
    void *observer_context;
};

static bool is_owner(const sluice_pool *pool) {
    return pthread_equal(atomic_load_explicit(&pool->owner, memory_order_relaxed), pthread_self());
}

static uint32_t or_default(uint32_t value, uint32_t fallback) {
    return value ? value : fallback;
}

static int set_options(sluice_pool *pool, const sluice_pool_options *options) {
    static const sluice_pool_options none;
    if (!options)
        options = &none;
    pool->block_size = or_default(options->block_size, DEFAULT_BLOCK_SIZE);
    pool->max_blocks = or_default(options->max_blocks, DEFAULT_MAX_BLOCKS);
    pool->slab_blocks = or_default(options->slab_blocks, DEFAULT_SLAB_BLOCKS);
    if (!options->slab_blocks && pool->slab_blocks > pool->max_blocks)
        pool->slab_blocks = pool->max_blocks;
    pool->reserve = or_default(options->reserve_blocks, pool->max_blocks / RESERVE_SHARE);
    pool->huge_pages = !options->no_huge_pages;

    if (pool->block_size < MIN_BLOCK_SIZE || pool->block_size > MAX_BLOCK_SIZE ||
        (pool->block_size & (pool->block_size - 1)) != 0)
        return -EINVAL;
    if (pool->slab_blocks < MIN_SLAB_BLOCKS || pool->slab_blocks > MAX_SLAB_BLOCKS)
        return -EINVAL;
    if (pool->max_blocks < pool->slab_blocks || pool->max_blocks > MAX_BLOCKS || pool->reserve >= pool->max_blocks)
        return -EINVAL;
    pool->max_slabs = (pool->max_blocks + pool->slab_blocks - 1) / pool->slab_blocks;
    return pool->max_slabs <= UINT16_MAX ? 0 : -EINVAL;
}

static uint8_t *map_slab(const sluice_pool *pool, size_t size, bool *ret_huge) {
    const int protection = PROT_READ | PROT_WRITE;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    void *memory = MAP_FAILED;

    *ret_huge = false;
    if (pool->huge_pages && size % HUGE_PAGE == 0) {
        memory = mmap(NULL, size, protection, flags | MAP_HUGETLB, -1, 0);
        *ret_huge = memory != MAP_FAILED;
    }
    if (memory == MAP_FAILED) {
        memory = mmap(NULL, size, protection, flags, -1, 0);
        if (memory == MAP_FAILED)
            return NULL;
        if (pool->huge_pages)
            (void)madvise(memory, size, MADV_HUGEPAGE);
    }
    return memory;
}

static void push_free(sluice_pool *pool, sluice_block *block) {
    poison_memory(block->data, block->capacity);
    block->state = BLOCK_FREE;
    block->next = pool->free_list;
    pool->free_list = block;
    pool->free++;
}

static int grow(sluice_pool *pool) {
    uint32_t count = pool->max_blocks - pool->total;
    if (count == 0)
        return -ENOBUFS;
    if (count > pool->slab_blocks)
        count = pool->slab_blocks;

    struct slab *slab = &pool->slabs[pool->slab_count];
    bool huge;
    slab->size = (size_t)count * pool->block_size;
    slab->blocks = calloc(count, sizeof *slab->blocks);
    if (!slab->blocks)
        return -ENOMEM;
    slab->memory = map_slab(pool, slab->size, &huge);
    if (!slab->memory) {
        free(slab->blocks);
        return -ENOMEM;
    }
    /* From the back, so that the free list hands out ascending addresses. */
    for (uint32_t i = count; i-- > 0;) {
        sluice_block *block = &slab->blocks[i];
        block->data = slab->memory + (size_t)i * pool->block_size;
        block->capacity = pool->block_size;
        block->kind = BLOCK_POOLED;
        block->slab = (uint16_t)pool->slab_count;
        block->pool = pool;
        push_free(pool, block);
    }
    pool->total += count;
    pool->huge_slabs += huge;
    pool->slab_count++;
    if (pool->observer)
        pool->observer->slab_added(pool->observer_context, pool->slab_count - 1);
    return 0;
}

static void destroy(sluice_pool *pool) {
    for (uint32_t i = 0; i < pool->slab_count; i++) {
        unpoison_memory(pool->slabs[i].memory, pool->slabs[i].size);
        munmap(pool->slabs[i].memory, pool->slabs[i].size);
        free(pool->slabs[i].blocks);
    }
    while (pool->view_batches) {
        struct view_batch *batch = pool->view_batches;
        pool->view_batches = batch->next;
        free(batch);
    }
    pthread_mutex_destroy(&pool->observer_lock);
    free(pool->slabs);
    free(pool);
}

int sluice_pool_new(const sluice_pool_options *options, sluice_pool **ret_pool) {
    sluice_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return -ENOMEM;
    int error = set_options(pool, options);
    if (!error) {
        pool->slabs = calloc(pool->max_slabs, sizeof *pool->slabs);
        error = pool->slabs ? 0 : -ENOMEM;
    }
    if (!error)
        error = -pthread_mutex_init(&pool->observer_lock, NULL);
    if (error) {
        free(pool->slabs);
        free(pool);
        return error;
    }
    atomic_init(&pool->live, LIVE_BIAS);
    pool_bind(pool);
    error = grow(pool);
    if (error) {
        destroy(pool);
        return error;
    }
    *ret_pool = pool;
    return 0;
}

void pool_bind(sluice_pool *pool) {
    atomic_store_explicit(&pool->owner, pthread_self(), memory_order_relaxed);
}

/* Takes a list of given-back blocks and views into the owner's lists. */
static void accept_list(sluice_pool *pool, sluice_block *block) {
    while (block) {
        sluice_block *next = block->next;
        if (block->kind == BLOCK_POOLED) {
            push_free(pool, block);
        } else {
            pool->views -= block->kind == BLOCK_VIEW;
            pool->foreign -= block->kind == BLOCK_FOREIGN;
            block->next = pool->free_views;
            pool->free_views = block;
        }
        block = next;
    }
}

static bool is_closed(const sluice_pool *pool) {
    return atomic_load_explicit(&pool->remote, memory_order_relaxed) == REMOTE_CLOSED;
}

static void drain_remote(sluice_pool *pool) {
    if (atomic_load_explicit(&pool->remote, memory_order_relaxed) && !is_closed(pool))
        accept_list(pool, atomic_exchange_explicit(&pool->remote, NULL, memory_order_acquire));
}

/*
 * A closed pool's blocks only need counting: the memory goes when all have come home, and no release is under way any
 * more.
 */
static void count_dead(sluice_pool *pool, int64_t dead) {
    if (atomic_fetch_sub_explicit(&pool->live, dead, memory_order_acq_rel) == dead)
        destroy(pool);
}

void sluice_pool_free(sluice_pool *pool) {
    if (!pool)
        return;
    sluice_block *rest = atomic_exchange_explicit(&pool->remote, REMOTE_CLOSED, memory_order_acq_rel);
    accept_list(pool, rest);
    int64_t held = (int64_t)pool->total - pool->free - pool->kernel + pool->views + pool->foreign;
    count_dead(pool, LIVE_BIAS - held);
}

static void notify_release(sluice_pool *pool) {
    if (!atomic_load(&pool->release_wanted) || !atomic_exchange(&pool->release_wanted, false))
        return;
    pthread_mutex_lock(&pool->observer_lock);
    if (pool->observer)
        pool->observer->released(pool->observer_context);
    pthread_mutex_unlock(&pool->observer_lock);
}

void pool_put_list(sluice_pool *pool, sluice_block *first, sluice_block *last, uint32_t count) {
    sluice_block *head = atomic_load_explicit(&pool->remote, memory_order_acquire);

    if (head != REMOTE_CLOSED && is_owner(pool)) {
        last->next = NULL;
        accept_list(pool, first);
        return;
    }
    /* Once the blocks are on the list they are the owner's, who may give the pool up: it must stay until then. */
    atomic_fetch_add_explicit(&pool->live, 1, memory_order_relaxed);
    do {
        if (head == REMOTE_CLOSED) {
            count_dead(pool, (int64_t)count + 1);
            return;
        }
        last->next = head;
    } while (!atomic_compare_exchange_weak(&pool->remote, &head, first));
    notify_release(pool);
    count_dead(pool, 1);
}

bool pool_want_release(sluice_pool *pool) {
    atomic_store(&pool->release_wanted, true);
    /* A block given back before the store above was not announced: look once more, in that order. */
    atomic_thread_fence(memory_order_seq_cst);
    if (pool_free_now(pool) == 0)
        return true;
    atomic_store(&pool->release_wanted, false);
    return false;
}

static uint32_t held_now(const sluice_pool *pool) {
    return pool->total - pool->free - pool->kernel;
}

sluice_block *pool_take(sluice_pool *pool) {
    if (!pool->free_list)
        drain_remote(pool);
    if (!pool->free_list && grow(pool) < 0)
        return NULL;
    sluice_block *block = pool->free_list;
    pool->free_list = block->next;
    pool->free--;
    block->next = NULL;
    block->length = block->beyond = 0;
    block->capacity = pool->block_size;
    block->state = BLOCK_HELD;
    atomic_store_explicit(&block->refs, 1, memory_order_relaxed);
    unpoison_memory(block->data, block->capacity);
    if (held_now(pool) > pool->peak_held)
        pool->peak_held = held_now(pool);
    return block;
}

void pool_to_kernel(sluice_pool *pool, sluice_block *block) {
    poison_memory(block->data, block->capacity);
    block->state = BLOCK_KERNEL;
    pool->kernel++;
}

void pool_from_kernel(sluice_pool *pool, sluice_block *block) {
    unpoison_memory(block->data, block->capacity);
    block->state = BLOCK_HELD;
    pool->kernel--;
    if (held_now(pool) > pool->peak_held)
        pool->peak_held = held_now(pool);
}

static int grow_views(sluice_pool *pool) {
    uint64_t most = (uint64_t)pool->max_blocks * VIEWS_PER_BLOCK;
    uint64_t count = pool->views_made ? pool->views_made : FIRST_VIEWS;
    if (pool->views_made > 0 && pool->views_made + count > most)
        count = most > pool->views_made ? most - pool->views_made : 0;
    if (count == 0)
        return -ENOBUFS;
    struct view_batch *batch = calloc(1, sizeof *batch + count * sizeof *batch->views);
    if (!batch)
        return -ENOMEM;
    batch->next = pool->view_batches;
    pool->view_batches = batch;
    for (uint64_t i = 0; i < count; i++) {
        batch->views[i].pool = pool;
        batch->views[i].next = pool->free_views;
        pool->free_views = &batch->views[i];
    }
    pool->views_made += (uint32_t)count;
    return 0;
}

/* A block without memory of its own, with one reference, that names @length bytes at @data. */
static int take_view(sluice_pool *pool, uint8_t *data, uint32_t length, sluice_block **ret_view) {
    if (!pool->free_views)
        drain_remote(pool);
    if (!pool->free_views) {
        int error = grow_views(pool);
        if (error)
            return error;
    }
    sluice_block *view = pool->free_views;
    pool->free_views = view->next;
    view->data = data;
    view->length = length;
    view->beyond = 0;
    view->capacity = length;
    view->next = NULL;
    view->state = BLOCK_HELD;
    atomic_store_explicit(&view->refs, 1, memory_order_relaxed);
    *ret_view = view;
    return 0;
}

int pool_view(sluice_pool *pool, sluice_block *block, uint32_t offset, uint32_t length, sluice_block **ret_view) {
    sluice_block *view;
    int error = take_view(pool, block->data + offset, length, &view);
    if (error)
        return error;
    pool->views++;
    view->kind = BLOCK_VIEW;
    view->parent = block_owner(block);
    view->slab = view->parent->slab;
    block_ref(view->parent);
    *ret_view = view;
    return 0;
}

int pool_foreign(sluice_pool *pool, const void *memory, uint32_t length, sluice_memory_released_fn *released,
                 void *user, sluice_block **ret_block) {
    sluice_block *block;
    int error = take_view(pool, (uint8_t *)memory, length, &block);
    if (error)
        return error;
    pool->foreign++;
    block->kind = BLOCK_FOREIGN;
    block->slab = 0;
    block->foreign.released = released;
    block->foreign.user = user;
    *ret_block = block;
    return 0;
}

/* In order, so that the block used last is the one on top of the free list. */
static void dead_list_add(dead_list *dead, sluice_block *block) {
    block->next = NULL;
    if (dead->last)
        dead->last->next = block;
    else
        dead->first = block;
    dead->last = block;
    dead->count++;
    dead->foreign += block->kind == BLOCK_FOREIGN;
}

void block_release_to(sluice_block *block, dead_list *dead) {
    if (!block_unref(block))
        return;
    sluice_block *parent = block->kind == BLOCK_VIEW ? block->parent : NULL;
    dead_list_add(dead, block);
    if (parent && block_unref(parent))
        dead_list_add(dead, parent);
}

/* While the blocks are still held, and with them the pool. */
static void tell_released(const dead_list *dead) {
    uint32_t left = dead->foreign;
    for (const sluice_block *block = dead->first; left > 0; block = block->next) {
        if (block->kind != BLOCK_FOREIGN)
            continue;
        if (block->foreign.released)
            block->foreign.released(block->data, block->length, block->foreign.user);
        left--;
    }
}

void dead_list_put(dead_list *dead, sluice_pool *pool) {
    if (dead->foreign > 0)
        tell_released(dead);
    if (dead->first)
        pool_put_list(pool, dead->first, dead->last, dead->count);
    *dead = (dead_list){0};
}

int sluice_block_get(sluice_pool *pool, sluice_block **ret_block) {
    sluice_block *block = pool_take(pool);
    if (!block)
        return pool->total < pool->max_blocks ? -ENOMEM : -ENOBUFS;
    *ret_block = block;
    return 0;
}

uint8_t *sluice_block_data(sluice_block *block) {
    return block->data;
}

uint32_t sluice_block_capacity(const sluice_block *block) {
    return block->capacity;
}

int sluice_block_set_length(sluice_block *block, uint32_t length) {
    if (length > block->capacity)
        return -EINVAL;
    block->length = length;
    return 0;
}

void sluice_block_release(sluice_block *block) {
    if (!block)
        return;
    dead_list dead = {0};
    sluice_pool *pool = block->pool;
    block_release_to(block, &dead);
    dead_list_put(&dead, pool);
}

uint32_t pool_free_now(sluice_pool *pool) {
    drain_remote(pool);
    return pool->free;
}

uint32_t sluice_pool_available(sluice_pool *pool) {
    /* Nothing is received into a pool that has been given up: no need to keep anything free. */
    if (is_closed(pool))
        return pool->max_blocks;
    return pool_free_now(pool) + pool->kernel + (pool->max_blocks - pool->total);
}

bool pool_is_pressed(sluice_pool *pool) {
    return sluice_pool_available(pool) < pool->max_blocks / 2;
}

void sluice_pool_get_stats(sluice_pool *pool, sluice_pool_stats *ret_stats) {
    drain_remote(pool);
    *ret_stats = (sluice_pool_stats){
        .block_size = pool->block_size,
        .max = pool->max_blocks,
        .total = pool->total,
        .free = pool->free,
        .kernel = pool->kernel,
        .held = held_now(pool),
        .peak_held = pool->peak_held,
        .reserve = pool->reserve,
        .views = pool->views,
        .foreign = pool->foreign,
        .slabs = pool->slab_count,
        .huge_slabs = pool->huge_slabs,
        .bytes_copied = atomic_load_explicit(&pool->bytes_copied, memory_order_relaxed),
    };
}

uint32_t pool_reserve(const sluice_pool *pool) {
    return pool->reserve;
}

uint32_t pool_block_size(const sluice_pool *pool) {
    return pool->block_size;
}

uint32_t pool_max(const sluice_pool *pool) {
    return pool->max_blocks;
}

uint32_t pool_slabs(const sluice_pool *pool) {
    return pool->slab_count;
}

uint32_t pool_max_slabs(const sluice_pool *pool) {
    return pool->max_slabs;
}

void pool_slab(const sluice_pool *pool, uint32_t index, struct iovec *ret_memory) {
    ret_memory->iov_base = pool->slabs[index].memory;
    ret_memory->iov_len = pool->slabs[index].size;
}

void pool_count_copied(sluice_pool *pool, size_t bytes) {
    atomic_fetch_add_explicit(&pool->bytes_copied, bytes, memory_order_relaxed);
}

int pool_observe(sluice_pool *pool, const pool_observer *observer, void *context) {
    int error = 0;
    pthread_mutex_lock(&pool->observer_lock);
    if (observer && pool->observer) {
        error = -EBUSY;
    } else {
        pool->observer = observer;
        pool->observer_context = context;
        atomic_store(&pool->release_wanted, false);
    }
    pthread_mutex_unlock(&pool->observer_lock);
    return error;
}
