/* The protocols by which this daemon forwards: a row each. */
#include "daemon/forward/forward_http.h"

const struct forward_type *const forward_types[] = {
    &forward_http,
    NULL,
};
