#include "daemon/base/tcp_delay.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

void tcp_delay_set(int fd, bool on) {
    const int no_delay = !on;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &no_delay, sizeof no_delay);
}
