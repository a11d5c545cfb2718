#include "tools/target.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <sluice/sdp.h>

static const struct {
    const char *name;
    enum target_kind kind;
    bool secure;
    uint16_t port;
} schemes[] = {
    {"flv", TARGET_FLV, false, 9000},        {"flvs", TARGET_FLV, true, 9000},
    {"http", TARGET_HTTP, false, 80},        {"https", TARGET_HTTP, true, 443},
    {"rtsp", TARGET_RTSP, false, 554},       {"rtsps", TARGET_RTSP, true, 322},
    {"rtmp", TARGET_RTMP, false, RTMP_PORT}, {"rtmps", TARGET_RTMP, true, RTMPS_PORT},
};

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Percent-decodes a name or a password. */
static int decode(const char *from, const char *end, char to[RTSP_LOGIN_USER + 1]) {
    size_t length = 0;
    for (; from < end; from++, length++) {
        char c = *from;
        if (c == '%') {
            if (end - from < 3 || hex_digit(from[1]) < 0 || hex_digit(from[2]) < 0)
                return -EPROTO;
            c = (char)(hex_digit(from[1]) * 16 + hex_digit(from[2]));
            from += 2;
        }
        if (c == '\0')
            return -EPROTO;
        if (length == RTSP_LOGIN_USER)
            return -EMSGSIZE;
        to[length] = c;
    }
    to[length] = '\0';
    return 0;
}

static int read_login(struct target *target, const char *text, const char *end) {
    const char *colon = memchr(text, ':', (size_t)(end - text));
    int error = decode(text, colon ? colon : end, target->user);
    return error || !colon ? error : decode(colon + 1, end, target->password);
}

static int read_port(const char *text, const char *end, uint16_t *port) {
    unsigned value = 0;
    if (text == end)
        return -EPROTO;
    for (; text < end; text++) {
        if (*text < '0' || *text > '9' || (value = value * 10 + (unsigned)(*text - '0')) > UINT16_MAX)
            return -EPROTO;
    }
    *port = (uint16_t)value;
    return value > 0 ? 0 : -EPROTO;
}

static int read_place(struct target *target, const char *text, const char *end) {
    const char *host = text, *host_end = end, *port = NULL;
    if (text < end && *text == '[') {
        host++;
        host_end = memchr(text, ']', (size_t)(end - text));
        if (!host_end || (host_end + 1 < end && host_end[1] != ':'))
            return -EPROTO;
        port = host_end + 1 < end ? host_end + 2 : NULL;
    } else {
        const char *colon = memchr(text, ':', (size_t)(end - text));
        if (colon) {
            host_end = colon;
            port = colon + 1;
        }
    }
    if (host == host_end)
        return -EPROTO;
    if (host_end - host > TARGET_HOST)
        return -EMSGSIZE;
    memcpy(target->host, host, (size_t)(host_end - host));
    return port ? read_port(port, end, &target->port) : 0;
}

static bool is_url_text(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text <= ' ' || *text == 0x7f)
            return false;
    return true;
}

static int read_url(const char *rest, struct target *target) {
    const char *end = rest + strcspn(rest, "/?#"), *at = NULL;
    if (!is_url_text(rest))
        return -EPROTO;
    for (const char *c = rest; c < end; c++)
        if (*c == '@')
            at = c;
    int error = at ? read_login(target, rest, at) : 0;
    if (!error)
        error = read_place(target, at ? at + 1 : rest, end);
    if (error)
        return error;
    int length = snprintf(target->path, sizeof target->path, "%s%.*s", *end == '/' ? "" : "/", (int)strcspn(end, "#"),
                          end);
    return length < (int)sizeof target->path ? 0 : -EMSGSIZE;
}

int target_read(const char *text, struct target *ret_target) {
    struct target target = {.kind = TARGET_FILE};
    const char *separator = strstr(text, "://");
    if (strcmp(text, "-") == 0)
        target.kind = TARGET_INPUT;
    else if (separator && strcspn(text, "/.") > (size_t)(separator - text)) {
        size_t i = 0, length = (size_t)(separator - text);
        while (i < sizeof schemes / sizeof *schemes &&
               (strlen(schemes[i].name) != length || strncasecmp(schemes[i].name, text, length) != 0))
            i++;
        if (i == sizeof schemes / sizeof *schemes)
            return -EPROTO;
        target.kind = schemes[i].kind;
        target.secure = schemes[i].secure;
        target.port = schemes[i].port;
        int error = read_url(separator + 3, &target);
        if (error)
            return error;
    }
    *ret_target = target;
    return 0;
}

void target_place(const struct target *target, char *text, size_t size) {
    bool brackets = strchr(target->host, ':');
    snprintf(text, size, "%s%s%s:%u", brackets ? "[" : "", target->host, brackets ? "]" : "", target->port);
}

int target_http_head(const struct target *target, const char *method, const char *headers, char *head, size_t size) {
    char place[TARGET_HOST + 16], plain[2 * RTSP_LOGIN_USER + 2], login[4 * sizeof plain / 3 + 8] = "";
    target_place(target, place, sizeof place);
    int length = snprintf(plain, sizeof plain, "%s:%s", target->user, target->password);
    if (*target->user && sluice_sdp_encode_base64((const uint8_t *)plain, (size_t)length, login, sizeof login) < 0)
        return -EMSGSIZE;
    length = snprintf(head, size, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: sluice\r\n%s%s%s%s\r\n", method,
                      target->path, place, *login ? "Authorization: Basic " : "", login, *login ? "\r\n" : "", headers);
    explicit_bzero(plain, sizeof plain);
    explicit_bzero(login, sizeof login);
    return length < (int)size ? length : -EMSGSIZE;
}

int target_url(const struct target *target, char url[RTSP_URL + 1]) {
    const char *scheme = "";
    char place[TARGET_HOST + 16];
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (schemes[i].kind == target->kind && schemes[i].secure == target->secure)
            scheme = schemes[i].name;
    target_place(target, place, sizeof place);
    return snprintf(url, RTSP_URL + 1, "%s://%s%s", scheme, place, target->path) <= RTSP_URL ? 0 : -EMSGSIZE;
}

int target_rtmp_url(const struct target *target, struct rtmp_url *ret_url) {
    char url[RTSP_URL + 1];
    int error = target_url(target, url);
    return error ? error : rtmp_url_read(url, strlen(url), ret_url);
}

int target_number(struct target *target, unsigned number, int always) {
    char path[TARGET_PATH + 32];
    const char *sign = strstr(target->path, "%d"), *behind = sign ? sign + 2 : NULL;
    int length;
    if (!sign && !always)
        return 0;
    if (!sign) {
        /* Behind the name: before the query and the ".flv". */
        size_t name = strcspn(target->path, "?");
        if (name >= 4 && strncmp(target->path + name - 4, ".flv", 4) == 0)
            name -= 4;
        sign = behind = target->path + name;
    }
    length = snprintf(path, sizeof path, "%.*s%s%u%s", (int)(sign - target->path), target->path,
                      sign == behind ? "-" : "", number, behind);
    if (length > TARGET_PATH)
        return -EMSGSIZE;
    memcpy(target->path, path, (size_t)length + 1);
    return 0;
}
