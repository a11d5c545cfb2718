/* RTSP up to where media flows: all clients of a program at once. And what the programs have
 * besides. */
#ifndef BENCH_RTSP_CLIENT_H
#define BENCH_RTSP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RTSP_CLIENT_ROOM = 8192 };

enum protocol { PROTOCOL_NONE, PROTOCOL_RTSP, PROTOCOL_RTMP, PROTOCOL_FLV };

/* By its name on the command line; PROTOCOL_NONE where there is no such. */
enum protocol read_protocol(const char *name);

typedef struct rtsp_client {
    int fd;
    const char *name; /* of the stream */
    unsigned step;    /* requests answered */
    char session[64];
    size_t have;
    /* a reply, as far as it has come; in the end the media behind the last one */
    char in[RTSP_CLIENT_ROOM];
} rtsp_client;

/* A socket, connected to the port on 127.0.0.1, that leaves no states behind: for secure_send() and
 * secure_recv(), which wait. Ends the process on failure. */
int connect_to(uint16_t port);

/* Connects all and asks for all that a publisher (with the description) or a player (without) asks
 * for. The sockets do not block afterwards. @param clients with their names set */
void rtsp_clients_start(rtsp_client *clients, uint32_t count, uint16_t port, const char *description);

#endif
