#include "daemon/server/reject.h"

#include <sys/socket.h>
#include <unistd.h>

#include <sluice/reader.h>

enum { UNREAD_MOST = 65536 };

static const struct {
    const char *name, *reason;
    unsigned status;
} refusals[REJECT_CAUSES] = {
    [REJECT_CONNECTIONS] = {"max_connections", "too many connections", 503},
    [REJECT_PER_ADDRESS] = {"max_connections_per_address", "too many connections from this address", 429},
    [REJECT_STREAMS] = {"max_streams", "too many streams", 503},
    [REJECT_PROXY_HEADER] = {"proxy_from", "missing or malformed PROXY header", 400},
    [REJECT_HANDSHAKES] = {"tls_handshakes", "too many TLS handshakes", 503},
    [REJECT_TLS_HANDSHAKE] = {"tls_handshake_failed", "TLS handshake failed", 400},
    [REJECT_PLAINTEXT] = {"tls_plaintext", "this port requires TLS", 400},
    [REJECT_TLS_HELLO] = {"tls_hello", "TLS on a port without it", 400},
    [REJECT_PLAYERS] = {"max_players", "too many players of this stream", 503},
    [REJECT_MEMORY] = {"memory", "memory limit: this connection held the most", 503},
};

const char *reject_name(enum reject_cause refusal) {
    return refusals[refusal].name;
}

const char *reject_reason(enum reject_cause refusal) {
    return refusals[refusal].reason;
}

enum reject_cause reject_cause_of_tls(const sluice_tls *tls) {
    switch (sluice_tls_get_detail(tls)) {
    case SLUICE_TLS_DETAIL_HTTP:
    case SLUICE_TLS_DETAIL_RTSP:
    case SLUICE_TLS_DETAIL_RTMP:
    case SLUICE_TLS_DETAIL_PLAINTEXT:
        return REJECT_PLAINTEXT;
    default:
        return REJECT_TLS_HANDSHAKE;
    }
}

int reject_is_hello(sluice_chain *chain) {
    uint8_t scratch[SLUICE_TLS_HELLO];
    const uint8_t *bytes;
    size_t length = sluice_chain_length(chain), n = length < sizeof scratch ? length : sizeof scratch;
    sluice_reader *reader;
    if (n == 0)
        return 0;
    int error = sluice_reader_new(chain, &reader);
    if (error)
        return error;
    /* The first byte is in one block, and usually enough: the others may have to be put together:
     * copied. */
    int result = sluice_reader_peek(reader, 1, scratch, &bytes) == 0 ? sluice_tls_is_hello(bytes, 1) : 0;
    if (result == 0 && sluice_reader_peek(reader, n, scratch, &bytes) == 0)
        result = sluice_tls_is_hello(bytes, n);
    sluice_reader_free(reader);
    return result;
}

void reject_answer(int fd, const struct protocol *protocol, enum reject_cause refusal) {
    char buffer[512];
    int length = 0;
    if (protocol->reject)
        length = protocol->reject(buffer, sizeof buffer, refusals[refusal].status, refusals[refusal].reason);
    if (length > 0)
        (void)send(fd, buffer, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void reject_close(int fd, const struct protocol *protocol, enum reject_cause refusal) {
    reject_answer(fd, protocol, refusal);
    (void)shutdown(fd, SHUT_WR);
    /* Unread data would turn the close into a reset, which may overtake the answer. */
    (void)recv(fd, NULL, UNREAD_MOST, MSG_DONTWAIT | MSG_TRUNC);
    close(fd);
}
