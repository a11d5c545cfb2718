#include "sim/invariants.h"

#include "backends/uring.h"
#include "loop/loop.h"
#include "memory/pool.h"
#include "sim/world.h"

static bool is_kernels(const sluice_block *block) {
    if (!block)
        return false;
    WORLD_CHECK(block->state == BLOCK_KERNEL && block->refs == 1, "a block in a slot has state %u and %u references",
                block->state, block->refs);
    return true;
}

void check_chain(const sluice_chain *chain) {
    uint64_t length = 0;
    for (const sluice_block *block = chain->first; block; block = block->next) {
        WORLD_CHECK(block->state == BLOCK_HELD && block->refs > 0, "a block in a chain has state %u and %u references",
                    block->state, block->refs);
        length += block->length;
        if (block == chain->last)
            break;
    }
    WORLD_CHECK(length >= sluice_chain_length(chain), "a chain of %zu bytes has blocks of %llu",
                sluice_chain_length(chain), (unsigned long long)length);
}

/* Walking everything costs more than what happens between two steps. */
bool check_is_thorough(void) {
    enum { THOROUGH = 8 };
    return world_traces() || rings_steps() % THOROUGH == world_seed() % THOROUGH;
}

static uint32_t count_filled(const buffer_ring *ring) {
    uint32_t filled = 0;
    for (uint32_t slot = 0; slot < ring->entries; slot++)
        filled += is_kernels(ring->slots[slot]);
    return filled;
}

void check_blocks(sluice_loop *loop) {
    const uring *u = (const uring *)loop->backend;
    bool is_thorough = check_is_thorough();
    for (uint32_t i = 0; i < u->ring_count; i++) {
        const buffer_ring *ring = &u->rings[i];
        sluice_pool_stats stats = {.size = sizeof stats};
        uint32_t filled = is_thorough ? count_filled(ring) : ring->count;
        sluice_pool_get_stats(ring->pool, &stats);
        uint32_t published = rings_published(&u->ring, i);
        uint32_t on_the_way = rings_returned(&u->ring, i);
        WORLD_CHECK(published + on_the_way == filled && filled == ring->count,
                    "the kernel has %u blocks of %u bytes and returns %u, but %u slots are full, and %u are counted",
                    published, stats.block_size, on_the_way, filled, ring->count);
        WORLD_CHECK(stats.kernel == filled, "the pool counts %u blocks with the kernel, which has %u", stats.kernel,
                    filled);
        WORLD_CHECK(stats.free + stats.kernel + stats.held == stats.total && stats.held <= stats.total,
                    "%u free + %u with the kernel + %u held of %u", stats.free, stats.kernel, stats.held, stats.total);
    }
}

void check_nothing_held(sluice_pool *pool) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(pool, &stats);
    WORLD_CHECK(stats.bytes_held == 0, "%llu bytes of blocks are held at the end",
                (unsigned long long)stats.bytes_held);
    WORLD_CHECK(stats.views == 0 && stats.foreign == 0, "%u views and %u foreign pieces are left at the end",
                stats.views, stats.foreign);
}
