#include "daemon/relay/timeline.h"

void timeline_begin(struct timeline *timeline, bool goes_on) {
    timeline->jumps = 0;
    if (!goes_on)
        *timeline = (struct timeline){0};
    timeline->rebase = timeline->has_begun;
}

static int32_t distance(uint32_t from, uint32_t to) {
    return (int32_t)(to - from);
}

static uint32_t later(uint32_t one, uint32_t other) {
    return distance(one, other) > 0 ? other : one;
}

/* Whether a time is no jump away from one that was told at @at. */
static bool is_near(uint32_t time, uint32_t last, uint64_t at, uint64_t now, uint32_t threshold) {
    int64_t by = distance(last, time);
    return by >= -(int64_t)threshold && by <= (int64_t)threshold + (int64_t)(now - at);
}

static bool fits(const struct timeline *timeline, const struct timeline_frame *frame, uint32_t time,
                 uint32_t threshold) {
    const struct timeline_track *track = &timeline->tracks[frame->track];
    return is_near(time, timeline->last, timeline->at, frame->now, threshold) ||
           (track->has_begun && is_near(time, track->last, track->at, frame->now, threshold));
}

/* The offset by which a frame comes next: behind all that has been told, and shown behind all that
 * has been shown. */
static uint32_t next_offset(const struct timeline *timeline, const struct timeline_frame *frame) {
    uint32_t decoded = timeline->last + TIMELINE_STEP;
    uint32_t shown = timeline->shown + TIMELINE_STEP - (uint32_t)frame->composition;
    bool reorders = frame->composition >= -TIMELINE_REORDER && frame->composition <= TIMELINE_REORDER;
    return (reorders ? later(decoded, shown) : decoded) - frame->timestamp;
}

static void note(struct timeline *timeline, const struct timeline_frame *frame, uint32_t time) {
    struct timeline_track *track = &timeline->tracks[frame->track];
    /* More is no reordering, but another jump. */
    bool is_shown_soon = frame->composition > 0 && frame->composition <= TIMELINE_REORDER;
    uint32_t shown = time + (is_shown_soon ? (uint32_t)frame->composition : 0);
    track->last = time;
    track->at = timeline->at = frame->now;
    /* Audio and video are not quite in order. */
    timeline->last = timeline->has_begun ? later(timeline->last, time) : time;
    timeline->shown = timeline->has_begun ? later(timeline->shown, shown) : shown;
    track->has_begun = timeline->has_begun = true;
}

bool timeline_frame(struct timeline *timeline, const struct timeline_frame *frame, uint32_t threshold,
                    uint32_t *ret_time, int32_t *ret_jump) {
    struct timeline_track *track = &timeline->tracks[frame->track];
    const struct timeline_track *other = &timeline->tracks[TIMELINE_AUDIO - frame->track];
    bool jumped = false;
    if (timeline->rebase) {
        timeline->rebase = false;
        for (unsigned i = 0; i < TIMELINE_TRACKS; i++) {
            timeline->tracks[i].offset = next_offset(timeline, frame);
            timeline->tracks[i].is_behind = timeline->tracks[i].has_begun;
        }
    }
    uint32_t time = frame->timestamp + track->offset;
    if (threshold > 0 && timeline->has_begun && !fits(timeline, frame, time, threshold)) {
        bool follows = other->offset != track->offset &&
                       fits(timeline, frame, frame->timestamp + other->offset, threshold);
        jumped = !follows;
        if (jumped) {
            timeline->jumps++;
            *ret_jump = distance(timeline->last, time);
        }
        track->offset = follows ? other->offset : next_offset(timeline, frame);
        track->is_behind = track->has_begun;
        time = frame->timestamp + track->offset;
    }
    if (track->is_behind && distance(track->last, time) <= 0)
        time = track->last + 1;
    else
        track->is_behind = false;
    note(timeline, frame, time);
    *ret_time = time;
    return jumped;
}

uint32_t timeline_other(const struct timeline *timeline, unsigned track, uint32_t timestamp, uint32_t threshold) {
    uint32_t time = timestamp + timeline->tracks[track].offset;
    if (timeline->rebase)
        return timeline->last;
    int64_t by = distance(timeline->last, time);
    bool is_far = by > (int64_t)threshold || by < -(int64_t)threshold;
    return timeline->has_begun && threshold > 0 && is_far ? timeline->last : time;
}
