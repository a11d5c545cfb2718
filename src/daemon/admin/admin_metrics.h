/* The workers' snapshots in the text format of Prometheus. */
#ifndef SLUICED_ADMIN_METRICS_H
#define SLUICED_ADMIN_METRICS_H

#include "daemon/admin/admin_api.h"

enum { METRICS_MOST_STREAMS = 2000 }; /* shown one by one: a time series each */

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* The text, to be freed; NULL when memory is short. */
char *admin_metrics(const struct admin_view *view, size_t *ret_size);

#endif
