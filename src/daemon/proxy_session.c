#include "daemon/proxy_session.h"

#include <errno.h>
#include <stdlib.h>

#include <sluice/reader.h>

#include "daemon/log.h"
#include "daemon/proxy_header.h"
#include "daemon/server.h"

enum {
    HEADER_MS = 10000, /* for the header to come: as long as for a request's head */
};

struct proxy_session {
    struct session base;
    struct listener_option option; /* a copy: options come and go */
    struct sockaddr_storage client;
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
static void detached(const sluice_conn_handover *handover, void *user) {
    struct proxy_session *session = user;
    struct worker *worker = session->base.worker;
    sluice_conn_handover connection = *handover;
    worker_remove(worker, &session->base);
    if (session->wrong)
        server_reject_proxy(worker, &connection, &session->option);
    else
        server_begin_proxied(worker, &connection, &session->client, &session->option);
    free(session);
}

static void leave(struct proxy_session *session) {
    int error = sluice_conn_detach(session->base.conn, detached, session);
    if (error && error != -EPIPE)
        close_session(session);
}

static void reject(struct proxy_session *session, const char *reason) {
    if (session->wrong)
        return;
    LOG(LOG_WARNING, "connection refused", {"proto", listeners_protocol(session->option.protocol)},
        {"peer", session->base.peer}, {"reason", reason});
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
        reject(session, "no PROXY header, or a malformed one: see --proxy-from");
    } else if (result > 0) {
        struct sockaddr_storage client;
        if (proxy_header_client(&session->header, &client))
            session->client = client;
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

static const sluice_conn_events events = {.on_data = on_data, .on_end = on_end, .on_closed = on_closed};

static void tick(struct session *base, uint64_t now) {
    if (now >= of(base)->deadline)
        reject(of(base), "the PROXY header did not come: see --proxy-from");
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

static const struct session_type proxy_session_type = {
    .protocol = "proxy", .events = &events, .tick = tick, .drain = drain, .kick = kick, .discard = discard};

int proxy_session_start(struct worker *worker, sluice_conn_handover *connection, const struct sockaddr_storage *peer,
                        const struct listener_option *listener) {
    struct proxy_session *session = calloc(1, sizeof *session);
    if (!session)
        return -ENOMEM;
    session_init(&session->base, &proxy_session_type, worker, peer);
    session->base.is_uncounted = true;
    session->option = *listener;
    session->client = *peer;
    session->deadline = worker_now(worker) + HEADER_MS;
    int error = sluice_conn_adopt(worker->loop, connection, &events, session, &session->base.conn);
    if (error) {
        free(session);
        return error;
    }
    worker_add(worker, &session->base);
    return 0;
}
