/* The part of a connection's state that is common to all protocols. */
#ifndef SLUICED_SESSION_H
#define SLUICED_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/conn.h>
#include <sluice/tls.h>

#include "daemon/base/address.h"
#include "daemon/base/cidr.h"
#include "daemon/base/pace.h"
#include "daemon/server/budget.h"
#include "daemon/server/holdings.h"

struct handover;
struct player;
struct replica;
struct hook_query;
struct session;
struct tls_link;
struct worker;

/*
 * How long a connection may go on that has not been authorized to publish or play: time for a
 * challenge, a password that is typed in, and a first request; not for requests that mean nothing
 * and repeat.
 */
enum { SESSION_UNAUTHORIZED_MS = 60000 };

struct session_type {
    const char *protocol;
    bool pulls; /* the connection is one that we have made, to fetch a stream */
    const sluice_conn_events *events;

    /* Of those that session_start() makes: the bytes of one, of which a struct session is the first
     * member. */
    size_t size;

    /* Its own part, before it has the connection: 0, or -errno, and then it is discarded. NULL:
     * there is none. */
    int (*prepare)(struct session *session, const struct handover *handover);

    /* It has the connection, and may close it. NULL: there is nothing to begin with. */
    void (*begin)(struct session *session);

    /* Twice a second: deadlines. May close the connection. */
    void (*tick)(struct session *session, uint64_t now);

    /* The server stops: finish what is under way, soon. */
    void (*drain)(struct session *session);

    /* It is sent away: end now. @error: why, as of publisher_error_text() */
    void (*kick)(struct session *session, int error);

    /*
     * It is sent away, to another server: asks the client to connect there, and ends some seconds
     * later if the client has not. @url: rtmp:// or rtmps://; NULL: to another node of the
     * cluster, as far as one is known, or to the same address. False: the client cannot be asked,
     * so the caller kicks it. NULL: no client can
     */
    bool (*redirect)(struct session *session, const char *url);

    /*
     * Whether it publishes, or is sent a file, with the right to do so: others send within a quota,
     * see holdings.h. NULL: never
     */
    bool (*publishes)(const struct session *session);

    /* Bytes of blocks that it holds with what it has received, besides its connection's chain.
     * NULL: none */
    size_t (*held)(const struct session *session);

    /* Bytes of those that were read from a file for it, or are about to be: not what it has sent.
     * NULL: none */
    size_t (*reads)(const struct session *session);

    /* Bytes of memory, no blocks, in answers that the peer has not taken. NULL: none */
    size_t (*owes)(const struct session *session);

    /*
     * Memory is short, and it holds the most: the session ends, with an answer where one is
     * possible. What its chain holds is dropped by the caller, the rest by this call. NULL: it is
     * kicked.
     */
    void (*evict)(struct session *session);

    /* It has come to another worker, with its connection: see session_migrate(). NULL for those
     * that do not move. */
    void (*moved)(struct session *session);

    /* It has no connection any more: frees it. */
    void (*discard)(struct session *session);
};

struct session {
    const struct session_type *type;
    uint64_t id; /* given by the first worker_add() */
    struct worker *worker;
    sluice_conn *conn;
    struct tls_link *tls;        /* between the connection and the session; NULL: plain */
    struct handover *move;       /* to another worker, under way; or NULL */
    struct session *next, *prev; /* in the worker's list */
    char peer[ADDRESS_TEXT];
    struct cidr_address peer_address;
    /* no address's connection: made by the daemon itself, or its client is not known yet */
    bool is_uncounted;
    uint16_t merge_window_ms; /* of the listener by which it came, or OPTIONS_MERGE_UNSET */
    bool closing;
    bool has_begun;     /* its first bytes are no TLS: see session_refuses_tls() */
    bool is_authorized; /* see session_authorize() */
    /* loop time of the last session_authorize(), or of its beginning */
    uint64_t authorized_at;
    struct budget budget;    /* of this turn */
    struct holding holding;  /* what it is charged with */
    struct pace pace;        /* of the message, or frame, under way */
    bool held_up;            /* since the tick before, it was not read for a while */
    struct hook_query *hook; /* the answer that it waits for; or NULL */
    /* among the players of a stream that another worker serves; or NULL: see replica.h */
    struct replica *reservation;
};

/*
 * A session of that type takes a connection over: it is made, prepared, given the connection and
 * its place among the worker's sessions, and begins. 0, or -errno: then the connection is
 * untouched. @ret_session: may be NULL
 */
int session_start(const struct session_type *type, struct worker *worker, struct handover *handover,
                  struct session **ret_session);

struct sockaddr_storage;

/* TLS of a connection that the daemon makes. */
struct session_secure {
    sluice_tls_context *context; /* of a client; the session takes a reference of its own */
    const char *name;            /* the server's, as for sluice_tls_new() */
};

/*
 * The same for a connection that the daemon has made to @peer. It is one of the server's; the
 * worker, which does not drain, holds the run itself. What the session sends waits for the
 * handshake, and the failure of that is its on_end: see session_tls_reason(). @secure: NULL: plain.
 * 0, -errno: then @fd is untouched
 */
int session_start_outgoing(const struct session_type *type, struct worker *worker, int fd,
                           const struct sockaddr_storage *peer, const struct session_secure *secure,
                           struct session **ret_session);

/* Received bytes that it has not read: of the connection, or of the TLS stage. */
sluice_chain *session_chain(const struct session *session);

/* In place of the calls of sluice_conn_ with the same names. */
void session_set_need(struct session *session, size_t bytes);
void session_again(struct session *session);
int session_finish(struct session *session);

/*
 * Ends it: closes the connection, with close_notify where TLS is open, as far as the socket takes
 * it at once. Only on_closed is called after that.
 */
void session_close(struct session *session);

/*
 * With TLS: whether encrypted bytes, which on_sent has reported, wait for the kernel. Closing the
 * connection loses them. After session_finish(), on_sent with 0 bytes reports that the kernel has
 * taken all.
 */
bool session_is_flushing(const struct session *session);

/* The session plays: sets whose the player is, its connection, and what TLS holds for it. */
void session_take_player(struct session *session, struct player *player);

/*
 * Whether pieces of it are with the kernel, so that it cannot move. With TLS none are, unless the
 * kernel encrypts.
 */
bool session_is_sending(const struct session *session);

/*
 * For on_data on a listener without TLS: whether the first bytes are a TLS handshake. If so, it has
 * been counted, logged and answered, and the caller closes the connection.
 */
bool session_refuses_tls(struct session *session);

/* Whether the kernel encrypts what it sends (kTLS). */
bool session_kernel_sends(const struct session *session);

/* Whether its TLS handshake is under way. */
bool session_is_shaking(const struct session *session);

/* Why TLS has failed, for logs; NULL: it has not, or there is none. Static. */
const char *session_tls_reason(const struct session *session);

enum { SESSION_FAILURE = 112 };

/* Why its connection has failed, in a few words: "TLS: " and the reason of that, or else the text
 * of @error. */
void session_explain(const struct session *session, int error, char ret_text[SESSION_FAILURE]);

/* The name in the client's verified certificate; NULL: none. Valid like the session. */
const char *session_peer_certificate(const struct session *session);

/* It has no connection any more, and goes. */
void session_discard(struct session *session);

/* One that there is takes it over, for its type's discard() to deal with where it cannot. 0,
 * -ENOBUFS, -ENOMEM */
int session_adopt(struct session *session, struct handover *handover);

/*
 * The client has shown what a rule asks for, a hook has let it in, or it publishes or plays. What a
 * rule or its absence allows to everyone does not count before that.
 */
void session_authorize(struct session *session);

/* Logs a refused request, with the bound per address of auth_log.h; @reason: as there */
void session_log_refusal(const struct session *session, unsigned status, const char *reason);

/*
 * Logs that a session could not begin, as the server's failure. A peer that has gone by then
 * (-EPIPE) is none: nothing is logged.
 */
void session_log_failed(const struct session *session, int error);

/*
 * Whether it has gone on for SESSION_UNAUTHORIZED_MS since its beginning, or since it was last
 * authorized. The caller knows in which states that ends it.
 */
bool session_is_overdue(const struct session *session);

#endif
