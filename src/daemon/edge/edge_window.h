/*
 * The batching window of a worker that fetches streams from other nodes. DESIGN.md says why it is
 * not that of other workers.
 */
#ifndef SLUICED_EDGE_WINDOW_H
#define SLUICED_EDGE_WINDOW_H

#include <stdint.h>

/* Streams of a worker that have a publisher, and how many of them are fetched from other nodes. */
struct edge_window_counts {
    uint32_t live;
    uint32_t fetched;
};

/*
 * Microseconds: @usual, or @edge where that is longer and half of the live streams or more are
 * fetched. 0 where @usual is: a loop without a window has none.
 */
uint32_t edge_window_us(const struct edge_window_counts *counts, uint32_t usual, uint32_t edge);

#endif
