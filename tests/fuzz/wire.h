/*
 * A network in memory, for fuzzing what runs on a loop: a backend without a kernel under it, and
 * peers whose bytes are an input's. It takes the place of the epoll backend; the clock
 * (clock_gettime, time), getrandom(), close() and shutdown() are its own as well, so a run follows
 * from its input alone.
 *
 * What comes is cut as the run cuts (fuzz_piece()), and so is what is taken of a send. The bytes of
 * a send are read when it completes, a turn later, as io_uring may: memory that has gone by then is
 * found.
 */
#ifndef SLUICE_TESTS_FUZZ_WIRE_H
#define SLUICE_TESTS_FUZZ_WIRE_H

#include <sluice/loop.h>

#include "fuzz/fuzz.h"

typedef struct wire_peer wire_peer;

/* Begins and ends a run; at the end everything that was open must have been closed. */
void wire_begin(fuzz_run *run);
void wire_end(void);

/* A peer that has connected; its other end is the descriptor. It lasts until wire_end(). NULL:
 * there are too many. */
wire_peer *wire_connect(void);
int wire_descriptor(const wire_peer *peer);

/* The peer sends; it finishes, or breaks the connection with an error. */
void wire_give(wire_peer *peer, const uint8_t *bytes, size_t n);
void wire_finish(wire_peer *peer, int error);

/* How much more the peer takes; without limit at first. */
void wire_take(wire_peer *peer, size_t n);

/* What has been sent to the peer since the last call; valid until the next turn. */
const uint8_t *wire_taken(wire_peer *peer, size_t *ret_size);

bool wire_is_closed(const wire_peer *peer);   /* the descriptor */
bool wire_is_finished(const wire_peer *peer); /* nothing more is sent */

/* Time goes on. */
void wire_wait(uint64_t ms);

/* Turns the loops until nothing happens by itself any more. Which must come to be. */
void wire_settle(sluice_loop *const *loops, size_t count);

#endif
