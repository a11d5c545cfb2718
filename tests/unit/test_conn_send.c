/* Connections: what is sent, byte for byte, and how sends wait, end and fail. */
#include <sluice/conn.h>

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/loop.h>

#include "backends/uring.h"
#include "loop/loop.h"
#include "support/conn_rig.h"
#include "support/sockets.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
