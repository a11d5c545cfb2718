/* A publisher that sends FLV over TCP, without any protocol around it. */
#ifndef SLUICED_FLV_SESSION_H
#define SLUICED_FLV_SESSION_H

#include "daemon/config/protocol.h"

/* --flv. The stream's name is the listener's, or one made from the peer's port. */
extern const struct protocol flv_protocol;

#endif
