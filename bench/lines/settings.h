/* What both programs of the load are told. */
#ifndef SLUICE_BENCH_LINES_SETTINGS_H
#define SLUICE_BENCH_LINES_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

enum { FILLING_MS = 4100 }; /* until each stream has a whole group */

struct settings {
    uint64_t publishers;   /* 100 */
    uint64_t milliseconds; /* of the load's time after FILLING_MS: 2000 */
    bool cache;            /* of groups of pictures: yes */
};

/*
 * Reads the command line: --publishers, up to @most_publishers, --ms and --no-cache. Ends the
 * program with @usage for --help, and for anything else.
 */
struct settings settings_read(int argc, char **argv, uint64_t most_publishers, const char *usage);

#endif
