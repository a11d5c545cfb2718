#include "memory/chain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory/pool.h"
#include "memory/slice.h"

/* For bytes that become a part of another chain: there are no stored positions in it. */
static void init_part(sluice_chain *part, sluice_pool *pool) {
    *part = (sluice_chain){.pool = pool};
}

void chain_init(sluice_chain *chain, sluice_pool *pool) {
    *chain = (sluice_chain){.pool = pool, .generation = pool ? pool_next_generation(pool) : 0};
}

void chain_clear(sluice_chain *chain) {
    sluice_chain_skip(chain, chain_length(chain));
}

/* From the back, so that the block taken first is on top of the pool's stack again. */
static void put_fresh(sluice_pool *pool, sluice_block *fresh) {
    sluice_block *first = NULL, *last = fresh;
    uint32_t count = 0;
    for (sluice_block *next; fresh; fresh = next, count++) {
        next = fresh->next;
        fresh->next = first;
        first = fresh;
    }
    if (first)
        pool_put_list(pool, first, last, count);
}

static void give_room_back(sluice_chain *chain) {
    struct chain_room *room = &chain->room;
    if (room->end_left)
        sluice_block_release(room->end);
    put_fresh(chain->pool, room->fresh);
    *room = (struct chain_room){0};
}

int sluice_chain_new(sluice_pool *pool, sluice_chain **ret_chain) {
    sluice_chain *chain = malloc(sizeof *chain);
    if (!chain)
        return -ENOMEM;
    chain_init(chain, pool);
    chain->is_users = true;
    *ret_chain = chain;
    return 0;
}

void sluice_chain_free(sluice_chain *chain) {
    if (!chain)
        return;
    give_room_back(chain);
    chain_clear(chain);
    free(chain);
}

size_t sluice_chain_length(const sluice_chain *chain) {
    return chain_length(chain);
}

size_t sluice_chain_blocks(const sluice_chain *chain) {
    return chain->blocks;
}

size_t sluice_chain_footprint(const sluice_chain *chain) {
    return chain->footprint;
}

uint64_t sluice_chain_consumed(const sluice_chain *chain) {
    return chain_consumed(chain);
}

/* Nothing of this pool refers to another pool's block any more. */
static void release_guest(const void *memory, size_t n, void *user) {
    (void)memory, (void)n;
    sluice_block_release(user);
}

/* The block with the memory of the bytes, of whichever pool; the user's memory is a block, too. */
static sluice_block *home_of(sluice_block *block) {
    sluice_block *owner = block_owner(block);
    return owner->kind == BLOCK_FOREIGN && owner->foreign.released == release_guest ? owner->foreign.user : owner;
}

static size_t footprint_of(const sluice_block *home) {
    return home->kind == BLOCK_POOLED ? home->capacity : 0;
}

/* The block becomes the chain's first. */
static void enter_first(sluice_chain *chain, sluice_block *block) {
    chain->first = block;
    chain->front = (sluice_chain_front){block->data, block->data + block->length};
    chain->passed += block->length;
}

void sluice_chain_append(sluice_chain *chain, sluice_block *block) {
    if (block->length == 0) {
        sluice_block_release(block);
        return;
    }
    sluice_block *home = home_of(block);
    if (!chain->last || home_of(chain->last) != home)
        chain->footprint += footprint_of(home);
    if (chain->last) {
        chain->last->next = block;
        chain->behind += block->length;
    } else {
        enter_first(chain, block);
    }
    chain->last = block;
    chain->blocks++;
}

/* The chain's last block, or a view that stands for it, has grown. */
static void grow_last(sluice_chain *chain, uint32_t n) {
    chain->last->length += n;
    if (chain->last == chain->first) {
        chain->front.end += n;
        chain->passed += n;
    } else {
        chain->behind += n;
    }
}

int chain_extend(sluice_chain *chain, sluice_block *block, uint32_t n) {
    sluice_block *last = chain->last;
    if (last == block && block->beyond == 0) {
        grow_last(chain, n);
        return 0;
    }
    /* Slices that end in the last view do not read its length. */
    if (last && last->kind == BLOCK_VIEW && last->parent == block &&
        last->data + last->length == block_tail_data(block)) {
        grow_last(chain, n);
        last->capacity += n;
        block->beyond += n;
        return 0;
    }
    sluice_block *view;
    int error = pool_view(chain->pool, block, block->length + block->beyond, n, &view);
    if (error)
        return error;
    block->beyond += n;
    sluice_chain_append(chain, view);
    return 0;
}

/* Whether room for @n bytes begins in the free end of the chain's last block. */
static bool is_roomy(const sluice_block *last, size_t n) {
    if (!last || last->kind != BLOCK_POOLED)
        return false;
    return block_tail(last) >= n || block_tail_is_worthwhile(last);
}

/*
 * A function of its own, so that small pieces with room in the last block need no stack space for
 * it.
 */
static __attribute__((noinline)) int reserve_fresh(sluice_chain *chain, size_t n, struct iovec *ret_room, int max) {
    struct chain_room *room = &chain->room;
    int count = 0;
    for (sluice_block **link = &room->fresh; room->bytes < n && count < max; link = &(*link)->next) {
        int error = sluice_block_get(chain->pool, link);
        if (error)
            return count > 0 ? count : error;
        room->bytes += (*link)->capacity;
        ret_room[count++] = (struct iovec){(*link)->data, (*link)->capacity};
    }
    return count;
}

int sluice_chain_reserve(sluice_chain *chain, size_t n, struct iovec *ret_room, int max) {
    struct chain_room *room = &chain->room;
    if (!chain->is_users || n == 0 || max < 1)
        return -EINVAL;
    if (room->bytes > 0)
        give_room_back(chain);
    sluice_block *last = chain->last;
    int fresh = is_roomy(last, n) ? 0 : reserve_fresh(chain, n, ret_room, max);
    /* However little there is, it is room when there is no other. */
    if (fresh > 0 || (fresh < 0 && !is_roomy(last, 1)))
        return fresh;
    room->end = last;
    room->bytes = block_tail(last);
    *ret_room = (struct iovec){block_tail_data(last), room->bytes};
    if (room->bytes >= n)
        return 1;
    int more = reserve_fresh(chain, n, ret_room + 1, max - 1);
    return more > 0 ? 1 + more : 1;
}

/* What goes beyond the last block's free end, or did when that was reserved. */
static __attribute__((noinline)) int commit_apart(sluice_chain *chain, size_t n) {
    struct chain_room *room = &chain->room;
    int error = 0;
    if (room->end && n > 0) {
        uint32_t here = block_tail(room->end) < n ? block_tail(room->end) : (uint32_t)n;
        error = chain_extend(chain, room->end, here);
        n = error ? 0 : n - here;
    }
    while (n > 0) {
        sluice_block *block = room->fresh;
        room->fresh = block->next;
        block->next = NULL;
        block->length = n < block->capacity ? (uint32_t)n : block->capacity;
        n -= block->length;
        sluice_chain_append(chain, block);
    }
    give_room_back(chain);
    return error;
}

int sluice_chain_commit(sluice_chain *chain, size_t n) {
    struct chain_room *room = &chain->room;
    if (n > room->bytes)
        return -EINVAL;
    sluice_block *end = room->end;
    if (!end || room->fresh || room->end_left || end != chain->last || end->beyond > 0)
        return commit_apart(chain, n);
    grow_last(chain, (uint32_t)n);
    room->end = NULL;
    room->bytes = 0;
    return 0;
}

int sluice_chain_append_memory(sluice_chain *chain, const void *memory, size_t n, sluice_memory_released_fn *released,
                               void *user) {
    sluice_block *block;
    if (n > UINT32_MAX)
        return -EMSGSIZE;
    if (n == 0) {
        if (released)
            released(memory, 0, user);
        return 0;
    }
    if (!memory)
        return -EINVAL;
    int error = pool_foreign(chain->pool, memory, (uint32_t)n, released, user, &block);
    if (!error)
        sluice_chain_append(chain, block);
    return error;
}

/* The first block leaves the chain, consumed; its reference goes to the caller. */
static sluice_block *pop_first(sluice_chain *chain) {
    sluice_block *block = chain->first;
    if (block == chain->room.end && !chain->room.end_left) {
        block_ref(block);
        chain->room.end_left = true;
    }
    if (block == chain->found.block)
        chain->found.block = NULL;
    if (block == chain->last) {
        chain->first = chain->last = NULL;
        chain->front = (sluice_chain_front){0};
        chain->footprint = 0;
    } else {
        sluice_block *home = home_of(block);
        if (home_of(block->next) != home)
            chain->footprint -= footprint_of(home);
        enter_first(chain, block->next);
        chain->behind -= chain->first->length;
    }
    chain->blocks--;
    return block;
}

static void tell_consumed(sluice_chain *chain, size_t blocks_before) {
    void (*on_consumed)(sluice_chain * chain) = chain->on_consumed;
    if (on_consumed && chain->blocks < blocks_before) {
        chain->on_consumed = NULL;
        on_consumed(chain);
    }
}

int sluice_chain_take(sluice_chain *chain, size_t n, sluice_slice *ret_slice) {
    if (n > chain_length(chain))
        return -EAGAIN;
    if (n == 0) {
        *ret_slice = (sluice_slice){0};
        return 0;
    }
    sluice_slice slice = {.first = chain->first, .offset = chain_offset(chain), .length = n};
    size_t left = n, blocks = chain->blocks;
    for (;;) {
        sluice_block *block = chain->first;
        size_t here = chain_here(chain);
        slice.last = block;
        if (left < here) {
            block_ref_first(block);
            chain->front.at += left;
            break;
        }
        left -= here;
        pop_first(chain);
        if (left == 0)
            break;
    }
    *ret_slice = slice;
    tell_consumed(chain, blocks);
    return 0;
}

slice_walk chain_walk_at(sluice_chain *chain, size_t n) {
    uint64_t consumed = chain_consumed(chain);
    slice_walk walk = {chain->first, chain->last, chain_offset(chain), chain_length(chain)};
    const struct chain_found *found = &chain->found;
    if (found->block && found->at > consumed && found->at - consumed <= n) {
        size_t before = (size_t)(found->at - consumed);
        walk.block = found->block;
        walk.offset = 0;
        walk.left -= before;
        n -= before;
    }
    while (walk.left > 0 && n >= slice_walk_span(&walk)) {
        n -= slice_walk_span(&walk);
        slice_walk_next(&walk);
    }
    if (walk.left > 0) {
        walk.offset += (uint32_t)n;
        walk.left -= n;
    }
    /* At the end the walk has no offset. */
    uint32_t into = walk.left > 0 || !walk.block ? walk.offset : walk.block->length;
    if (walk.block != chain->first)
        chain->found = (struct chain_found){walk.block, consumed + chain_length(chain) - walk.left - into};
    return walk;
}

size_t sluice_chain_skip(sluice_chain *chain, size_t n) {
    dead_list dead = {0};
    if (n > chain_length(chain))
        n = chain_length(chain);
    size_t left = n, blocks = chain->blocks;
    while (left > 0) {
        size_t here = chain_here(chain);
        if (left < here) {
            chain->front.at += left;
            break;
        }
        left -= here;
        block_release_to(pop_first(chain), &dead);
    }
    dead_list_put(&dead, chain->pool);
    tell_consumed(chain, blocks);
    return n;
}

/*
 * The chain's first block follows the last one of @held. If the chain was empty in between, no
 * append has set the link: the link of a block that left an empty chain is not set, and its slices
 * do not read it. A link that is set is not written again, because other threads may be following
 * it.
 */
static void link_held(const sluice_chain *chain, const sluice_slice *held) {
    if (held->last && chain->first && held->last != chain->first && held->last->next != chain->first)
        held->last->next = chain->first;
}

size_t chain_hold(sluice_chain *chain, size_t n, sluice_slice *held) {
    if (n == 0)
        return 0;
    link_held(chain, held);
    size_t added = 0;
    slice_walk walk = {chain->first, NULL, chain_offset(chain), chain_length(chain)};
    if (!held->first) {
        held->first = walk.block;
        held->offset = walk.offset;
    }
    held->length += n;
    for (;;) {
        if (walk.block != held->last) {
            block_ref_first(walk.block);
            held->last = walk.block;
            added++;
        }
        size_t here = slice_walk_span(&walk);
        if (here >= n)
            return added;
        n -= here;
        slice_walk_next(&walk);
    }
}

/* Of the blocks of @held, which end where the chain begins, beyond what the chain's first one
 * costs. */
static size_t footprint_before(const sluice_chain *chain, const sluice_slice *held) {
    size_t footprint = 0;
    for (sluice_block *block = held->first; block != chain->first; block = block->next) {
        sluice_block *next = block == held->last ? chain->first : block->next;
        if (!next || home_of(next) != home_of(block))
            footprint += footprint_of(home_of(block));
        if (!next)
            break;
    }
    return footprint;
}

void chain_put_back(sluice_chain *chain, sluice_slice *held, size_t blocks) {
    if (!held->first)
        return;
    bool shared = held->last == chain->first;
    size_t length = chain_length(chain) + held->length;
    uint64_t consumed = chain_consumed(chain) - held->length;
    link_held(chain, held);
    chain->footprint += footprint_before(chain, held);
    if (!chain->last)
        chain->last = held->last;
    chain->first = held->first;
    chain->front = (sluice_chain_front){held->first->data + held->offset, held->first->data + held->first->length};
    chain->behind = length - chain_here(chain);
    chain->passed = consumed + chain_here(chain);
    chain->blocks += blocks - shared;
    if (shared)
        sluice_block_release(held->last);
    *held = (sluice_slice){0};
}

/*
 * Appends views of @n bytes from @offset in @block on. The blocks themselves keep their place and
 * their link, which others may be following. On failure @to holds what has been appended so far.
 */
static int append_range(sluice_chain *to, sluice_block *block, uint32_t offset, size_t n, sluice_block *last) {
    while (n > 0) {
        uint32_t here = block == last ? (uint32_t)n : block->length - offset;
        if (here > n)
            here = (uint32_t)n;
        sluice_block *view;
        int error = pool_view(to->pool, block, offset, here, &view);
        if (error)
            return error;
        sluice_chain_append(to, view);
        n -= here;
        block = n > 0 ? block->next : NULL;
        offset = 0;
    }
    return 0;
}

/*
 * Whether @view continues in memory where the chain's last block ends, which is a view without
 * other references.
 */
static bool adjoins(const sluice_chain *chain, const sluice_block *view) {
    const sluice_block *last = chain->last;
    return last && last->kind == BLOCK_VIEW && last->parent == view->parent &&
           last->data + last->length == view->data && atomic_load_explicit(&last->refs, memory_order_acquire) == 1;
}

/* Puts the views in @part at the end of @to; one that adjoins the last is united with it. */
static void join(sluice_chain *to, sluice_chain *part) {
    if (part->first && adjoins(to, part->first)) {
        uint32_t more = part->first->length;
        grow_last(to, more);
        to->last->capacity += more;
        sluice_chain_skip(part, more);
    }
    if (!part->first)
        return;
    to->footprint += part->footprint;
    if (to->last) {
        if (home_of(to->last) == home_of(part->first))
            to->footprint -= footprint_of(home_of(part->first));
        to->last->next = part->first;
        to->behind += chain_length(part);
    } else {
        enter_first(to, part->first);
        to->behind = part->behind;
    }
    to->last = part->last;
    to->blocks += part->blocks;
}

/*
 * A piece of another pool's memory, represented as memory owned by the block that contains it,
 * wherever it has been meanwhile: a piece that returns to its own pool is a view again.
 */
static int make_guest(sluice_pool *pool, const slice_walk *walk, sluice_block **ret_guest) {
    uint8_t *data = walk->block->data + walk->offset;
    uint32_t length = (uint32_t)slice_walk_span(walk);
    sluice_block *home = home_of(walk->block);
    if (home->kind == BLOCK_POOLED && pool_is_one(home->pool, pool))
        return pool_view(pool, home, (uint32_t)(data - home->data), length, ret_guest);
    int error = pool_foreign(pool, data, length, release_guest, home, ret_guest);
    if (!error)
        block_ref(home);
    return error;
}

/* The same for blocks of another pool: a chain's dead blocks go home in one list, so none may be
 * another owner's. */
static int append_guests(sluice_chain *to, const sluice_slice *slice) {
    slice_walk walk = slice_walk_at(slice, 0);
    while (walk.left > 0) {
        sluice_block *guest;
        int error = make_guest(to->pool, &walk, &guest);
        if (error)
            return error;
        sluice_chain_append(to, guest);
        slice_walk_next(&walk);
    }
    return 0;
}

int sluice_chain_append_slice(sluice_chain *chain, const sluice_slice *slice) {
    sluice_chain part;
    bool guests = slice->first && !pool_is_one(slice->first->pool, chain->pool);
    init_part(&part, chain->pool);
    int error = guests ? append_guests(&part, slice)
                       : append_range(&part, slice->first, slice->offset, slice->length, slice->last);
    if (error)
        chain_clear(&part);
    else
        join(chain, &part);
    return error;
}

int sluice_chain_change_pool(sluice_chain *chain, sluice_pool *pool) {
    if (!chain->is_users)
        return -EINVAL;
    sluice_chain moved;
    chain_init(&moved, pool);
    moved.generation = chain->generation;
    moved.passed = chain_consumed(chain);
    moved.is_users = true;
    /* Without references of its own: the chain's are dropped when the guests have theirs. */
    const sluice_slice bytes = {
        .first = chain->first, .last = chain->last, .offset = chain_offset(chain), .length = chain_length(chain)};
    int error = sluice_chain_append_slice(&moved, &bytes);
    if (error)
        return error;
    if (chain->room.bytes > 0)
        give_room_back(chain);
    chain_clear(chain);
    *chain = moved;
    return 0;
}

int sluice_chain_move(sluice_chain *from, size_t n, sluice_chain *to) {
    if (n > chain_length(from))
        return -EAGAIN;
    if (!pool_is_one(from->pool, to->pool))
        return -EINVAL;
    sluice_chain part;
    init_part(&part, from->pool);
    int error = append_range(&part, from->first, chain_offset(from), n, NULL);
    if (error) {
        chain_clear(&part);
        return error;
    }
    join(to, &part);
    sluice_chain_skip(from, n);
    return 0;
}

/* Only the chain refers to it: no slice, no view, no receive into its free end. */
static bool is_alone(const sluice_block *block) {
    return atomic_load_explicit(&block->refs, memory_order_acquire) == 1;
}

static bool can_absorb(const sluice_block *to, sluice_block *from) {
    return to->kind == BLOCK_POOLED && is_alone(to) && to->beyond == 0 && is_alone(from) &&
           home_of(from)->kind == BLOCK_POOLED && block_tail(to) >= from->length;
}

/* The block behind @to leaves the chain. */
static sluice_block *unlink_next(sluice_chain *chain, sluice_block *to) {
    sluice_block *from = to->next, *home = home_of(from);
    bool is_last = from == chain->last;
    if (is_last || home_of(from->next) != home)
        chain->footprint -= footprint_of(home);
    to->next = is_last ? NULL : from->next;
    if (is_last)
        chain->last = to;
    chain->blocks--;
    return from;
}

void chain_compact(sluice_chain *chain) {
    dead_list dead = {0};
    size_t copied = 0;
    sluice_block *to = chain->first != chain->last ? chain->first->next : NULL;
    chain->found.block = NULL;
    while (to && to != chain->last) {
        if (!can_absorb(to, to->next)) {
            to = to->next;
            continue;
        }
        sluice_block *from = unlink_next(chain, to);
        memcpy(block_tail_data(to), from->data, from->length);
        to->length += from->length;
        copied += from->length;
        block_release_to(from, &dead);
    }
    if (copied > 0)
        pool_count_copied(chain->pool, copied);
    dead_list_put(&dead, chain->pool);
}

bool chain_is_sound(const sluice_chain *chain) {
    size_t length = 0, blocks = 0, footprint = 0;
    bool found = !chain->found.block;
    if (!chain->first)
        return !chain->last && !chain->front.at && !chain->front.end && chain->behind == 0 && chain->blocks == 0 &&
               chain->footprint == 0 && !chain->found.block;
    for (sluice_block *block = chain->first;; block = block->next) {
        if (!block || block->length == 0 || block->length > block->capacity || atomic_load(&block->refs) == 0)
            return false;
        if (block == chain->found.block)
            found = chain->found.at == chain->passed - chain->first->length + length;
        bool is_last = block == chain->last || !block->next;
        if (is_last || home_of(block->next) != home_of(block))
            footprint += footprint_of(home_of(block));
        length += block->length;
        blocks++;
        if (block == chain->last)
            break;
    }
    return chain_offset(chain) < chain->first->length && chain_here(chain) > 0 &&
           chain->front.end == chain->first->data + chain->first->length &&
           length - chain_offset(chain) == chain_length(chain) && blocks == chain->blocks &&
           footprint == chain->footprint && found;
}
