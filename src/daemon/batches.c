#include "daemon/batches.h"

#include <stdlib.h>

enum { OBJECTS = 64 }; /* of a batch, or as many as there is room for */

/* What precedes an object. */
union slot {
    struct batch *batch; /* while it is used */
    union slot *next;    /* while it is not: the next one that is not */
};

struct batch {
    struct batch *next, *prev; /* in its list */
    union slot *unused;
    size_t used, made;
    union slot first; /* behind it the object, and then the others */
};

size_t batches_cost(const struct batches *batches) {
    return sizeof(union slot) + batches->size;
}

static size_t batch_bytes(const struct batches *batches, size_t objects) {
    return offsetof(struct batch, first) + objects * batches_cost(batches);
}

static void insert(struct batch **list, struct batch *batch) {
    batch->prev = NULL;
    batch->next = *list;
    if (batch->next)
        batch->next->prev = batch;
    *list = batch;
}

static void take_out(struct batch **list, struct batch *batch) {
    if (batch->prev)
        batch->prev->next = batch->next;
    else
        *list = batch->next;
    if (batch->next)
        batch->next->prev = batch->prev;
}

static struct batch *make(struct batches *batches, uint64_t most) {
    uint64_t fit = most > batch_bytes(batches, 0) ? (most - batch_bytes(batches, 0)) / batches_cost(batches) : 0;
    size_t count = fit < OBJECTS ? (size_t)fit : OBJECTS;
    struct batch *batch = count > 0 ? malloc(batch_bytes(batches, count)) : NULL;
    if (!batch)
        return NULL;
    batch->unused = NULL;
    batch->used = 0;
    batch->made = count;
    for (size_t i = count; i > 0; i--) {
        union slot *slot = (union slot *)((char *)&batch->first + (i - 1) * batches_cost(batches));
        slot->next = batch->unused;
        batch->unused = slot;
    }
    batches->bytes += batch_bytes(batches, count);
    return batch;
}

static struct batch *take_spare(struct batches *batches) {
    struct batch *batch = batches->spare;
    if (batch) {
        take_out(&batches->spare, batch);
        batches->spare_bytes -= batch_bytes(batches, batch->made);
    }
    return batch;
}

static void put_spare(struct batches *batches, struct batch *batch) {
    uint64_t bytes = batch_bytes(batches, batch->made);
    if (batches->spare && batches->spare_bytes + bytes > batches->most_spare) {
        batches->bytes -= bytes;
        free(batch);
        return;
    }
    batches->spare_bytes += bytes;
    insert(&batches->spare, batch);
}

void *batches_take(struct batches *batches, uint64_t most) {
    struct batch *batch = batches->usable;
    if (!batch) {
        batch = take_spare(batches);
        if (!batch)
            batch = make(batches, most);
        if (!batch)
            return NULL;
        insert(&batches->usable, batch);
    }
    union slot *slot = batch->unused;
    batch->unused = slot->next;
    slot->batch = batch;
    batch->used++;
    batches->used++;
    if (batch->used == batch->made) {
        take_out(&batches->usable, batch);
        insert(&batches->full, batch);
    }
    return slot + 1;
}

void batches_put(struct batches *batches, void *object) {
    union slot *slot = (union slot *)object - 1;
    struct batch *batch = slot->batch;
    if (batch->used == batch->made) {
        take_out(&batches->full, batch);
        insert(&batches->usable, batch);
    }
    slot->next = batch->unused;
    batch->unused = slot;
    batch->used--;
    batches->used--;
    if (batch->used > 0)
        return;
    take_out(&batches->usable, batch);
    put_spare(batches, batch);
}

void batches_clear(struct batches *batches) {
    for (struct batch *batch; (batch = take_spare(batches));) {
        batches->bytes -= batch_bytes(batches, batch->made);
        free(batch);
    }
}
