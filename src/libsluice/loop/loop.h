/* The inside of a loop, for connections, listeners and timers. */
#ifndef SLUICE_LOOP_LOOP_H
#define SLUICE_LOOP_LOOP_H

#include <pthread.h>
#include <stdatomic.h>

#include <sluice/conn.h>
#include <sluice/loop.h>

#include "backends/backend.h"
#include "backends/io_thread.h"
#include "loop/list.h"

/* A list of connections, in order; each connection has one pair of links per list. */
typedef struct conn_list {
    sluice_conn *first, *last;
    size_t count;
} conn_list;

/* Running timers, the earliest first: a binary heap. */
typedef struct timer_heap {
    sluice_timer **timers;
    size_t count, capacity; /* capacity is at least the number of timers that exist */
    size_t existing;
} timer_heap;

struct sluice_loop {
    sluice_backend *backend;
    sluice_backend_reason reason;
    int fallback_error; /* why it is not on io_uring, where that failed */
    sluice_pool *pool;
    void *user;
    uint64_t now; /* milliseconds, monotonic */
    atomic_bool stopping;
    uint32_t batch_us; /* the batching window; 0: none, and there never is one */
    bool low_water;    /* connections may have the kernel hold back what is less than they need */

    timer_heap timers;
    conn_list ready;   /* to be told of data or an end */
    conn_list later;   /* to be told behind those: they have had their share */
    conn_list sending; /* to be asked for pieces to send */
    conn_list unread;  /* a send has failed, and the rest of what the peer has sent is received */
    conn_list leaving; /* for another loop, when the kernel has given everything back */
    conn_list open;    /* all, for sluice_loop_free() */
    sluice_listener *listeners;
    struct {
        loop_list open;
        loop_list due; /* to be started before the next wait */
    } connectors;
    uint32_t connections;
    uint64_t footprint; /* of the connections' chains, as each was charged last */
    struct {
        sluice_loop_fn *call; /* NULL: none */
        void *user;
        uint32_t blocks;
    } shortage;
    struct {
        loop_list open;
        /* to be looked at before the next wait: there may be room to read ahead */
        loop_list due;
        loop_list starving; /* their consumers wait, and there is no block to read into */
        loop_list ready;    /* to be told of data or an end */
    } files;
    struct {
        loop_list open;
        loop_list due;   /* to be looked at before the next wait: there may be something to do */
        loop_list ready; /* to be told of what was done */
    } file_writers;
    struct {
        io_thread thread; /* not the backend's: what is done to files waits for no work */
        loop_list open;   /* with the thread */
        loop_list ready;  /* to be told that it is done */
    } works;

    /* held until the loop has been woken, so that it cannot be freed meanwhile */
    pthread_mutex_t post_lock;
    sluice_call *posted, **posted_end;
    atomic_bool post_waits;

    uint64_t turns;
    uint64_t heard_at, heard_turn; /* loop_heard_at() */

    bool embedded; /* sluice_loop_fd() has been called */
    bool turning;
    bool again; /* the last turn has left something for the next one, or may have */
};

/* Milliseconds, monotonic. */
uint64_t loop_clock(void);

/* Something was asked for that the next turn is to do, or to wait differently for. */
void loop_touched(sluice_loop *loop);

/* Milliseconds, monotonic, when this turn was first told of received bytes; the clock is read once
 * a turn. */
uint64_t loop_heard_at(sluice_loop *loop);

/* Whether sluice_loop_stop() has been called and nothing has obeyed; now it has. */
bool loop_obey_stop(sluice_loop *loop);

/* timer.c */
bool timer_is_running(const sluice_timer *timer);
/* until the next is due; negative: none runs */
int64_t timers_wait_ms(const sluice_loop *loop, uint64_t now);
void timers_run(sluice_loop *loop);
void timers_discard(sluice_loop *loop);

/*
 * Hears that a connection goes: the kernel is done with everything, the chain is as it was, and
 * on_closed has not been called.
 */
typedef struct conn_watcher {
    struct conn_watcher *next;
    void (*gone)(struct conn_watcher *watcher); /* may free the watcher */
} conn_watcher;

/* conn.c */
void conn_watch(sluice_conn *conn, conn_watcher *watcher);
void conn_unwatch(sluice_conn *conn, conn_watcher *watcher);
bool conn_can_send(const sluice_conn *conn); /* neither closed nor failed */
/* what a reader says that finds too little: -EAGAIN when more may come */
int conn_read_state(const sluice_conn *conn);
void conn_count_sent(sluice_conn *conn, size_t bytes); /* by another way than the loop's */
void conn_disown(sluice_conn *conn);                   /* closes it, but not its descriptor */
void conns_flush(sluice_loop *loop);                   /* asks those that want to send */
void conns_dispatch(sluice_loop *loop);                /* reports what is ready */
void conns_close_all(sluice_loop *loop);
/* for the backend: see sluice_backend.largest */
sluice_io *conns_largest(void *loop, const sluice_pool *class);

/* file.c */
void files_prepare(sluice_loop *loop);  /* starts the reads that there is room for */
void files_dispatch(sluice_loop *loop); /* reports what is ready */
void files_close_all(sluice_loop *loop);

/* file_writer.c */
void file_writers_prepare(sluice_loop *loop);  /* starts what there is to be done */
void file_writers_dispatch(sluice_loop *loop); /* reports what is ready */
void file_writers_close_all(sluice_loop *loop);

/* work.c */
void works_dispatch(sluice_loop *loop); /* reports work that is done */
bool works_are_ready(const sluice_loop *loop);

/* connect.c */
void connectors_prepare(sluice_loop *loop); /* starts what there is room for */
void connectors_close_all(sluice_loop *loop);

/* listener.c */
void listeners_close_all(sluice_loop *loop);

#endif
