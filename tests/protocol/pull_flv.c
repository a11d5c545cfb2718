/* For tests: pulls raw FLV over TCP, flv://HOST:PORT. What the server sends is published. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/config/pull_type.h"
#include "daemon/pull/pull.h"
#include "daemon/server/flv_source.h"
#include "daemon/server/server.h"

struct pull_flv_session {
    struct session base;
    struct pull *pull; /* NULL when one has let go of the other */
    struct flv_source source;
};

static struct pull_flv_session *of(struct session *session) {
    return (struct pull_flv_session *)session;
}

static void leave(struct session *base, int error) {
    of(base)->pull = NULL;
    flv_source_end(&of(base)->source, error, 0, worker_now(base->worker));
    base->closing = true;
    sluice_conn_close(base->conn);
}

static void publish(struct pull_flv_session *session) {
    sluice_conn *conn = session->base.conn;
    budget_begin(&session->base);
    int error = flv_source_feed(&session->source, sluice_conn_chain(conn));
    if (error) {
        pull_fail(session->pull, error, "%s", publisher_error_text(error));
        return;
    }
    if (publisher_is_attached(session->source.publisher) && session->pull->machine.state != OUTGOING_ACTIVE)
        pull_begin_playing(session->pull);
    outgoing_media(&session->pull->machine, worker_now(session->base.worker));
    if (publisher_is_waiting(session->source.publisher))
        budget_rest(&session->base);
    else if (!budget_end(&session->base, sluice_conn_chain(conn)))
        sluice_conn_set_need(conn, flv_source_need(&session->source));
}

static void on_data(sluice_conn *conn, void *user) {
    struct pull_flv_session *session = user;
    (void)conn;
    if (session->pull && !publisher_is_waiting(session->source.publisher))
        publish(session);
    session_account(&session->base);
}

static void on_claimed(struct session *base, int error) {
    if (error)
        pull_fail(of(base)->pull, error, "%s", publisher_error_text(error));
    else
        publish(of(base));
}

static void on_end(sluice_conn *conn, int error, void *user) {
    (void)conn;
    pull_fail(((struct pull_flv_session *)user)->pull, error, "the server has ended the connection");
}

static void discard(struct session *base) {
    flv_source_end(&of(base)->source, -ENOMEM, 0, worker_now(base->worker));
    free(base);
}

static void on_closed(sluice_conn *conn, void *user) {
    (void)conn;
    worker_end_session(user);
    discard(user);
}

static void kick(struct session *base, int error) {
    pull_fail(of(base)->pull, error, "%s", publisher_error_text(error));
}

/* The pull lets go of it, and has deadlines of its own. */
static void drain(struct session *base) {
    (void)base;
}

static void tick(struct session *base, uint64_t now) {
    (void)base, (void)now;
}

static bool publishes(const struct session *base) {
    return ((const struct pull_flv_session *)base)->source.publisher;
}

static int prepare(struct session *base, const struct handover *handover) {
    (void)handover;
    base->is_uncounted = true;
    return 0;
}

static const sluice_conn_events events = {
    .size = sizeof events, .on_data = on_data, .on_end = on_end, .on_closed = on_closed};
static const struct session_type session_type = {"flv",
                                                 .pulls = true,
                                                 .events = &events,
                                                 .size = sizeof(struct pull_flv_session),
                                                 .prepare = prepare,
                                                 .tick = tick,
                                                 .drain = drain,
                                                 .kick = kick,
                                                 .publishes = publishes,
                                                 .discard = discard};

static int begin_source(struct pull_flv_session *session, const char *name) {
    struct worker *worker = session->base.worker;
    struct stream_source from = {.protocol = "flv", .since = worker_now(worker), .session = &session->base};
    struct stream *stream;
    memcpy(from.peer, session->base.peer, sizeof from.peer);
    int error = registry_get(worker->registry, name, strlen(name), worker_now(worker), &stream);
    if (!error && (error = flv_source_begin(&session->source, stream, &from, on_claimed)) < 0)
        stream_unref(stream);
    return error;
}

static int start(struct pull *pull, int fd, struct session **ret_session) {
    int error = pull_start_session(pull, &session_type, fd, ret_session);
    if (error)
        return error;
    struct pull_flv_session *session = of(*ret_session);
    session->pull = pull;
    outgoing_connected(&pull->machine, worker_now(pull->worker));
    pull_begin_step(pull, "FLV");
    error = begin_source(session, pull->option.name);
    if (error)
        pull_fail(pull, error, "%s", strerror(-error));
    return 0;
}

static int parse(const char *url, size_t length, struct pull_target *ret_target, sluice_http_text *ret_user) {
    struct pull_target target = {0};
    char end;
    if (length >= sizeof target.url)
        return -EMSGSIZE;
    memcpy(target.url, url, length);
    if (sscanf(target.url, "flv://%255[0-9a-z.]:%5hu%c", target.host, &target.port, &end) != 2)
        return -EPROTO;
    snprintf(target.place, sizeof target.place, "flv://%s:%u", target.host, target.port);
    *ret_target = target;
    *ret_user = (sluice_http_text){"", 0};
    return 0;
}

const struct pull_type pull_flv = {
    .scheme.name = "flv", .form = "flv://HOST:PORT", .parse = parse, .start = start, .leave = leave};
