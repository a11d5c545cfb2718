/* The heap against a plain search, at random, by a seed. */
#include "daemon/base/heap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { COUNT = 200, ROUNDS = 20000 };

typedef struct item {
    struct heap_node node; /* first: the heap names it */
    uint32_t key;
    bool is_in;
} item;

static unsigned compared;

static bool before(const struct heap_node *a, const struct heap_node *b) {
    compared++;
    return ((const item *)(const void *)a)->key < ((const item *)(const void *)b)->key;
}

static const item *first_of(const item *items) {
    const item *first = NULL;
    for (size_t i = 0; i < COUNT; i++)
        if (items[i].is_in && (!first || items[i].key < first->key))
            first = &items[i];
    return first;
}

static void the_first_is_the_first(void **state) {
    struct heap heap = {.before = before};
    item items[COUNT] = {0};
    uint32_t random = 1;
    (void)state;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        random = random * 1664525 + 1013904223;
        item *one = &items[(random >> 8) % COUNT];
        if (one->is_in) {
            heap_remove(&heap, &one->node);
        } else {
            /* No two are equal. */
            one->key = (random >> 4 & 0xFF) << 20 | round;
            heap_add(&heap, &one->node);
        }
        one->is_in = !one->is_in;
        assert_ptr_equal(heap.first, first_of(items));
    }
    const item *first;
    while ((first = first_of(items))) {
        assert_ptr_equal(heap.first, first);
        items[first - items].is_in = false;
        heap_remove(&heap, heap.first);
    }
    assert_null(heap.first);
}

/* Where thousands come and the first goes each time, a few are looked at for each: not all of
 * them. */
static void the_work_is_bounded(void **state) {
    enum { MANY = 10000 };
    static item items[2 * MANY];
    struct heap heap = {.before = before};
    (void)state;
    compared = 0;
    for (uint32_t i = 0; i < 2 * MANY; i++) {
        items[i].key = i;
        heap_add(&heap, &items[i].node);
        if (i < MANY)
            continue;
        assert_ptr_equal(heap.first, &items[i - MANY]);
        heap_remove(&heap, heap.first);
    }
    /* The logarithm of 10,000 is 14; searching would take 10,000 looks each. */
    assert_true(compared < MANY * 40u);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_is_the_first),
        cmocka_unit_test(the_work_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
