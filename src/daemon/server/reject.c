#include "daemon/server/reject.h"

#include <sys/socket.h>
#include <unistd.h>

enum { UNREAD_MOST = 65536 };

static const struct {
    const char *name, *reason;
    unsigned status;
} refusals[REJECT_CAUSES] = {
    [REJECT_CONNECTIONS] = {"max_connections", "as many connections as there may be", 503},
    [REJECT_PER_ADDRESS] = {"max_connections_per_address", "as many connections as an address may have", 429},
    [REJECT_STREAMS] = {"max_streams", "as many streams as there may be", 503},
    [REJECT_PROXY_HEADER] = {"proxy_from", "a PROXY header is required from this address", 400},
    [REJECT_PLAYERS] = {"max_players", "as many players as the stream may have", 503},
    [REJECT_MEMORY] = {"memory", "memory is short, and this connection held the most", 503},
};

const char *reject_name(enum reject_cause refusal) {
    return refusals[refusal].name;
}

const char *reject_reason(enum reject_cause refusal) {
    return refusals[refusal].reason;
}

void reject_close(int fd, const struct protocol *protocol, enum reject_cause refusal) {
    char buffer[512];
    int length = 0;
    if (protocol->reject)
        length = protocol->reject(buffer, sizeof buffer, refusals[refusal].status, refusals[refusal].reason);
    if (length > 0)
        (void)send(fd, buffer, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)shutdown(fd, SHUT_WR);
    /* What has come and nobody has read would make the close a reset, which may overtake the
     * answer. */
    (void)recv(fd, NULL, UNREAD_MOST, MSG_DONTWAIT | MSG_TRUNC);
    close(fd);
}
