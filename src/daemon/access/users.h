/*
 * The users that may publish and play: a file of lines "[publish |play ]NAME:PASSWORD". Without the
 * first word a user may do both. Empty lines and lines that begin with "#" are ignored. Passwords
 * are stored in plain text, because Digest needs them, so other users must not be able to read the
 * file.
 */
#ifndef SLUICED_USERS_H
#define SLUICED_USERS_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/base/secret_file.h"

enum { USERS_MAX = 1000, USERS_ERROR = SECRET_FILE_ERROR };

enum user_rights { USER_MAY_PUBLISH = 1, USER_MAY_PLAY = 2 };

struct user {
    const char *name, *password;
    unsigned rights;
};

struct users;

/* 0, or -errno with a text that says where and what: "FILE:LINE: ...". */
int users_load(const char *path, struct users **ret_users, char error[USERS_ERROR]);

/* Forgets the passwords, too. NULL is allowed. */
void users_free(struct users *users);

/* The same names, passwords and rights. Either may be NULL. */
bool users_equal(const struct users *a, const struct users *b);

/* The first line's; there is one. */
const struct user *users_first(const struct users *users);

/* NULL when there is none of that name. */
const struct user *users_find(const struct users *users, const char *name, size_t length);

#endif
