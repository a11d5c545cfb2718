/* The queries of requests that ask for a part of what there is. */
#ifndef SLUICED_ADMIN_QUERY_H
#define SLUICED_ADMIN_QUERY_H

#include <stdbool.h>

#include "daemon/cluster/cluster_view.h"
#include "daemon/control/stream_page.h"

enum { ADMIN_LIST_MOST = 500 }; /* of players=, and of limit= for other lists than streams */

/*
 * search=TEXT, sort=WORD, order=asc|desc, offset=N, limit=N. @page: the defaults, for what the
 * query does not name. @query: or NULL. False: it is something else, or out of range.
 */
bool admin_query_page(const char *query, struct stream_page *page);

/* search=TEXT, node=NAME, offset=N, limit=N; likewise. */
bool admin_query_locations(const char *query, struct cluster_stream_page *page);

/* players=N, limit=N. False: it is something else, or out of range. */
bool admin_query_players(const char *query, uint32_t *players);
bool admin_query_limit(const char *query, uint32_t *limit);

#endif
