/*
 * Numbers by which operators and programs name things: connections, streams, publishers, players,
 * pulls. Each is given once in the life of the process, whatever it is given to, by any thread; so
 * an id that somebody has read never comes to mean something else.
 */
#ifndef SLUICED_OBJECT_ID_H
#define SLUICED_OBJECT_ID_H

#include <stdint.h>

/* From 1 on. */
uint64_t object_id_new(void);

#endif
