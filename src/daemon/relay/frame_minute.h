/*
 * The sizes of a stream's frames in each second of the last minute: of its main video track, or of
 * its main audio track while no video has come. Of fixed size, and part of the stream.
 */
#ifndef SLUICED_FRAME_MINUTE_H
#define SLUICED_FRAME_MINUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FRAME_MINUTE_SECONDS = 60 };

/* Each stream has a minute of them: what is more than there is room for counts as the most. */
struct frame_second {
    uint32_t bytes;                /* of all frames */
    uint32_t largest, largest_key; /* bytes */
    uint16_t frames, key_frames;
};

/* All zero at first. */
struct frame_minute {
    uint64_t second; /* of the last frame, in loop time */
    struct frame_second list[FRAME_MINUTE_SECONDS];
};

/* Forgets the seconds between the last frame and that second. */
void frame_minute_advance(struct frame_minute *minute, uint64_t second);

static inline void frame_minute_add(struct frame_minute *minute, uint64_t now_ms, uint32_t size, bool is_key) {
    uint64_t second = now_ms / 1000;
    if (second != minute->second)
        frame_minute_advance(minute, second);
    struct frame_second *to = &minute->list[minute->second % FRAME_MINUTE_SECONDS];
    to->bytes = size <= UINT32_MAX - to->bytes ? to->bytes + size : UINT32_MAX;
    if (to->frames < UINT16_MAX)
        to->frames++;
    if (size > to->largest)
        to->largest = size;
    if (!is_key)
        return;
    if (to->key_frames < UINT16_MAX)
        to->key_frames++;
    if (size > to->largest_key)
        to->largest_key = size;
}

/* The seconds, the oldest first; the last one is not over. */
void frame_minute_get(const struct frame_minute *minute, uint64_t now_ms,
                      struct frame_second ret_seconds[FRAME_MINUTE_SECONDS]);

#endif
