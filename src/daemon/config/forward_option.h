/*
 * What is to be forwarded, as operators write it: STREAM[?tracks=all|default]=URL. STREAM is a
 * stream's name, or a pattern in which "*" stands for any characters. Each "*" in the path or the
 * query of the URL becomes what the "*" of the pattern stands for. The user and the password are
 * kept apart from the URL, so that nothing that is logged or sent in the clear has them.
 */
#ifndef SLUICED_FORWARD_OPTION_H
#define SLUICED_FORWARD_OPTION_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/base/secret_file.h"
#include "daemon/base/stream_name.h"
#include "daemon/config/forward_type.h"
#include "daemon/config/pull_target.h"

enum { FORWARD_OPTIONS_MAX = 64 };

/* Of a stream with several tracks of a kind. */
enum forward_tracks {
    FORWARD_TRACKS_KNOWN, /* all, unless the protocol lets targets announce that, and it does not */
    FORWARD_TRACKS_ALL,
    FORWARD_TRACKS_DEFAULT, /* the main ones, in the form of old */
};

struct forward_option {
    const struct forward_type *type;
    char pattern[STREAM_NAME + 1];
    enum forward_tracks tracks;
    struct pull_target target; /* with the "*" of the URL as they are written */
    bool has_user;
    char user[RTSP_LOGIN_USER + 1], password[RTSP_LOGIN_USER + 1];
    bool from_file; /* of forwards, not of the configuration */
};

struct forward_options {
    struct forward_option list[FORWARD_OPTIONS_MAX];
    size_t count;
};

/* Of one written as above. NULL, or what is wrong in a few words, without any of the text: it may
 * hold a password or a key. The list is made for the first one. */
const char *forward_options_add(struct forward_options **options, const char *text);

/* The lines of a file; empty ones and those that begin with "#" are stepped over. 0, or -errno with
 * the error's text */
int forward_options_load(struct forward_options **options, const char *path, char error[SECRET_FILE_ERROR]);

/* How it was written behind the pattern: "?tracks=default"; empty for none. */
const char *forward_option_tracks_text(const struct forward_option *option);

/* 0 where there is no list. */
static inline size_t forward_options_count(const struct forward_options *options) {
    return options ? options->count : 0;
}

/*
 * Where a stream goes. 0, -ENOENT (the option is not about that stream), -EINVAL (the text for "*"
 * begins with a dot, so that it could name a parent folder, or the URL becomes invalid), -EMSGSIZE
 * (it becomes too long)
 */
int forward_option_target(const struct forward_option *option, const char *stream, struct pull_target *ret_target);

/* The same forward, wherever it was read. */
bool forward_option_equal(const struct forward_option *a, const struct forward_option *b);
bool forward_options_equal(const struct forward_options *a, const struct forward_options *b);

/* Forgets the passwords, too. NULL is allowed. */
void forward_options_free(struct forward_options *options);

#endif
