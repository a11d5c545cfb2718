/* Options of the daemon for targets that fuzz it: as a configuration file and the files that it
 * names say them. */
#ifndef SLUICE_TESTS_FUZZ_DAEMON_H
#define SLUICE_TESTS_FUZZ_DAEMON_H

#include "daemon/config/options_load.h"

/* A file in memory that nobody else may read, and its path. */
void daemon_file(const void *text, size_t n, char *ret_path, size_t size);
void daemon_file_close(const char *path);

/* The options that a configuration file says, which must be right; @extra follows on what keeps it
 * to itself. */
const struct options *daemon_options(const char *extra);

/* Log lines go nowhere, but are looked at: nothing in them may be other than printable ASCII. */
void daemon_watch_log(void);

#endif
