/*
 * Connections that the data plane wants made. It may wait for nothing, neither a name server nor a
 * host; so it hands a job to a connector (the control plane has one) and gets it back by a posted
 * call, with a connected socket.
 */
#ifndef SLUICED_CONNECT_H
#define SLUICED_CONNECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <sluice/loop.h>

enum { CONNECT_HOST = 255, CONNECT_MS = 9000 };

/*
 * The owner's memory, which must stay until the job has come back, or the connector is gone. In
 * between it is the connector's.
 */
struct connect_job {
    char host[CONNECT_HOST + 1]; /* name or numeric address */
    uint16_t port;
    sluice_loop *loop;                     /* on which it comes back */
    void (*done)(struct connect_job *job); /* exactly once, unless the connector goes before */
    void *user;

    int fd;    /* connected, blocking, close-on-exec: whoever gets the job back owns it; or -1 */
    int error; /* 0, -errno; -ENOENT where there is no such name */
    struct sockaddr_storage address;
};

/* Takes a job. Any thread. */
typedef void connect_fn(void *connector, struct connect_job *job);

#endif
