/*
 * The answer to clients that tunnel RTSP through HTTP (GET and POST with x-sessioncookie), which is
 * not supported.
 */
#ifndef SLUICED_RTSP_ADVICE_H
#define SLUICED_RTSP_ADVICE_H

#define RTSP_ADVICE                                                                                                    \
    "RTSP over HTTP is not served: connect by rtsp:// and ask for RTP over TCP (ffmpeg -rtsp_transport tcp, "          \
    "VLC --rtsp-tcp), or play by HTTP-FLV at the HTTP port"

#endif
