#include "daemon/flv_session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/access.h"
#include "daemon/denials.h"
#include "daemon/hook.h"
#include "daemon/log.h"
#include "daemon/publisher.h"
#include "daemon/server.h"

enum { WAITING_MOST = 65536 }; /* bytes that wait for a hook's answer, or the stream's name */

struct flv_session {
    struct session base;
    struct publisher *publisher;
    uint64_t received;    /* bytes, when the tick last looked */
    uint64_t received_at; /* loop time at which that had grown */
    bool peer_ended;      /* while it waited */
};

static struct flv_session *of(struct session *session) {
    return (struct flv_session *)session;
}

/* Ends the publisher, with one log line, and the connection. */
static void end(struct flv_session *session, int error) {
    size_t left = sluice_chain_length(sluice_conn_chain(session->base.conn));
    publisher_end(session->publisher, error, left, worker_now(session->base.worker));
    session->publisher = NULL;
    session->base.closing = true;
    sluice_conn_close(session->base.conn);
}

static bool is_waiting(const struct flv_session *session) {
    return session->base.hook || publisher_is_waiting(session->publisher);
}

/* Publishes what has come. */
static void feed(struct flv_session *session) {
    sluice_conn *conn = session->base.conn;
    budget_begin(&session->base);
    int error = publisher_feed(session->publisher, sluice_conn_chain(conn));
    if (error)
        end(session, error);
    else if (budget_end(&session->base, sluice_conn_chain(conn)))
        return;
    else if (session->peer_ended && !is_waiting(session))
        end(session, 0);
    else
        sluice_conn_set_need(conn, is_waiting(session) ? 0 : publisher_need(session->publisher));
}

static void on_data(sluice_conn *conn, void *user) {
    struct flv_session *session = user;
    if (!is_waiting(session))
        feed(session);
    else if (sluice_chain_length(sluice_conn_chain(conn)) > WAITING_MOST)
        sluice_conn_pause(conn);
    session_account(&session->base);
}

/* What came before a regular end is published yet. */
static void on_end(sluice_conn *conn, int error, void *user) {
    struct flv_session *session = user;
    (void)conn;
    session->peer_ended = true;
    if (error || !is_waiting(session))
        end(session, error);
}

/* What came meanwhile is published now. */
static void go_on(struct flv_session *session) {
    session->received_at = worker_now(session->base.worker);
    publisher_expect(session->publisher, session->received_at);
    sluice_conn_resume(session->base.conn);
    feed(session);
}

static void on_answered(struct session *base, bool granted) {
    struct flv_session *session = of(base);
    if (base->closing)
        return;
    if (granted)
        go_on(session);
    else
        end(session, -EPERM);
}

static void on_claimed(struct session *base, int error) {
    struct flv_session *session = of(base);
    if (error)
        end(session, error);
    else
        go_on(session);
}

static void on_closed(sluice_conn *conn, void *user) {
    struct flv_session *session = user;
    (void)conn;
    publisher_end(session->publisher, -ESHUTDOWN, 0, worker_now(session->base.worker));
    worker_end_session(&session->base);
    free(session);
}

static const sluice_conn_events events = {.on_data = on_data, .on_end = on_end, .on_closed = on_closed};

static void tick(struct session *base, uint64_t now) {
    struct flv_session *session = of(base);
    const sluice_chain *chain = sluice_conn_chain(base->conn);
    uint64_t received = sluice_chain_consumed(chain) + sluice_chain_length(chain);
    if (received != session->received || budget_has_more(base) || base->held_up) {
        session->received = received;
        session->received_at = now;
    }
    if (base->held_up)
        publisher_expect(session->publisher, now);
    const struct pace_look look = {
        .mark = sluice_chain_consumed(chain),
        .received = received,
        .is_open = sluice_chain_length(chain) > 0 && !is_waiting(session) && !budget_has_more(base) && !base->held_up,
        .most_ms = publisher_idle_ms(session->publisher),
        .earns = true,
    };
    bool is_slow = pace_is_late(&base->pace, &look, now);
    if (is_waiting(session))
        return;
    if (now - session->received_at >= publisher_idle_ms(session->publisher))
        end(session, -ETIMEDOUT);
    else if (publisher_is_late(session->publisher, now))
        end(session, -ETIME);
    else if (is_slow)
        end(session, -EINPROGRESS);
}

static bool publishes(const struct session *base) {
    return !base->hook;
}

static size_t held(const struct session *base) {
    return publisher_held(((const struct flv_session *)base)->publisher);
}

static void evict(struct session *base) {
    end(of(base), -ENOBUFS);
}

static void drain(struct session *base) {
    end(of(base), -ESHUTDOWN);
}

static void kick(struct session *base, int error) {
    end(of(base), error);
}

static const struct session_type flv_session_type = {
    .protocol = "flv",
    .events = &events,
    .tick = tick,
    .drain = drain,
    .kick = kick,
    .publishes = publishes,
    .held = held,
    .evict = evict,
};

void flv_session_name(const struct listener_option *listener, uint16_t peer_port, char name[STREAM_NAME + 1]) {
    if (*listener->stream)
        snprintf(name, STREAM_NAME + 1, "%s", listener->stream);
    else
        snprintf(name, STREAM_NAME + 1, "live/flv-%u", peer_port);
}

static int make_publisher(struct flv_session *session, const char *name) {
    struct worker *worker = session->base.worker;
    struct stream_source source = {.protocol = "flv", .since = worker_now(worker), .session = &session->base};
    struct stream *stream;

    memcpy(source.peer, session->base.peer, sizeof source.peer);
    const struct access access = {
        .options = worker->options,
        .action = RULE_PUBLISH,
        .stream = {name, strlen(name)},
        .peer = &session->base.peer_address,
    };
    const struct rule *rule;
    /* What a rule asks for cannot be said in FLV. */
    if (access_judge(&access, &rule) != ACCESS_GRANTED)
        return -EPERM;
    int error = registry_get(worker->registry, name, strlen(name), worker_now(worker), &stream);
    if (error == -EUSERS)
        server_count_refusal(worker->server, REFUSED_STREAMS);
    if (error)
        return error;
    error = publisher_new(stream, &source, on_claimed, &session->publisher);
    if (error)
        stream_unref(stream);
    return error;
}

int flv_session_start(struct worker *worker, sluice_conn_handover *connection, const struct sockaddr_storage *peer,
                      const struct listener_option *listener) {
    char name[STREAM_NAME + 1];
    struct flv_session *session = calloc(1, sizeof *session);
    if (!session)
        return -ENOMEM;
    session_init(&session->base, &flv_session_type, worker, peer);
    session->received_at = worker_now(worker);
    flv_session_name(listener, session->base.peer_port, name);
    int error = make_publisher(session, name);
    if (!error)
        error = sluice_conn_adopt(worker->loop, connection, &events, session, &session->base.conn);
    if (error) {
        if (error == -EPERM)
            denials_log(&worker->denials, worker_now(worker), "flv", session->base.peer, &session->base.peer_address,
                        403);
        publisher_end(session->publisher, error, 0, worker_now(worker));
        free(session);
        return error;
    }
    worker_add(worker, &session->base);
    const struct hook_question question = {HOOK_PUBLISH, {name, strlen(name)}, "flv", NULL};
    if (hook_ask(&session->base, &question, on_answered) < 0)
        end(session, -ENOMEM);
    return 0;
}
