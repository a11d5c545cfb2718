#include "backends/prefault.h"

#include <errno.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* unknown to C libraries before glibc 2.35 */
#endif

enum { PIECE = 256 << 10 }; /* the address space is locked for one at a time */

/*
 * By the kernel, and not by writing: the slab may be in use already, and its bytes stay as they
 * are, and a huge page that a control group refuses is an error here and a signal there.
 */
static int populate(int fd, void *user) {
    const prefault *of = user;
    const size_t size = of->memory.iov_len;
    (void)fd;
    for (size_t at = 0; at < size; at += PIECE) {
        uint8_t *piece = (uint8_t *)of->memory.iov_base + at;
        if (madvise(piece, size - at < PIECE ? size - at : PIECE, MADV_POPULATE_WRITE) < 0)
            return -errno;
    }
    return 0;
}

static void populated(sluice_io *io, io_call *call, int result) {
    prefault *done = (prefault *)io;
    const struct iovec next = done->next;
    (void)call;
    done->under_way = false;
    done->next = (struct iovec){0};
    if (result == 0 && next.iov_len > 0)
        prefault_start(done, done->thread, &next);
}

void prefault_start(prefault *started, io_thread *thread, const struct iovec *memory) {
    static const struct io_events events = {.call_done = populated};
    if (started->under_way) {
        struct iovec *next = &started->next;
        if ((uint8_t *)next->iov_base + next->iov_len == memory->iov_base)
            next->iov_len += memory->iov_len;
        else
            *next = *memory;
        return;
    }
    started->under_way = true;
    started->thread = thread;
    started->memory = *memory;
    started->io = (sluice_io){.fd = -1, .events = &events};
    started->call = (io_call){.io = &started->io, .kind = IO_RUN, .run = populate, .user = started};
    io_thread_add(thread, &started->call);
}
