#include "memory/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "abi/sized.h"
#include "memory/poison.h"
#include "memory/slab_memory.h"

enum {
    DEFAULT_BLOCK_SIZE = 4096, /* see README.md */
    DEFAULT_SLAB_BLOCKS = 1024,
    DEFAULT_MAX_BLOCKS = 16384,
    MIN_BLOCK_SIZE = 512,
    MAX_BLOCK_SIZE = 1 << 20,
    MIN_SLAB_BLOCKS = 8,
    MAX_SLAB_BLOCKS = 1 << 16,
    MAX_BLOCKS = 1 << 22,
    RESERVE_SHARE = 16,
    VIEWS_RESERVE = 8, /* consumers leave 1 of this many views free */
    FIRST_VIEWS = 256, /* made at once; then as many again as there are */
    AHEAD_SHARE = 8,   /* of a slab is free, or less: the next one is due soon */
    /* unless less than one part in so many is held: what the kernel has alone is no growth */
    AHEAD_HELD = 4,
    AHEAD_LEAST = 1 << 20, /* bytes of a slab: smaller ones are touched in no time */
    /* so many chains, times the bytes of a pool_core, before one pool's numbers reach another's */
    GENERATION_BITS = 16,
    LINE = 64,          /* of the processor's cache */
    SMALL_BLOCK = 4096, /* smaller ones hold headers, few at a time: no huge page for them */
};

/* The remote list of a pool that its owner has given up: no list at all. */
#define REMOTE_CLOSED ((sluice_block *)(uintptr_t)1)

/* More than any pool can hold: keeps the count of a closing pool from reaching zero too early. */
#define LIVE_BIAS (INT64_C(1) << 40)

struct slab {
    uint8_t *memory;
    size_t size;
    size_t told; /* bytes of it, from its front, that the observer has been told of */
    sluice_block *blocks;
    uint32_t count;    /* blocks */
    uint32_t used;     /* of them not in the free list */
    sluice_pool *pool; /* the class that it is cut for */
    bool huge;
};

struct view_batch {
    struct view_batch *next;
    sluice_block views[];
};

typedef struct pool_core pool_core;

/* The blocks of one size: a class. The owner's, no locks. */
struct sluice_pool {
    pool_core *core;
    /* last in, first out: the block used last is the one still in the cache */
    sluice_block *free_list;
    uint32_t block_size;
    uint32_t shift; /* its logarithm */
    uint32_t free;
    uint32_t kernel;
    uint32_t total;
    uint32_t peak_held;
    uint32_t slab_count; /* 0: the class has never been requested */
    uint32_t idle_slabs; /* of which no block is used */
    uint32_t huge_slabs;
    uint32_t low;       /* with fewer free blocks, untouched memory will be used soon */
    struct slab *begun; /* its last slab, of which the observer is to be told more; or NULL */
};

/* What the classes of a pool share. */
struct pool_core {
    /* The owner's, no locks: */
    sluice_pool classes[POOL_CLASSES]; /* the first is the pool that the user has made */
    uint32_t class_count;
    uint32_t classes_used;
    uint64_t left;            /* bytes of the budget that are in no slab */
    sluice_block *free_views; /* blocks without memory: for views and foreign memory */
    uint32_t views;
    uint32_t foreign;
    uint32_t views_made;
    uint32_t slab_count;
    /* slab_count of them; the one behind those has memory when that is mapped ahead */
    struct slab *slabs;
    bool looks_ahead; /* the next slab has none, and may get some */
    bool refused;     /* the system had no memory for the next slab */
    struct view_batch *view_batches;
    uint64_t generations; /* the chains' */
    struct slice_rooms rooms;

    /* Set once: */
    uint64_t max_bytes;
    uint64_t reserve_bytes;
    uint64_t slab_bytes;
    uint32_t max_slabs;
    uint32_t max_views;
    bool huge_pages;

    /* Any thread's: */
    _Atomic(pthread_t) owner;
    _Atomic(sluice_block *) remote; /* given back by other threads; the owner takes all at once */
    /* what keeps the pool: blocks held once it is closed, releases under way */
    _Atomic int64_t live;
    _Atomic uint64_t bytes_copied;
    _Atomic bool release_wanted;

    pthread_mutex_t observer_lock;
    const pool_observer *observer;
    void *observer_context;
};

static bool is_owner(const pool_core *core) {
    return pthread_equal(atomic_load_explicit(&core->owner, memory_order_relaxed), pthread_self());
}

static uint32_t held_now(const sluice_pool *pool) {
    return pool->total - pool->free - pool->kernel;
}

static uint32_t or_default(uint32_t value, uint32_t fallback) {
    return value ? value : fallback;
}

static bool is_block_size(uint32_t size) {
    return size >= MIN_BLOCK_SIZE && size <= MAX_BLOCK_SIZE && (size & (size - 1)) == 0;
}

/* Slabs are of one size, so that they can go from class to class: each must be whole blocks of
 * any. */
static bool divides_slabs(const pool_core *core, uint32_t block_size) {
    return core->slab_bytes % block_size == 0 && core->slab_bytes / block_size <= MAX_SLAB_BLOCKS;
}

static sluice_pool *find_class(pool_core *core, uint32_t block_size) {
    for (uint32_t i = 0; i < core->class_count; i++)
        if (core->classes[i].block_size == block_size)
            return &core->classes[i];
    return NULL;
}

static void add_class(pool_core *core, uint32_t block_size) {
    if (find_class(core, block_size))
        return;
    sluice_pool *class = &core->classes[core->class_count++];
    class->core = core;
    class->block_size = block_size;
    while (UINT32_C(1) << class->shift < block_size)
        class->shift++;
}

static int set_classes(pool_core *core, const sluice_pool_options *options) {
    static const uint32_t usual[] = {4 << 10, 16 << 10, 64 << 10};
    bool chosen = false;
    for (uint32_t i = 0; i < SLUICE_POOL_CLASSES; i++) {
        uint32_t size = options->class_sizes[i];
        if (size == 0)
            continue;
        if (!is_block_size(size) || !divides_slabs(core, size))
            return -EINVAL;
        add_class(core, size);
        chosen = true;
    }
    for (size_t i = 0; i < sizeof usual / sizeof *usual && !chosen; i++)
        if (divides_slabs(core, usual[i]))
            add_class(core, usual[i]);
    return 0;
}

static int set_options(pool_core *core, const sluice_pool_options *options) {
    uint32_t block_size = or_default(options->block_size, DEFAULT_BLOCK_SIZE);
    uint32_t max_blocks = or_default(options->max_blocks, DEFAULT_MAX_BLOCKS);
    uint32_t slab_blocks = or_default(options->slab_blocks, DEFAULT_SLAB_BLOCKS);
    if (!options->slab_blocks && slab_blocks > max_blocks)
        slab_blocks = max_blocks;
    uint32_t reserve = or_default(options->reserve_blocks, max_blocks / RESERVE_SHARE);

    if (!is_block_size(block_size) || slab_blocks < MIN_SLAB_BLOCKS || slab_blocks > MAX_SLAB_BLOCKS)
        return -EINVAL;
    if (max_blocks < slab_blocks || max_blocks > MAX_BLOCKS || reserve >= max_blocks)
        return -EINVAL;
    core->huge_pages = !options->no_huge_pages;
    core->slab_bytes = (uint64_t)slab_blocks * block_size;
    core->left = core->max_bytes = (uint64_t)max_blocks * block_size;
    core->reserve_bytes = (uint64_t)reserve * block_size;
    core->max_views = max_blocks * SLUICE_POOL_VIEWS_PER_BLOCK;
    core->max_slabs = (max_blocks + slab_blocks - 1) / slab_blocks;
    if (core->max_slabs > UINT16_MAX)
        return -EINVAL;
    add_class(core, block_size);
    return set_classes(core, options);
}

static void advise(const sluice_pool *pool, const struct slab *slab) {
    if (pool->core->huge_pages)
        slab_memory_advise(slab->memory, slab->size, pool->block_size >= SMALL_BLOCK);
}

static void push_free(sluice_pool *pool, sluice_block *block) {
    struct slab *slab = &pool->core->slabs[block->slab];
    poison_memory(block->data, block->capacity);
    block->state = BLOCK_FREE;
    block->next = pool->free_list;
    pool->free_list = block;
    pool->free++;
    if (--slab->used == 0)
        pool->idle_slabs++;
}

/* Makes the slab's blocks the class's, and free. */
static void cut_slab(sluice_pool *pool, uint32_t index, sluice_block *blocks) {
    struct slab *slab = &pool->core->slabs[index];
    slab->blocks = blocks;
    slab->count = slab->used = (uint32_t)(slab->size >> pool->shift);
    slab->pool = pool;
    advise(pool, slab);
    pool->slab_count++;
    pool->huge_slabs += slab->huge;
    pool->total += slab->count;
    /* From the back, so that the free list hands out ascending addresses. */
    for (uint32_t i = slab->count; i-- > 0;) {
        sluice_block *block = &blocks[i];
        block->data = slab->memory + ((size_t)i << pool->shift);
        block->capacity = pool->block_size;
        block->kind = BLOCK_POOLED;
        block->slab = (uint16_t)index;
        block->pool = pool;
        push_free(pool, block);
    }
}

/* Memory for the next slab, where it has none yet. It is counted as used when the slab is. */
static int map_next(pool_core *core) {
    struct slab *slab = &core->slabs[core->slab_count];
    if (!slab->memory) {
        slab->size = core->left < core->slab_bytes ? core->left : core->slab_bytes;
        slab->memory = slab_memory_map(slab->size, core->huge_pages, &slab->huge);
    }
    core->refused = !slab->memory;
    return core->refused ? -ENOMEM : 0;
}

/*
 * The unannounced part of its last slab does not count as free; if there is nothing to announce,
 * the limit is 0.
 */
static void set_low(pool_core *core) {
    for (uint32_t i = 0; i < core->class_count; i++) {
        sluice_pool *class = &core->classes[i];
        uint64_t low = class->begun || core->looks_ahead ? core->slab_bytes / AHEAD_SHARE : 0;
        if (class->begun)
            low += class->begun->size - class->begun->told;
        class->low = (uint32_t)(low >> class->shift);
    }
}

/* As much at a time as there should be, in whole huge pages. */
static size_t piece_ahead(const pool_core *core, const struct slab *slab) {
    size_t share = core->slab_bytes / AHEAD_SHARE, left = slab->size - slab->told;
    size_t piece = (share + SLAB_HUGE_PAGE - 1) / SLAB_HUGE_PAGE * SLAB_HUGE_PAGE;
    return piece < left ? piece : left;
}

/*
 * Announces memory that will be used soon, so that the observer can populate it: a piece of the
 * class's last slab, or of the slab after all others, which is mapped for that.
 */
static __attribute__((noinline)) void look_ahead(sluice_pool *pool) {
    pool_core *core = pool->core;
    struct slab *slab = pool->begun;
    if (held_now(pool) < (core->slab_bytes >> pool->shift) / AHEAD_HELD || !core->observer ||
        !core->observer->slab_ahead)
        return;
    if (!slab) {
        core->looks_ahead = false;
        slab = map_next(core) == 0 ? &core->slabs[core->slab_count] : NULL;
    }
    struct iovec memory = {0};
    if (slab) {
        memory = (struct iovec){slab->memory + slab->told, piece_ahead(core, slab)};
        advise(pool, slab);
        slab->told += memory.iov_len;
    }
    if (pool->begun && slab->told == slab->size)
        pool->begun = NULL;
    set_low(core);
    if (slab)
        core->observer->slab_ahead(core->observer_context, &memory);
}

/*
 * Descriptors: each in a cache line of its own, if it fits in one. Releasing a block that was held
 * for long fetches its line.
 */
static sluice_block *new_blocks(size_t count) {
    void *blocks;
    if (posix_memalign(&blocks, LINE, count * sizeof(sluice_block)) != 0)
        return NULL;
    return memset(blocks, 0, count * sizeof(sluice_block));
}

/* Adds a slab of unused memory. If it was not announced, it is touched as it is used. */
static int add_slab(sluice_pool *pool) {
    pool_core *core = pool->core;
    int error = map_next(core);
    if (error)
        return error;
    struct slab *slab = &core->slabs[core->slab_count];
    sluice_block *blocks = new_blocks(slab->size >> pool->shift);
    core->refused = !blocks;
    if (!blocks)
        return -ENOMEM;
    core->left -= slab->size;
    core->looks_ahead = core->left > 0 && core->slab_bytes >= AHEAD_LEAST;
    pool->begun = slab->told > 0 && slab->told < slab->size ? slab : NULL;
    cut_slab(pool, core->slab_count++, blocks);
    set_low(core);
    return 0;
}

/* Of its class's slabs, one that another class may have. The last may be smaller than the others,
 * and stays. */
static bool is_movable(const pool_core *core, const struct slab *slab) {
    return slab->used == 0 && slab->size == core->slab_bytes;
}

/* Slabs that the class would give to another: it keeps one, used or not. */
static uint32_t spare_slabs(const sluice_pool *pool) {
    const struct slab *last = &pool->core->slabs[pool->core->max_slabs - 1];
    uint32_t spare = pool->idle_slabs;
    if (spare > 0 && last->pool == pool && last->used == 0 && !is_movable(pool->core, last))
        spare--;
    return spare < pool->slab_count ? spare : pool->slab_count - 1;
}

/* Takes a slab away from the class that has the most to spare. */
static int adopt_slab(sluice_pool *pool) {
    pool_core *core = pool->core;
    sluice_pool *giver = NULL;
    for (uint32_t i = 0; i < core->class_count; i++) {
        sluice_pool *class = &core->classes[i];
        if (class != pool && class->slab_count > 0 && spare_slabs(class) > (giver ? spare_slabs(giver) : 0))
            giver = class;
    }
    if (!giver)
        return -ENOBUFS;
    uint32_t index = core->slab_count - 1;
    while (core->slabs[index].pool != giver || !is_movable(core, &core->slabs[index]))
        index--;
    struct slab *slab = &core->slabs[index];
    sluice_block *blocks = new_blocks(slab->size >> pool->shift);
    if (!blocks)
        return -ENOMEM;

    sluice_block **link = &giver->free_list;
    for (uint32_t left = slab->count; left > 0;) {
        if ((*link)->slab == index) {
            *link = (*link)->next;
            left--;
        } else {
            link = &(*link)->next;
        }
    }
    giver->free -= slab->count;
    giver->total -= slab->count;
    giver->slab_count--;
    giver->idle_slabs--;
    giver->huge_slabs -= slab->huge;
    free(slab->blocks);
    if (giver->begun == slab)
        giver->begun = NULL;
    cut_slab(pool, index, blocks);
    set_low(core);
    return 0;
}

static uint64_t spare_of_others(const sluice_pool *pool) {
    const pool_core *core = pool->core;
    uint64_t slabs = 0;
    for (uint32_t i = 0; i < core->class_count; i++) {
        const sluice_pool *class = &core->classes[i];
        if (class != pool && class->slab_count > 0)
            slabs += spare_slabs(class);
    }
    return slabs * core->slab_bytes;
}

/* Blocks that the class could get beyond those that it has: none of slabs that the system has no
 * memory for. */
static inline uint32_t growth(const sluice_pool *pool) {
    uint64_t bytes = pool->core->refused ? 0 : pool->core->left;
    return (uint32_t)((bytes + (pool_has_one_class(pool) ? 0 : spare_of_others(pool))) >> pool->shift);
}

/* By memory that is left, or else by what another class does not use: also where the system has no
 * memory. */
static int grow(sluice_pool *pool) {
    int error = pool->core->left >= pool->block_size ? add_slab(pool) : -ENOBUFS;
    if (!error || pool->core->classes_used == 1)
        return error;
    int adopted = adopt_slab(pool);
    return adopted == -ENOBUFS ? error : adopted;
}

static void destroy(pool_core *core) {
    for (uint32_t i = 0; i < core->max_slabs && core->slabs[i].memory; i++) {
        unpoison_memory(core->slabs[i].memory, core->slabs[i].size);
        slab_memory_unmap(core->slabs[i].memory, core->slabs[i].size);
        free(core->slabs[i].blocks);
    }
    while (core->view_batches) {
        struct view_batch *batch = core->view_batches;
        core->view_batches = batch->next;
        free(batch);
    }
    pthread_mutex_destroy(&core->observer_lock);
    free(core->slabs);
    free(core);
}

int sluice_pool_new(const sluice_pool_options *options, sluice_pool **ret_pool) {
    sluice_pool_options o;
    int error = SIZED_READ(&o, options);
    if (error)
        return error;
    pool_core *core = calloc(1, sizeof *core);
    if (!core)
        return -ENOMEM;
    error = set_options(core, &o);
    if (!error) {
        core->slabs = calloc(core->max_slabs, sizeof *core->slabs);
        error = core->slabs ? 0 : -ENOMEM;
    }
    if (!error)
        error = -pthread_mutex_init(&core->observer_lock, NULL);
    /* Pools that exist at once differ in their addresses, and so do the numbers of their chains. */
    core->generations = (uint64_t)(uintptr_t)core << GENERATION_BITS;
    if (error) {
        free(core->slabs);
        free(core);
        return error;
    }
    atomic_init(&core->live, LIVE_BIAS);
    pool_bind(core->classes);
    sluice_pool *pool;
    error = sluice_pool_class(core->classes, 0, &pool);
    if (error) {
        destroy(core);
        return error;
    }
    *ret_pool = pool;
    return 0;
}

void pool_bind(sluice_pool *pool) {
    atomic_store_explicit(&pool->core->owner, pthread_self(), memory_order_relaxed);
}

/* Takes a list of given-back blocks and views into the owner's lists. */
static void accept_list(pool_core *core, sluice_block *block) {
    while (block) {
        sluice_block *next = block->next;
        if (block->kind == BLOCK_POOLED) {
            push_free(block->pool, block);
        } else {
            core->views -= block->kind == BLOCK_VIEW;
            core->foreign -= block->kind == BLOCK_FOREIGN;
            block->next = core->free_views;
            core->free_views = block;
        }
        block = next;
    }
}

static bool is_closed(const pool_core *core) {
    return atomic_load_explicit(&core->remote, memory_order_relaxed) == REMOTE_CLOSED;
}

static inline void drain_remote(pool_core *core) {
    if (atomic_load_explicit(&core->remote, memory_order_relaxed) && !is_closed(core))
        accept_list(core, atomic_exchange_explicit(&core->remote, NULL, memory_order_acquire));
}

int sluice_pool_class(sluice_pool *pool, uint32_t block_size, sluice_pool **ret_class) {
    pool_core *core = pool->core;
    sluice_pool *class = block_size == 0 ? core->classes : find_class(core, block_size);
    if (!class)
        return -EINVAL;
    if (class->slab_count == 0) {
        /* The first slab is the class's for good: what it has at least, however hungry the others
         * are. */
        core->classes_used++;
        drain_remote(core);
        int error = grow(class);
        if (error) {
            core->classes_used--;
            return error;
        }
    }
    *ret_class = class;
    return 0;
}

/*
 * A closed pool's blocks only need counting: the memory goes when all have come home, and no
 * release is under way any more.
 */
static void count_dead(pool_core *core, int64_t dead) {
    if (atomic_fetch_sub_explicit(&core->live, dead, memory_order_acq_rel) == dead)
        destroy(core);
}

void sluice_pool_free(sluice_pool *pool) {
    /* The other classes go with the first. */
    if (!pool || pool != pool->core->classes)
        return;
    pool_core *core = pool->core;
    slice_rooms_clear(&core->rooms);
    sluice_block *rest = atomic_exchange_explicit(&core->remote, REMOTE_CLOSED, memory_order_acq_rel);
    accept_list(core, rest);
    int64_t held = (int64_t)core->views + core->foreign;
    for (uint32_t i = 0; i < core->class_count; i++)
        held += held_now(&core->classes[i]);
    count_dead(core, LIVE_BIAS - held);
}

static void notify_release(pool_core *core) {
    if (!atomic_load(&core->release_wanted) || !atomic_exchange(&core->release_wanted, false))
        return;
    pthread_mutex_lock(&core->observer_lock);
    if (core->observer)
        core->observer->released(core->observer_context);
    pthread_mutex_unlock(&core->observer_lock);
}

void pool_put_list(sluice_pool *pool, sluice_block *first, sluice_block *last, uint32_t count) {
    pool_core *core = pool->core;
    sluice_block *head = atomic_load_explicit(&core->remote, memory_order_acquire);

    if (head != REMOTE_CLOSED && is_owner(core)) {
        last->next = NULL;
        accept_list(core, first);
        return;
    }
    /*
     * Once the blocks are on the list the owner may take them and free the pool: it must stay until
     * then.
     */
    atomic_fetch_add_explicit(&core->live, 1, memory_order_relaxed);
    do {
        if (head == REMOTE_CLOSED) {
            count_dead(core, (int64_t)count + 1);
            return;
        }
        last->next = head;
    } while (!atomic_compare_exchange_weak(&core->remote, &head, first));
    notify_release(core);
    count_dead(core, 1);
}

void pool_ask_again(sluice_pool *pool) {
    if (pool->core->refused)
        (void)map_next(pool->core);
}

bool pool_want_release(sluice_pool *pool) {
    pool_core *core = pool->core;
    atomic_store(&core->release_wanted, true);
    /* A block given back before the store above was not announced: look once more, in that
     * order. */
    atomic_thread_fence(memory_order_seq_cst);
    /* A block of another class helps where it was the last of its slab that was used. */
    return !pool_can_take(pool);
}

bool pool_can_take(sluice_pool *pool) {
    if (!pool->free_list)
        drain_remote(pool->core);
    return pool->free_list || grow(pool) == 0;
}

sluice_block *pool_take(sluice_pool *pool) {
    if (!pool_can_take(pool))
        return NULL;
    sluice_block *block = pool->free_list;
    pool->free_list = block->next;
    __builtin_prefetch(pool->free_list, 1); /* among many streams it has left the cache */
    pool->free--;
    if (pool->core->slabs[block->slab].used++ == 0)
        pool->idle_slabs--;
    block->next = NULL;
    block->length = block->beyond = 0;
    block->capacity = pool->block_size;
    block->state = BLOCK_HELD;
    atomic_store_explicit(&block->refs, 1, memory_order_relaxed);
    empty_memory(block->data, block->capacity);
    if (held_now(pool) > pool->peak_held)
        pool->peak_held = held_now(pool);
    if (pool->free < pool->low)
        look_ahead(pool);
    return block;
}

void pool_to_kernel(sluice_pool *pool, sluice_block *block) {
    poison_memory(block->data, block->capacity);
    block->state = BLOCK_KERNEL;
    pool->kernel++;
}

void pool_from_kernel(sluice_pool *pool, sluice_block *block) {
    empty_memory(block->data, block->capacity);
    block->state = BLOCK_HELD;
    pool->kernel--;
    if (held_now(pool) > pool->peak_held)
        pool->peak_held = held_now(pool);
}

static int grow_views(pool_core *core) {
    uint64_t count = core->views_made ? core->views_made : FIRST_VIEWS;
    if (core->views_made > 0 && core->views_made + count > core->max_views)
        count = core->max_views > core->views_made ? core->max_views - core->views_made : 0;
    if (count == 0)
        return -ENOBUFS;
    struct view_batch *batch = calloc(1, sizeof *batch + count * sizeof *batch->views);
    if (!batch)
        return -ENOMEM;
    batch->next = core->view_batches;
    core->view_batches = batch;
    for (uint64_t i = 0; i < count; i++) {
        batch->views[i].pool = core->classes;
        batch->views[i].next = core->free_views;
        core->free_views = &batch->views[i];
    }
    core->views_made += (uint32_t)count;
    return 0;
}

/* A block without memory of its own, with one reference, that names @length bytes at @data. */
static int take_view(pool_core *core, uint8_t *data, uint32_t length, sluice_block **ret_view) {
    if (!core->free_views)
        drain_remote(core);
    if (!core->free_views) {
        int error = grow_views(core);
        if (error)
            return error;
    }
    sluice_block *view = core->free_views;
    core->free_views = view->next;
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
    int error = take_view(pool->core, block->data + offset, length, &view);
    if (error)
        return error;
    pool->core->views++;
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
    int error = take_view(pool->core, (uint8_t *)memory, length, &block);
    if (error)
        return error;
    pool->core->foreign++;
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
    if (!dead->first)
        return;
    if (dead->foreign > 0)
        tell_released(dead);
    pool_put_list(pool, dead->first, dead->last, dead->count);
    *dead = (dead_list){0};
}

int sluice_block_get(sluice_pool *pool, sluice_block **ret_block) {
    sluice_block *block = pool_take(pool);
    if (!block)
        return pool->core->left >= pool->block_size || growth(pool) > 0 ? -ENOMEM : -ENOBUFS;
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
    drain_remote(pool->core);
    return pool->free;
}

uint32_t pool_reach(const sluice_pool *pool) {
    return pool->total + growth(pool);
}

uint32_t sluice_pool_available(sluice_pool *pool) {
    /* Nothing is received into a pool that has been given up: no need to keep anything free. */
    if (is_closed(pool->core))
        return pool_max(pool);
    drain_remote(pool->core);
    return pool_reach(pool) - held_now(pool);
}

bool pool_is_pressed(sluice_pool *pool) {
    uint32_t available = sluice_pool_available(pool);
    return available < (available + held_now(pool)) / 2;
}

static uint64_t bytes_mapped(const pool_core *core) {
    const struct slab *next = core->left > 0 ? &core->slabs[core->slab_count] : NULL;
    return core->max_bytes - core->left + (next && next->memory ? next->size : 0);
}

int sluice_pool_get_stats(sluice_pool *pool, sluice_pool_stats *ret_stats) {
    pool_core *core = pool->core;
    drain_remote(core);
    sluice_pool_stats stats = {
        .block_size = pool->block_size,
        .max = pool_max(pool),
        .total = pool->total,
        .free = pool->free,
        .kernel = pool->kernel,
        .held = held_now(pool),
        .peak_held = pool->peak_held,
        .reserve = pool_reserve(pool),
        .views = core->views,
        .foreign = core->foreign,
        .slabs = pool->slab_count,
        .huge_slabs = pool->huge_slabs,
        .bytes_max = core->max_bytes,
        .bytes_mapped = bytes_mapped(core),
        .bytes_copied = atomic_load_explicit(&core->bytes_copied, memory_order_relaxed),
    };
    for (uint32_t i = 0; i < core->class_count; i++)
        stats.bytes_held += (uint64_t)held_now(&core->classes[i]) << core->classes[i].shift;
    return SIZED_WRITE(ret_stats, &stats);
}

struct slice_rooms *pool_slice_rooms(sluice_pool *pool) {
    return &pool->core->rooms;
}

bool pool_has_one_class(const sluice_pool *pool) {
    return pool->core->classes_used == 1;
}

/* A part of what the class can have now: neither another's hunger nor the system's must make it all
 * that there is. */
uint32_t pool_reserve(const sluice_pool *pool) {
    uint64_t reserve = pool->core->reserve_bytes >> pool->shift;
    if (!pool_has_one_class(pool) || pool->core->refused)
        reserve = reserve * pool_reach(pool) / pool_max(pool);
    return (uint32_t)reserve;
}

uint32_t pool_bytes_per_view(const sluice_pool *pool) {
    return pool->core->classes[0].block_size / SLUICE_POOL_VIEWS_PER_BLOCK;
}

bool pool_is_short_of_views(sluice_pool *pool) {
    pool_core *core = pool->core;
    uint32_t most = core->max_views - core->max_views / VIEWS_RESERVE;
    if (core->views + core->foreign < most || is_closed(core))
        return false;
    drain_remote(core);
    return core->views + core->foreign >= most;
}

uint32_t pool_block_size(const sluice_pool *pool) {
    return pool->block_size;
}

uint32_t pool_class(const sluice_pool *pool) {
    return (uint32_t)(pool - pool->core->classes);
}

uint64_t pool_next_generation(sluice_pool *pool) {
    return ++pool->core->generations;
}

bool pool_is_one(const sluice_pool *pool, const sluice_pool *other) {
    return pool->core == other->core;
}

uint32_t pool_max(const sluice_pool *pool) {
    return (uint32_t)(pool->core->max_bytes >> pool->shift);
}

uint32_t pool_max_slabs(const sluice_pool *pool) {
    return pool->core->max_slabs;
}

void pool_slab(const sluice_pool *pool, uint32_t index, struct iovec *ret_memory) {
    ret_memory->iov_base = pool->core->slabs[index].memory;
    ret_memory->iov_len = pool->core->slabs[index].size;
}

void pool_count_copied(sluice_pool *pool, size_t bytes) {
    atomic_fetch_add_explicit(&pool->core->bytes_copied, bytes, memory_order_relaxed);
}

int pool_observe(sluice_pool *pool, const pool_observer *observer, void *context) {
    pool_core *core = pool->core;
    int error = 0;
    pthread_mutex_lock(&core->observer_lock);
    if (observer && core->observer) {
        error = -EBUSY;
    } else {
        core->observer = observer;
        core->observer_context = context;
        atomic_store(&core->release_wanted, false);
    }
    pthread_mutex_unlock(&core->observer_lock);
    return error;
}
