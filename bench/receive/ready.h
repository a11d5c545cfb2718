/* The loop under the baselines that read: epoll, level-triggered, a handler for each descriptor
 * that is readable. */
#ifndef BENCH_RECEIVE_READY_H
#define BENCH_RECEIVE_READY_H

#include <stddef.h>
#include <sys/uio.h>

#include "receive/receive.h"

enum {
    /* Of a readiness at most, so that others get their turn; the largest read of all variants. */
    READY_BYTES = 64 << 10,
};

/* A connection; what a handler knows of it stands behind this. */
typedef struct ready_stream {
    int fd; /* non-blocking */
} ready_stream;

typedef struct ready_handler {
    size_t stream_size; /* of a struct that begins with ready_stream; the rest is zero at first */
    void (*readable)(ready_stream *stream, const receive_options *options);
} ready_handler;

/* Listens and runs until the meter is done. */
void ready_run(const receive_options *options, const ready_handler *handler);

/* read(2). @return bytes, 0 when there is nothing now; ends the process at the end of the stream
 * and at errors */
size_t ready_read(const ready_stream *stream, void *buffer, size_t size);

/* The same by readv(2). */
size_t ready_read_pieces(const ready_stream *stream, const struct iovec *pieces, int count);

#endif
