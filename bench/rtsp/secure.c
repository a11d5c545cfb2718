#include "rtsp/secure.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "common/process.h"

enum { MOST_SOCKETS = 1 << 17, READ_AHEAD = 64 << 10 };

static SSL_CTX *context; /* NULL: plain sockets */
static SSL *by_fd[MOST_SOCKETS];

void secure_use(const char *suite) {
    context = SSL_CTX_new(TLS_client_method());
    if (!context || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(context, suite) != 1)
        fail(EXIT_FAILURE, "TLS: no cipher suite %s", suite);
    SSL_CTX_set_mode(context,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    /* OpenSSL writes to the socket without MSG_NOSIGNAL. */
    signal(SIGPIPE, SIG_IGN);
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_default_read_buffer_len(context, READ_AHEAD);
}

/* What OpenSSL waits for; 0: it has failed, or the server has ended it. */
static short waits_for(SSL *ssl, int result) {
    switch (SSL_get_error(ssl, result)) {
    case SSL_ERROR_WANT_READ:
        return POLLIN;
    case SSL_ERROR_WANT_WRITE:
        return POLLOUT;
    default:
        return 0;
    }
}

void secure_start(int fd) {
    if (!context)
        return;
    SSL *ssl = fd < MOST_SOCKETS ? SSL_new(context) : NULL;
    if (!ssl || SSL_set_fd(ssl, fd) != 1)
        fail(EXIT_FAILURE, "TLS: no memory for a connection");
    by_fd[fd] = ssl;
}

short secure_shake(int fd) {
    if (!context)
        return 0;
    ERR_clear_error();
    int result = SSL_connect(by_fd[fd]);
    if (result == 1)
        return 0;
    short events = waits_for(by_fd[fd], result);
    if (!events)
        fail(EXIT_FAILURE, "TLS: handshake: %s", ERR_reason_error_string(ERR_peek_error()));
    return events;
}

ssize_t secure_send(int fd, const void *bytes, size_t size, int flags) {
    size_t done = 0, n;
    if (!context)
        return send(fd, bytes, size, flags | MSG_NOSIGNAL);
    while (done < size) {
        ERR_clear_error();
        int result = SSL_write_ex(by_fd[fd], (const uint8_t *)bytes + done, size - done, &n);
        if (result == 1) {
            done += n;
            continue;
        }
        if (!waits_for(by_fd[fd], result)) {
            errno = EPIPE;
            return -1;
        }
        break;
    }
    if (done > 0 || size == 0)
        return (ssize_t)done;
    errno = EAGAIN;
    return -1;
}

/* All that is there, as far as there is room. 0 and @ret_events 0: the end */
static size_t read_records(SSL *ssl, uint8_t *memory, size_t room, short *ret_events) {
    static uint8_t thrown_away[16384];
    size_t done = 0, n;
    while (done < room) {
        size_t most = memory || room - done < sizeof thrown_away ? room - done : sizeof thrown_away;
        ERR_clear_error();
        int result = SSL_read_ex(ssl, memory ? memory + done : thrown_away, most, &n);
        if (result != 1) {
            *ret_events = waits_for(ssl, result);
            break;
        }
        done += n;
    }
    return done;
}

ssize_t secure_recv(int fd, void *memory, size_t room, int flags) {
    if (!context)
        return recv(fd, memory, room, flags);
    short events = 0;
    size_t n = read_records(by_fd[fd], memory, room, &events);
    if (n > 0 || !events)
        return (ssize_t)n;
    errno = EAGAIN;
    return -1;
}
