#include "daemon/pull/pull_rtmp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/writer.h>

#include "daemon/pull/pull.h"
#include "daemon/server/publisher.h"
#include "daemon/server/server.h"
#include "daemon/server/worker.h"
#include "shared/rtmp_client.h"

enum {
    WRITER = 64 * 1024,   /* most that waits to be sent */
    COMMAND_MOST = 65536, /* bytes of a command */
    WAITING_MOST = 65536, /* bytes that are received while the stream's name is waited for */
};

struct pull_rtmp_session {
    struct session base;
    struct pull *pull; /* NULL when one has let go of the other: the end */
    sluice_writer *writer;
    struct rtmp_client *client;
    struct publisher *publisher; /* NULL before the server has agreed */
    uint8_t flags;               /* of the tracks, as in an FLV header */
    uint64_t tags;
    int error; /* of the publisher, for which the client's dialogue ends; or 0 */
};

static struct pull_rtmp_session *of(struct session *session) {
    return (struct pull_rtmp_session *)session;
}

static uint64_t now_of(const struct pull_rtmp_session *session) {
    return worker_now(session->base.worker);
}

/* Whether the stream's name is another's still. */
static bool is_waiting(const struct pull_rtmp_session *session) {
    return session->publisher && publisher_is_waiting(session->publisher);
}

static void let_go(struct pull_rtmp_session *session, int error) {
    session->pull = NULL;
    (void)publisher_end(session->publisher, error, now_of(session));
    session->publisher = NULL;
    session_close(&session->base);
}

static void leave(struct session *base, int error) {
    let_go(of(base), error);
}

/* ---- What the client brings ---- */

static void on_claimed(struct session *base, int error);

static int begin_publisher(struct pull_rtmp_session *session) {
    struct worker *worker = session->base.worker;
    struct stream_source from = {.protocol = "rtmp", .since = worker_now(worker), .session = &session->base};
    const char *name = session->pull->option.name;
    struct stream *stream;
    memcpy(from.peer, session->base.peer, sizeof from.peer);
    int error = registry_get(worker->registry, name, strlen(name), worker_now(worker), &stream);
    if (error == -EUSERS)
        server_count_reject(worker->server, REJECT_STREAMS);
    if (error)
        return error;
    error = publisher_new(stream, &from, on_claimed, &session->publisher);
    if (error)
        stream_unref(stream);
    return error;
}

/* Failures wait until the client has returned. */
static void on_running(void *user) {
    struct pull_rtmp_session *session = user;
    session->error = begin_publisher(session);
    if (!session->error)
        pull_begin_step(session->pull, "media");
}

/* Which tracks there are is only in the metadata, if at all. */
static void note_tracks(struct pull_rtmp_session *session, const sluice_flv_tag *tag) {
    sluice_flv_metadata metadata;
    if (tag->type == SLUICE_FLV_SCRIPT && sluice_flv_read_metadata(&tag->payload, &metadata) == 0)
        session->flags |= (uint8_t)((metadata.has_video ? SLUICE_FLV_HAS_VIDEO : 0) |
                                    (metadata.has_audio ? SLUICE_FLV_HAS_AUDIO : 0));
    else if (tag->type != SLUICE_FLV_SCRIPT)
        session->flags |= tag->type == SLUICE_FLV_VIDEO ? SLUICE_FLV_HAS_VIDEO : SLUICE_FLV_HAS_AUDIO;
}

static int on_tag(sluice_flv_tag *tag, void *user) {
    struct pull_rtmp_session *session = user;
    if (session->error)
        return session->error;
    if (is_waiting(session) || budget_is_spent(&session->base.budget))
        return RTMP_CLIENT_AGAIN;
    int error = publisher_is_attached(session->publisher) ? 0 : publisher_attach(session->publisher);
    if (error > 0)
        return RTMP_CLIENT_AGAIN;
    note_tracks(session, tag);
    if (!error)
        error = publisher_publish(session->publisher, tag, session->flags);
    session->error = error;
    session->tags++;
    if (error)
        return error;
    if (session->pull->machine.state != OUTGOING_ACTIVE)
        pull_begin_playing(session->pull);
    outgoing_media(&session->pull->machine, now_of(session));
    return RTMP_CLIENT_GO_ON;
}

static const struct rtmp_client_events client_events = {.running = on_running, .tag = on_tag};

/* ---- Its connection ---- */

/* The server wants a login: the next connection has it. */
static void connect_again(struct pull_rtmp_session *session) {
    struct pull *pull = session->pull;
    const struct pull_target target = pull->target;
    let_go(session, 0);
    pull_redirect(pull, &target);
}

/* The client has ended. */
static void end(struct pull_rtmp_session *session, int error) {
    if (session->error)
        pull_fail(session->pull, session->error, "%s", publisher_error_text(session->error));
    else if (error == -ERESTART)
        connect_again(session);
    else
        pull_fail(session->pull, error == -ENODATA ? 0 : error, "%s", rtmp_client_reason(session->client));
}

/* Steps up to media each have their time. */
static void note_step(struct pull_rtmp_session *session) {
    const char *step = rtmp_client_step(session->client);
    if (rtmp_client_get_state(session->client) < RTMP_CLIENT_RUNNING && session->pull->step != step)
        pull_begin_step(session->pull, step);
}

/* Also where the stream's name had to be waited for. */
static void take(struct pull_rtmp_session *session) {
    int result = 1;
    budget_begin(&session->base);
    while (result > 0 && !budget_is_spent(&session->base.budget) && !is_waiting(session)) {
        result = rtmp_client_feed(session->client, session_chain(&session->base), now_of(session));
        budget_charge_many(&session->base.budget, 1 + rtmp_client_work(session->client));
    }
    if (result < 0 || session->error) {
        end(session, result);
        return;
    }
    note_step(session);
    if (is_waiting(session)) {
        budget_rest(&session->base);
        session_set_need(&session->base, 0);
    } else if (!budget_end(&session->base, session_chain(&session->base))) {
        session_set_need(&session->base, rtmp_client_need(session->client));
    }
}

static void on_data(sluice_conn *conn, void *user) {
    struct pull_rtmp_session *session = user;
    if (!session->pull)
        ;
    else if (!is_waiting(session))
        take(session);
    else if (sluice_chain_length(session_chain(&session->base)) > WAITING_MOST)
        sluice_conn_pause(conn);
    session_account(&session->base);
}

static void on_claimed(struct session *base, int error) {
    struct pull_rtmp_session *session = of(base);
    sluice_conn_resume(base->conn);
    if (error)
        pull_fail(session->pull, error, "%s", publisher_error_text(error));
    else
        take(session);
}

static void on_end(sluice_conn *conn, int error, void *user) {
    const struct pull_rtmp_session *session = user;
    (void)conn;
    if (error)
        pull_fail_connection(session->pull, &session->base, error);
    else
        pull_fail(session->pull, 0, "the server has ended the connection");
}

static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    const struct pull_rtmp_session *session = user;
    (void)conn;
    return sluice_writer_gather(session->writer, iov, max);
}

static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    const struct pull_rtmp_session *session = user;
    (void)conn;
    sluice_writer_sent(session->writer, bytes);
}

static void free_session(struct pull_rtmp_session *session) {
    sluice_writer_free(session->writer);
    rtmp_client_free(session->client);
    free(session);
}

static void discard(struct session *base) {
    free_session(of(base));
}

static void on_closed(sluice_conn *conn, void *user) {
    struct pull_rtmp_session *session = user;
    (void)conn;
    (void)publisher_end(session->publisher, -ESHUTDOWN, now_of(session));
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

/* ---- The session ---- */

/* Whether a message comes too slowly, though bytes of it come. */
static bool is_slow(struct pull_rtmp_session *session, uint64_t now) {
    const struct session *base = &session->base;
    const sluice_chain *chain = session_chain(base);
    const struct pace_look look = {
        .mark = session->tags,
        .received = sluice_chain_consumed(chain) + sluice_chain_length(chain),
        .is_open = sluice_chain_length(chain) + rtmp_client_footprint(session->client) > 0 && !is_waiting(session) &&
                   !budget_has_more(base) && !base->held_up,
        .most_ms = OUTGOING_SILENCE_MS,
        .earns = true,
    };
    return pace_is_late(&session->base.pace, &look, now);
}

/* The pull has its own deadlines; what has not been read does not count. */
static void tick(struct session *base, uint64_t now) {
    struct pull_rtmp_session *session = of(base);
    if (session->pull && base->held_up) {
        pull_held_up(session->pull, now);
        if (session->publisher)
            publisher_expect(session->publisher, now);
    }
    if (!session->pull || !session->publisher)
        return;
    if (publisher_is_late(session->publisher, now))
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
    return ((const struct pull_rtmp_session *)base)->publisher;
}

static size_t held(const struct session *base) {
    const struct pull_rtmp_session *session = (const struct pull_rtmp_session *)base;
    return publisher_held(session->publisher) + (session->client ? rtmp_client_footprint(session->client) : 0);
}

static void evict(struct session *base) {
    kick(base, -ENOBUFS);
}

static int prepare(struct session *base, const struct handover *handover) {
    (void)handover;
    base->is_uncounted = true;
    return 0;
}

static const struct session_type session_type = {.protocol = "rtmp",
                                                 .pulls = true,
                                                 .events = &events,
                                                 .size = sizeof(struct pull_rtmp_session),
                                                 .prepare = prepare,
                                                 .tick = tick,
                                                 .drain = drain,
                                                 .kick = kick,
                                                 .publishes = publishes,
                                                 .held = held,
                                                 .evict = evict,
                                                 .discard = discard};

static int parse(const char *url, size_t length, struct pull_target *ret_target, sluice_http_text *ret_user) {
    struct rtmp_url parts;
    int error = pull_target_read(&pull_rtmp.scheme, url, length, ret_target, ret_user);
    return error ? error : rtmp_url_read(ret_target->url, strlen(ret_target->url), &parts);
}

/* The longest message: a tag that the stream takes, or a command. */
static uint32_t message_limit(const struct pull *pull) {
    struct stream_policy policy;
    stream_policies_find(&pull->worker->options->streams, pull->option.name, &policy);
    return policy.frame_limit > COMMAND_MOST ? (uint32_t)policy.frame_limit : COMMAND_MOST;
}

/* A first connection has no login, whatever an earlier attempt has found. */
static void begin_login(struct pull *pull) {
    const struct pull_option *option = &pull->option;
    if (pull->machine.redirects == 0)
        pull->login = (struct rtmp_login){.user = option->has_user ? option->user : NULL, .password = option->password};
}

static int begin(struct pull_rtmp_session *session) {
    struct pull *pull = session->pull;
    struct rtmp_url url;
    int error = rtmp_url_read(pull->target.url, strlen(pull->target.url), &url);
    if (!error)
        error = sluice_writer_new(session->base.conn, WRITER, &session->writer);
    if (error)
        return error;
    const struct rtmp_client_options options = {.mode = RTMP_CLIENT_PLAY,
                                                .url = &url,
                                                .login = &pull->login,
                                                .writer = session->writer,
                                                .max_message = message_limit(pull),
                                                .events = &client_events,
                                                .user = session,
                                                .now = now_of(session)};
    begin_login(pull);
    return rtmp_client_new(&options, &session->client);
}

static int start(struct pull *pull, int fd, struct session **ret_session) {
    int error = pull_start_session(pull, &session_type, fd, ret_session);
    if (error)
        return error;
    struct pull_rtmp_session *session = of(*ret_session);
    session->pull = pull;
    outgoing_connected(&pull->machine, now_of(session));
    error = begin(session);
    if (error)
        pull_fail(session->pull, error, "%s", strerror(-error));
    else
        note_step(session);
    return 0;
}

const struct pull_type pull_rtmp = {.scheme = {"rtmp", RTMP_PORT, "rtmps", RTMPS_PORT, NULL},
                                    .form = "rtmp[s]://[USER:PASSWORD@]HOST[:PORT]/APP/NAME",
                                    .parse = parse,
                                    .start = start,
                                    .leave = leave};
