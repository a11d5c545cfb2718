/* A block: a piece of memory with a reference count, and its place in a chain. */
#ifndef SLUICE_MEMORY_BLOCK_H
#define SLUICE_MEMORY_BLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sluice/chain.h>
#include <sluice/pool.h>

enum block_kind {
    BLOCK_POOLED, /* owns its memory, which lies in a slab of the pool */
    BLOCK_VIEW,   /* names a part of its parent and holds a reference on it */
    /* refers to the user's memory, with a callback when the last reference is dropped */
    BLOCK_FOREIGN,
};

/* Where a pooled block is. The others are HELD while they exist. */
enum block_state {
    BLOCK_FREE, /* in the pool; set by the pool when the last reference goes */
    /* taken; set by the pool on taking, by a backend when the kernel has given the block back */
    BLOCK_HELD,
    BLOCK_KERNEL, /* published for receiving; set by the backend */
};

struct sluice_block {
    uint8_t *data;
    /* bytes of data; grows only while the block is a chain's last, by what is put behind them */
    uint32_t length;
    uint32_t beyond;   /* bytes put behind the data that are named by views */
    uint32_t capacity; /* bytes from data on that this block may ever hold */
    _Atomic uint32_t refs;
    uint8_t kind;
    uint8_t state;
    uint16_t slab; /* index of the slab of a pooled block */
    /* the block after it: in its chain, set once by the append; or in the pool's free list */
    sluice_block *next;
    sluice_pool *pool;
    union {
        sluice_block *parent; /* of a view */
        struct {
            sluice_memory_released_fn *released; /* may be NULL */
            void *user;
        } foreign;
    };
};

static inline void block_ref(sluice_block *block) {
    atomic_fetch_add_explicit(&block->refs, 1, memory_order_relaxed);
}

/*
 * The same, for the chain that contains the block; references of that chain are taken by one thread
 * only. If there is no other reference, no thread can change the count meanwhile, so no
 * read-modify-write is needed, which would wait for all recent writes to the block. Ordered, so
 * that a thread that has dropped a reference before is known to be done with the memory.
 */
static inline void block_ref_first(sluice_block *block) {
    if (atomic_load_explicit(&block->refs, memory_order_acquire) == 1)
        atomic_store_explicit(&block->refs, 2, memory_order_release);
    else
        block_ref(block);
}

/*
 * Drops one reference; true if it was the last, and the caller must put the block back. The only
 * holder needs no read-modify-write: no other thread can take a reference.
 */
static inline bool block_unref(sluice_block *block) {
    if (atomic_load_explicit(&block->refs, memory_order_acquire) == 1)
        return true;
    return atomic_fetch_sub_explicit(&block->refs, 1, memory_order_acq_rel) == 1;
}

/* Drops a reference that is not the last; false, and nothing is done, when it may be. */
static inline bool block_unref_shared(sluice_block *block) {
    uint32_t refs = atomic_load_explicit(&block->refs, memory_order_relaxed);
    while (refs > 1)
        if (atomic_compare_exchange_weak_explicit(&block->refs, &refs, refs - 1, memory_order_release,
                                                  memory_order_relaxed))
            return true;
    return false;
}

/* The block, not a view, that has the memory of this block's bytes. */
static inline sluice_block *block_owner(sluice_block *block) {
    return block->kind == BLOCK_VIEW ? block->parent : block;
}

/*
 * The block's free end, to which nothing refers; a receive, or a chain's user, may still fill it.
 */
static inline uint32_t block_tail(const sluice_block *block) {
    return block->capacity - block->length - block->beyond;
}

/* Whether the free end is large enough for a receive of many bytes. */
static inline bool block_tail_is_worthwhile(const sluice_block *block) {
    enum { SHARE = 8 }; /* at least one part in so many of the block */
    return block_tail(block) >= block->capacity / SHARE;
}

static inline uint8_t *block_tail_data(const sluice_block *block) {
    return block->data + block->length + block->beyond;
}

#endif
