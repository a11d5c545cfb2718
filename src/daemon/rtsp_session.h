/* RTSP connections: publishers and players, and the requests that make them so. */
#ifndef SLUICED_RTSP_SESSION_H
#define SLUICED_RTSP_SESSION_H

#include "daemon/server.h"

/* Takes the descriptor over in any case. @listener: by which it came. */
void rtsp_session_start(struct server *server, int fd, const struct sockaddr_storage *peer,
                        const struct listener_option *listener);

#endif
