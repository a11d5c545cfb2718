#include "tools/rtmp_session.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <sluice/connect.h>

#include "tools/connector.h"
#include "tools/transport.h"

enum { FINISH_MS = 10000 }; /* for a server to close */

enum session_state {
    SESSION_OPEN,       /* connected; set by rtmp_session_new() and on_connected() */
    SESSION_RESTARTING, /* closes, to connect again with a login; set by restart() */
    SESSION_CONNECTING, /* connects again; set by on_closed() */
    SESSION_FINISHING,  /* the end is queued; set by rtmp_session_finish() */
    SESSION_FINISHED,   /* all is sent, the server's end is awaited; set by finish_sending() */
    SESSION_ENDED,      /* ended() has been called; set by rtmp_session_end() */
};

struct rtmp_session {
    enum session_state state;
    enum rtmp_client_mode mode;
    struct target target; /* a copy: the login has its name and password */
    struct rtmp_url url;
    struct rtmp_login login;
    struct rtmp_client *client;
    sluice_loop *loop;
    struct transport transport; /* without a connection while it connects again */
    sluice_writer *writer;
    sluice_connector *connector;  /* in SESSION_CONNECTING */
    struct sockaddr_storage peer; /* the server's address */
    socklen_t peer_length;
    uint32_t timeout_ms;
    size_t queue;
    bool stalled;
    const struct rtmp_session_events *events;
    void *user;
};

static void session_free(struct rtmp_session *session) {
    session->events->closed(session->user);
    explicit_bzero(session, sizeof *session);
    free(session);
}

void rtmp_session_end(struct rtmp_session *session, int error, const char *reason) {
    enum session_state before = session->state;
    if (before == SESSION_ENDED)
        return;
    session->state = SESSION_ENDED;
    session->events->ended(error, reason, session->user);
    if (before == SESSION_CONNECTING) {
        sluice_connect_cancel(session->connector);
        session_free(session);
    } else if (before != SESSION_RESTARTING) {
        transport_close(&session->transport);
    }
}

static void restart(struct rtmp_session *session) {
    session->state = SESSION_RESTARTING;
    transport_close(&session->transport);
}

static void on_running(void *user) {
    struct rtmp_session *session = user;
    (void)sluice_conn_set_timeout(session->transport.conn, session->mode == RTMP_CLIENT_PLAY ? session->timeout_ms : 0);
    if (session->state == SESSION_OPEN)
        session->events->running(session->user);
}

static int on_tag(sluice_flv_tag *tag, void *user) {
    struct rtmp_session *session = user;
    session->events->tag(tag, session->user);
    if (session->stalled)
        return RTMP_CLIENT_REST;
    return session->state == SESSION_ENDED ? -ECANCELED : RTMP_CLIENT_GO_ON;
}

static const struct rtmp_client_events client_events = {.running = on_running, .tag = on_tag};

/* Behind a failure of the client. */
static void fail(struct rtmp_session *session, int error) {
    if (error == -ERESTART)
        restart(session);
    else
        rtmp_session_end(session, error == -ENODATA ? 0 : error, rtmp_client_reason(session->client));
}

static void on_data(sluice_conn *conn, void *user) {
    struct rtmp_session *session = user;
    int result = 1;
    (void)conn;
    if (session->state == SESSION_ENDED || session->state == SESSION_RESTARTING)
        return;
    while (result == 1 && !session->stalled)
        result = rtmp_client_feed(session->client, transport_chain(&session->transport),
                                  sluice_loop_now(session->loop));
    if (session->state == SESSION_ENDED)
        return;
    if (result < 0)
        fail(session, result);
    else if (!session->stalled)
        transport_set_need(&session->transport, rtmp_client_need(session->client));
}

static void on_end(sluice_conn *conn, int error, void *user) {
    struct rtmp_session *session = user;
    char text[TRANSPORT_REASON];
    (void)conn;
    if (session->state == SESSION_RESTARTING)
        return;
    bool finished = session->state == SESSION_FINISHED;
    if (error == -ETIMEDOUT)
        rtmp_session_end(session, error,
                         finished ? "the server does not answer to the end"
                                  : "nothing has come from the server for too long");
    else if (error)
        rtmp_session_end(session, error, transport_reason(&session->transport, error, text));
    else if (finished)
        rtmp_session_end(session, 0, "ended");
    else if (session->mode == RTMP_CLIENT_PLAY && rtmp_client_get_state(session->client) == RTMP_CLIENT_RUNNING)
        rtmp_session_end(session, 0, "the server has ended the connection");
    else
        rtmp_session_end(session, -ECONNRESET, "the server has ended the connection");
}

static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    const struct rtmp_session *session = user;
    (void)conn;
    return sluice_writer_gather(session->writer, iov, max);
}

/* All is sent: the server closes when it has read it. */
static void finish_sending(struct rtmp_session *session) {
    if (session->state != SESSION_FINISHING || sluice_writer_queued(session->writer) > 0)
        return;
    session->state = SESSION_FINISHED;
    (void)sluice_conn_set_timeout(session->transport.conn, FINISH_MS);
    if (transport_finish(&session->transport) < 0)
        rtmp_session_end(session, 0, "ended");
}

static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    struct rtmp_session *session = user;
    (void)conn;
    sluice_writer_sent(session->writer, bytes);
    if (session->state == SESSION_OPEN && rtmp_client_get_state(session->client) == RTMP_CLIENT_RUNNING &&
        session->events->sent)
        session->events->sent(session->user);
    finish_sending(session);
}

static void on_closed(sluice_conn *conn, void *user);

static const sluice_conn_events conn_events = {
    .size = sizeof conn_events,
    .on_data = on_data,
    .on_end = on_end,
    .on_gather = on_gather,
    .on_sent = on_sent,
    .on_closed = on_closed,
};

/* A dialogue on a connection, which is the session's from here on unless this fails. */
static int begin(struct rtmp_session *session, sluice_conn *conn) {
    sluice_writer *writer = NULL;
    int error = sluice_writer_new(conn, session->queue, &writer);
    if (!error) {
        const struct rtmp_client_options options = {.mode = session->mode,
                                                    .url = &session->url,
                                                    .login = &session->login,
                                                    .writer = writer,
                                                    .max_message = SLUICE_RTMP_MAX_MESSAGE,
                                                    .events = &client_events,
                                                    .user = session,
                                                    .now = sluice_loop_now(session->loop)};
        error = rtmp_client_new(&options, &session->client);
    }
    if (!error)
        error = transport_begin(&session->transport, conn, &session->target, &conn_events, session);
    if (error) {
        rtmp_client_free(session->client);
        session->client = NULL;
        sluice_writer_free(writer);
        return error;
    }
    session->state = SESSION_OPEN;
    session->writer = writer;
    (void)sluice_conn_set_timeout(conn, session->timeout_ms);
    sluice_conn_want_send(conn);
    return 0;
}

static void on_connected(sluice_conn *conn, int error, void *user) {
    struct rtmp_session *session = user;
    const int on = 1;
    session->connector = NULL;
    if (!error) {
        (void)setsockopt(sluice_conn_fd(conn), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        error = begin(session, conn);
    }
    if (!error)
        return;
    sluice_conn_close(conn);
    session->state = SESSION_ENDED;
    session->events->ended(error, strerror(-error), session->user);
    session_free(session);
}

static void on_closed(sluice_conn *conn, void *user) {
    struct rtmp_session *session = user;
    static const sluice_conn_events none = {.size = sizeof none};
    const sluice_connect_options options = {.size = sizeof options,
                                            .address = (const struct sockaddr *)&session->peer,
                                            .length = session->peer_length,
                                            .timeout_ms = CONNECTOR_MS};
    (void)conn;
    sluice_writer_free(session->writer);
    rtmp_client_free(session->client);
    session->writer = NULL;
    session->client = NULL;
    session->transport = (struct transport){0};
    if (session->state == SESSION_RESTARTING) {
        int error = sluice_connect(session->loop, &options, &none, on_connected, session, &session->connector);
        if (!error) {
            session->state = SESSION_CONNECTING;
            return;
        }
        session->state = SESSION_ENDED;
        session->events->ended(error, strerror(-error), session->user);
    } else if (session->state != SESSION_ENDED) {
        session->events->ended(-ECANCELED, "stopped", session->user);
    }
    session_free(session);
}

int rtmp_session_new(sluice_conn *conn, const struct target *target, enum rtmp_client_mode mode, uint32_t timeout_ms,
                     size_t queue, const struct rtmp_session_events *events, void *user,
                     struct rtmp_session **ret_session) {
    struct rtmp_session *session = calloc(1, sizeof *session);
    if (!session)
        return -ENOMEM;
    session->mode = mode;
    session->target = *target;
    session->login = (struct rtmp_login){.user = session->target.user, .password = session->target.password};
    session->loop = sluice_conn_loop(conn);
    session->timeout_ms = timeout_ms;
    session->queue = queue + RTMP_CLIENT_RESERVE;
    session->events = events;
    session->user = user;
    session->peer_length = sizeof session->peer;
    int error = target_rtmp_url(target, &session->url);
    if (!error && getpeername(sluice_conn_fd(conn), (struct sockaddr *)&session->peer, &session->peer_length) < 0)
        error = -errno;
    if (!error)
        error = begin(session, conn);
    if (error) {
        explicit_bzero(session, sizeof *session);
        free(session);
        return error;
    }
    *ret_session = session;
    return 0;
}

int rtmp_session_send(struct rtmp_session *session, sluice_flv_type type, uint32_t timestamp,
                      const sluice_slice *payload) {
    if (session->state != SESSION_OPEN)
        return -EPIPE;
    int error = rtmp_client_send(session->client, type, timestamp, payload);
    if (error == -EMSGSIZE)
        rtmp_session_end(session, error, "a frame is too long for RTMP");
    else if (error && error != -EAGAIN)
        fail(session, error);
    return error;
}

void rtmp_session_finish(struct rtmp_session *session) {
    if (session->state != SESSION_OPEN)
        return;
    session->state = SESSION_FINISHING;
    int error = rtmp_client_finish(session->client);
    if (error)
        fail(session, error);
    else
        finish_sending(session);
}

void rtmp_session_stall(struct rtmp_session *session) {
    session->stalled = true;
    if (session->transport.conn)
        sluice_conn_pause(session->transport.conn);
}

void rtmp_session_tick(struct rtmp_session *session, uint64_t now) {
    if (session->state != SESSION_OPEN)
        return;
    int error = rtmp_client_check(session->client, now);
    if (error)
        fail(session, error);
}

uint64_t rtmp_session_received(const struct rtmp_session *session) {
    return session->transport.conn ? transport_received(&session->transport) : 0;
}

uint64_t rtmp_session_sent(const struct rtmp_session *session) {
    sluice_writer_stats stats = {.size = sizeof stats};
    if (session->writer)
        (void)sluice_writer_get_stats(session->writer, &stats);
    return stats.sent_bytes;
}

size_t rtmp_session_queued(const struct rtmp_session *session) {
    return session->writer ? sluice_writer_queued(session->writer) : 0;
}
