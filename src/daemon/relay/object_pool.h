/*
 * Memory for many objects of one size: allocated in batches of some dozens, and freed when all
 * objects of a batch are unused, except for a few batches. So memory that one purpose no longer
 * needs can serve another, and objects in constant use are not allocated each time. One thread's.
 */
#ifndef SLUICED_OBJECT_POOL_H
#define SLUICED_OBJECT_POOL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct object_pool {
    /* of an object, bytes; a multiple of a pointer's. Of a cache line's: objects begin with one */
    size_t size;
    /* batches with used and unused objects; those with used ones alone are in no list */
    LIST_HEAD(object_slabs, object_slab) usable;
    /* with unused ones alone: of most_spare bytes, or one */
    struct object_slabs spare;
    size_t used;          /* objects */
    uint64_t bytes;       /* of memory, used or not */
    uint64_t spare_bytes; /* of these, in spare batches */
    uint64_t most_spare;  /* that are not given back */
};

/* Bytes of memory that one object takes. */
size_t object_pool_cost(const struct object_pool *batches);

/* Where the object is from. */
struct object_pool *object_pool_of(const void *object);

/* An object, with anything in it. NULL where it takes another batch and @most bytes are
 * too few for one. */
void *object_pool_take(struct object_pool *batches, uint64_t most);
void object_pool_put(void *object);

/* When all objects are back. */
void object_pool_clear(struct object_pool *batches);

#endif
