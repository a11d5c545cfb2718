/* What this kernel's io_uring can do, found by doing it. */
#include "backends/uring.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/probe_socket.h"

enum {
    PROBE_BLOCK = 256,
    PROBE_BLOCKS = 16,
    PROBE_ONCE = 2 * PROBE_BLOCK + PROBE_BLOCK / 2, /* bytes for the tries without bundles */
    PROBE_STOP = 1000,                              /* a bundle stops here, within a block, */
    PROBE_BYTES = 2000,                             /* although there is more: see try_bundles() */
};

typedef struct probe {
    struct io_uring ring;
    struct io_uring_buf_ring *buffers;
    unsigned char memory[PROBE_BLOCKS][PROBE_BLOCK];
} probe;

/* Of the stream that bundles are tried with: blocks in another order are not the same. */
static unsigned char byte_at(size_t place) {
    return (unsigned char)(place * 7 + place / PROBE_BLOCK * 13);
}

/* Waits for a completion. The completion's result and flags, or -errno. */
static int wait_once(probe *p, int *ret_result, unsigned *ret_flags) {
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
    io_uring_cqe_seen(&p->ring, cqe);
    return 0;
}

/* Receives into the blocks with these flags, when submitted. */
static void arm(probe *p, int fd, unsigned flags) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&p->ring);
    io_uring_prep_recv(sqe, fd, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = URING_PROBE_GROUP;
    sqe->ioprio |= (uint16_t)flags;
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

/* One try on a fresh ring. What @attempt returns, or -errno. */
static int try_on_ring(int (*attempt)(probe *, void *), void *user) {
    const size_t size = PROBE_BLOCKS * sizeof(struct io_uring_buf);
    void *ring_memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ring_memory == MAP_FAILED)
        return -ENOMEM;
    probe p;
    int error = open_probe(&p, ring_memory);
    if (!error) {
        error = attempt(&p, user);
        io_uring_queue_exit(&p.ring);
    }
    munmap(ring_memory, size);
    return error;
}

typedef struct receive {
    unsigned flags; /* in: of the submission; out: of the completion */
    int result;     /* of the completion */
} receive;

/* A socket that has received two and a half blocks' worth: of TCP, or where there is no loopback
 * one of a pair, whose other one is @ret_peer (else -1). */
static int open_received(int *ret_fd, int *ret_peer) {
    static const char bytes[PROBE_ONCE];
    int sockets[2];
    *ret_peer = -1;
    if (probe_socket_open(bytes, sizeof bytes, sizeof bytes - 1, ret_fd) == 0)
        return 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0)
        return -errno;
    if (write(sockets[1], bytes, sizeof bytes) != (ssize_t)sizeof bytes) {
        int error = -errno;
        close(sockets[0]);
        close(sockets[1]);
        return error;
    }
    *ret_fd = sockets[0];
    *ret_peer = sockets[1];
    return 0;
}

static int receive_once(probe *p, void *user) {
    receive *once = user;
    int fd, peer;
    int error = open_received(&fd, &peer);
    if (error)
        return error;
    arm(p, fd, once->flags);
    error = wait_once(p, &once->result, &once->flags);
    close(fd);
    if (peer >= 0)
        close(peer);
    return error;
}

/* The blocks of a completion, as the backend takes them, hold what comes at this place of the
 * stream. */
static bool is_in_order(const probe *p, unsigned id, size_t n, size_t place) {
    for (; n > 0; id++) {
        const struct io_uring_buf *entry = &p->buffers->bufs[id & (PROBE_BLOCKS - 1)];
        const unsigned char *block = p->memory[id & (PROBE_BLOCKS - 1)];
        size_t here = n < entry->len ? n : entry->len;
        if (here == 0 || here > PROBE_BLOCK)
            return false;
        for (size_t i = 0; i < here; i++)
            if (block[i] != byte_at(place++))
                return false;
        n -= here;
    }
    return true;
}

/*
 * A bundle, and what comes behind it. -EOPNOTSUPP where one receive does not fill several blocks,
 * or the case that shows what is wrong has not come; -EIO where they are not as they were sent.
 */
static int receive_bundles(probe *p, void *user) {
    const int *fd = user;
    bool armed = false;
    for (size_t place = 0; place < PROBE_BYTES;) {
        int result;
        unsigned flags;
        if (!armed)
            arm(p, *fd, IORING_RECV_MULTISHOT | IORING_RECVSEND_BUNDLE);
        int error = wait_once(p, &result, &flags);
        if (error)
            return error;
        armed = flags & IORING_CQE_F_MORE;
        if (result <= 0 || (size_t)result > PROBE_BYTES - place || !(flags & IORING_CQE_F_BUFFER))
            return -EOPNOTSUPP;
        if (place == 0 && (result != PROBE_STOP || !armed))
            return -EOPNOTSUPP;
        if (!is_in_order(p, flags >> IORING_CQE_BUFFER_SHIFT, (size_t)result, place))
            return -EIO;
        place += (size_t)result;
    }
    return 0;
}

/*
 * Over TCP, since some kernels bundle nothing else (6.12), and what comes is compared: Linux
 * 6.13.11 to 6.14.8 go on with a bundle that has stopped within a block, and put what follows into
 * the next block, so that there is a gap, and further bytes are out of order. That happens where
 * more has come meanwhile, by chance. Here it is always so.
 */
static int try_bundles(void) {
    unsigned char bytes[PROBE_BYTES];
    int fd;
    for (size_t i = 0; i < PROBE_BYTES; i++)
        bytes[i] = byte_at(i);
    int error = probe_socket_open(bytes, PROBE_BYTES, PROBE_STOP, &fd);
    if (error)
        return error;
    error = try_on_ring(receive_bundles, &fd);
    close(fd);
    return error;
}

int uring_probe(const struct io_uring_params *params, uring_features *ret_features) {
    /* The best first: each try takes locked memory that is given back only some time later. */
    bool offered = params->features & IORING_FEAT_RECVSEND_BUNDLE;
    int tried = offered ? try_bundles() : -EOPNOTSUPP;
    /* A machine that is very busy may be slow, or short of something for a moment: the loop would
     * go without bundles for as long as it lives. What has been received wrong is final. */
    if (offered && tried < 0 && tried != -EIO)
        tried = try_bundles();
    if (tried == 0) {
        *ret_features = (uring_features){.multishot = true, .bundle = true};
        return 0;
    }
    receive once = {.flags = IORING_RECV_MULTISHOT};
    int error = try_on_ring(receive_once, &once);
    if (!error && once.result == PROBE_BLOCK && (once.flags & IORING_CQE_F_MORE)) {
        *ret_features = (uring_features){.multishot = true, .bundle_rejected = offered};
        return 0;
    }
    once = (receive){0};
    error = try_on_ring(receive_once, &once);
    if (error)
        return error;
    if (once.result != PROBE_BLOCK || !(once.flags & IORING_CQE_F_BUFFER))
        return -EOPNOTSUPP;
    *ret_features = (uring_features){.bundle_rejected = offered};
    return 0;
}
