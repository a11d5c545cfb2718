/*
 * Stream names of RTMP: a client says in connect an app and a URL, and then a name, of which each
 * may have parts of the stream's name and of a query.
 *
 * The name is the app's path and the name's, with a slash between; one of them may be empty, as
 * where the key of an encoder is in its server field. A name that begins with "?" is a query alone.
 * The app of the URL counts where connect names none. Slashes at the ends of parts, quotes around
 * them, and a prefix such as "mp4:" or "flv:" of the name are no part of it.
 */
#ifndef SLUICED_RTMP_TARGET_H
#define SLUICED_RTMP_TARGET_H

#include <sluice/http.h>

#include "daemon/base/stream_name.h"

enum {
    RTMP_TEXT = 1023,      /* bytes of an app, a URL or a name */
    RTMP_QUERY_TEXT = 2047 /* of all queries together */
};

struct rtmp_target {
    char name[STREAM_NAME + 1];      /* valid */
    char query[RTMP_QUERY_TEXT + 1]; /* of the name, then of the app, then of the URL, with "&" between */
};

/* 0, -EINVAL (not a stream's name), -EMSGSIZE (the query is too long) */
int rtmp_target_read(const char *app, const char *url, const char *name, struct rtmp_target *ret_target);

/* The same before a name is known: the path that names of the app begin with, which may be empty,
 * and the query. 0, -EINVAL, -EMSGSIZE */
int rtmp_target_read_app(const char *app, const char *url, struct rtmp_target *ret_target);

#endif
