#include "daemon/relay/object_pool.h"

#include <stdlib.h>

enum {
    SLAB = 16384,   /* bytes of a batch, which begins with a multiple: an object leads to it */
    ALLOCATOR = 16, /* of these, before the memory: with them, slabs lie one behind the other */
    LINE = 64,      /* of the processor's cache */
    /* Slabs have their heads in different lines, which would else all compete for a few places of
     * the cache. */
    PLACES = 16,
};

/* What an object has in it while it is not used. */
struct unused {
    struct unused *next;
};

struct object_slab {
    LIST_ENTRY(object_slab) link;
    struct object_pool *pool;
    struct unused *unused;
    size_t used, made;
    /* behind it, from the next line on, the objects */
};

_Static_assert(sizeof(struct object_slab) <= LINE, "the head of a slab is one line");

static char *begin_of(const void *inside) {
    return (char *)((uintptr_t)inside & ~(uintptr_t)(SLAB - 1));
}

static struct object_slab *slab_of(const void *inside) {
    char *begin = begin_of(inside);
    return (struct object_slab *)(begin + (uintptr_t)begin / SLAB % PLACES * LINE);
}

size_t object_pool_cost(const struct object_pool *batches) {
    return batches->size;
}

struct object_pool *object_pool_of(const void *object) {
    return slab_of(object)->pool;
}

static size_t batch_bytes(const struct object_pool *batches, size_t objects) {
    return PLACES * LINE + objects * batches->size;
}

static struct object_slab *make(struct object_pool *batches, uint64_t most) {
    size_t bytes = most < SLAB - ALLOCATOR ? (size_t)most : SLAB - ALLOCATOR;
    size_t count = bytes > PLACES * LINE ? (bytes - PLACES * LINE) / batches->size : 0;
    void *memory;
    if (count == 0 || posix_memalign(&memory, SLAB, batch_bytes(batches, count)) != 0)
        return NULL;
    struct object_slab *slab = slab_of(memory);
    *slab = (struct object_slab){.pool = batches, .made = count};
    for (size_t i = count; i > 0; i--) {
        struct unused *unused = (struct unused *)((char *)slab + LINE + (i - 1) * batches->size);
        unused->next = slab->unused;
        slab->unused = unused;
    }
    batches->bytes += batch_bytes(batches, count);
    return slab;
}

static struct object_slab *take_spare(struct object_pool *batches) {
    struct object_slab *slab = LIST_FIRST(&batches->spare);
    if (slab) {
        LIST_REMOVE(slab, link);
        batches->spare_bytes -= batch_bytes(batches, slab->made);
    }
    return slab;
}

static void put_spare(struct object_pool *batches, struct object_slab *slab) {
    uint64_t bytes = batch_bytes(batches, slab->made);
    if (!LIST_EMPTY(&batches->spare) && batches->spare_bytes + bytes > batches->most_spare) {
        batches->bytes -= bytes;
        free(begin_of(slab));
        return;
    }
    batches->spare_bytes += bytes;
    LIST_INSERT_HEAD(&batches->spare, slab, link);
}

void *object_pool_take(struct object_pool *batches, uint64_t most) {
    struct object_slab *slab = LIST_FIRST(&batches->usable);
    if (!slab) {
        slab = take_spare(batches);
        if (!slab)
            slab = make(batches, most);
        if (!slab)
            return NULL;
        LIST_INSERT_HEAD(&batches->usable, slab, link);
    }
    struct unused *unused = slab->unused;
    slab->unused = unused->next;
    /* Of a group that has just ended: it has left the cache. */
    __builtin_prefetch(slab->unused, 1);
    slab->used++;
    batches->used++;
    if (slab->used == slab->made)
        LIST_REMOVE(slab, link);
    return unused;
}

void object_pool_put(void *object) {
    struct unused *unused = object;
    struct object_slab *slab = slab_of(object);
    struct object_pool *batches = slab->pool;
    if (slab->used == slab->made)
        LIST_INSERT_HEAD(&batches->usable, slab, link);
    unused->next = slab->unused;
    slab->unused = unused;
    slab->used--;
    batches->used--;
    if (slab->used > 0)
        return;
    LIST_REMOVE(slab, link);
    put_spare(batches, slab);
}

void object_pool_clear(struct object_pool *batches) {
    for (struct object_slab *slab; (slab = take_spare(batches));) {
        batches->bytes -= batch_bytes(batches, slab->made);
        free(begin_of(slab));
    }
}
