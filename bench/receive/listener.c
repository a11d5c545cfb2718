#include "receive/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/process.h"
#include "receive/meter.h"

enum { BACKLOG = 4096 };

void listener_announce(uint16_t port) {
    printf("listening %u\n", port);
    fflush(stdout);
    meter_listening();
}

int listener_open(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) < 0 || listen(fd, BACKLOG) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) < 0)
        fail(EXIT_FAILURE, "listening: %s", strerror(errno));
    listener_announce(ntohs(address.sin_port));
    return fd;
}
