/*
 * One connection of a pull: asks the camera, answers its challenges, and publishes what comes. When the pull is done
 * with it, or it fails, it takes leave by TEARDOWN and ends by itself.
 */
#ifndef SLUICED_PULL_SESSION_H
#define SLUICED_PULL_SESSION_H

#include "daemon/pull.h"
#include "shared/rtsp_login.h"

/*
 * Asks the first question. The descriptor belongs to the session on success. @login: copied
 * 0, -ENOMEM
 */
int pull_session_start(struct pull *pull, int fd, const struct sockaddr_storage *peer, const struct rtsp_login *login,
                       struct pull_session **ret_session);

/* The pull lets go. @error: as for publisher_end() */
void pull_session_leave(struct pull_session *session, int error);

void pull_session_keep_alive(struct pull_session *session);

#endif
