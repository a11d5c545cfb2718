/*
 * What is to be pulled, as operators write it: URL=NAME[,on-demand]. A stream's name has neither "=" nor ",", so the
 * last "=" ends the URL, whatever its query holds. The name and password are kept apart from the URL, so that nothing
 * that is logged or sent in the clear has them.
 */
#ifndef SLUICED_PULL_OPTION_H
#define SLUICED_PULL_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/private_file.h"
#include "daemon/pull_target.h"
#include "daemon/stream_name.h"
#include "shared/rtsp_login.h"

enum { PULLS_MAX = 1000 };

struct pull_option {
    struct pull_target target;
    bool has_user;
    char user[RTSP_LOGIN_USER + 1], password[RTSP_LOGIN_USER + 1];
    char name[STREAM_NAME + 1];
    bool on_demand;
    bool from_file; /* of pulls, not of the configuration */
};

struct pull_options {
    struct pull_option *list;
    size_t count, capacity;
};

/* NULL, or what is wrong in a few words, without any of the text: it may hold a password. */
const char *pull_options_add(struct pull_options *options, const char *text);

/* The lines of a file; empty ones and those that begin with "#" are stepped over. 0, or -errno with the error's text */
int pull_options_load(struct pull_options *options, const char *path, char error[PRIVATE_FILE_ERROR]);

/* The same pull, wherever it was read. */
bool pull_option_equal(const struct pull_option *a, const struct pull_option *b);
bool pull_options_equal(const struct pull_options *a, const struct pull_options *b);

/* Forgets the passwords, too. */
void pull_options_clear(struct pull_options *options);

#endif
