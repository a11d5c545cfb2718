/* What holds at every moment. */
#ifndef SLUICE_TESTS_SIM_INVARIANTS_H
#define SLUICE_TESTS_SIM_INVARIANTS_H

#include <sluice/chain.h>
#include <sluice/conn.h>
#include <sluice/loop.h>

#include "sim/kernel.h"

/* Whether this step is one of those at which everything is looked at, not only what is counted. */
bool check_is_thorough(void);

/* Blocks of a loop's pool: each is free, with the kernel, on its way from it, or held; none is two
 * of these. */
void check_blocks(sluice_loop *loop);

/* What a chain has is held, and at least as long as it says. */
void check_chain(const sluice_chain *chain);

/* What each state of a receive implies, of the connection and of those in the loop's queues: "what
 * always holds" in src/libsluice/backends/README.md. */
void check_receive(const sluice_loop *loop, sluice_conn *conn);
void check_receive_queues(const sluice_loop *loop);

/* Nothing holds a block any more. */
void check_nothing_held(sluice_pool *pool);

#endif
