/* What the server tells of itself, as JSON. */
#ifndef SLUICED_API_H
#define SLUICED_API_H

#include "daemon/json.h"
#include "daemon/server.h"

/* GET /api/v1/streams */
void api_streams(struct server *server, struct json *json);

#endif
