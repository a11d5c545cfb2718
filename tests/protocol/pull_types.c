/* The daemon's table (src/daemon/pull/pull_types.c), and a row more: pull_flv.c. */
#include "daemon/pull/pull_rtsp.h"

extern const struct pull_type pull_flv;

const struct pull_type *const pull_types[] = {&pull_rtsp, &pull_flv, NULL};
