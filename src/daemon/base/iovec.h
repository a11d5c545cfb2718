#ifndef SLUICE_DAEMON_IOVEC_H
#define SLUICE_DAEMON_IOVEC_H

#include <stddef.h>
#include <sys/uio.h>

/* The sum of the pieces' lengths. */
static inline size_t iovec_bytes(const struct iovec *iov, size_t count) {
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += iov[i].iov_len;
    return bytes;
}

#endif
