/*
 * The time that a peer has to receive a response.
 *
 * A deadline for the whole response would cut off long responses on slow lines; one that restarts
 * with each byte would allow a peer to hold a connection, and the data being sent, for any time by
 * receiving a byte now and then. Therefore received bytes add time at a minimum rate, as in other
 * servers, up to the initial time: a peer that has received much at once cannot stand still for
 * hours afterwards.
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
