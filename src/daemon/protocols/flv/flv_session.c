#include "daemon/protocols/flv/flv_session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/access/authorize.h"
#include "daemon/server/flv_source.h"
#include "daemon/server/handover.h"
#include "daemon/server/hook_query.h"
#include "daemon/server/server.h"
#include "daemon/tls/tls_peer.h"

enum { WAITING_MOST = 65536 }; /* bytes that wait for a hook's answer, or the stream's name */

struct flv_session {
    struct session base;
    struct flv_source source;
    uint64_t received;    /* bytes, when the tick last looked */
    uint64_t received_at; /* loop time at which that had grown */
    bool peer_ended;      /* while it waited */
};

static struct flv_session *of(struct session *session) {
    return (struct flv_session *)session;
}

/* Ends the publisher, with one log line, and the connection. */
static void end(struct flv_session *session, int error) {
    size_t left = sluice_chain_length(session_chain(&session->base));
    flv_source_end(&session->source, error, left, worker_now(session->base.worker));
    session_close(&session->base);
}

static bool is_waiting(const struct flv_session *session) {
    return session->base.hook || publisher_is_waiting(session->source.publisher);
}

/* Publishes the received tags. */
static void feed(struct flv_session *session) {
    budget_begin(&session->base);
    int error = flv_source_feed(&session->source, session_chain(&session->base));
    if (error) {
        end(session, error);
    } else if (is_waiting(session)) {
        budget_rest(&session->base);
        session_set_need(&session->base, 0);
    } else if (budget_end(&session->base, session_chain(&session->base))) {
        return;
    } else if (session->peer_ended) {
        end(session, 0);
    } else {
        session_set_need(&session->base, flv_source_need(&session->source));
    }
}

static void on_data(sluice_conn *conn, void *user) {
    struct flv_session *session = user;
    if (session_refuses_tls(&session->base))
        end(session, -EPROTO);
    else if (!is_waiting(session))
        feed(session);
    else if (sluice_chain_length(session_chain(&session->base)) > WAITING_MOST)
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
    publisher_expect(session->source.publisher, session->received_at);
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
    flv_source_end(&session->source, -ESHUTDOWN, 0, worker_now(session->base.worker));
    worker_end_session(&session->base);
    free(session);
}

static const sluice_conn_events events = {
    .size = sizeof events, .on_data = on_data, .on_end = on_end, .on_closed = on_closed};

static void tick(struct session *base, uint64_t now) {
    struct flv_session *session = of(base);
    const sluice_chain *chain = session_chain(base);
    uint64_t received = sluice_chain_consumed(chain) + sluice_chain_length(chain);
    if (received != session->received || budget_has_more(base) || base->held_up) {
        session->received = received;
        session->received_at = now;
    }
    if (base->held_up)
        publisher_expect(session->source.publisher, now);
    const struct pace_look look = {
        .mark = sluice_chain_consumed(chain),
        .received = received,
        .is_open = sluice_chain_length(chain) > 0 && !is_waiting(session) && !budget_has_more(base) && !base->held_up,
        .most_ms = publisher_idle_ms(session->source.publisher),
        .earns = true,
    };
    bool is_slow = pace_is_late(&base->pace, &look, now);
    if (is_waiting(session))
        return;
    if (now - session->received_at >= publisher_idle_ms(session->source.publisher))
        end(session, -ETIMEDOUT);
    else if (publisher_is_late(session->source.publisher, now))
        end(session, -ETIME);
    else if (is_slow)
        end(session, -EINPROGRESS);
}

static bool publishes(const struct session *base) {
    return !base->hook;
}

static size_t held(const struct session *base) {
    return flv_source_held(&((const struct flv_session *)base)->source);
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

/* Its stream's: the option's, or one that the peer's port gives it. */
static void name_stream(const struct handover *handover, char name[STREAM_NAME + 1]) {
    if (*handover->listener.stream)
        snprintf(name, STREAM_NAME + 1, "%s", handover->listener.stream);
    else
        snprintf(name, STREAM_NAME + 1, "live/flv-%u", address_port(&handover->peer));
}

/* @certificate: name of the client's, or NULL */
static int make_publisher(struct flv_session *session, const char *name, const char *certificate) {
    struct worker *worker = session->base.worker;
    struct stream_source from = {.protocol = "flv", .since = worker_now(worker), .session = &session->base};
    struct stream *stream;

    memcpy(from.peer, session->base.peer, sizeof from.peer);
    const struct authorize access = {
        .by = options_credentials(worker->options),
        .action = RULE_PUBLISH,
        .stream = {name, strlen(name)},
        .peer = &session->base.peer_address,
        .certificate = certificate,
    };
    const struct rule *rule;
    /* Of what a rule asks for, FLV has only certificates. */
    if (authorize_client(&access, &rule) != AUTHORIZE_GRANTED)
        return -EPERM;
    int error = registry_get(worker->registry, name, strlen(name), worker_now(worker), &stream);
    if (error == -EUSERS)
        server_count_reject(worker->server, REJECT_STREAMS);
    if (error)
        return error;
    error = flv_source_begin(&session->source, stream, &from, on_claimed);
    if (error)
        stream_unref(stream);
    return error;
}

static int prepare(struct session *base, const struct handover *handover) {
    struct flv_session *session = of(base);
    struct worker *worker = base->worker;
    char name[STREAM_NAME + 1];
    session->received_at = worker_now(worker);
    name_stream(handover, name);
    int error = make_publisher(session, name, tls_peer_name(handover->tls));
    if (error == -EPERM)
        session_log_refusal(base, 403, NULL);
    return error;
}

static void begin(struct session *base) {
    const char *name = publisher_stream_name(of(base)->source.publisher);
    const struct hook_query_about question = {HOOK_PUBLISH, {name, strlen(name)}, "flv", NULL, NULL};
    if (hook_query_start(base, &question, on_answered) < 0)
        end(of(base), -ENOMEM);
}

static void discard(struct session *base) {
    flv_source_end(&of(base)->source, -ENOMEM, 0, worker_now(base->worker));
    free(base);
}

static const struct session_type flv_session_type = {
    .protocol = "flv",
    .events = &events,
    .size = sizeof(struct flv_session),
    .prepare = prepare,
    .begin = begin,
    .tick = tick,
    .drain = drain,
    .kick = kick,
    .publishes = publishes,
    .held = held,
    .evict = evict,
    .discard = discard,
};

const struct protocol flv_protocol = {
    .option = {"flv", SETTING_LISTENER, true, .group = GROUP_LISTENERS, .preset = "127.0.0.1:9000",
               .value = "ADDR:PORT[,tls][=STREAM]",
               .expected = "ADDR:PORT or ADDR:PORT=STREAM, such as 127.0.0.1:9000 or [::1]:9000=live/cam",
               .help = "Accept publishers of raw FLV over TCP",
               .text = "The stream is named STREAM, or live/flv-PEERPORT after the port of the publisher.",
               .examples = {"127.0.0.1:9000=live/cam"}},
    .names_stream = true,
    .session = &flv_session_type,
    .stream = name_stream,
};
