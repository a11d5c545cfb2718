#include <sluice/websocket.h>

#include <errno.h>

#include "framers/http/http_text.h"
#include "framers/text/base64.h"
#include "framers/text/sha1.h"

/* RFC 6455, section 1.3. */
static const char accept_guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

void sluice_websocket_make_key(const uint8_t nonce[SLUICE_WEBSOCKET_NONCE_SIZE],
                               char ret_key[SLUICE_WEBSOCKET_KEY_SIZE]) {
    base64_encode(nonce, SLUICE_WEBSOCKET_NONCE_SIZE, ret_key);
}

void sluice_websocket_accept_key(const char key[SLUICE_WEBSOCKET_KEY_SIZE],
                                 char ret_accept[SLUICE_WEBSOCKET_ACCEPT_SIZE]) {
    uint8_t text[SLUICE_WEBSOCKET_KEY_SIZE + sizeof accept_guid - 1];
    uint8_t digest[SHA1_SIZE];
    for (size_t i = 0; i < SLUICE_WEBSOCKET_KEY_SIZE; i++)
        text[i] = (uint8_t)key[i];
    for (size_t i = 0; i < sizeof accept_guid - 1; i++)
        text[SLUICE_WEBSOCKET_KEY_SIZE + i] = (uint8_t)accept_guid[i];
    sha1(text, sizeof text, digest);
    base64_encode(digest, sizeof digest, ret_accept);
}

/* A member of a list that may go on over several headers of that name. */
static bool has_token(const sluice_http_request *request, const char *name, const char *token) {
    for (size_t i = 0; i < request->header_count; i++) {
        if (!text_folds_to(request->headers[i].name, name))
            continue;
        for (sluice_http_text rest = request->headers[i].value; rest.length > 0;)
            if (text_folds_to(text_trimmed(text_split(&rest, ',')), token))
                return true;
    }
    return false;
}

/* The only header of that name; NULL when there is none, or more than one. */
static const sluice_http_header *find_single(const sluice_http_request *request, const char *name) {
    const sluice_http_header *found = NULL;
    for (size_t i = 0; i < request->header_count; i++) {
        if (!text_folds_to(request->headers[i].name, name))
            continue;
        if (found)
            return NULL;
        found = &request->headers[i];
    }
    return found;
}

/* Base64 of 16 bytes. The last digit has four bits too many, which some clients set: they are not
 * looked at. */
static bool is_key(sluice_http_text key) {
    uint8_t nonce[SLUICE_WEBSOCKET_KEY_SIZE];
    return key.length == SLUICE_WEBSOCKET_KEY_SIZE &&
           base64_decode(key.text, key.length, nonce) == SLUICE_WEBSOCKET_NONCE_SIZE;
}

/* The frames would follow a body; no client sends one, and recipients would disagree about it. */
static bool has_body(const sluice_http_request *request) {
    return request->body == SLUICE_HTTP_BODY_CHUNKED ||
           (request->body == SLUICE_HTTP_BODY_LENGTH && request->content_length > 0);
}

int sluice_websocket_upgrade(const sluice_http_request *request, char ret_accept[SLUICE_WEBSOCKET_ACCEPT_SIZE]) {
    /* An Upgrade of HTTP/1.0 is to be ignored (RFC 9110, section 7.8). */
    if (request->minor_version == 0 || !has_token(request, "Upgrade", "websocket"))
        return -ENOENT;
    if (!text_equals(request->method, "GET") || has_body(request) || !has_token(request, "Connection", "upgrade"))
        return -EPROTO;
    const sluice_http_header *version = find_single(request, "Sec-WebSocket-Version");
    if (!version)
        return -EPROTO;
    if (!text_equals(version->value, "13"))
        return -EPROTONOSUPPORT;
    const sluice_http_header *key = find_single(request, "Sec-WebSocket-Key");
    if (!key || !is_key(key->value))
        return -EPROTO;
    sluice_websocket_accept_key(key->value.text, ret_accept);
    return 0;
}

unsigned sluice_websocket_error_status(int error) {
    return error == -ENOENT || error == -EPROTONOSUPPORT ? 426 : 400;
}

const char *sluice_websocket_select_protocol(const sluice_http_request *request, const char *const *offered,
                                             size_t count) {
    for (size_t i = 0; i < request->header_count; i++) {
        if (!text_folds_to(request->headers[i].name, "Sec-WebSocket-Protocol"))
            continue;
        for (sluice_http_text rest = request->headers[i].value; rest.length > 0;) {
            sluice_http_text wanted = text_trimmed(text_split(&rest, ','));
            for (size_t j = 0; j < count; j++)
                if (text_equals(wanted, offered[j]))
                    return offered[j];
        }
    }
    return NULL;
}
