/* The text format of Prometheus. */
#ifndef SLUICED_METRIC_TEXT_H
#define SLUICED_METRIC_TEXT_H

#include <stdint.h>
#include <stdio.h>

#include "daemon/base/latency.h"

/* The two lines before the values of a metric. @type: "gauge", "counter", "histogram" */
void metric_head(FILE *out, const char *name, const char *type, const char *help);

/* A metric with one value, which has no labels. */
void metric_gauge(FILE *out, const char *name, const char *help, double value);
void metric_counter(FILE *out, const char *name, const char *help, uint64_t value);

/* A histogram. */
void metric_latency(FILE *out, const char *name, const char *help, const struct latency *latency);

/* A text as the value of a label, without its quotes. */
void metric_label(FILE *out, const char *text);

#endif
