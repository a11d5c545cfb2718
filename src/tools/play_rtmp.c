/* A player by RTMP: its messages as the tags that they are. */
#include <errno.h>
#include <stdlib.h>

#include "tools/play.h"
#include "tools/rtmp_session.h"

enum { QUEUE = 16 * 1024 }; /* a player sends commands alone */

struct rtmp_play {
    struct play base;
    struct rtmp_session *session;
};

static struct rtmp_play *of(struct play *base) {
    return (struct rtmp_play *)base;
}

static void on_running(void *user) {
    struct rtmp_play *play = user;
    play->base.events->begun(play->base.user);
}

static void on_tag(sluice_flv_tag *tag, void *user) {
    struct rtmp_play *play = user;
    if (!play->base.ended)
        play->base.events->tag(tag, play->base.user);
}

static void on_ended(int error, const char *reason, void *user) {
    struct rtmp_play *play = user;
    play_ended(&play->base, error, reason);
}

static void on_closed(void *user) {
    free(user);
}

static const struct rtmp_session_events events = {
    .running = on_running, .tag = on_tag, .ended = on_ended, .closed = on_closed};

static int create(sluice_conn *conn, const struct target *target, uint32_t timeout_ms, struct play **ret_play) {
    struct rtmp_play *play = calloc(1, sizeof *play);
    if (!play)
        return -ENOMEM;
    play->base.type = &play_rtmp;
    int error = rtmp_session_new(conn, target, RTMP_CLIENT_PLAY, timeout_ms, QUEUE, &events, play, &play->session);
    if (error) {
        free(play);
        return error;
    }
    *ret_play = &play->base;
    return 0;
}

static void stop(struct play *base) {
    rtmp_session_end(of(base)->session, 0, "stopped");
}

static void stall(struct play *base) {
    rtmp_session_stall(of(base)->session);
}

static void tick(struct play *base, uint64_t now) {
    rtmp_session_tick(of(base)->session, now);
}

static void get_counts(const struct play *base, struct play_counts *ret_counts) {
    ret_counts->bytes = rtmp_session_received(((const struct rtmp_play *)base)->session);
}

const struct play_type play_rtmp = {
    .create = create,
    .stop = stop,
    .stall = stall,
    .tick = tick,
    .get_counts = get_counts,
};
