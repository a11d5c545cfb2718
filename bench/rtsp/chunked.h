/* The body of an HTTP answer in chunks (RFC 9112, section 7.1). */
#ifndef BENCH_RTSP_CHUNKED_H
#define BENCH_RTSP_CHUNKED_H

#include <stddef.h>
#include <stdint.h>

typedef enum chunked_state {
    CHUNKED_SIZE,  /* digits of a chunk's size */
    CHUNKED_LINE,  /* what is left of the line behind them, extensions among it */
    CHUNKED_DATA,  /* so many bytes as are left */
    CHUNKED_AFTER, /* CR LF behind a chunk */
} chunked_state;

/* All zero at first. chunked_strip() makes all transitions. */
typedef struct chunked {
    chunked_state state;
    uint64_t left; /* of the chunk: counted in DATA, read so far in SIZE */
} chunked;

/* Takes what stands around the data out of the bytes, in place; they may end anywhere. What is
 * wrong, and the last chunk, end the process. @return bytes of data */
size_t chunked_strip(chunked *c, uint8_t *bytes, size_t size);

#endif
