/* What the workers have said, in the text format of Prometheus. */
#ifndef SLUICED_ADMIN_METRICS_H
#define SLUICED_ADMIN_METRICS_H

#include "daemon/admin/admin_api.h"

enum {
    METRICS_MOST_STREAMS = 2000
}; /* that are shown one by one: each is a time series more for the one who keeps them */

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* The text, to be freed; NULL when memory is short. */
char *admin_metrics(const struct admin_view *view, size_t *ret_size);

#endif
