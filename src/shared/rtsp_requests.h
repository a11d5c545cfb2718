/*
 * The requests of an RTSP client on one connection, one at a time: their numbers, the session, and
 * the login, which repeats a request. No sockets: they are queued in a writer.
 */
#ifndef SHARED_RTSP_REQUESTS_H
#define SHARED_RTSP_REQUESTS_H

#include <stddef.h>

#include <sluice/rtsp.h>
#include <sluice/writer.h>

#include "shared/rtsp_login.h"
#include "shared/rtsp_url.h"

enum {
    RTSP_REQUESTS_SESSION = 255, /* longest id of a session that is taken */
    RTSP_REQUESTS_RTCP = 512,    /* longest RTCP packet */
};

/* The body belongs to the caller until the answer, since a login repeats the request. */
struct rtsp_request {
    sluice_rtsp_method method;
    const char *url;
    bool record;      /* SETUP: to publish */
    uint8_t channel;  /* SETUP: of RTP; the next is RTCP's */
    const char *body; /* ANNOUNCE: SDP; or NULL */
    size_t body_size;
};

/* All zero at first, but for the writer, the agent and the name and password of the login. */
struct rtsp_requests {
    sluice_writer *writer;
    const char *agent; /* User-Agent */
    struct rtsp_login login;
    struct rtsp_request asked; /* method SLUICE_RTSP_OTHER: no answer is due */
    char asked_url[RTSP_URL + 1];
    char session[RTSP_REQUESTS_SESSION + 1]; /* empty before the first SETUP */
    uint32_t timeout;                        /* of the session, seconds; 0: not known */
    uint32_t cseq;                           /* of the last request */
};

const char *rtsp_requests_method(sluice_rtsp_method method);

/* Queues a request. 0, -EMSGSIZE (it is too long), -EAGAIN (no room), -EIO (no random bytes), or an
 * error of the writer */
int rtsp_requests_ask(struct rtsp_requests *requests, const struct rtsp_request *request);

/* Whether this is the answer to what was asked; interim ones are none. */
bool rtsp_requests_is_answer(const struct rtsp_requests *requests, const sluice_rtsp_message *reply);

/* The answer is 401: queues the request again, with credentials. 0, an error of rtsp_login_take(),
 * or of rtsp_requests_ask() */
int rtsp_requests_log_in(struct rtsp_requests *requests, const sluice_rtsp_message *reply);

/* The answer is a good one: no answer is due any more. Takes the session that it names. 0, -EPROTO
 * (malformed, or too long an id) */
int rtsp_requests_answered(struct rtsp_requests *requests, const sluice_rtsp_message *reply);

/* Queues an RTCP packet of at most RTSP_REQUESTS_RTCP bytes. One that finds no room is lost. */
void rtsp_requests_send_rtcp(const struct rtsp_requests *requests, uint8_t channel, const uint8_t *packet, size_t size);

/* Answers a request of the server, as some send to keep a session. 0, or an error of the writer. */
int rtsp_requests_reply(const struct rtsp_requests *requests, const sluice_rtsp_message *request);

#endif
