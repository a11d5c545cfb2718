/* A publisher by RTMP: the tags of a file as messages, a header and the payload's slices for
 * each. */
#include <errno.h>
#include <stdlib.h>

#include "tools/publish.h"
#include "tools/rtmp_session.h"

struct rtmp_publish {
    struct publish base;
    struct rtmp_session *session;
};

static struct rtmp_publish *of(struct publish *base) {
    return (struct rtmp_publish *)base;
}

static void on_running(void *user) {
    struct rtmp_publish *publish = user;
    publish->base.events->ready(publish->base.user);
}

static void on_tag(sluice_flv_tag *tag, void *user) {
    /* A publisher gets none. */
    (void)tag, (void)user;
}

static void on_sent(void *user) {
    struct rtmp_publish *publish = user;
    publish->base.events->room(publish->base.user);
}

static void on_ended(int error, const char *reason, void *user) {
    struct rtmp_publish *publish = user;
    publish_ended(&publish->base, error, reason);
}

static void on_closed(void *user) {
    free(user);
}

static const struct rtmp_session_events events = {
    .running = on_running, .tag = on_tag, .sent = on_sent, .ended = on_ended, .closed = on_closed};

static int create(sluice_conn *conn, const struct target *target, const struct media *media,
                  struct publish **ret_publish, bool *ret_ready) {
    struct rtmp_publish *publish = calloc(1, sizeof *publish);
    (void)media;
    if (!publish)
        return -ENOMEM;
    publish->base.type = &publish_rtmp;
    int error = rtmp_session_new(conn, target, RTMP_CLIENT_PUBLISH, PUBLISH_ANSWER_MS,
                                 PUBLISH_QUEUE + SLUICE_FLV_MAX_PAYLOAD, &events, publish, &publish->session);
    if (error) {
        free(publish);
        return error;
    }
    *ret_publish = &publish->base;
    *ret_ready = false;
    return 0;
}

static int send_tag(struct publish *base, const struct media_tag *tag, uint32_t timestamp) {
    struct rtmp_publish *publish = of(base);
    size_t queued = rtmp_session_queued(publish->session);
    if (base->ended)
        return -EPIPE;
    if (queued > 0 && queued + sluice_slice_length(&tag->payload) > PUBLISH_QUEUE)
        return -EAGAIN;
    return rtmp_session_send(publish->session, tag->type, timestamp, &tag->payload);
}

static void finish(struct publish *base) {
    rtmp_session_finish(of(base)->session);
}

static void stop(struct publish *base) {
    rtmp_session_end(of(base)->session, -ECANCELED, "stopped");
}

static void tick(struct publish *base, uint64_t now) {
    rtmp_session_tick(of(base)->session, now);
}

static uint64_t bytes(const struct publish *base) {
    return rtmp_session_sent(((const struct rtmp_publish *)base)->session);
}

const struct publish_type publish_rtmp = {
    .create = create,
    .tag = send_tag,
    .finish = finish,
    .abort = stop,
    .tick = tick,
    .bytes = bytes,
};
