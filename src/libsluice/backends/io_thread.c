#include "backends/io_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

void io_thread_init(io_thread *thread, sluice_backend *backend) {
    thread->backend = backend;
    pthread_mutex_init(&thread->lock, NULL);
    pthread_cond_init(&thread->news, NULL);
    atomic_init(&thread->has_done, false);
}

static int write_pieces(const io_call *call) {
    ssize_t n = call->offset == IO_NO_PLACE ? writev(call->fd, call->pieces, (int)call->count)
                                            : pwritev(call->fd, call->pieces, (int)call->count, (off_t)call->offset);
    return n < 0 ? -errno : (int)n;
}

static int result_of(int result) {
    return result < 0 ? -errno : result;
}

static int perform(const io_call *call) {
    switch (call->kind) {
    case IO_WRITE:
        return write_pieces(call);
    case IO_SYNC:
        return result_of(fdatasync(call->fd));
    case IO_RENAME:
        return result_of(renameat2(call->directory, call->from, call->directory, call->to, call->flags));
    case IO_CLOSE:
        return result_of(close(call->fd));
    case IO_RUN:
        return call->run(call->fd, call->user);
    }
    return -EINVAL;
}

/* With the lock, as the next three. */
static void put_todo(io_thread *thread, io_call *call) {
    call->waiting = true;
    call->next = NULL;
    call->prev = thread->todo_last;
    if (call->prev)
        call->prev->next = call;
    else
        thread->todo_first = call;
    thread->todo_last = call;
}

static void take_todo(io_thread *thread, io_call *call) {
    if (call->prev)
        call->prev->next = call->next;
    else
        thread->todo_first = call->next;
    if (call->next)
        call->next->prev = call->prev;
    else
        thread->todo_last = call->prev;
    call->waiting = false;
}

void io_thread_put_done(io_thread *thread, io_call *call) {
    call->next = NULL;
    if (thread->done_first)
        thread->done_last->next = call;
    else
        thread->done_first = call;
    thread->done_last = call;
    atomic_store(&thread->has_done, true);
    /* Under the lock: the backend goes only when the thread has ended. */
    thread->backend->operations->wake(thread->backend);
}

static void *run(void *user) {
    io_thread *thread = user;
    pthread_mutex_lock(&thread->lock);
    while (!thread->ending) {
        io_call *call = thread->todo_first;
        if (!call) {
            pthread_cond_wait(&thread->news, &thread->lock);
            continue;
        }
        take_todo(thread, call);
        pthread_mutex_unlock(&thread->lock);
        call->result = perform(call);
        pthread_mutex_lock(&thread->lock);
        io_thread_put_done(thread, call);
    }
    pthread_mutex_unlock(&thread->lock);
    return NULL;
}

/* Signals are the program's, not a library's thread's. */
static int start(io_thread *thread) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int error = -pthread_create(&thread->thread, NULL, run, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    thread->started = !error;
    return error;
}

bool io_thread_add(io_thread *thread, io_call *call) {
    int error = thread->started ? 0 : start(thread);
    call->io->operations++;
    pthread_mutex_lock(&thread->lock);
    if (error) {
        call->result = error;
        io_thread_put_done(thread, call);
    } else {
        put_todo(thread, call);
        pthread_cond_signal(&thread->news);
    }
    pthread_mutex_unlock(&thread->lock);
    return !error;
}

bool io_thread_cancel(io_thread *thread, io_call *call) {
    pthread_mutex_lock(&thread->lock);
    bool waiting = call->waiting;
    if (waiting) {
        take_todo(thread, call);
        call->result = -ECANCELED;
        io_thread_put_done(thread, call);
    }
    pthread_mutex_unlock(&thread->lock);
    return waiting;
}

bool io_thread_has_done(const io_thread *thread) {
    return atomic_load(&thread->has_done);
}

void io_call_completed(io_call *call, int result) {
    sluice_io *io = call->io;
    io->operations--;
    if (!io->cancelled)
        io->events->call_done(io, call, result);
}

uint32_t io_thread_collect(io_thread *thread) {
    uint32_t count = 0;
    if (!atomic_exchange(&thread->has_done, false))
        return 0;
    pthread_mutex_lock(&thread->lock);
    io_call *call = thread->done_first, *next;
    thread->done_first = NULL;
    pthread_mutex_unlock(&thread->lock);
    for (; call; call = next) {
        next = call->next;
        io_call_completed(call, call->result);
        count++;
    }
    return count;
}

void io_thread_end(io_thread *thread) {
    if (thread->started) {
        pthread_mutex_lock(&thread->lock);
        thread->ending = true;
        pthread_cond_signal(&thread->news);
        pthread_mutex_unlock(&thread->lock);
        pthread_join(thread->thread, NULL);
    }
    pthread_cond_destroy(&thread->news);
    pthread_mutex_destroy(&thread->lock);
}
