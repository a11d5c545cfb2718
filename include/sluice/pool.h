/**
 * @file pool.h
 * A pool of equal blocks that the kernel fills and the last reader gives back.
 *
 * A pool is a set of slabs, each cut into blocks of one size. A block is free, with the kernel
 * (published for receiving), or held (referenced by a chain or a slice): at every moment `total ==
 * free + kernel + held`.
 *
 * Besides the blocks of the pool's own size there can be others: classes, one for each size, which
 * share the pool's budget of bytes. See sluice_pool_class().
 *
 * Threads: one thread owns the pool: the one that made it, then the one that runs the loop which
 * uses it, and at last the one that frees that loop. Only the owner takes blocks and reads the
 * statistics. Any thread may release blocks and slices.
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
    SLUICE_POOL_CLASSES = 4, /**< Most block sizes that a pool can have besides its own. */
    /** Most views and foreign memory in use, as a multiple of the most blocks. */
    SLUICE_POOL_VIEWS_PER_BLOCK = 4,
};

/** Settings of a pool. Zero in any field means its default. */
typedef struct sluice_pool_options {
    size_t size; /**< sizeof(sluice_pool_options). */
    /** Bytes per block: a power of two, 512 to 1,048,576. Default 4096. */
    uint32_t block_size;
    /** Blocks per slab, the step by which the pool grows: 8 to 65,536. Default 1024. */
    uint32_t slab_blocks;
    /**
     * Most blocks ever: slab_blocks to 4,194,304, in at most 65,535 slabs. Default 16,384 (64 MiB
     * of 4 KiB blocks).
     */
    uint32_t max_blocks;
    /**
     * Blocks that sluice_slice_take() leaves for receiving: below max_blocks. Default a sixteenth
     * of max_blocks.
     */
    uint32_t reserve_blocks;
    bool no_huge_pages; /**< Do not ask for huge pages. */
    /**
     * Block sizes that sluice_pool_class() offers besides block_size: each a power of two, 512 to
     * 1,048,576, that divides a slab (slab_blocks x block_size) into at most 65,536 blocks. The
     * order does not matter, zeros are passed over. Default, when all are zero: 4096, 16,384 and
     * 65,536, those of them that divide a slab so.
     */
    uint32_t class_sizes[SLUICE_POOL_CLASSES];
} sluice_pool_options;

/**
 * What a pool holds at one moment: blocks of the size in question, unless said otherwise. Views,
 * and what is in bytes, are those of all sizes together.
 */
typedef struct sluice_pool_stats {
    size_t size;         /**< sizeof(sluice_pool_stats), set by the caller. */
    uint32_t block_size; /**< Bytes per block. */
    /** Most blocks ever, if all of the budget became blocks of this size. */
    uint32_t max;
    uint32_t total;     /**< Blocks that exist now. */
    uint32_t free;      /**< In the pool. */
    uint32_t kernel;    /**< Published to the kernel for receiving. */
    uint32_t held;      /**< Referenced by chains and slices. */
    uint32_t peak_held; /**< The largest @c held that a take has seen. */
    uint32_t reserve;   /**< Blocks that sluice_slice_take() leaves. */
    uint32_t views;     /**< Views (parts of blocks) in use; they own no memory of their own. */
    /** Pieces of the user's own memory in use: see sluice_chain_append_memory(). */
    uint32_t foreign;
    uint32_t slabs;      /**< Slabs mapped. */
    uint32_t huge_slabs; /**< Slabs that lie in reserved huge pages. */
    uint64_t bytes_max;  /**< The budget: max_blocks x block_size of the pool's options. */
    /** Of the budget, what lies in slabs, with the next one where it is mapped ahead. */
    uint64_t bytes_mapped;
    uint64_t bytes_held; /**< Of the budget, blocks that chains and slices reference. */
    /** Payload bytes that a call of this library has copied in user space, ever. */
    uint64_t bytes_copied;
} sluice_pool_stats;

/**
 * Makes a pool and maps its first slab. The caller owns it. It grows by a slab at a time, when no
 * block is free. One that serves a loop maps the next when an eighth of a slab is left, and the
 * loop has a thread make that memory ready.
 * @param options  settings, or NULL for the defaults
 * @param ret_pool the pool; untouched on failure
 * @return 0, -EINVAL (a setting out of range), -ENOMEM
 */
SLUICE_API int sluice_pool_new(const sluice_pool_options *options, sluice_pool **ret_pool);

/**
 * The class of the pool whose blocks have this size: the same pool, as far as its memory, its
 * thread and its end are concerned, but other blocks. Wherever a pool is asked for, a class will
 * do, and means its blocks: the ones that sluice_block_get() takes, that the statistics are about,
 * that a loop receives into unless a connection chooses otherwise (sluice_conn_set_block_size()).
 * Slices and chains of one pool may mix blocks of all sizes.
 *
 * Memory goes to the classes by slabs, as they need it. The first slab of a class is taken at its
 * first use, by this call, and stays with it: so much it has, however hungry the others are. Of the
 * rest, a slab of which no block is in use goes to a class that has run out. Blocks in use are
 * never moved, so a class may have to wait for that long.
 * @param pool       a pool, or a class of one
 * @param block_size one of class_sizes or the pool's own; 0: the pool's own
 * @param ret_class  the class; the pool's, and not to be freed
 * @return 0, -EINVAL (no such class), -ENOBUFS (a first use, and every slab is in use), -ENOMEM.
 *   Owner's thread only.
 */
SLUICE_API int sluice_pool_class(sluice_pool *pool, uint32_t block_size, sluice_pool **ret_class);

/**
 * Gives the pool up, with all its classes; for a class nothing happens. Blocks still held stay
 * valid: the memory goes with the last of them. NULL is allowed. Owner's thread only; the loops
 * that use the pool must be gone.
 */
SLUICE_API void sluice_pool_free(sluice_pool *pool);

/**
 * Reads the counts of a pool's blocks, or a class's, after taking in what other threads have
 * released. Owner's thread only.
 * @return 0, -EINVAL (a size that was not set; nothing is written)
 */
SLUICE_API int sluice_pool_get_stats(sluice_pool *pool, sluice_pool_stats *ret_stats);

/**
 * Blocks that receiving can still get: free, with the kernel, or in slabs not mapped yet or not
 * used by another class. Owner's thread only. Below the reserve, sluice_slice_take() refuses.
 */
SLUICE_API uint32_t sluice_pool_available(sluice_pool *pool);

/**
 * Takes a free block with no bytes in it, for data that the caller makes or receives itself. The
 * caller holds the one reference and gives it to sluice_chain_append() or sluice_block_release().
 * Owner's thread only.
 * @return 0, -ENOBUFS (the pool is at its cap and every block is in use), -ENOMEM
 */
SLUICE_API int sluice_block_get(sluice_pool *pool, sluice_block **ret_block);

/**
 * The block's memory; sluice_block_capacity() bytes of it may be written while the caller holds the
 * only reference.
 */
SLUICE_API uint8_t *sluice_block_data(sluice_block *block);

/** Bytes that the block can hold. */
SLUICE_API uint32_t sluice_block_capacity(const sluice_block *block);

/**
 * Says how many bytes at the block's front are data. Before it is appended to a chain, never after.
 * @return 0, or -EINVAL when @p length is over the capacity
 */
SLUICE_API int sluice_block_set_length(sluice_block *block, uint32_t length);

/**
 * Drops one reference; the last one gives the block back to its pool. NULL is allowed. Any thread.
 */
SLUICE_API void sluice_block_release(sluice_block *block);

#ifdef __cplusplus
}
#endif

#endif
