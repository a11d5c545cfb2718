#include "daemon/config/admin_option.h"

#include <errno.h>
#include <string.h>

#include "daemon/base/address.h"

int admin_options_add(struct admin_options *options, const char *text) {
    static const char prefix[] = "unix:";
    const size_t prefix_length = sizeof prefix - 1;
    if (options->count == ADMIN_MAX_LISTENERS)
        return -ENOSPC;
    struct admin_listener_option *listener = &options->listeners[options->count];
    *listener = (struct admin_listener_option){0};
    if (strncmp(text, prefix, prefix_length) == 0) {
        size_t length = strlen(text + prefix_length);
        if (length == 0 || length >= sizeof listener->path)
            return -EINVAL;
        listener->is_unix = true;
        memcpy(listener->path, text + prefix_length, length + 1);
    } else {
        size_t length = strcspn(text, ",");
        listener->tls = strcmp(text + length, ",tls") == 0;
        if ((text[length] && !listener->tls) || address_parse(text, length, &listener->address) < 0)
            return -EINVAL;
    }
    options->count++;
    return 0;
}
