/*
 * Populates memory that a pool will use next, on the thread for blocking calls: the first touch of
 * 4 MiB takes from 0.5 to 13 ms, during which a loop would serve no connection.
 */
#ifndef SLUICE_BACKENDS_PREFAULT_H
#define SLUICE_BACKENDS_PREFAULT_H

#include "backends/io_thread.h"

/* Zero before the first. */
typedef struct prefault {
    sluice_io io; /* first: the call's result names it */
    io_call call;
    struct iovec memory;
    bool under_way; /* the thread has the above */
    io_thread *thread;
    struct iovec next; /* what comes then; empty: nothing */
} prefault;

/*
 * Has the thread populate the memory, which must stay mapped until io_thread_end(): at once, or
 * when what is under way is done; then it is what was asked for last, with what lies before that
 * and was asked for just before. Does nothing where there is no thread, or the kernel is older than
 * Linux 5.14.
 */
void prefault_start(prefault *started, io_thread *thread, const struct iovec *memory);

#endif
