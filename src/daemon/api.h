/* What the server tells of itself, as JSON. */
#ifndef SLUICED_API_H
#define SLUICED_API_H

#include "daemon/server.h"
#include "shared/json.h"

/* GET /api/v1/streams */
void api_streams(struct server *server, struct json *json);

#endif
