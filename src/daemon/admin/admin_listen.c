#include "daemon/admin/admin_listen.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/address.h"
#include "daemon/base/log.h"

enum { BACKLOG = 64 };

static struct sockaddr_un unix_address(const struct admin_listener_option *option) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, option->path, sizeof address.sun_path);
    return address;
}

/* A socket without a listener, as left by a server that was killed. */
static bool is_abandoned(const struct sockaddr_un *address) {
    struct stat status;
    if (lstat(address->sun_path, &status) < 0 || !S_ISSOCK(status.st_mode))
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool refused = fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof *address) < 0 &&
                   errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return refused;
}

static int bind_unix(int fd, const struct admin_listener_option *option) {
    struct sockaddr_un address = unix_address(option);
    if (is_abandoned(&address))
        (void)unlink(address.sun_path);
    /* From the first moment on; there are no other threads yet. */
    mode_t before = umask(0177);
    int result = bind(fd, (struct sockaddr *)&address, sizeof address);
    umask(before);
    return result;
}

static int bind_tcp(int fd, const struct admin_listener_option *option) {
    const int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (option->address.ss_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    return bind(fd, (const struct sockaddr *)&option->address, address_length(&option->address));
}

/* As it is bound: the system may have chosen the port. */
static void name(int fd, const struct admin_listener_option *option, char *text, size_t size) {
    struct sockaddr_storage bound = option->address;
    socklen_t length = sizeof bound;
    char address[ADDRESS_TEXT];
    if (option->is_unix) {
        snprintf(text, size, "unix:%s", option->path);
        return;
    }
    if (fd >= 0)
        (void)getsockname(fd, (struct sockaddr *)&bound, &length);
    address_format(&bound, address);
    snprintf(text, size, "%s", address);
}

/* A descriptor or -errno. */
static int open_socket(const struct admin_listener_option *option) {
    int family = option->is_unix ? AF_UNIX : option->address.ss_family;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if ((option->is_unix ? bind_unix(fd, option) : bind_tcp(fd, option)) < 0 || listen(fd, BACKLOG) < 0) {
        int error = -errno;
        close(fd);
        return error;
    }
    return fd;
}

static int adopt_socket(int fd) {
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : fd;
}

int admin_listen(const struct admin_listener_option *option) {
    char text[sizeof option->path + 8];
    int fd = option->fd ? adopt_socket(option->fd) : open_socket(option);
    name(fd, option, text, sizeof text);
    const log_field fields[] = {{"proto", "admin"}, {"address", text}, {"tls", "yes"}};
    if (fd >= 0)
        log_write(LOG_INFO, "listening", fields, option->tls ? 3 : 2);
    else
        LOG(LOG_ERROR, "cannot listen", {"proto", "admin"}, {"address", text}, {"reason", strerror(-fd)});
    return fd;
}

void admin_unlisten(const struct admin_listener_option *option) {
    if (option->is_unix && !option->is_managed)
        (void)unlink(option->path);
}
