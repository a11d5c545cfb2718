/*
 * URLs of RTMP, rtmp[s]://[USER:PASSWORD@]HOST[:PORT]/APP[/INSTANCE]/NAME[?query], taken apart as
 * ffmpeg does: what a client names in connect, and what in publish and play.
 */
#ifndef SHARED_RTMP_URL_H
#define SHARED_RTMP_URL_H

#include <stddef.h>

enum {
    RTMP_PORT = 1935, /* of a URL without one */
    RTMPS_PORT = 443, /* likewise, of rtmps:// */
    RTMP_URL_APP = 512,
    RTMP_URL_NAME = 1024,
    RTMP_URL_TC = RTMP_URL_APP + 272,
};

struct rtmp_url {
    char tc_url[RTMP_URL_TC + 1]; /* rtmp[s]://HOST[:PORT]/APP[/INSTANCE] alone */
    char app[RTMP_URL_APP + 1];   /* APP[/INSTANCE] */
    char name[RTMP_URL_NAME + 1]; /* the play path: NAME[?query] */
};

/*
 * The app is the path's first part, and its second one where another part is behind it; the rest
 * with the query is the name, whatever slashes it has. A colon in the second part begins the name
 * already, as in APP/mp4:FOLDER/FILE. Nothing is decoded. 0, -EPROTO (another scheme, no app or
 * no name, a blank or a control byte), -EMSGSIZE (a part is too long)
 */
int rtmp_url_read(const char *url, size_t length, struct rtmp_url *ret_url);

#endif
