/* RTSP connections: publishers and players, and the requests that make them so. */
#ifndef SLUICED_RTSP_SESSION_H
#define SLUICED_RTSP_SESSION_H

#include "daemon/worker.h"

/* The connection is the session's on success, and untouched on failure. @listener: by which it came. 0, -ENOMEM */
int rtsp_session_start(struct worker *worker, sluice_conn_handover *connection, const struct sockaddr_storage *peer,
                       const struct listener_option *listener);

#endif
