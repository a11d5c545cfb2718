/* The inside of an RTSP session, shared by its files: requests, publishing, playing. */
#ifndef SLUICED_RTSP_SESSION_INTERNAL_H
#define SLUICED_RTSP_SESSION_INTERNAL_H

#include <sluice/rtsp.h>
#include <sluice/sdp.h>
#include <sluice/writer.h>

#include "daemon/protocols/rtsp/rtsp_auth.h"
#include "daemon/protocols/rtsp/rtsp_source.h"
#include "daemon/protocols/rtsp/rtsp_state.h"
#include "daemon/relay/rtp_packetizer.h"
#include "daemon/server/worker.h"

enum {
    RTSP_TIMEOUT_S = 60,   /* reported to clients */
    RTSP_REPORT_MS = 5000, /* between sender or receiver reports */
    RTSP_HEAD = 4096,      /* longest head of a reply */
    RTSP_BODY = 24576,     /* longest description that is sent */
    /* owed to a client in replies and reports: beyond it requests wait, and reports are dropped */
    RTSP_OWED = 16384,
    /* most that is owed: that, and a reply; a publisher that is owed more is disconnected */
    RTSP_WRITER = 65536,
};

struct rtsp_session {
    struct session base;
    enum rtsp_state state;
    uint32_t set_up_count;
    sluice_rtsp *framer;
    sluice_writer *writer; /* replies and RTCP, between frames; NULL while none is queued */
    struct rtsp_auth auth;
    char id[RTSP_SESSION_ID + 1]; /* given with the first SETUP */
    struct rtsp_channel channels[SLUICE_SDP_MAX_MEDIA];
    uint64_t active_at; /* loop time of the last request, or of what keeps the session otherwise */
    uint64_t received;  /* bytes, when the tick last looked */
    uint64_t reported_at;
    bool peer_ended;
    /* the head of the message that is waited for: its body may come */
    bool is_judged;
    bool is_granted; /* that was so of the message that is handled */
    bool joined;     /* playing: in the stream's list */
    unsigned hooked_actions;
    struct pace unit; /* publishing: of the frame being received */
    /* a request that another worker goes on with: the framer's; or NULL */
    const sluice_rtsp_message *moving;
    /* during a hook query: the request, owned by the framer */
    const sluice_rtsp_message *asked;
    char *hooked; /* the stream that a hook has granted last; or NULL */

    /* What was gathered last, in the order in which it is sent. */
    size_t gathered_rest, gathered_text;

    /* Publishing: */
    struct rtsp_source source;

    /* Playing: */
    struct player *player;
    uint64_t joined_at;
    int64_t asked_cseq; /* of the DESCRIBE, or ANNOUNCE, that is owed an answer */
    char *asked_url;    /* and its URL */
};

/* Makes the writer where there is none: 0, -EPIPE, -ENOMEM. */
int rtsp_need_writer(struct rtsp_session *session);

/* Bytes queued there. */
size_t rtsp_queued(const struct rtsp_session *session);

/* A reply with some headers: begun, then headers are written to the writer, then sent. */
struct rtsp_reply {
    sluice_rtsp_writer head;
    char buffer[RTSP_HEAD];
};
void rtsp_reply_begin(struct rtsp_reply *reply, const struct rtsp_session *session, unsigned status, int64_t cseq);

/* Queues it, with a body where @type is given. */
void rtsp_reply_send(struct rtsp_session *session, struct rtsp_reply *reply, const char *type, const char *body,
                     size_t size);

/* A reply without more. */
void rtsp_respond(struct rtsp_session *session, unsigned status, int64_t cseq);

/* The same, and a line in the log. */
void rtsp_refuse(struct rtsp_session *session, unsigned status, int64_t cseq, const char *reason);

/* Queues an RTCP compound as an interleaved frame, where there is room: reports may be lost. */
void rtsp_send_rtcp(struct rtsp_session *session, const struct rtsp_channel *channel, const uint8_t *bytes,
                    size_t size);

/* What is owed is sent, then the connection ends. */
void rtsp_end(struct rtsp_session *session);

/* Ends the connection now. */
void rtsp_close(struct rtsp_session *session);

/* Takes the requests that are there; stops where an answer is owed. */
void rtsp_read(struct rtsp_session *session);

/* Handles a request. */
void rtsp_handle(struct rtsp_session *session, const sluice_rtsp_message *request);

/* The same for one that has been judged, and hooks been asked about. */
void rtsp_dispatch(struct rtsp_session *session, const sluice_rtsp_message *request);

/* rtsp_tunnel.c: whether the first request is one of HTTP, and has been refused as such. What is
 * there is consumed. */
bool rtsp_refuse_http(struct rtsp_session *session);

/* rtsp_migrate.c */

/* Where the request is about a stream of another worker, the session begins to go there, and true
 * is returned. */
bool rtsp_migrate(struct rtsp_session *session, const sluice_rtsp_message *request);

/*
 * Whether another worker serves the player for the request's stream: then the session begins to
 * move there. @live: only a stream with known tracks counts
 */
bool rtsp_spread(struct rtsp_session *session, const sluice_rtsp_message *request, sluice_http_text name, bool live);

/* Goes, when all that is owed has been sent. */
void rtsp_try_migrate(struct rtsp_session *session);

/* A session_type's moved(). */
void rtsp_migrated(struct session *base);

/* rtsp_publish.c */
void rtsp_announce(struct rtsp_session *session, const sluice_rtsp_message *request);
void rtsp_publish_setup(struct rtsp_session *session, const sluice_rtsp_message *request);
void rtsp_record(struct rtsp_session *session, const sluice_rtsp_message *request);
void rtsp_publish_frame(struct rtsp_session *session, sluice_rtsp_message *frame);
/* Publishes what the budget has left of the last frame. */
void rtsp_publish_go_on(struct rtsp_session *session);
void rtsp_publish_tick(struct rtsp_session *session, uint64_t now);
void rtsp_publish_leave(struct rtsp_session *session, int error);
/* Whether it has not sent its first frame in time; at any time. */
bool rtsp_publish_is_late(const struct rtsp_session *session, uint64_t now);

/* The tracks' control URLs, as the descriptions have them. */
extern const sluice_http_text rtsp_controls[PACKET_TRACKS];

/* rtsp_play.c; the player's memory goes with rtsp_play_free(), when the kernel is done with it. */
void rtsp_describe(struct rtsp_session *session, const sluice_rtsp_message *request);
/* The stream of a player's request. 0, -EPROTO */
int rtsp_play_read_target(const sluice_rtsp_message *request, struct rtsp_target *ret_target);
/* Whether the player, which there is, is of the stream of that name. */
bool rtsp_play_is_of(const struct rtsp_session *session, sluice_http_text name);
void rtsp_play_setup(struct rtsp_session *session, const sluice_rtsp_message *request);
void rtsp_play(struct rtsp_session *session, const sluice_rtsp_message *request);
void rtsp_pause(struct rtsp_session *session, const sluice_rtsp_message *request);
void rtsp_play_tick(struct rtsp_session *session, uint64_t now);
void rtsp_play_leave(struct rtsp_session *session, const char *reason);
void rtsp_play_free(struct rtsp_session *session);

/* SETUP of one track: agrees on its channels and answers. 0, or -1 where it has been refused. */
int rtsp_setup_track(struct rtsp_session *session, const sluice_rtsp_message *request, uint32_t track, bool record);

#endif
