#include "shared/rtmp_url.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool is_plain(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] <= ' ' || text[i] == 0x7f)
            return false;
    return true;
}

/* Where the name begins in a path without its first slash; NULL where there is none. A query of the
 * name may have slashes and colons; one in front of the name is the app's. */
static const char *find_name(const char *path, const char *end) {
    const char *query = memchr(path, '?', (size_t)(end - path));
    const char *first = memchr(path, '/', (size_t)(end - path));
    if (!first)
        return NULL;
    const char *second = first + 1, *stop = query && query > first ? query : end;
    const char *colon = memchr(second, ':', (size_t)(stop - second));
    const char *slash = memchr(second, '/', (size_t)(stop - second));
    return slash && !(colon && colon < slash) ? slash + 1 : second;
}

static bool copy(char *to, size_t most, const char *from, size_t length) {
    if (length > most)
        return false;
    memcpy(to, from, length);
    to[length] = '\0';
    return true;
}

int rtmp_url_read(const char *url, size_t length, struct rtmp_url *ret_url) {
    static const char plain[] = "rtmp://", secure[] = "rtmps://";
    const char *scheme = length > 4 && (url[4] == 's' || url[4] == 'S') ? secure : plain;
    const char *host = url + strlen(scheme), *end = url + length;
    struct rtmp_url split;
    if (length <= strlen(scheme) || strncasecmp(url, scheme, strlen(scheme)) != 0 || !is_plain(url, length))
        return -EPROTO;
    const char *path = memchr(host, '/', (size_t)(end - host));
    const char *at = path ? memrchr(host, '@', (size_t)(path - host)) : NULL;
    const char *name = path ? find_name(path + 1, end) : NULL;
    if (at)
        host = at + 1;
    if (!name || name == end || *name == '?' || name - path <= 2 || host == path)
        return -EPROTO;
    if (!copy(split.app, RTMP_URL_APP, path + 1, (size_t)(name - path) - 2) ||
        !copy(split.name, RTMP_URL_NAME, name, (size_t)(end - name)))
        return -EMSGSIZE;
    int used = snprintf(split.tc_url, sizeof split.tc_url, "%s%.*s/%s", scheme, (int)(path - host), host, split.app);
    if (used < 0 || (size_t)used >= sizeof split.tc_url)
        return -EMSGSIZE;
    *ret_url = split;
    return 0;
}
