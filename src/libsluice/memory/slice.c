#include <sluice/slice.h>

#include <errno.h>
#include <string.h>

#include "memory/pool.h"
#include "memory/slice.h"

static bool is_short(sluice_pool *class) {
    return sluice_pool_available(class) <= pool_reserve(class);
}

/*
 * Whether the pool lacks what the slice holds: blocks of any of its sizes, or views. The user's
 * memory is not the pool's. Blocks next to each other are mostly of one class, which is asked once;
 * where the pool has no other, the first one decides.
 */
static bool is_scarce(const sluice_slice *slice) {
    sluice_pool *class = NULL;
    for (sluice_block *block = slice->first; block; block = slice_next(slice, block)) {
        const sluice_block *owner = block_owner(block);
        if (owner->kind != BLOCK_POOLED || owner->pool == class)
            continue;
        bool is_first = !class;
        class = owner->pool;
        if (is_short(class) || (is_first && pool_is_short_of_views(class)))
            return true;
        if (pool_has_one_class(class))
            break;
    }
    return false;
}

int sluice_slice_take(sluice_slice *slice, sluice_slice *ret_taken) {
    if (is_scarce(slice))
        return -ENOBUFS;
    sluice_slice taken = *slice;
    *slice = (sluice_slice){0};
    *ret_taken = taken;
    return 0;
}

void sluice_slice_ref(const sluice_slice *slice, sluice_slice *ret_ref) {
    for (sluice_block *block = slice->first; block; block = slice_next(slice, block))
        block_ref(block);
    *ret_ref = *slice;
}

int sluice_slice_sub(const sluice_slice *slice, size_t offset, size_t length, sluice_slice *ret_part) {
    if (offset > slice->length || length > slice->length - offset)
        return -EINVAL;
    sluice_slice part = {.length = length};
    slice_walk walk = slice_walk_at(slice, offset);
    if (length > 0) {
        part.first = walk.block;
        part.offset = walk.offset;
    }
    while (length > 0) {
        size_t here = slice_walk_span(&walk);
        part.last = walk.block;
        block_ref(walk.block);
        if (here >= length)
            break;
        length -= here;
        slice_walk_next(&walk);
    }
    *ret_part = part;
    return 0;
}

/* By itself, so that the usual release needs no room for the list. */
static __attribute__((noinline)) void release_blocks(sluice_slice *slice) {
    dead_list dead = {0};
    sluice_block *block = slice->first;
    sluice_pool *pool = block->pool;
    while (block) {
        /* The link goes with the reference: read it first. */
        sluice_block *next = slice_next(slice, block);
        block_release_to(block, &dead);
        block = next;
    }
    *slice = (sluice_slice){0};
    dead_list_put(&dead, pool);
}

void sluice_slice_release(sluice_slice *slice) {
    if (!slice || !slice->first)
        return;
    /* Most slices lie in a block that the chain has, too. */
    if (slice->first == slice->last && block_unref_shared(slice->first))
        *slice = (sluice_slice){0};
    else
        release_blocks(slice);
}

size_t sluice_slice_iov(const sluice_slice *slice, size_t offset, struct iovec *iov, size_t max) {
    if (offset >= slice->length)
        return 0;
    size_t count = 0;
    slice_walk walk = slice_walk_at(slice, offset);
    while (walk.left > 0) {
        if (count < max)
            iov[count] = (struct iovec){walk.block->data + walk.offset, slice_walk_span(&walk)};
        count++;
        slice_walk_next(&walk);
    }
    return count;
}

size_t sluice_slice_copy(const sluice_slice *slice, size_t offset, void *dst, size_t n) {
    size_t done = 0;
    if (offset >= slice->length || n == 0)
        return 0;
    slice_walk walk = slice_walk_at(slice, offset);
    while (walk.left > 0 && done < n) {
        size_t here = slice_walk_span(&walk);
        if (here > n - done)
            here = n - done;
        memcpy((uint8_t *)dst + done, walk.block->data + walk.offset, here);
        done += here;
        slice_walk_next(&walk);
    }
    pool_count_copied(slice->first->pool, done);
    return done;
}

size_t sluice_slice_blocks(const sluice_slice *slice) {
    size_t count = 0;
    for (sluice_block *block = slice->first; block; block = slice_next(slice, block))
        count++;
    return count;
}

size_t sluice_slice_footprint(const sluice_slice *slice, const sluice_slice *before) {
    size_t count = 0;
    const sluice_block *head = slice->first ? block_owner(slice->first) : NULL;
    const sluice_block *previous = before && before->last ? block_owner(before->last) : NULL;
    /* What is put together has headers between its parts, all in one block, which slices go on
     * with. */
    bool had_head = head == previous || (before && before->first && block_owner(before->first) == head);
    for (sluice_block *block = slice->first; block; block = slice_next(slice, block)) {
        const sluice_block *owner = block_owner(block);
        bool is_new = owner == head ? !had_head : owner != previous;
        count += owner->kind == BLOCK_POOLED && is_new;
        if (owner == head)
            had_head = true;
        else
            previous = owner;
    }
    return count;
}
