/*
 * A heap with nodes inside the ordered objects: the first is known, and any can be removed. It
 * allocates nothing. Adding takes constant time; removing takes amortized logarithmic time (a
 * pairing heap: Fredman, Sedgewick, Sleator and Tarjan, 1986).
 */
#ifndef SLUICED_HEAP_H
#define SLUICED_HEAP_H

#include <stdbool.h>

/* In one heap at most. Its fields are the heap's. */
struct heap_node {
    struct heap_node *child; /* the first of those below it */
    struct heap_node *next;  /* beside it, below the same one */
    struct heap_node *back;  /* the one before it beside, or of the first the one above */
};

/* Whether @a goes before @b. An order that stays while both are in. */
typedef bool heap_before_fn(const struct heap_node *a, const struct heap_node *b);

struct heap {
    heap_before_fn *before;
    struct heap_node *first; /* NULL: empty */
};

void heap_add(struct heap *heap, struct heap_node *node);

/* One that is in it. */
void heap_remove(struct heap *heap, struct heap_node *node);

#endif
