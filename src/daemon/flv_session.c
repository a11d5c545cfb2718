#include "daemon/flv_session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/access.h"
#include "daemon/denials.h"
#include "daemon/log.h"
#include "daemon/publisher.h"

enum { ASKING_MOST = 65536 }; /* bytes that wait for a hook's answer */

struct flv_session {
    struct session base;
    struct publisher *publisher;
    uint64_t received;    /* bytes, when the tick last looked */
    uint64_t received_at; /* loop time at which that had grown */
    bool peer_ended;      /* before the hook has answered */
};

static struct flv_session *of(struct session *session) {
    return (struct flv_session *)session;
}

/* Ends the publisher, with one log line, and the connection. */
static void end(struct flv_session *session, int error) {
    size_t left = sluice_chain_length(sluice_conn_chain(session->base.conn));
    publisher_end(session->publisher, error, left, server_now(session->base.server));
    session->publisher = NULL;
    session->base.closing = true;
    sluice_conn_close(session->base.conn);
}

static void on_data(sluice_conn *conn, void *user) {
    struct flv_session *session = user;
    if (session->base.hook) {
        if (sluice_chain_length(sluice_conn_chain(conn)) > ASKING_MOST)
            sluice_conn_pause(conn);
        return;
    }
    int error = publisher_feed(session->publisher, sluice_conn_chain(conn));
    if (error)
        end(session, error);
    else
        sluice_conn_set_need(conn, publisher_need(session->publisher));
}

static void on_end(sluice_conn *conn, int error, void *user) {
    struct flv_session *session = user;
    (void)conn;
    session->peer_ended = true;
    if (error || !session->base.hook)
        end(session, error);
}

/* What came meanwhile is published now. */
static void on_answered(struct session *base, bool granted) {
    struct flv_session *session = of(base);
    if (base->closing)
        return;
    if (!granted) {
        end(session, -EPERM);
        return;
    }
    session->received_at = server_now(base->server);
    int error = publisher_feed(session->publisher, sluice_conn_chain(base->conn));
    if (error || session->peer_ended) {
        end(session, error);
        return;
    }
    sluice_conn_set_need(base->conn, publisher_need(session->publisher));
    sluice_conn_resume(base->conn);
}

static void on_closed(sluice_conn *conn, void *user) {
    struct flv_session *session = user;
    (void)conn;
    publisher_end(session->publisher, -ESHUTDOWN, 0, server_now(session->base.server));
    server_remove(session->base.server, &session->base);
    free(session);
}

static const sluice_conn_events events = {.on_data = on_data, .on_end = on_end, .on_closed = on_closed};

static void tick(struct session *base, uint64_t now) {
    struct flv_session *session = of(base);
    const sluice_chain *chain = sluice_conn_chain(base->conn);
    uint64_t received = sluice_chain_consumed(chain) + sluice_chain_length(chain);
    if (received != session->received) {
        session->received = received;
        session->received_at = now;
    } else if (!base->hook && now - session->received_at >= base->server->options->idle_ms) {
        end(session, -ETIMEDOUT);
    }
}

static void drain(struct session *base) {
    end(of(base), -ESHUTDOWN);
}

static void kick(struct session *base) {
    end(of(base), -ECANCELED);
}

static const struct session_type flv_session_type = {.tick = tick, .drain = drain, .kick = kick};

static int make_publisher(struct flv_session *session, const char *name) {
    struct server *server = session->base.server;
    struct stream_source source = {.protocol = "flv", .since = server_now(server), .session = &session->base};
    char from_port[32];
    struct stream *stream;

    snprintf(source.peer, sizeof source.peer, "%s", session->base.peer);
    if (!*name) {
        snprintf(from_port, sizeof from_port, "live/flv-%u", session->base.peer_port);
        name = from_port;
    }
    const struct access access = {
        .options = server->options,
        .action = RULE_PUBLISH,
        .stream = {name, strlen(name)},
        .peer = &session->base.peer_address,
    };
    const struct rule *rule;
    /* What a rule asks for cannot be said in FLV. */
    if (access_judge(&access, &rule) != ACCESS_GRANTED)
        return -EPERM;
    int error = registry_get(server->registry, name, strlen(name), server_now(server), &stream);
    if (error)
        return error;
    error = publisher_new(stream, &source, (uint32_t)server->options->frame_limit, &session->publisher);
    if (error)
        stream_unref(stream);
    return error;
}

void flv_session_start(struct server *server, int fd, const struct sockaddr_storage *peer, const char *stream) {
    struct flv_session *session = calloc(1, sizeof *session);
    int error = session ? 0 : -ENOMEM;
    if (!error) {
        session->base = (struct session){.type = &flv_session_type, .server = server, .peer_port = address_port(peer)};
        session->base.peer_address = cidr_address(peer);
        address_format(peer, session->base.peer);
        session->received_at = server_now(server);
        error = make_publisher(session, stream);
    }
    if (!error)
        error = sluice_conn_new(server->loop, fd, &events, session, &session->base.conn);
    if (!error) {
        const char *name = publisher_stream_name(session->publisher);
        server_add(server, &session->base);
        if (hook_ask(&session->base, HOOK_PUBLISH, (sluice_http_text){name, strlen(name)}, "flv", on_answered) < 0)
            end(session, -ENOMEM);
        return;
    }
    if (error == -EPERM)
        denials_log(&server->denials, server_now(server), "flv", session->base.peer, 403);
    else
        LOG(LOG_ERROR, "connection refused", {"proto", "flv"}, {"reason", strerror(-error)});
    if (session)
        publisher_end(session->publisher, error, 0, server_now(server));
    free(session);
    close(fd);
}
