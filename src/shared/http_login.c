#include "shared/http_login.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <sluice/sdp.h>

int http_login_write(const char *user, const char *password, char ret_header[HTTP_LOGIN_HEADER]) {
    char plain[2 * RTSP_LOGIN_USER + 2], code[4 * sizeof plain / 3 + 8];
    int error = -EMSGSIZE, length = snprintf(plain, sizeof plain, "%s:%s", user, password);
    if (length >= 0 && (size_t)length < sizeof plain &&
        sluice_sdp_encode_base64((const uint8_t *)plain, (size_t)length, code, sizeof code) >= 0 &&
        snprintf(ret_header, HTTP_LOGIN_HEADER, "Authorization: Basic %s\r\n", code) < HTTP_LOGIN_HEADER)
        error = 0;
    explicit_bzero(plain, sizeof plain);
    explicit_bzero(code, sizeof code);
    return error;
}
