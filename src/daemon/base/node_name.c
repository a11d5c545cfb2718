#include "daemon/base/node_name.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

bool node_name_is_valid(const char *name, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (!name[i] || !strchr(characters, name[i]))
            return false;
    return length > 0 && length <= NODE_NAME;
}

void node_name_of_host(char ret_name[NODE_NAME + 1]) {
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) < 0 || !*host)
        strcpy(host, "node");
    for (char *c = host; *c; c++)
        if (!strchr(characters, *c))
            *c = '-';
    snprintf(ret_name, NODE_NAME + 1, "%.*s", NODE_NAME, host);
}
