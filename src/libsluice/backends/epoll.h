/* The inside of the epoll backend, shared by its files. */
#ifndef SLUICE_BACKENDS_EPOLL_H
#define SLUICE_BACKENDS_EPOLL_H

#include <stdatomic.h>
#include <sys/epoll.h>

#include "backends/backend.h"
#include "backends/interval.h"
#include "backends/io_queue.h"
#include "backends/io_thread.h"
#include "backends/prefault.h"
#include "backends/window.h"
#include "memory/pool.h"

enum {
    EPOLL_EVENTS = 512,      /* of one wait */
    EPOLL_SEND_PIECES = 256, /* of one send */
};

/* Blocks of one size, and who receives into them. */
typedef struct block_class {
    sluice_pool *pool;      /* or the class of it */
    uint32_t most_burst;    /* blocks of one read */
    io_queue waiting;       /* for blocks, in order of arrival */
    io_queue aiming;        /* that hold an aim, who has got bytes last at the end */
    uint32_t fresh;         /* of these, at the end, that got bytes in the last turn */
    uint64_t starved_since; /* milliseconds; 0 while receives get blocks */
} block_class;

typedef struct epoll {
    sluice_backend base;
    int fd;
    int wake_fd;
    batch_window window;
    bool bound;  /* the first turn gives the pool to its thread */
    bool unread; /* and left something to read */
    atomic_bool wake_sent;

    /* one for each block size in use; its index is its users' group */
    block_class classes[POOL_CLASSES];
    uint32_t class_count;
    io_queue cancelled;   /* whose last operations are awaited */
    bool told;            /* one of them has none: do not wait */
    interval_wheel wheel; /* IO_RECV_INTERVAL */

    io_read *reads_first, *reads_last; /* of files, to be done in the next turn */

    io_thread thread; /* for what else is done to files */
    prefault prefault;

    /* what happened outside of a turn, for the next one to tell */
    sluice_io *tell_first, *tell_last;

    struct iovec pieces[EPOLL_SEND_PIECES];
    struct epoll_event events[EPOLL_EVENTS];
    backend_stats stats;
} epoll;

/* Has the descriptor registered for these events, 0 for none. 0, or -errno: only a first
 * registration can fail. */
int epoll_listen(epoll *e, sluice_io *io, uint32_t events);

/* Receiving: epoll_receive.c */

/* The place of the class among those in use, to which it is added where it is missing. */
uint8_t epoll_class_open(epoll *e, sluice_pool *pool);

/* Receives into blocks of this class from now on. */
void epoll_receive_change(epoll *e, sluice_io *io, sluice_pool *pool);

/* How many wait for blocks, of any size. */
uint32_t epoll_waiting(const epoll *e);

/* Once a turn: reads for the descriptors that wait for blocks, as far as there are some. Returns
 * how many of them have something to report. */
uint32_t epoll_receive_waiting(epoll *e);

/* Once a turn: reads what is due of those that are read at intervals. How many. */
uint32_t epoll_receive_due(epoll *e);

/* There is something to read. */
void epoll_receive(epoll *e, sluice_io *io);

/* Waits for blocks, or for its next read, no longer. */
void epoll_receive_leave_queue(epoll *e, sluice_io *io);

/* Stops receiving into blocks, for a pause or for good. */
void epoll_receive_stop(epoll *e, sluice_io *io);
void epoll_drop_aim(epoll *e, sluice_io *io);

/* Reading files: epoll_file.c */
void epoll_read(epoll *e, io_read *read);

/* Once a turn: does some of the reads that are queued. How many; not 0 while there are any. */
uint32_t epoll_read_some(epoll *e);

#endif
