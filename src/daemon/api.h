/* What the server tells of itself, as JSON. */
#ifndef SLUICED_API_H
#define SLUICED_API_H

#include "daemon/json.h"
#include "daemon/snapshot.h"

/* GET /api/v1/streams. @snapshot: with all of its lists */
void api_streams(const struct snapshot *snapshot, struct json *json);

#endif
