/* A publisher that sends FLV over TCP, without any protocol around it. */
#ifndef SLUICED_FLV_SESSION_H
#define SLUICED_FLV_SESSION_H

#include "daemon/server.h"

/* Takes the descriptor over in any case. @stream: the name, or empty for one made from the peer's port. */
void flv_session_start(struct server *server, int fd, const struct sockaddr_storage *peer, const char *stream);

#endif
