/* Which stream stands in for which, as operators write it: NAME=OTHER. */
#ifndef SLUICED_BACKUP_OPTION_H
#define SLUICED_BACKUP_OPTION_H

#include <stddef.h>

#include "daemon/base/stream_name.h"

enum { BACKUPS_MAX = 1000 };

struct backup_option {
    char name[STREAM_NAME + 1], other[STREAM_NAME + 1];
};

/* All zero at the beginning. */
struct backup_options {
    struct backup_option *list;
    size_t count;
};

/* NULL, or what is wrong in a few words. */
const char *backup_options_add(struct backup_options *options, const char *text);

void backup_options_clear(struct backup_options *options);

#endif
