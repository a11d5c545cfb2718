/* The protocols by which this daemon pulls: a row each. A program with others has its own table. */
#include "daemon/pull/pull_http.h"
#include "daemon/pull/pull_rtmp.h"
#include "daemon/pull/pull_rtsp.h"

const struct pull_type *const pull_types[] = {
    &pull_rtsp,
    &pull_http,
    &pull_rtmp,
    NULL,
};
