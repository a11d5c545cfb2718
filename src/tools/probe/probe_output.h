/* What sluice-probe prints. */
#ifndef TOOLS_PROBE_OUTPUT_H
#define TOOLS_PROBE_OUTPUT_H

#include "tools/probe/probe_options.h"
#include "tools/probe/stats.h"

/* How the input came to its end, and what it was. */
struct probe_end {
    const char *container; /* "FLV", "HTTP-FLV", "RTSP" */
    int64_t size;          /* bytes read; or -1 */
    const char *reason;    /* why it ended; NULL: it was read to its end */
    bool has_flags;        /* of the file header */
    uint8_t flags;
};

/* The line above all frames, in text. */
void probe_print_head(const struct probe_options *options);

void probe_print_tag(const struct probe_options *options, const sluice_flv_tag *tag, int64_t offset);

void probe_print_summary(const struct probe_options *options, const struct stats *stats, const struct probe_end *end);

#endif
