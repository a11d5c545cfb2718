/* The daemon's table (src/daemon/process/protocol_table.c), and a row more: line.c. */
#include "daemon/protocols/flv/flv_session.h"
#include "daemon/protocols/http/http_session.h"
#include "daemon/protocols/rtsp/rtsp_session.h"

extern const struct protocol line_protocol;

const struct protocol *const protocol_table[] = {
    &flv_protocol, &http_protocol, &rtsp_protocol, &line_protocol, NULL,
};
