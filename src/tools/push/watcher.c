/*
 * A player of sluice-push: connects, checks the received tags, reconnects; or connects and reads
 * nothing.
 */
#include <errno.h>
#include <string.h>

#include "tools/push/push.h"

static uint64_t now_of(const struct watcher *watcher) {
    return sluice_loop_now(watcher->push->loop);
}

static bool is_over(const struct watcher *watcher) {
    return watcher->state == WATCHER_DONE || watcher->state == WATCHER_FAILED;
}

uint64_t watcher_bytes(const struct watcher *watcher) {
    struct play_counts counts = {0};
    if (watcher->play)
        play_get_counts(watcher->play, &counts);
    return watcher->bytes + counts.bytes;
}

static void try_again(struct watcher *watcher, const char *reason) {
    watcher->failures++;
    if (!watcher->stalled)
        push_note_failure(watcher->push, "player %u: %s", watcher->number, reason);
    /* A server should disconnect a player that reads nothing. */
    if ((watcher->stalled && watcher->has_begun) || watcher->push->ending ||
        watcher->in_a_row++ >= watcher->push->options->retries) {
        watcher->state = WATCHER_FAILED;
        return;
    }
    watcher->state = WATCHER_WAITING;
    sluice_timer_start(watcher->timer, PUSH_RETRY_MS);
}

static void on_begun(void *user) {
    struct watcher *watcher = user;
    watcher->has_begun = true;
    watcher->reconnects += watcher->started;
    watcher->state = WATCHER_PLAYING;
    if (watcher->stalled)
        play_stall(watcher->play);
}

static void note_order(struct watcher *watcher, const sluice_flv_tag *tag) {
    int64_t *last = &watcher->last[tag->type == SLUICE_FLV_VIDEO ? MEDIA_VIDEO : MEDIA_AUDIO];
    watcher->back += tag->timestamp < *last;
    *last = tag->timestamp;
}

/* The first frame that something can be shown of. */
static void note_start(struct watcher *watcher, const sluice_flv_tag *tag) {
    const struct media *media = watcher->push->media;
    bool video = tag->type == SLUICE_FLV_VIDEO;
    if (watcher->started || (media && media->has[MEDIA_VIDEO] && !video) || (video && !tag->view.key_frame))
        return;
    watcher->started = true;
    watcher->in_a_row = 0;
    push_note_time(&watcher->push->startup, now_of(watcher) - watcher->asked_at);
}

static void note_latency(struct watcher *watcher, uint64_t number) {
    const struct sender *sender = watcher->sender;
    /* What was cached is old, and rightly so. */
    if (number < watcher->sent_before)
        return;
    uint64_t due = sender->zero +
                   (uint64_t)((double)media_due(watcher->push->media, number) / watcher->push->options->rate);
    uint64_t now = now_of(watcher);
    push_note_time(&watcher->push->latency, now > due ? now - due : 0);
}

static void on_tag(sluice_flv_tag *tag, void *user) {
    struct watcher *watcher = user;
    uint64_t number;
    if (tag->type == SLUICE_FLV_SCRIPT || tag->view.packet != SLUICE_FLV_FRAME)
        return;
    watcher->frames++;
    note_order(watcher, tag);
    note_start(watcher, tag);
    if (watcher->sender && follow_take(&watcher->follow, tag, watcher->sender->next, &number))
        note_latency(watcher, number);
}

static void on_ended(int error, const char *reason, void *user) {
    struct watcher *watcher = user;
    struct play_counts counts;
    play_get_counts(watcher->play, &counts);
    watcher->bytes += counts.bytes;
    watcher->rtp_lost += counts.lost;
    watcher->play = NULL;
    if (is_over(watcher))
        return;
    if (watcher->push->ending && !error && watcher->state == WATCHER_PLAYING)
        watcher->state = WATCHER_DONE;
    else
        try_again(watcher, reason);
}

static const struct play_events events = {.begun = on_begun, .tag = on_tag, .ended = on_ended};

static void on_connected(struct connector_job *job, sluice_conn *conn, int error) {
    struct watcher *watcher = job->user;
    if (!error)
        error = play_new(conn, &watcher->target, watcher->push->options->timeout_ms, &events, watcher, &watcher->play);
    if (!error)
        return;
    sluice_conn_close(conn);
    try_again(watcher, strerror(-error));
}

static void on_time(sluice_timer *timer, void *user) {
    struct watcher *watcher = user;
    (void)timer;
    if (watcher->state != WATCHER_WAITING)
        return;
    watcher->state = WATCHER_CONNECTING;
    watcher->asked_at = now_of(watcher);
    watcher->sent_before = watcher->sender ? watcher->sender->next : 0;
    watcher->last[MEDIA_VIDEO] = watcher->last[MEDIA_AUDIO] = 0;
    follow_restart(&watcher->follow);
    int error = connector_start(&watcher->job, watcher->push->loop);
    if (error)
        on_connected(&watcher->job, NULL, error);
}

int watcher_init(struct watcher *watcher, struct push *push, uint32_t number, bool stalled) {
    const struct push_options *options = push->options;
    uint32_t stream = (number - 1) % options->streams;
    *watcher = (struct watcher){.push = push, .number = number, .stalled = stalled, .target = options->play};
    watcher->sender = options->publishers > 0 ? &push->senders[stream] : NULL;
    watcher->job = (struct connector_job){.addresses = push->play_addresses, .done = on_connected, .user = watcher};
    follow_init(&watcher->follow, push->media);
    int error = target_number(&watcher->target, stream + 1, options->streams > 1);
    return error ? error : sluice_timer_new(push->loop, on_time, watcher, &watcher->timer);
}

void watcher_free(struct watcher *watcher) {
    sluice_timer_free(watcher->timer);
    watcher->timer = NULL;
}

void watcher_start(struct watcher *watcher, uint64_t delay) {
    if (watcher->state == WATCHER_WAITING)
        sluice_timer_start(watcher->timer, delay);
}

void watcher_stop(struct watcher *watcher) {
    sluice_timer_stop(watcher->timer);
    if (is_over(watcher))
        return;
    connector_cancel(&watcher->job);
    bool playing = watcher->state == WATCHER_PLAYING;
    watcher->state = playing ? WATCHER_DONE : WATCHER_FAILED;
    if (!playing && watcher->failures++ == 0 && !watcher->stalled)
        push_note_failure(watcher->push, "player %u: has not begun", watcher->number);
    if (watcher->play)
        play_stop(watcher->play);
}

void watcher_tick(struct watcher *watcher, uint64_t now) {
    if (watcher->play)
        play_tick(watcher->play, now);
}

void watcher_restarted(struct watcher *watcher) {
    follow_restart(&watcher->follow);
}

/* The last frame of a track before a place in the stream; false where there is none. */
static bool find_last(const struct media *media, sluice_flv_type type, uint64_t end, uint64_t *number) {
    for (size_t i = 0; i < media->count && end > 0; i++) {
        const struct media_tag *tag = media_at(media, --end);
        if (tag->frame && tag->type == type) {
            *number = end;
            return true;
        }
    }
    return false;
}

bool watcher_is_through(const struct watcher *watcher) {
    static const sluice_flv_type types[MEDIA_TRACKS] = {SLUICE_FLV_VIDEO, SLUICE_FLV_AUDIO};
    const struct media *media = watcher->push->media;
    if (is_over(watcher) || watcher->stalled || !watcher->sender)
        return true;
    for (int i = 0; i < MEDIA_TRACKS; i++) {
        uint64_t last;
        if (media->has[i] && find_last(media, types[i], watcher->sender->next, &last) &&
            (!watcher->follow.synced || watcher->follow.next[i] <= last))
            return false;
    }
    return true;
}
