#include "daemon/config/protocol.h"

#include <stdio.h>
#include <string.h>

const struct protocol *protocol_find(const char *name) {
    const struct protocol *const *protocol = protocol_table;
    while (*protocol && strcmp((*protocol)->option.name, name) != 0)
        protocol++;
    return *protocol;
}

void protocol_names(char text[PROTOCOL_NAMES]) {
    size_t length = 0;
    *text = '\0';
    for (const struct protocol *const *protocol = protocol_table; *protocol && length < PROTOCOL_NAMES; protocol++)
        length += (size_t)snprintf(text + length, PROTOCOL_NAMES - length, "%s%s", length > 0 ? ", " : "",
                                   (*protocol)->option.name);
}
