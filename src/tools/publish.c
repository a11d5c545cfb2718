#include "tools/publish.h"

/* By the target's kind. */
static const struct publish_type *const types[] = {[TARGET_FLV] = &publish_flv,
                                                   [TARGET_HTTP] = &publish_flv,
                                                   [TARGET_RTSP] = &publish_rtsp,
                                                   [TARGET_RTMP] = &publish_rtmp};

int publish_new(sluice_conn *conn, const struct target *target, const struct media *media,
                const struct publish_events *events, void *user, struct publish **ret_publish, bool *ret_ready) {
    struct publish *publish;
    bool ready = false;
    int error = types[target->kind]->create(conn, target, media, &publish, &ready);
    if (error)
        return error;
    /* Nothing is called before the loop's next turn. */
    publish->events = events;
    publish->user = user;
    *ret_publish = publish;
    *ret_ready = ready;
    return 0;
}

int publish_tag(struct publish *publish, const struct media_tag *tag, uint32_t timestamp) {
    return publish->type->tag(publish, tag, timestamp);
}

void publish_finish(struct publish *publish) {
    publish->type->finish(publish);
}

void publish_abort(struct publish *publish) {
    publish->type->abort(publish);
}

void publish_tick(struct publish *publish, uint64_t now) {
    if (publish->type->tick)
        publish->type->tick(publish, now);
}

uint64_t publish_bytes(const struct publish *publish) {
    return publish->type->bytes(publish);
}

void publish_ended(struct publish *publish, int error, const char *reason) {
    if (publish->ended)
        return;
    publish->ended = true;
    publish->events->ended(error, reason, publish->user);
}
