#include "daemon/config/listen_fds.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIRST_FD = 3 };

static const char count_name[] = "LISTEN_FDS", pid_name[] = "LISTEN_PID", names_name[] = "LISTEN_FDNAMES";

void listen_fds_format(const struct listen_fd *socket, char text[LISTEN_FDS_TEXT]) {
    char address[ADDRESS_TEXT];
    if (socket->address.ss_family == AF_UNIX) {
        snprintf(text, LISTEN_FDS_TEXT, "unix:%s", ((const struct sockaddr_un *)&socket->address)->sun_path);
        return;
    }
    address_format(&socket->address, address);
    snprintf(text, LISTEN_FDS_TEXT, "%s", address);
}

static unsigned long number_of(const char *name) {
    const char *text = getenv(name);
    return text ? strtoul(text, NULL, 10) : 0;
}

static bool is_listening(int fd) {
    int type = 0, listens = 0;
    socklen_t length = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_STREAM &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens;
}

/* A name of a list that is separated by colons; moves on to the next one. */
static void take_name(const char **names, char name[LISTEN_FDS_NAME]) {
    size_t length = strcspn(*names, ":");
    snprintf(name, LISTEN_FDS_NAME, "%.*s", (int)length, *names);
    *names += length + ((*names)[length] == ':');
}

/* Takes LISTEN_FDS_TLS off its end. */
static bool take_tls(char name[LISTEN_FDS_NAME]) {
    const size_t length = strlen(name), suffix = sizeof LISTEN_FDS_TLS - 1;
    if (length < suffix || strcmp(name + length - suffix, LISTEN_FDS_TLS) != 0)
        return false;
    name[length - suffix] = '\0';
    return true;
}

static bool take(struct listen_fds *listen_fds, int fd, const char *name, struct config_errors *errors) {
    struct listen_fd *socket = &listen_fds->list[listen_fds->count];
    const size_t prefix = sizeof LISTEN_FDS_LENT - 1;
    *socket = (struct listen_fd){.fd = fd, .is_lent = strncmp(name, LISTEN_FDS_LENT, prefix) == 0};
    snprintf(socket->name, sizeof socket->name, "%s", socket->is_lent ? name + prefix : name);
    socket->tls = take_tls(socket->name);
    socklen_t length = sizeof socket->address - 1;
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (!is_listening(fd) || getsockname(fd, (struct sockaddr *)&socket->address, &length) < 0)
        return config_errors_add(
            errors, "LISTEN_FDS: expected a stream socket that listens, got descriptor %d (\"%s\")", fd, name);
    listen_fds->count++;
    return true;
}

/* The channel of a daemon that is this one's parent. What manages the service knows this one by its
 * own id. */
static int take_channel(void) {
    const char *text = getenv(LISTEN_FDS_CHANNEL);
    char own[24];
    int fd = 0;
    long parent = 0;
    if (!text || sscanf(text, "%d:%ld", &fd, &parent) != 2 || parent != (long)getppid() || fd < FIRST_FD)
        return 0;
    snprintf(own, sizeof own, "%ld", (long)getpid());
    if (getenv("WATCHDOG_PID"))
        (void)setenv("WATCHDOG_PID", own, 1);
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

bool listen_fds_take(struct listen_fds *ret_inherited, struct config_errors *errors) {
    int channel = take_channel();
    bool is_meant = channel > 0 || number_of(pid_name) == (unsigned long)getpid();
    unsigned long count = is_meant ? number_of(count_name) : 0;
    const char *names = getenv(names_name);
    bool good = true;
    names = names ? names : "";
    *ret_inherited = (struct listen_fds){.channel = channel};
    if (count > LISTEN_FDS_MOST)
        return config_errors_add(errors, "LISTEN_FDS: expected at most %d sockets, got %lu", LISTEN_FDS_MOST, count);
    for (unsigned long i = 0; i < count; i++) {
        char name[LISTEN_FDS_NAME];
        take_name(&names, name);
        good = take(ret_inherited, FIRST_FD + (int)i, name, errors) && good;
    }
    (void)unsetenv(count_name);
    (void)unsetenv(pid_name);
    (void)unsetenv(names_name);
    (void)unsetenv(LISTEN_FDS_CHANNEL);
    return good;
}

void listen_fds_settle(struct listen_fds *listen_fds) {
    size_t kept = 0;
    for (size_t i = 0; i < listen_fds->count; i++) {
        struct listen_fd *socket = &listen_fds->list[i];
        if (!socket->is_wanted)
            close(socket->fd);
        socket->fd = 0;
        if (!socket->is_lent)
            listen_fds->list[kept++] = *socket;
    }
    listen_fds->count = kept;
}
