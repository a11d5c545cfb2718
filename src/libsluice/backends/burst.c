#include "backends/burst.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "backends/aim.h"
#include "memory/pool.h"

uint32_t burst_most(uint32_t block_size) {
    uint32_t most = BURST_BYTES / block_size;
    return most < 1 ? 1 : most < BURST_MOST ? most : BURST_MOST;
}

uint32_t burst_blocks(const sluice_io *io, uint32_t most, bool pressed) {
    uint32_t blocks = io->burst ? io->burst : 1;
    if (io->one_block)
        most = 1;
    if (pressed) {
        uint32_t share = sluice_pool_available(io->chain.pool) / BURST_SHARE;
        if (most > share)
            most = share > 0 ? share : 1;
    }
    return blocks < most ? blocks : most;
}

void burst_find_room(sluice_io *io, uint32_t blocks, block_burst *ret_burst) {
    struct iovec *piece = ret_burst->pieces;
    ret_burst->aimed = io->aim ? block_tail(io->aim) : 0;
    if (ret_burst->aimed > 0)
        *piece++ = (struct iovec){block_tail_data(io->aim), ret_burst->aimed};
    ret_burst->bytes = ret_burst->aimed;
    ret_burst->count = ret_burst->used = 0;
    while (ret_burst->count < blocks) {
        sluice_block *block = pool_take(io->chain.pool);
        if (!block)
            break;
        ret_burst->blocks[ret_burst->count++] = block;
        ret_burst->bytes += block->capacity;
        *piece++ = (struct iovec){block->data, block->capacity};
    }
}

ssize_t burst_read(const sluice_io *io, block_burst *burst) {
    struct msghdr message = {.msg_iov = burst->pieces, .msg_iovlen = burst->count + (burst->aimed > 0)};
    ssize_t n;
    if (message.msg_iovlen == 1)
        n = recv(io->fd, burst->pieces[0].iov_base, burst->pieces[0].iov_len, MSG_DONTWAIT);
    else
        n = recvmsg(io->fd, &message, MSG_DONTWAIT);
    return n < 0 ? -errno : n;
}

/* The kernel then says with each recvmsg() how much is left (TCP_INQ, Linux 4.18). */
void burst_count_rest(const sluice_io *io, bool on) {
    const int value = on;
    (void)setsockopt(io->fd, IPPROTO_TCP, TCP_INQ, &value, sizeof value);
}

ssize_t burst_read_counted(const sluice_io *io, block_burst *burst, bool *ret_left) {
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {
        .msg_iov = burst->pieces,
        .msg_iovlen = burst->count,
        .msg_control = &control,
        .msg_controllen = sizeof control,
    };
    ssize_t n = recvmsg(io->fd, &message, MSG_DONTWAIT);
    const struct cmsghdr *header = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    int left = 1;
    if (header && header->cmsg_level == IPPROTO_TCP && header->cmsg_type == TCP_CM_INQ)
        left = *(const int *)(const void *)CMSG_DATA(header);
    *ret_left = n > 0 && left > 0;
    return n < 0 ? -errno : n;
}

/*
 * Twice as many after a read that filled all; else fewer when it filled few, with one to spare. A
 * read behind one that filled all has the rest of the same frame: that does not say how many the
 * next frame will fill. Nor does a read that found nothing.
 */
static void set_blocks(sluice_io *io, const block_burst *burst, uint32_t most, bool full) {
    uint32_t blocks = (uint32_t)burst->count;
    if (blocks == 0)
        return;
    if (full)
        blocks *= 2;
    else if (!io->burst_full)
        blocks -= (uint32_t)(burst->count - burst->used) / 2;
    io->burst = (uint8_t)(blocks < most ? blocks : most);
    io->burst_full = full;
}

int burst_take(sluice_io *io, block_burst *burst, uint32_t most, size_t n) {
    const size_t read = n;
    bool full = burst_is_full(burst, n);
    int error = 0;
    if (burst->aimed > 0 && n > 0) {
        uint32_t here = n < burst->aimed ? (uint32_t)n : burst->aimed;
        error = aim_filled(io, here);
        n -= here;
    }
    for (; n > 0 && !error; burst->used++) {
        sluice_block *block = burst->blocks[burst->used];
        block->length = n < block->capacity ? (uint32_t)n : block->capacity;
        n -= block->length;
        aim_drop(io);
        sluice_chain_append(&io->chain, block);
    }
    if (read > 0)
        set_blocks(io, burst, most, full);
    /* From the back: the block taken first is on top again. */
    while (burst->count > burst->used)
        sluice_block_release(burst->blocks[--burst->count]);
    return error;
}
