/* Where the sender connects to. */
#ifndef BENCH_RECEIVE_LISTENER_H
#define BENCH_RECEIVE_LISTENER_H

#include <stdint.h>

/* A listening socket, non-blocking, on a port of 127.0.0.1 that the system has chosen, and
 * announced. */
int listener_open(void);

/* Tells who has started the program, and has the meter take note of the memory in use. */
void listener_announce(uint16_t port);

#endif
