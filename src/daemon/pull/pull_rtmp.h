/* Pulls by RTMP, from other servers: what they send to a player is published. */
#ifndef SLUICED_PULL_RTMP_H
#define SLUICED_PULL_RTMP_H

#include "daemon/config/pull_type.h"

extern const struct pull_type pull_rtmp;

#endif
