/*
 * The timestamps that players get: the publisher's own and an offset for each track, so that time
 * continues across publishers and across jumps of a publisher's timestamps. No packets, no sockets
 * and no clock: the caller passes the time. All times are milliseconds modulo 2^32, so a wrap is
 * not a jump.
 *
 * A jump is a frame with a distance above the threshold from the last times of its track and of the
 * stream; for a jump forward, the elapsed time is subtracted: a pause is not a jump. The track then
 * continues at the stream's time. The other track jumps a little later or earlier, and gets the
 * same offset if that brings it near, so tracks that jump together stay together. Presentation
 * times are not changed: they are relative to decoding times.
 */
#ifndef SLUICED_TIMELINE_H
#define SLUICED_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TIMELINE_VIDEO,
    TIMELINE_AUDIO,
    TIMELINE_TRACKS,

    TIMELINE_REORDER = 2000, /* the longest that a picture is decoded before it is shown */
    /* from the last frame before a jump, or of another publisher, to the next frame */
    TIMELINE_STEP = 40,
};

struct timeline_track {
    uint32_t offset;
    uint32_t last;  /* told of its last frame */
    uint64_t at;    /* loop time of that */
    bool has_begun; /* since the stream's beginning */
    bool is_behind; /* it has been set back behind what it had been told, and is held there */
};

struct timeline {
    struct timeline_track tracks[TIMELINE_TRACKS];
    bool has_begun;
    bool rebase;    /* the next frame sets the offsets */
    uint32_t last;  /* the latest that has been told of a frame */
    uint32_t shown; /* the latest presentation */
    uint64_t at;    /* loop time of the last frame */
    uint64_t jumps; /* of this publisher's timestamps */
};

struct timeline_frame {
    unsigned track;
    uint32_t timestamp;
    int32_t composition; /* presentation less decoding */
    uint64_t now;        /* loop time */
};

/* A publisher begins; all zero at first. @goes_on: there are players that have been told times. */
void timeline_begin(struct timeline *timeline, bool goes_on);

/*
 * The time of a frame. @threshold: of jumps; 0: they are left as they are @ret_jump: by how much it
 * has jumped, where it has; untouched otherwise. True: it has, and that has been counted
 */
bool timeline_frame(struct timeline *timeline, const struct timeline_frame *frame, uint32_t threshold,
                    uint32_t *ret_time, int32_t *ret_jump);

/* The time of what is no frame: a header, metadata. */
uint32_t timeline_other(const struct timeline *timeline, unsigned track, uint32_t timestamp, uint32_t threshold);

#endif
