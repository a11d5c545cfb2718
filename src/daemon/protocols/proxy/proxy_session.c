/*
 * A connection of a proxy, until its PROXY header has come: then the client is known, and the
 * connection goes on as an accepted one of that client's. Without a right header, or without one in
 * time, it is rejected.
 */
#include <errno.h>
#include <stdlib.h>

#include <sluice/reader.h>

#include "daemon/protocols/proxy/proxy_header.h"
#include "daemon/server/server.h"
#include "daemon/server/worker.h"

enum {
    HEADER_MS = 10000, /* for the header to come: as long as for a request's head */
};

struct proxy_session {
    struct session base;
    struct handover handover; /* in which it ends: with the client, once that is known */
    struct proxy_header header;
    const char *wrong; /* it is leaving to be rejected, for that */
    uint64_t deadline;
};

static struct proxy_session *of(struct session *session) {
    return (struct proxy_session *)session;
}

static void close_session(struct proxy_session *session) {
    if (session->base.closing)
        return;
    session->base.closing = true;
    sluice_conn_close(session->base.conn);
}

/* It has left its loop: with its client's address it begins anew. */
static void detached(const sluice_conn_handover *connection, void *user) {
    struct proxy_session *session = user;
    struct worker *worker = session->base.worker;
    session->handover.connection = *connection;
    worker_remove(worker, &session->base);
    if (session->wrong)
        server_reject_proxy(worker, &session->handover);
    else
        server_begin_proxied(worker, &session->handover);
    free(session);
}

static void leave(struct proxy_session *session) {
    session->deadline = UINT64_MAX; /* the header is judged; leaving takes a turn */
    int error = sluice_conn_detach(session->base.conn, detached, session);
    if (error && error != -EPIPE)
        close_session(session);
}

static void reject(struct proxy_session *session, const char *reason) {
    if (session->wrong)
        return;
    handover_log_refusal(&session->handover, reason);
    session->wrong = reason;
    leave(session);
}

/* 1: the header is whole; 0: it goes on; -EPROTO */
static int read_header(struct proxy_session *session, int *ret_error) {
    sluice_reader *reader;
    uint8_t byte;
    int result = 0;
    *ret_error = sluice_reader_new(sluice_conn_chain(session->base.conn), &reader);
    if (*ret_error)
        return -EPROTO;
    while (result == 0 && sluice_reader_u8(reader, &byte) == 0)
        result = proxy_header_add(&session->header, byte);
    sluice_reader_free(reader);
    return result;
}

static void on_data(sluice_conn *conn, void *user) {
    struct proxy_session *session = user;
    int error, result = read_header(session, &error);
    (void)conn;
    if (error) {
        close_session(session);
    } else if (result < 0) {
        reject(session, "missing or malformed PROXY header: see --proxy-from");
    } else if (result > 0) {
        struct sockaddr_storage client;
        if (proxy_header_client(&session->header, &client))
            session->handover.peer = client;
        leave(session);
    }
    session_account(&session->base);
}

static void on_end(sluice_conn *conn, int error, void *user) {
    (void)conn;
    (void)error;
    /* Such as a health check that only connects. */
    close_session(user);
}

static void on_closed(sluice_conn *conn, void *user) {
    struct proxy_session *session = user;
    (void)conn;
    worker_end_session(&session->base);
    free(session);
}

static const sluice_conn_events events = {
    .size = sizeof events, .on_data = on_data, .on_end = on_end, .on_closed = on_closed};

static void tick(struct session *base, uint64_t now) {
    if (now >= of(base)->deadline)
        reject(of(base), "PROXY header timeout: see --proxy-from");
}

static void drain(struct session *base) {
    close_session(of(base));
}

static void kick(struct session *base, int error) {
    (void)error;
    close_session(of(base));
}

static void discard(struct session *base) {
    free(of(base));
}

static int prepare(struct session *base, const struct handover *handover) {
    base->is_uncounted = true;
    of(base)->handover = *handover;
    of(base)->deadline = worker_now(base->worker) + HEADER_MS;
    return 0;
}

static const struct session_type proxy_session_type = {
    .protocol = "proxy",
    .events = &events,
    .size = sizeof(struct proxy_session),
    .prepare = prepare,
    .tick = tick,
    .drain = drain,
    .kick = kick,
    .discard = discard,
};

const struct session_type *const handover_proxy_stage = &proxy_session_type;
