/* How long a connection may receive nothing. No check here asks for more speed than any machine
 * has. */
#include <sluice/conn.h>

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/reader.h>

#include "memory/chain.h"
#include "support/clock.h"
#include "support/feed.h"
#include "support/sockets.h"

enum { GUARD = 100, TIME = 20, LONG = 3 * TIME, BLOCK = 512, BLOCKS = 16 };

static const sluice_pool_options pool_options = {.size = sizeof pool_options,
                                                 .block_size = BLOCK,
                                                 .slab_blocks = 8,
                                                 .max_blocks = BLOCKS,
                                                 .reserve_blocks = 1,
                                                 .no_huge_pages = true};

typedef struct hearer {
    loop_rig rig;
    sluice_conn *conn;
    sluice_reader *reader;
    int peer;
    unsigned ends, data;
    int error;
    bool resumes; /* in on_end, at once */
    uint64_t ended_at;
    bool told; /* of a receive into memory */
    int told_error;
    size_t told_done;
} hearer;

static void hearer_data(sluice_conn *conn, void *user) {
    hearer *h = user;
    (void)conn;
    h->data++;
}

static void hearer_end(sluice_conn *conn, int error, void *user) {
    hearer *h = user;
    h->ends++;
    h->error = error;
    h->ended_at = clock_now();
    if (h->resumes)
        sluice_conn_resume(conn);
}

static const sluice_conn_events hearer_events = {
    .size = sizeof hearer_events, .on_data = hearer_data, .on_end = hearer_end};

static void hearer_open(hearer *h) {
    int fds[2];
    *h = (hearer){0};
    loop_rig_open(&h->rig, &pool_options, NULL, GUARD);
    sockets_tcp_pair(fds);
    h->peer = fds[1];
    assert_int_equal(sluice_conn_new(h->rig.loop, fds[0], &hearer_events, h, &h->conn), 0);
    assert_int_equal(sluice_reader_new(sluice_conn_chain(h->conn), &h->reader), 0);
    sluice_conn_attach_reader(h->conn, h->reader);
}

static void hearer_close(hearer *h) {
    sluice_reader_free(h->reader);
    sluice_conn_close(h->conn);
    close(h->peer);
    sluice_loop_free(h->rig.loop);
    feed_assert_returned(h->rig.pool);
    sluice_pool_free(h->rig.pool);
}

static void set_flag(sluice_timer *timer, void *user) {
    (void)timer;
    *(bool *)user = true;
}

static void turn_for(hearer *h, unsigned ms) {
    sluice_timer *timer;
    bool over = false;
    assert_int_equal(sluice_timer_new(h->rig.loop, set_flag, &over, &timer), 0);
    sluice_timer_start(timer, ms);
    turn_until(h->rig.loop, &over);
    sluice_timer_free(timer);
}

/* Told once, no earlier than it may be, and the reader says the same. */
static void expect_timeout(hearer *h, unsigned ends, uint64_t since) {
    turn_until_count(h->rig.loop, &h->ends, ends);
    assert_int_equal(h->error, -ETIMEDOUT);
    assert_true(h->ended_at >= since + TIME);
    uint8_t byte;
    assert_int_equal(sluice_reader_u8(h->reader, &byte), -ETIMEDOUT);
}

static void expect_text(hearer *h, const char *text) {
    char out[32];
    size_t n = strlen(text);
    turn_until_buffered(h->rig.loop, h->conn, n);
    assert_int_equal(sluice_reader_copy(h->reader, out, sizeof out), n);
    assert_memory_equal(out, text, n);
}

static void silence_is_told_once_and_loses_nothing(void **state) {
    (void)state;
    hearer h;
    hearer_open(&h);
    uint64_t since = clock_now();
    assert_int_equal(sluice_conn_set_timeout(h.conn, TIME), 0);
    expect_timeout(&h, 1, since);
    /* What comes now stays with the kernel. */
    sockets_write(h.peer, "late", 4);
    turn_for(&h, LONG);
    assert_int_equal(h.ends, 1);
    assert_int_equal(h.data, 0);
    clock_stop();
    since = clock_now();
    sluice_conn_resume(h.conn);
    uint8_t byte;
    assert_int_equal(sluice_reader_u8(h.reader, &byte), -EAGAIN);
    expect_text(&h, "late");
    clock_go_on();
    expect_timeout(&h, 2, since);
    /* The end is told in its place. */
    clock_stop();
    sluice_conn_resume(h.conn);
    shutdown(h.peer, SHUT_WR);
    turn_until_count(h.rig.loop, &h.ends, 3);
    clock_go_on();
    assert_int_equal(h.error, 0);
    assert_int_equal(sluice_reader_u8(h.reader, &byte), -ENODATA);
    turn_for(&h, LONG);
    assert_int_equal(h.ends, 3);
    hearer_close(&h);
}

static void bytes_put_it_off(void **state) {
    (void)state;
    hearer h;
    hearer_open(&h);
    h.resumes = true;
    assert_int_equal(sluice_conn_set_timeout(h.conn, TIME), 0);
    for (unsigned i = 1; i <= 5; i++) {
        turn_for(&h, TIME / 2);
        uint64_t since = clock_now();
        sockets_write(h.peer, "x", 1);
        turn_until_count(h.rig.loop, &h.data, i);
        unsigned ends = h.ends;
        turn_until_count(h.rig.loop, &h.ends, ends + 1);
        assert_true(h.ended_at >= since + TIME);
    }
    expect_text(&h, "xxxxx");
    hearer_close(&h);
}

static void a_pause_does_not_count(void **state) {
    (void)state;
    hearer h;
    hearer_open(&h);
    assert_int_equal(sluice_conn_set_timeout(h.conn, TIME), 0);
    sluice_conn_pause(h.conn);
    turn_for(&h, LONG);
    assert_int_equal(h.ends, 0);
    /* Set in a pause, it begins when that ends. */
    assert_int_equal(sluice_conn_set_timeout(h.conn, 1), 0);
    turn_for(&h, LONG);
    assert_int_equal(h.ends, 0);
    assert_int_equal(sluice_conn_set_timeout(h.conn, TIME), 0);
    uint64_t since = clock_now();
    sluice_conn_resume(h.conn);
    expect_timeout(&h, 1, since);
    hearer_close(&h);
}

/* It is not the peer's fault when there is no block to receive into. */
static void want_of_blocks_does_not_count(void **state) {
    (void)state;
    hearer h;
    uint8_t bytes[2 * BLOCKS * BLOCK] = {0};
    hearer_open(&h);
    sockets_write(h.peer, bytes, sizeof bytes);
    sluice_loop_stats stats = {.size = sizeof stats};
    while (stats.waiting == 0) {
        assert_int_equal(sluice_loop_turn(h.rig.loop, 1), 0);
        sluice_loop_get_stats(h.rig.loop, &stats);
    }
    assert_int_equal(sluice_conn_set_timeout(h.conn, 1), 0);
    turn_for(&h, TIME);
    assert_int_equal(h.ends, 0);
    assert_int_equal(sluice_conn_set_timeout(h.conn, 0), 0);
    /* The rest comes when there are blocks again. */
    assert_int_equal(sluice_reader_skip(h.reader, sizeof bytes), 0);
    while (sluice_reader_skipping(h.reader) > 0) {
        turn(h.rig.loop);
        assert_int_equal(sluice_reader_skip(h.reader, 0), 0);
    }
    assert_int_equal(h.ends, 0);
    hearer_close(&h);
}

static void taken_back_or_closed_it_is_not_told(void **state) {
    (void)state;
    hearer h;
    hearer_open(&h);
    assert_int_equal(sluice_conn_set_timeout(h.conn, 0), 0);
    assert_int_equal(sluice_conn_set_timeout(h.conn, TIME), 0);
    assert_int_equal(sluice_conn_set_timeout(h.conn, 0), 0);
    turn_for(&h, LONG);
    assert_int_equal(h.ends, 0);
    /* Shortened, it does not wait for the longer time. */
    assert_int_equal(sluice_conn_set_timeout(h.conn, 1000 * GUARD), 0);
    uint64_t since = clock_now();
    assert_int_equal(sluice_conn_set_timeout(h.conn, TIME), 0);
    expect_timeout(&h, 1, since);
    sluice_conn_resume(h.conn);
    sluice_reader_reset(h.reader, NULL);
    sluice_conn_close(h.conn);
    assert_int_equal(sluice_conn_set_timeout(h.conn, 1), 0);
    h.conn = NULL;
    turn_for(&h, LONG);
    assert_int_equal(h.ends, 1);
    hearer_close(&h);
}

static void hearer_told(sluice_conn *conn, int error, size_t done, void *user) {
    hearer *h = user;
    (void)conn;
    h->told = true;
    h->told_error = error;
    h->told_done = done;
    h->ended_at = clock_now();
}

/* The exact count, and the rest by another; also while blocks are not received into. */
static void a_receive_into_memory_ends_too(void **state) {
    (void)state;
    for (int paused = 0; paused < 2; paused++) {
        hearer h;
        char out[8] = "";
        hearer_open(&h);
        if (paused)
            sluice_conn_pause(h.conn);
        assert_int_equal(sluice_conn_set_timeout(h.conn, TIME), 0);
        sockets_write(h.peer, "abc", 3);
        assert_int_equal(sluice_conn_receive_into(h.conn, out, sizeof out, hearer_told, &h), 0);
        while (sluice_chain_consumed(sluice_conn_chain(h.conn)) < 3 && !h.told)
            turn(h.rig.loop);
        /* Bytes that are written past the chain put it off as well. */
        turn_for(&h, TIME / 2);
        uint64_t since = clock_now();
        sockets_write(h.peer, "de", 2);
        while (sluice_chain_consumed(sluice_conn_chain(h.conn)) < 5 && !h.told)
            turn(h.rig.loop);
        turn_until(h.rig.loop, &h.told);
        assert_int_equal(h.told_error, -ETIMEDOUT);
        if (h.told_done == 5)
            assert_true(h.ended_at >= since + TIME);
        assert_int_equal(h.ends, 0);
        h.told = false;
        size_t rest = sizeof out - h.told_done;
        clock_stop();
        sockets_write(h.peer, "fghij", 5);
        int result = sluice_conn_receive_into(h.conn, out + h.told_done, rest, hearer_told, &h);
        if (result == 0) {
            turn_until(h.rig.loop, &h.told);
            assert_int_equal(h.told_error, 0);
            assert_int_equal(h.told_done, rest);
        }
        assert_memory_equal(out, "abcdefgh", 8);
        sluice_conn_resume(h.conn);
        expect_text(&h, "ij");
        clock_go_on();
        hearer_close(&h);
    }
}

static size_t endless(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    static char zeros[1 << 16];
    (void)conn, (void)max, (void)user;
    iov[0] = (struct iovec){zeros, sizeof zeros};
    return 1;
}

/* The kernel's own ETIMEDOUT, after which nothing can be resumed, has another name. */
static void a_peer_given_up_by_the_kernel_is_no_silence(void **state) {
    static const sluice_conn_events events = {.size = sizeof events, .on_end = hearer_end, .on_gather = endless};
    (void)state;
    hearer h;
    hearer_open(&h);
    unsigned ms = 1;
    sluice_conn_set_events(h.conn, &events, &h);
    assert_int_equal(setsockopt(sluice_conn_fd(h.conn), IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms), 0);
    sluice_conn_want_send(h.conn);
    turn_until_count(h.rig.loop, &h.ends, 1);
    assert_int_equal(h.error, -ECONNABORTED);
    uint8_t byte;
    assert_int_equal(sluice_reader_u8(h.reader, &byte), -ECONNABORTED);
    hearer_close(&h);
}

/* The last callback, when its timer is gone: nothing is set, and nothing is left. */
static void set_at_the_end(sluice_conn *conn, void *user) {
    hearer *h = user;
    assert_int_equal(sluice_conn_set_timeout(conn, 0), 0);
    assert_int_equal(sluice_conn_set_timeout(conn, TIME), 0);
    h->told = true;
}

static void a_closed_connection_has_none(void **state) {
    (void)state;
    static const sluice_conn_events events = {.size = sizeof events, .on_closed = set_at_the_end};
    hearer h = {0};
    int fds[2];
    loop_rig_open(&h.rig, &pool_options, NULL, GUARD);
    sockets_tcp_pair(fds);
    assert_int_equal(sluice_conn_new(h.rig.loop, fds[0], &events, &h, &h.conn), 0);
    assert_int_equal(sluice_conn_set_timeout(h.conn, TIME), 0);
    sluice_conn_close(h.conn);
    sluice_loop_free(h.rig.loop);
    assert_true(h.told);
    close(fds[1]);
    sluice_pool_free(h.rig.pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence_is_told_once_and_loses_nothing),
        cmocka_unit_test(bytes_put_it_off),
        cmocka_unit_test(a_pause_does_not_count),
        cmocka_unit_test(want_of_blocks_does_not_count),
        cmocka_unit_test(taken_back_or_closed_it_is_not_told),
        cmocka_unit_test(a_receive_into_memory_ends_too),
        cmocka_unit_test(a_peer_given_up_by_the_kernel_is_no_silence),
        cmocka_unit_test(a_closed_connection_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
