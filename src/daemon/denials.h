/* The log lines of clients without the right to do what they ask for: so many at a time, lest one fills the disk. */
#ifndef SLUICED_DENIALS_H
#define SLUICED_DENIALS_H

#include <stdint.h>

enum { DENIALS_LOGGED = 20, DENIALS_MS = 10000 };

/* All zero at the beginning. */
struct denials {
    uint64_t since; /* loop time at which the first one of this while came */
    uint32_t count; /* since then */
};

/* @status: 401, 403 */
void denials_log(struct denials *denials, uint64_t now, const char *protocol, const char *peer, unsigned status);

/* From time to time: says how many were not logged. */
void denials_tick(struct denials *denials, uint64_t now);

#endif
