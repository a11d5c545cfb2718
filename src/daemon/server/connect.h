/*
 * Outgoing connections of the data plane, which must not block on name lookups or hosts. A job is
 * passed to a connector (part of the control plane) and returned by a posted call, with a connected
 * socket and what TLS needs. The handshake is the receiver's.
 */
#ifndef SLUICED_CONNECT_H
#define SLUICED_CONNECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <sluice/loop.h>
#include <sluice/tls.h>

enum { CONNECT_HOST = 255, CONNECT_MS = 9000 };

/*
 * The owner's memory, which must stay until the job has come back, or the connector is gone. In
 * between it is the connector's.
 */
struct connect_job {
    char host[CONNECT_HOST + 1]; /* name or numeric address */
    uint16_t port;
    bool is_secure;                        /* a TLS handshake follows */
    const char *alpn;                      /* offered in it (RFC 7301); static; NULL: nothing */
    bool sends_media;                      /* the kernel may encrypt what is sent (--ktls) */
    sluice_loop *loop;                     /* on which it comes back */
    void (*done)(struct connect_job *job); /* exactly once, unless the connector goes before */
    void *user;

    int fd;    /* connected, blocking, close-on-exec, owned by the receiver of the job; or -1 */
    int error; /* 0, -errno; -ENOENT where there is no such name */
    /* of a connection with TLS: a reference, owned by the receiver of the job; or NULL */
    sluice_tls_context *context;
    struct sockaddr_storage address;
};

/* Takes a job. Any thread. */
typedef void connect_fn(void *connector, struct connect_job *job);

#endif
