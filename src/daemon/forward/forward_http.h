/* Forwards by HTTP: FLV as the body of a chunked POST. */
#ifndef SLUICED_FORWARD_HTTP_H
#define SLUICED_FORWARD_HTTP_H

#include "daemon/config/forward_type.h"

extern const struct forward_type forward_http;

#endif
