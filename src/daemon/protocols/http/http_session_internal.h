/* The inside of an HTTP session, shared by its files: requests, publishing, playing. */
#ifndef SLUICED_HTTP_SESSION_INTERNAL_H
#define SLUICED_HTTP_SESSION_INTERNAL_H

#include <sluice/http.h>
#include <sluice/websocket.h>

#include "daemon/access/cors.h"
#include "daemon/server/flv_source.h"
#include "daemon/server/hook_query.h"
#include "daemon/server/reject.h"
#include "daemon/server/worker.h"

enum http_state {
    /* reads a request; set at the start, and when a response has gone that keeps the connection */
    HTTP_HEAD,
    /* moves to the worker of the requested stream; set by the request, which waits */
    HTTP_MOVING,
    /* waits for the answer of a hook or the cluster; set if a request needs one */
    HTTP_ASKING,
    /* reads a body that is answered as a whole; set by http_obs_handle_post() */
    HTTP_READING,
    HTTP_CLAIMING,   /* waits for the stream's name, to publish; set by http_publish_start() */
    HTTP_PUBLISHING, /* the request's body is FLV; set when the name is its own */
    HTTP_PLAYING,    /* the response's body is FLV; set by http_play_start() */
    /* for a recording or a challenge; set by http_record_serve() and http_acme_handle() */
    HTTP_LOOKING,
    /* sends a whole response, or a recording; set by http_respond(), and when that is found */
    HTTP_RESPONDING,
    /* all is sent: input is dropped until the peer closes, so that a reset cannot overtake the
     * response; set when a response or a played body has gone that ends the connection */
    HTTP_LINGERING,
};

/* What a player by WebSocket has beside the player: messages of its own go between the tags. */
struct http_websocket {
    sluice_websocket *framer;
    char accept[SLUICE_WEBSOCKET_ACCEPT_SIZE];
    uint8_t out[SLUICE_WEBSOCKET_CONTROL_SIZE]; /* a control frame that is being sent */
    /* the one behind it; a newer one takes its place */
    uint8_t next[SLUICE_WEBSOCKET_CONTROL_SIZE];
    size_t out_size, out_sent, next_size;
    bool closing; /* the next one is a close frame: nothing follows it */
    uint8_t tail[SLUICE_WEBSOCKET_CONTROL_SIZE];
    bool in_message;                        /* of the player, which is not whole */
    uint64_t messages;                      /* of the player, that are */
    size_t gathered_rest, gathered_control; /* bytes, in the order in which they are sent */
    uint64_t pinged_at;
};

struct http_session {
    struct session base;
    enum http_state state;
    sluice_http *http;
    uint64_t deadline; /* of every state but publishing and playing */
    /* HTTP_HEAD: the first bytes of a head are here, so the deadline is that head's */
    bool has_begun;
    bool peer_ended;
    sluice_http_request *asked;     /* moving, asking, reading; its texts are the framer's */
    const struct http_route *route; /* of the last request; NULL: none serves it */

    /* The response that is being sent, and the interim one before it. */
    size_t continue_left;
    char *response;
    size_t response_size, response_sent;
    bool keep_alive;
    bool head_only;        /* the request is HEAD: no response to it has a body */
    enum cors_grant grant; /* of the page that has asked */
    char *origin;          /* its, where it may read the response; or NULL */

    /* Publishing: */
    struct flv_source source; /* claiming, too */
    sluice_http_body body;
    bool expects_continue;
    sluice_chain *payload;
    uint64_t received;
    uint64_t received_at;

    /* Playing: */
    struct player *player;
    uint64_t joined_at;
    struct http_websocket *websocket; /* NULL: an HTTP body */
    bool alone;                       /* the main tracks alone are asked for */

    struct http_node *node;     /* another node of the cluster asks; or NULL */
    struct http_search *search; /* a HEAD waits for the cluster's answer; or NULL */

    /* Sending a recording: */
    struct http_record *record; /* what is looked for */
    struct http_acme *acme;     /* or a challenge */
    struct http_file *file;     /* the body of the response */
};

/* for a response to be taken, and for more of it as it is (min_rate.h) */
enum { HTTP_RESPONSE_MS = 10000 };

struct http_reply {
    unsigned status;
    const char *reason;    /* a few words; the body where there is no other */
    const char *type;      /* of the body, or NULL for text */
    unsigned methods;      /* of the path (enum http_method), for 405 and OPTIONS; or 0 */
    const char *challenge; /* for 401; or NULL */
    unsigned retry_after;  /* for 503: seconds; or 0 */
    const char *location;  /* for 307; or NULL */
    char *body;            /* freed by the call; or NULL */
    size_t body_size;
    bool upgrade;   /* 426: say to what */
    bool preflight; /* say to a page what it may ask for */
    bool keep_alive;
};

/*
 * Sends a whole response, or a file's head and then the file; reads the next request then, or ends
 * the connection. Frees @response, which has been allocated.
 */
void http_send(struct http_session *session, char *response, size_t size, uint64_t within_ms);
void http_respond(struct http_session *session, const struct http_reply *reply);

/* Logs the refusal of a request and answers it; the connection ends, unless the reply says
 * otherwise. */
void http_refuse_with(struct http_session *session, const struct http_reply *reply);
void http_refuse(struct http_session *session, unsigned status, const char *reason);

/* Whether this node drains, and the request has been answered: a stream is to be had elsewhere. */
bool http_redirect(struct http_session *session, const sluice_http_request *request);

/* The same where there is as much of something as there may be; counts it. */
void http_refuse_limit(struct http_session *session, enum reject_cause refusal);

/* Whether the connection goes on behind a response that would keep it. */
bool http_may_go_on(const struct http_session *session);

/*
 * The same before the request has been handled. The connection ends after the response if a body
 * remains unread or another process takes over.
 */
bool http_keeps_alive(const struct http_session *session, const sluice_http_request *request);

/* The connection goes to another worker, which handles the request; or the request is refused. */
void http_move(struct http_session *session, const sluice_http_request *request, struct worker *owner);

/* Everything is sent: ends the connection in a way that lets the peer read it. */
void http_linger(struct http_session *session);

void http_close(struct http_session *session);

/*
 * Whether there is something to wait for: a hook's answer, with which the session goes on; or the
 * end of a refusal. The request's texts are needed until then.
 */
bool http_ask_hook(struct http_session *session, const sluice_http_request *request,
                   const struct hook_query_about *question);

/* The request waits for an answer: 0, -ENOMEM. It comes, and the request is answered by @handle. */
int http_wait_asked(struct http_session *session, const sluice_http_request *request);
void http_go_on_asked(struct http_session *session,
                      void (*handle)(struct http_session *session, const sluice_http_request *request));

/* bytes that http_cors_write() writes at most, with the zero */
enum { HTTP_CORS_TEXT = CORS_ORIGIN + 96 };

/* http_cors.c: reads the page's origin, if the request has one, for the responses to it. */
void http_cors_read(struct http_session *session, const sluice_http_request *request);

/* Whether the page's origin is not allowed to do this; then the request has been refused. */
bool http_cors_forbids(struct http_session *session, const sluice_http_request *request, bool publish);

/* The headers for it, each with its end. Bytes. */
int http_cors_write(const struct http_session *session, char *buffer, size_t size);
bool http_cors_is_granted(const struct http_session *session);

/* The client is told to send the body that it waits with. */
void http_continue(struct http_session *session);

/* http_obs.c: reads on in a body; and drops it. */
void http_obs_feed(struct http_session *session);
void http_obs_end(struct http_session *session);

/*
 * http_authorize.c: whether the rules let the client do what it asks for; where they do not, it has
 * been answered. @stream: a valid name
 */
bool http_authorize(struct http_session *session, const sluice_http_request *request, enum rule_action action,
                    sluice_http_text stream);

/* http_publish.c. Whether the request's body can be no stream from its beginning, as it is; then it
 * is refused. */
bool http_publish_forbids(struct http_session *session, const sluice_http_request *request);
void http_publish_start(struct http_session *session, const sluice_http_request *request, struct stream *stream);
void http_publish_feed(struct http_session *session);
void http_publish_peer_ended(struct http_session *session, int error);
void http_publish_tick(struct http_session *session, uint64_t now);

/* The status for an error of a publisher. */
unsigned http_publish_status(int error);

/* Ends the publisher, and answers its request. */
void http_publish_end(struct http_session *session, int error, unsigned status);

/* Which tracks the query asks for: all, or the main ones alone. 0, -EINVAL */
int http_play_read_tracks(sluice_http_text query, bool *ret_alone);

/* http_play.c: the player's memory goes with http_play_free(), when the kernel is done with it. */
void http_play_start(struct http_session *session, const sluice_http_request *request, struct stream *stream);
void http_play_sent(struct http_session *session, size_t bytes);
void http_play_tick(struct http_session *session, uint64_t now);
void http_play_drain(struct http_session *session);
void http_play_leave(struct http_session *session, const char *reason);
void http_play_free(struct http_session *session);

/* http_websocket.c: as http_play.c, where a player has come by an upgrade. */
void http_websocket_start(struct http_session *session, struct stream *stream,
                          const char accept[SLUICE_WEBSOCKET_ACCEPT_SIZE]);
void http_websocket_read(struct http_session *session);
size_t http_websocket_gather(struct http_session *session, struct iovec *iov, size_t max);
void http_websocket_sent(struct http_session *session, size_t bytes);
void http_websocket_drain(struct http_session *session);
void http_websocket_tick(struct http_session *session, uint64_t now);
void http_websocket_free(struct http_session *session);

/* Adds the player that the session has made; @form: what it is sent. */
void http_play_join(struct http_session *session, struct player *player, struct stream *stream,
                    const struct wire_format *format);

/* http_stream.c: plays @stream in the form that the request asks for; takes the reference. */
void http_stream_join(struct http_session *session, const sluice_http_request *request, struct stream *stream);

/* http_stream.c: as to HEAD, of a stream that there is or is not. */
void http_stream_answer_head(struct http_session *session, const sluice_http_request *request, bool is_there);

/*
 * http_node.c: whether the request is another node's, and has been refused. If it is not refused,
 * the session knows the node until the next request.
 */
bool http_node_refuses(struct http_session *session, const sluice_http_request *request);

/* Whether the request is of a node that has signed it: rules and hooks do not apply. */
bool http_node_is_trusted(const struct http_session *session);

/* The node and those behind it, for struct player; NULL: another client */
const char *http_node_list(const struct http_session *session);

/* Plays the stream to the node, or answers that this node does not have it; takes the reference. */
void http_node_join(struct http_session *session, const sluice_http_request *request, struct stream *stream);

/* The fields of the response to another node, at most HTTP_CORS_TEXT with the zero. */
void http_node_write(const struct http_session *session, const struct stream *stream, char *text, size_t size);

/* Whether a node does not have to wait for the stream any longer. */
bool http_node_is_given_up(const struct http_session *session, const struct stream *stream);

/* Whether the cluster is asked if there is the stream: then HEAD is answered later. */
bool http_node_search(struct http_session *session, const sluice_http_request *request, struct stream *stream);

/* Whether the stream is live, here or on another node, as far as is known. */
bool http_node_has(const struct stream *stream);

/* Waits no more; and forgets the node. */
void http_node_cancel(struct http_session *session);
void http_node_free(struct http_session *session);

/* http_record.c */
/* Bytes of blocks that a file holds which is being sent; 0: none is. */
size_t http_record_held(const struct http_session *session);

/* The same, and where nothing has been read yet, what is about to be. */
size_t http_record_reads(const struct http_session *session);

/* The body of a response that is a file: its pieces, and how far it has gone. True when that is
 * all. */
size_t http_record_gather(struct http_session *session, struct iovec *iov, size_t max);
bool http_record_sent(struct http_session *session, size_t bytes);
void http_record_free(struct http_session *session);

/* http_acme.c: gives up a challenge that is looked for. */
void http_acme_free(struct http_session *session);

/* The head of a response that is a stream. Bytes written, at most @size. */
size_t http_play_head(const struct http_session *session, char *buffer, size_t size, bool chunked);

#endif
