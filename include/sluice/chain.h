/**
 * @file chain.h
 * The unconsumed bytes of one stream, as references to blocks. Bytes are appended at the end and
 * consumed at the front.
 *
 * Threads: a chain is used on the thread that owns its pool.
 */
#ifndef SLUICE_CHAIN_H
#define SLUICE_CHAIN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <sluice/pool.h>
#include <sluice/slice.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A chain of blocks; opaque. */
typedef struct sluice_chain sluice_chain;

/** The bytes of a chain's first block, for inlined calls. Private to the library. */
typedef struct sluice_chain_front {
    const uint8_t *at;  /**< Next byte, or NULL. */
    const uint8_t *end; /**< One past the block's last byte, or NULL. */
} sluice_chain_front;

/**
 * Makes an empty chain, owned by the caller. The pool, or class of a pool, must outlive it.
 * @return 0, -ENOMEM
 */
SLUICE_API int sluice_chain_new(sluice_pool *pool, sluice_chain **ret_chain);

/** Frees the chain and releases its blocks. NULL is allowed. */
SLUICE_API void sluice_chain_free(sluice_chain *chain);

/** Number of unconsumed bytes. */
SLUICE_API size_t sluice_chain_length(const sluice_chain *chain);

/** Number of blocks and views that the chain references. */
SLUICE_API size_t sluice_chain_blocks(const sluice_chain *chain);

/**
 * Pool memory that the chain keeps in use, in bytes: the full size of each block, even if only a
 * few of its bytes are in the chain. Use it to charge unconsumed data to a peer. A block referenced
 * several times in a row counts once. The user's memory (sluice_chain_append_memory()) and reserved
 * room do not count. Constant time.
 */
SLUICE_API size_t sluice_chain_footprint(const sluice_chain *chain);

/**
 * Total bytes consumed (taken, skipped or moved to another chain), minus the bytes that
 * sluice_reader_rewind() restored.
 */
SLUICE_API uint64_t sluice_chain_consumed(const sluice_chain *chain);

/**
 * Appends a block, with its data. The block belongs to the chain's pool or to one of its classes.
 * The chain always takes the caller's reference; a block without data is released at once.
 */
SLUICE_API void sluice_chain_append(sluice_chain *chain, sluice_block *block);

/**
 * Reserves memory behind the chain's last byte that the caller fills, for example with readv(2). It
 * consists of the free end of the last block, if that is large enough to be useful, and of free
 * blocks. Small reads thus share a block while the chain is not empty, so that a retained packet
 * keeps few blocks in use.
 *
 * sluice_chain_commit() appends the bytes written. Until then the reserved memory belongs to the
 * caller. The chain may still be consumed from and appended to; another reservation replaces this
 * one. Only for chains made by sluice_chain_new(): the backend fills the chains of connections and
 * files.
 * @param n        number of bytes wanted, above 0. The result can be larger; it is smaller if the
 *                 pool has no more blocks or @p max pieces cannot hold @p n bytes
 * @param ret_room the pieces; fill them in order
 * @param max      capacity of @p ret_room in pieces, above 0. 1 is enough for read(2)
 * @return number of pieces; -EINVAL, -ENOBUFS (the pool is at its limit and every block is in use),
 *         -ENOMEM
 */
SLUICE_API int sluice_chain_reserve(sluice_chain *chain, size_t n, struct iovec *ret_room, int max);

/**
 * Appends the first @p n bytes of the last reservation and gives back the rest. 0 gives back all of
 * it, for a read without data.
 * @return 0; -EINVAL (@p n exceeds the reservation; nothing has changed); -ENOBUFS (too many views
 *         in use) or -ENOMEM: only if the reservation began in the free end of a block and that
 *         block has since been consumed, or another block has been appended. Then none of the bytes
 *         are in the chain and the reservation is released
 */
SLUICE_API int sluice_chain_commit(sluice_chain *chain, size_t n);

/**
 * Appends the bytes of a slice by reference. The caller keeps the slice.
 *
 * The slice may come from another pool, including one whose owner, another thread, handed the slice
 * to this thread. Its blocks are then treated like the user's memory (see
 * sluice_chain_append_memory()): each counts as a view, and sluice_slice_take() never rejects them.
 * They count as held in their own pool and return to it with the last reference.
 * @return 0, -ENOBUFS (too many views in use), -ENOMEM; on failure nothing has changed
 */
SLUICE_API int sluice_chain_append_slice(sluice_chain *chain, const sluice_slice *slice);

/**
 * Reports that the library no longer refers to the user's memory. Runs on the thread that dropped
 * the last reference, inside the call that dropped it (a call that consumes, releases or frees, or
 * a turn of a loop). It must not use the chain or the reader that is being consumed. Keep it short.
 */
typedef void sluice_memory_released_fn(const void *memory, size_t n, void *user);

/**
 * Appends the user's memory by reference. It is read in place like received data, and can be taken,
 * sent and moved. It must stay valid and unchanged until @p released is called, which happens
 * exactly once: when the last reference of a chain or a slice is dropped. The library does not
 * write to the memory, except that the framer of a WebSocket server unmasks in place.
 *
 * The memory uses no block of the pool: sluice_slice_take() never rejects a slice that consists
 * only of such memory. Each piece counts as one view; the number of views of a pool is limited.
 * @param memory   may be NULL if @p n is 0; then nothing is appended and @p released is called
 *                 before this call returns
 * @param released may be NULL if the memory outlives all references
 * @return 0, -EINVAL (no memory), -EMSGSIZE (more than 4,294,967,295 bytes), -ENOBUFS (too many
 *         views in use), -ENOMEM; on failure nothing has changed and @p released is not called
 */
SLUICE_API int sluice_chain_append_memory(sluice_chain *chain, const void *memory, size_t n,
                                          sluice_memory_released_fn *released, void *user);

/**
 * Removes the first @p n bytes and returns them as a slice. The references of fully consumed blocks
 * move to the slice; only a block shared by the slice and the rest gets another reference.
 * @return 0, or -EAGAIN if the chain has fewer than @p n bytes (nothing is consumed)
 */
SLUICE_API int sluice_chain_take(sluice_chain *chain, size_t n, sluice_slice *ret_slice);

/** Consumes up to @p n bytes. @return number of bytes consumed */
SLUICE_API size_t sluice_chain_skip(sluice_chain *chain, size_t n);

/**
 * Moves the first @p n bytes to the end of another chain of the same pool, by reference.
 * @return 0, -EAGAIN (the source has fewer bytes), -EINVAL (chains of different pools), -ENOBUFS
 *         (too many views in use), -ENOMEM; on failure nothing is moved
 */
SLUICE_API int sluice_chain_move(sluice_chain *from, size_t n, sluice_chain *to);

/**
 * Continues the chain in another pool, for a stream that moves to another loop. Its bytes move by
 * reference: they stay in blocks of the previous pool, as with sluice_chain_append_slice(). Framers
 * continue where they are, also in the middle of a message. A reservation is given back. Called on
 * the thread that owns @p pool, while no other thread uses the chain; a reader must be reset.
 * @return 0, -EINVAL (a chain of a connection or a file), -ENOBUFS (too many views in use),
 *         -ENOMEM; on failure nothing has changed
 */
SLUICE_API int sluice_chain_change_pool(sluice_chain *chain, sluice_pool *pool);

#ifdef __cplusplus
}
#endif

#endif
