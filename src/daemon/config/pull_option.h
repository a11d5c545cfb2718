/*
 * What is to be pulled, as operators write it: URL=NAME[,on-demand]. A stream's name has neither
 * "=" nor ",", so the last "=" ends the URL, whatever its query holds. The name and password are
 * kept apart from the URL, so that nothing that is logged or sent in the clear has them.
 */
#ifndef SLUICED_PULL_OPTION_H
#define SLUICED_PULL_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/secret_file.h"
#include "daemon/base/stream_name.h"
#include "daemon/config/pull_target.h"
#include "daemon/config/pull_type.h"
#include "shared/rtsp_login.h"

enum {
    PULLS_MAX = 1000,
    /* an option as it is written */
    PULL_OPTION_TEXT = PULL_URL + STREAM_NAME + 6 * RTSP_LOGIN_USER + 32,
};

struct pull_option {
    const struct pull_type *type;
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

/*
 * One of its parts. NULL, or what is wrong in a few words, without any of the text: then the option
 * is all zero.
 */
const char *pull_option_read(struct pull_option *ret_option, const char *url, size_t url_length, const char *name,
                             size_t name_length, bool on_demand);

/* Of one written as above. NULL, or what is wrong in a few words, without any of the text: it may
 * hold a password. */
const char *pull_options_add(struct pull_options *options, const char *text);

/* The option as it may be written, with its password. */
void pull_option_format(const struct pull_option *option, char text[PULL_OPTION_TEXT]);

/* The lines of a file; empty ones and those that begin with "#" are stepped over. 0, or -errno with
 * the error's text */
int pull_options_load(struct pull_options *options, const char *path, char error[SECRET_FILE_ERROR]);

/* The same pull, wherever it was read. */
bool pull_option_equal(const struct pull_option *a, const struct pull_option *b);
bool pull_options_equal(const struct pull_options *a, const struct pull_options *b);

/* Forgets the passwords, too. */
void pull_options_clear(struct pull_options *options);

#endif
