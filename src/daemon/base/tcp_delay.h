/* Nagle's algorithm (RFC 896) on a TCP socket: whether a segment that is not full waits for the
 * acknowledgement of what has been sent. */
#ifndef SLUICED_TCP_DELAY_H
#define SLUICED_TCP_DELAY_H

#include <stdbool.h>

/* Any thread. What is not TCP is left alone. With @on false, what waits is sent at once. */
void tcp_delay_set(int fd, bool on);

#endif
