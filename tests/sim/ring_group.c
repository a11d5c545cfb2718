/* Provided buffers: what is published is the kernel's, and nobody else may touch it until it comes back. */
#include <string.h>

#include "memory/poison.h"
#include "sim/ring.h"
#include "sim/world.h"

enum { MARK = 32 /* bytes at a buffer's front */, MARKED = 0xd7 };

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
    const uint8_t *bytes = memory_of(buffer);
    for (uint32_t i = 0; i < n && i < MARK; i++)
        WORLD_CHECK(bytes[i] == MARKED, "a block was written to while the kernel had it");
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

/* Each is looked for among the others now and then only: there may be thousands. */
void group_look(struct group *group, struct ring *ring) {
    uint16_t tail = group->ring->tail;
    WORLD_CHECK((uint16_t)(tail - group->head) <= group->entries, "%u buffers published in a ring of %u",
                (uint16_t)(tail - group->head), group->entries);
    for (; group->seen != tail; group->seen++) {
        struct io_uring_buf *buffer = entry(group, group->seen);
        WORLD_CHECK(buffer->len > 0, "an empty buffer is published");
        if (world_is_calm() || world_one_in(8))
            WORLD_CHECK(!is_published(ring, memory_of(buffer)), "a block is given to the kernel twice");
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

void group_forget(struct group *group) {
    world_free(group->addresses);
    *group = (struct group){0};
}
