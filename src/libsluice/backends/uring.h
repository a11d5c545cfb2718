/* The inside of the io_uring backend, shared by its files. */
#ifndef SLUICE_BACKENDS_URING_H
#define SLUICE_BACKENDS_URING_H

#include <stdatomic.h>

#include "backends/backend.h"
#include "backends/interval.h"
#include "backends/io_queue.h"
#include "backends/io_thread.h"
#include "backends/no_sigpipe.h"
#include "backends/prefault.h"
#include "backends/uring_abi.h"
#include "backends/window.h"
#include "memory/pool.h"

enum {
    URING_ENTRIES = 1024,     /* submissions a turn before an extra system call */
    URING_COMPLETIONS = 4096, /* 64 were right but 1.5 to 3.4 times slower */
    URING_MOST_SHRINK = 16,   /* both may be divided by so much where locked memory is limited */
    URING_IOVECS = 4096,      /* pieces of all sends of a turn */
    URING_SENDS = 512,        /* sends of a turn */
    URING_SEND_PIECES = 256,  /* pieces of one send */
    /* of sends that are submitted at a time: the loop looks at its clock between two such times */
    URING_SEND_BYTES = 4 << 20,
    URING_PROBE_GROUP = 0, /* of the probe's own ring */
};

/* What the kernel can do; tried by uring_probe(). */
typedef struct uring_features {
    bool multishot;       /* one receive completes many times (Linux 6.0) */
    bool bundle;          /* and fills several blocks at once (6.10) */
    bool bundle_rejected; /* the kernel offers that, and the probe has not seen it work */
    bool least_wait;      /* a wait has a least time, and wakes nobody before (6.12) */
} uring_features;

/* The ring of blocks of one size that the kernel takes from, and its users. A block's id is its
 * slot. */
typedef struct buffer_ring {
    sluice_pool *pool; /* or the class of it */
    struct io_uring_buf_ring *ring;
    size_t size;          /* bytes mapped */
    sluice_block **slots; /* the block in each slot; NULL when the kernel has given it back */
    uint32_t entries;     /* power of two, at least twice the largest stock */
    /* blocks to keep in it: from least to most, the more the poorer they are filled */
    uint32_t stock;
    uint32_t least_stock;
    uint32_t most_stock;
    uint32_t filled_blocks; /* since about the last change of the stock */
    uint64_t filled_bytes;  /* in those */
    uint32_t count;         /* blocks in it */
    uint16_t tail;

    /* for a receive to be armed: those that have taken few blocks lately, then the others */
    io_queue waiting;
    sluice_io *last_light; /* of those that have taken few; NULL: there are none */
    /* of the heavy and light ones that found no block in this turn; NULL: there are none */
    sluice_io *last_unserved[2];
    uint32_t heavy_due;     /* parts of a block that light ones have had of the heavy ones' share */
    io_queue aimed;         /* whose receive is armed for the free end of a block */
    uint64_t starved_since; /* milliseconds; 0 while receives get blocks */
} buffer_ring;

/* What the text of the features gets when it is first used. */
enum uring_shown {
    URING_SHOWS_FIXED = 1, /* a slab is registered */
    URING_SHOWS_REARM = 2, /* the host's eventfd is registered again in each turn */
    URING_SHOWN = 4,       /* combinations */
};

/* Of the pool's slabs; set by uring_is_fixed(), at the first read of a file that could name its
 * memory. */
enum slab_state {
    SLAB_UNTRIED,
    SLAB_FIXED, /* registered as a fixed buffer */
    SLAB_PLAIN, /* refused: the limit on locked memory */
};

typedef struct uring {
    sluice_backend base;
    struct io_uring ring;
    uring_features features;
    char features_text[URING_SHOWN][128];
    unsigned shown;  /* of enum uring_shown */
    bool deferred;   /* the kernel works for the ring only when it is entered */
    bool enabled;    /* the first turn binds the ring to its thread */
    bool registered; /* the table of fixed buffers exists */
    uint8_t *slabs;  /* enum slab_state of each */
    batch_window window;
    /* a window brought more small pieces than connections; set and cleared at its end */
    bool dribbles;
    uint32_t armed;    /* receives that the kernel has */
    uint32_t turn;     /* of receiving, counted */
    bool overdue;      /* receives were armed whose bytes have waited for a window already */
    uint32_t receives; /* of this turn that brought bytes */
    uint64_t received; /* bytes, in those */
    uint32_t tries;    /* sends that did not wait, among this turn's completions */

    /* one for each block size in use; its index is its users' group */
    buffer_ring rings[POOL_CLASSES];
    uint32_t ring_count;
    uint32_t stock_bytes; /* of each */
    io_queue cancelled;   /* whose last completions are awaited */
    io_queue stopping;    /* not cancelled; the cancel of its receive has found no entry */
    io_queue promised;    /* IO_RECV_PROMISED: looked at before the next turn waits */
    io_queue unread;      /* IO_RECV_UNREAD: read again in the next turn, which does not wait */
    interval_wheel wheel; /* IO_RECV_INTERVAL */
    bool cancels_due;     /* a cancel has found no entry */
    /* there is something to pass on, so do not wait: an io to call idle, or one told of its end */
    bool told;

    /* Pieces and headers of the sends that are queued but not submitted: the kernel reads them when
     * it submits. */
    struct iovec *iovecs;
    struct msghdr *messages;
    /* entries of the submission queue for the send that room() has been asked for: 0 or 1 */
    unsigned kept;
    size_t room; /* index of the pieces that room() has given out last */
    size_t iovecs_used;
    size_t messages_used;
    uint64_t bytes_used; /* of these pieces */

    uint32_t pipe_writes; /* that the kernel has, or is to have: each may raise SIGPIPE */
    io_thread thread;     /* for what the ring does not do */
    prefault prefault;

    int wake_fd;
    bool wake_armed;
    uint64_t wake_value;
    atomic_bool wake_sent;
    /* readable when the host of an embedded loop is to run a turn; -1 when there is no host */
    bool notice_rearms; /* a registered eventfd is signalled once only: uring_notice.c */
    bool notice_lost;   /* it could not be registered again; the next turn tries */
    atomic_int notice_fd;

    backend_stats stats;
} uring;

/*
 * How far a send is. The kernel could wait for room by itself, but for a peer that has finished
 * sending (and is slow, or no longer reads) its poll is always ready; it tries again and again, and
 * then lets a thread of its own block in the send, one for each such peer.
 */
enum uring_send {
    URING_SEND_TRY,  /* sendmsg, which does not wait; set by send() */
    URING_SEND_POLL, /* the socket had no room: waits for it; set by the completion of the try */
    /* the poll was ready for another reason: waits a moment; set by the completion of the poll */
    URING_SEND_REST,
};

/* What a completion is of: in the low bits of its user data, beside the io's address. */
enum { URING_TAG_MASK = 7 };

enum uring_tag {
    URING_TAG_NONE, /* a cancel's own completion: not waited for */
    URING_TAG_ACCEPT,
    URING_TAG_RECEIVE,
    URING_TAG_SEND,
    URING_TAG_WAKE,
    URING_TAG_READ, /* beside the io_read's address */
    URING_TAG_CALL, /* beside the io_call's */
    URING_TAG_CONNECT,
};

static inline uint64_t uring_data(const sluice_io *io, enum uring_tag tag) {
    return (uint64_t)(uintptr_t)io | tag;
}

/* A free submission entry, after an extra submission where needed; NULL before the ring is enabled
 * and full. */
struct io_uring_sqe *uring_sqe(uring *u);

/* Submits what is queued, without waiting. */
void uring_submit_now(uring *u);

/*
 * Bundles came with Linux 6.10. Without them each block is a completion of its own, and a wait for
 * many completions is woken by each of them (up to 6.3, at least).
 */
static inline bool uring_is_piecemeal(const uring *u) {
    return !u->features.bundle && !u->features.bundle_rejected;
}

/*
 * Cancels one operation of the io; its last completion is still to come. False when there is no
 * free entry: it is asked for again with the next turn, which does not wait, for what is in the
 * queues of the cancelled and the stopping.
 */
bool uring_cancel(uring *u, const sluice_io *io, enum uring_tag tag);

/*
 * Whether reads of files can name the slab's memory as a fixed buffer. It is registered when that
 * is first asked, which pins and touches all of it. Owner only.
 */
bool uring_is_fixed(uring *u, uint32_t slab);

/* Tries what the kernel can do, on a ring and a socket pair of its own. 0 or -errno. */
int uring_probe(const struct io_uring_params *params, uring_features *ret_features);

/* The text of the features has this one, too, from now on. */
void uring_show_feature(uring *u, unsigned feature);

/* The descriptor that the host of an embedded loop watches, made at the first call, or -errno:
 * uring_notice.c. */
int uring_notice_fd(uring *u);

/* Before anything is looked at in a turn: what comes later makes the descriptor readable again. */
void uring_notice_clear(uring *u);

/* The rings of blocks: uring_ring.c */

/* Makes a ring for blocks of this class, where there is none. 0 or -errno. */
int uring_ring_open(uring *u, sluice_pool *pool);
void uring_rings_free(uring *u);

/* The place of that class's ring among those in use; behind them where there is none. */
uint32_t uring_ring_find(const uring *u, const sluice_pool *pool);

/* Fills it up to its stock, as far as there are blocks. */
void uring_ring_stock(buffer_ring *ring);

/* Receiving: uring_receive.c */

/* Fills the rings up to their stock and arms the receives that wait, as far as there are blocks.
 * Once a turn. */
void uring_receive_prepare(uring *u);
void uring_receive_completed(uring *u, sluice_io *io, int result, uint32_t flags);
void uring_receive_resume(uring *u, sluice_io *io);

/* Receives into blocks of this class from now on; there is a ring for it. */
void uring_receive_change(uring *u, sluice_io *io, sluice_pool *pool);

/* Stops receiving into blocks, for a pause or for good. */
void uring_receive_stop(uring *u, sluice_io *io);

/* Reads on where the last read has left something. How many receives. */
uint32_t uring_receive_read_unread(uring *u);

/* Reads what is due of those that are read at intervals. How many. */
uint32_t uring_receive_read_due(uring *u);

/* Sends the cancels of receives that found no entry, as far as there are entries; or lets one of
 * them be. */
void uring_receive_send_due_cancels(uring *u);
void uring_receive_forget_cancel(uring *u, sluice_io *io);

/* One block at a time, or as many as come. */
void uring_receive_one_block(uring *u, sluice_io *io, bool is_most);

/* At intervals of so many slots, or as it comes. */
void uring_receive_set_interval(uring *u, sluice_io *io, uint8_t slots);

/* Receives into the target; stops that, as stop_into() says. */
void uring_receive_into(uring *u, sluice_io *io);
bool uring_receive_stop_into(uring *u, sluice_io *io);

/* Files: uring_file.c */
bool uring_read(uring *u, io_read *read);
void uring_read_completed(io_read *read, int result);
bool uring_call(uring *u, io_call *call);
void uring_call_completed(uring *u, io_call *call, int result);

#endif
