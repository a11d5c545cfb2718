#include "fuzz/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "backends/aim.h"
#include "backends/backend.h"
#include "backends/target.h"
#include "memory/pool.h"

enum {
    PEERS = 64,
    LINES = 32, /* of a backend */
    PIECES = 64,
    /* for a loop to come to rest; a record of an input has 65535 bytes, and may come one by one */
    MOST_TURNS = 200000,
    RANDOM_BYTE = 0x29,
};

/* The clock's start: an odd one, long after 1970. */
static const uint64_t WALL_START = 1795000000000, START = 86400000;

struct wire_peer {
    int fd;
    uint8_t *in, *out;
    size_t in_size, in_done, out_size, out_shown;
    size_t takes;
    bool ended;    /* behind the bytes: it has finished, or broken the connection */
    int error;     /* with which */
    bool finished; /* the other end has */
    bool closed;
};

/* A descriptor of a backend. */
typedef struct line {
    sluice_io *io; /* NULL: not in use */
    struct iovec pieces[PIECES];
    size_t count; /* of a send under way */
    bool blocked; /* a send waits for room: its pieces are not looked at any more */
} line;

typedef struct wire {
    sluice_backend base;
    line lines[LINES];
    size_t used; /* of them, from the first */
    struct iovec room[PIECES];
    backend_stats stats;
    bool bound;
} wire;

/* What the target's loop.c takes for the epoll backend. */
extern const struct backend_operations wire_backend;

static struct {
    fuzz_run *run;
    bool aims; /* what comes goes behind what came before, in the same block */
    wire_peer peers[PEERS];
    size_t count;
    uint64_t now;
    uint64_t events; /* of all backends */
} net;

/* ---- Peers ---- */

void wire_begin(fuzz_run *run) {
    net.run = run;
    net.aims = !run->whole && fuzz_random(run, 2);
    net.count = 0;
    net.now = START;
}

void wire_end(void) {
    for (size_t i = 0; i < net.count; i++) {
        FUZZ_CHECK(net.peers[i].closed);
        free(net.peers[i].in);
        free(net.peers[i].out);
    }
    net.count = 0;
}

wire_peer *wire_connect(void) {
    if (net.count == PEERS)
        return NULL;
    wire_peer *peer = &net.peers[net.count++];
    *peer = (wire_peer){.fd = eventfd(0, EFD_CLOEXEC), .takes = SIZE_MAX};
    FUZZ_CHECK(peer->fd >= 0);
    return peer;
}

int wire_descriptor(const wire_peer *peer) {
    return peer->fd;
}

static wire_peer *peer_of(int fd) {
    for (size_t i = net.count; i > 0; i--)
        if (net.peers[i - 1].fd == fd && !net.peers[i - 1].closed)
            return &net.peers[i - 1];
    return NULL;
}

static uint8_t *append(uint8_t *to, size_t size, const void *bytes, size_t n) {
    to = realloc(to, size + n + 1);
    FUZZ_CHECK(to);
    memcpy(to + size, bytes, n);
    return to;
}

void wire_give(wire_peer *peer, const uint8_t *bytes, size_t n) {
    if (peer->ended || n == 0)
        return;
    peer->in = append(peer->in, peer->in_size, bytes, n);
    peer->in_size += n;
}

void wire_finish(wire_peer *peer, int error) {
    if (peer->ended && !error)
        return;
    peer->ended = true;
    peer->error = error;
}

void wire_take(wire_peer *peer, size_t n) {
    peer->takes = n;
}

const uint8_t *wire_taken(wire_peer *peer, size_t *ret_size) {
    const uint8_t *bytes = peer->out ? peer->out + peer->out_shown : (const uint8_t *)"";
    *ret_size = peer->out_size - peer->out_shown;
    peer->out_shown = peer->out_size;
    return bytes;
}

bool wire_is_closed(const wire_peer *peer) {
    return peer->closed;
}

bool wire_is_finished(const wire_peer *peer) {
    return peer->finished;
}

void wire_wait(uint64_t ms) {
    net.now += ms;
}

/* ---- The backend ---- */

static wire *of(sluice_backend *backend) {
    return (wire *)backend;
}

static line *line_of(sluice_backend *backend, sluice_io *io) {
    wire *w = of(backend);
    line *spare = NULL;
    for (size_t i = 0; i < w->used; i++) {
        line *here = &w->lines[i];
        if (here->io == io)
            return here;
        if (!here->io && !spare)
            spare = here;
    }
    FUZZ_CHECK(spare || w->used < LINES);
    if (!spare)
        spare = &w->lines[w->used++];
    spare->io = io;
    spare->count = 0;
    spare->blocked = false;
    return spare;
}

static int create(sluice_pool *pool, const backend_options *options, sluice_backend **ret_backend) {
    wire *w = calloc(1, sizeof *w);
    (void)options;
    if (!w)
        return -ENOMEM;
    w->base = (sluice_backend){.operations = &wire_backend, .pool = pool};
    w->stats.features = "in memory";
    *ret_backend = &w->base;
    return 0;
}

static void destroy(sluice_backend *backend) {
    for (size_t i = 0; i < LINES; i++)
        FUZZ_CHECK(!of(backend)->lines[i].io);
    pool_bind(backend->pool);
    free(of(backend));
}

static int start_accept(sluice_backend *backend, sluice_io *io) {
    (void)backend;
    (void)io;
    return -EOPNOTSUPP;
}

static void resume(sluice_backend *backend, sluice_io *io) {
    line_of(backend, io);
    io->wants_receive = true;
}

static void pause_receive(sluice_backend *backend, sluice_io *io) {
    (void)backend;
    io->wants_receive = false;
}

static void one_block(sluice_backend *backend, sluice_io *io, bool is_most) {
    (void)backend;
    io->one_block = is_most;
}

/* What comes is an input's to say: here nothing waits for a clock. */
static void set_interval(sluice_backend *backend, sluice_io *io, uint8_t slots) {
    (void)backend;
    io->interval = slots;
}

static void receive_into(sluice_backend *backend, sluice_io *io) {
    line_of(backend, io);
}

static bool stop_into(sluice_backend *backend, sluice_io *io) {
    (void)backend;
    target_drop(io);
    return true;
}

static int change_class(sluice_backend *backend, sluice_io *io, sluice_pool *class) {
    (void)backend;
    aim_drop(io);
    io->chain.pool = class;
    return 0;
}

static struct iovec *send_room(sluice_backend *backend, size_t *ret_max) {
    *ret_max = PIECES;
    return of(backend)->room;
}

static void start_send(sluice_backend *backend, sluice_io *io, size_t count) {
    line *here = line_of(backend, io);
    FUZZ_CHECK(!io->sending && count > 0 && count <= PIECES);
    memcpy(here->pieces, of(backend)->room, count * sizeof *here->pieces);
    here->count = count;
    io->sending = true;
    io->operations++;
}

static bool start_read(sluice_backend *backend, io_read *read) {
    (void)backend;
    (void)read;
    return false;
}

static bool start_call(sluice_backend *backend, io_call *call) {
    (void)backend;
    (void)call;
    return false;
}

static void cancel(sluice_backend *backend, sluice_io *io) {
    target_drop(io);
    aim_drop(io);
    line_of(backend, io);
    io->wants_receive = false;
    io->cancelled = true;
}

/* What the peer takes of the pieces goes to it; how much. */
static size_t take(wire_peer *peer, const line *here) {
    size_t total = 0, done = 0;
    for (size_t i = 0; i < here->count; i++)
        total += here->pieces[i].iov_len;
    FUZZ_CHECK(total > 0);
    size_t most = fuzz_piece(net.run, total);
    most = most < peer->takes ? most : peer->takes;
    for (size_t i = 0; i < here->count && done < most; i++) {
        size_t n = here->pieces[i].iov_len < most - done ? here->pieces[i].iov_len : most - done;
        peer->out = append(peer->out, peer->out_size, here->pieces[i].iov_base, n);
        peer->out_size += n;
        done += n;
    }
    if (peer->takes != SIZE_MAX)
        peer->takes -= done;
    return done;
}

/* The peer takes nothing: what was to be sent is its owner's again. */
static void block_send(wire *w, line *here) {
    if (here->blocked)
        return;
    here->blocked = true;
    here->count = 0;
    memset(here->pieces, 0, sizeof here->pieces);
    w->stats.completions++;
    here->io->events->sent(here->io, 0);
}

static void complete_send(wire *w, line *here) {
    sluice_io *io = here->io;
    wire_peer *peer = peer_of(io->fd);
    FUZZ_CHECK(peer);
    bool broken = peer->ended && peer->error;
    bool blocked = here->blocked;
    size_t taken = 0;
    if (!io->cancelled && !broken) {
        FUZZ_CHECK(!peer->finished);
        if (peer->takes == 0) {
            block_send(w, here);
            return;
        }
        taken = blocked ? 0 : take(peer, here);
    }
    here->count = 0;
    here->blocked = false;
    io->sending = false;
    io->operations--;
    w->stats.completions++;
    if (io->cancelled)
        return;
    if (blocked)
        io->events->room(io);
    else if (broken)
        io->events->send_failed(io, -EPIPE);
    else
        io->events->sent(io, taken);
}

/*
 * What comes goes behind what came before, in the same block: in some runs always, in the others as
 * backends do it, where blocks are short or come with a few bytes each. Else a run would have as
 * many blocks as there are pieces.
 */
static bool aims(const sluice_io *io) {
    return net.aims || aim_is_wanted(io, pool_is_pressed(io->chain.pool));
}

/* 0 when there is no room behind. */
static size_t receive_behind(sluice_io *io, const uint8_t *bytes, size_t n) {
    if (!aims(io))
        aim_drop(io);
    if (!io->aim)
        return 0;
    size_t room = block_tail(io->aim);
    n = n < room ? n : room;
    memcpy(block_tail_data(io->aim), bytes, n);
    FUZZ_CHECK(aim_filled(io, (uint32_t)n) == 0);
    return n;
}

/*
 * Into blocks. There always are some: an input has fewer bytes than they hold, and whoever keeps
 * frames leaves the reserve alone. A peer that had to wait for a block would be a matter of the
 * cuts.
 */
static size_t receive(sluice_io *io, const uint8_t *bytes, size_t n) {
    size_t done = receive_behind(io, bytes, n);
    while (done < n && !(io->one_block && done > 0)) {
        sluice_block *block = pool_take(io->chain.pool);
        FUZZ_CHECK(block);
        size_t here = n - done < block->capacity ? n - done : block->capacity;
        memcpy(block->data, bytes + done, here);
        block->length = (uint32_t)here;
        aim_drop(io);
        sluice_chain_append(&io->chain, block);
        done += here;
    }
    aim_judge(io, (uint32_t)done);
    if (aims(io))
        aim_take(io);
    return done;
}

static void complete_receive(wire *w, sluice_io *io) {
    wire_peer *peer = peer_of(io->fd);
    FUZZ_CHECK(peer);
    size_t left = peer->in_size - peer->in_done;
    if (peer->ended && peer->error)
        left = 0;
    if (left == 0 && peer->ended) {
        w->stats.completions++;
        target_tell_ended(io, peer->error);
    }
    if (left == 0)
        return;
    const uint8_t *bytes = peer->in + peer->in_done;
    size_t n = fuzz_piece(net.run, left);
    if (target_pending(io)) {
        n = n < target_room(io) ? n : target_room(io);
        memcpy(io->target.memory, bytes, n);
        target_written(io, n);
    } else {
        n = receive(io, bytes, n);
    }
    peer->in_done += n;
    w->stats.completions++;
    target_tell_grown(io);
}

static void report_idle(wire *w) {
    for (size_t i = 0; i < w->used; i++) {
        sluice_io *io = w->lines[i].io;
        if (!io || !io->cancelled || io->operations > 0)
            continue;
        w->lines[i].io = NULL;
        w->stats.completions++;
        io->events->idle(io);
    }
    while (w->used > 0 && !w->lines[w->used - 1].io)
        w->used--;
}

static int turn(sluice_backend *backend, int64_t timeout_us) {
    wire *w = of(backend);
    uint64_t before = w->stats.completions;
    (void)timeout_us;
    if (!w->bound)
        pool_bind(backend->pool);
    w->bound = true;
    w->stats.enters++;
    for (size_t i = 0; i < w->used; i++) {
        line *here = &w->lines[i];
        if (here->io && (here->count > 0 || here->blocked))
            complete_send(w, here);
        if (here->io && !here->io->cancelled && (here->io->wants_receive || target_pending(here->io)))
            complete_receive(w, here->io);
    }
    report_idle(w);
    net.events += w->stats.completions - before;
    return 0;
}

static int64_t may_wait(const sluice_backend *backend) {
    (void)backend;
    return -1;
}

static void wake(sluice_backend *backend) {
    (void)backend;
}

static int descriptor(sluice_backend *backend) {
    (void)backend;
    return -EOPNOTSUPP;
}

static void get_stats(const sluice_backend *backend, backend_stats *ret_stats) {
    *ret_stats = ((const wire *)backend)->stats;
}

const struct backend_operations wire_backend = {
    .name = "wire",
    .create = create,
    .destroy = destroy,
    .accept = start_accept,
    .resume = resume,
    .pause = pause_receive,
    .one_block = one_block,
    .interval = set_interval,
    .receive_into = receive_into,
    .stop_into = stop_into,
    .change_class = change_class,
    .room = send_room,
    .send = start_send,
    .read = start_read,
    .call = start_call,
    .cancel = cancel,
    .turn = turn,
    .may_wait = may_wait,
    .wake = wake,
    .descriptor = descriptor,
    .get_stats = get_stats,
};

void wire_settle(sluice_loop *const *loops, size_t count) {
    for (unsigned turns = 0;; turns++) {
        uint64_t before = net.events;
        bool more = false;
        FUZZ_CHECK(turns < MOST_TURNS);
        for (size_t i = 0; i < count; i++)
            FUZZ_CHECK(sluice_loop_turn(loops[i], 0) == 0);
        for (size_t i = 0; i < count; i++)
            more |= sluice_loop_timeout(loops[i]) == 0;
        if (!more && net.events == before)
            return;
    }
}

/* ---- What else is of a kernel's: the linker puts these in the place of the C library's ---- */

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time) {
    uint64_t ms = net.now + (clock == CLOCK_REALTIME ? WALL_START : 0);
    *ret_time = (struct timespec){.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    return 0;
}

time_t __wrap_time(time_t *ret_time);
time_t __wrap_time(time_t *ret_time) {
    time_t seconds = (time_t)((WALL_START + net.now) / 1000);
    if (ret_time)
        *ret_time = seconds;
    return seconds;
}

ssize_t __wrap_getrandom(void *bytes, size_t n, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t n, unsigned flags) {
    (void)flags;
    memset(bytes, RANDOM_BYTE, n);
    return (ssize_t)n;
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd) {
    wire_peer *peer = peer_of(fd);
    if (peer)
        peer->closed = true;
    return __real_close(fd);
}

int __wrap_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how) {
    wire_peer *peer = peer_of(fd);
    (void)how;
    FUZZ_CHECK(peer);
    if (peer->ended && peer->error) {
        errno = ENOTCONN;
        return -1;
    }
    peer->finished = true;
    return 0;
}
