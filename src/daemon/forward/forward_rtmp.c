#include "daemon/forward/forward_rtmp.h"

#include <errno.h>
#include <string.h>

#include <sluice/flv.h>

#include "daemon/forward/forward.h"
#include "daemon/forward/forward_session.h"
#include "daemon/server/worker.h"
#include "shared/rtmp_client.h"
#include "shared/rtmp_peer.h"

enum { WRITER = 256 * 1024 }; /* most that waits to be sent, besides packets */

struct forward_rtmp_session {
    struct forward_session base;
    struct rtmp_client *client;
    uint32_t chunk_size; /* that has been announced */
    uint32_t metadata;   /* version of what was sent last; 0: none */
};

static struct forward_rtmp_session *of(struct forward_session *base) {
    return (struct forward_rtmp_session *)base;
}

static void fail(struct forward_rtmp_session *session, int error) {
    if (error == -ERESTART && session->base.forward)
        forward_session_repeat(&session->base);
    else
        forward_session_fail(&session->base, error, "%s", rtmp_client_reason(session->client));
    forward_session_close(&session->base);
}

/* What servers keep for later players. It goes with their "@setDataFrame", for which the
 * packet has no room. */
static void send_metadata(struct forward_rtmp_session *session) {
    const struct packet *metadata = stream_headers_at(&session->base.player->stream->headers, HEADERS_METADATA);
    if (!metadata || packet_version(metadata) == session->metadata)
        return;
    if (rtmp_client_send(session->client, SLUICE_FLV_SCRIPT, 0, &metadata->payload) != -EAGAIN)
        session->metadata = packet_version(metadata);
}

/*
 * A packet is one chunk. Servers may allocate buffers of the chunk size, so it is raised only for a
 * stream that has larger frames.
 */
static void raise_chunk_size(struct forward_rtmp_session *session) {
    uint32_t largest = player_largest(session->base.player, session->chunk_size), size = session->chunk_size;
    while (size < largest)
        size *= 2;
    const sluice_rtmp_control control = {.type = SLUICE_RTMP_SET_CHUNK_SIZE, .value = size};
    if (size > session->chunk_size && rtmp_send_control(session->base.writer, &control) == 0)
        session->chunk_size = size;
}

static void gathering(struct forward_session *base) {
    struct forward_rtmp_session *session = of(base);
    send_metadata(session);
    raise_chunk_size(session);
}

/* Servers mix tracks up unless they announce that they know them. */
static bool is_limited(const struct forward_rtmp_session *session) {
    enum forward_tracks tracks = session->base.forward->option.tracks;
    return tracks == FORWARD_TRACKS_DEFAULT ||
           (tracks == FORWARD_TRACKS_KNOWN && !(rtmp_client_capabilities(session->client) & RTMP_CAN_MULTITRACK));
}

/* That the target gets less than there is, or what it may not know, once for the forward. */
static void check_capabilities(struct forward_rtmp_session *session) {
    struct forward_session *base = &session->base;
    const unsigned capabilities = rtmp_client_capabilities(session->client);
    if (base->player->alone && base->forward->option.tracks == FORWARD_TRACKS_KNOWN)
        forward_check_tracks(base->forward, "the target has not announced multitrack");
    if (!(capabilities & RTMP_IS_ENHANCED))
        forward_check_codecs(base->forward, "the target has not announced enhanced RTMP");
}

/* Tracks may come later. */
static void tick(struct forward_session *base, uint64_t now) {
    (void)now;
    if (base->joined)
        check_capabilities(of(base));
}

/* The server takes the stream. */
static void running(void *user) {
    struct forward_rtmp_session *session = user;
    uint32_t stream = rtmp_client_stream(session->client);
    int error = session->base.forward ? forward_session_make_player(&session->base, &wire_rtmp_media, NULL)
                                      : -ESHUTDOWN;
    if (error) {
        forward_session_fail(&session->base, error, "%s", strerror(-error));
        return;
    }
    struct player *player = session->base.player;
    player->alone = is_limited(session);
    player->form.chunk_size = UINT32_MAX;
    for (size_t i = 0; i < sizeof player->form.message_stream; i++)
        player->form.message_stream[i] = (uint8_t)(stream >> 8 * i);
    check_capabilities(session);
    forward_session_play(&session->base);
}

static void received(struct forward_session *base, sluice_chain *chain) {
    struct forward_rtmp_session *session = of(base);
    const char *before = rtmp_client_step(session->client);
    int result = 1;
    budget_begin(&base->base);
    while (result > 0 && !base->base.closing && !budget_is_spent(&base->base.budget)) {
        result = rtmp_client_feed(session->client, chain, worker_now(base->base.worker));
        budget_charge_many(&base->base.budget, 1 + rtmp_client_work(session->client));
    }
    if (base->base.closing)
        return;
    if (result < 0) {
        fail(session, result);
        return;
    }
    const char *step = rtmp_client_step(session->client);
    if (base->forward && base->forward->machine.state == OUTGOING_NEGOTIATING && strcmp(step, before) != 0)
        forward_begin_step(base->forward, step);
    if (!budget_end(&base->base, chain))
        session_set_need(&base->base, rtmp_client_need(session->client));
}

static void done(struct forward_session *base, bool is_whole) {
    struct forward_rtmp_session *session = of(base);
    if (is_whole && session->client && rtmp_client_finish(session->client) == 0)
        forward_session_end(base);
    else
        forward_session_close(base);
}

static size_t held(const struct forward_session *base) {
    const struct rtmp_client *client = ((const struct forward_rtmp_session *)base)->client;
    return client ? rtmp_client_footprint(client) : 0;
}

static void clear(struct forward_session *base) {
    rtmp_client_free(of(base)->client);
}

static const struct forward_session_type session_type = {
    .base = FORWARD_SESSION_TYPE("rtmp", struct forward_rtmp_session),
    .done = done,
    .gathering = gathering,
    .received = received,
    .tick = tick,
    .held = held,
    .clear = clear,
};

static bool is_valid(const char *text) {
    struct rtmp_url url;
    return rtmp_url_read(text, strlen(text), &url) == 0;
}

static int start(struct forward *forward, int fd) {
    static const struct rtmp_client_events events = {.running = running};
    struct rtmp_url url;
    struct forward_session *base;
    int error = rtmp_url_read(forward->target.url, strlen(forward->target.url), &url);
    if (!error)
        error = forward_session_start(&session_type, forward, fd, WRITER, &base);
    if (error || !base->forward)
        return error;
    struct forward_rtmp_session *session = of(base);
    const struct rtmp_client_options options = {
        .mode = RTMP_CLIENT_PUBLISH,
        .url = &url,
        .login = &forward->login,
        .writer = base->writer,
        .events = &events,
        .user = session,
        .now = worker_now(forward->worker),
    };
    session->chunk_size = RTMP_CLIENT_CHUNK;
    error = rtmp_client_new(&options, &session->client);
    explicit_bzero(&url, sizeof url);
    if (error)
        forward_session_fail(base, error, "%s", strerror(-error));
    else
        forward_begin_step(forward, rtmp_client_step(session->client));
    return 0;
}

const struct forward_type forward_rtmp = {.scheme = {"rtmp", RTMP_PORT, "rtmps", RTMPS_PORT, NULL},
                                          .form = "rtmp[s]://[USER:PASSWORD@]HOST[:PORT]/APP/KEY",
                                          .is_valid = is_valid,
                                          .start = start};
