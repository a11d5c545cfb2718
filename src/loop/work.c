/* What may block, on the loop's thread for that. */
#include <errno.h>
#include <stdlib.h>

#include "loop/loop.h"

typedef struct work {
    sluice_io io; /* first: the backend's events name it */
    io_call call;
    sluice_loop *loop;
    sluice_loop_fn *run, *done;
    void *user;
    bool failed; /* there is no thread: it is run here */
    loop_list link;
} work;

static int run(int fd, void *user) {
    const work *running = user;
    (void)fd;
    running->run(running->user);
    return 0;
}

static void call_done(sluice_io *io, io_call *call, int result) {
    work *done = (work *)io;
    (void)call;
    done->failed = result < 0;
    loop_list_add(&done->loop->works.ready, &done->link);
}

int sluice_loop_work(sluice_loop *loop, sluice_loop_fn *what, sluice_loop_fn *done, void *user) {
    static const struct io_events events = {.call_done = call_done};
    work *added = calloc(1, sizeof *added);
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
    (void)loop->backend->operations->call(loop->backend, &added->call);
    return 0;
}

void works_dispatch(sluice_loop *loop) {
    loop_list *link;
    while ((link = loop_list_pop(&loop->works.ready))) {
        work *done = (work *)(void *)((char *)link - offsetof(work, link));
        if (done->failed)
            done->run(done->user);
        done->done(done->user);
        free(done);
    }
}
