/*
 * Frames that outlive their arrival: each is held for a second, or handed to another thread. It is
 * read, and its sum taken, when it is given up, so the sum proves that it has not changed. The
 * measured span is to begin when as many are held as are held at its end: what is given up in it is
 * then as much as arrives.
 *
 * What is held is bounded, for all variants alike. Held for a second: beyond the bound the oldest
 * frame goes early. Another thread: the receiver waits for it.
 */
#ifndef BENCH_RECEIVE_KEEP_H
#define BENCH_RECEIVE_KEEP_H

#include <stdint.h>

#include <sluice/slice.h>

#include "common/checksum.h"

struct evbuffer;

typedef enum keep_how {
    KEEP_NOTHING,
    KEEP_SECOND, /* released by the receiving thread, a second after its arrival */
    KEEP_THREAD, /* read and released by another thread, as soon as it gets to it */
} keep_how;

enum {
    KEEP_MOST_FRAMES = 8192,
    KEEP_MOST_QUEUED = 256,      /* frames that the other thread has not read */
    KEEP_MOST_BYTES = 64 << 20,  /* of payload */
    KEEP_POOL_BYTES = 256 << 20, /* of our variants' pool: blocks are not always full */
};

/* A frame, and what has to be released. */
typedef struct kept_frame {
    union {
        sluice_slice slice;
        uint8_t *memory; /* of malloc(3) */
        struct evbuffer *buffer;
    } of;
    const uint8_t *payload; /* in that memory */
    uint64_t until;         /* nanoseconds; set by keep_frame() */
    uint64_t index;         /* its place in its stream, from 0 */
    uint32_t size;          /* of the payload */
} kept_frame;

/* What a variant's frames are. */
typedef struct keep_kind {
    /* The first bytes of the payload, in the frame or copied to room. */
    const uint8_t *(*look)(kept_frame *frame, uint8_t room[CHECKSUM_BYTES]);
    void (*release)(kept_frame *frame);
} keep_kind;

/* What has been asked for. */
extern keep_how keep_asked;

/* The first call in a variant's run, if its frames are not of malloc(3). */
void keep_begin(const keep_kind *kind);

/* Takes over a frame. */
void keep_frame(const kept_frame *frame);

/* The same of one that is in memory of malloc(3). */
void keep_memory(uint8_t *memory, const uint8_t *payload, uint32_t size, uint64_t index);

/* The same of a copy. */
void keep_copy(const uint8_t *payload, uint32_t size, uint64_t index);

/* Gives up at least the oldest frame, or waits until the thread has; ends the process if there is
 * none. */
void keep_less(void);

#endif
