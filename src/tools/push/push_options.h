/* The command line of sluice-push. */
#ifndef TOOLS_PUSH_OPTIONS_H
#define TOOLS_PUSH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/loop.h>

#include "tools/target.h"
#include "tools/trust.h"

enum { PUSH_MOST = 100000 };

struct push_options {
    const char *file;     /* NULL without publishers */
    struct target target; /* of publishers; the path may hold "%d" */
    struct target play;   /* of players; likewise */
    uint32_t publishers, players, stalled;
    uint32_t streams; /* that players are spread over */
    double rate;
    bool loop, json, quiet;
    uint64_t duration_ms; /* 0: to the file's end, or for ever */
    uint32_t ramp_ms;
    uint32_t retries;
    uint32_t timeout_ms;
    struct trust trust;
    sluice_backend_choice backend;
};

enum push_options_result { PUSH_RUN, PUSH_DONE, PUSH_WRONG };

/* What is wrong, and what was asked for (--help), is printed. */
enum push_options_result push_options_parse(int argc, char **argv, struct push_options *ret_options);

#endif
