/*
 * A connection of a TLS listener during its handshake; after that, a session of the listener's
 * protocol continues with the stage. Handshakes are expensive, so they run in the share of a turn
 * that is for connections with work left (sluice_conn_again()), and their number and duration are
 * limited. A client without TLS gets an answer in plaintext where the listener's protocol has one.
 * It, and one whose handshake has failed, may still send: see server/linger.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/tls.h>

#include "daemon/base/thread_time.h"
#include "daemon/server/handover.h"
#include "daemon/server/handshake_limit.h"
#include "daemon/server/linger.h"
#include "daemon/server/reject.h"
#include "daemon/server/server.h"
#include "daemon/server/worker.h"

enum {
    HANDSHAKE_MS = 10000, /* from the connection to the last message */
};

/* Transitions are made in the function that is named. */
enum tls_session_state {
    TLS_SESSION_WAITING, /* for bytes; the state at the start, and set by advance() */
    TLS_SESSION_DUE,     /* the next call of on_data handles them; set by on_data() */
    /* the handshake is complete; what answers it is being sent; set by advance() */
    TLS_SESSION_OPEN,
    TLS_SESSION_LEAVING, /* detaching, to go on; set by leave() */
};

struct tls_session {
    struct session base;
    struct handover handover; /* its result */
    enum tls_session_state state;
    sluice_tls *tls;
    bool is_counted; /* among the handshakes under way */
    bool has_ended;  /* the peer has; the next session's on_end reports it */
    uint64_t deadline;
};

static struct tls_session *of(struct session *session) {
    return (struct tls_session *)session;
}

static void close_session(struct tls_session *session) {
    if (session->base.closing)
        return;
    session->base.closing = true;
    sluice_conn_close(session->base.conn);
}

/* Counted, and logged with the bound per address. */
static void note_refusal(const struct tls_session *session, enum reject_cause cause, const char *reason) {
    server_count_reject(session->base.worker->server, cause);
    session_log_refusal(&session->base, 400, reason);
}

/* The handshake has failed without a word to the client. */
static void fail(struct tls_session *session, const char *reason) {
    if (session->base.closing)
        return;
    note_refusal(session, REJECT_TLS_HANDSHAKE, reason);
    close_session(session);
}

static void end_handshake(struct tls_session *session) {
    if (session->is_counted)
        handshake_limit_remove(server_handshakes(session->base.worker->server), &session->base.peer_address);
    session->is_counted = false;
}

/* The connection has left the loop, with the stage. */
static void detached(const sluice_conn_handover *connection, void *user) {
    struct tls_session *session = user;
    struct worker *worker = session->base.worker;
    struct handover handover = session->handover;
    handover.connection = *connection;
    handover.connection.told &= !session->has_ended;
    (void)sluice_tls_detach(session->tls);
    tls_bytes_add(&worker->tls_bytes, session->tls);
    handover.tls = session->tls;
    end_handshake(session);
    worker_remove(worker, &session->base);
    free(session);
    handover_begin(worker, &handover);
}

static void leave(struct tls_session *session) {
    session->state = TLS_SESSION_LEAVING;
    int error = sluice_conn_detach(session->base.conn, detached, session);
    if (error && error != -EPIPE)
        close_session(session);
}

/* The stage has failed, and has sent its alert; to plaintext there is an answer in plaintext. */
static void refuse(struct tls_session *session) {
    const enum reject_cause cause = reject_cause_of_tls(session->tls);
    const bool is_plaintext = cause == REJECT_PLAINTEXT;
    if (session->base.closing)
        return;
    note_refusal(session, cause, is_plaintext ? reject_reason(cause) : sluice_tls_reason(session->tls));
    if (is_plaintext)
        reject_answer(sluice_conn_fd(session->base.conn), session->handover.listener.protocol, cause);
    if (linger_begin(&session->base, session->is_counted))
        session->is_counted = false;
    close_session(session);
}

/* The next session begins when the last byte of the handshake has been sent. */
static void leave_when_sent(struct tls_session *session) {
    if (session->state == TLS_SESSION_OPEN && sluice_tls_queued(session->tls) == 0 && !session->base.closing)
        leave(session);
}

static void advance(struct tls_session *session) {
    uint64_t before = thread_time_ran_us();
    int result = sluice_tls_receive(session->tls);
    worker_note_other(session->base.worker, thread_time_ran_us() - before);
    session->state = TLS_SESSION_WAITING;
    if (result < 0 && result != -ENODATA) {
        refuse(session);
    } else if (sluice_tls_get_state(session->tls) != SLUICE_TLS_HANDSHAKE) {
        session->state = TLS_SESSION_OPEN;
        leave_when_sent(session);
    }
}

static void on_data(sluice_conn *conn, void *user) {
    struct tls_session *session = user;
    switch (session->state) {
    case TLS_SESSION_WAITING:
        session->state = TLS_SESSION_DUE;
        sluice_conn_again(conn);
        break;
    case TLS_SESSION_DUE:
        advance(session);
        session_account(&session->base);
        break;
    case TLS_SESSION_OPEN: /* data stays in the chain for the next session */
    case TLS_SESSION_LEAVING:
        break;
    }
}

/*
 * The client has reset the connection before the last message of the handshake could be sent, which
 * it may not have waited for. What it has sent is the next session's, as on a plain connection.
 */
static void leave_failed(struct tls_session *session) {
    session->has_ended = true;
    (void)sluice_tls_detach(session->tls); /* drops that message */
    leave(session);
}

static void on_end(sluice_conn *conn, int error, void *user) {
    struct tls_session *session = user;
    (void)conn;
    if (error && session->state == TLS_SESSION_OPEN && !session->base.closing)
        leave_failed(session);
    else if (!error && session->state == TLS_SESSION_OPEN)
        session->has_ended = true; /* behind a request, perhaps, which is answered */
    else if (!error && sluice_tls_end(session->tls) == -EPROTO)
        refuse(session);
    else /* such as a health check that only connects */
        close_session(session);
}

static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    const struct tls_session *session = user;
    (void)conn;
    return session->tls ? sluice_tls_gather(session->tls, iov, max) : 0;
}

static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    struct tls_session *session = user;
    (void)conn;
    if (!session->tls)
        return;
    sluice_tls_sent(session->tls, bytes);
    leave_when_sent(session);
}

static void discard(struct session *base) {
    end_handshake(of(base));
    sluice_tls_free(of(base)->tls);
    free(of(base));
}

static void on_closed(sluice_conn *conn, void *user) {
    struct tls_session *session = user;
    (void)conn;
    tls_bytes_add(&session->base.worker->tls_bytes, session->tls);
    worker_end_session(&session->base);
    discard(&session->base);
}

static const sluice_conn_events events = {.size = sizeof events,
                                          .on_data = on_data,
                                          .on_end = on_end,
                                          .on_gather = on_gather,
                                          .on_sent = on_sent,
                                          .on_closed = on_closed};

static void tick(struct session *base, uint64_t now) {
    if (now >= of(base)->deadline && of(base)->state != TLS_SESSION_LEAVING)
        fail(of(base), "handshake timeout");
}

static void drain(struct session *base) {
    close_session(of(base));
}

static void kick(struct session *base, int error) {
    (void)error;
    close_session(of(base));
}

/* -EPERM: it has been logged. */
static int prepare(struct session *base, const struct handover *handover) {
    struct tls_session *session = of(base);
    const struct tls_options *options = &base->worker->options->tls;
    struct server *server = base->worker->server;
    session->handover = *handover;
    session->deadline = worker_now(base->worker) + HANDSHAKE_MS;
    int error = handshake_limit_add(server_handshakes(server), &base->peer_address, options->handshakes,
                                    options->handshakes_per_address);
    session->is_counted = !error;
    if (error != -EUSERS)
        return error;
    server_count_reject(server, REJECT_HANDSHAKES);
    session_log_refusal(base, 503, reject_reason(REJECT_HANDSHAKES));
    return -EPERM;
}

static void begin(struct session *base) {
    struct tls_session *session = of(base);
    sluice_tls_context *context = server_tls_context(base->worker->server);
    int error = context ? sluice_tls_new(context, base->conn, NULL, &session->tls) : -ENOENT;
    sluice_tls_context_unref(context);
    if (error)
        fail(session, strerror(-error));
}

static const struct session_type tls_session_type = {
    .protocol = "tls",
    .events = &events,
    .size = sizeof(struct tls_session),
    .prepare = prepare,
    .begin = begin,
    .tick = tick,
    .drain = drain,
    .kick = kick,
    .discard = discard,
};

const struct session_type *const handover_tls_stage = &tls_session_type;
