/* Basic authentication of HTTP (RFC 7617), client side. */
#ifndef SHARED_HTTP_LOGIN_H
#define SHARED_HTTP_LOGIN_H

#include <stddef.h>

#include "shared/rtsp_login.h"

enum { HTTP_LOGIN_HEADER = 4 * RTSP_LOGIN_USER };

/*
 * Writes the whole header line, with its end. To be forgotten by the caller when it has been used.
 * @user, @password: at most RTSP_LOGIN_USER bytes each. 0, -EMSGSIZE
 */
int http_login_write(const char *user, const char *password, char ret_header[HTTP_LOGIN_HEADER]);

#endif
