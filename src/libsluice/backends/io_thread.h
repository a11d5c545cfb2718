/*
 * A thread for what the kernel does not do without blocking. It is made when it is first needed,
 * and does one call after another; what came of them is told by turns. A backend has one for what
 * is done to files, the loop another one for its user's work.
 */
#ifndef SLUICE_BACKENDS_IO_THREAD_H
#define SLUICE_BACKENDS_IO_THREAD_H

#include <pthread.h>
#include <stdatomic.h>

#include "backends/backend.h"

typedef struct io_thread {
    sluice_backend *backend; /* to be woken */
    pthread_t thread;
    bool started;
    atomic_bool has_done;

    pthread_mutex_t lock; /* of the fields below */
    pthread_cond_t news;
    io_call *todo_first, *todo_last;
    io_call *done_first, *done_last;
    bool ending;
} io_thread;

void io_thread_init(io_thread *thread, sluice_backend *backend);

/* When nothing is under way: waits for the thread's end. */
void io_thread_end(io_thread *thread);

/* Does the call. False: there is no thread, and its error is told as what came of the call. */
bool io_thread_add(io_thread *thread, io_call *call);

/* Takes back a call that it was given, which is then told as -ECANCELED. False: it has begun. */
bool io_thread_cancel(io_thread *thread, io_call *call);

/* The thread's own part, with the lock held: the call has its result, and is to be collected. */
void io_thread_put_done(io_thread *thread, io_call *call);

/* Whether there is something to collect. */
bool io_thread_has_done(const io_thread *thread);

/* Once a turn, behind what has been woken by: tells what is done. How many. */
uint32_t io_thread_collect(io_thread *thread);

/* Tells the result of a call, wherever it was made. */
void io_call_completed(io_call *call, int result);

#endif
