/* RTSP up to where media flows: all clients of a program. And what the programs have besides. */
#ifndef BENCH_RTSP_CLIENT_H
#define BENCH_RTSP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rtsp/opening.h"

enum { RTSP_CLIENT_ROOM = 8192 };

enum protocol { PROTOCOL_NONE, PROTOCOL_RTSP, PROTOCOL_RTMP, PROTOCOL_FLV };

/* By its name on the command line; PROTOCOL_NONE where there is no such. */
enum protocol read_protocol(const char *name);

typedef struct rtsp_client {
    opening_client opening;
    unsigned step; /* requests answered */
    char session[64];
    size_t have;
    /* a reply, as far as it has come; in the end the media behind the last one */
    char in[RTSP_CLIENT_ROOM];
} rtsp_client;

/* The socket is the receiver's, the client is given up afterwards. */
typedef void rtsp_ready_fn(rtsp_client *client);

/* Connects all and asks for all that a publisher (with the description) or a player (without) asks
 * for. Ends the process on failure. */
void rtsp_start(const opening *wanted, const char *description, rtsp_ready_fn *ready);

#endif
