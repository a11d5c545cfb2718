/*
 * The API's request for a pull: {"url": ..., "stream": ..., "on_demand": ..., "ttl": ...}. No
 * sockets.
 */
#ifndef SLUICED_ADMIN_PULL_H
#define SLUICED_ADMIN_PULL_H

#include <stddef.h>

#include "daemon/pull/pull.h"

enum { ADMIN_PULL_TTL_MAX_S = 365 * 86400 };

/*
 * Once, before the first body is read: makes jansson wipe what it frees, since bodies may hold
 * passwords.
 */
void admin_pull_init(void);

/*
 * Makes the pull of a request's body. @text: NULL if it is empty. 0, -ENOMEM, or -EINVAL with what
 * is wrong in a few words, without any of the text, which may hold a password
 */
int admin_pull_read(const char *text, size_t size, struct pull **ret_pull, const char **ret_wrong);

#endif
