/* The URLs of media in a description, for an RTSP client. */
#ifndef SHARED_RTSP_URL_H
#define SHARED_RTSP_URL_H

#include <sluice/http.h>

enum { RTSP_URL = 2048 };

/*
 * A control URL of a description, which is absolute (rtsp:// or rtsps://), or relative to a base.
 * Cameras mean by that what is put behind the base and a slash, also behind a query, whatever RFC
 * 3986 says; nothing and "*" mean the base. 0, -EMSGSIZE
 */
int rtsp_control_url(const char *base, sluice_http_text control, char ret_url[RTSP_URL + 1]);

#endif
