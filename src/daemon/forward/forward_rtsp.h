/* Forwards by RTSP: ANNOUNCE and RECORD, with RTP over the connection. */
#ifndef SLUICED_FORWARD_RTSP_H
#define SLUICED_FORWARD_RTSP_H

#include "daemon/config/forward_type.h"

extern const struct forward_type forward_rtsp;

#endif
