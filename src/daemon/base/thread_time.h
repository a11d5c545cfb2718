/* How long the calling thread has had something to do. */
#ifndef SLUICED_THREAD_TIME_H
#define SLUICED_THREAD_TIME_H

#include <stdint.h>

/*
 * Microseconds, ever, in which a thread was on a processor, and in which it waited for one that
 * others had: the sum is all of the time where the thread cannot keep up, for whatever reason.
 * Kernels without scheduler statistics tell nothing of the waiting.
 */
struct thread_time {
    uint64_t ran_us, waited_us;
};

/* Of the calling thread. */
struct thread_time thread_time_now(void);

/* The first part alone, which costs little. */
uint64_t thread_time_ran_us(void);

#endif
