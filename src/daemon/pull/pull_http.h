/* Pulls by HTTP: the body of a response is an FLV stream, chunked, by length or until the end. */
#ifndef SLUICED_PULL_HTTP_H
#define SLUICED_PULL_HTTP_H

#include "daemon/config/pull_type.h"

extern const struct pull_type pull_http;

#endif
