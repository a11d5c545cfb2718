#include "daemon/pull/pull_http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "daemon/pull/pull.h"
#include "daemon/server/flv_source.h"
#include "daemon/server/server.h"
#include "shared/http_login.h"
#include "shared/text.h"

enum {
    /* longest request */
    FIELDS = 1024, /* an owner's */
    REQUEST = PULL_URL + PULL_HOST + HTTP_LOGIN_HEADER + FIELDS + 256,
    INTERIM_MOST = 8,     /* 1xx responses before the response */
    WAITING_MOST = 65536, /* bytes that are received while the stream's name is waited for */
};

struct pull_http_session {
    struct session base;
    struct pull *pull; /* NULL when one has let go of the other: the end */
    sluice_http *http; /* NULL when the response's head has come */
    unsigned interim;
    sluice_http_body body;
    sluice_chain *payload; /* of the body */
    struct flv_source source;
    bool peer_ended;
    char *request; /* NULL when it has been sent: it holds the password */
    size_t request_size, request_sent;
};

static struct pull_http_session *of(struct session *session) {
    return (struct pull_http_session *)session;
}

static uint64_t now_of(const struct pull_http_session *session) {
    return worker_now(session->base.worker);
}

/* Not while the kernel may read it. */
static void forget_request(struct pull_http_session *session) {
    if (session->request)
        explicit_bzero(session->request, REQUEST);
    free(session->request);
    session->request = NULL;
}

static void let_go(struct pull_http_session *session, int error) {
    session->pull = NULL;
    flv_source_end(&session->source, error, sluice_chain_length(session->payload), now_of(session));
    sluice_chain_skip(session->payload, sluice_chain_length(session->payload));
    session_close(&session->base);
}

static void leave(struct session *base, int error) {
    let_go(of(base), error);
}

/* A password is for the host and port that it is configured for, and for a challenge (RFC 7616):
 * what the server would take by Digest is not shown to it. */
static bool may_log_in(const struct pull *pull) {
    const struct pull_option *option = &pull->option;
    return option->has_user && strcasecmp(pull->target.host, option->target.host) == 0 &&
           pull->target.port == option->target.port;
}

/* The parts of a URL: HOST:PORT and what is requested, without a fragment. */
static sluice_http_text authority_of(const char *url) {
    const char *text = strstr(url, "://") + strlen("://");
    return (sluice_http_text){text, strcspn(text, "/?")};
}

static sluice_http_text path_of(const char *url) {
    const sluice_http_text authority = authority_of(url);
    const char *path = authority.text + authority.length;
    return (sluice_http_text){path, strcspn(path, "#")};
}

static int make_request(struct pull_http_session *session) {
    struct pull *pull = session->pull;
    const sluice_http_text host = authority_of(pull->target.url), path = path_of(pull->target.url);
    char login[HTTP_LOGIN_HEADER] = "", fields[FIELDS] = "", uri[PULL_URL + 2];
    int error = 0, size = snprintf(uri, sizeof uri, "%s%.*s", path.length > 0 && *path.text == '/' ? "" : "/",
                                   (int)path.length, path.text);
    session->request = malloc(REQUEST);
    if (!session->request)
        return -ENOMEM;
    if (may_log_in(pull))
        error = http_login_write(&pull->http, "GET", (sluice_http_text){uri, (size_t)size}, login);
    if (pull->owner && pull->owner->write_fields(pull, uri, fields, sizeof fields) < 0)
        return -EMSGSIZE;
    int length = snprintf(session->request, REQUEST,
                          "GET %s HTTP/1.1\r\nHost: %.*s\r\n%s%sUser-Agent: sluiced\r\nAccept: */*\r\n"
                          "Connection: close\r\n\r\n",
                          uri, (int)host.length, host.text, login, fields);
    explicit_bzero(login, sizeof login);
    if (length < 0 || length >= REQUEST)
        return -EMSGSIZE;
    session->request_size = (size_t)length;
    return error;
}

/*
 * Redirects: what the operator has not named may be of this host's own network, and is not the
 * server's to have asked. They are followed on that host only.
 */
static int resolve(const char *base, sluice_http_text location, char url[PULL_URL + 1]) {
    sluice_http_text authority = authority_of(base), path = path_of(base), rest = location;
    const sluice_http_text first = text_split(&rest, ':');
    const bool is_rooted = location.length > 0 && *location.text == '/';
    const bool is_absolute = rest.length > 1 && memcmp(rest.text, "//", 2) == 0 &&
                             !memchr(first.text, '/', first.length) && !memchr(first.text, '?', first.length);
    const bool has_host = location.length > 1 && memcmp(location.text, "//", 2) == 0;
    size_t folder = 0;
    for (size_t i = 0; i < path.length && path.text[i] != '?'; i++)
        if (path.text[i] == '/')
            folder = i + 1;
    if (is_absolute || has_host)
        authority.length = 0;
    if (is_rooted || is_absolute)
        folder = 0;
    /* With the colon, or the slashes, too. */
    const size_t scheme = is_absolute ? 0 : strcspn(base, ":") + (has_host ? 1 : 3);
    const int length = snprintf(url, PULL_URL + 1, "%.*s%.*s%.*s%s%.*s", (int)scheme, base, (int)authority.length,
                                authority.text, (int)folder, path.text,
                                is_rooted || is_absolute || folder > 0 ? "" : "/", (int)location.length, location.text);
    return location.length == 0 ? -EPROTO : length >= 0 && length <= PULL_URL ? 0 : -EMSGSIZE;
}

static void on_redirect(struct pull_http_session *session, const sluice_http_response *response) {
    struct pull *pull = session->pull;
    const sluice_http_header *location = sluice_http_response_find(response, "Location");
    struct pull_target target;
    char url[PULL_URL + 1];
    int error = location ? resolve(pull->target.url, location->value, url) : -EPROTO;
    if (!error)
        error = pull_target_read(&pull_http.scheme, url, strlen(url), &target, NULL);
    if (error) {
        pull_fail(session->pull, -EBADMSG, "redirected to what is no http:// URL");
        return;
    }
    if (strcasecmp(target.host, pull->option.target.host) != 0) {
        pull_fail(session->pull, -EACCES, "redirected to another host");
        return;
    }
    if (pull->target.is_secure && !target.is_secure) {
        pull_fail(session->pull, -EACCES, "redirected from https:// to http://");
        return;
    }
    rtsp_login_begin(&pull->http);
    let_go(session, 0);
    pull_redirect(pull, &target);
}

/* The same request again, on another connection: this one may be closed. */
static void on_challenge(struct pull_http_session *session, const sluice_http_response *response) {
    struct pull *pull = session->pull;
    pull->http.user = may_log_in(pull) ? pull->option.user : NULL;
    pull->http.password = pull->option.password;
    int error = rtsp_login_take(&pull->http, response->headers, response->header_count);
    if (error) {
        pull_fail(pull, error, "GET answered 401: %s",
                  error == -ENOKEY ? "the server needs credentials, and the pull has none for that host and port"
                                   : http_login_reason(error));
        return;
    }
    const struct pull_target target = pull->target;
    let_go(session, 0);
    pull_redirect(pull, &target);
}

static bool has_coding(const sluice_http_response *response) {
    for (size_t i = 0; i < response->header_count; i++)
        if (text_folds_to(response->headers[i].name, "Content-Encoding") && response->headers[i].value.length > 0 &&
            !text_folds_to(response->headers[i].value, "identity"))
            return true;
    return false;
}

static void on_claimed(struct session *base, int error);

static int begin_source(struct pull_http_session *session) {
    struct worker *worker = session->base.worker;
    struct stream_source from = {.protocol = "http", .since = worker_now(worker), .session = &session->base};
    const char *name = session->pull->option.name;
    struct stream *stream;
    memcpy(from.peer, session->base.peer, sizeof from.peer);
    if (session->pull->owner)
        session->pull->owner->describe(session->pull, &from);
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

static void on_response(struct pull_http_session *session, const sluice_http_response *response) {
    const unsigned status = response->status;
    const char *refusal = session->pull->owner ? session->pull->owner->judge(session->pull, response) : NULL;
    if (refusal) {
        pull_fail(session->pull, -ECONNREFUSED, "GET answered %u: %s", status, refusal);
    } else if (status == 301 || status == 302 || status == 303 || status == 307 || status == 308) {
        on_redirect(session, response);
    } else if (status == 401) {
        on_challenge(session, response);
    } else if (status != 200) {
        pull_fail(session->pull, -ECONNREFUSED, "GET answered %u", status);
    } else if (has_coding(response)) {
        pull_fail(session->pull, -EBADMSG, "the response has a Content-Encoding");
    } else {
        sluice_http_body_begin_response(&session->body, response);
        int error = begin_source(session);
        if (error)
            pull_fail(session->pull, error, "%s", publisher_error_text(error));
        else
            pull_begin_step(session->pull, "FLV");
    }
}

/* Whether the body has begun. */
static bool take_head(struct pull_http_session *session) {
    sluice_http_response response;
    int result = 1;
    while (session->http && session->pull && result > 0) {
        result = sluice_http_next_response(session->http, session_chain(&session->base), "GET", &response);
        if (result < 0) {
            pull_fail(session->pull, -EBADMSG, "malformed HTTP, or over a limit: %s", strerror(-result));
        } else if (result > 0 && response.interim) {
            if (++session->interim > INTERIM_MOST)
                pull_fail(session->pull, -EBADMSG, "malformed HTTP, or over a limit: too many 1xx responses");
        } else if (result > 0) {
            on_response(session, &response);
            sluice_http_free(session->http);
            session->http = NULL;
        }
    }
    return session->pull && !session->http;
}

/* An FLV framer's need in terms of the connection's chain, which has chunk lines, too. */
static void set_need(struct pull_http_session *session) {
    size_t need = flv_source_need(&session->source), have = sluice_chain_length(session->payload);
    size_t missing = need > have && session->body.kind != SLUICE_HTTP_BODY_CHUNKED ? need - have : 1;
    if (session->body.kind == SLUICE_HTTP_BODY_LENGTH && missing > session->body.left)
        missing = (size_t)session->body.left;
    session_set_need(&session->base, missing);
}

static void publish(struct pull_http_session *session) {
    budget_begin(&session->base);
    int body = sluice_http_body_next(&session->body, session_chain(&session->base), session->payload);
    int error = flv_source_feed(&session->source, session->payload);
    if (error) {
        pull_fail(session->pull, error, "%s", publisher_error_text(error));
        return;
    }
    if (publisher_is_attached(session->source.publisher) && session->pull->machine.state != OUTGOING_ACTIVE)
        pull_begin_playing(session->pull);
    outgoing_media(&session->pull->machine, now_of(session));
    if (publisher_is_waiting(session->source.publisher)) {
        budget_rest(&session->base);
        session_set_need(&session->base, 0);
    } else if (budget_end(&session->base, session->payload)) {
        return;
    } else if (body < 0) {
        pull_fail(session->pull, body, "malformed chunks, or over a limit: %s", strerror(-body));
    } else if (body > 0 || (session->peer_ended && sluice_http_body_end(&session->body) == 0)) {
        pull_fail(session->pull, 0, "the server has ended the stream");
    } else if (session->peer_ended) {
        pull_fail(session->pull, -ECONNRESET, "the server has ended the connection");
    } else {
        set_need(session);
    }
}

static void on_data(sluice_conn *conn, void *user) {
    struct pull_http_session *session = user;
    if (!session->pull || !take_head(session))
        ;
    else if (!publisher_is_waiting(session->source.publisher))
        publish(session);
    else if (sluice_chain_length(session_chain(&session->base)) > WAITING_MOST)
        sluice_conn_pause(conn);
    session_account(&session->base);
}

static void on_claimed(struct session *base, int error) {
    struct pull_http_session *session = of(base);
    sluice_conn_resume(base->conn);
    if (error)
        pull_fail(session->pull, error, "%s", publisher_error_text(error));
    else
        publish(session);
}

/* What came before a regular end is published yet. */
static void on_end(sluice_conn *conn, int error, void *user) {
    struct pull_http_session *session = user;
    (void)conn;
    session->peer_ended = true;
    if (!session->pull)
        return;
    if (error)
        pull_fail_connection(session->pull, &session->base, error);
    else if (session->http || publisher_is_waiting(session->source.publisher))
        pull_fail(session->pull, 0, "the server has ended the connection");
    else if (!budget_has_more(&session->base))
        publish(session);
}

static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    const struct pull_http_session *session = user;
    (void)conn;
    if (max == 0 || !session->request)
        return 0;
    *iov = (struct iovec){session->request + session->request_sent, session->request_size - session->request_sent};
    return 1;
}

static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    struct pull_http_session *session = user;
    (void)conn;
    session->request_sent += bytes;
    if (session->request_sent >= session->request_size)
        forget_request(session);
}

static void free_session(struct pull_http_session *session) {
    forget_request(session);
    sluice_http_free(session->http);
    sluice_chain_free(session->payload);
    free(session);
}

static void discard(struct session *base) {
    free_session(of(base));
}

static void on_closed(sluice_conn *conn, void *user) {
    struct pull_http_session *session = user;
    (void)conn;
    flv_source_end(&session->source, -ESHUTDOWN, 0, now_of(session));
    if (session->pull)
        session->pull->session = NULL;
    worker_end_session(&session->base);
    free_session(session);
}

static const sluice_conn_events events = {
    .size = sizeof events,
    .on_data = on_data,
    .on_end = on_end,
    .on_gather = on_gather,
    .on_sent = on_sent,
    .on_closed = on_closed,
};

/* Whether a tag comes too slowly, though bytes of it come. */
static bool is_slow(struct pull_http_session *session, uint64_t now) {
    const struct session *base = &session->base;
    const sluice_chain *chain = session_chain(base);
    const struct pace_look look = {
        .mark = sluice_chain_consumed(session->payload),
        .received = sluice_chain_consumed(chain) + sluice_chain_length(chain),
        .is_open = sluice_chain_length(session->payload) + sluice_chain_length(chain) > 0 &&
                   !publisher_is_waiting(session->source.publisher) && !budget_has_more(base) && !base->held_up,
        .most_ms = OUTGOING_SILENCE_MS,
        .earns = true,
    };
    return pace_is_late(&session->base.pace, &look, now);
}

/* The pull has its own deadlines; what has not been read does not count. */
static void tick(struct session *base, uint64_t now) {
    struct pull_http_session *session = of(base);
    struct publisher *publisher = session->source.publisher;
    if (session->pull && base->held_up) {
        pull_held_up(session->pull, now);
        if (publisher)
            publisher_expect(publisher, now);
    }
    if (!session->pull || !publisher)
        return;
    if (publisher_is_late(publisher, now))
        pull_fail(session->pull, -ETIME, "%s", publisher_error_text(-ETIME));
    else if (is_slow(session, now))
        pull_fail(session->pull, -EINPROGRESS, "%s", publisher_error_text(-EINPROGRESS));
}

/* The pull lets go of it. */
static void drain(struct session *base) {
    (void)base;
}

/* As with any other failure, the pull tries again after a while. */
static void kick(struct session *base, int error) {
    pull_fail(of(base)->pull, error, "%s", publisher_error_text(error));
}

static bool publishes(const struct session *base) {
    return ((const struct pull_http_session *)base)->source.publisher;
}

static size_t held(const struct session *base) {
    const struct pull_http_session *session = (const struct pull_http_session *)base;
    return flv_source_held(&session->source) + sluice_chain_footprint(session->payload);
}

static void evict(struct session *base) {
    kick(base, -ENOBUFS);
}

static int prepare(struct session *base, const struct handover *handover) {
    struct pull_http_session *session = of(base);
    (void)handover;
    base->is_uncounted = true;
    int error = sluice_chain_new(base->worker->pool, &session->payload);
    return error ? error : sluice_http_new(&session->http);
}

static const struct session_type session_type = {.protocol = "http",
                                                 .pulls = true,
                                                 .events = &events,
                                                 .size = sizeof(struct pull_http_session),
                                                 .prepare = prepare,
                                                 .tick = tick,
                                                 .drain = drain,
                                                 .kick = kick,
                                                 .publishes = publishes,
                                                 .held = held,
                                                 .evict = evict,
                                                 .discard = discard};

static int parse(const char *url, size_t length, struct pull_target *ret_target, sluice_http_text *ret_user) {
    return pull_target_read(&pull_http.scheme, url, length, ret_target, ret_user);
}

static int start(struct pull *pull, int fd, struct session **ret_session) {
    int error = pull_start_session(pull, &session_type, fd, ret_session);
    if (error)
        return error;
    struct pull_http_session *session = of(*ret_session);
    session->pull = pull;
    outgoing_connected(&pull->machine, now_of(session));
    pull_begin_step(pull, "GET");
    error = make_request(session);
    if (error)
        pull_fail(session->pull, error, "GET cannot be sent: %s", strerror(-error));
    else
        sluice_conn_want_send(session->base.conn);
    return 0;
}

const struct pull_type pull_http = {.scheme = {"http", 80, "https", 443, "http/1.1"},
                                    .form = "http[s]://[USER:PASSWORD@]HOST[:PORT]/PATH",
                                    .parse = parse,
                                    .start = start,
                                    .leave = leave};
