/* The inside of a chain, for connections that embed one and for readers that walk it. */
#ifndef SLUICE_MEMORY_CHAIN_H
#define SLUICE_MEMORY_CHAIN_H

#include <sluice/chain.h>
#include <sluice/slice.h>

#include "memory/block.h"
#include "memory/slice.h"

/* Room at a chain's end, which the user is writing to. */
struct chain_room {
    sluice_block *end;   /* the block with the free end used first; NULL: none */
    sluice_block *fresh; /* blocks behind that, linked by next */
    size_t bytes;
    bool end_left; /* that block has left the chain; there is a reference for the room */
};

/*
 * The end of the last walk into the chain, so that a search that continues after more bytes arrived
 * does not start at the first block again. Stored in the chain because the chain knows when the
 * block leaves it.
 */
struct chain_found {
    sluice_block *block; /* behind the first one, or it was when it was found; NULL: none */
    uint64_t at;         /* place in the stream of the block's first byte */
};

/*
 * The blocks from first to last are linked by next; each is referenced once by the chain. An empty
 * chain has no block at all: the last byte's consumer releases it.
 *
 * To consume within the first block is to move front.at, and nothing else: the reader's inlined
 * calls do just that. So the length and the place in the stream are kept as of the first block's
 * end.
 */
struct sluice_chain {
    sluice_chain_front front; /* of the first block; all zero without one */
    sluice_pool *pool;
    sluice_block *first, *last;
    size_t behind; /* bytes in the blocks after the first */
    size_t blocks;
    uint64_t passed; /* bytes ever consumed, once the first block is */
    /*
     * Of the stream. No other chain of the pool has it, and most likely none of another pool; it
     * goes along when a connection moves. With the bytes consumed it names a place, of which a
     * framer remembers numbers alone: never a chain's or a block's address, which may be reused.
     */
    uint64_t generation;
    /* capacity of the pooled blocks that the chain's lie in; neighbours in one count once */
    size_t footprint;
    struct chain_found found;
    struct chain_room room;
    bool is_users; /* room may be reserved: no backend receives behind its blocks */

    /*
     * Called once when a block is next consumed, for the code that keeps the chain filled; NULL:
     * none
     */
    void (*on_consumed)(sluice_chain *chain);
};

/* Bytes of the first block that are not consumed. */
static inline size_t chain_here(const sluice_chain *chain) {
    return (size_t)(chain->front.end - chain->front.at);
}

static inline size_t chain_length(const sluice_chain *chain) {
    return chain->behind + chain_here(chain);
}

static inline uint64_t chain_consumed(const sluice_chain *chain) {
    return chain->passed - chain_here(chain);
}

/* Of the first byte in the first block. */
static inline uint32_t chain_offset(const sluice_chain *chain) {
    return chain->first ? (uint32_t)(chain->front.at - chain->first->data) : 0;
}

void chain_init(sluice_chain *chain, sluice_pool *pool);

/* A place in a stream: nothing has been consumed since it was taken, and it is the same stream. */
typedef struct chain_place {
    uint64_t generation;
    uint64_t consumed;
} chain_place;

static inline chain_place chain_place_of(const sluice_chain *chain) {
    return (chain_place){chain->generation, chain_consumed(chain)};
}

static inline bool chain_is_at(const sluice_chain *chain, chain_place place) {
    return place.generation == chain->generation && place.consumed == chain_consumed(chain);
}

/*
 * The position after @n bytes; the chain has that many. Continuing from the previous position costs
 * only the blocks in between.
 */
slice_walk chain_walk_at(sluice_chain *chain, size_t n);

/*
 * Skips @before bytes, takes @n, and skips @behind, where all of that and more lies in the first
 * block: most frames do, and no block leaves the chain. The bytes behind what was taken; NULL, and
 * nothing is done, where it does not.
 */
static inline const uint8_t *chain_take_within(sluice_chain *chain, size_t before, size_t n, size_t behind,
                                               sluice_slice *ret_slice) {
    if (n == 0 || before + n + behind >= chain_here(chain))
        return NULL;
    sluice_block *block = chain->first;
    block_ref_first(block);
    const uint8_t *from = chain->front.at + before;
    *ret_slice = (sluice_slice){.first = block, .last = block, .offset = (uint32_t)(from - block->data), .length = n};
    chain->front.at += before + n + behind;
    return from + n;
}

/* Skips @n bytes, which the chain has. */
static inline void chain_skip(sluice_chain *chain, size_t n) {
    if (n < chain_here(chain))
        chain->front.at += n;
    else
        sluice_chain_skip(chain, n);
}

/* Releases every block. The chain is empty and usable afterwards. */
void chain_clear(sluice_chain *chain);

/*
 * Adds @n bytes that were put behind the data of @block, which the caller or the chain references:
 * by growing the block where it is still the chain's last, else as a view. 0, -ENOBUFS or -ENOMEM
 * (no view to be had; the chain is unchanged, the bytes stay unnamed).
 */
int chain_extend(sluice_chain *chain, sluice_block *block, uint32_t n);

/*
 * References the first @n bytes, which the chain has, for @held: a slice that is empty or ends
 * where the chain begins. To be followed by the consumption of those bytes. Returns the blocks that
 * @held did not reference before.
 */
size_t chain_hold(sluice_chain *chain, size_t n, sluice_slice *held);

/*
 * Undoes the consumption of what is in @held, which ends where the chain begins and references
 * @blocks blocks: its references go to the chain. It is empty afterwards.
 */
void chain_put_back(sluice_chain *chain, sluice_slice *held, size_t blocks);

/*
 * Copies small pieces together, into the free ends of blocks without other references, and releases
 * their own blocks. Not the first block, in which framers and readers have text in place. Counted
 * as copied. Not for a user's chain, of which room may be reserved.
 */
void chain_compact(sluice_chain *chain);

/* The blocks' own consistency; for tests. */
bool chain_is_sound(const sluice_chain *chain);

#endif
