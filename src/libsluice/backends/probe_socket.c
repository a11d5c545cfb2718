#include "backends/probe_socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { PATIENCE_MS = 1000 };

static int set(int fd, int name, int value) {
    return setsockopt(fd, SOL_SOCKET, name, &value, sizeof value) < 0 ? -errno : 0;
}

/* To the address that it is bound to itself. Loopback may have an address and be down, or drop what
 * is sent: then nothing answers. */
static int connect_to_itself(int fd) {
    static const struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) < 0 ||
        bind(fd, (const struct sockaddr *)&address, length) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) < 0 ||
        connect(fd, (const struct sockaddr *)&address, length) < 0)
        return -errno;
    return 0;
}

static int send_all(int fd, const char *bytes, size_t n, int flags) {
    ssize_t sent = send(fd, bytes, n, flags | MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent < 0 ? -errno : (size_t)sent < n ? -ENOBUFS : 0;
}

/* Until so many bytes wait to be received. */
static int wait_for(int fd, size_t n) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    int error = set(fd, SO_RCVLOWAT, (int)n);
    if (!error && poll(&ready, 1, PATIENCE_MS) != 1)
        error = -ETIMEDOUT;
    return error ? error : set(fd, SO_RCVLOWAT, 1);
}

static int prepare(int fd, const char *bytes, size_t n, size_t stop) {
    static const struct linger reset = {.l_onoff = 1};
    if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) < 0)
        return -errno;
    int error = set(fd, SO_OOBINLINE, 1);
    if (!error)
        error = connect_to_itself(fd);
    if (!error)
        error = send_all(fd, bytes, stop + 1, MSG_OOB);
    if (!error)
        error = send_all(fd, bytes + stop + 1, n - stop - 1, 0);
    return error ? error : wait_for(fd, n);
}

int probe_socket_open(const void *bytes, size_t n, size_t stop, int *ret_fd) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int error = prepare(fd, bytes, n, stop);
    if (error)
        close(fd);
    else
        *ret_fd = fd;
    return error;
}
