#include "ctl/connection.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <sluice/conn.h>
#include <sluice/loop.h>
#include <sluice/pool.h>
#include <sluice/tls.h>

#include "shared/clock.h"

struct ctl_connection {
    int fd;
    unsigned patience_s;
    /* TLS; NULL: in plaintext */
    sluice_tls_context *context;
    sluice_pool *pool;
    sluice_loop *loop;
    sluice_conn *conn;
    sluice_tls *tls;
    int error;
    bool has_failed; /* the error is the connection's, and not that of TLS */
    bool is_whole;   /* the server has sent close_notify */
};

static void fail(char error[CTL_CONNECTION_ERROR], const char *what) {
    snprintf(error, CTL_CONNECTION_ERROR, "%s", what);
}

static const char *reason_of(int error) {
    return error == EAGAIN || error == EINPROGRESS ? "no answer in time" : strerror(error);
}

static int take_plain(int result, char error[CTL_CONNECTION_ERROR]) {
    fail(error, reason_of(-result));
    return -1;
}

/* Of each step, connecting included. A descriptor or -1, with errno. */
static int open_socket(int family, int type, int protocol) {
    const struct timeval timeout = {.tv_sec = CTL_CONNECTION_S};
    int fd = socket(family, type | SOCK_CLOEXEC, protocol);
    if (fd >= 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    }
    return fd;
}

static int connect_unix(const char *path, char error[CTL_CONNECTION_ERROR]) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof to.sun_path) {
        fail(error, "the path is too long");
        return -1;
    }
    strcpy(to.sun_path, path);
    int fd = open_socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    fail(error, reason_of(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* "HOST:PORT", "[HOST]:PORT": the host, without brackets, and the port. */
static bool split(const char *address, char host[256], char port[16]) {
    const char *colon = strrchr(address, ':');
    if (!colon || colon == address || strlen(colon + 1) > 5 || !colon[1])
        return false;
    size_t length = (size_t)(colon - address);
    if (*address == '[' && colon[-1] == ']') {
        address++;
        length -= 2;
    }
    if (length == 0 || length >= 256)
        return false;
    snprintf(host, 256, "%.*s", (int)length, address);
    snprintf(port, 16, "%s", colon + 1);
    return true;
}

static int connect_tcp(const char *host, const char *port, char error[CTL_CONNECTION_ERROR]) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    int result = getaddrinfo(host, port, &hints, &found);
    if (result != 0) {
        fail(error, gai_strerror(result));
        return -1;
    }
    int fd = -1;
    for (const struct addrinfo *one = found; one && fd < 0; one = one->ai_next) {
        fd = open_socket(one->ai_family, one->ai_socktype, one->ai_protocol);
        if (fd >= 0 && connect(fd, one->ai_addr, one->ai_addrlen) == 0)
            break;
        fail(error, reason_of(errno));
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

/* ---- TLS ---- */

static int take_tls(struct ctl_connection *connection, int result, char error[CTL_CONNECTION_ERROR]) {
    if (result < 0)
        snprintf(error, CTL_CONNECTION_ERROR, "TLS: %s",
                 connection->tls ? sluice_tls_reason(connection->tls) : strerror(-result));
    return result < 0 ? -1 : 0;
}

static void on_data(sluice_conn *conn, void *user) {
    struct ctl_connection *connection = user;
    int result = sluice_tls_receive(connection->tls);
    (void)conn;
    connection->is_whole |= result == -ENODATA;
    if (result < 0 && result != -ENODATA)
        connection->error = result;
}

static void on_end(sluice_conn *conn, int error, void *user) {
    struct ctl_connection *connection = user;
    (void)conn;
    if (connection->error)
        return;
    connection->has_failed = error;
    connection->error = error ? error : sluice_tls_end(connection->tls);
}

static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    const struct ctl_connection *connection = user;
    (void)conn;
    return sluice_tls_gather(connection->tls, iov, max);
}

static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    const struct ctl_connection *connection = user;
    (void)conn;
    sluice_tls_sent(connection->tls, bytes);
}

static void on_closed(sluice_conn *conn, void *user) {
    struct ctl_connection *connection = user;
    (void)conn;
    sluice_tls_free(connection->tls);
    connection->tls = NULL;
}

/* The socket is the connection's. */
static int begin_tls(struct ctl_connection *connection, const char *host, const char *ca,
                     char error[CTL_CONNECTION_ERROR]) {
    static const sluice_conn_events events = {.size = sizeof events,
                                              .on_data = on_data,
                                              .on_end = on_end,
                                              .on_gather = on_gather,
                                              .on_sent = on_sent,
                                              .on_closed = on_closed};
    const sluice_tls_context_options options = {
        .size = sizeof options, .role = SLUICE_TLS_CLIENT, .alpn = "http/1.1", .ca_path = ca};
    const sluice_loop_options epoll = {.size = sizeof epoll, .backend = SLUICE_BACKEND_EPOLL};
    int result = sluice_tls_context_new(&options, &connection->context);
    if (result) {
        snprintf(error, CTL_CONNECTION_ERROR, "%s: %s", ca ? ca : "the system's certificates",
                 result == -EPROTO ? "no certificate in PEM" : strerror(-result));
        return -1;
    }
    result = sluice_pool_new(NULL, &connection->pool);
    if (!result)
        result = sluice_loop_new(connection->pool, &epoll, &connection->loop);
    if (!result)
        result = sluice_conn_new(connection->loop, connection->fd, &events, connection, &connection->conn);
    if (!result)
        result = sluice_tls_new(connection->context, connection->conn, host, &connection->tls);
    return take_tls(connection, result, error);
}

/* Waits for something to happen, in time. */
static int turn(struct ctl_connection *connection, uint64_t deadline, char error[CTL_CONNECTION_ERROR]) {
    const uint64_t now = clock_ms();
    if (connection->has_failed && connection->error)
        return take_plain(connection->error, error);
    if (connection->error)
        return take_tls(connection, connection->error, error);
    if (now >= deadline)
        return take_plain(-EAGAIN, error);
    const int result = sluice_loop_turn(connection->loop, (int)(deadline - now));
    return result < 0 ? take_plain(result, error) : 0;
}

static int send_tls(struct ctl_connection *connection, const char *text, size_t size,
                    char error[CTL_CONNECTION_ERROR]) {
    const uint64_t deadline = clock_ms() + connection->patience_s * 1000ull;
    while (size > 0) {
        const struct iovec piece = {(void *)text, size};
        size_t done = 0;
        int result = sluice_tls_send(connection->tls, &piece, 1, &done);
        text += done;
        size -= done;
        if (result == -EAGAIN || result == -ENOBUFS)
            result = turn(connection, deadline, error);
        else
            result = take_tls(connection, result, error);
        if (result < 0)
            return -1;
    }
    return 0;
}

static ssize_t receive_tls(struct ctl_connection *connection, char *buffer, size_t size,
                           char error[CTL_CONNECTION_ERROR]) {
    const uint64_t deadline = clock_ms() + connection->patience_s * 1000ull;
    sluice_chain *chain = sluice_tls_chain(connection->tls);
    sluice_slice slice;
    size_t length;
    while ((length = sluice_chain_length(chain)) == 0) {
        if (connection->is_whole)
            return 0;
        if (turn(connection, deadline, error) < 0)
            return -1;
    }
    if (length > size)
        length = size;
    if (sluice_chain_take(chain, length, &slice) < 0)
        return take_plain(-ENOMEM, error);
    sluice_slice_copy(&slice, 0, buffer, length);
    sluice_slice_release(&slice);
    return (ssize_t)length;
}

/* ---- Both ---- */

struct ctl_connection *ctl_connection_open(const char *address, const char *ca, char error[CTL_CONNECTION_ERROR]) {
    static const char prefix[] = "unix:", secure[] = "https://";
    const bool is_unix = strncmp(address, prefix, sizeof prefix - 1) == 0;
    const bool is_secure = strncmp(address, secure, sizeof secure - 1) == 0;
    char host[256], port[16];
    struct ctl_connection *connection = calloc(1, sizeof *connection);
    if (!connection) {
        fail(error, strerror(ENOMEM));
        return NULL;
    }
    if (is_secure)
        address += sizeof secure - 1;
    connection->fd = -1;
    connection->patience_s = CTL_CONNECTION_S;
    if (!is_unix && !split(address, host, port))
        fail(error, "expected ADDR:PORT, https://ADDR:PORT or unix:PATH");
    else
        connection->fd = is_unix ? connect_unix(address + sizeof prefix - 1, error) : connect_tcp(host, port, error);
    if (connection->fd >= 0 && (!is_secure || begin_tls(connection, host, ca, error) == 0))
        return connection;
    ctl_connection_close(connection);
    return NULL;
}

void ctl_connection_close(struct ctl_connection *connection) {
    if (!connection)
        return;
    if (connection->fd >= 0 && !connection->conn)
        close(connection->fd);
    sluice_loop_free(connection->loop);
    sluice_pool_free(connection->pool);
    sluice_tls_context_unref(connection->context);
    free(connection);
}

void ctl_connection_set_patience(struct ctl_connection *connection, unsigned seconds) {
    const struct timeval patience = {.tv_sec = seconds};
    connection->patience_s = seconds;
    (void)setsockopt(connection->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

/*
 * With a time-out, the calls below are interrupted where the process is stopped for a while, though
 * no signal is handled: Ctrl-Z and fg.
 */
int ctl_connection_send(struct ctl_connection *connection, const char *text, size_t size,
                        char error[CTL_CONNECTION_ERROR]) {
    if (connection->tls)
        return send_tls(connection, text, size, error);
    while (size > 0) {
        ssize_t sent = send(connection->fd, text, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return take_plain(-errno, error);
        text += sent;
        size -= (size_t)sent;
    }
    return 0;
}

ssize_t ctl_connection_receive(struct ctl_connection *connection, char *buffer, size_t size,
                               char error[CTL_CONNECTION_ERROR]) {
    ssize_t got;
    if (connection->tls)
        return receive_tls(connection, buffer, size, error);
    do
        got = recv(connection->fd, buffer, size, 0);
    while (got < 0 && errno == EINTR);
    return got < 0 ? take_plain(-errno, error) : got;
}
