/*
 * Digest's response (RFC 7616), which proves knowledge of a password without sending it; with MD5
 * and SHA-256, without qop, the form that all cameras and players support, and with qop=auth. For
 * clients and servers.
 */
#ifndef SHARED_RTSP_DIGEST_H
#define SHARED_RTSP_DIGEST_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/http.h>

enum { RTSP_DIGEST_TEXT = 65 };

struct rtsp_digest {
    bool sha256; /* else MD5 */
    sluice_http_text user, realm, password, nonce, method, uri;
    const char *cnonce; /* with qop=auth; or NULL */
    uint32_t count;     /* with qop=auth: requests with this nonce */
};

/* What an algorithm is called, where it is known; MD5 where nothing is said. */
bool rtsp_digest_algorithm(sluice_http_text name, bool *ret_sha256);

/* Lower-case hexadecimal digits. False where the crypto library does not have the algorithm, or a
 * text is too long. */
bool rtsp_digest(const struct rtsp_digest *digest, char response[RTSP_DIGEST_TEXT]);

#endif
