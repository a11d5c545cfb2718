/*
 * A read by a system call into as many blocks as it likely fills. epoll receives so, and io_uring
 * from connections that fill several blocks at a time, where the kernel has no bundles.
 */
#ifndef SLUICE_BACKENDS_BURST_H
#define SLUICE_BACKENDS_BURST_H

#include <sys/types.h>
#include <sys/uio.h>

#include "backends/backend.h"

enum {
    BURST_MOST = 64,        /* blocks of one read, at most */
    BURST_BYTES = 64 << 10, /* and bytes, but for a block that is larger */
    BURST_SHARE = 16,       /* under pressure at most one part in so many of the blocks left */
};

/* Where a read goes: behind the data of the aim, then into fresh blocks. */
typedef struct block_burst {
    struct iovec pieces[1 + BURST_MOST];
    sluice_block *blocks[BURST_MOST];
    size_t count;   /* blocks */
    size_t used;    /* of those, by burst_take() */
    uint32_t aimed; /* bytes of the first piece, where that is the aim; 0: it is a block's */
    size_t bytes;
} block_burst;

/* Blocks of that size that one read takes at most. */
uint32_t burst_most(uint32_t block_size);

/* The blocks that the io's next read may take, by what the last ones filled. */
uint32_t burst_blocks(const sluice_io *io, uint32_t most, bool pressed);

/* Room behind the io's aim, where it has one, and in @blocks of its chain's pool, as far as there
 * are some. burst_take() follows. */
void burst_find_room(sluice_io *io, uint32_t blocks, block_burst *ret_burst);

/* Does not wait. Bytes, 0 at the end, or -errno. */
ssize_t burst_read(const sluice_io *io, block_burst *burst);

/*
 * The same, and whether anything is left to be read, the end among it: without that the next
 * arrival alone would tell. burst_count_rest() has turned that on.
 */
ssize_t burst_read_counted(const sluice_io *io, block_burst *burst, bool *ret_left);
void burst_count_rest(const sluice_io *io, bool on);

/*
 * The @n bytes that came go to the chain, the blocks that they did not reach back to the pool.
 * Twice as many blocks next time after a read that filled all; fewer after one that filled few,
 * unless it is what such a read has left. 0, or why the stream cannot go on.
 */
int burst_take(sluice_io *io, block_burst *burst, uint32_t most, size_t n);

/* Whether @n bytes were all that it had room for: more may be there. */
static inline bool burst_is_full(const block_burst *burst, size_t n) {
    return n == burst->bytes;
}

#endif
