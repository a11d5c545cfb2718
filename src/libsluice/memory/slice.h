/* Walking the blocks of a slice. */
#ifndef SLUICE_MEMORY_SLICE_H
#define SLUICE_MEMORY_SLICE_H

#include <sluice/slice.h>

#include "memory/block.h"

/*
 * The block after this one, NULL at the end. Neither the link nor the length of the last block is
 * read: they belong to the thread that appends to the chain from which the slice was cut.
 */
static inline sluice_block *slice_next(const sluice_slice *slice, const sluice_block *block) {
    return block == slice->last ? NULL : block->next;
}

typedef struct slice_walk {
    sluice_block *block;
    const sluice_block *last;
    uint32_t offset;
    size_t left; /* bytes from here to the slice's end */
} slice_walk;

/* Contiguous bytes here. */
static inline size_t slice_walk_span(const slice_walk *walk) {
    return walk->block == walk->last ? walk->left : walk->block->length - walk->offset;
}

/* For a test that bounds them: how often any walk has gone to another block. */
#ifdef SLUICE_COUNT_STEPS
extern uint64_t slice_steps;
#define SLICE_COUNT_STEP() ((void)slice_steps++)
#else
#define SLICE_COUNT_STEP() ((void)0)
#endif

static inline void slice_walk_next(slice_walk *walk) {
    SLICE_COUNT_STEP();
    walk->left -= slice_walk_span(walk);
    walk->offset = 0;
    if (walk->left > 0)
        walk->block = walk->block->next;
}

/* The place at @offset, which is at most the slice's length. */
static inline slice_walk slice_walk_at(const sluice_slice *slice, size_t offset) {
    slice_walk walk = {slice->first, slice->last, slice->offset, slice->length};
    while (offset > 0 && offset >= slice_walk_span(&walk)) {
        offset -= slice_walk_span(&walk);
        slice_walk_next(&walk);
        if (walk.left == 0)
            return walk;
    }
    walk.offset += (uint32_t)offset;
    walk.left -= offset;
    return walk;
}

#endif
