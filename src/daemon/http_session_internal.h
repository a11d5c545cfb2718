/* The inside of an HTTP session, shared by its files: requests, publishing, playing. */
#ifndef SLUICED_HTTP_SESSION_INTERNAL_H
#define SLUICED_HTTP_SESSION_INTERNAL_H

#include <sluice/http.h>

#include "daemon/publisher.h"
#include "daemon/worker.h"

enum http_state {
    HTTP_HEAD,       /* reads a request; set at the start, and when a response has gone that keeps the connection */
    HTTP_MOVING,     /* goes to the worker of the stream that was asked for; set by http_move(). Its request waits */
    HTTP_ASKING,     /* the workers are asked for what the API shows; set by http_ask() */
    HTTP_PUBLISHING, /* the request's body is FLV; set by http_publish_start() */
    HTTP_PLAYING,    /* the response's body is FLV; set by http_play_start() */
    HTTP_RESPONDING, /* sends a whole response; set by http_respond() */
    HTTP_LINGERING,  /* all is sent: input is dropped until the peer closes, so that a reset cannot overtake the
                        response; set when a response or a played body has gone that ends the connection */
};

struct http_session {
    struct session base;
    const struct listener_option *listener; /* by which it came */
    enum http_state state;
    sluice_http *http;
    uint64_t deadline; /* of every state but publishing and playing */
    bool peer_ended;
    sluice_http_request *request; /* moving: to go on with; its texts are the framer's */
    struct api_question *asked;   /* asking: what is told when this has gone */

    /* The response that is being sent, and the interim one before it. */
    size_t continue_left;
    char *response;
    size_t response_size, response_sent;
    bool keep_alive;

    /* Publishing: */
    struct publisher *publisher;
    sluice_http_body body;
    sluice_chain *payload;
    uint64_t received;
    uint64_t received_at;

    /* Playing: */
    struct player *player;
    uint64_t joined_at;
};

struct api_question;

struct http_reply {
    unsigned status;
    const char *reason; /* a few words; the body where there is no other */
    const char *type;   /* of the body, or NULL for text */
    const char *allow;  /* methods, for 405 and OPTIONS; or NULL */
    char *body;         /* freed by the call; or NULL */
    size_t body_size;
    bool head_only; /* the request was HEAD */
    bool keep_alive;
};

/* Sends a whole response, then reads the next request, or ends the connection. */
void http_respond(struct http_session *session, const struct http_reply *reply);

/* Logs the refusal of a request and answers it; the connection ends, unless the reply says otherwise. */
void http_refuse_with(struct http_session *session, const struct http_reply *reply);
void http_refuse(struct http_session *session, unsigned status, const char *reason);

bool http_text_is(const sluice_http_text *text, const char *word);

/* Everything is sent: ends the connection in a way that lets the peer read it. */
void http_linger(struct http_session *session);

void http_close(struct http_session *session);

/* http_api.c: GET and HEAD of the API. http_api_leave(): nobody waits for the answer any more. */
void http_api_start(struct http_session *session, const sluice_http_request *request, bool keep_alive);
void http_api_leave(struct http_session *session);

/* http_publish.c */
void http_publish_start(struct http_session *session, const sluice_http_request *request, struct stream *stream);
void http_publish_feed(struct http_session *session);
void http_publish_peer_ended(struct http_session *session, int error);
void http_publish_tick(struct http_session *session, uint64_t now);

/* Ends the publisher, and answers its request. */
void http_publish_end(struct http_session *session, int error, unsigned status);

/* http_play.c: the player's memory goes with http_play_free(), when the kernel is done with it. */
void http_play_start(struct http_session *session, const sluice_http_request *request, struct stream *stream);
void http_play_sent(struct http_session *session, size_t bytes);
void http_play_tick(struct http_session *session, uint64_t now);
void http_play_drain(struct http_session *session);
void http_play_leave(struct http_session *session, const char *reason);
void http_play_free(struct http_session *session);

/* The head of a response that is a stream. Bytes written, at most @size. */
size_t http_play_head(char *buffer, size_t size, bool chunked);

#endif
