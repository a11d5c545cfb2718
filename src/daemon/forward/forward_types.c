/* The protocols by which this daemon forwards: a row each. */
#include "daemon/forward/forward_http.h"
#include "daemon/forward/forward_rtmp.h"

const struct forward_type *const forward_types[] = {
    &forward_rtmp,
    &forward_http,
    NULL,
};
