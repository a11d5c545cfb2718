/*
 * Memory for many objects of one size: allocated some dozens at a time, and given back when all of such a batch are
 * unused, but for some of them. So what one has needed for a while is another's afterwards, whatever for, and what is
 * needed again and again is not allocated each time. One thread's.
 */
#ifndef SLUICED_BATCHES_H
#define SLUICED_BATCHES_H

#include <stddef.h>
#include <stdint.h>

struct batch;

struct batches {
    size_t size;          /* of an object, bytes; a multiple of a pointer's */
    struct batch *usable; /* with used and unused objects */
    struct batch *full;   /* with used ones alone */
    struct batch *spare;  /* with unused ones alone: of most_spare bytes, or one */
    size_t used;          /* objects */
    uint64_t bytes;       /* of memory, used or not */
    uint64_t spare_bytes; /* of these, in spare batches */
    uint64_t most_spare;  /* that are not given back */
};

/* Bytes of memory that one object takes. */
size_t batches_cost(const struct batches *batches);

/* An object, as the one before has left it. NULL where it takes another batch and @most bytes are too few for one. */
void *batches_take(struct batches *batches, uint64_t most);
void batches_put(struct batches *batches, void *object);

/* When all objects are back. */
void batches_clear(struct batches *batches);

#endif
