/* The rings of blocks that the kernel fills: one for each block size in use. */
#include "backends/uring.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

enum {
    /* bytes; a larger ring walks through memory that has left the cache */
    DEFAULT_STOCK = 512 << 10,
    /* where a window's worth is received at once: what it lacks is armed and asked for again */
    WINDOW_STOCK = 1 << 20,
    MAX_ENTRIES = 32768,
    /* the stock of poorly filled blocks, at most so many times that of full ones */
    POOR_STOCK = 4,
    STOCK_SAMPLE = 256, /* filled blocks by which the stock is set anew */
};

static uint32_t at_most(uint32_t value, uint32_t most) {
    return value < most ? value : most;
}

static uint32_t stock_of(const buffer_ring *ring, uint32_t bytes) {
    uint32_t most = at_most(pool_max(ring->pool) / 2, MAX_ENTRIES / 2);
    uint32_t stock = at_most(bytes / pool_block_size(ring->pool), most);
    return stock > 0 ? stock : 1;
}

/* How many blocks the kernel is to have: so many that are full fit a core's cache. @bytes: the
 * user's word, or 0. */
static void set_stock(buffer_ring *ring, uint32_t bytes, bool windowed) {
    uint32_t usual = bytes ? bytes : DEFAULT_STOCK;
    ring->stock = ring->least_stock = stock_of(ring, windowed && !bytes ? WINDOW_STOCK : usual);
    ring->most_stock = stock_of(ring, at_most(usual, UINT32_MAX / POOR_STOCK) * POOR_STOCK);
    ring->entries = 2;
    while (ring->entries < 2 * ring->most_stock)
        ring->entries *= 2;
}

/*
 * Blocks that are filled to a part only take as much less of the cache, and are used up as much
 * sooner: a batching window of small packets would starve on a stock of full ones.
 */
static void adapt_stock(buffer_ring *ring) {
    if (ring->filled_blocks < STOCK_SAMPLE)
        return;
    uint64_t fitting = (uint64_t)ring->least_stock * pool_block_size(ring->pool) * ring->filled_blocks;
    fitting /= ring->filled_bytes > 0 ? ring->filled_bytes : 1;
    ring->stock = fitting < ring->most_stock ? (uint32_t)fitting : ring->most_stock;
    if (ring->stock < ring->least_stock)
        ring->stock = ring->least_stock;
    ring->filled_blocks /= 2;
    ring->filled_bytes /= 2;
}

static int register_ring(uring *u, buffer_ring *ring, uint32_t group) {
    ring->slots = calloc(ring->entries, sizeof(sluice_block *));
    if (!ring->slots)
        return -ENOMEM;
    ring->size = ring->entries * sizeof(struct io_uring_buf);
    void *memory = mmap(NULL, ring->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -ENOMEM;
    ring->ring = memory;
    struct io_uring_buf_reg registration = {
        .ring_addr = (uint64_t)(uintptr_t)memory,
        .ring_entries = ring->entries,
        .bgid = (uint16_t)group,
    };
    int error = io_uring_register_buf_ring(&u->ring, &registration, 0);
    /* Unknown to kernels before 5.19. */
    return error == -EINVAL ? -EOPNOTSUPP : error;
}

/* The kernel does not know of it, or not any more: what is still in the slots is ours again. */
static void discard(buffer_ring *ring) {
    for (uint32_t i = 0; ring->slots && i < ring->entries; i++) {
        if (!ring->slots[i])
            continue;
        pool_from_kernel(ring->pool, ring->slots[i]);
        sluice_block_release(ring->slots[i]);
    }
    free(ring->slots);
    if (ring->ring)
        munmap(ring->ring, ring->size);
}

uint32_t uring_ring_find(const uring *u, const sluice_pool *pool) {
    uint32_t group = 0;
    while (group < u->ring_count && u->rings[group].pool != pool)
        group++;
    return group;
}

int uring_ring_open(uring *u, sluice_pool *pool) {
    uint32_t group = uring_ring_find(u, pool);
    if (group < u->ring_count)
        return 0;
    buffer_ring *ring = &u->rings[group];
    *ring = (buffer_ring){.pool = pool};
    set_stock(ring, u->stock_bytes, u->window.length > 0);
    int error = register_ring(u, ring, group);
    if (error)
        discard(ring);
    else
        u->ring_count++;
    return error;
}

/* When the io_uring has been closed. */
void uring_rings_free(uring *u) {
    for (uint32_t i = 0; i < u->ring_count; i++)
        discard(&u->rings[i]);
}

void uring_ring_stock(buffer_ring *ring) {
    adapt_stock(ring);
    const int mask = (int)ring->entries - 1;
    int added = 0;

    while (ring->count < ring->stock) {
        uint16_t slot = (uint16_t)((ring->tail + added) & mask);
        sluice_block *block = ring->slots[slot] ? NULL : pool_take(ring->pool);
        if (!block)
            break;
        io_uring_buf_ring_add(ring->ring, block->data, block->capacity, slot, mask, added);
        ring->slots[slot] = block;
        pool_to_kernel(ring->pool, block);
        ring->count++;
        added++;
    }
    if (added > 0) {
        io_uring_buf_ring_advance(ring->ring, added);
        ring->tail = (uint16_t)(ring->tail + added);
    }
}
