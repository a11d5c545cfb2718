#include "daemon/config/pull_target.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "shared/text.h"

/* Without control bytes and blanks, which would end a request's line. */
static bool is_url_text(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] <= ' ' || text[i] == 0x7f)
            return false;
    return true;
}

static sluice_http_text take(sluice_http_text *text, size_t length) {
    const sluice_http_text front = {text->text, length};
    *text = (sluice_http_text){text->text + length, text->length - length};
    return front;
}

/* HOST[:PORT]; an IPv6 address has brackets. */
static int read_host(sluice_http_text text, uint16_t port, sluice_http_text *ret_host, uint16_t *ret_port) {
    uint64_t number = port;
    if (text.length > 0 && *text.text == '[') {
        const char *end = memchr(text.text, ']', text.length);
        if (!end)
            return -EPROTO;
        *ret_host = take(&text, (size_t)(end - text.text) + 1);
    } else {
        const char *colon = text.length > 0 ? memchr(text.text, ':', text.length) : NULL;
        *ret_host = take(&text, colon ? (size_t)(colon - text.text) : text.length);
    }
    if (ret_host->length == 0 || (text.length > 0 && *text.text != ':'))
        return -EPROTO;
    if (text.length > 1) {
        take(&text, 1);
        if (!text_number(text, UINT16_MAX, &number))
            return -EPROTO;
    }
    *ret_port = (uint16_t)number;
    return 0;
}

static bool is_secure(const struct pull_scheme *scheme, sluice_http_text name) {
    return scheme->secure_name && text_folds_to(name, scheme->secure_name);
}

bool pull_scheme_fits(const struct pull_scheme *scheme, const char *url, size_t length) {
    sluice_http_text rest = {url, length};
    const sluice_http_text name = text_split(&rest, ':');
    return text_folds_to(name, scheme->name) || is_secure(scheme, name);
}

int pull_target_read(const struct pull_scheme *scheme, const char *url, size_t length, struct pull_target *ret_target,
                     sluice_http_text *ret_user) {
    sluice_http_text rest = {url, length}, host;
    struct pull_target target = {.is_secure = is_secure(scheme, text_split(&rest, ':'))};
    const char *name = target.is_secure ? scheme->secure_name : scheme->name;
    if (!is_url_text(url, length) || !pull_scheme_fits(scheme, url, length) || rest.length < 2 ||
        memcmp(rest.text, "//", 2) != 0)
        return -EPROTO;
    take(&rest, 2);
    size_t end = 0;
    while (end < rest.length && rest.text[end] != '/' && rest.text[end] != '?')
        end++;
    sluice_http_text authority = take(&rest, end);
    const char *at = end > 0 ? memrchr(authority.text, '@', end) : NULL;
    const sluice_http_text user = {authority.text, at ? (size_t)(at - authority.text) : 0};
    if (at)
        take(&authority, user.length + 1);
    int error = read_host(authority, target.is_secure ? scheme->secure_port : scheme->port, &host, &target.port);
    if (error)
        return error;
    int used = snprintf(target.url, sizeof target.url, "%s://%.*s%.*s", name,
                        (int)(authority.text + authority.length - host.text), host.text, (int)rest.length, rest.text);
    int place = snprintf(target.place, sizeof target.place, "%s://%.*s:%u", name, (int)host.length, host.text,
                         target.port);
    if (host.length > 2 && *host.text == '[')
        host = (sluice_http_text){host.text + 1, host.length - 2};
    if (used < 0 || (size_t)used >= sizeof target.url || place < 0 || (size_t)place >= sizeof target.place ||
        host.length > PULL_HOST)
        return -EMSGSIZE;
    memcpy(target.host, host.text, host.length);
    *ret_target = target;
    if (ret_user)
        *ret_user = user;
    return 0;
}

const char *pull_target_read_user(sluice_http_text text, char user[RTSP_LOGIN_USER + 1],
                                  char password[RTSP_LOGIN_USER + 1]) {
    const char *colon = memchr(text.text, ':', text.length);
    sluice_http_text name = {text.text, colon ? (size_t)(colon - text.text) : text.length};
    sluice_http_text secret = {colon ? colon + 1 : "", colon ? text.length - name.length - 1 : 0};
    int error = text_decode(name, user, RTSP_LOGIN_USER + 1);
    if (!error)
        error = text_decode(secret, password, RTSP_LOGIN_USER + 1);
    if (!error && (!*user || strpbrk(user, ":\"\\")))
        error = -EINVAL;
    return error == -EMSGSIZE ? "the URL, the host, the user's name or the password is too long"
           : error            ? "a user's name has no colon, quote, backslash and control bytes, a password no control "
                                "bytes"
                              : NULL;
}
