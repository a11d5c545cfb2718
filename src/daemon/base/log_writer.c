#include "daemon/base/log_writer.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/log_ring.h"

/* Whole lines of up to that many bytes are one write: a pipe that two processes share, as in an
 * upgrade, mixes none. */
enum { BATCH = PIPE_BUF };

static struct {
    pthread_mutex_t lock; /* never held while something is written */
    pthread_cond_t filled, ended;
    pthread_t thread;
    log_lost_fn *format_lost;
    bool queues;    /* log_writer_start() has been called; lines are queued */
    bool stopping;  /* log_writer_stop() has; the thread ends once it has written all */
    bool has_ended; /* the thread has */
    /* the last write was an error: the report is tried again with the next line only */
    bool failing;
    uint64_t lost;   /* ever */
    uint64_t unseen; /* of these, those that no line has reported */
    struct log_ring ring;
} writer = {.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER};

/* Others may have set standard error to be non-blocking: the open file is theirs, too. */
static bool await_room(void) {
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&out, 1, -1) > 0 || errno == EINTR;
}

static bool write_all(const char *text, size_t length) {
    while (length > 0) {
        ssize_t written = write(STDERR_FILENO, text, length);
        if (written < 0 && (errno == EINTR || (errno == EAGAIN && await_room())))
            continue;
        if (written <= 0)
            return false;
        text += written;
        length -= (size_t)written;
    }
    return true;
}

/* The lock is held. */
static void lose(uint64_t lines) {
    writer.lost += lines;
    writer.unseen += lines;
}

/* The lock is held, but not while it writes. @lines: how many are in the text */
static bool write_unlocked(const char *text, size_t length, uint64_t lines) {
    pthread_mutex_unlock(&writer.lock);
    bool written = write_all(text, length);
    pthread_mutex_lock(&writer.lock);
    writer.failing = !written;
    if (!written)
        lose(lines);
    return written;
}

/* Whether the report of lost lines is next. The lock is held. */
static bool is_to_report(void) {
    return writer.unseen > 0 && (writer.ring.used > 0 ? writer.failing : !writer.failing);
}

/* From its beginning on lines are queued again, and follow it: else each report would lose those of
 * its own time. */
static void report(char *buffer) {
    const uint64_t lines = writer.unseen;
    writer.unseen = 0;
    size_t length = writer.format_lost(buffer, LOG_RING_LINE, lines);
    if (!write_unlocked(buffer, length, 0))
        writer.unseen += lines;
}

static void *run(void *user) {
    static char batch[BATCH];
    (void)user;
    pthread_mutex_lock(&writer.lock);
    for (;;) {
        while (writer.ring.used == 0 && !is_to_report() && !writer.stopping)
            pthread_cond_wait(&writer.filled, &writer.lock);
        if (writer.ring.used == 0 && !is_to_report())
            break;
        if (is_to_report())
            report(batch);
        size_t lines, length = log_ring_take(&writer.ring, batch, sizeof batch, &lines);
        if (length > 0)
            (void)write_unlocked(batch, length, lines);
    }
    writer.has_ended = true;
    pthread_cond_signal(&writer.ended);
    pthread_mutex_unlock(&writer.lock);
    return NULL;
}

/* Signals are the control plane's. */
static int start_thread(void) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int error = pthread_create(&writer.thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error)
        (void)pthread_setname_np(writer.thread, "log");
    return -error;
}

int log_writer_start(log_lost_fn *lost) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    int error = -pthread_cond_init(&writer.ended, &attributes);
    pthread_condattr_destroy(&attributes);
    if (error)
        return error;
    writer.format_lost = lost;
    writer.stopping = writer.has_ended = false;
    error = start_thread();
    if (error)
        pthread_cond_destroy(&writer.ended);
    pthread_mutex_lock(&writer.lock);
    writer.queues = !error;
    pthread_mutex_unlock(&writer.lock);
    return error;
}

void log_writer_put(const char *line, size_t length) {
    pthread_mutex_lock(&writer.lock);
    bool queues = writer.queues;
    /* A gap is reported before there is another: what was lost in between is one number. */
    bool has_gap = writer.unseen > 0 && !writer.failing;
    if (queues && (has_gap || !log_ring_put(&writer.ring, line, length)))
        lose(1);
    if (queues)
        pthread_cond_signal(&writer.filled);
    pthread_mutex_unlock(&writer.lock);
    if (queues || write_all(line, length))
        return;
    pthread_mutex_lock(&writer.lock);
    lose(1);
    pthread_mutex_unlock(&writer.lock);
}

void log_writer_stop(unsigned ms) {
    struct timespec until;
    pthread_mutex_lock(&writer.lock);
    if (!writer.queues) {
        pthread_mutex_unlock(&writer.lock);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    writer.stopping = true;
    pthread_cond_signal(&writer.filled);
    int error = 0;
    while (!writer.has_ended && !error)
        error = pthread_cond_timedwait(&writer.ended, &writer.lock, &until);
    bool ended = writer.has_ended;
    /* One that has not ended stays in write(), where the end of the process finds it. */
    writer.queues = !ended;
    pthread_mutex_unlock(&writer.lock);
    if (!ended) {
        (void)pthread_detach(writer.thread);
        return;
    }
    (void)pthread_join(writer.thread, NULL);
    pthread_cond_destroy(&writer.ended);
}

uint64_t log_writer_lost(void) {
    pthread_mutex_lock(&writer.lock);
    uint64_t lost = writer.lost;
    pthread_mutex_unlock(&writer.lock);
    return lost;
}
