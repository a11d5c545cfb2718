#include "tools/play.h"

/* By the target's kind; NULL: it cannot be played. */
static const struct play_type *const types[] = {
    [TARGET_HTTP] = &play_http, [TARGET_RTSP] = &play_rtsp, [TARGET_RTMP] = &play_rtmp};

int play_new(sluice_conn *conn, const struct target *target, uint32_t timeout_ms, const struct play_events *events,
             void *user, struct play **ret_play) {
    struct play *play;
    int error = types[target->kind]->create(conn, target, timeout_ms, &play);
    if (error)
        return error;
    /* Nothing is called before the loop's next turn. */
    play->events = events;
    play->user = user;
    *ret_play = play;
    return 0;
}

void play_stop(struct play *play) {
    play->type->stop(play);
}

void play_stall(struct play *play) {
    play->type->stall(play);
}

void play_tick(struct play *play, uint64_t now) {
    if (play->type->tick)
        play->type->tick(play, now);
}

void play_get_counts(const struct play *play, struct play_counts *ret_counts) {
    *ret_counts = (struct play_counts){0};
    play->type->get_counts(play, ret_counts);
}

void play_ended(struct play *play, int error, const char *reason) {
    if (play->ended)
        return;
    play->ended = true;
    play->events->ended(error, reason, play->user);
}
