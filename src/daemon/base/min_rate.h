/*
 * How long a peer may take for what is sent to it.
 *
 * A deadline for all of a response cuts a long one on a slow line; one that begins anew with each
 * byte lets a peer hold a connection, and what is being sent, for as long as it likes by taking a
 * byte now and then. So what is taken earns time at a least rate, as other servers have it, but
 * never more than a peer had in the beginning: whoever has taken much at once may not stand still
 * for hours then.
 */
#ifndef SLUICED_MIN_RATE_H
#define SLUICED_MIN_RATE_H

#include <stddef.h>
#include <stdint.h>

/* bytes a second; a connection of the slowest kind in use has several times that */
enum { MIN_RATE = 1024 };

/* The deadline after so many bytes have been taken at @now. @most_ms: from now on at most */
uint64_t min_rate_extend(uint64_t deadline, uint64_t now, size_t bytes, uint64_t most_ms);

#endif
