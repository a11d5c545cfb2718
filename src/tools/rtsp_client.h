/*
 * A conversation with an RTSP server on one connection: one request at a time, its answer, logins,
 * keep-alives. The requests, and the meaning of frames, belong to its users: play_rtsp.c,
 * publish_rtsp.c.
 */
#ifndef TOOLS_RTSP_CLIENT_H
#define TOOLS_RTSP_CLIENT_H

#include <stdbool.h>

#include <sluice/conn.h>
#include <sluice/rtsp.h>
#include <sluice/sdp.h>
#include <sluice/writer.h>

#include "shared/rtsp_requests.h"
#include "tools/target.h"
#include "tools/transport.h"

struct rtsp_client;

struct rtsp_client_events {
    /* The answer to what was asked last, and a good one. */
    void (*answered)(struct rtsp_client *client, sluice_rtsp_method asked, const sluice_rtsp_message *reply,
                     void *user);
    void (*frame)(struct rtsp_client *client, sluice_rtsp_message *frame, void *user);
    /* The kernel has taken something: there may be room in the writer. May be NULL. */
    void (*sent)(struct rtsp_client *client, void *user);
    /* Nothing else comes but closed(). @error is 0 when the end was asked for, or the server's
     * own. */
    void (*ended)(struct rtsp_client *client, int error, const char *reason, void *user);
    /* The last call, from the loop: the client goes. */
    void (*closed)(void *user);
};

struct rtsp_client {
    const struct rtsp_client_events *events;
    void *user;
    sluice_conn *conn;
    struct transport transport; /* the connection's bytes */
    sluice_rtsp *framer;
    sluice_writer *writer;
    struct target target;
    struct rtsp_requests requests;
    char url[RTSP_URL + 1]; /* of the stream */
    bool has_get_parameter;
    bool ended;
    uint64_t alive_at; /* of the last request */
    uint64_t alive_ms; /* how often one is due */
};

/*
 * @target: copied. @limit: most bytes that wait to be sent. The descriptor is the client's, or on
 * failure still the caller's. 0, -ENOMEM, -EMSGSIZE (too long a URL)
 */
int rtsp_client_new(sluice_conn *conn, const struct target *target, size_t limit,
                    const struct rtsp_client_events *events, void *user, struct rtsp_client **ret_client);

/* Asks; what goes wrong ends the client, so that nothing may be done with it after the call but
 * return. */
void rtsp_client_ask(struct rtsp_client *client, const struct rtsp_request *request);

/* To be called each second: keeps the session. */
void rtsp_client_tick(struct rtsp_client *client, uint64_t now);

/* Ends it: ended() is called from in here, once. */
void rtsp_client_end(struct rtsp_client *client, int error, const char *reason);

/* Sends an RTCP packet. One that finds no room is lost. */
void rtsp_client_send_rtcp(struct rtsp_client *client, uint8_t channel, const uint8_t *packet, size_t size);

#endif
