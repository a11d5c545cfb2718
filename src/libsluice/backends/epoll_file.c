/*
 * Reading files. They are always ready, and a read of what is not in the page cache waits for the
 * disk on the loop's thread. So that sockets and timers are not kept waiting for long, a turn does
 * a few reads only, in the order in which they were asked for.
 */
#include <errno.h>
#include <sys/uio.h>

#include "backends/epoll.h"
#include "backends/io_read.h"

enum { READS = 4 }; /* of one turn */

void epoll_read(epoll *e, io_read *read) {
    read->next = NULL;
    if (e->reads_first)
        e->reads_last->next = read;
    else
        e->reads_first = read;
    e->reads_last = read;
    read->io->operations++;
}

/* Bytes, or -errno. */
static int read_now(const io_read *read) {
    struct iovec pieces[IO_READ_BLOCKS];
    sluice_block *first;
    uint32_t count = io_read_pieces(read, pieces, &first);
    ssize_t n = preadv(read->io->fd, pieces, (int)count, (off_t)(read->offset + read->filled));
    return n < 0 ? -errno : (int)n;
}

uint32_t epoll_read_some(epoll *e) {
    uint32_t done = 0;
    for (; done < READS && e->reads_first; done++) {
        io_read *read = e->reads_first;
        sluice_io *io = read->io;
        e->reads_first = read->next;
        io->operations--;
        if (!io->cancelled)
            io->events->read_done(io, read, read_now(read));
    }
    return done;
}
