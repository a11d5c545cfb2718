#include "daemon/config/backup_option.h"

#include <stdlib.h>
#include <string.h>

const char *backup_options_add(struct backup_options *options, const char *text) {
    const char *equals = strchr(text, '=');
    struct backup_option option = {0};
    if (!equals || !stream_name_is_valid(text, (size_t)(equals - text)) ||
        !stream_name_is_valid(equals + 1, strlen(equals + 1)))
        return "expected NAME=OTHER with two streams' names such as live/main=live/spare";
    memcpy(option.name, text, (size_t)(equals - text));
    memcpy(option.other, equals + 1, strlen(equals + 1));
    if (strcmp(option.name, option.other) == 0)
        return "a stream is no backup of its own";
    for (size_t i = 0; i < options->count; i++)
        if (strcmp(options->list[i].name, option.name) == 0)
            return "a second backup of that name";
    if (options->count == BACKUPS_MAX)
        return "more than 1000 backups";
    struct backup_option *list = reallocarray(options->list, options->count + 1, sizeof *list);
    if (!list)
        return "out of memory";
    options->list = list;
    options->list[options->count++] = option;
    return NULL;
}

void backup_options_clear(struct backup_options *options) {
    free(options->list);
    *options = (struct backup_options){0};
}
