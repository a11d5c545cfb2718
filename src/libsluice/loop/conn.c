#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "abi/sized.h"
#include "backends/aim.h"
#include "backends/interval.h"
#include "backends/socket_end.h"
#include "backends/target.h"
#include "loop/loop.h"
#include "reader/reader.h"

enum {
    /* for less, the system call costs more than the wake-ups that it saves */
    LEAST_LOW_WATER = 512,
    MOST_LOW_WATER = 32 << 10, /* more makes the kernel enlarge the socket's buffer */
    PLENTY = 4,                /* times what is needed */
    LATER_MS = 5,              /* of a turn, for connections that were told and have left work */
    FLUSH_MS = 20,             /* of a turn, for sends */
    FLUSH_EACH = 4,            /* sends between two looks at the clock */
};

/* The lists that a connection can be in. */
enum { LIST_OPEN, LIST_READY, LIST_LATER, LIST_SENDING, LIST_UNREAD, LIST_LEAVING, LISTS };

/* What the user is still to be told of the receiving side. */
enum conn_end {
    END_NONE,     /* nothing; set at the start, and by dispatch when it has told */
    END_FINISHED, /* the peer has finished; set by the backend's ended() */
    END_FAILED,   /* the connection has failed; set by fail() */
};

struct sluice_conn {
    sluice_io io; /* first: the backend's events name it */
    sluice_loop *loop;
    const sluice_conn_events *events;
    void *user;
    size_t need;
    int low_water;  /* what the socket's is set to */
    size_t charged; /* bytes of the loop's footprint that are its chain's */
    uint64_t receives, sent_bytes, sends, blocked;
    bool telling; /* in on_data: what it leaves and needs is looked at afterwards */
    /* on_data is to be called whatever is there; set by sluice_conn_again(), cleared by tell() */
    bool again;
    /* what is needed comes so; set when a piece is not enough, cleared when there is plenty at
     * once */
    bool in_pieces;
    uint8_t lists; /* in which it is: 1 << LIST_... each */
    enum conn_end end;
    int error;   /* of END_FAILED; stays */
    bool failed; /* nothing more is sent or received */
    /* of a send, while what the peer had sent before is still received: the connection is in the
     * list of the unread, and fails with this error afterwards; 0: none */
    int send_error;
    bool ended; /* nothing more will be received */
    bool closing;
    /* called when it has left the loop; NULL: it stays */
    sluice_conn_detached_fn *detached;
    void *detached_user;
    struct {
        /* NULL: no receive into the user's memory is under way, or to be told */
        sluice_conn_received_fn *received;
        void *user;
        bool cancelled;
        bool over; /* the memory belongs to the user again; the callback is pending */
    } into;
    bool timed_out;      /* and not resumed since */
    uint32_t timeout_ms; /* 0: none */
    uint64_t heard_at;   /* when something was last received, or receiving began */
    sluice_timer *timer; /* of the timeout; NULL when there never was one */
    conn_watcher *watchers;
    reader_list readers;
    struct {
        sluice_conn *next, *prev;
    } links[LISTS];
};

static bool is_in_list(const sluice_conn *conn, int which) {
    return conn->lists >> which & 1;
}

static void list_add(conn_list *list, int which, sluice_conn *conn) {
    if (is_in_list(conn, which))
        return;
    conn->lists |= (uint8_t)(1 << which);
    conn->links[which].next = NULL;
    conn->links[which].prev = list->last;
    if (list->last)
        list->last->links[which].next = conn;
    else
        list->first = conn;
    list->last = conn;
    list->count++;
}

static void list_remove(conn_list *list, int which, sluice_conn *conn) {
    sluice_conn *next = conn->links[which].next, *prev = conn->links[which].prev;
    if (!is_in_list(conn, which))
        return;
    conn->lists &= (uint8_t) ~(1 << which);
    list->count--;
    if (prev)
        prev->links[which].next = next;
    else
        list->first = next;
    if (next)
        next->links[which].prev = prev;
    else
        list->last = prev;
}

static sluice_conn *conn_of(sluice_io *io) {
    return (sluice_conn *)io;
}

/* Closed, or leaving for another loop: no callbacks and no new operations. */
static bool is_going(const sluice_conn *conn) {
    return conn->closing || conn->detached;
}

/* It will be told; with its turn, where it has left work. */
static void make_ready(sluice_conn *conn) {
    if (!is_going(conn) && !is_in_list(conn, LIST_LATER))
        list_add(&conn->loop->ready, LIST_READY, conn);
}

static void set_low_water(sluice_conn *conn, int bytes) {
    if (bytes == conn->low_water)
        return;
    conn->low_water = bytes;
    /* What has none delivers every piece. */
    (void)setsockopt(conn->io.fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
}

/*
 * Sets SO_RCVLOWAT to the missing bytes; called wherever that number may have decreased. With a
 * batching window this gains nothing. With a timeout, a slow peer would be taken for a silent one.
 * And if a receive brings many frames and the beginning of another, the rest of that arrives with
 * as many others.
 */
static void follow_need(sluice_conn *conn) {
    size_t length = chain_length(&conn->io.chain);
    size_t lacking = conn->need > length ? conn->need - length : 0;
    bool holds = conn->in_pieces && conn->loop->low_water && conn->timeout_ms == 0 && !conn->into.received &&
                 lacking >= LEAST_LOW_WATER && conn->io.interval == 0;
    set_low_water(conn, !holds ? 1 : lacking < MOST_LOW_WATER ? (int)lacking : MOST_LOW_WATER);
}

/* The chain has changed. Bytes consumed outside of on_data are noticed at the next receive. */
static void charge(sluice_conn *conn, size_t footprint) {
    conn->loop->footprint += footprint - conn->charged;
    conn->charged = footprint;
}

static void io_received(sluice_io *io) {
    sluice_conn *conn = conn_of(io);
    bool lacks = chain_length(&io->chain) < conn->need;
    conn->receives++;
    if (lacks)
        aim_compact(io);
    charge(conn, sluice_chain_footprint(&io->chain));
    if (conn->timeout_ms > 0)
        conn->heard_at = loop_heard_at(conn->loop);
    if (conn->into.received)
        return;
    if (lacks) {
        conn->in_pieces = true;
        follow_need(conn);
    } else if (!conn->failed) {
        make_ready(conn);
    }
}

/* The kernel is done with the user's memory; the user is still to be told. */
static void io_placed(sluice_io *io) {
    sluice_conn *conn = conn_of(io);
    conn->receives += io->target.left == 0;
    conn->into.over = true;
    list_add(&conn->loop->ready, LIST_READY, conn);
}

static void stop_into(sluice_conn *conn) {
    if (conn->into.received && !conn->into.over)
        conn->into.over = conn->loop->backend->operations->stop_into(conn->loop->backend, &conn->io);
}

/* The same from outside of the backend: the callback always runs in a turn. */
static void end_into(sluice_conn *conn) {
    stop_into(conn);
    if (conn->into.over)
        list_add(&conn->loop->ready, LIST_READY, conn);
    loop_touched(conn->loop);
}

static void fail(sluice_conn *conn, int error) {
    list_remove(&conn->loop->unread, LIST_UNREAD, conn);
    conn->send_error = 0;
    conn->end = END_FAILED;
    /* Not to be taken for silence: this time there is nothing to be resumed. */
    conn->error = error == -ETIMEDOUT ? -ECONNABORTED : error;
    conn->failed = conn->ended = true;
    conn->loop->backend->operations->pause(conn->loop->backend, &conn->io);
    stop_into(conn);
    list_remove(&conn->loop->sending, LIST_SENDING, conn);
    make_ready(conn);
}

static void io_ended(sluice_io *io, int error) {
    sluice_conn *conn = conn_of(io);
    if (conn->into.received)
        io_placed(io);
    /* Of a receive that was under way when it failed. */
    if (conn->failed)
        return;
    if (error || conn->send_error) {
        fail(conn, conn->send_error ? conn->send_error : error);
    } else if (!conn->ended) {
        conn->end = END_FINISHED;
        conn->ended = true;
        make_ready(conn);
    }
}

static void count_sent(sluice_conn *conn, size_t bytes, bool waits) {
    conn->sent_bytes += bytes;
    conn->sends += bytes > 0;
    conn->blocked += waits;
}

void conn_count_sent(sluice_conn *conn, size_t bytes) {
    count_sent(conn, bytes, false);
}

static void io_sent(sluice_io *io, size_t bytes) {
    sluice_conn *conn = conn_of(io);
    count_sent(conn, bytes, io->sending);
    /* There may be more: ask again, when there is room. Before the call, which may close the
     * connection. */
    if (!io->sending)
        list_add(&conn->loop->sending, LIST_SENDING, conn);
    if (conn->events->on_sent)
        conn->events->on_sent(conn, bytes, conn->user);
}

static void io_room(sluice_io *io) {
    sluice_conn *conn = conn_of(io);
    list_add(&conn->loop->sending, LIST_SENDING, conn);
}

static bool is_receiving(const sluice_conn *conn) {
    return conn->io.wants_receive || target_pending(&conn->io);
}

/*
 * Nothing more is sent; what the peer had sent is received to its end, and then the connection
 * fails. The loop does not sleep before that, so an interval would keep it turning.
 */
static void receive_rest(sluice_conn *conn, int error) {
    conn->send_error = error;
    list_remove(&conn->loop->sending, LIST_SENDING, conn);
    list_add(&conn->loop->unread, LIST_UNREAD, conn);
    if (conn->io.interval > 0)
        conn->loop->backend->operations->interval(conn->loop->backend, &conn->io, 0);
}

/*
 * A send may be the first to notice that the peer has closed, with bytes of it still unread: the
 * kernel keeps them, also behind a reset. Only where the end is there already is it waited for, so
 * the wait does not depend on the peer.
 */
static void io_send_failed(sluice_io *io, int error) {
    sluice_conn *conn = conn_of(io);
    if (conn->failed || conn->send_error)
        return;
    if (is_receiving(conn) && socket_end_has_come(io->fd))
        receive_rest(conn, error);
    else
        fail(conn, error);
}

/* What is lacking for the rest may be what the connection holds itself. The user's pause goes
 * before the rest, too. */
static void fail_unread(sluice_loop *loop) {
    sluice_conn *next;
    for (sluice_conn *conn = loop->unread.first; conn; conn = next) {
        next = conn->links[LIST_UNREAD].next;
        if (!is_receiving(conn) || (conn->io.wanting && sluice_pool_available(conn->io.chain.pool) == 0))
            fail(conn, conn->send_error);
    }
}

/* Reports a receive into the user's memory; the callback may start another. */
static void tell_placed(sluice_conn *conn) {
    sluice_conn_received_fn *received = conn->into.received;
    int error = 0;
    if (conn->io.target.left > 0) {
        if (conn->into.cancelled || conn->closing)
            error = -ECANCELED;
        else if (conn->failed)
            error = conn->error;
        else
            error = conn->ended ? -ENODATA : -ETIMEDOUT;
    }
    conn->into.received = NULL;
    received(conn, error, conn->io.target.done, conn->into.user);
}

static void pack(sluice_conn *conn, sluice_conn_handover *ret_handover) {
    sluice_chain *chain = &conn->io.chain;
    set_low_water(conn, 1);
    *ret_handover = (sluice_conn_handover){
        .fd = conn->io.fd,
        .consumed = chain_consumed(chain),
        .stream = chain->generation,
        .receives = conn->receives,
        .starved = conn->io.starvations,
        .sent_bytes = conn->sent_bytes,
        .sends = conn->sends,
        .blocked = conn->blocked,
        .ended = conn->ended,
        .told = conn->end == END_NONE,
        .error = conn->send_error ? conn->send_error : conn->error,
    };
    (void)sluice_chain_take(chain, chain_length(chain), &ret_handover->received);
}

static void io_idle(sluice_io *io) {
    sluice_conn *conn = conn_of(io);
    sluice_conn_handover handover = {.fd = -1};
    if (conn->into.received)
        tell_placed(conn);
    list_remove(&conn->loop->open, LIST_OPEN, conn);
    conn->loop->connections--;
    readers_cut(&conn->readers);
    if (conn->detached)
        pack(conn, &handover);
    else if (io->fd >= 0)
        close(io->fd);
    sluice_timer_free(conn->timer);
    conn->timer = NULL;
    while (conn->watchers) {
        conn_watcher *watcher = conn->watchers;
        conn->watchers = watcher->next;
        watcher->gone(watcher);
    }
    /* The user, called by them, may have closed it. */
    if (!conn->detached)
        sluice_conn_handover_discard(&handover);
    chain_clear(&io->chain);
    charge(conn, 0);
    if (conn->detached)
        conn->detached(&handover, conn->detached_user);
    else if (conn->events->on_closed)
        conn->events->on_closed(conn, conn->user);
    free(conn);
}

static const struct io_events conn_io_events = {
    .received = io_received,
    .placed = io_placed,
    .ended = io_ended,
    .sent = io_sent,
    .room = io_room,
    .send_failed = io_send_failed,
    .idle = io_idle,
};

/* In the loop, and not receiving yet. */
static sluice_conn *make(sluice_loop *loop, int fd, const sluice_conn_events *events, void *user) {
    sluice_conn *conn = calloc(1, sizeof *conn);
    if (!conn)
        return NULL;
    conn->io.fd = fd;
    conn->io.events = &conn_io_events;
    chain_init(&conn->io.chain, loop->pool);
    conn->low_water = 1;
    conn->loop = loop;
    conn->events = events;
    conn->user = user;
    list_add(&loop->open, LIST_OPEN, conn);
    loop->connections++;
    return conn;
}

int sluice_conn_new(sluice_loop *loop, int fd, const sluice_conn_events *events, void *user, sluice_conn **ret_conn) {
    if (fd < 0 || !events || SIZED_CHECK(events) < 0)
        return -EINVAL;
    sluice_conn *conn = make(loop, fd, events, user);
    if (!conn)
        return -ENOMEM;
    loop->backend->operations->resume(loop->backend, &conn->io);
    loop_touched(loop);
    *ret_conn = conn;
    return 0;
}

int sluice_conn_adopt(sluice_loop *loop, sluice_conn_handover *handover, const sluice_conn_events *events, void *user,
                      sluice_conn **ret_conn) {
    if (handover->fd < 0 || !events || SIZED_CHECK(events) < 0)
        return -EINVAL;
    sluice_chain chain;
    chain_init(&chain, loop->pool);
    chain.passed = handover->consumed;
    /* Framers that come along go on where they are. */
    if (handover->stream)
        chain.generation = handover->stream;
    int error = sluice_chain_append_slice(&chain, &handover->received);
    sluice_conn *conn = error ? NULL : make(loop, handover->fd, events, user);
    if (!conn) {
        chain_clear(&chain);
        return error ? error : -ENOMEM;
    }
    conn->io.chain = chain;
    conn->receives = handover->receives;
    conn->io.starvations = handover->starved;
    conn->sent_bytes = handover->sent_bytes;
    conn->sends = handover->sends;
    conn->blocked = handover->blocked;
    charge(conn, sluice_chain_footprint(&chain));
    conn->ended = handover->ended;
    conn->failed = handover->ended && handover->error != 0;
    conn->error = conn->failed ? handover->error : 0;
    if (!conn->failed && handover->error)
        receive_rest(conn, handover->error);
    if (!handover->told)
        conn->end = conn->failed ? END_FAILED : END_FINISHED;
    sluice_slice_release(&handover->received);
    handover->fd = -1;
    if (!conn->ended)
        loop->backend->operations->resume(loop->backend, &conn->io);
    if (chain_length(&conn->io.chain) > 0 || conn->end != END_NONE)
        make_ready(conn);
    loop_touched(loop);
    *ret_conn = conn;
    return 0;
}

void sluice_conn_handover_discard(sluice_conn_handover *handover) {
    sluice_slice_release(&handover->received);
    if (handover->fd >= 0)
        close(handover->fd);
    handover->fd = -1;
}

/* Nothing of it is under way any more: what the kernel had has come, and there is nothing for the
 * cancel to lose. */
static void leave_if_done(sluice_conn *conn) {
    if (conn->io.operations > 0)
        return;
    list_remove(&conn->loop->leaving, LIST_LEAVING, conn);
    conn->closing = true;
    conn->loop->backend->operations->cancel(conn->loop->backend, &conn->io);
    loop_touched(conn->loop);
}

int sluice_conn_detach(sluice_conn *conn, sluice_conn_detached_fn *detached, void *user) {
    if (!detached)
        return -EINVAL;
    if (is_going(conn))
        return -EPIPE;
    if (conn->io.sending || conn->into.received)
        return -EBUSY;
    conn->detached = detached;
    conn->detached_user = user;
    if (conn->timer)
        sluice_timer_stop(conn->timer);
    list_remove(&conn->loop->ready, LIST_READY, conn);
    list_remove(&conn->loop->later, LIST_LATER, conn);
    list_remove(&conn->loop->sending, LIST_SENDING, conn);
    list_remove(&conn->loop->unread, LIST_UNREAD, conn);
    list_add(&conn->loop->leaving, LIST_LEAVING, conn);
    conn->loop->backend->operations->pause(conn->loop->backend, &conn->io);
    leave_if_done(conn);
    loop_touched(conn->loop);
    return 0;
}

void sluice_conn_close(sluice_conn *conn) {
    if (!conn)
        return;
    /* What was to leave is closed here. */
    conn->detached = NULL;
    if (conn->closing)
        return;
    conn->closing = true;
    list_remove(&conn->loop->leaving, LIST_LEAVING, conn);
    if (conn->timer)
        sluice_timer_stop(conn->timer);
    list_remove(&conn->loop->ready, LIST_READY, conn);
    list_remove(&conn->loop->later, LIST_LATER, conn);
    list_remove(&conn->loop->sending, LIST_SENDING, conn);
    list_remove(&conn->loop->unread, LIST_UNREAD, conn);
    conn->loop->backend->operations->cancel(conn->loop->backend, &conn->io);
    loop_touched(conn->loop);
}

void conn_disown(sluice_conn *conn) {
    set_low_water(conn, 1);
    sluice_conn_close(conn);
    conn->io.fd = -1;
}

void conns_close_all(sluice_loop *loop) {
    for (sluice_conn *conn = loop->open.first; conn; conn = conn->links[LIST_OPEN].next)
        sluice_conn_close(conn);
}

/* It may be told of an end; what is received into the user's memory takes none of the pool's. */
static bool can_be_ended(const sluice_conn *conn) {
    return !is_going(conn) && !conn->ended && !conn->into.received;
}

sluice_io *conns_largest(void *loop, const sluice_pool *class) {
    sluice_conn *largest = NULL;
    size_t most = 0;
    bool of_class = false;
    for (sluice_conn *conn = ((sluice_loop *)loop)->open.first; conn; conn = conn->links[LIST_OPEN].next) {
        size_t footprint = can_be_ended(conn) ? conn->io.chain.footprint : 0;
        bool is_of_class = conn->io.chain.pool == class;
        if (footprint == 0 || (of_class && !is_of_class) || (of_class == is_of_class && footprint <= most))
            continue;
        largest = conn;
        most = footprint;
        of_class = is_of_class;
    }
    return largest ? &largest->io : NULL;
}

static void tell(sluice_conn *conn) {
    if (conn->into.received) {
        if (!conn->into.over)
            return;
        tell_placed(conn);
        if (is_going(conn) || conn->into.received)
            return;
    }
    size_t length = chain_length(&conn->io.chain);
    bool enough = conn->again || (length > 0 && (length >= conn->need || conn->ended));
    /* Also where nothing takes it any more: the end would wait for it. */
    conn->again = false;
    if (enough && conn->events->on_data) {
        conn->in_pieces = conn->in_pieces && length / PLENTY < conn->need;
        conn->telling = true;
        conn->events->on_data(conn, conn->user);
        conn->telling = false;
        if (!is_going(conn))
            follow_need(conn);
    }
    aim_compact(&conn->io);
    charge(conn, sluice_chain_footprint(&conn->io.chain));
    /* What on_data asks for, and what it has left to do, comes before the end. */
    if (is_going(conn) || conn->into.received || conn->again || conn->end == END_NONE)
        return;
    int error = conn->end == END_FAILED ? conn->error : 0;
    conn->end = END_NONE;
    if (conn->events->on_end)
        conn->events->on_end(conn, error, conn->user);
}

/*
 * However many have left work, together they get a slice of the turn, one after the other: those
 * that have little to do wait for no more than that. One at least, or a slow clock would stop all.
 */
static void tell_later(sluice_loop *loop, size_t left) {
    sluice_conn *conn;
    uint64_t until = left > 0 ? loop_clock() + LATER_MS : 0;
    for (; left > 0 && (conn = loop->later.first); left--) {
        list_remove(&loop->later, LIST_LATER, conn);
        tell(conn);
        if (loop_clock() >= until)
            break;
    }
}

void conns_dispatch(sluice_loop *loop) {
    sluice_conn *conn;
    fail_unread(loop);
    /* Only those in the lists now: requests made meanwhile are handled in the next turn. */
    size_t later = loop->later.count;
    for (size_t left = loop->ready.count; left > 0 && (conn = loop->ready.first); left--) {
        list_remove(&loop->ready, LIST_READY, conn);
        tell(conn);
    }
    tell_later(loop, later);
    sluice_conn *next;
    for (conn = loop->leaving.first; conn; conn = next) {
        next = conn->links[LIST_LEAVING].next;
        leave_if_done(conn);
    }
}

/*
 * However much there is to send, sends get a slice of the turn: megabytes to each of many would
 * take seconds, in which nothing is received. The others are the first ones of the next turn.
 */
void conns_flush(sluice_loop *loop) {
    const struct backend_operations *operations = loop->backend->operations;
    const uint64_t until = loop->sending.count > FLUSH_EACH ? loop_clock() + FLUSH_MS : UINT64_MAX;
    size_t asked = 0;
    /* Once each: a connection with more data is asked again in the next turn. */
    for (size_t left = loop->sending.count; left > 0 && loop->sending.first; left--) {
        sluice_conn *conn = loop->sending.first;
        if (conn->io.sending || conn->failed || conn->send_error || !conn->events->on_gather) {
            list_remove(&loop->sending, LIST_SENDING, conn);
            continue;
        }
        size_t room;
        struct iovec *iov = operations->room(loop->backend, &room);
        if (room == 0)
            break;
        list_remove(&loop->sending, LIST_SENDING, conn);
        size_t count = conn->events->on_gather(conn, iov, room, conn->user);
        if (count > 0 && !is_going(conn))
            operations->send(loop->backend, &conn->io, count);
        if (until != UINT64_MAX && ++asked % FLUSH_EACH == 0 && loop_clock() >= until)
            break;
    }
}

bool sluice_conn_is_closing(const sluice_conn *conn) {
    return is_going(conn);
}

sluice_chain *sluice_conn_chain(sluice_conn *conn) {
    return &conn->io.chain;
}

sluice_loop *sluice_conn_loop(const sluice_conn *conn) {
    return conn->loop;
}

int sluice_conn_fd(const sluice_conn *conn) {
    return conn->io.fd;
}

void *sluice_conn_user(const sluice_conn *conn) {
    return conn->user;
}

int sluice_conn_get_stats(const sluice_conn *conn, sluice_conn_stats *ret_stats) {
    const sluice_conn_stats stats = {
        .received_bytes = chain_consumed(&conn->io.chain) + chain_length(&conn->io.chain),
        .receives = conn->receives,
        .starved = conn->io.starvations,
        .sent_bytes = conn->sent_bytes,
        .sends = conn->sends,
        .blocked = conn->blocked,
    };
    return SIZED_WRITE(ret_stats, &stats);
}

int sluice_conn_set_events(sluice_conn *conn, const sluice_conn_events *events, void *user) {
    if (!events || SIZED_CHECK(events) < 0)
        return -EINVAL;
    conn->events = events;
    conn->user = user;
    return 0;
}

void sluice_conn_set_need(sluice_conn *conn, size_t bytes) {
    size_t length = chain_length(&conn->io.chain), before = conn->need;
    conn->need = bytes;
    if (is_going(conn))
        return;
    /*
     * The bytes are sufficient now, and there may be no further receive to trigger the callback. If
     * receiving has ended, on_data has been called already.
     */
    if (length > 0 && length < before && length >= bytes && !conn->ended) {
        make_ready(conn);
        loop_touched(conn->loop);
    }
    if (!conn->telling)
        follow_need(conn);
}

void sluice_conn_again(sluice_conn *conn) {
    if (is_going(conn))
        return;
    conn->again = true;
    list_remove(&conn->loop->ready, LIST_READY, conn);
    list_add(&conn->loop->later, LIST_LATER, conn);
    loop_touched(conn->loop);
}

void sluice_conn_set_read_ahead(sluice_conn *conn, bool read_ahead) {
    if (is_going(conn) || conn->io.one_block != read_ahead)
        return;
    conn->loop->backend->operations->one_block(conn->loop->backend, &conn->io, !read_ahead);
    loop_touched(conn->loop);
}

int sluice_conn_set_receive_interval(sluice_conn *conn, uint32_t milliseconds) {
    uint32_t slots = (uint32_t)(((uint64_t)milliseconds * 1000 + INTERVAL_SLOT_US - 1) / INTERVAL_SLOT_US);
    if (slots > INTERVAL_MOST)
        return -EINVAL;
    if (is_going(conn) || conn->send_error || conn->io.interval == slots)
        return 0;
    conn->loop->backend->operations->interval(conn->loop->backend, &conn->io, (uint8_t)slots);
    follow_need(conn);
    loop_touched(conn->loop);
    return 0;
}

int sluice_conn_set_block_size(sluice_conn *conn, uint32_t block_size) {
    sluice_loop *loop = conn->loop;
    sluice_pool *class = loop->pool;
    if (is_going(conn))
        return -EPIPE;
    int error = block_size > 0 ? sluice_pool_class(loop->pool, block_size, &class) : 0;
    if (!error)
        error = loop->backend->operations->change_class(loop->backend, &conn->io, class);
    loop_touched(loop);
    return error;
}

void sluice_conn_pause(sluice_conn *conn) {
    if (is_going(conn))
        return;
    conn->io.held_up = true;
    conn->loop->backend->operations->pause(conn->loop->backend, &conn->io);
    loop_touched(conn->loop);
}

bool sluice_conn_was_held_up(sluice_conn *conn) {
    if (conn->ended || is_going(conn))
        return false;
    bool is_paused = !conn->io.wants_receive;
    bool held_up = conn->io.held_up || is_paused;
    /* Until it gets a block it still is. To be armed again alone, between two pieces, is not to be
     * held up: where blocks are scarce, one that is sent much is seen so at each look. */
    conn->io.held_up = held_up && (is_paused || conn->io.wanting);
    return held_up;
}

/* The timer stays as it is when it runs: it looks at heard_at, and goes on for what is left. */
static void begin_timeout(sluice_conn *conn) {
    conn->heard_at = loop_clock();
    if (!timer_is_running(conn->timer))
        sluice_timer_start(conn->timer, conn->timeout_ms);
}

static void look_at_timeout(sluice_timer *timer, void *user) {
    sluice_conn *conn = user;
    uint64_t now = conn->loop->now;
    if (!is_receiving(conn))
        return;
    /* Want of blocks is not the peer's fault. */
    if (conn->io.receiving == IO_RECV_WAITING)
        conn->heard_at = now;
    uint64_t silent = now > conn->heard_at ? now - conn->heard_at : 0;
    if (silent < conn->timeout_ms) {
        sluice_timer_start(timer, conn->timeout_ms - silent);
        return;
    }
    if (conn->into.received) {
        end_into(conn);
        begin_timeout(conn);
        return;
    }
    conn->timed_out = true;
    conn->loop->backend->operations->pause(conn->loop->backend, &conn->io);
    if (conn->events->on_end)
        conn->events->on_end(conn, -ETIMEDOUT, conn->user);
}

int sluice_conn_set_timeout(sluice_conn *conn, uint32_t milliseconds) {
    if (is_going(conn))
        return 0;
    if (milliseconds > 0 && !conn->timer) {
        int error = sluice_timer_new(conn->loop, look_at_timeout, conn, &conn->timer);
        if (error)
            return error;
    }
    if (conn->timer)
        sluice_timer_stop(conn->timer);
    conn->timeout_ms = milliseconds;
    follow_need(conn);
    if (milliseconds > 0 && is_receiving(conn))
        begin_timeout(conn);
    return 0;
}

void sluice_conn_resume(sluice_conn *conn) {
    if (is_going(conn) || conn->ended)
        return;
    conn->timed_out = false;
    if (conn->timeout_ms > 0)
        begin_timeout(conn);
    conn->loop->backend->operations->resume(conn->loop->backend, &conn->io);
    loop_touched(conn->loop);
}

int sluice_conn_receive_into(sluice_conn *conn, void *memory, size_t n, sluice_conn_received_fn *received, void *user) {
    if (!received || (!memory && n > 0))
        return -EINVAL;
    if (is_going(conn))
        return -EPIPE;
    if (conn->into.received)
        return -EBUSY;
    if (n == 0 || target_set(&conn->io, memory, n))
        return 1;
    conn->into.received = received;
    conn->into.user = user;
    conn->into.cancelled = false;
    conn->into.over = conn->ended;
    follow_need(conn);
    if (conn->ended) {
        target_drop(&conn->io);
        list_add(&conn->loop->ready, LIST_READY, conn);
    } else {
        if (conn->timeout_ms > 0)
            begin_timeout(conn);
        conn->loop->backend->operations->receive_into(conn->loop->backend, &conn->io);
    }
    loop_touched(conn->loop);
    return 0;
}

void sluice_conn_receive_cancel(sluice_conn *conn) {
    if (conn->closing || !conn->into.received || conn->into.over)
        return;
    conn->into.cancelled = true;
    end_into(conn);
}

int conn_read_state(const sluice_conn *conn) {
    if (is_going(conn))
        return -ECANCELED;
    if (conn->failed)
        return conn->error;
    if (conn->ended)
        return -ENODATA;
    return conn->timed_out ? -ETIMEDOUT : -EAGAIN;
}

static int reader_fill(void *user, size_t need, uint64_t deadline) {
    (void)need, (void)deadline;
    return conn_read_state(user);
}

void sluice_conn_attach_reader(sluice_conn *conn, sluice_reader *reader) {
    static const sluice_reader_source evented = {.size = sizeof evented, .fill = reader_fill};
    sluice_reader_reset(reader, &conn->io.chain);
    sluice_reader_set_source(reader, &evented, conn);
    reader_enlist(reader, &conn->readers);
}

void sluice_conn_want_send(sluice_conn *conn) {
    if (!conn_can_send(conn))
        return;
    list_add(&conn->loop->sending, LIST_SENDING, conn);
    loop_touched(conn->loop);
}

bool conn_can_send(const sluice_conn *conn) {
    return !is_going(conn) && !conn->failed && !conn->send_error;
}

void conn_watch(sluice_conn *conn, conn_watcher *watcher) {
    watcher->next = conn->watchers;
    conn->watchers = watcher;
}

void conn_unwatch(sluice_conn *conn, conn_watcher *watcher) {
    conn_watcher **link = &conn->watchers;
    while (*link && *link != watcher)
        link = &(*link)->next;
    if (*link)
        *link = watcher->next;
}

bool sluice_conn_is_sending(const sluice_conn *conn) {
    return conn->io.sending;
}

int sluice_conn_finish(sluice_conn *conn) {
    return shutdown(conn->io.fd, SHUT_WR) < 0 ? -errno : 0;
}
