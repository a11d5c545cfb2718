/* RTSP connections: publishers and players, and the requests that make them so. */
#ifndef SLUICED_RTSP_SESSION_H
#define SLUICED_RTSP_SESSION_H

#include "daemon/config/protocol.h"

/* --rtsp */
extern const struct protocol rtsp_protocol;

#endif
