/* The command line of sluice-probe. */
#ifndef TOOLS_PROBE_OPTIONS_H
#define TOOLS_PROBE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/loop.h>

#include "tools/target.h"
#include "tools/trust.h"

struct probe_options {
    const char *input; /* as it was given */
    struct target target;
    struct trust trust;
    bool frames, json;
    int64_t duration_ms; /* of media, 0: all */
    uint64_t count;      /* frames, 0: all */
    uint32_t timeout_ms;
    sluice_backend_choice backend;
};

enum probe_options_result { PROBE_RUN, PROBE_DONE, PROBE_WRONG };

/* What is wrong, and what was asked for (--help), is printed. */
enum probe_options_result probe_options_parse(int argc, char **argv, struct probe_options *ret_options);

#endif
