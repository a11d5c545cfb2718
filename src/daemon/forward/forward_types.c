/* The protocols by which this daemon forwards: a row each. */
#include "daemon/forward/forward_http.h"
#include "daemon/forward/forward_rtmp.h"
#include "daemon/forward/forward_rtsp.h"

const struct forward_type *const forward_types[] = {
    &forward_rtmp,
    &forward_rtsp,
    &forward_http,
    NULL,
};
