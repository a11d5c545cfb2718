/* How long the calling thread has had something to do. */
#ifndef SLUICED_THREAD_TIME_H
#define SLUICED_THREAD_TIME_H

#include <stdint.h>

/*
 * Microseconds, ever, in which the calling thread was on a processor or waited for one, which
 * others had: the difference of two calls is all of the time between them where the thread cannot
 * keep up, for whatever reason. Kernels without scheduler statistics tell nothing of the waiting.
 */
uint64_t thread_time_us(void);

#endif
