/*
 * Pulls by RTSP: one connection asks the camera, answers its challenges, and publishes what comes.
 * When the pull lets go of it, or it fails, it sends TEARDOWN and ends by itself.
 */
#ifndef SLUICED_PULL_RTSP_H
#define SLUICED_PULL_RTSP_H

#include "daemon/config/pull_type.h"

extern const struct pull_type pull_rtsp;

#endif
