/*
 * The monotonic clock as a test wants it: what the library does after a time, and what must not
 * happen before, does not depend on how fast the machine is. A test that uses it is linked with
 * --wrap=clock_gettime. The kernel's waits are as long as ever.
 */
#ifndef SLUICE_TESTS_SUPPORT_CLOCK_H
#define SLUICE_TESTS_SUPPORT_CLOCK_H

/* It stands still, for everybody in this process. */
void clock_stop(void);

/* It goes on from where it stands. */
void clock_go_on(void);

/* While it stands. */
void clock_forward(unsigned milliseconds);

#endif
