/* A client of the HTTP port: publishes or plays. */
#ifndef SLUICED_HTTP_SESSION_H
#define SLUICED_HTTP_SESSION_H

#include "daemon/worker.h"

/* The connection is the session's on success, and untouched on failure. @listener: by which it came. 0, -ENOMEM */
int http_session_start(struct worker *worker, sluice_conn_handover *connection, const struct sockaddr_storage *peer,
                       const struct listener_option *listener);

#endif
