/* Authentication of HTTP, client side: the header for a request (rtsp_login.h). */
#ifndef SHARED_HTTP_LOGIN_H
#define SHARED_HTTP_LOGIN_H

#include <sluice/http.h>

#include "shared/rtsp_login.h"

enum { HTTP_LOGIN_HEADER = RTSP_LOGIN_VALUE + 32 };

/*
 * Writes the whole header line, with its end; nothing before there was a challenge. To be forgotten
 * by the caller when it has been used. @uri: as the request has it. 0, -EMSGSIZE, -EIO
 */
int http_login_write(struct rtsp_login *login, const char *method, sluice_http_text uri,
                     char ret_header[HTTP_LOGIN_HEADER]);

/* Why a request cannot be repeated with credentials, of rtsp_login_take(): what is behind the 401,
 * in a few words. */
const char *http_login_reason(int error);

#endif
