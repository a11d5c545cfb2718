/*
 * A protocol by which streams are pulled, selected by the scheme of the URL. A new one is a file in
 * daemon/pull with a constant of this type, and a row in the table there (pull_types.c); a program
 * with other types has a table of its own.
 */
#ifndef SLUICED_PULL_TYPE_H
#define SLUICED_PULL_TYPE_H

#include <stddef.h>

#include <sluice/http.h>

#include "daemon/config/pull_target.h"

struct pull;
struct session;

struct pull_type {
    struct pull_scheme scheme; /* its name is the type's, too */
    const char *form;          /* of its URLs, "rtsp[s]://[USER:PASSWORD@]HOST[:PORT]/PATH" */

    /*
     * Takes a URL of these schemes apart. @ret_user: USER or USER:PASSWORD as it is written; empty
     * without. 0, -EPROTO (malformed), -EMSGSIZE (too long)
     */
    int (*parse)(const char *url, size_t length, struct pull_target *ret_target, sluice_http_text *ret_user);

    /*
     * Begins a session on the connected socket, which is the session's on success. It reports by
     * outgoing_connected(), outgoing_media() and outgoing_set_timeout() of outgoing.h, and by
     * pull_begin_step(), pull_begin_playing(), pull_fail() and pull_redirect() of pull.h, until
     * either has let go of the other. 0, -ENOMEM, -errno
     */
    int (*start)(struct pull *pull, int fd, struct session **ret_session);

    /* The pull lets go. @error: as for publisher_end() */
    void (*leave)(struct session *session, int error);

    /* Sends whatever keeps the camera from ending the session. NULL: it never calls
     * outgoing_set_timeout() */
    void (*keep_alive)(struct session *session);
};

/* The last one is NULL. */
extern const struct pull_type *const pull_types[];

/* The type of a URL's scheme, in any case. NULL: none that is known. */
const struct pull_type *pull_type_find(const char *url, size_t length);

/* What is expected of a URL, with the forms of all types; and of an option, which has a name behind
 * it. Any thread. */
const char *pull_type_expected_url(void);
const char *pull_type_expected_option(void);

#endif
