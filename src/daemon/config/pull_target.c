#include "daemon/config/pull_target.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <sluice/rtsp.h>

/* Without control bytes and blanks, which would end a request's line. */
static bool is_url_text(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] <= ' ' || text[i] == 0x7f)
            return false;
    return true;
}

int pull_target_read(const char *url, size_t length, struct pull_target *ret_target) {
    struct pull_target target = {0};
    sluice_rtsp_url parts;
    if (!is_url_text(url, length) || sluice_rtsp_split_url((sluice_http_text){url, length}, &parts) < 0 ||
        parts.scheme.length != strlen("rtsp") || strncasecmp(parts.scheme.text, "rtsp", strlen("rtsp")) != 0)
        return -EPROTO;
    sluice_http_text host = parts.host;
    const char *rest = host.text + host.length;
    size_t left = (size_t)(url + length - rest);
    int at = snprintf(target.url, sizeof target.url, "rtsp://%.*s%.*s", (int)host.length, host.text, (int)left, rest);
    int place = snprintf(target.place, sizeof target.place, "rtsp://%.*s:%u", (int)host.length, host.text, parts.port);
    if (host.length > 2 && host.text[0] == '[')
        host = (sluice_http_text){host.text + 1, host.length - 2};
    if (at < 0 || (size_t)at >= sizeof target.url || place < 0 || (size_t)place >= sizeof target.place ||
        host.length > PULL_HOST)
        return -EMSGSIZE;
    memcpy(target.host, host.text, host.length);
    target.port = parts.port;
    *ret_target = target;
    return 0;
}
