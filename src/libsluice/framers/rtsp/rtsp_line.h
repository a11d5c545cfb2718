/* Start lines of RTSP messages. */
#ifndef SLUICE_FRAMERS_RTSP_LINE_H
#define SLUICE_FRAMERS_RTSP_LINE_H

#include <sluice/rtsp.h>

/*
 * Reads a request or status line, which is without its end, into the message's kind, method, URL,
 * status, reason and version: 0, -EPROTO, -ENAMETOOLONG (the URL), -EPROTONOSUPPORT (the version).
 */
int rtsp_parse_start_line(sluice_http_text line, uint32_t max_url, sluice_rtsp_message *message);

/* The method of that name; SLUICE_RTSP_OTHER. */
sluice_rtsp_method rtsp_method(sluice_http_text name);

enum rtsp_begins {
    RTSP_BEGINS_NOTHING, /* no message of a known kind */
    RTSP_BEGINS_MAYBE,   /* too few bytes to decide */
    RTSP_BEGINS_TEXT,    /* "RTSP/", or a known method and its space */
};

/* What up to RTSP_TELLING bytes begin. */
enum { RTSP_TELLING = 14 };
enum rtsp_begins rtsp_begins(const char *bytes, size_t n);

#endif
