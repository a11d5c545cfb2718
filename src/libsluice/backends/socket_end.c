#include "backends/socket_end.h"

#include <poll.h>

bool socket_end_has_come(int fd) {
    struct pollfd socket = {.fd = fd, .events = POLLRDHUP};
    return poll(&socket, 1, 0) == 1 && socket.revents & (POLLRDHUP | POLLHUP);
}
