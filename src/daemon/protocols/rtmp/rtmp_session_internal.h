/* The inside of an RTMP session, shared by its files: commands, publishing, playing. */
#ifndef SLUICED_RTMP_SESSION_INTERNAL_H
#define SLUICED_RTMP_SESSION_INTERNAL_H

#include <sluice/rtmp.h>
#include <sluice/writer.h>

#include "daemon/protocols/rtmp/rtmp_auth.h"
#include "daemon/protocols/rtmp/rtmp_target.h"
#include "daemon/server/publisher.h"
#include "daemon/server/refuge.h"
#include "daemon/server/worker.h"
#include "shared/rtmp_peer.h"

enum {
    RTMP_OWED = 16384, /* owed to a client in answers: beyond it messages wait */
    /* most that is owed: that, and an answer; a publisher that is owed more is disconnected */
    RTMP_WRITER = 65536,
    /* announced at first: encoders adopt it, so that their frames come whole */
    RTMP_CHUNK = 65536,
    RTMP_WINDOW = 2500000,  /* bytes between a client's acknowledgements */
    RTMP_STREAMS_MOST = 16, /* message streams that a client may create */
};

enum rtmp_state {
    RTMP_HANDSHAKE,  /* set at the start */
    RTMP_CONNECTING, /* reads up to connect; set when the handshake is complete */
    RTMP_CONNECTED,  /* reads up to publish or play; set by connect */
    /* goes to the worker of the stream, or to one that serves its players; set by the request */
    RTMP_MOVING,
    RTMP_ASKING,     /* waits for a hook's answer; set by a request that needs one */
    RTMP_CLAIMING,   /* waits for the stream's name; set by rtmp_publish_start() */
    RTMP_PUBLISHING, /* set when the name is its own */
    RTMP_PLAYING,    /* set by rtmp_play_start() */
    /* what is owed is sent, then the connection ends; input is dropped; set by rtmp_end() */
    RTMP_ENDING,
};

/* What connect has said, and the request that follows it: freed when that has been granted. */
struct rtmp_asked {
    char app[RTMP_TEXT + 1], url[RTMP_TEXT + 1];
    struct rtmp_auth auth;
    enum rule_action action;
    double transaction;
    struct rtmp_target target;
};

struct rtmp_session {
    struct session base;
    enum rtmp_state state;
    sluice_rtmp_handshake *handshake; /* from its first byte until it is complete; or NULL */
    sluice_rtmp *framer;
    /* Answers, between the messages of a player. One that is served has none when nothing is owed;
     * else NULL only at the start */
    sluice_writer *writer;
    struct rtmp_asked *asked; /* from connect until it is granted; or NULL */
    unsigned caps;            /* RTMP_CAN_... */
    uint32_t chunk_size;      /* announced last */
    uint32_t commands;        /* before it was authorized */
    uint32_t streams;         /* message streams created */
    uint32_t stream;          /* the one that it publishes or plays on */
    uint64_t messages;        /* ever */
    uint64_t active_at;       /* loop time of the last step; of a player's last message */
    bool peer_ended;
    bool peer_ends; /* it has ended the stream, and closes the connection itself */
    bool told_to_reconnect;
    /* of the stream's name, those that the app of connect had; or RTMP_APP_UNKNOWN */
    uint16_t app_size;
    uint64_t leaves_at; /* loop time at which one that was asked to leave is kicked; or 0 */

    /* What was gathered last, in the order in which it is sent. */
    size_t gathered_rest, gathered_text;

    /* Publishing: */
    struct publisher *publisher;    /* claiming, too */
    sluice_rtmp_message *aggregate; /* the framer's, that is being taken apart; or NULL */
    sluice_rtmp_parts parts;
    uint64_t received, received_at; /* bytes, and loop time at which they had grown */

    /* Playing: */
    struct player *player;
    bool joined; /* in the stream's list */
    bool begins; /* the answers of its beginning are being queued */
    bool failed; /* they could not be */
    uint64_t joined_at;
    uint64_t pinged_at; /* loop time of the last ping of a paused one, or of its pause */
};

/* The app has a query, which is not kept; or the name says all. */
enum { RTMP_APP_UNKNOWN = UINT16_MAX, RTMP_REFUGE = REFUGE_URL + STREAM_NAME + 1 };

/* Another node's URL, with the app of this connection. False: none is known; @url untouched */
bool rtmp_find_refuge(const struct rtmp_session *session, const char *name, char url[RTMP_REFUGE]);

/* The request is granted: forgets what it was. */
void rtmp_forget_asked(struct rtmp_session *session);

/* Everything that is owed is sent, then the connection ends. */
void rtmp_end(struct rtmp_session *session);

/* Ends the connection now. */
void rtmp_close(struct rtmp_session *session);

/* Takes the messages that are there, as far as the budget goes. */
void rtmp_read(struct rtmp_session *session);

/* rtmp_answer.c: messages to the client. Where one cannot be queued, the connection is closed: the
 * client does not read its answers. */

/* Makes the writer where there is none; as sluice_writer_new(). */
int rtmp_answer_open(struct rtmp_session *session);

/* Frees the writer of one that is served, unless something is owed. */
void rtmp_answer_close(struct rtmp_session *session);

/* Bytes that are owed. */
size_t rtmp_answer_queued(const struct rtmp_session *session);

void rtmp_answer_control(struct rtmp_session *session, uint8_t type, uint32_t value);
void rtmp_answer_event(struct rtmp_session *session, uint16_t event, uint32_t value);
void rtmp_answer_connect(struct rtmp_session *session, double transaction);

/* "_result" with a number, or with nothing where that is negative. */
void rtmp_answer_result(struct rtmp_session *session, double transaction, double number);

/* "_error" on the connection. @description: NULL: none */
void rtmp_answer_error(struct rtmp_session *session, double transaction, const char *code, const char *description);

/* "onStatus" on the message stream; or of @name, such as "onFCPublish", on the connection. @level:
 * "status" or "error" */
void rtmp_answer_status(struct rtmp_session *session, uint32_t stream, const char *level, const char *code,
                        const char *description);
void rtmp_answer_notice(struct rtmp_session *session, const char *name, const char *code, const char *description);

/*
 * Enhanced RTMP v2, "Reconnect Request": the client is to connect again, where it has announced
 * that it can, which is the result. @url: where, as its tcUrl; NULL: to this server
 */
bool rtmp_answer_reconnect(struct rtmp_session *session, const char *url);

/* rtmp_command.c: handles a command. */
void rtmp_command_handle(struct rtmp_session *session, const sluice_rtmp_message *message);

/* rtmp_request.c: publish or play, which is in session->asked: judged, moved, granted. */
void rtmp_request_begin(struct rtmp_session *session, enum rule_action action, const char *name);

/* Refuses the request: a log line, the status, and the end. */
void rtmp_refuse(struct rtmp_session *session, const char *code, const char *reason);

/* Goes to the other worker, when all that is owed has been sent. */
void rtmp_try_migrate(struct rtmp_session *session);

/* A session_type's moved(). */
void rtmp_migrated(struct session *base);

/* rtmp_publish.c */
void rtmp_publish_start(struct rtmp_session *session, struct stream *stream);

/* Audio, video or data has come. */
void rtmp_publish_message(struct rtmp_session *session, sluice_rtmp_message *message);

/* Goes on with an aggregate, as far as the budget goes. */
void rtmp_publish_go_on(struct rtmp_session *session);
void rtmp_publish_tick(struct rtmp_session *session, uint64_t now);

/* Ends the publisher, where there is one. @status: whether the client is to be told */
void rtmp_publish_end(struct rtmp_session *session, int error, bool status);

/* rtmp_play.c; the player's memory goes with rtmp_play_free(), when the kernel is done with it. */
void rtmp_play_start(struct rtmp_session *session, struct stream *stream);
void rtmp_play_pause(struct rtmp_session *session, bool pause);
void rtmp_play_sent(struct rtmp_session *session, size_t bytes);
void rtmp_play_tick(struct rtmp_session *session, uint64_t now);
void rtmp_play_drain(struct rtmp_session *session);
void rtmp_play_leave(struct rtmp_session *session, const char *reason);
void rtmp_play_free(struct rtmp_session *session);

#endif
