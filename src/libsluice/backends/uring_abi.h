/*
 * Parts of the kernel's interface that liburing 2.3 (Debian 12) does not define. The values are the
 * kernel's (include/uapi/linux/io_uring.h) and never change.
 */
#ifndef SLUICE_BACKENDS_URING_ABI_H
#define SLUICE_BACKENDS_URING_ABI_H

#include <liburing.h>

/* Linux 6.10: one receive fills several provided buffers. */
#ifndef IORING_RECVSEND_BUNDLE
#define IORING_RECVSEND_BUNDLE (1U << 4)
#endif
#ifndef IORING_FEAT_RECVSEND_BUNDLE
#define IORING_FEAT_RECVSEND_BUNDLE (1U << 14)
#endif

/* Linux 6.12: a wait with a least time. */
#ifndef IORING_FEAT_MIN_TIMEOUT
#define IORING_FEAT_MIN_TIMEOUT (1U << 15)
#endif

/* struct io_uring_getevents_arg, in which liburing 2.3 has padding in place of the least time. */
typedef struct uring_wait_arg {
    uint64_t signals;
    uint32_t signals_size;
    uint32_t least_us;
    uint64_t limit; /* of a struct __kernel_timespec */
} uring_wait_arg;
_Static_assert(sizeof(uring_wait_arg) == sizeof(struct io_uring_getevents_arg), "one layout");

/* io_uring_enable_rings() is declared by liburing 2.3 but missing from its shared library's
 * exports. */
static inline int uring_enable_rings(struct io_uring *ring) {
    return io_uring_register((unsigned)ring->ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
}

#endif
