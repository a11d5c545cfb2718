/*
 * A protocol by which streams are forwarded, selected by the scheme of the URL. A new one is a file
 * in daemon/forward with a constant of this type, and a row in the table there (forward_types.c).
 */
#ifndef SLUICED_FORWARD_TYPE_H
#define SLUICED_FORWARD_TYPE_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/config/pull_target.h"

struct forward;

struct forward_type {
    struct pull_scheme scheme; /* its name is the type's, too */
    const char *form;          /* of its URLs, "http[s]://[USER:PASSWORD@]HOST[:PORT]/PATH" */

    /* Whether it is one that the type can forward to, as written or with its "*" replaced. NULL:
     * any */
    bool (*is_valid)(const char *url);

    /*
     * Begins a session on the connected socket, which is the session's on success: see
     * daemon/forward/forward_session.h. 0, -ENOMEM, -errno
     */
    int (*start)(struct forward *forward, int fd);
};

/* The last one is NULL. */
extern const struct forward_type *const forward_types[];

/* The type of a URL's scheme, in any case. NULL: none that is known. */
const struct forward_type *forward_type_find(const char *url, size_t length);

/* What is expected of an option, with the forms of all types. Any thread. */
const char *forward_type_expected(void);

#endif
