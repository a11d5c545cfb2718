/**
 * @file chain.h
 * The received bytes of one stream: blocks in order, appended by reference at the end and consumed
 * at the front.
 *
 * Threads: a chain belongs to its pool's owner.
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

/**
 * What calls that are inlined know of a chain: its bytes in the first block. The fields are the
 * library's.
 */
typedef struct sluice_chain_front {
    const uint8_t *at;  /**< The next byte, or NULL. */
    const uint8_t *end; /**< Behind the block's last byte, or NULL. */
} sluice_chain_front;

/**
 * Makes an empty chain. The caller owns it; the pool, which may be a class of one, must outlive it.
 * @return 0, -ENOMEM
 */
SLUICE_API int sluice_chain_new(sluice_pool *pool, sluice_chain **ret_chain);

/** Releases every block in the chain, and the chain. NULL is allowed. */
SLUICE_API void sluice_chain_free(sluice_chain *chain);

/** Bytes in the chain that are not consumed. */
SLUICE_API size_t sluice_chain_length(const sluice_chain *chain);

/** Blocks and views that the chain references. */
SLUICE_API size_t sluice_chain_blocks(const sluice_chain *chain);

/**
 * Bytes of pools' memory that the chain keeps from others: whole blocks, however few bytes of them
 * are the chain's. What is charged to a peer whose bytes have not been consumed. Neighbours in the
 * same block count it once; the user's memory (sluice_chain_append_memory()) does not count, nor
 * does room that is reserved. Constant time.
 */
SLUICE_API size_t sluice_chain_footprint(const sluice_chain *chain);

/**
 * Bytes ever consumed: taken, skipped or moved away; less what sluice_reader_rewind() has put back.
 */
SLUICE_API uint64_t sluice_chain_consumed(const sluice_chain *chain);

/**
 * Appends a block of the chain's pool, of any class, with its data; the caller's reference goes to
 * the chain in any case. A block without data is released at once.
 */
SLUICE_API void sluice_chain_append(sluice_chain *chain, sluice_block *block);

/**
 * Makes room for bytes that the caller writes behind the chain's, as readv(2) does: the free end of
 * the last block, where that is worth a piece, and fresh blocks behind it. So small reads share
 * blocks while the chain holds something, and a packet that is kept keeps few of them. The bytes
 * are in the chain with sluice_chain_commit(); until then the room is the caller's, and the chain
 * may be consumed from, appended to and reserved again, which gives this room up. Only for a chain
 * made by sluice_chain_new(): those of connections and files are filled by their backend.
 * @param n        bytes that there should be room for, above 0; there may be more, and where the
 *                 pool has no more blocks, or @p max pieces do not hold as much, less
 * @param ret_room the pieces, to be filled one after the other
 * @param max      pieces, above 0; 1 will do for read(2)
 * @return how many pieces; -EINVAL, -ENOBUFS (no room: the pool is at its cap and every block is in
 *   use), -ENOMEM
 */
SLUICE_API int sluice_chain_reserve(sluice_chain *chain, size_t n, struct iovec *ret_room, int max);

/**
 * Appends the first @p n bytes of the room that was reserved last, and gives the rest of it back:
 * all with 0, after a read that brought nothing.
 * @return 0; -EINVAL (@p n is more than was reserved; nothing has changed), -ENOBUFS (too many
 *         views in use), -ENOMEM: only where the block in whose free end the room began has been
 *         consumed or followed meanwhile, and then none of the bytes are in the chain and the room
 *         is given back
 */
SLUICE_API int sluice_chain_commit(sluice_chain *chain, size_t n);

/**
 * Appends a slice's bytes by reference. The slice stays the caller's.
 *
 * It may be of another pool, and on this thread be what another pool's owner has handed over. Then
 * its blocks stand in the chain as the user's memory does (see sluice_chain_append_memory(): each
 * counts as a view, and sluice_slice_take() never refuses it), are counted as held by their own
 * pool, and go home when the last reference is gone.
 * @return 0, -ENOBUFS (too many views in use), -ENOMEM; on failure nothing changed
 */
SLUICE_API int sluice_chain_append_slice(sluice_chain *chain, const sluice_slice *slice);

/**
 * Gives the user's memory back: nothing of the library refers to it any more. Called on the thread
 * that has dropped the last reference, inside the call that did (one that consumes, releases,
 * frees, or a turn of a loop): it must not use the chain or the reader that is being consumed, and
 * is best brief.
 */
typedef void sluice_memory_released_fn(const void *memory, size_t n, void *user);

/**
 * Appends the user's own memory by reference: it is read in place, as what has been received is,
 * and may be taken, sent and moved on likewise. It must stay valid and unchanged until @p released
 * is called, which happens exactly once, when the last reference of a chain or a slice is gone. The
 * library does not write to it; only a WebSocket server's framer does, which unmasks in place.
 *
 * It takes no block of the pool: sluice_slice_take() never refuses a slice that consists of such
 * memory alone. Each piece counts as one view, of which a pool has a limited number.
 * @param memory   may be NULL when @p n is 0; then nothing is appended, and @p released is called
 *                 before this returns
 * @param released may be NULL, for memory that lasts
 * @return 0, -EINVAL (no memory), -EMSGSIZE (more than 4,294,967,295 bytes), -ENOBUFS (too many
 *         views in use), -ENOMEM; on failure nothing has changed and @p released is not called
 */
SLUICE_API int sluice_chain_append_memory(sluice_chain *chain, const void *memory, size_t n,
                                          sluice_memory_released_fn *released, void *user);

/**
 * Cuts the first @p n bytes out. References of blocks that are used up move to the slice; only the
 * block that the slice shares with the rest is counted once more.
 * @return 0, or -EAGAIN when the chain is shorter than @p n (nothing consumed)
 */
SLUICE_API int sluice_chain_take(sluice_chain *chain, size_t n, sluice_slice *ret_slice);

/** Consumes up to @p n bytes. @return how many */
SLUICE_API size_t sluice_chain_skip(sluice_chain *chain, size_t n);

/**
 * Moves the first @p n bytes to the end of another chain of the same pool, by reference.
 * @return 0, -EAGAIN (the source is shorter), -EINVAL (chains of two pools), -ENOBUFS (too many
 *         views in use), -ENOMEM; on failure nothing moved
 */
SLUICE_API int sluice_chain_move(sluice_chain *from, size_t n, sluice_chain *to);

#ifdef __cplusplus
}
#endif

#endif
