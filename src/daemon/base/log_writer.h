/*
 * Writes log lines to standard error. Before log_writer_start() a line is written at once, by the
 * thread that logs it. From then on it is queued (log_ring.h) and one thread writes: a reader of
 * standard error that stops, or a slow disk, blocks that thread alone. Lines that do not fit into
 * the queue are lost and counted; once all queued lines are written, a line reports how many were
 * lost in between, and lines are queued again. Any thread, unless said otherwise.
 */
#ifndef SLUICED_LOG_WRITER_H
#define SLUICED_LOG_WRITER_H

#include <stddef.h>
#include <stdint.h>

/* Makes the line that reports lost lines. Bytes, at most @size. Calls nothing of this. */
typedef size_t log_lost_fn(char *line, size_t size, uint64_t lines);

/* The main thread, while no other thread logs. 0, or -EAGAIN, -ENOMEM: lines are written at once
 * still. */
int log_writer_start(log_lost_fn *lost);

/* @length: 1 to LOG_RING_LINE */
void log_writer_put(const char *line, size_t length);

/*
 * Waits until all lines are written, at most @ms milliseconds, and ends the thread. Where that time
 * is over, the thread blocks in write() and is left there: what is logged from then on is lost. The
 * main thread, at the end of the process.
 */
void log_writer_stop(unsigned ms);

/* Lines that were not written: no room in the queue, or an error of standard error. */
uint64_t log_writer_lost(void);

#endif
