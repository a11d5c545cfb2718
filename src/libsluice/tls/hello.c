/* What the first bytes of a connection are. */
#include <errno.h>
#include <string.h>

#include <sluice/reader.h>

#include "tls/stage.h"

enum {
    RECORD_HANDSHAKE = 22, /* RFC 8446, 5.1 */
    RECORD_ALERT = 21,
    VERSION_MAJOR = 3,
    CLIENT_HELLO = 1,
    RTMP_VERSION = 3, /* of its first byte; then a time */
    WORD = 16,        /* bytes that tell one protocol from another */
    LEAST = 9,        /* the longest of the words below */
};

int sluice_tls_is_hello(const void *bytes, size_t n) {
    const uint8_t *at = bytes;
    /* Type, version, length, and the type of the message. */
    if ((n > 0 && at[0] != RECORD_HANDSHAKE) || (n > 1 && at[1] != VERSION_MAJOR) || (n > 2 && at[2] > 4) ||
        (n > 5 && at[5] != CLIENT_HELLO))
        return -EPROTO;
    if (n > 4 && ((at[3] << 8 | at[4]) < 4 || (at[3] << 8 | at[4]) > SLUICE_TLS_RECORD))
        return -EPROTO;
    return n >= SLUICE_TLS_HELLO;
}

static bool begins_with(const uint8_t *bytes, size_t n, const char *words) {
    for (const char *word = words; *word; word += strlen(word) + 1) {
        size_t length = strlen(word);
        if (n >= length && memcmp(bytes, word, length) == 0)
            return true;
    }
    return false;
}

static sluice_tls_detail guess(const uint8_t *bytes, size_t n) {
    static const char http[] = "GET \0PUT \0POST \0HEAD \0PATCH \0DELETE \0TRACE \0CONNECT \0PRI * \0OPTIONS /\0"
                               "OPTIONS *\0OPTIONS h\0";
    static const char rtsp[] = "OPTIONS r\0DESCRIBE \0ANNOUNCE \0SETUP \0PLAY \0PAUSE \0RECORD \0TEARDOWN \0"
                               "GET_PARAM\0SET_PARAM\0REDIRECT \0";
    if (n > 0 && bytes[0] == RTMP_VERSION)
        return SLUICE_TLS_DETAIL_RTMP;
    if (begins_with(bytes, n, rtsp))
        return SLUICE_TLS_DETAIL_RTSP;
    return begins_with(bytes, n, http) ? SLUICE_TLS_DETAIL_HTTP : SLUICE_TLS_DETAIL_PLAINTEXT;
}

static const char *text_of(sluice_tls_detail detail) {
    switch (detail) {
    case SLUICE_TLS_DETAIL_HTTP:
        return "HTTP without TLS";
    case SLUICE_TLS_DETAIL_RTSP:
        return "RTSP without TLS";
    case SLUICE_TLS_DETAIL_RTMP:
        return "RTMP without TLS";
    default:
        return "not TLS";
    }
}

int tls_hello_look(sluice_tls *tls) {
    sluice_chain *chain = sluice_conn_chain(tls->conn);
    size_t n = sluice_chain_length(chain);
    uint8_t scratch[WORD];
    const uint8_t *bytes;
    sluice_reader *reader;
    if (tls->looked)
        return 1;
    n = n < WORD ? n : WORD;
    if (n == 0)
        return 0;
    int error = sluice_reader_new(chain, &reader);
    if (error)
        return tls_fail(tls, error, SLUICE_TLS_DETAIL_MEMORY, "no memory");
    error = sluice_reader_peek(reader, 1, scratch, &bytes);
    if (!error && (bytes[0] == RECORD_HANDSHAKE || bytes[0] == RECORD_ALERT)) {
        tls->looked = true;
    } else if (!error && n < LEAST) {
        sluice_conn_set_need(tls->conn, LEAST); /* to say what it is */
    } else if (!error) {
        error = sluice_reader_peek(reader, n, scratch, &bytes);
        sluice_tls_detail detail = error ? SLUICE_TLS_DETAIL_PLAINTEXT : guess(bytes, n);
        error = tls_fail(tls, -EPROTO, detail, text_of(detail));
    }
    sluice_reader_free(reader);
    return error ? error : tls->looked;
}
