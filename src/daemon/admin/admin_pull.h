/* What the API is asked to pull: {"url": ..., "stream": ..., "on_demand": ..., "ttl": ...}. Knows
 * no sockets. */
#ifndef SLUICED_ADMIN_PULL_H
#define SLUICED_ADMIN_PULL_H

#include <stddef.h>

#include "daemon/pull/pull.h"

enum { ADMIN_PULL_TTL_MAX_S = 365 * 86400 };

/*
 * Makes the pull of a request's body. @text: as for json_read_object() 0, -ENOMEM, or -EINVAL with
 * what is wrong in a few words, without any of the text, which may hold a password
 */
int admin_pull_read(char *text, size_t size, struct pull **ret_pull, const char **ret_wrong);

#endif
