#include "daemon/base/hook_url.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/address.h"

const char *hook_kind_name(enum hook_kind event) {
    static const char *const names[HOOK_KINDS] = {[HOOK_PUBLISH] = "publish",
                                                  [HOOK_PLAY] = "play",
                                                  [HOOK_UNPUBLISH] = "unpublish",
                                                  [HOOK_STOP] = "stop",
                                                  [HOOK_RECORD] = "record"};
    return names[event];
}

/* A numeric address, of which the port is optional. */
static bool read_address(const char *text, size_t length, struct hook_url *url) {
    struct sockaddr_storage address;
    char with_port[ADDRESS_TEXT + 8], host[ADDRESS_TEXT];
    if (length >= ADDRESS_TEXT)
        return false;
    bool has_port = text[length - 1] != ']' && memchr(text, ':', length);
    snprintf(with_port, sizeof with_port, has_port ? "%.*s" : "%.*s:%u", (int)length, text, url->port);
    if (address_parse(with_port, strlen(with_port), &address) < 0 || address_port(&address) == 0)
        return false;
    address_format_host(&address, host);
    snprintf(url->host, sizeof url->host, "%s", host);
    url->port = address_port(&address);
    return true;
}

/* A name of DNS. What ends in a number is an address, which some read in other ways. */
static bool read_name(const char *text, size_t length, struct hook_url *url) {
    static const char characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    const char *colon = memchr(text, ':', length), *end = colon ? colon : text + length;
    const size_t size = (size_t)(end - text);
    if (size == 0 || size > HOOK_HOST || *text == '.' || *text == '-' || strspn(text, characters) < size)
        return false;
    const char *dot = memrchr(text, '.', size), *label = dot ? dot + 1 : text;
    if (strspn(label, "0123456789") >= (size_t)(end - label))
        return false;
    if (colon) {
        char *behind;
        unsigned long port = isdigit((unsigned char)colon[1]) ? strtoul(colon + 1, &behind, 10) : 0;
        if (port == 0 || port > UINT16_MAX || behind != text + length)
            return false;
        url->port = (uint16_t)port;
    }
    memcpy(url->host, text, size);
    return true;
}

int hook_url_parse(const char *text, struct hook_url *ret_url) {
    static const char plain[] = "http://", secure[] = "https://";
    struct hook_url url = {.port = 80};
    if (strncmp(text, secure, sizeof secure - 1) == 0)
        url = (struct hook_url){.port = 443, .is_secure = true};
    else if (strncmp(text, plain, sizeof plain - 1) != 0)
        return -EINVAL;
    const char *host = strstr(text, "://") + 3, *path = host + strcspn(host, "/");
    size_t length = (size_t)(path - host);
    if (*path != '/' || strlen(path) > HOOK_PATH || length == 0)
        return -EINVAL;
    for (const char *c = path; *c; c++)
        if (*c <= ' ' || *c > '~')
            return -EINVAL;
    if (!read_address(host, length, &url) && !read_name(host, length, &url))
        return -EINVAL;
    strcpy(url.path, path);
    *ret_url = url;
    return 0;
}

bool hook_url_equal(const struct hook_url *a, const struct hook_url *b) {
    return strcmp(a->host, b->host) == 0 && a->port == b->port && a->is_secure == b->is_secure &&
           strcmp(a->path, b->path) == 0;
}
