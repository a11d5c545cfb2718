/* Forwards by RTMP: a publisher at another server. */
#ifndef SLUICED_FORWARD_RTMP_H
#define SLUICED_FORWARD_RTMP_H

#include "daemon/config/forward_type.h"

extern const struct forward_type forward_rtmp;

#endif
