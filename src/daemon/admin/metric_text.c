#include "daemon/admin/metric_text.h"

#include <inttypes.h>

void metric_head(FILE *out, const char *name, const char *type, const char *help) {
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metric_gauge(FILE *out, const char *name, const char *help, double value) {
    metric_head(out, name, "gauge", help);
    fprintf(out, "%s %.10g\n", name, value);
}

void metric_counter(FILE *out, const char *name, const char *help, uint64_t value) {
    metric_head(out, name, "counter", help);
    fprintf(out, "%s %" PRIu64 "\n", name, value);
}

void metric_latency(FILE *out, const char *name, const char *help, const struct latency *latency) {
    uint64_t count = 0;
    metric_head(out, name, "histogram", help);
    for (size_t range = 0; range < LATENCY_BOUNDS; range++) {
        count += latency->counts[range];
        fprintf(out, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, latency_bound(range), count);
    }
    fprintf(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum %.9f\n%s_count %" PRIu64 "\n", name, latency->count, name,
            (double)latency->sum_ns / 1e9, name, latency->count);
}

void metric_label(FILE *out, const char *text) {
    for (; *text; text++) {
        if (*text == '\\' || *text == '"')
            fputc('\\', out);
        fputc(*text == '\n' ? ' ' : *text, out);
    }
}
