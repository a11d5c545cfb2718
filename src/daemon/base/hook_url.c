#include "daemon/base/hook_url.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
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

int hook_url_parse(const char *text, struct hook_url *ret_url) {
    static const char scheme[] = "http://";
    struct hook_url url = {.port = 80};
    struct sockaddr_storage address;
    char with_port[ADDRESS_TEXT + 4];
    if (strncmp(text, scheme, sizeof scheme - 1) != 0)
        return -EINVAL;
    const char *host = text + sizeof scheme - 1, *path = host + strcspn(host, "/");
    size_t length = (size_t)(path - host);
    if (*path != '/' || strlen(path) > HOOK_PATH || length == 0 || length >= ADDRESS_TEXT)
        return -EINVAL;
    for (const char *c = path; *c; c++)
        if (*c <= ' ' || *c > '~')
            return -EINVAL;
    bool has_port = host[length - 1] != ']' && memchr(host, ':', length);
    snprintf(with_port, sizeof with_port, "%.*s%s", (int)length, host, has_port ? "" : ":80");
    if (address_parse(with_port, strlen(with_port), &address) < 0 || address_port(&address) == 0)
        return -EINVAL;
    address_format_host(&address, with_port);
    if (strlen(with_port) > HOOK_HOST)
        return -EINVAL;
    strcpy(url.host, with_port);
    url.port = address_port(&address);
    strcpy(url.path, path);
    *ret_url = url;
    return 0;
}
