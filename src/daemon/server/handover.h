/*
 * A connection to be adopted by a session, with the bytes already read from it: the result of an
 * accept, of a PROXY header, or of a session that leaves its worker.
 */
#ifndef SLUICED_HANDOVER_H
#define SLUICED_HANDOVER_H

#include <sys/socket.h>

#include <sluice/conn.h>
#include <sluice/loop.h>
#include <sluice/tls.h>

#include "daemon/config/options.h"

struct session;
struct session_type;
struct worker;

struct handover {
    sluice_conn_handover connection; /* the descriptor, and what has been read and not consumed */
    sluice_tls *tls;                 /* of an open stage of the connection; NULL: it is plain */
    /* that goes on with it; NULL: one begins, of the listener's protocol */
    struct session *session;
    struct sockaddr_storage peer;    /* the client; of one that begins */
    struct listener_option listener; /* by which it came, likewise; a copy: options come and go */
    struct worker *worker;           /* the worker it moves to */
    sluice_call call;
};

/* Sessions that read a header before the protocol, and end in a handover. Defined by the stage. */
extern const struct session_type *const handover_proxy_stage;
extern const struct session_type *const handover_tls_stage;

/*
 * A session takes the connection over, on the worker's thread. Where none can, that has been said,
 * and the connection is closed.
 */
void handover_begin(struct worker *worker, struct handover *handover);

/* The same on that worker's thread, soon. @handover: from malloc(); freed there */
void handover_send(struct worker *to, struct handover *handover);

/* Closes the connection of one that does not begin. */
void handover_discard(struct handover *handover);

/* Says in the log that a connection was refused. */
void handover_log_refusal(const struct handover *handover, const char *reason);

/* Ends one that cannot begin. @error: why; some say it themselves */
void handover_refuse(struct worker *worker, struct handover *handover, int error);

/*
 * A session begins to move to another worker, with its connection and all that it knows. Everything
 * that was to be sent must have gone. The session hears nothing more of its connection but
 * on_closed, should it be closed meanwhile, until its type's moved() on the other worker's thread;
 * so it must hold nothing that is its worker's. Where it finds no memory there, it is discarded,
 * with a line in the log. 0; or -ENOMEM, -EBUSY (something is being sent): it stays
 */
int session_migrate(struct session *session, struct worker *to);

#endif
