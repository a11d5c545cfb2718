#include "shared/http_login.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int http_login_write(struct rtsp_login *login, const char *method, sluice_http_text uri,
                     char ret_header[HTTP_LOGIN_HEADER]) {
    char value[RTSP_LOGIN_VALUE];
    int error = rtsp_login_write(login, method, uri, value);
    *ret_header = '\0';
    if (!error && *value)
        snprintf(ret_header, HTTP_LOGIN_HEADER, "Authorization: %s\r\n", value);
    explicit_bzero(value, sizeof value);
    return error;
}

const char *http_login_reason(int error) {
    switch (error) {
    case -EACCES:
        return "wrong user or password";
    case -EPROTO:
        return "Basic in place of Digest: the password is not shown";
    case -EOPNOTSUPP:
        return "no challenge that is known";
    case -EIO:
        return "no random bytes";
    default:
        return "the server needs credentials";
    }
}
