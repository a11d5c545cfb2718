/* What this kernel's io_uring can do, found by doing it. */
#include "backends/uring.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PROBE_BLOCK = 16, PROBE_BLOCKS = 4 };

typedef struct probe {
    struct io_uring ring;
    struct io_uring_buf_ring *buffers;
    unsigned char memory[PROBE_BLOCKS][PROBE_BLOCK];
    int sockets[2];
} probe;

/* Receives two and a half blocks' worth with these flags. The completion's result and flags, or -errno. */
static int receive_once(probe *p, unsigned flags, int *ret_result, unsigned *ret_flags) {
    static const char bytes[2 * PROBE_BLOCK + PROBE_BLOCK / 2];
    struct io_uring_sqe *sqe = io_uring_get_sqe(&p->ring);
    io_uring_prep_recv(sqe, p->sockets[0], NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = URING_PROBE_GROUP;
    sqe->ioprio |= (uint16_t)flags;
    if (write(p->sockets[1], bytes, sizeof bytes) != (ssize_t)sizeof bytes)
        return -errno;

    struct __kernel_timespec second = {.tv_sec = 1};
    struct io_uring_cqe *cqe;
    int error = io_uring_submit_and_wait_timeout(&p->ring, &cqe, 1, &second, NULL);
    if (error < 0)
        return error;
    error = io_uring_peek_cqe(&p->ring, &cqe);
    if (error < 0)
        return error;
    *ret_result = cqe->res;
    *ret_flags = cqe->flags;
    return 0;
}

static int open_probe(probe *p, void *ring_memory) {
    int error = io_uring_queue_init(8, &p->ring, 0);
    if (error)
        return error;
    struct io_uring_buf_reg registration = {
        .ring_addr = (uint64_t)(uintptr_t)ring_memory,
        .ring_entries = PROBE_BLOCKS,
        .bgid = URING_PROBE_GROUP,
    };
    error = io_uring_register_buf_ring(&p->ring, &registration, 0);
    if (!error && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p->sockets) < 0)
        error = -errno;
    if (error) {
        io_uring_queue_exit(&p->ring);
        return error == -EINVAL ? -EOPNOTSUPP : error;
    }
    p->buffers = ring_memory;
    io_uring_buf_ring_init(p->buffers);
    for (unsigned short i = 0; i < PROBE_BLOCKS; i++)
        io_uring_buf_ring_add(p->buffers, p->memory[i], PROBE_BLOCK, i, PROBE_BLOCKS - 1, i);
    io_uring_buf_ring_advance(p->buffers, PROBE_BLOCKS);
    return 0;
}

/* One try on a fresh ring. 0 and what came, or -errno. */
static int try_receive(unsigned flags, int *ret_result, unsigned *ret_flags) {
    const size_t size = PROBE_BLOCKS * sizeof(struct io_uring_buf);
    void *ring_memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ring_memory == MAP_FAILED)
        return -ENOMEM;
    probe p = {.sockets = {-1, -1}};
    int error = open_probe(&p, ring_memory);
    if (!error) {
        error = receive_once(&p, flags, ret_result, ret_flags);
        io_uring_queue_exit(&p.ring);
        close(p.sockets[0]);
        close(p.sockets[1]);
    }
    munmap(ring_memory, size);
    return error;
}

int uring_probe(const struct io_uring_params *params, uring_features *ret_features) {
    const unsigned multishot = IORING_RECV_MULTISHOT, bundle = IORING_RECV_MULTISHOT | IORING_RECVSEND_BUNDLE;
    int result = 0;
    unsigned flags = 0;

    /* The best first: each try takes locked memory that is given back only some time later. */
    if (params->features & IORING_FEAT_RECVSEND_BUNDLE) {
        int error = try_receive(bundle, &result, &flags);
        /* A kernel that ignores the flag brings one block. */
        if (!error && result > PROBE_BLOCK && (flags & IORING_CQE_F_MORE)) {
            *ret_features = (uring_features){.multishot = true, .bundle = true};
            return 0;
        }
    }
    int error = try_receive(multishot, &result, &flags);
    if (!error && result == PROBE_BLOCK && (flags & IORING_CQE_F_MORE)) {
        *ret_features = (uring_features){.multishot = true};
        return 0;
    }
    error = try_receive(0, &result, &flags);
    if (error)
        return error;
    if (result != PROBE_BLOCK || !(flags & IORING_CQE_F_BUFFER))
        return -EOPNOTSUPP;
    *ret_features = (uring_features){0};
    return 0;
}
