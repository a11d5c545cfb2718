#include "daemon/base/heap.h"

#include <stddef.h>

/* Merges two roots and returns the new root. Either may be NULL. */
static struct heap_node *meld(const struct heap *heap, struct heap_node *a, struct heap_node *b) {
    if (!a || !b)
        return a ? a : b;
    if (heap->before(b, a)) {
        struct heap_node *above = b;
        b = a;
        a = above;
    }
    b->back = a;
    b->next = a->child;
    if (b->next)
        b->next->back = b;
    a->child = b;
    return a;
}

/* The first of those beside each other, alone; the rest stays. */
static struct heap_node *pop(struct heap_node **list) {
    struct heap_node *node = *list;
    if (!node)
        return NULL;
    *list = node->next;
    node->next = node->back = NULL;
    return node;
}

/* In pairs, and then the pairs with each other: that is what bounds the work of the calls to
 * come. */
static struct heap_node *meld_all(const struct heap *heap, struct heap_node *list) {
    struct heap_node *pairs = NULL, *all = NULL;
    while (list) {
        struct heap_node *one = pop(&list), *pair = meld(heap, one, pop(&list));
        pair->next = pairs;
        pairs = pair;
    }
    while (pairs)
        all = meld(heap, all, pop(&pairs));
    return all;
}

void heap_add(struct heap *heap, struct heap_node *node) {
    *node = (struct heap_node){0};
    heap->first = meld(heap, heap->first, node);
}

void heap_remove(struct heap *heap, struct heap_node *node) {
    struct heap_node *below = meld_all(heap, node->child);
    if (node == heap->first) {
        heap->first = below;
    } else {
        if (node->back->child == node)
            node->back->child = node->next;
        else
            node->back->next = node->next;
        if (node->next)
            node->next->back = node->back;
        heap->first = meld(heap, heap->first, below);
    }
    *node = (struct heap_node){0};
}
