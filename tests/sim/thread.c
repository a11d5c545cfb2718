/*
 * Threads for calls that may block: each makes its calls one after another, at later times, while
 * the loop does something else. What has begun is done in any case; what has not is not, once it is
 * cancelled or the thread ends.
 */
#include "backends/io_thread.h"

#include <errno.h>

#include "sim/kernel.h"
#include "sim/world.h"

enum { MORE_US = 20000 };

struct run {
    struct run *next;
    uint64_t number;
    io_thread *thread;
    io_call *call;
    bool begun;
};

/* Of all threads, in the order in which they were asked for. */
static struct run *runs;
static uint64_t runs_made;

static void take_out(struct run *run) {
    struct run **link = &runs;
    while (*link != run)
        link = &(*link)->next;
    *link = run->next;
}

static struct run *first_of(const io_thread *thread) {
    struct run *run = runs;
    while (run && run->thread != thread)
        run = run->next;
    return run;
}

static void finish(void *user);

static void begin_next(const io_thread *thread) {
    struct run *run = first_of(thread);
    if (!run || run->begun)
        return;
    run->begun = true;
    /* Now and then long enough that others wait, and change their minds. */
    uint64_t more = world_one_in(4) ? world_random(MORE_US) : 0;
    world_after(more + disk_delay(), finish, (void *)(uintptr_t)run->number);
}

/* Unless its thread has ended meanwhile. */
static void finish(void *user) {
    struct run *run = runs;
    while (run && run->number != (uintptr_t)user)
        run = run->next;
    if (!run)
        return;
    io_thread *thread = run->thread;
    io_call *call = run->call;
    take_out(run);
    world_free(run);
    call->result = call->run(call->fd, call->user);
    world_trace("thread", call->result < 0 ? call->result : 0, 0, 0);
    io_thread_put_done(thread, call);
    begin_next(thread);
}

bool __wrap_io_thread_add(io_thread *thread, io_call *call);
bool __wrap_io_thread_add(io_thread *thread, io_call *call) {
    struct run *run = world_allocate(sizeof *run);
    struct run **end = &runs;
    WORLD_CHECK(call->kind == IO_RUN, "call %d on the thread", (int)call->kind);
    *run = (struct run){.number = ++runs_made, .thread = thread, .call = call};
    call->io->operations++;
    while (*end)
        end = &(*end)->next;
    *end = run;
    begin_next(thread);
    return true;
}

bool __wrap_io_thread_cancel(io_thread *thread, io_call *call);
bool __wrap_io_thread_cancel(io_thread *thread, io_call *call) {
    struct run *run = runs;
    while (run && run->call != call)
        run = run->next;
    if (!run || run->begun)
        return false;
    world_trace("thread: cancelled", 0, 0, 0);
    take_out(run);
    world_free(run);
    call->result = -ECANCELED;
    io_thread_put_done(thread, call);
    return true;
}

void __real_io_thread_end(io_thread *thread);
void __wrap_io_thread_end(io_thread *thread);
void __wrap_io_thread_end(io_thread *thread) {
    for (struct run *run; (run = first_of(thread));) {
        take_out(run);
        if (run->begun)
            (void)run->call->run(run->call->fd, run->call->user);
        world_free(run);
    }
    __real_io_thread_end(thread);
}
