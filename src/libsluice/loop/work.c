/* What may block, on the loop's thread for that. */
#include <errno.h>
#include <stdlib.h>

#include "loop/loop.h"

struct sluice_work {
    sluice_io io; /* first: the thread's events name it */
    io_call call;
    sluice_loop *loop;
    sluice_loop_fn *run, *done;
    void *user;
    bool failed;    /* there is no thread: it is run here */
    bool cancelled; /* it is not run */
    loop_list link;
};

static int run(int fd, void *user) {
    const sluice_work *running = user;
    (void)fd;
    running->run(running->user);
    return 0;
}

static void call_done(sluice_io *io, io_call *call, int result) {
    sluice_work *done = (sluice_work *)io;
    (void)call;
    (void)result;
    loop_list_add(&done->loop->works.ready, &done->link);
}

int sluice_loop_work(sluice_loop *loop, sluice_loop_fn *what, sluice_loop_fn *done, void *user,
                     sluice_work **ret_work) {
    static const struct io_events events = {.call_done = call_done};
    sluice_work *added = calloc(1, sizeof *added);
    if (!added)
        return -ENOMEM;
    added->io.fd = -1;
    added->io.events = &events;
    added->loop = loop;
    added->run = what;
    added->done = done;
    added->user = user;
    added->call = (io_call){.io = &added->io, .kind = IO_RUN, .run = run, .user = added};
    loop_list_add(&loop->works.open, &added->link);
    added->failed = !io_thread_add(&loop->works.thread, &added->call);
    if (ret_work)
        *ret_work = added;
    return 0;
}

int sluice_work_cancel(sluice_work *work) {
    work->cancelled = work->cancelled || work->failed || io_thread_cancel(&work->loop->works.thread, &work->call);
    return work->cancelled ? 0 : -EBUSY;
}

bool works_are_ready(const sluice_loop *loop) {
    return !loop_list_is_empty(&loop->works.ready) || io_thread_has_done(&loop->works.thread);
}

void works_dispatch(sluice_loop *loop) {
    loop_list *link;
    (void)io_thread_collect(&loop->works.thread);
    while ((link = loop_list_pop(&loop->works.ready))) {
        sluice_work *done = LIST_ITEM(link, sluice_work, link);
        /* It has begun then, and a cancel from inside of it is too late. */
        bool runs = done->failed && !done->cancelled;
        done->failed = false;
        if (runs)
            done->run(done->user);
        done->done(done->user);
        free(done);
    }
}
