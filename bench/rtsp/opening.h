/* All connections of a program: made at the same time, so many of them at once. */
#ifndef BENCH_RTSP_OPENING_H
#define BENCH_RTSP_OPENING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* By default: less than any server's backlog, and enough for its windows not to be waited for. */
enum { OPENING_AT_ONCE = 64, OPENING_MOST_AT_ONCE = 4096 };

/* Connections to the port on 127.0.0.1. */
typedef struct opening {
    uint16_t port;
    uint32_t count;
    uint32_t at_once;                    /* so many have begun and are not ready; 1 at least */
    const char *(*name)(uint32_t index); /* of the stream that is published or played */
} opening;

/* What is said on each of them until media flow. Clients have this at their beginning. */
typedef struct opening_client {
    uint32_t index;
    int fd; /* does not block; for secure_send() and secure_recv() */
    const char *name;
} opening_client;

typedef struct opening_dialog {
    /* Of a client: zero but for the above when it begins, given up when it is ready. */
    size_t size;
    /* Connected, by TLS after the handshake. */
    void (*begin)(void *client);
    /* There is something to read. @return whether that was all; NULL: nothing is answered. */
    bool (*go_on)(void *client);
    /* The socket is the receiver's. */
    void (*ready)(void *client);
} opening_dialog;

/* All are ready. A connection that fails, or no answer at all for 10 s, ends the process. */
void open_all(const opening *wanted, const opening_dialog *dialog);

#endif
