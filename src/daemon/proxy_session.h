/*
 * A connection of a proxy, until its PROXY header has come: then the client is known, and the connection goes on as an
 * accepted one of that client's. Without a right header, or without one in time, it is rejected.
 */
#ifndef SLUICED_PROXY_SESSION_H
#define SLUICED_PROXY_SESSION_H

#include "daemon/worker.h"

/*
 * The connection is the session's on success, and untouched on failure. @listener: by which it came. The first worker's
 * thread. 0, -ENOMEM
 */
int proxy_session_start(struct worker *worker, sluice_conn_handover *connection, const struct sockaddr_storage *peer,
                        const struct listener_option *listener);

#endif
