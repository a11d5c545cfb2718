/* A receiver of streams: the same work done in different ways, which the benchmarks compare. */
#ifndef BENCH_RECEIVE_RECEIVE_H
#define BENCH_RECEIVE_RECEIVE_H

#include <stdbool.h>
#include <stdint.h>

/* Settings; 0 is the variant's own default. */
typedef struct receive_options {
    uint32_t batch_us;   /* batching: our window; in the others a sleep before each wait */
    uint32_t buffer;     /* bytes of a connection's buffer */
    uint32_t block_size; /* of the pool, as the next two */
    uint32_t max_blocks;
    uint32_t stock_bytes;
    /* 1: the kernel may not hold back what is less than a packet (SO_RCVLOWAT) */
    uint32_t plain;
    uint32_t small_pages; /* 1: the pool does not ask for huge ones */
} receive_options;

/* One way to receive. */
typedef struct receive_variant {
    const char *name;
    const char *settings; /* what it knows of the options, words separated by spaces */
    bool parses;          /* it counts packets and their checksum */
    /* Listens, and receives until the meter is done. */
    void (*run)(const receive_options *options);
} receive_variant;

/* Of FLV streams. */
extern const receive_variant uring_variant;
extern const receive_variant epoll_pool_variant;
extern const receive_variant shared_buffer_variant;
extern const receive_variant read_malloc_variant;
extern const receive_variant read_buffer_variant;
extern const receive_variant evbuffer_variant;
extern const receive_variant raw_variant;

/* Of WebSocket messages, which are sent back. */
extern const receive_variant echo_uring_variant;
extern const receive_variant echo_epoll_pool_variant;
extern const receive_variant echo_read_write_variant;
extern const receive_variant echo_read_buffer_variant;
extern const receive_variant echo_both_buffer_variant;
extern const receive_variant echo_evbuffer_variant;

#endif
