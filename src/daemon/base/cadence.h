/*
 * When the next frame of a track is expected: frames come at the interval of their timestamps, and
 * as late as the last ones did. Of frames that come together, as some encoders send audio, the
 * first one says how late: the others have waited for it.
 */
#ifndef SLUICED_CADENCE_H
#define SLUICED_CADENCE_H

#include <stdbool.h>
#include <stdint.h>

/* All zero at first. */
struct cadence {
    bool has_begun;
    uint32_t interval;   /* milliseconds between timestamps; 0: not known */
    uint32_t timestamp;  /* of the last frame, milliseconds */
    uint32_t first;      /* timestamp of the first frame of those that came with it */
    uint64_t first_came; /* loop time, milliseconds */
};

/* A frame has come. @timestamp: milliseconds, in decoding order. @now: loop time */
void cadence_note(struct cadence *cadence, uint32_t timestamp, uint64_t now);

/*
 * Loop time at which the next frame is expected, which may have passed; UINT64_MAX: none is, since
 * none has come for more than an interval after it was expected. 0 while the interval is not known.
 */
uint64_t cadence_next(const struct cadence *cadence, uint64_t now);

#endif
