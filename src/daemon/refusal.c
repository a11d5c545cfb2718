#include "daemon/refusal.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/http_status.h"

enum { UNREAD_MOST = 65536 };

static const struct {
    const char *name, *reason;
    unsigned status;
} refusals[REFUSALS] = {
    [REFUSED_CONNECTIONS] = {"max_connections", "as many connections as there may be", 503},
    [REFUSED_PER_ADDRESS] = {"max_connections_per_address", "as many connections as an address may have", 429},
    [REFUSED_STREAMS] = {"max_streams", "as many streams as there may be", 503},
    [REFUSED_PROXY_HEADER] = {"proxy_from", "a PROXY header is required from this address", 400},
    [REFUSED_PLAYERS] = {"max_players", "as many players as the stream may have", 503},
    [REFUSED_MEMORY] = {"memory", "memory is short, and this connection held the most", 503},
};

const char *refusal_name(enum refusal refusal) {
    return refusals[refusal].name;
}

const char *refusal_reason(enum refusal refusal) {
    return refusals[refusal].reason;
}

/* Raw FLV has no words. An RTSP request has not been read, so its number is not known. */
static int write_answer(char *buffer, size_t size, enum listener_protocol protocol, enum refusal refusal) {
    unsigned status = refusals[refusal].status;
    const char *reason = refusals[refusal].reason;
    if (protocol == LISTENER_HTTP)
        return snprintf(
            buffer, size,
            "HTTP/1.1 %u %s\r\nServer: sluiced\r\nAccess-Control-Allow-Origin: *\r\n"
            "Content-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s\n",
            status, http_status_text(status), strlen(reason) + 1, reason);
    if (protocol == LISTENER_RTSP)
        return snprintf(buffer, size, "RTSP/1.0 %s\r\nServer: sluiced\r\n\r\n",
                        status == 400 ? "400 Bad Request" : "503 Service Unavailable");
    return 0;
}

void refusal_close(int fd, enum listener_protocol protocol, enum refusal refusal) {
    char buffer[512];
    int length = write_answer(buffer, sizeof buffer, protocol, refusal);
    if (length > 0)
        (void)send(fd, buffer, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)shutdown(fd, SHUT_WR);
    /* What has come and nobody has read would make the close a reset, which may overtake the answer. */
    (void)recv(fd, NULL, UNREAD_MOST, MSG_DONTWAIT | MSG_TRUNC);
    close(fd);
}
