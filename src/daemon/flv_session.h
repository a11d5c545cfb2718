/* A publisher that sends FLV over TCP, without any protocol around it. */
#ifndef SLUICED_FLV_SESSION_H
#define SLUICED_FLV_SESSION_H

#include "daemon/worker.h"

/* The name of the stream that comes from there: the listener's, or one made from the peer's port. */
void flv_session_name(const struct listener_option *listener, uint16_t peer_port, char name[STREAM_NAME + 1]);

/*
 * The stream is the worker's. The connection is the session's on success, and untouched on failure. 0, -ENOMEM, -EINVAL
 */
int flv_session_start(struct worker *worker, sluice_conn_handover *connection, const struct sockaddr_storage *peer,
                      const struct listener_option *listener);

#endif
