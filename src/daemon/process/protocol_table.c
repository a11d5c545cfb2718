/* The protocols of this daemon: a row each. A program with other ones has a table of its own. */
#include "daemon/config/protocol.h"
#include "daemon/protocols/flv/flv_session.h"
#include "daemon/protocols/http/http_session.h"
#include "daemon/protocols/rtmp/rtmp_session.h"
#include "daemon/protocols/rtsp/rtsp_session.h"

const struct protocol *const protocol_table[] = {
    &flv_protocol, &http_protocol, &rtmp_protocol, &rtsp_protocol, NULL,
};
