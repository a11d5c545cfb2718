/* Connections and listeners: what arrives and what is sent, byte for byte, and how they pause, end
 * and close. */
#include <sluice/conn.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/loop.h>

#include "backends/uring.h"
#include "loop/loop.h"
#include "memory/chain.h"
#include "support/sockets.h"

enum {
    GUARD = 60,
    SEED = 11,
};

/* A connection that receives pattern bytes, and what it was told. */
typedef struct receiver {
    sluice_conn *conn;
    uint32_t seed;
    uint64_t place; /* consumed */
    bool leaves;    /* the bytes stay in the chain */
    bool differs;   /* from the pattern */
    bool late;      /* called after its close */
    bool told_end, closes_on_end;
    unsigned data, ends, closed;
    int error; /* of the last end */
} receiver;

static void receiver_data(sluice_conn *conn, void *user) {
    receiver *r = user;
    sluice_chain *chain = sluice_conn_chain(conn);
    r->late |= r->closed > 0;
    r->data++;
    if (!r->leaves && !pattern_consume(chain, sluice_chain_length(chain), r->seed, &r->place))
        r->differs = true;
}

static void receiver_end(sluice_conn *conn, int error, void *user) {
    receiver *r = user;
    r->late |= r->closed > 0;
    r->told_end = true;
    r->error = error;
    r->ends++;
    if (r->closes_on_end)
        sluice_conn_close(conn);
}

static void receiver_closed(sluice_conn *conn, void *user) {
    receiver *r = user;
    (void)conn;
    r->closed++;
}

static const sluice_conn_events receiver_events = {
    .size = sizeof receiver_events, .on_data = receiver_data, .on_end = receiver_end, .on_closed = receiver_closed};

/* Makes a connection of a new pair; the peer's descriptor comes back. */
static int receiver_open(receiver *r, const loop_rig *rig, void pair(int fds[2])) {
    int fds[2];
    pair(fds);
    assert_int_equal(sluice_conn_new(rig->loop, fds[0], &receiver_events, r, &r->conn), 0);
    return fds[1];
}

static size_t buffered(sluice_conn *conn) {
    return sluice_chain_length(sluice_conn_chain(conn));
}

static sluice_loop_stats stats_of(const sluice_loop *loop) {
    sluice_loop_stats stats = {.size = sizeof stats};
    sluice_loop_get_stats(loop, &stats);
    return stats;
}

static void arguments_are_checked(void **state) {
    (void)state;
    loop_rig rig;
    receiver r = {0};
    int fds[2];
    sluice_conn *const untouched = (sluice_conn *)(void *)&r;
    sluice_conn *conn = untouched;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    assert_int_equal(sluice_conn_new(rig.loop, -1, &receiver_events, &r, &conn), -EINVAL);
    sockets_unix_pair(fds);
    assert_int_equal(sluice_conn_new(rig.loop, fds[0], NULL, &r, &conn), -EINVAL);
    assert_ptr_equal(conn, untouched);
    /* The descriptor is still the caller's. */
    assert_int_equal(sluice_conn_new(rig.loop, fds[0], &receiver_events, &r, &conn), 0);
    assert_int_equal(sluice_conn_fd(conn), fds[0]);
    assert_ptr_equal(sluice_conn_loop(conn), rig.loop);
    assert_false(sluice_conn_is_sending(conn));
    assert_int_equal(stats_of(rig.loop).connections, 1);
    sluice_conn_close(conn);
    sluice_conn_close(NULL);
    turn_until_count(rig.loop, &r.closed, 1);
    assert_int_equal(stats_of(rig.loop).connections, 0);
    assert_int_equal(fcntl(fds[0], F_GETFD), -1);
    close(fds[1]);
    loop_rig_close(&rig);
}

/* Receiving. */

enum { STREAMS = 8 };

static void receive_streams(void pair(int fds[2]), uint64_t bytes, const sluice_loop_options *options) {
    loop_rig rig;
    receiver receivers[STREAMS] = {0};
    socket_writer writers[STREAMS];
    int peers[STREAMS];
    loop_rig_open(&rig, NULL, options, GUARD);
    for (unsigned i = 0; i < STREAMS; i++) {
        receivers[i].seed = SEED + i;
        peers[i] = receiver_open(&receivers[i], &rig, pair);
        socket_writer_start(&writers[i], peers[i], SEED + i, bytes, 1, i % 2 ? 65536 : 6000);
    }
    for (int i = 0; i < STREAMS; i++) {
        turn_until(rig.loop, &receivers[i].told_end);
        socket_writer_join(&writers[i]);
        assert_false(writers[i].broken);
        assert_int_equal(receivers[i].error, 0);
        assert_int_equal(receivers[i].ends, 1);
        assert_int_equal(receivers[i].place, bytes);
        assert_false(receivers[i].differs);
        assert_int_equal(buffered(receivers[i].conn), 0);
        sluice_conn_close(receivers[i].conn);
        close(peers[i]);
    }
    loop_rig_close(&rig);
    for (int i = 0; i < STREAMS; i++)
        assert_int_equal(receivers[i].closed, 1);
}

static void tcp_streams_arrive_unchanged(void **state) {
    (void)state;
    receive_streams(sockets_tcp_pair, 4 << 20, NULL);
}

static void unix_streams_arrive_unchanged(void **state) {
    (void)state;
    receive_streams(sockets_unix_pair, 2 << 20,
                    &(sluice_loop_options){.size = sizeof(sluice_loop_options), .no_fixed = true});
}

static void streams_arrive_unchanged_in_batches(void **state) {
    (void)state;
    receive_streams(
        sockets_tcp_pair, 1 << 20,
        &(sluice_loop_options){.size = sizeof(sluice_loop_options), .batch_us = 2000, .stock_bytes = 65536});
}

/* The backend of a loop that has not turned yet may be told to do without what the kernel has. */
static uring *backend_of(const loop_rig *rig) {
    assert_string_equal(stats_of(rig->loop).backend, "io_uring");
    return (uring *)rig->loop->backend;
}

static void streams_arrive_unchanged_without_features(void **state) {
    (void)state;
    static const uring_features less[] = {{.multishot = true}, {0}};
    for (size_t i = 0; i < sizeof less / sizeof *less; i++) {
        loop_rig rig;
        receiver r = {.seed = SEED};
        socket_writer writer;
        loop_rig_open(&rig, NULL,
                      &(sluice_loop_options){.size = sizeof(sluice_loop_options), .backend = SLUICE_BACKEND_URING},
                      GUARD);
        backend_of(&rig)->features = less[i];
        int peer = receiver_open(&r, &rig, sockets_tcp_pair);
        socket_writer_start(&writer, peer, SEED, 4 << 20, 1, 50000);
        turn_until(rig.loop, &r.told_end);
        socket_writer_join(&writer);
        assert_int_equal(r.place, 4 << 20);
        assert_false(r.differs);
        close(peer);
        loop_rig_close(&rig);
    }
}

/*
 * Kernels since Linux 6.10, though not all of them, shorten an entry of the ring to what they
 * expect to receive. When nothing comes the entry stays so, and the next receive fills it no
 * further. Here some are short from the start.
 */
static void blocks_need_not_be_filled_to_their_end(void **state) {
    (void)state;
    loop_rig rig;
    receiver r = {.seed = SEED};
    socket_writer writer;
    loop_rig_open(&rig, NULL,
                  &(sluice_loop_options){.size = sizeof(sluice_loop_options), .backend = SLUICE_BACKEND_URING}, GUARD);
    turn_through(rig.loop, 1);
    buffer_ring *buffers = &backend_of(&rig)->rings[0];
    assert_true(buffers->count > 8);
    for (uint32_t i = 0; i < buffers->count; i += 3)
        buffers->ring->bufs[i].len = 100 + i;
    int peer = receiver_open(&r, &rig, sockets_tcp_pair);
    socket_writer_start(&writer, peer, SEED, 2 << 20, 1 << 20, 2 << 20);
    turn_until(rig.loop, &r.told_end);
    socket_writer_join(&writer);
    assert_int_equal(r.place, 2 << 20);
    assert_false(r.differs);
    close(peer);
    loop_rig_close(&rig);
}

static void nothing_is_told_below_the_need(void **state) {
    (void)state;
    loop_rig rig;
    receiver r = {.seed = SEED};
    loop_rig_open(&rig, NULL, NULL, GUARD);
    int peer = receiver_open(&r, &rig, sockets_tcp_pair);
    sluice_conn_set_need(r.conn, 100);
    pattern_write(peer, SEED, 0, 10);
    turn_until_buffered(rig.loop, r.conn, 10);
    pattern_write(peer, SEED, 10, 89);
    turn_until_buffered(rig.loop, r.conn, 99);
    turn_through(rig.loop, 2);
    assert_int_equal(r.data, 0);
    pattern_write(peer, SEED, 99, 1);
    turn_until_count(rig.loop, &r.data, 1);
    assert_int_equal(r.place, 100);

    /* It stays, and the end delivers what is there. */
    pattern_write(peer, SEED, 100, 5);
    turn_until_buffered(rig.loop, r.conn, 5);
    turn_through(rig.loop, 2);
    assert_int_equal(r.data, 1);
    shutdown(peer, SHUT_WR);
    turn_until(rig.loop, &r.told_end);
    assert_int_equal(r.data, 2);
    assert_int_equal(r.place, 105);
    assert_int_equal(r.error, 0);
    assert_false(r.differs);
    close(peer);
    loop_rig_close(&rig);
}

/* What is there already is told of when less is needed, at each step, once, and from inside on_data
 * likewise. */
static void a_lower_need_is_met_by_what_is_there(void **state) {
    (void)state;
    loop_rig rig;
    receiver r = {.seed = SEED, .leaves = true};
    loop_rig_open(&rig, NULL, NULL, GUARD);
    int peer = receiver_open(&r, &rig, sockets_tcp_pair);
    sluice_conn_set_need(r.conn, 1000);
    pattern_write(peer, SEED, 0, 100);
    turn_until_buffered(rig.loop, r.conn, 100);
    sluice_conn_set_need(r.conn, 101);
    turn_through(rig.loop, 3);
    assert_int_equal(r.data, 0);
    sluice_conn_set_need(r.conn, 100);
    assert_int_equal(r.data, 0);
    assert_int_equal(sluice_loop_timeout(rig.loop), 0);
    turn_until_count(rig.loop, &r.data, 1);
    /* Which it was before, so nothing is new. */
    sluice_conn_set_need(r.conn, 50);
    sluice_conn_set_need(r.conn, 0);
    turn_through(rig.loop, 3);
    assert_int_equal(r.data, 1);
    /* Raised again before the turn: it is the need of then that counts. */
    sluice_conn_set_need(r.conn, 500);
    sluice_conn_set_need(r.conn, 100);
    sluice_conn_set_need(r.conn, 101);
    turn_through(rig.loop, 3);
    assert_int_equal(r.data, 1);
    sluice_conn_set_need(r.conn, 1);
    sluice_conn_close(r.conn);
    turn_until_count(rig.loop, &r.closed, 1);
    assert_int_equal(r.data, 1);
    close(peer);
    loop_rig_close(&rig);
}

/* Consumes a part, and then finds that what is left is enough: a protocol that changes inside of
 * on_data. */
static void halve(sluice_conn *conn, void *user) {
    receiver *r = user;
    sluice_chain *chain = sluice_conn_chain(conn);
    r->data++;
    r->differs |= !pattern_consume(chain, (sluice_chain_length(chain) + 1) / 2, r->seed, &r->place);
    sluice_conn_set_need(conn, sluice_chain_length(chain));
}

static void a_need_that_falls_in_on_data_is_met(void **state) {
    (void)state;
    static const sluice_conn_events events = {.size = sizeof events, .on_data = halve, .on_closed = receiver_closed};
    loop_rig rig;
    receiver r = {.seed = SEED};
    int fds[2];
    loop_rig_open(&rig, NULL, NULL, GUARD);
    sockets_tcp_pair(fds);
    assert_int_equal(sluice_conn_new(rig.loop, fds[0], &events, &r, &r.conn), 0);
    sluice_conn_set_need(r.conn, 64);
    pattern_write(fds[1], SEED, 0, 64);
    turn_until_count(rig.loop, &r.data, 7);
    turn_through(rig.loop, 3);
    assert_int_equal(r.data, 7);
    assert_int_equal(r.place, 64);
    assert_false(r.differs);
    close(fds[1]);
    loop_rig_close(&rig);
}

static void an_end_without_bytes_is_no_data(void **state) {
    (void)state;
    loop_rig rig;
    receiver r = {.seed = SEED};
    loop_rig_open(&rig, NULL, NULL, GUARD);
    int peer = receiver_open(&r, &rig, sockets_tcp_pair);
    close(peer);
    turn_until(rig.loop, &r.told_end);
    assert_int_equal(r.data, 0);
    assert_int_equal(r.error, 0);
    turn_through(rig.loop, 5);
    assert_int_equal(r.ends, 1);
    /* Nor does it begin again. */
    sluice_conn_resume(r.conn);
    turn_through(rig.loop, 5);
    assert_int_equal(r.ends, 1);
    loop_rig_close(&rig);
    assert_int_equal(r.closed, 1);
}

static void a_reset_is_an_error(void **state) {
    (void)state;
    loop_rig rig;
    receiver r = {.seed = SEED, .leaves = true};
    loop_rig_open(&rig, NULL, NULL, GUARD);
    int peer = receiver_open(&r, &rig, sockets_tcp_pair);
    pattern_write(peer, SEED, 0, 3000);
    turn_until_buffered(rig.loop, r.conn, 3000);
    sockets_reset_on_close(peer);
    close(peer);
    turn_until(rig.loop, &r.told_end);
    assert_int_equal(r.error, -ECONNRESET);
    assert_int_equal(buffered(r.conn), 3000);
    assert_true(pattern_consume(sluice_conn_chain(r.conn), 3000, SEED, &r.place));
    /* What fails for good does nothing more. */
    sluice_conn_resume(r.conn);
    sluice_conn_want_send(r.conn);
    turn_through(rig.loop, 5);
    assert_int_equal(r.ends, 1);
    loop_rig_close(&rig);
    assert_int_equal(r.closed, 1);
}

static void urgent_bytes_disturb_no_stream(void **state) {
    (void)state;
    loop_rig rig;
    receiver first = {.leaves = true}, second = {.seed = SEED};
    socket_writer writer;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    /* The kernel takes the urgent byte for one that is to come, and finds the end instead. */
    int peer = receiver_open(&first, &rig, sockets_tcp_pair);
    sockets_write(peer, "abc", 3);
    assert_int_equal(send(peer, "!", 1, MSG_OOB), 1);
    shutdown(peer, SHUT_WR);
    turn_until(rig.loop, &first.told_end);
    assert_int_equal(buffered(first.conn), 3);
    int other = receiver_open(&second, &rig, sockets_tcp_pair);
    socket_writer_start(&writer, other, SEED, 2 << 20, 1, 50000);
    turn_until(rig.loop, &second.told_end);
    socket_writer_join(&writer);
    assert_false(second.differs);
    assert_int_equal(second.place, 2 << 20);
    close(peer);
    close(other);
    loop_rig_close(&rig);
}

static size_t alarm_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    unsigned *due = user;
    (void)conn, (void)max;
    if (*due == 0)
        return 0;
    (*due)--;
    iov[0] = (struct iovec){(void *)(uintptr_t) "!", 1};
    return 1;
}

static void alarm_heard(int number) {
    (void)number;
}

/* What comes at @fd has the kernel raise a signal to this thread, there and then. */
static void raise_on_data(int fd) {
    const struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = gettid()};
    assert_int_equal(fcntl(fd, F_SETOWN_EX, &owner), 0);
    assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC), 0);
}

/*
 * A signal that a send of the same turn raises is pending while the kernel receives. TCP then
 * receives nothing in front of an urgent byte, and does not say either that there is something.
 */
static void urgent_bytes_under_signals_hide_nothing(void **state) {
    (void)state;
    static const sluice_conn_events events = {.size = sizeof events, .on_gather = alarm_gather};
    const struct sigaction handler = {.sa_handler = alarm_heard};
    struct sigaction before;
    loop_rig rig;
    receiver r = {.leaves = true};
    sluice_conn *alarm;
    unsigned due = 0;
    int fds[2];
    assert_int_equal(sigaction(SIGIO, &handler, &before), 0);
    loop_rig_open(&rig, NULL, NULL, GUARD);
    sockets_unix_pair(fds);
    raise_on_data(fds[1]);
    assert_int_equal(sluice_conn_new(rig.loop, fds[0], &events, &due, &alarm), 0);
    int peer = receiver_open(&r, &rig, sockets_tcp_pair);

    /* Bytes behind the first urgent byte, then the end behind the second. */
    sockets_write(peer, "abc", 3);
    assert_int_equal(send(peer, "!", 1, MSG_OOB), 1);
    sockets_write(peer, "def", 3);
    due = 1;
    sluice_conn_want_send(alarm);
    turn_until_buffered(rig.loop, r.conn, 6);
    assert_int_equal(send(peer, "!", 1, MSG_OOB), 1);
    shutdown(peer, SHUT_WR);
    due = 1;
    sluice_conn_want_send(alarm);
    turn_until(rig.loop, &r.told_end);
    assert_int_equal(due, 0);
    assert_int_equal(r.error, 0);
    assert_int_equal(buffered(r.conn), 6);
    close(peer);
    close(fds[1]);
    loop_rig_close(&rig);
    assert_int_equal(sigaction(SIGIO, &before, NULL), 0);
}

static void non_blocking_descriptors_do_not_spin(void **state) {
    (void)state;
    loop_rig rig;
    receiver r = {.seed = SEED};
    int fds[2];
    loop_rig_open(&rig, NULL, NULL, GUARD);
    sockets_tcp_pair(fds);
    sockets_set_blocking(fds[0], false);
    assert_int_equal(sluice_conn_new(rig.loop, fds[0], &receiver_events, &r, &r.conn), 0);
    turn_through(rig.loop, 3);
    uint64_t before = stats_of(rig.loop).completions;
    turn_through(rig.loop, 20);
    assert_int_equal(stats_of(rig.loop).completions, before);
    pattern_write(fds[1], SEED, 0, 100000);
    while (r.place < 100000)
        turn(rig.loop);
    assert_false(r.differs);
    close(fds[1]);
    loop_rig_close(&rig);
}

/* Writes without waiting, as much as goes. Bytes. */
static size_t write_all_that_goes(int fd, uint32_t seed, uint64_t place) {
    uint8_t bytes[16384];
    size_t done = 0;
    for (;;) {
        pattern_fill(seed, place + done, bytes, sizeof bytes);
        ssize_t sent = send(fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent <= 0)
            return done;
        done += (size_t)sent;
    }
}

static void a_pause_stops_and_a_resume_goes_on(void **state) {
    (void)state;
    loop_rig rig;
    receiver r = {.seed = SEED, .leaves = true};
    loop_rig_open(&rig, NULL, NULL, GUARD);
    int peer = receiver_open(&r, &rig, sockets_tcp_pair);
    uint64_t written = write_all_that_goes(peer, SEED, 0);
    turn_until_count(rig.loop, &r.data, 1);
    sluice_conn_pause(r.conn);
    sluice_conn_pause(r.conn);
    /* What the kernel had put into blocks arrives. */
    turn_through(rig.loop, 20);
    size_t length = buffered(r.conn);
    unsigned data = r.data;
    for (int i = 0; i < 20; i++) {
        written += write_all_that_goes(peer, SEED, written);
        turn_through(rig.loop, 1);
    }
    assert_int_equal(buffered(r.conn), length);
    assert_int_equal(r.data, data);
    assert_true(length < written);

    r.leaves = false;
    sluice_conn_resume(r.conn);
    sluice_conn_resume(r.conn);
    while (r.place < written)
        turn(rig.loop);
    assert_int_equal(r.place, written);
    assert_false(r.differs);
    close(peer);
    loop_rig_close(&rig);
}

static void a_pause_before_the_first_turn_holds(void **state) {
    (void)state;
    loop_rig rig;
    receiver r = {.seed = SEED};
    loop_rig_open(&rig, NULL, NULL, GUARD);
    int peer = receiver_open(&r, &rig, sockets_tcp_pair);
    sluice_conn_pause(r.conn);
    pattern_write(peer, SEED, 0, 5000);
    shutdown(peer, SHUT_WR);
    turn_through(rig.loop, 20);
    assert_int_equal(r.data + r.ends, 0);
    sluice_conn_resume(r.conn);
    turn_until(rig.loop, &r.told_end);
    assert_int_equal(r.place, 5000);
    assert_false(r.differs);
    close(peer);
    loop_rig_close(&rig);
}

typedef struct fidget {
    receiver receiver; /* first: its events name it */
    uint64_t random;
} fidget;

/* Pauses and resumes at random, in the end always receiving. */
static void fidget_data(sluice_conn *conn, void *user) {
    fidget *f = user;
    receiver_data(conn, user);
    for (uint32_t i = random_between(&f->random, 0, 3); i > 0; i--)
        if (random_between(&f->random, 0, 1))
            sluice_conn_pause(conn);
        else
            sluice_conn_resume(conn);
    sluice_conn_pause(conn);
    sluice_conn_resume(conn);
}

static void a_pause_and_a_resume_in_one_turn_lose_nothing(void **state) {
    (void)state;
    static const sluice_conn_events events = {
        .size = sizeof events, .on_data = fidget_data, .on_end = receiver_end, .on_closed = receiver_closed};
    loop_rig rig;
    fidget f = {.receiver.seed = SEED};
    socket_writer writer;
    int fds[2];
    loop_rig_open(&rig, NULL, NULL, GUARD);
    sockets_tcp_pair(fds);
    assert_int_equal(sluice_conn_new(rig.loop, fds[0], &events, &f, &f.receiver.conn), 0);
    socket_writer_start(&writer, fds[1], SEED, 8 << 20, 1, 30000);
    turn_until(rig.loop, &f.receiver.told_end);
    socket_writer_join(&writer);
    assert_int_equal(f.receiver.place, 8 << 20);
    assert_false(f.receiver.differs);
    close(fds[1]);
    loop_rig_close(&rig);
}

typedef struct swapped {
    unsigned first, second;
    size_t seen;
} swapped;

static void second_data(sluice_conn *conn, void *user) {
    swapped *s = user;
    s->second++;
    s->seen = buffered(conn);
}

static void first_data(sluice_conn *conn, void *user) {
    static const sluice_conn_events second_events = {.size = sizeof second_events, .on_data = second_data};
    swapped *s = user;
    s->first++;
    sluice_conn_set_events(conn, &second_events, s);
}

static void events_can_be_exchanged(void **state) {
    (void)state;
    static const sluice_conn_events first_events = {.size = sizeof first_events, .on_data = first_data};
    loop_rig rig;
    swapped s = {0};
    sluice_conn *conn;
    int fds[2];
    loop_rig_open(&rig, NULL, NULL, GUARD);
    sockets_unix_pair(fds);
    assert_int_equal(sluice_conn_new(rig.loop, fds[0], &first_events, &s, &conn), 0);
    sockets_write(fds[1], "GET", 3);
    turn_until_count(rig.loop, &s.first, 1);
    sockets_write(fds[1], "more", 4);
    turn_until_size(rig.loop, &s.seen, 7);
    assert_int_equal(s.first, 1);
    close(fds[1]);
    loop_rig_close(&rig);
}

/* Closing. */

enum closer_call { ON_DATA, ON_END, ON_FAILURE, ON_GATHER, ON_SENT, ON_CLOSED, CALLS };

typedef struct closer {
    enum closer_call where;
    unsigned calls[CALLS];
    unsigned after; /* calls after the close, but for on_closed */
    bool closing;
} closer;

static void closer_called(closer *c, sluice_conn *conn, enum closer_call which) {
    c->calls[which]++;
    c->after += c->closing && which != ON_CLOSED;
    if (which == c->where) {
        sluice_conn_close(conn);
        sluice_conn_close(conn);
        c->closing = true;
    }
}

static void closer_data(sluice_conn *conn, void *user) {
    closer_called(user, conn, ON_DATA);
}

static void closer_end(sluice_conn *conn, int error, void *user) {
    closer_called(user, conn, error ? ON_FAILURE : ON_END);
}

static size_t closer_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    static uint8_t bytes[1000];
    assert_true(max > 0);
    closer_called(user, conn, ON_GATHER);
    iov[0] = (struct iovec){bytes, sizeof bytes};
    return 1;
}

static void closer_sent(sluice_conn *conn, size_t bytes, void *user) {
    (void)bytes;
    closer_called(user, conn, ON_SENT);
}

static void closer_closed(sluice_conn *conn, void *user) {
    closer_called(user, conn, ON_CLOSED);
}

static const sluice_conn_events closer_events = {.size = sizeof closer_events,
                                                 .on_data = closer_data,
                                                 .on_end = closer_end,
                                                 .on_gather = closer_gather,
                                                 .on_sent = closer_sent,
                                                 .on_closed = closer_closed};

static void any_call_may_close(void **state) {
    (void)state;
    for (enum closer_call where = ON_DATA; where < CALLS; where++) {
        loop_rig rig;
        closer c = {.where = where};
        sluice_conn *conn;
        int fds[2];
        loop_rig_open(&rig, NULL, NULL, GUARD);
        sockets_tcp_pair(fds);
        assert_int_equal(sluice_conn_new(rig.loop, fds[0], &closer_events, &c, &conn), 0);
        pattern_write(fds[1], SEED, 0, 100000);
        if (where == ON_END)
            shutdown(fds[1], SHUT_WR);
        if (where == ON_GATHER || where == ON_SENT)
            sluice_conn_want_send(conn);
        if (where == ON_FAILURE)
            sockets_reset_on_close(fds[1]);
        if (where == ON_CLOSED) {
            turn_until_count(rig.loop, &c.calls[ON_DATA], 1);
            sluice_conn_close(conn);
            c.closing = true;
        }
        if (where == ON_FAILURE || where == ON_CLOSED)
            close(fds[1]);
        turn_until_count(rig.loop, &c.calls[ON_CLOSED], 1);
        assert_int_equal(c.calls[where], 1);
        assert_int_equal(c.after, 0);
        if (where != ON_FAILURE && where != ON_CLOSED)
            close(fds[1]);
        loop_rig_close(&rig);
        assert_int_equal(c.calls[ON_CLOSED], 1);
        assert_int_equal(c.after, 0);
    }
}

typedef struct rivals {
    sluice_conn *conns[2];
    unsigned data, closed;
} rivals;

static void rival_data(sluice_conn *conn, void *user) {
    rivals *r = user;
    r->data++;
    sluice_conn_close(r->conns[conn == r->conns[0]]);
}

static void rival_closed(sluice_conn *conn, void *user) {
    rivals *r = user;
    (void)conn;
    r->closed++;
}

/* Both have data in the same turn; who is told first closes the other, which then is told
 * nothing. */
static void a_call_may_close_another_connection(void **state) {
    (void)state;
    static const sluice_conn_events events = {.size = sizeof events, .on_data = rival_data, .on_closed = rival_closed};
    loop_rig rig;
    rivals r = {0};
    int fds[2][2];
    loop_rig_open(&rig, NULL, NULL, GUARD);
    for (int i = 0; i < 2; i++) {
        sockets_unix_pair(fds[i]);
        sockets_write(fds[i][1], "x", 1);
        assert_int_equal(sluice_conn_new(rig.loop, fds[i][0], &events, &r, &r.conns[i]), 0);
    }
    turn_until_count(rig.loop, &r.closed, 1);
    assert_int_equal(r.data, 1);
    loop_rig_close(&rig);
    assert_int_equal(r.data, 1);
    assert_int_equal(r.closed, 2);
    close(fds[0][1]);
    close(fds[1][1]);
}

static void a_close_with_data_in_flight_returns_all_blocks(void **state) {
    (void)state;
    for (int i = 0; i < 30; i++) {
        loop_rig rig;
        receiver r = {.seed = SEED, .leaves = true};
        socket_writer writer;
        sluice_pool_stats stats = {.size = sizeof stats};
        loop_rig_open(&rig, NULL, NULL, GUARD);
        int peer = receiver_open(&r, &rig, i % 2 ? sockets_tcp_pair : sockets_unix_pair);
        socket_writer_start(&writer, peer, SEED, UINT64_MAX, 1, 100000);
        if (i % 3)
            turn_until_count(rig.loop, &r.data, 1);
        if (i % 5 == 0)
            sluice_conn_pause(r.conn);
        r.closed = 0;
        sluice_conn_close(r.conn);
        sluice_conn_close(r.conn);
        assert_int_equal(r.closed, 0);
        turn_until_count(rig.loop, &r.closed, 1);
        sluice_pool_get_stats(rig.pool, &stats);
        assert_int_equal(stats.held, 0);
        socket_writer_join(&writer);
        assert_true(writer.broken);
        close(peer);
        loop_rig_close(&rig);
        assert_int_equal(r.closed, 1);
        assert_false(r.late);
    }
}

/* Sending. */

typedef struct sender {
    sluice_conn *conn;
    uint8_t *bytes;
    uint64_t total, sent; /* bytes of one round, and of all */
    uint64_t repeats;     /* rounds; 0 is one */
    uint64_t random;
    size_t gathered; /* bytes of the last gather, not yet accounted for */
    uint32_t most;   /* bytes a piece */
    size_t pieces;   /* a gather, at most */
    uint64_t turn;   /* of the last gather */
    unsigned gathers, ends, closed;
    bool in_flight, wrong, all_sent, failed;
    int error;
} sender;

static uint64_t sender_whole(const sender *s) {
    return s->repeats ? s->repeats * s->total : s->total;
}

static size_t sender_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    sender *s = user;
    size_t count = 0;
    uint64_t at = s->sent;
    uint64_t now = stats_of(sluice_conn_loop(conn)).turns;
    /* Once a turn, and never while pieces are out. */
    s->wrong |= s->in_flight || max == 0 || sluice_conn_is_sending(conn) || now == s->turn;
    s->turn = now;
    s->gathers++;
    while (count < max && count < s->pieces && at < sender_whole(s)) {
        uint64_t n = random_between(&s->random, 1, s->most);
        if (n > s->total - at % s->total)
            n = s->total - at % s->total;
        iov[count++] = (struct iovec){s->bytes + at % s->total, n};
        at += n;
    }
    s->gathered = at - s->sent;
    s->in_flight = count > 0;
    return count;
}

static void sender_sent(sluice_conn *conn, size_t bytes, void *user) {
    sender *s = user;
    /* With nothing taken it may wait for room. */
    s->wrong |= !s->in_flight || bytes > s->gathered || (bytes > 0 && sluice_conn_is_sending(conn));
    s->in_flight = false;
    s->sent += bytes;
    if (s->sent == sender_whole(s)) {
        s->all_sent = true;
        s->wrong |= sluice_conn_finish(conn) < 0;
    }
}

static void sender_end(sluice_conn *conn, int error, void *user) {
    sender *s = user;
    (void)conn;
    s->ends++;
    s->error = error;
    s->failed |= error < 0;
}

static void sender_closed(sluice_conn *conn, void *user) {
    sender *s = user;
    (void)conn;
    s->closed++;
}

static const sluice_conn_events sender_events = {.size = sizeof sender_events,
                                                 .on_end = sender_end,
                                                 .on_gather = sender_gather,
                                                 .on_sent = sender_sent,
                                                 .on_closed = sender_closed};

static int sender_open(sender *s, const loop_rig *rig, void pair(int fds[2])) {
    int fds[2];
    pair(fds);
    s->bytes = malloc(s->total);
    assert_non_null(s->bytes);
    pattern_fill(SEED, 0, s->bytes, s->total);
    assert_int_equal(sluice_conn_new(rig->loop, fds[0], &sender_events, s, &s->conn), 0);
    return fds[1];
}

static void send_stream(void pair(int fds[2]), uint64_t total, uint32_t most, uint32_t read_most, size_t pieces,
                        bool small_buffer) {
    loop_rig rig;
    sender s = {.total = total, .most = most, .pieces = pieces};
    socket_reader reader;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    int peer = sender_open(&s, &rig, pair);
    if (small_buffer)
        sockets_hold_little(sluice_conn_fd(s.conn), peer);
    sluice_conn_want_send(s.conn);
    sluice_conn_want_send(s.conn);
    socket_reader_start(&reader, peer, SEED, read_most, 0);
    turn_until(rig.loop, &s.all_sent);
    socket_reader_join(&reader);
    assert_true(reader.matches);
    assert_int_equal(reader.error, 0);
    assert_int_equal(reader.total, total);
    assert_int_equal(s.sent, total);
    assert_false(s.wrong);
    /* Asked until there is nothing, then no more. */
    turn_through(rig.loop, 5);
    unsigned gathers = s.gathers;
    turn_through(rig.loop, 5);
    assert_int_equal(s.gathers, gathers);
    close(peer);
    loop_rig_close(&rig);
    assert_int_equal(s.closed, 1);
    free(s.bytes);
}

static void pieces_are_sent_in_order(void **state) {
    (void)state;
    send_stream(sockets_tcp_pair, 8 << 20, 3000, 100000, SIZE_MAX, false);
    send_stream(sockets_unix_pair, 2 << 20, 3000, 100000, 7, false);
    send_stream(sockets_tcp_pair, 1 << 20, 20, 100000, SIZE_MAX, false);
}

static void partial_sends_go_on_where_they_ended(void **state) {
    (void)state;
    send_stream(sockets_tcp_pair, 2 << 20, 50000, 3000, SIZE_MAX, true);
    send_stream(sockets_unix_pair, 1 << 20, 50000, 1000, SIZE_MAX, true);
}

/* A send that waits for room has nothing: its memory may go, and is asked for anew, once, when
 * there is room. */
static void a_send_that_waits_for_room_holds_nothing(void **state) {
    (void)state;
    void (*const pairs[])(int[2]) = {sockets_tcp_pair, sockets_unix_pair};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        loop_rig rig;
        sender s = {.total = 2 << 20, .most = 50000, .pieces = SIZE_MAX};
        socket_reader reader;
        loop_rig_open(&rig, NULL, NULL, GUARD);
        int peer = sender_open(&s, &rig, pairs[i]);
        sockets_hold_little(sluice_conn_fd(s.conn), peer);
        sluice_conn_want_send(s.conn);
        turn_until_blocked(rig.loop, s.conn);
        assert_false(s.in_flight);
        assert_in_range(s.sent, 1, s.total - 1);
        memset(s.bytes, 0xff, s.total);
        free(s.bytes);
        s.bytes = malloc(s.total);
        assert_non_null(s.bytes);
        pattern_fill(SEED, 0, s.bytes, s.total);
        unsigned gathers = s.gathers;
        sluice_conn_want_send(s.conn);
        turn_through(rig.loop, 5);
        /* By TCP the peer may have room for a piece yet, which the kernel sends after a while. */
        if (pairs[i] == sockets_unix_pair)
            assert_int_equal(s.gathers, gathers);
        assert_true(sluice_conn_is_sending(s.conn));
        socket_reader_start(&reader, peer, SEED, 100000, 0);
        turn_until(rig.loop, &s.all_sent);
        socket_reader_join(&reader);
        assert_true(reader.matches);
        assert_int_equal(reader.total, s.total);
        assert_false(s.wrong);
        close(peer);
        loop_rig_close(&rig);
        free(s.bytes);
    }
}

static void sending_goes_on_after_the_peers_end(void **state) {
    (void)state;
    loop_rig rig;
    sender s = {.total = 1 << 20, .most = 9000, .pieces = 100};
    socket_reader reader;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    int peer = sender_open(&s, &rig, sockets_tcp_pair);
    shutdown(peer, SHUT_WR);
    turn_until_count(rig.loop, &s.ends, 1);
    assert_int_equal(s.error, 0);
    socket_reader_start(&reader, peer, SEED, 4096, 0);
    sluice_conn_want_send(s.conn);
    turn_until(rig.loop, &s.all_sent);
    socket_reader_join(&reader);
    assert_true(reader.matches);
    assert_int_equal(reader.total, s.total);
    assert_int_equal(s.ends, 1);
    assert_false(s.wrong);
    close(peer);
    loop_rig_close(&rig);
    free(s.bytes);
}

static void a_close_ends_a_blocked_send(void **state) {
    (void)state;
    loop_rig rig;
    sender s = {.total = 64 << 20, .most = 1 << 20, .pieces = 8};
    loop_rig_open(&rig, NULL, NULL, GUARD);
    int peer = sender_open(&s, &rig, sockets_tcp_pair);
    sockets_hold_little(sluice_conn_fd(s.conn), peer);
    sluice_conn_want_send(s.conn);
    turn_until_blocked(rig.loop, s.conn);
    uint64_t sent = s.sent;
    sluice_conn_close(s.conn);
    turn_until_count(rig.loop, &s.closed, 1);
    assert_int_equal(s.sent, sent);
    assert_false(s.wrong);
    turn_through(rig.loop, 5);
    assert_int_equal(s.closed, 1);
    assert_int_equal(s.ends, 0);
    close(peer);
    loop_rig_close(&rig);
    free(s.bytes);
}

/* Threads that the kernel has made for this process's operations. */
static unsigned kernel_workers(void) {
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *entry; (entry = readdir(tasks));) {
        char path[sizeof entry->d_name + 32], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *comm = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (!comm)
            continue;
        if (fgets(name, sizeof name, comm) && strncmp(name, "iou-wrk", 7) == 0)
            count++;
        fclose(comm);
    }
    closedir(tasks);
    return count;
}

enum { SLOW = 20 };

/* Turns until the peer's buffer and ours are full. */
static void turn_until_stalled(sluice_loop *loop, const sender *s) {
    uint64_t sent = UINT64_MAX;
    while (sent != s->sent || sent == 0) {
        sent = s->sent;
        turn_through(loop, 20);
    }
}

/*
 * Peers that have finished and do not read, as slow players are: their sockets are always "ready"
 * for a poll that looks for room, and a kernel that then lets a thread of its own wait in each send
 * gives a thousand of them a thousand threads. Before the send, or while it waits.
 */
static void blocked_sends_take_no_threads(void **state) {
    (void)state;
    enum { PEERS = 4 };
    for (int late = 0; late < 2; late++) {
        loop_rig rig;
        sender senders[PEERS] = {0};
        int peers[PEERS];
        unsigned before = kernel_workers();
        loop_rig_open(&rig, NULL, NULL, GUARD);
        for (int i = 0; i < PEERS; i++) {
            senders[i] = (sender){.total = 64 << 10, .most = 20000, .pieces = 8, .repeats = 30};
            peers[i] = sender_open(&senders[i], &rig, i % 2 ? sockets_tcp_pair : sockets_unix_pair);
            sockets_hold_little(sluice_conn_fd(senders[i].conn), peers[i]);
            if (!late)
                shutdown(peers[i], SHUT_WR);
        }
        for (int i = 0; i < PEERS && !late; i++)
            turn_until_count(rig.loop, &senders[i].ends, 1);
        for (int i = 0; i < PEERS; i++) {
            sluice_conn_want_send(senders[i].conn);
            turn_until_stalled(rig.loop, &senders[i]);
            if (late)
                shutdown(peers[i], SHUT_WR);
        }
        turn_through(rig.loop, 50);
        assert_int_equal(kernel_workers(), before);

        /* They go on when the peer reads. */
        for (int i = 0; i < PEERS; i++) {
            socket_reader reader;
            socket_reader_start(&reader, peers[i], SEED, 30000, senders[i].total);
            turn_until(rig.loop, &senders[i].all_sent);
            socket_reader_join(&reader);
            assert_true(reader.matches);
            assert_int_equal(reader.total, senders[i].total * senders[i].repeats);
            assert_false(senders[i].wrong);
            close(peers[i]);
        }
        loop_rig_close(&rig);
        for (int i = 0; i < PEERS; i++)
            free(senders[i].bytes);
    }
}

/* Wherever the kernel has got to with a send that cannot go on, a close ends it. */
static void a_close_ends_a_blocked_send_to_a_finished_peer(void **state) {
    (void)state;
    for (int turns = 0; turns < 40; turns++) {
        loop_rig rig;
        sender senders[SLOW] = {0};
        int peers[SLOW];
        loop_rig_open(&rig, NULL, NULL, GUARD);
        for (int i = 0; i < SLOW; i++) {
            senders[i] = (sender){.total = 64 << 10, .most = 64 << 10, .pieces = 8, .repeats = 1000};
            peers[i] = sender_open(&senders[i], &rig, i % 2 ? sockets_tcp_pair : sockets_unix_pair);
            sockets_hold_little(sluice_conn_fd(senders[i].conn), peers[i]);
            shutdown(peers[i], SHUT_WR);
            turn_until_count(rig.loop, &senders[i].ends, 1);
            sluice_conn_want_send(senders[i].conn);
        }
        for (int i = 0; i < turns; i++)
            assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
        for (int i = 0; i < SLOW; i++)
            sluice_conn_close(senders[i].conn);
        for (int i = 0; i < SLOW; i++) {
            turn_until_count(rig.loop, &senders[i].closed, 1);
            close(peers[i]);
            free(senders[i].bytes);
        }
        loop_rig_close(&rig);
    }
}

static void a_reset_ends_a_blocked_send_with_one_failure(void **state) {
    (void)state;
    loop_rig rig;
    sender s = {.total = 64 << 20, .most = 1 << 20, .pieces = 8};
    loop_rig_open(&rig, NULL, NULL, GUARD);
    int peer = sender_open(&s, &rig, sockets_tcp_pair);
    sockets_hold_little(sluice_conn_fd(s.conn), peer);
    sluice_conn_want_send(s.conn);
    turn_until_blocked(rig.loop, s.conn);
    sockets_reset_on_close(peer);
    close(peer);
    turn_until(rig.loop, &s.failed);
    turn_through(rig.loop, 10);
    assert_int_equal(s.ends, 1);
    assert_true(s.error == -ECONNRESET || s.error == -EPIPE);
    sluice_conn_close(s.conn);
    turn_until_count(rig.loop, &s.closed, 1);
    loop_rig_close(&rig);
    free(s.bytes);
}

typedef struct failing {
    receiver receiver; /* first: its events name it */
    bool wants;
} failing;

static size_t failing_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    failing *f = user;
    (void)conn, (void)max;
    if (!f->wants)
        return 0;
    f->wants = false;
    iov[0] = (struct iovec){(void *)(uintptr_t) "late", 4};
    return 1;
}

/* Sending fails while receiving could go on: the connection has failed all the same, and is told so
 * once. */
static void nothing_is_received_after_a_failure(void **state) {
    (void)state;
    static const sluice_conn_events events = {.size = sizeof events,
                                              .on_data = receiver_data,
                                              .on_end = receiver_end,
                                              .on_gather = failing_gather,
                                              .on_closed = receiver_closed};
    loop_rig rig;
    failing f = {.receiver.seed = SEED, .wants = true};
    int fds[2];
    loop_rig_open(&rig, NULL, NULL, GUARD);
    sockets_tcp_pair(fds);
    assert_int_equal(sluice_conn_new(rig.loop, fds[0], &events, &f, &f.receiver.conn), 0);
    pattern_write(fds[1], SEED, 0, 10);
    turn_until_count(rig.loop, &f.receiver.data, 1);
    assert_int_equal(sluice_conn_finish(f.receiver.conn), 0);
    sluice_conn_want_send(f.receiver.conn);
    turn_until(rig.loop, &f.receiver.told_end);
    assert_int_equal(f.receiver.error, -EPIPE);

    pattern_write(fds[1], SEED, 10, 10);
    turn_through(rig.loop, 10);
    assert_int_equal(f.receiver.data, 1);
    sockets_reset_on_close(fds[1]);
    close(fds[1]);
    turn_through(rig.loop, 10);
    assert_int_equal(f.receiver.ends, 1);
    assert_int_equal(f.receiver.data, 1);
    loop_rig_close(&rig);
    assert_int_equal(f.receiver.closed, 1);
}

typedef struct eager {
    unsigned gathers;
} eager;

static size_t eager_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    eager *e = user;
    (void)iov, (void)max;
    /* Wants on although it has nothing, for a while. */
    if (++e->gathers < 1000)
        sluice_conn_want_send(conn);
    return 0;
}

static void a_gather_is_asked_once_a_turn(void **state) {
    (void)state;
    static const sluice_conn_events events = {.size = sizeof events, .on_gather = eager_gather};
    loop_rig rig;
    eager e = {0};
    sluice_conn *conn;
    int fds[2];
    loop_rig_open(&rig, NULL, NULL, GUARD);
    sockets_unix_pair(fds);
    assert_int_equal(sluice_conn_new(rig.loop, fds[0], &events, &e, &conn), 0);
    sluice_conn_want_send(conn);
    turn_through(rig.loop, 3);
    assert_int_equal(e.gathers, 3);
    close(fds[1]);
    loop_rig_close(&rig);
}

/* More sends and pieces than one submission has room for. */
enum { CROWD = 600, CROWD_PIECES = 20, CROWD_ROUNDS = 3 };

typedef struct member {
    sluice_conn *conn;
    int peer;
    uint8_t bytes[CROWD_PIECES][50];
    size_t sent, wanted;
} member;

static size_t member_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    member *m = user;
    size_t n = sizeof m->bytes, piece = sizeof m->bytes[0];
    size_t count = 0;
    (void)conn;
    for (size_t at = m->sent; at < m->wanted && count < max; at += piece - at % piece)
        iov[count++] = (struct iovec){(uint8_t *)m->bytes + at % n, piece - at % piece};
    return count;
}

static void member_sent(sluice_conn *conn, size_t bytes, void *user) {
    member *m = user;
    (void)conn;
    m->sent += bytes;
}

static void many_send_in_one_turn(void **state) {
    (void)state;
    static const sluice_conn_events events = {
        .size = sizeof events, .on_gather = member_gather, .on_sent = member_sent};
    if (!sockets_allow(2 * CROWD + 100)) {
        print_message("skipped: the limit of open descriptors is below %d\n", 2 * CROWD + 100);
        skip();
    }
    loop_rig rig;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    member *members = calloc(CROWD, sizeof *members);
    assert_non_null(members);
    for (unsigned i = 0; i < CROWD; i++) {
        int fds[2];
        sockets_unix_pair(fds);
        members[i].peer = fds[1];
        pattern_fill(i, 0, members[i].bytes, sizeof members[i].bytes);
        assert_int_equal(sluice_conn_new(rig.loop, fds[0], &events, &members[i], &members[i].conn), 0);
    }
    /* The first round comes before the loop's first turn. */
    for (int round = 1; round <= CROWD_ROUNDS; round++) {
        for (int i = 0; i < CROWD; i++) {
            members[i].wanted += sizeof members[i].bytes;
            sluice_conn_want_send(members[i].conn);
        }
        for (int i = 0; i < CROWD; i++)
            turn_until_size(rig.loop, &members[i].sent, members[i].wanted);
        for (int i = 0; i < CROWD; i++) {
            uint8_t bytes[sizeof members[i].bytes + 1];
            assert_int_equal(members[i].sent, members[i].wanted);
            assert_int_equal(recv(members[i].peer, bytes, sizeof bytes, MSG_DONTWAIT), sizeof members[i].bytes);
            assert_memory_equal(bytes, members[i].bytes, sizeof members[i].bytes);
        }
    }
    for (int i = 0; i < CROWD; i++)
        close(members[i].peer);
    loop_rig_close(&rig);
    free(members);
}

/* A gather that closes so many others that the cancels fill the submission queue, once exactly and
 * once beyond. */
typedef struct kicker {
    sluice_conn **others;
    size_t count;
    const char *text;
    bool gathered;
    size_t sent;
} kicker;

static size_t kicker_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    kicker *k = user;
    (void)conn, (void)max;
    if (k->gathered)
        return 0;
    k->gathered = true;
    iov[0] = (struct iovec){(void *)(uintptr_t)k->text, strlen(k->text)};
    for (size_t i = 0; i < k->count; i++)
        sluice_conn_close(k->others[i]);
    return 1;
}

static void kicker_sent(sluice_conn *conn, size_t bytes, void *user) {
    kicker *k = user;
    (void)conn;
    k->sent += bytes;
}

static const sluice_conn_events kicker_events = {
    .size = sizeof kicker_events, .on_gather = kicker_gather, .on_sent = kicker_sent};
static const sluice_conn_events quiet_events = {.size = sizeof quiet_events};

static void kick(size_t count) {
    loop_rig rig;
    kicker first = {.text = "before"}, second = {.text = "behind", .count = count};
    sluice_conn *conns[2];
    int pairs[2][2];
    char text[16] = "";
    loop_rig_open(&rig, NULL, NULL, GUARD);
    second.others = calloc(count, sizeof(sluice_conn *));
    int *peers = calloc(count, sizeof *peers);
    assert_non_null(second.others);
    assert_non_null(peers);
    for (size_t i = 0; i < count; i++) {
        int fds[2];
        sockets_unix_pair(fds);
        peers[i] = fds[1];
        assert_int_equal(sluice_conn_new(rig.loop, fds[0], &quiet_events, NULL, &second.others[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        sockets_unix_pair(pairs[i]);
        assert_int_equal(sluice_conn_new(rig.loop, pairs[i][0], &kicker_events, i ? &second : &first, &conns[i]), 0);
    }
    /* All armed, so that each close is a cancel. */
    while (stats_of(rig.loop).waiting > 0)
        turn_through(rig.loop, 1);
    turn_through(rig.loop, 5);
    sluice_conn_want_send(conns[0]);
    sluice_conn_want_send(conns[1]);
    turn_until_size(rig.loop, &first.sent, 6);
    turn_until_size(rig.loop, &second.sent, 6);
    assert_int_equal(recv(pairs[0][1], text, sizeof text, MSG_DONTWAIT), 6);
    assert_memory_equal(text, "before", 6);
    assert_int_equal(recv(pairs[1][1], text, sizeof text, MSG_DONTWAIT), 6);
    assert_memory_equal(text, "behind", 6);
    while (stats_of(rig.loop).connections > 2)
        turn(rig.loop);
    for (size_t i = 0; i < count; i++)
        close(peers[i]);
    for (int i = 0; i < 2; i++)
        close(pairs[i][1]);
    loop_rig_close(&rig);
    free(second.others);
    free(peers);
}

static void a_gather_may_close_many_others(void **state) {
    (void)state;
    if (!sockets_allow(2 * URING_ENTRIES + 400)) {
        print_message("skipped: the limit of open descriptors is below %d\n", 2 * URING_ENTRIES + 400);
        skip();
    }
    kick(URING_ENTRIES + 100);
    kick(URING_ENTRIES - 1);
}

/* Listeners. */

typedef struct acceptor {
    loop_rig *rig;
    unsigned accepted;
    int last;
    bool close_on_exec;
    bool frees, keeps;
    unsigned closed;
} acceptor;

static void accept_one(sluice_listener *listener, int fd, void *user) {
    acceptor *a = user;
    a->accepted++;
    a->last = fd;
    a->close_on_exec = fcntl(fd, F_GETFD) & FD_CLOEXEC;
    if (!a->keeps)
        close(fd);
    if (a->frees)
        sluice_listener_free(listener);
}

/* This process's own: a port that it has given up is not another test's a moment later. */
static struct sockaddr_in loopback(void) {
    uint32_t own = (INADDR_LOOPBACK & IN_CLASSA_NET) | 1 << 16 | ((uint32_t)getpid() & 0xFFFF);
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(own)};
}

static sluice_listener *listen_on_loopback(loop_rig *rig, sluice_listener_fn *accepted, void *user,
                                           struct sockaddr_storage *ret_address) {
    struct sockaddr_in address = loopback();
    sluice_listener *listener;
    assert_int_equal(
        sluice_listener_new(rig->loop, (struct sockaddr *)&address, sizeof address, accepted, user, &listener), 0);
    assert_int_equal(sluice_listener_address(listener, ret_address), 0);
    assert_int_not_equal(((struct sockaddr_in *)ret_address)->sin_port, 0);
    return listener;
}

/* A socket, not yet connected. */
static int client_new(const struct sockaddr_storage *address) {
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    return fd;
}

static void client_connect(int fd, const struct sockaddr_storage *address) {
    assert_int_equal(connect(fd, (const struct sockaddr *)address, sizeof *address), 0);
}

static void a_listener_accepts(void **state) {
    (void)state;
    loop_rig rig;
    acceptor a = {0};
    struct sockaddr_storage address;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    sluice_listener *listener = listen_on_loopback(&rig, accept_one, &a, &address);
    for (unsigned i = 1; i <= 50; i++) {
        int fd = client_new(&address);
        client_connect(fd, &address);
        turn_until_count(rig.loop, &a.accepted, i);
        assert_true(a.close_on_exec);
        close(fd);
    }
    sluice_listener_free(listener);
    sluice_listener_free(NULL);
    turn_through(rig.loop, 5);
    int fd = client_new(&address);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), -1);
    assert_int_equal(errno, ECONNREFUSED);
    close(fd);
    loop_rig_close(&rig);
}

static void listener_arguments_are_checked(void **state) {
    (void)state;
    loop_rig rig;
    acceptor a = {0};
    struct sockaddr_storage taken;
    struct sockaddr_in address = loopback();
    struct sockaddr unknown = {.sa_family = AF_MAX};
    sluice_listener *const untouched = (sluice_listener *)(void *)&a;
    sluice_listener *listener = untouched;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    listen_on_loopback(&rig, accept_one, &a, &taken);
    assert_int_equal(
        sluice_listener_new(rig.loop, (struct sockaddr *)&taken, sizeof address, accept_one, &a, &listener),
        -EADDRINUSE);
    assert_int_equal(sluice_listener_new(rig.loop, NULL, 0, accept_one, &a, &listener), -EINVAL);
    assert_int_equal(sluice_listener_new(rig.loop, (struct sockaddr *)&address, sizeof address, NULL, &a, &listener),
                     -EINVAL);
    assert_int_equal(sluice_listener_new(rig.loop, &unknown, sizeof unknown, accept_one, &a, &listener), -EAFNOSUPPORT);
    assert_int_equal(sluice_listener_new(rig.loop, (struct sockaddr *)&address, 1, accept_one, &a, &listener), -EINVAL);
    assert_ptr_equal(listener, untouched);
    loop_rig_close(&rig);
}

static void a_listener_takes_ipv6(void **state) {
    (void)state;
    loop_rig rig;
    acceptor a = {0};
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_storage bound;
    sluice_listener *listener;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    int error = sluice_listener_new(rig.loop, (struct sockaddr *)&address, sizeof address, accept_one, &a, &listener);
    if (error == -EAFNOSUPPORT || error == -EADDRNOTAVAIL) {
        loop_rig_close(&rig);
        print_message("skipped: this machine has no IPv6\n");
        skip();
    }
    assert_int_equal(error, 0);
    assert_int_equal(sluice_listener_address(listener, &bound), 0);
    int fd = client_new(&bound);
    client_connect(fd, &bound);
    turn_until_count(rig.loop, &a.accepted, 1);
    close(fd);
    loop_rig_close(&rig);
}

static void a_freed_listener_accepts_no_more(void **state) {
    (void)state;
    enum { CLIENTS = 20 };
    /* Freed before it was armed; from its own call, with others in the backlog; and after the
     * turn. */
    for (int how = 0; how < 3; how++) {
        loop_rig rig;
        acceptor a = {.frees = how == 1};
        struct sockaddr_storage address;
        int clients[CLIENTS];
        char byte;
        loop_rig_open(&rig, NULL, NULL, GUARD);
        sluice_listener *listener = listen_on_loopback(&rig, accept_one, &a, &address);
        if (how == 2)
            turn_through(rig.loop, 2);
        for (int i = 0; i < CLIENTS; i++) {
            clients[i] = client_new(&address);
            client_connect(clients[i], &address);
        }
        if (how != 1)
            sluice_listener_free(listener);
        turn_through(rig.loop, 10);
        assert_int_equal(a.accepted, how == 1);
        /* None hangs: each peer is told. */
        for (int i = 0; i < CLIENTS; i++) {
            assert_true(recv(clients[i], &byte, 1, 0) <= 0);
            close(clients[i]);
        }
        loop_rig_close(&rig);
        assert_int_equal(a.accepted, how == 1);
    }
}

/* More entries than the queue takes before the first turn: a free must not be lost among them. */
static void listeners_freed_before_the_first_turn_are_closed(void **state) {
    (void)state;
    enum { LISTENERS = URING_ENTRIES * 2 / 3 };
    if (!sockets_allow(LISTENERS + 400)) {
        print_message("skipped: the limit of open descriptors is below %d\n", LISTENERS + 400);
        skip();
    }
    loop_rig rig;
    acceptor a = {0};
    static sluice_listener *listeners[LISTENERS];
    static struct sockaddr_storage addresses[LISTENERS];
    loop_rig_open(&rig, NULL, NULL, GUARD);
    for (int i = 0; i < LISTENERS; i++)
        listeners[i] = listen_on_loopback(&rig, accept_one, &a, &addresses[i]);
    for (int i = 0; i < LISTENERS; i++)
        sluice_listener_free(listeners[i]);
    /* The kernel reports a few at a time. */
    turn_through(rig.loop, LISTENERS / 4);
    for (int i = 0; i < LISTENERS; i++) {
        int fd = client_new(&addresses[i]);
        assert_int_equal(connect(fd, (struct sockaddr *)&addresses[i], sizeof addresses[i]), -1);
        close(fd);
    }
    loop_rig_close(&rig);
}

/* Every free descriptor below the limit is in use; the peer waits until one is closed, or the limit
 * rises. */
static void a_peer_waits_while_descriptors_are_exhausted(void **state) {
    (void)state;
    for (int rise = 0; rise < 2; rise++) {
        loop_rig rig;
        acceptor a = {0};
        struct sockaddr_storage address;
        struct rlimit limit;
        loop_rig_open(&rig, NULL, NULL, GUARD);
        sluice_listener *listener = listen_on_loopback(&rig, accept_one, &a, &address);
        int client = client_new(&address);
        int spare = dup(client);
        assert_true(spare > client);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
        struct rlimit low = {.rlim_cur = (rlim_t)spare + 1, .rlim_max = limit.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
        client_connect(client, &address);
        turn_through(rig.loop, 20);
        assert_int_equal(a.accepted, 0);

        if (rise)
            assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        else
            close(spare);
        turn_until_count(rig.loop, &a.accepted, 1);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        if (rise)
            close(spare);
        close(client);
        sluice_listener_free(listener);
        loop_rig_close(&rig);
        assert_int_equal(a.accepted, 1);
    }
}

/* Lives: connections come, say something, and go. */

enum { LIVES = 1000 };

typedef struct life {
    acceptor *acceptor;
    receiver receiver;
} life;

static void life_end(sluice_conn *conn, int error, void *user) {
    receiver_end(conn, error, &((life *)user)->receiver);
    sluice_conn_close(conn);
}

static void life_data(sluice_conn *conn, void *user) {
    receiver_data(conn, &((life *)user)->receiver);
}

static void life_closed(sluice_conn *conn, void *user) {
    life *l = user;
    (void)conn;
    if (l->receiver.place == 3000 && !l->receiver.differs && l->receiver.error == 0)
        l->acceptor->closed++;
    free(l);
}

static void begin_life(sluice_listener *listener, int fd, void *user) {
    static const sluice_conn_events events = {
        .size = sizeof events, .on_data = life_data, .on_end = life_end, .on_closed = life_closed};
    acceptor *a = user;
    life *l = calloc(1, sizeof *l);
    (void)listener;
    assert_non_null(l);
    l->acceptor = a;
    l->receiver.seed = SEED;
    a->accepted++;
    assert_int_equal(sluice_conn_new(a->rig->loop, fd, &events, l, &l->receiver.conn), 0);
}

static void *live(void *user) {
    const struct sockaddr_storage *address = user;
    uint8_t bytes[3000];
    pattern_fill(SEED, 0, bytes, sizeof bytes);
    for (int i = 0; i < LIVES; i++) {
        char byte;
        int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool well = connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 &&
                    send(fd, bytes, sizeof bytes, MSG_NOSIGNAL) == (ssize_t)sizeof bytes && shutdown(fd, SHUT_WR) == 0;
        /* The other side closes. */
        well = well && recv(fd, &byte, 1, 0) == 0;
        close(fd);
        if (!well)
            abort();
    }
    return NULL;
}

static void connections_come_and_go(void **state) {
    (void)state;
    loop_rig rig;
    acceptor a = {.rig = &rig};
    struct sockaddr_storage address;
    pthread_t thread;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    listen_on_loopback(&rig, begin_life, &a, &address);
    assert_int_equal(pthread_create(&thread, NULL, live, &address), 0);
    turn_until_count(rig.loop, &a.closed, LIVES);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(a.accepted, LIVES);
    assert_int_equal(stats_of(rig.loop).connections, 0);
    loop_rig_close(&rig);
}

/*
 * Everything at random, on a seed: what arrives is what was written, what is told is allowed, and
 * in the end every block is back.
 */
enum { ACTORS = 24, HOARD = 40 };

typedef struct actor {
    struct stage *stage;
    sluice_conn *conn; /* NULL when closed */
    int peer;          /* -1 when closed */
    uint32_t seed;
    uint64_t written, place; /* of what the peer writes: by the peer; consumed */
    uint64_t sent, read;     /* of what the connection sends: accounted for; by the peer */
    size_t gathered;
    bool closing, finished, failed, peer_finished;
} actor;

typedef struct stage {
    loop_rig rig;
    uint64_t random;
    bool wrong;
    const char *what;
    uint8_t bytes[1 << 16]; /* sent cyclically */
    actor actors[ACTORS];
    sluice_block *hoard[HOARD]; /* blocks taken out, for pressure */
    unsigned hoarded;
    uint32_t most_hoarded;
    unsigned born;
} stage;

static void wrong(stage *s, bool is_wrong, const char *what) {
    if (is_wrong && !s->wrong) {
        s->wrong = true;
        s->what = what;
    }
}

static void actor_close(actor *a) {
    a->closing = true;
    sluice_conn_close(a->conn);
}

static void actor_consume(actor *a) {
    sluice_chain *chain = sluice_conn_chain(a->conn);
    size_t length = sluice_chain_length(chain);
    if (length > 0 && random_between(&a->stage->random, 0, 2) > 0)
        length = random_between(&a->stage->random, 0, (uint32_t)length);
    wrong(a->stage, !chain_is_sound(chain), "a chain is not sound");
    wrong(a->stage, !pattern_consume(chain, length, a->seed, &a->place), "received bytes differ");
}

static void actor_fidget(actor *a) {
    switch (random_between(&a->stage->random, 0, 60)) {
    case 0:
        actor_close(a);
        break;
    case 1:
    case 2:
        sluice_conn_pause(a->conn);
        break;
    case 3:
    case 4:
    case 5:
        sluice_conn_resume(a->conn);
        break;
    case 6:
        sluice_conn_set_need(a->conn, random_between(&a->stage->random, 0, 9000));
        break;
    case 7:
        sluice_conn_want_send(a->conn);
        break;
    case 8:
        assert_int_equal(sluice_conn_set_timeout(a->conn, random_between(&a->stage->random, 0, 3)), 0);
        break;
    default:
        break;
    }
}

static void actor_data(sluice_conn *conn, void *user) {
    actor *a = user;
    wrong(a->stage, a->closing, "data after a close");
    wrong(a->stage, a->failed, "data after a failure");
    wrong(a->stage, conn != a->conn, "another connection's data");
    actor_consume(a);
    actor_fidget(a);
}

static void actor_end(sluice_conn *conn, int error, void *user) {
    actor *a = user;
    wrong(a->stage, a->closing, "an end after a close");
    wrong(a->stage, a->failed, "an end after a failure");
    if (error == -ETIMEDOUT) {
        wrong(a->stage, a->finished, "silence after the end");
        sluice_conn_resume(conn);
        return;
    }
    wrong(a->stage, error == 0 && a->finished, "a second end");
    wrong(a->stage, error == 0 && !a->peer_finished, "an end that the peer has not made");
    a->finished = true;
    a->failed = error != 0;
    actor_fidget(a);
}

static size_t actor_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    actor *a = user;
    stage *s = a->stage;
    size_t count = random_between(&s->random, 0, max < 30 ? (uint32_t)max : 30);
    uint64_t at = a->sent;
    (void)conn;
    wrong(s, a->closing || a->failed, "a gather after the end");
    for (size_t i = 0; i < count; i++) {
        size_t n = random_between(&s->random, 1, 3000);
        if (n > sizeof s->bytes - at % sizeof s->bytes)
            n = sizeof s->bytes - at % sizeof s->bytes;
        iov[i] = (struct iovec){s->bytes + at % sizeof s->bytes, n};
        at += n;
    }
    a->gathered = at - a->sent;
    actor_fidget(a);
    return count;
}

static void actor_sent(sluice_conn *conn, size_t bytes, void *user) {
    actor *a = user;
    (void)conn;
    wrong(a->stage, a->closing, "sent after a close");
    wrong(a->stage, bytes > a->gathered, "more sent than gathered");
    a->sent += bytes;
    actor_fidget(a);
}

static void actor_closed(sluice_conn *conn, void *user) {
    actor *a = user;
    wrong(a->stage, !a->closing || a->conn != conn, "closed unasked");
    a->conn = NULL;
}

static const sluice_conn_events actor_events = {.size = sizeof actor_events,
                                                .on_data = actor_data,
                                                .on_end = actor_end,
                                                .on_gather = actor_gather,
                                                .on_sent = actor_sent,
                                                .on_closed = actor_closed};

static void actor_begin(stage *s, actor *a) {
    int fds[2];
    if (random_between(&s->random, 0, 1))
        sockets_tcp_pair(fds);
    else
        sockets_unix_pair(fds);
    *a = (actor){.stage = s, .peer = fds[1], .seed = ++s->born};
    assert_int_equal(sluice_conn_new(s->rig.loop, fds[0], &actor_events, a, &a->conn), 0);
}

static void actor_peer_writes(actor *a) {
    uint8_t bytes[9000];
    size_t n = random_between(&a->stage->random, 0, 3) ? random_between(&a->stage->random, 1, 200)
                                                       : random_between(&a->stage->random, 1, sizeof bytes);
    if (a->peer_finished)
        return;
    pattern_fill(a->seed, a->written, bytes, n);
    ssize_t sent = send(a->peer, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0)
        a->written += (uint64_t)sent;
}

static void actor_peer_reads(actor *a) {
    uint8_t bytes[20000];
    ssize_t got = recv(a->peer, bytes, random_between(&a->stage->random, 1, sizeof bytes), MSG_DONTWAIT);
    for (ssize_t i = 0; i < got; i++, a->read++)
        wrong(a->stage, bytes[i] != a->stage->bytes[a->read % sizeof a->stage->bytes], "sent bytes differ");
}

static void actor_peer_ends(actor *a) {
    switch (random_between(&a->stage->random, 0, 2)) {
    case 0:
        shutdown(a->peer, SHUT_WR);
        break;
    case 1:
        sockets_reset_on_close(a->peer);
        /* fall through */
    default:
        close(a->peer);
        a->peer = -1;
        break;
    }
    a->peer_finished = true;
}

static void stage_hoard(stage *s) {
    while (s->hoarded > 0)
        sluice_block_release(s->hoard[--s->hoarded]);
    uint32_t count = random_between(&s->random, 0, s->most_hoarded);
    while (s->hoarded < count && sluice_block_get(s->rig.pool, &s->hoard[s->hoarded]) == 0)
        s->hoarded++;
}

static void actor_acts(actor *a) {
    stage *s = a->stage;
    uint32_t what = random_between(&s->random, 0, 99);
    if (what < 40 && a->peer >= 0)
        actor_peer_writes(a);
    else if (what < 50 && a->peer >= 0)
        actor_peer_reads(a);
    else if (what < 51 && a->peer >= 0)
        actor_peer_ends(a);
    else if (what < 60 && a->conn && !a->closing)
        actor_consume(a);
    else if (what < 70 && a->conn && !a->closing)
        actor_fidget(a);
    else if (what < 75 && a->conn && !a->closing)
        sluice_conn_resume(a->conn);
    else if (what < 76)
        stage_hoard(s);
    else if (what < 77 && a->conn && !a->closing && a->peer < 0)
        actor_close(a);
    else if (what > 85)
        assert_int_equal(sluice_loop_turn(s->rig.loop, 0), 0);
}

static void live_at_random(const sluice_pool_options *options, uint32_t most_hoarded, unsigned steps) {
    stage *s = calloc(1, sizeof *s);
    assert_non_null(s);
    loop_rig_open(&s->rig, options, NULL, GUARD);
    s->most_hoarded = most_hoarded;
    pattern_fill(SEED, 0, s->bytes, sizeof s->bytes);
    for (int i = 0; i < ACTORS; i++)
        actor_begin(s, &s->actors[i]);
    for (unsigned step = 0; step < steps && !s->wrong; step++) {
        actor *a = &s->actors[random_between(&s->random, 0, ACTORS - 1)];
        if (!a->conn) {
            if (a->peer >= 0)
                close(a->peer);
            actor_begin(s, a);
        }
        actor_acts(a);
    }
    if (s->wrong)
        fail_msg("%s", s->what);
    s->most_hoarded = 0;
    stage_hoard(s);
    for (int i = 0; i < ACTORS; i++)
        s->actors[i].closing = true;
    loop_rig_close(&s->rig);
    assert_true(s->born > ACTORS);
    for (int i = 0; i < ACTORS; i++) {
        assert_null(s->actors[i].conn);
        if (s->actors[i].peer >= 0)
            close(s->actors[i].peer);
    }
    if (s->wrong)
        fail_msg("%s", s->what);
    free(s);
}

static void random_lives_with_memory_to_spare(void **state) {
    (void)state;
    live_at_random(NULL, 0, 150000);
}

static void random_lives_under_pressure(void **state) {
    (void)state;
    sluice_pool_options options = {
        .size = sizeof options, .slab_blocks = 8, .max_blocks = 64, .reserve_blocks = 4, .no_huge_pages = true};
    live_at_random(&options, HOARD, 300000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(tcp_streams_arrive_unchanged),
        cmocka_unit_test(unix_streams_arrive_unchanged),
        cmocka_unit_test(streams_arrive_unchanged_in_batches),
        cmocka_unit_test(streams_arrive_unchanged_without_features),
        cmocka_unit_test(blocks_need_not_be_filled_to_their_end),
        cmocka_unit_test(nothing_is_told_below_the_need),
        cmocka_unit_test(a_lower_need_is_met_by_what_is_there),
        cmocka_unit_test(a_need_that_falls_in_on_data_is_met),
        cmocka_unit_test(an_end_without_bytes_is_no_data),
        cmocka_unit_test(a_reset_is_an_error),
        cmocka_unit_test(urgent_bytes_disturb_no_stream),
        cmocka_unit_test(urgent_bytes_under_signals_hide_nothing),
        cmocka_unit_test(non_blocking_descriptors_do_not_spin),
        cmocka_unit_test(a_pause_stops_and_a_resume_goes_on),
        cmocka_unit_test(a_pause_before_the_first_turn_holds),
        cmocka_unit_test(a_pause_and_a_resume_in_one_turn_lose_nothing),
        cmocka_unit_test(events_can_be_exchanged),
        cmocka_unit_test(any_call_may_close),
        cmocka_unit_test(a_call_may_close_another_connection),
        cmocka_unit_test(a_close_with_data_in_flight_returns_all_blocks),
        cmocka_unit_test(pieces_are_sent_in_order),
        cmocka_unit_test(partial_sends_go_on_where_they_ended),
        cmocka_unit_test(a_send_that_waits_for_room_holds_nothing),
        cmocka_unit_test(sending_goes_on_after_the_peers_end),
        cmocka_unit_test(a_close_ends_a_blocked_send),
        cmocka_unit_test(blocked_sends_take_no_threads),
        cmocka_unit_test(a_close_ends_a_blocked_send_to_a_finished_peer),
        cmocka_unit_test(a_reset_ends_a_blocked_send_with_one_failure),
        cmocka_unit_test(nothing_is_received_after_a_failure),
        cmocka_unit_test(a_gather_is_asked_once_a_turn),
        cmocka_unit_test(many_send_in_one_turn),
        cmocka_unit_test(a_gather_may_close_many_others),
        cmocka_unit_test(a_listener_accepts),
        cmocka_unit_test(listener_arguments_are_checked),
        cmocka_unit_test(a_listener_takes_ipv6),
        cmocka_unit_test(a_freed_listener_accepts_no_more),
        cmocka_unit_test(listeners_freed_before_the_first_turn_are_closed),
        cmocka_unit_test(a_peer_waits_while_descriptors_are_exhausted),
        cmocka_unit_test(connections_come_and_go),
        cmocka_unit_test(random_lives_with_memory_to_spare),
        cmocka_unit_test(random_lives_under_pressure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
