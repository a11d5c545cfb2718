#include "daemon/relay/object_pool.h"

#include <stdlib.h>

enum {
    OBJECTS = 64, /* of a batch, or as many as there is room for */
    LINE = 64,    /* of the processor's cache: the first slot begins with one */
};

/* What precedes an object. */
union slot {
    struct object_slab *slab; /* while it is used */
    union slot *next;         /* while it is not: the next one that is not */
};

struct object_slab {
    LIST_ENTRY(object_slab) link;
    union slot *unused, *first;
    size_t used, made;
    /* behind it, from the next line on, the slots */
};

size_t object_pool_cost(const struct object_pool *batches) {
    return sizeof(union slot) + batches->size;
}

static size_t batch_bytes(const struct object_pool *batches, size_t objects) {
    return sizeof(struct object_slab) + LINE - 1 + objects * object_pool_cost(batches);
}

static struct object_slab *make(struct object_pool *batches, uint64_t most) {
    uint64_t fit = most > batch_bytes(batches, 0) ? (most - batch_bytes(batches, 0)) / object_pool_cost(batches) : 0;
    size_t count = fit < OBJECTS ? (size_t)fit : OBJECTS;
    struct object_slab *slab = count > 0 ? malloc(batch_bytes(batches, count)) : NULL;
    if (!slab)
        return NULL;
    uintptr_t behind = (uintptr_t)(slab + 1);
    slab->first = (union slot *)((char *)(slab + 1) + (LINE - behind % LINE) % LINE);
    slab->unused = NULL;
    slab->used = 0;
    slab->made = count;
    for (size_t i = count; i > 0; i--) {
        union slot *slot = (union slot *)((char *)slab->first + (i - 1) * object_pool_cost(batches));
        slot->next = slab->unused;
        slab->unused = slot;
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
        free(slab);
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
    union slot *slot = slab->unused;
    slab->unused = slot->next;
    slot->slab = slab;
    slab->used++;
    batches->used++;
    if (slab->used == slab->made) {
        LIST_REMOVE(slab, link);
        LIST_INSERT_HEAD(&batches->full, slab, link);
    }
    return slot + 1;
}

void object_pool_put(struct object_pool *batches, void *object) {
    union slot *slot = (union slot *)object - 1;
    struct object_slab *slab = slot->slab;
    if (slab->used == slab->made) {
        LIST_REMOVE(slab, link);
        LIST_INSERT_HEAD(&batches->usable, slab, link);
    }
    slot->next = slab->unused;
    slab->unused = slot;
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
        free(slab);
    }
}
