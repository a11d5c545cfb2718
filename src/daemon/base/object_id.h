/*
 * Ids by which operators and programs refer to connections, streams, publishers, players and pulls.
 * Each id is used once during the life of the process, for objects of all kinds and by all threads,
 * so it never refers to another object later.
 */
#ifndef SLUICED_OBJECT_ID_H
#define SLUICED_OBJECT_ID_H

#include <stdint.h>

/* From 1 on. */
uint64_t object_id_new(void);

#endif
