/* RTMP: a connection publishes or plays one stream. */
#ifndef SLUICED_RTMP_SESSION_H
#define SLUICED_RTMP_SESSION_H

#include "daemon/config/protocol.h"

/* --rtmp */
extern const struct protocol rtmp_protocol;

#endif
