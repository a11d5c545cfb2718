/* Connections: what arrives, byte for byte, and how they need, pause and end. */
#include <sluice/conn.h>

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/loop.h>

#include "backends/uring.h"
#include "memory/chain.h"
#include "support/conn_rig.h"
#include "support/sockets.h"

static size_t buffered(sluice_conn *conn) {
    return sluice_chain_length(sluice_conn_chain(conn));
}

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

int main(void) {
    const struct CMUnitTest tests[] = {
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
