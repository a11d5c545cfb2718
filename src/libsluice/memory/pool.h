/* Calls of the pool for backends and chains, in addition to the public ones. */
#ifndef SLUICE_MEMORY_POOL_H
#define SLUICE_MEMORY_POOL_H

#include <sys/uio.h>

#include <sluice/pool.h>

#include "memory/block.h"
#include "memory/slice_rooms.h"

enum { POOL_CLASSES = 1 + SLUICE_POOL_CLASSES };

/* Makes the calling thread the owner of the pool, with all its classes. */
void pool_bind(sluice_pool *pool);

/* For a chain of the pool, or of one of its classes: no other has had it. Owner only. */
uint64_t pool_next_generation(sluice_pool *pool);

/* Of the pool with all its classes. Owner only. */
struct slice_rooms *pool_slice_rooms(sluice_pool *pool);

/* A free block with one reference, growing the class by a slab where needed; NULL at the cap. Owner
 * only. */
sluice_block *pool_take(sluice_pool *pool);

/* Whether pool_take() has one to give, which it may grow the class for: it asks the system for the
 * memory, where sluice_pool_available() counts what there may be. Owner only. */
bool pool_can_take(sluice_pool *pool);

/* Where the system had no memory for a slab, asks it again: until then the slab counts for none.
 * pool_take() asks when it has none to give. Owner only. */
void pool_ask_again(sluice_pool *pool);

/*
 * Puts dead blocks (linked by next), of any class, back: one splice for the owner, one exchange for
 * any other thread.
 */
void pool_put_list(sluice_pool *pool, sluice_block *first, sluice_block *last, uint32_t count);

/*
 * A view of @length bytes at @offset of the block, which gets one more reference.
 * 0, -ENOBUFS when as many views as the pool allows are in use, -ENOMEM. Owner only.
 */
int pool_view(sluice_pool *pool, sluice_block *block, uint32_t offset, uint32_t length, sluice_block **ret_view);

/*
 * The user's memory as a block with one reference. Of its errors those of pool_view(). Owner only.
 */
int pool_foreign(sluice_pool *pool, const void *memory, uint32_t length, sluice_memory_released_fn *released,
                 void *user, sluice_block **ret_block);

/* Blocks without references, returned to the pool in one step. */
typedef struct dead_list {
    sluice_block *first, *last;
    uint32_t count;
    uint32_t foreign; /* of these, foreign memory with callbacks */
} dead_list;

void block_release_to(sluice_block *block, dead_list *dead);

/*
 * Calls the release callbacks of foreign memory, which may make any call: the caller's state must
 * be consistent before.
 */
void dead_list_put(dead_list *dead, sluice_pool *pool);

/* Moves blocks between held and kernel in the counts; called by the backend. */
void pool_to_kernel(sluice_pool *pool, sluice_block *block);
void pool_from_kernel(sluice_pool *pool, sluice_block *block);

uint32_t pool_reserve(const sluice_pool *pool);
uint32_t pool_block_size(const sluice_pool *pool);
uint32_t pool_max(const sluice_pool *pool);

/* Bytes of the pool to each view that it can have. */
uint32_t pool_bytes_per_view(const sluice_pool *pool);

/* Only the views needed for receiving and framing are left: release retained frames. */
bool pool_is_short_of_views(sluice_pool *pool);

/* Which class of its pool: below POOL_CLASSES. The block size that the user gave is 0. */
uint32_t pool_class(const sluice_pool *pool);

/* Whether all blocks of the pool are of one size: no other class has been requested. */
bool pool_has_one_class(const sluice_pool *pool);

/* Classes of one pool, or the same: their blocks may follow each other. */
bool pool_is_one(const sluice_pool *pool, const sluice_pool *other);

/* Slabs of all classes, the most and one of them: they keep their place and number when they go
 * from one to another. */
uint32_t pool_max_slabs(const sluice_pool *pool);
void pool_slab(const sluice_pool *pool, uint32_t index, struct iovec *ret_memory);

/* Free blocks that can be taken without mapping memory; takes in what other threads have
 * released. */
uint32_t pool_free_now(sluice_pool *pool);

/* Blocks that the class has with all the memory that it can get. Owner only. */
uint32_t pool_reach(const sluice_pool *pool);

/* Half of what the class can have is in use: receives should fill blocks to the end rather than
 * take fresh ones. */
bool pool_is_pressed(sluice_pool *pool);

/* Adds to the count of payload bytes that user space has copied. */
void pool_count_copied(sluice_pool *pool, size_t bytes);

/*
 * Notifications of the pool, with all its classes, to its backend. A pool has at most one observer
 * at a time. released: on any thread, at most once after each pool_want_release(). slab_ahead: on
 * the owner's thread, when the blocks run low: this memory, most likely untouched, is the next
 * piece of a class's last slab or of the next slab, and stays mapped as long as the pool.
 * Populating it saves the owner the page faults; it may be in use before that is done. May be NULL.
 */
typedef struct pool_observer {
    void (*slab_ahead)(void *context, const struct iovec *memory);
    void (*released)(void *context);
} pool_observer;

/*
 * 0, or -EBUSY when the pool has an observer. NULL removes; afterwards no call is under way. Owner
 * only.
 */
int pool_observe(sluice_pool *pool, const pool_observer *observer, void *context);

/*
 * Asks for released() when another thread next gives a block back, of any class. Returns false when
 * there may be blocks to take now. The request stays then, too: another class may have made it
 * before. At worst it wakes the owner once for nothing.
 */
bool pool_want_release(sluice_pool *pool);

#endif
