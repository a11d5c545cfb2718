/* RTMP as publishers and players need it: reading messages out of chunks, and all that comes before
 * media. */
#ifndef BENCH_RTSP_RTMP_H
#define BENCH_RTSP_RTMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rtsp/opening.h"

enum {
    RTMP_STREAMS = 64, /* chunk streams: those that a header of one byte can name */
    RTMP_SET_CHUNK_SIZE = 1,
    RTMP_AUDIO = 8,
    RTMP_VIDEO = 9,
    RTMP_COMMAND = 20,
    RTMP_CHUNK = 60000,    /* ours: what FFmpeg sets */
    RTMP_MEDIA_STREAM = 1, /* the message stream that servers make first */
    RTMP_HEADER = 12,      /* of a message's first chunk; of the others 1 */
    RTMP_MOST_MESSAGE = 1 << 20,
};

/* A chunk stream of the peer's. */
typedef struct rtmp_stream {
    uint8_t *bytes; /* of the message that is coming */
    uint32_t have, length, room;
    uint8_t type;
    bool is_long; /* its time is written out, in each of its chunks */
} rtmp_stream;

typedef struct rtmp_chunks {
    uint32_t size; /* of the peer's chunks */
    rtmp_stream *streams;
} rtmp_chunks;

/* @return whether there may be more */
typedef bool rtmp_message_fn(void *user, uint8_t type, const uint8_t *payload, size_t size);

/* Messages, each when it is whole, until one says that there may be no more. @return as many bytes
 * as are done with; the others come again, and more. */
size_t rtmp_take(rtmp_chunks *chunks, const uint8_t *bytes, size_t size, rtmp_message_fn *message, void *user);

/* Gives up what it has kept. */
void rtmp_forget(rtmp_chunks *chunks);

/* What a client waits for, and what makes it wait for that. */
enum rtmp_step {
    RTMP_SHAKING,    /* begin(): the server's part of the handshake */
    RTMP_CONNECTING, /* shake_hands(): the answer to connect */
    RTMP_CREATING,   /* answered(): that to createStream */
    RTMP_STARTING,   /* answered(): that to publish or play */
    RTMP_READY,      /* answered() */
};

typedef struct rtmp_client {
    opening_client opening;
    enum rtmp_step step;
    rtmp_chunks chunks; /* as far as they were read */
    /* Of `in`: what is not a chunk yet; in the end, what came behind the last answer. */
    size_t have;
    uint8_t in[16384];
} rtmp_client;

/* The socket and the chunks are the receiver's, the client is given up afterwards. */
typedef void rtmp_ready_fn(rtmp_client *client);

/* Connects all, which publish or play APPLICATION/STREAM: until the server says that it begins.
 * Ends the process on failure. */
void rtmp_start(const opening *wanted, bool publishes, rtmp_ready_fn *ready);

/* A message in chunks of RTMP_CHUNK bytes: head and rest of its payload. @return where it ends */
uint8_t *rtmp_put(uint8_t *to, uint8_t type, uint32_t milliseconds, const void *head, size_t head_size,
                  const void *rest, size_t rest_size);

#endif
