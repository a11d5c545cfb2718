/* A client of the HTTP port: publishes or plays. */
#ifndef SLUICED_HTTP_SESSION_H
#define SLUICED_HTTP_SESSION_H

#include "daemon/server.h"

/* Takes the descriptor over in any case. @listener: by which it came. */
void http_session_start(struct server *server, int fd, const struct sockaddr_storage *peer,
                        const struct listener_option *listener);

#endif
