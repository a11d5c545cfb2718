/* Provided buffers: what is published is the kernel's, and nobody else may touch it until it comes
 * back. */
#include <string.h>

#include "memory/poison.h"
#include "sim/ring.h"
#include "sim/world.h"

enum {
    MARK = 32 /* bytes at a buffer's front */,
    MARKED = 0xd7,
    PLACES = 1 << 14,
};

/* How many published buffers' addresses fall to a place: where there is none, nothing needs to be
 * looked for. */
static uint16_t places[PLACES];

static uint16_t *place_of(const void *memory) {
    return &places[((uintptr_t)memory >> 9) * UINT64_C(0x9e3779b97f4a7c15) >> 50];
}

static struct io_uring_buf *entry(struct group *group, uint16_t at) {
    return &group->ring->bufs[at & (group->entries - 1)];
}

static void *memory_of(const struct io_uring_buf *buffer) {
    return (void *)(uintptr_t)buffer->addr;
}

/* The pool's blocks are, in builds that poison them; the memory of a probe is not. */
static bool is_poisoned(const void *memory) {
#ifdef SLUICE_POISONS
    return __asan_address_is_poisoned(memory);
#else
    (void)memory;
    return false;
#endif
}

static void mark(const struct io_uring_buf *buffer) {
    uint32_t n = buffer->len < MARK ? buffer->len : MARK;
    bool poisoned = is_poisoned(memory_of(buffer));
    if (poisoned)
        unpoison_memory(memory_of(buffer), n);
    memset(memory_of(buffer), MARKED, n);
    if (poisoned)
        poison_memory(memory_of(buffer), n);
}

static void check_mark(const struct io_uring_buf *buffer, uint32_t n) {
    uint8_t marked[MARK];
    memset(marked, MARKED, MARK);
    WORLD_CHECK(memcmp(memory_of(buffer), marked, n < MARK ? n : MARK) == 0,
                "a block was written to while the kernel had it");
}

static bool is_published(struct ring *ring, const void *memory) {
    for (size_t i = 0; i < RING_GROUPS; i++) {
        struct group *group = &ring->groups[i];
        for (uint16_t at = group->head; group->ring && at != group->seen; at++)
            if (group->addresses[at & (group->entries - 1)] == memory)
                return true;
    }
    return false;
}

void group_look(struct group *group, struct ring *ring) {
    uint16_t tail = group->ring->tail;
    WORLD_CHECK((uint16_t)(tail - group->head) <= group->entries, "%u buffers published in a ring of %u",
                (uint16_t)(tail - group->head), group->entries);
    for (; group->seen != tail; group->seen++) {
        struct io_uring_buf *buffer = entry(group, group->seen);
        WORLD_CHECK(buffer->len > 0, "an empty buffer is published");
        uint16_t *place = place_of(memory_of(buffer));
        WORLD_CHECK(*place == 0 || !is_published(ring, memory_of(buffer)), "a block is given to the kernel twice");
        ++*place;
        group->addresses[group->seen & (group->entries - 1)] = memory_of(buffer);
        mark(buffer);
    }
}

uint32_t group_count(const struct group *group) {
    return (uint16_t)(group->seen - group->head);
}

void group_fill(struct group *group, uint16_t at, struct file *file, uint32_t n) {
    struct io_uring_buf *buffer = entry(group, at);
    WORLD_CHECK(n <= buffer->len, "more bytes than the entry takes");
    bool poisoned = is_poisoned(memory_of(buffer));
    if (poisoned)
        unpoison_memory(memory_of(buffer), n);
    check_mark(buffer, n);
    file_take_received(file, memory_of(buffer), n);
    if (poisoned)
        poison_memory(memory_of(buffer), n);
}

void group_take(struct group *group) {
    --*place_of(group->addresses[group->head++ & (group->entries - 1)]);
}

void group_forget(struct group *group) {
    while (group->ring && group->head != group->seen)
        group_take(group);
    world_free(group->addresses);
    *group = (struct group){0};
}
