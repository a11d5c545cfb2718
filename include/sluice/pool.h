/**
 * @file pool.h
 * A pool of equal-sized blocks. The kernel receives into them; a block returns to the pool with its
 * last reference.
 *
 * A pool consists of slabs, each divided into blocks of one size. A block is free, with the kernel
 * (published for receiving), or held (referenced by a chain or a slice). At any time
 * `total == free + kernel + held`.
 *
 * A pool can have further block sizes, called classes, which share the pool's byte budget. See
 * sluice_pool_class().
 *
 * Threads: one thread owns the pool: first the thread that made it, then the thread that runs its
 * loop, finally the thread that frees that loop. Only the owner takes blocks and reads statistics.
 * Any thread may release blocks and slices.
 */
#ifndef SLUICE_POOL_H
#define SLUICE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A pool of blocks; opaque. */
typedef struct sluice_pool sluice_pool;
/** One block of memory with a reference count; opaque. */
typedef struct sluice_block sluice_block;

enum {
    SLUICE_POOL_CLASSES = 4, /**< Maximum number of block sizes besides the pool's own. */
    /** Maximum number of views and pieces of user memory in use, as a multiple of max_blocks. */
    SLUICE_POOL_VIEWS_PER_BLOCK = 4,
};

/** Settings of a pool. Zero in any field means its default. */
typedef struct sluice_pool_options {
    size_t size; /**< sizeof(sluice_pool_options). */
    /** Bytes per block: a power of two, 512 to 1,048,576. Default 4096. */
    uint32_t block_size;
    /** Blocks per slab: 8 to 65,536. The pool grows by whole slabs. Default 1024. */
    uint32_t slab_blocks;
    /**
     * Maximum number of blocks: slab_blocks to 4,194,304, in at most 65,535 slabs. Default 16,384
     * (64 MiB with 4 KiB blocks).
     */
    uint32_t max_blocks;
    /**
     * Blocks that sluice_slice_take() leaves for receiving: less than max_blocks. Default
     * max_blocks / 16.
     */
    uint32_t reserve_blocks;
    bool no_huge_pages; /**< Do not ask for huge pages. */
    /**
     * Block sizes for sluice_pool_class() besides block_size: each a power of two, 512 to
     * 1,048,576, that divides a slab (slab_blocks x block_size) into at most 65,536 blocks. In any
     * order; zeros are ignored. If all are zero: those of 4096, 16,384 and 65,536 that divide a
     * slab this way.
     */
    uint32_t class_sizes[SLUICE_POOL_CLASSES];
} sluice_pool_options;

/**
 * State of a pool. The block counts are for one block size; views, foreign, slabs and byte counts
 * cover all sizes.
 */
typedef struct sluice_pool_stats {
    size_t size;         /**< sizeof(sluice_pool_stats), set by the caller. */
    uint32_t block_size; /**< Bytes per block. */
    /** Maximum number of blocks if the whole budget were used for this size. */
    uint32_t max;
    uint32_t total;     /**< Blocks that exist now. */
    uint32_t free;      /**< In the pool. */
    uint32_t kernel;    /**< Published to the kernel for receiving. */
    uint32_t held;      /**< Referenced by chains or slices. */
    uint32_t peak_held; /**< Highest @c held after any take. */
    uint32_t reserve;   /**< Blocks that sluice_slice_take() leaves free. */
    /** Views (parts of blocks) in use; they have no memory of their own. One that another thread
     *  releases may count for a moment after its block is free. */
    uint32_t views;
    /** Pieces of user memory in use: see sluice_chain_append_memory(). */
    uint32_t foreign;
    uint32_t slabs;      /**< Slabs mapped. */
    uint32_t huge_slabs; /**< Slabs in reserved huge pages. */
    uint64_t bytes_max;  /**< The budget: max_blocks x block_size of the pool's options. */
    /** Mapped part of the budget, including a slab mapped ahead of need. */
    uint64_t bytes_mapped;
    uint64_t bytes_held; /**< Bytes of blocks referenced by chains or slices. */
    /** Payload bytes copied in user space by calls of this library, in total. */
    uint64_t bytes_copied;
} sluice_pool_stats;

/**
 * Makes a pool and maps its first slab. The caller owns the pool. It grows by one slab whenever no
 * block is free. A pool that serves a loop maps the next slab when an eighth of a slab is left; a
 * thread of the loop prepares that memory.
 * @param options  settings, or NULL for the defaults
 * @param ret_pool the pool; untouched on failure
 * @return 0, -EINVAL (a setting is out of range), -ENOMEM
 */
SLUICE_API int sluice_pool_new(const sluice_pool_options *options, sluice_pool **ret_pool);

/**
 * Returns the class of a pool for a block size. A class shares its pool's memory, owner thread and
 * lifetime, and differs in its blocks. Every call that takes a pool accepts a class and then uses
 * its blocks: sluice_block_get() takes them, the statistics count them, and a loop receives into
 * them unless a connection chooses another size (sluice_conn_set_block_size()). The slices and
 * chains of a pool may mix blocks of all sizes.
 *
 * Memory is assigned to classes in slabs, on demand. This call assigns the first slab to a class at
 * its first use; the class keeps that slab permanently. Of the others, a slab with no block in use
 * can be reassigned to a class that has run out. Blocks in use are never moved, so a class may have
 * to wait until a slab is unused.
 * @param pool       a pool, or one of its classes
 * @param block_size one of class_sizes or the pool's own size; 0: the pool's own
 * @param ret_class  the class; owned by the pool, not to be freed
 * @return 0, -EINVAL (no such class), -ENOBUFS (first use, and every slab is in use), -ENOMEM.
 *         Owner's thread only.
 */
SLUICE_API int sluice_pool_class(sluice_pool *pool, uint32_t block_size, sluice_pool **ret_class);

/**
 * Frees a pool and all its classes; no effect on a class. Blocks that are still held stay valid:
 * the memory is freed with the last of them. NULL is allowed. Owner's thread only. Free the loops
 * that use the pool first.
 */
SLUICE_API void sluice_pool_free(sluice_pool *pool);

/**
 * Reads the counts for a pool or a class, including blocks that other threads have released.
 * Owner's thread only.
 * @return 0, -EINVAL (ret_stats->size is not set; nothing is written)
 */
SLUICE_API int sluice_pool_get_stats(sluice_pool *pool, sluice_pool_stats *ret_stats);

/**
 * Number of blocks still available for receiving: free, with the kernel, or in slabs that are not
 * mapped yet or not used by another class. Once the system has refused the memory for a slab,
 * unmapped slabs do not count until it grants it; a loop of the pool asks it once a turn.
 * sluice_slice_take() fails when this is at or below the reserve, which is then reduced in
 * proportion. Owner's thread only.
 */
SLUICE_API uint32_t sluice_pool_available(sluice_pool *pool);

/**
 * Takes a free, empty block for data that the caller produces or receives itself. The caller holds
 * its only reference and passes it to sluice_chain_append() or sluice_block_release(). Owner's
 * thread only.
 * @return 0, -ENOBUFS (the pool is at its limit and every block is in use), -ENOMEM
 */
SLUICE_API int sluice_block_get(sluice_pool *pool, sluice_block **ret_block);

/**
 * The block's memory. While the caller holds the only reference, it may write up to
 * sluice_block_capacity() bytes.
 */
SLUICE_API uint8_t *sluice_block_data(sluice_block *block);

/** Capacity of the block in bytes. */
SLUICE_API uint32_t sluice_block_capacity(const sluice_block *block);

/**
 * Sets the number of data bytes at the block's front. Only before the block is appended to a chain.
 * @return 0, or -EINVAL if @p length exceeds the capacity
 */
SLUICE_API int sluice_block_set_length(sluice_block *block, uint32_t length);

/** Drops one reference; the last one returns the block to its pool. NULL is allowed. Any thread. */
SLUICE_API void sluice_block_release(sluice_block *block);

#ifdef __cplusplus
}
#endif

#endif
