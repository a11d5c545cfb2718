/* What a worker knows of each of its connections, whatever it speaks. */
#ifndef SLUICED_SESSION_H
#define SLUICED_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/conn.h>

#include "daemon/address.h"
#include "daemon/budget.h"
#include "daemon/cidr.h"
#include "daemon/holdings.h"
#include "daemon/pace.h"

struct feed;
struct hook_job;
struct session;
struct session_move;
struct worker;

/*
 * How long a connection may go on that has not been authorized to publish or play: time for a challenge, a password
 * that is typed in, and a first request; not for requests that mean nothing and repeat.
 */
enum { SESSION_UNAUTHORIZED_MS = 60000 };

struct session_type {
    const char *protocol;
    bool pulls; /* the connection is one that we have made, to fetch a stream */
    const sluice_conn_events *events;

    /* Twice a second: deadlines. May close the connection. */
    void (*tick)(struct session *session, uint64_t now);

    /* The server stops: finish what is under way, soon. */
    void (*drain)(struct session *session);

    /* It is sent away: end now. @error: why, as of publisher_error_text() */
    void (*kick)(struct session *session, int error);

    /*
     * Whether it publishes, or is sent a file, with the right to do so: others send within a quota, see holdings.h.
     * NULL: never
     */
    bool (*publishes)(const struct session *session);

    /* Bytes of blocks that it holds with what it has received, besides its connection's chain. NULL: none */
    size_t (*held)(const struct session *session);

    /*
     * Memory is short, and it holds the most: the session ends, with an answer where one is possible. What its chain
     * holds is dropped by the caller, the rest by this call. NULL: it is kicked.
     */
    void (*evict)(struct session *session);

    /* It has come to another worker, with its connection: see move.h. NULL for those that do not move. */
    void (*moved)(struct session *session);

    /* It has no connection any more: frees it. */
    void (*discard)(struct session *session);
};

struct session {
    const struct session_type *type;
    uint64_t id; /* given by the first worker_add() */
    struct worker *worker;
    sluice_conn *conn;
    struct session_move *move;   /* under way; or NULL */
    struct session *next, *prev; /* in the worker's list */
    char peer[ADDRESS_TEXT];
    uint16_t peer_port;
    struct cidr_address peer_address;
    bool is_uncounted;        /* no address's connection: made by the daemon itself, or its client is not known yet */
    uint16_t merge_window_ms; /* of the listener by which it came, or OPTIONS_MERGE_UNSET */
    bool closing;
    bool is_authorized;     /* see session_authorize() */
    uint64_t authorized_at; /* loop time of the last session_authorize(), or of its beginning */
    struct budget budget;   /* of this turn */
    struct holding holding; /* what it is charged with */
    struct pace pace;       /* of the message, or frame, under way */
    bool held_up;           /* since the tick before, it was not read for a while */
    struct hook_job *hook;  /* the answer that it waits for; or NULL */
    struct feed *seat;      /* among the players of a stream that another worker serves; or NULL: see feed.h */
};

/* Before it has a connection. */
void session_init(struct session *session, const struct session_type *type, struct worker *worker,
                  const struct sockaddr_storage *peer);

/*
 * The client has shown what a rule asks for, a hook has let it in, or it publishes or plays. What a rule or its absence
 * allows to everyone does not count before that.
 */
void session_authorize(struct session *session);

/*
 * Whether it has gone on for SESSION_UNAUTHORIZED_MS since its beginning, or since it was last authorized. The caller
 * knows in which states that ends it.
 */
bool session_is_overdue(const struct session *session);

#endif
