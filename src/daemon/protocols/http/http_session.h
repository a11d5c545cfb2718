/* HTTP connections: publishers, players, and the requests that make them so. */
#ifndef SLUICED_HTTP_SESSION_H
#define SLUICED_HTTP_SESSION_H

#include "daemon/config/protocol.h"

/* --http */
extern const struct protocol http_protocol;

#endif
