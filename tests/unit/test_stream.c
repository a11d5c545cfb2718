/*
 * Streams: what is theirs and not any reader's. The calls of their reader, with an end, a reset and
 * a deadline at every place, are in test_reader_source.c.
 */
#include <sluice/stream.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/echo.h"
#include "support/feed.h"
#include "support/sockets.h"

enum { GUARD = 100, BLOCK = 4096, BLOCKS = 64, SEED = 7 };

static const sluice_pool_options pool_options = {.size = sizeof pool_options,
                                                 .block_size = BLOCK,
                                                 .slab_blocks = 8,
                                                 .max_blocks = BLOCKS,
                                                 .reserve_blocks = 4,
                                                 .no_huge_pages = true};
static const sluice_loop_options loop_options = {.size = sizeof loop_options, .stock_bytes = 8 * BLOCK};

typedef struct fixture {
    loop_rig rig;
    sluice_stream *stream;
    sluice_reader *reader;
    int peer; /* -1: closed */
} fixture;

static void rig_open(fixture *f) {
    *f = (fixture){.peer = -1};
    loop_rig_open(&f->rig, &pool_options, &loop_options, GUARD);
}

static sluice_stream *stream_open(fixture *f, const sluice_stream_options *options, int *ret_peer) {
    int fds[2];
    sluice_stream *stream;
    sockets_tcp_pair(fds);
    *ret_peer = fds[1];
    assert_int_equal(sluice_stream_new(f->rig.loop, fds[0], options, &stream), 0);
    return stream;
}

static void open_all(fixture *f, const sluice_stream_options *options) {
    rig_open(f);
    f->stream = stream_open(f, options, &f->peer);
    f->reader = sluice_stream_reader(f->stream);
}

static void peer_close(fixture *f) {
    if (f->peer >= 0)
        close(f->peer);
    f->peer = -1;
}

static void peer_reset(fixture *f) {
    sockets_reset_on_close(f->peer);
    peer_close(f);
}

static void close_all(fixture *f) {
    sluice_stream_free(f->stream);
    peer_close(f);
    loop_rig_close(&f->rig);
}

/* Every call that would have to wait says so. */
static void assert_calls_say(sluice_stream *stream, int error) {
    uint8_t byte = 77, out[BLOCK];
    size_t done = 77;
    sluice_reader *reader = sluice_stream_reader(stream);
    assert_int_equal(sluice_reader_u8(reader, &byte), error);
    assert_int_equal(byte, 77);
    assert_int_equal(sluice_reader_read(reader, out, sizeof out, &done), error);
    assert_int_equal(done, 0);
    assert_int_equal(sluice_reader_read_into(reader, out, sizeof out, &done), error);
    assert_int_equal(done, 0);
}

static void assert_writes_say(sluice_stream *stream, int error) {
    size_t done = 77;
    assert_int_equal(sluice_stream_write(stream, "x", 1, &done), error);
    assert_int_equal(done, 0);
    assert_int_equal(sluice_stream_flush(stream), error);
}

static void straight_line(void **state) {
    (void)state;
    fixture f;
    char scratch[16], got[6];
    const char *line;
    size_t length, done = 77;
    open_all(&f, &(sluice_stream_options){.size = sizeof(sluice_stream_options), .timeout_ms = 1000 * GUARD});
    assert_ptr_equal(sluice_conn_loop(sluice_stream_conn(f.stream)), f.rig.loop);
    assert_int_equal(sluice_stream_write(f.stream, "PING\r\n", 6, &done), 0);
    assert_int_equal(done, 6);
    assert_int_equal(recv(f.peer, got, sizeof got, MSG_WAITALL), 6);
    assert_memory_equal(got, "PING\r\n", 6);
    sockets_write(f.peer, "PONG\r\nmore", 10);
    assert_int_equal(sluice_reader_line(f.reader, scratch, sizeof scratch, &line, &length), 0);
    assert_int_equal(length, 4);
    assert_memory_equal(line, "PONG", 4);
    /* For a framer: the chain, filled. */
    assert_int_equal(sluice_reader_fill(f.reader, 4), 0);
    assert_int_equal(sluice_chain_length(sluice_stream_chain(f.stream)), 4);
    sockets_write(f.peer, "!", 1);
    assert_int_equal(sluice_reader_fill(f.reader, 5), 0);
    assert_int_equal(sluice_chain_length(sluice_stream_chain(f.stream)), 5);
    /* Nothing is nothing. */
    assert_int_equal(sluice_stream_write(f.stream, NULL, 0, &done), 0);
    assert_int_equal(done, 0);
    assert_int_equal(sluice_stream_write(f.stream, "bye", 3, NULL), 0);
    assert_int_equal(recv(f.peer, got, 3, MSG_WAITALL), 3);
    /* The peer finishes: what came is read, and writing goes on. */
    shutdown(f.peer, SHUT_WR);
    uint8_t out[8];
    assert_int_equal(sluice_reader_read(f.reader, out, sizeof out, &done), -ENODATA);
    assert_int_equal(done, 5);
    assert_memory_equal(out, "more!", 5);
    assert_calls_say(f.stream, -ENODATA);
    assert_int_equal(sluice_stream_write(f.stream, "end", 3, NULL), 0);
    assert_int_equal(recv(f.peer, got, 3, MSG_WAITALL), 3);
    close_all(&f);
}

static void what_cannot_be_a_stream_is_refused(void **state) {
    (void)state;
    fixture f;
    sluice_stream *stream = NULL;
    rig_open(&f);
    assert_int_equal(sluice_stream_new(f.rig.loop, -1, NULL, &stream), -EINVAL);
    assert_null(stream);
    sluice_stream_free(NULL);
    close_all(&f);
}

/* A stream of any pieces, read by all calls in any order and in any size. */
static void read_at_random(fixture *f, uint64_t total, uint64_t *random) {
    enum { MOST = 100000 };
    uint8_t *memory = malloc(MOST);
    uint64_t place = 0;
    assert_non_null(memory);
    while (place < total) {
        bool small = random_between(random, 0, 3) > 0;
        size_t n = random_between(random, 0, small ? 300 : MOST), done = n;
        if (n > total - place)
            n = total - place;
        int error = 0;
        sluice_slice slice;
        switch (random_between(random, 0, 3)) {
        case 0:
            error = sluice_reader_read(f->reader, memory, n, &done);
            assert_true(pattern_matches(SEED, place, memory, n));
            break;
        case 1:
            error = sluice_reader_read_into(f->reader, memory, n, &done);
            assert_true(pattern_matches(SEED, place, memory, n));
            break;
        case 2:
            error = sluice_reader_slice(f->reader, n, &slice);
            assert_true(pattern_slice_matches(SEED, place, &slice));
            sluice_slice_release(&slice);
            done = n;
            break;
        default:
            error = sluice_reader_skip(f->reader, n);
            done = n;
            break;
        }
        assert_int_equal(error, 0);
        assert_int_equal(done, n);
        place += n;
        assert_int_equal(sluice_reader_total(f->reader), place);
    }
    assert_calls_say(f->stream, -ENODATA);
    free(memory);
}

static void bytes_are_read_at_random(void **state) {
    (void)state;
    enum { TOTAL = 4 << 20 };
    static const uint32_t most[] = {100, 3000, 200000};
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        fixture f;
        socket_writer writer;
        uint64_t random = i, total = most[i] < 1000 ? TOTAL / 16 : TOTAL;
        open_all(&f, &(sluice_stream_options){.size = sizeof(sluice_stream_options), .read_ahead = 4 * BLOCK});
        socket_writer_start(&writer, f.peer, SEED, total, 1, most[i]);
        read_at_random(&f, total, &random);
        socket_writer_join(&writer);
        assert_false(writer.broken);
        close_all(&f);
    }
}

/* An end in the middle: the exact count, then the reason, again and again. */
static void check_end(size_t come, size_t n, bool into, bool reset) {
    fixture f;
    uint8_t *memory = malloc(n);
    assert_non_null(memory);
    open_all(&f, NULL);
    sluice_reader *reader = f.reader;
    pattern_fill(SEED, 0, memory, come);
    sockets_write(f.peer, memory, come);
    memset(memory, 0, n);
    reset ? peer_reset(&f) : peer_close(&f);
    size_t done = 77;
    int error = into ? sluice_reader_read_into(reader, memory, n, &done) : sluice_reader_read(reader, memory, n, &done);
    int expected = reset ? -ECONNRESET : -ENODATA;
    assert_int_equal(error, expected);
    assert_int_equal(done, come);
    assert_true(pattern_matches(SEED, 0, memory, come));
    assert_int_equal(sluice_reader_total(reader), come);
    assert_calls_say(f.stream, expected);
    if (reset)
        assert_writes_say(f.stream, -ECONNRESET);
    close_all(&f);
    free(memory);
}

static void an_end_in_the_middle_is_told_behind_the_exact_count(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 100, BLOCK, 5 * BLOCK + 3};
    for (size_t i = 0; i < 4; i++)
        for (int kind = 0; kind < 4; kind++) {
            check_end(sizes[i], sizes[i] + 1, kind & 1, kind & 2);
            check_end(sizes[i], 30 * BLOCK, kind & 1, kind & 2);
        }
}

typedef struct later {
    fixture *f;
    void (*act)(fixture *f);
    sluice_timer *timer;
} later;

static void later_acts(sluice_timer *timer, void *user) {
    later *l = user;
    l->timer = NULL;
    sluice_timer_free(timer);
    l->act(l->f);
}

/* From inside a turn that a waiting call runs. */
static void act_later(later *l, fixture *f, void (*act)(fixture *f)) {
    *l = (later){.f = f, .act = act};
    assert_int_equal(sluice_timer_new(f->rig.loop, later_acts, l, &l->timer), 0);
    sluice_timer_start(l->timer, 1);
}

static void loop_stop(fixture *f) {
    sluice_loop_stop(f->rig.loop);
}

/* Bytes past the chain: the time is over, or the loop is stopped, in the middle; then the rest. */
static void a_large_read_goes_on_where_it_was(void **state) {
    (void)state;
    enum { N = 30 * BLOCK, FIRST = 3 * BLOCK + 5 };
    for (int kind = 0; kind < 4; kind++) {
        fixture f;
        later l;
        uint8_t *bytes = malloc(N), *memory = calloc(1, N + 1);
        bool into = kind & 1, stopped = kind & 2;
        int (*read)(sluice_reader *, void *, size_t, size_t *) = into ? sluice_reader_read_into : sluice_reader_read;
        size_t first = 77, second = 77;
        open_all(&f, NULL);
        pattern_fill(SEED, 0, bytes, N);
        sockets_write(f.peer, bytes, FIRST);
        assert_int_equal(sluice_reader_fill(f.reader, 1), 0);
        while (sluice_reader_buffered(f.reader) < FIRST && sluice_reader_buffered(f.reader) < BLOCK)
            turn(f.rig.loop);
        if (stopped)
            act_later(&l, &f, loop_stop);
        else
            sluice_stream_set_timeout(f.stream, 1);
        int error = read(f.reader, memory, N, &first);
        assert_int_equal(error, stopped ? -EINTR : -ETIMEDOUT);
        assert_true(first <= FIRST);
        assert_int_equal(sluice_reader_total(f.reader), first);
        sluice_stream_set_timeout(f.stream, 0);
        sockets_write(f.peer, bytes + FIRST, N - FIRST);
        sockets_write(f.peer, "!", 1);
        assert_int_equal(read(f.reader, memory + first, N - first, &second), 0);
        assert_int_equal(first + second, N);
        assert_memory_equal(memory, bytes, N);
        assert_int_equal(memory[N], 0);
        uint8_t byte;
        assert_int_equal(sluice_reader_u8(f.reader, &byte), 0);
        assert_int_equal(byte, '!');
        close_all(&f);
        free(bytes);
        free(memory);
    }
}

/* What has not come in blocks is written by the kernel. */
static void a_large_read_is_not_copied(void **state) {
    (void)state;
    enum { N = 4 << 20 };
    fixture f;
    socket_writer writer;
    sluice_loop_stats loop_stats = {.size = sizeof loop_stats};
    sluice_pool_stats pool_stats = {.size = sizeof pool_stats};
    uint8_t *memory = malloc(N);
    size_t done;
    open_all(&f, NULL);
    socket_writer_start(&writer, f.peer, SEED, N, 60000, 60000);
    assert_int_equal(sluice_reader_read_into(f.reader, memory, N, &done), 0);
    assert_true(pattern_matches(SEED, 0, memory, N));
    sluice_loop_get_stats(f.rig.loop, &loop_stats);
    sluice_pool_get_stats(f.rig.pool, &pool_stats);
    assert_int_equal(loop_stats.direct + pool_stats.bytes_copied, N);
    assert_true(loop_stats.direct > N / 2);
    socket_writer_join(&writer);
    close_all(&f);
    free(memory);
}

static void a_stop_is_obeyed_once(void **state) {
    (void)state;
    fixture f;
    later l;
    uint8_t byte;
    open_all(&f, NULL);
    act_later(&l, &f, loop_stop);
    assert_int_equal(sluice_reader_u8(f.reader, &byte), -EINTR);
    /* One that nobody was there to obey: by the next that has to wait. */
    sockets_write(f.peer, "abc", 3);
    assert_int_equal(sluice_reader_fill(f.reader, 3), 0);
    loop_stop(&f);
    assert_int_equal(sluice_reader_u8(f.reader, &byte), 0);
    assert_int_equal(byte, 'a');
    assert_int_equal(sluice_reader_fill(f.reader, 3), -EINTR);
    sockets_write(f.peer, "d", 1);
    assert_int_equal(sluice_reader_fill(f.reader, 3), 0);
    close_all(&f);
}

/* Re-entrance. */

typedef struct inside {
    fixture f;
    sluice_stream *other; /* holds two bytes */
    int other_peer;
    bool called;
} inside;

static void call_inside(fixture *f) {
    inside *in = (inside *)f;
    uint8_t byte, out[4];
    size_t done;
    sluice_reader *other = sluice_stream_reader(in->other);
    in->called = true;
    /* What is there can be had. */
    assert_int_equal(sluice_reader_u8(other, &byte), 0);
    assert_int_equal(byte, 'x');
    assert_int_equal(sluice_reader_read_into(other, out, sizeof out, &done), -EBUSY);
    assert_int_equal(done, 1);
    assert_int_equal(out[0], 'y');
    assert_calls_say(in->other, -EBUSY);
    assert_writes_say(in->other, -EBUSY);
    assert_calls_say(f->stream, -EBUSY);
    assert_writes_say(f->stream, -EBUSY);
    assert_int_equal(sluice_loop_turn(f->rig.loop, 0), -EBUSY);
    /* Queued, it leaves with the turns that the other runs. */
    assert_int_equal(sluice_writer_copy(sluice_stream_writer(in->other), "queued", 6), 0);
    sluice_stream *third = NULL;
    int third_peer;
    third = stream_open(f, NULL, &third_peer);
    sluice_stream_free(third);
    close(third_peer);
    sockets_write(f->peer, "go on", 5);
}

static void a_call_inside_a_call_does_not_wait(void **state) {
    (void)state;
    inside in = {0};
    later l;
    char got[6];
    open_all(&in.f, NULL);
    in.other = stream_open(&in.f, NULL, &in.other_peer);
    sockets_write(in.other_peer, "xy", 2);
    assert_int_equal(sluice_reader_fill(sluice_stream_reader(in.other), 2), 0);
    act_later(&l, &in.f, call_inside);
    assert_int_equal(sluice_reader_fill(in.f.reader, 5), 0);
    assert_true(in.called);
    assert_int_equal(sluice_stream_flush(in.other), 0);
    assert_int_equal(recv(in.other_peer, got, 6, MSG_WAITALL), 6);
    assert_memory_equal(got, "queued", 6);
    /* Nobody is waiting any more for what could not be had inside. */
    uint8_t byte;
    sockets_write(in.other_peer, "z", 1);
    assert_int_equal(sluice_reader_u8(sluice_stream_reader(in.other), &byte), 0);
    assert_int_equal(byte, 'z');
    assert_int_equal(sluice_reader_total(sluice_stream_reader(in.other)), 3);
    sluice_stream_free(in.other);
    close(in.other_peer);
    close_all(&in.f);
}

/* While one call waits, connections on the same loop are served. */
static void the_loop_goes_on_meanwhile(void **state) {
    (void)state;
    enum { TOTAL = 1 << 20, CLIENTS = 3 };
    static echo_client clients[CLIENTS];
    fixture f;
    echo_server server;
    rig_open(&f);
    echo_server_open(&server, f.rig.loop);
    for (int i = 0; i < CLIENTS; i++)
        echo_client_open(&clients[i], &server, (uint32_t)i + 1, TOTAL);
    f.stream = stream_open(&f, &(sluice_stream_options){.size = sizeof(sluice_stream_options), .timeout_ms = 1},
                           &f.peer);
    f.reader = sluice_stream_reader(f.stream);
    uint8_t byte;
    for (int i = 0; i < CLIENTS; i++)
        while (!clients[i].closed)
            assert_int_equal(sluice_reader_u8(f.reader, &byte), -ETIMEDOUT);
    for (int i = 0; i < CLIENTS; i++)
        echo_client_check(&clients[i]);
    sluice_listener_free(server.listener);
    close_all(&f);
}

/* The ends of a stream. */

static void conn_close(fixture *f) {
    sluice_conn_close(sluice_stream_conn(f->stream));
}

static void a_connection_closed_meanwhile_leaves_what_it_has(void **state) {
    (void)state;
    for (int into = 0; into < 2; into++) {
        fixture f;
        later l;
        uint8_t out[8];
        size_t done = 77;
        open_all(&f, NULL);
        sockets_write(f.peer, "abcd", 4);
        assert_int_equal(sluice_reader_fill(f.reader, 4), 0);
        act_later(&l, &f, conn_close);
        if (into) {
            assert_int_equal(sluice_reader_read_into(f.reader, out, sizeof out, &done), -ECANCELED);
            assert_int_equal(done, 4);
        } else {
            assert_int_equal(sluice_reader_fill(f.reader, 8), -ECANCELED);
            /* Gone for good with a turn. */
            while (sluice_stream_conn(f.stream))
                turn(f.rig.loop);
            assert_int_equal(sluice_chain_length(sluice_stream_chain(f.stream)), 4);
            assert_int_equal(sluice_reader_read(f.reader, out, sizeof out, &done), -ECANCELED);
            assert_int_equal(done, 4);
        }
        assert_memory_equal(out, "abcd", 4);
        assert_calls_say(f.stream, -ECANCELED);
        assert_writes_say(f.stream, -ECANCELED);
        close_all(&f);
    }
}

static void the_loop_may_go_first(void **state) {
    (void)state;
    for (int marked = 0; marked < 2; marked++) {
        fixture f;
        uint8_t out[8];
        size_t done = 77;
        open_all(&f, NULL);
        sockets_write(f.peer, "abcd", 4);
        assert_int_equal(sluice_reader_fill(f.reader, 4), 0);
        assert_int_equal(sluice_reader_u8(f.reader, out), 0);
        if (marked)
            assert_int_equal(sluice_reader_mark(f.reader, 10), 0);
        assert_int_equal(sluice_reader_u8(f.reader, out), 0);
        sluice_loop_free(f.rig.loop);
        assert_null(sluice_stream_conn(f.stream));
        if (marked)
            assert_int_equal(sluice_reader_rewind(f.reader), 0);
        assert_int_equal(sluice_reader_total(f.reader), 2 - marked);
        assert_int_equal(sluice_reader_read(f.reader, out, sizeof out, &done), -ECANCELED);
        assert_int_equal(done, 2 + marked);
        assert_memory_equal(out, "bcd" + 1 - marked, done);
        assert_calls_say(f.stream, -ECANCELED);
        assert_writes_say(f.stream, -ECANCELED);
        sluice_stream_free(f.stream);
        peer_close(&f);
        pool_close(f.rig.pool);
    }
}

/* Idle, with bytes unread, with bytes unsent: whatever it holds comes back. */
static void a_stream_is_freed_with_what_it_holds(void **state) {
    (void)state;
    for (int sending = 0; sending < 3; sending++) {
        fixture f;
        uint8_t *much = calloc(1, 8 << 20);
        open_all(&f, NULL);
        sockets_write(f.peer, "unread", 6);
        assert_int_equal(sluice_reader_fill(f.reader, 6), 0);
        if (sending)
            assert_int_equal(sluice_writer_copy(sluice_stream_writer(f.stream), "small", 5), 0);
        if (sending == 2) {
            sockets_hold_little(sluice_conn_fd(sluice_stream_conn(f.stream)), f.peer);
            assert_int_equal(sluice_writer_borrow(sluice_stream_writer(f.stream), much, 8 << 20, NULL, NULL), 0);
            turn_until_blocked(f.rig.loop, sluice_stream_conn(f.stream));
        }
        sluice_stream_free(f.stream);
        f.stream = NULL;
        turn_through(f.rig.loop, 5);
        close_all(&f);
        free(much);
    }
}

/* Writing. */

static void a_write_waits_for_its_reader(void **state) {
    (void)state;
    enum { N = 8 << 20 };
    fixture f;
    socket_reader reader;
    size_t done = 77;
    uint8_t *memory = malloc(N);
    assert_non_null(memory);
    pattern_fill(SEED, 0, memory, N);
    open_all(&f, NULL);
    /* Behind what is queued. */
    assert_int_equal(sluice_writer_copy(sluice_stream_writer(f.stream), memory, 10), 0);
    socket_reader_start(&reader, f.peer, SEED, 10000, 0);
    assert_int_equal(sluice_stream_write(f.stream, memory + 10, N - 10, &done), 0);
    assert_int_equal(done, N - 10);
    assert_int_equal(sluice_writer_queued(sluice_stream_writer(f.stream)), 0);
    /* The memory is the caller's again. */
    memset(memory, 0, N);
    assert_int_equal(sluice_conn_finish(sluice_stream_conn(f.stream)), 0);
    socket_reader_join(&reader);
    assert_true(reader.matches);
    assert_int_equal(reader.total, N);
    close_all(&f);
    free(memory);
}

/* Interrupted in the middle it cannot be taken back: the peer has just what is told, and nothing
 * follows. */
static void a_write_that_cannot_end_closes(void **state) {
    (void)state;
    enum { N = 32 << 20 };
    for (int stopped = 0; stopped < 2; stopped++) {
        fixture f;
        later l;
        socket_reader reader;
        size_t done = 77;
        int expected = stopped ? -EINTR : -ETIMEDOUT;
        uint8_t *memory = malloc(N);
        assert_non_null(memory);
        pattern_fill(SEED, 0, memory, N);
        open_all(&f, NULL);
        if (stopped)
            act_later(&l, &f, loop_stop);
        else
            sluice_stream_set_timeout(f.stream, 1);
        assert_int_equal(sluice_stream_write(f.stream, memory, N, &done), expected);
        memset(memory, 0, N);
        assert_true(done < N);
        assert_null(sluice_stream_conn(f.stream));
        assert_calls_say(f.stream, expected);
        assert_writes_say(f.stream, expected);
        socket_reader_start(&reader, f.peer, SEED, 100000, 0);
        socket_reader_join(&reader);
        assert_true(reader.matches);
        assert_int_equal(reader.error, 0);
        assert_int_equal(reader.total, done);
        close_all(&f);
        free(memory);
    }
}

static void a_flush_can_be_made_again(void **state) {
    (void)state;
    enum { N = 32 << 20 };
    for (int stopped = 0; stopped < 2; stopped++) {
        fixture f;
        later l;
        socket_reader reader;
        uint8_t *memory = malloc(N);
        assert_non_null(memory);
        pattern_fill(SEED, 0, memory, N);
        open_all(&f, NULL);
        assert_int_equal(sluice_stream_flush(f.stream), 0);
        assert_int_equal(sluice_writer_borrow(sluice_stream_writer(f.stream), memory, N, NULL, NULL), 0);
        if (stopped)
            act_later(&l, &f, loop_stop);
        else
            sluice_stream_set_timeout(f.stream, 1);
        assert_int_equal(sluice_stream_flush(f.stream), stopped ? -EINTR : -ETIMEDOUT);
        sluice_stream_set_timeout(f.stream, 0);
        socket_reader_start(&reader, f.peer, SEED, 100000, 0);
        assert_int_equal(sluice_stream_flush(f.stream), 0);
        assert_int_equal(sluice_conn_finish(sluice_stream_conn(f.stream)), 0);
        socket_reader_join(&reader);
        assert_true(reader.matches);
        assert_int_equal(reader.total, N);
        close_all(&f);
        free(memory);
    }
}

/* The peer resets while a write waits. */
static void a_write_hears_of_a_reset(void **state) {
    (void)state;
    enum { N = 32 << 20 };
    fixture f;
    later l;
    size_t done = 77;
    uint8_t *memory = calloc(1, N), out[4];
    assert_non_null(memory);
    open_all(&f, NULL);
    sockets_write(f.peer, "why", 3);
    assert_int_equal(sluice_reader_fill(f.reader, 3), 0);
    act_later(&l, &f, peer_reset);
    int error = sluice_stream_write(f.stream, memory, N, &done);
    assert_true(error == -ECONNRESET || error == -EPIPE);
    assert_true(done < N);
    free(memory);
    /* What it had said before is still there. */
    assert_int_equal(sluice_reader_read(f.reader, out, sizeof out, &done), error);
    assert_int_equal(done, 3);
    assert_memory_equal(out, "why", 3);
    assert_writes_say(f.stream, error);
    close_all(&f);
}

/* A stream that is not read leaves the rest with the kernel, and the pool to others. */
static void what_is_not_read_stays_with_the_peer(void **state) {
    (void)state;
    enum { AHEAD = 4 * BLOCK, ROUND = 16384 };
    fixture f;
    sluice_stream *other;
    int other_peer;
    uint8_t bytes[ROUND], byte;
    uint64_t sent = 0;
    open_all(&f, &(sluice_stream_options){.size = sizeof(sluice_stream_options), .read_ahead = AHEAD});
    other = stream_open(&f, NULL, &other_peer);
    sluice_stream_set_timeout(other, 1);
    sockets_set_blocking(f.peer, false);
    for (ssize_t n = 0; n >= 0;) {
        pattern_fill(SEED, sent, bytes, sizeof bytes);
        n = send(f.peer, bytes, sizeof bytes, MSG_NOSIGNAL);
        sent += n > 0 ? (uint64_t)n : 0;
        assert_int_equal(sluice_reader_u8(sluice_stream_reader(other), &byte), -ETIMEDOUT);
    }
    size_t ahead = sluice_reader_buffered(f.reader);
    assert_true(ahead >= AHEAD && sent > BLOCKS * BLOCK);
    assert_true(ahead <= BLOCKS * BLOCK / 2);
    sockets_write(other_peer, "x", 1);
    sluice_stream_set_timeout(other, 0);
    assert_int_equal(sluice_reader_u8(sluice_stream_reader(other), &byte), 0);
    /* A call that needs more than that at one time gets it. */
    sluice_slice slice;
    enum { LARGE = BLOCKS * BLOCK / 2 };
    assert_int_equal(sluice_reader_slice(f.reader, LARGE, &slice), 0);
    assert_true(pattern_slice_matches(SEED, 0, &slice));
    sluice_slice_release(&slice);
    close(f.peer);
    f.peer = -1;
    for (uint64_t place = LARGE; place < sent;) {
        size_t n = sent - place < ROUND ? sent - place : ROUND, done;
        assert_int_equal(sluice_reader_read(f.reader, bytes, n, &done), 0);
        assert_true(pattern_matches(SEED, place, bytes, n));
        place += n;
    }
    assert_calls_say(f.stream, -ENODATA);
    sluice_stream_free(other);
    close(other_peer);
    close_all(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(straight_line),
        cmocka_unit_test(what_cannot_be_a_stream_is_refused),
        cmocka_unit_test(bytes_are_read_at_random),
        cmocka_unit_test(an_end_in_the_middle_is_told_behind_the_exact_count),
        cmocka_unit_test(a_large_read_goes_on_where_it_was),
        cmocka_unit_test(a_large_read_is_not_copied),
        cmocka_unit_test(a_stop_is_obeyed_once),
        cmocka_unit_test(a_call_inside_a_call_does_not_wait),
        cmocka_unit_test(the_loop_goes_on_meanwhile),
        cmocka_unit_test(a_connection_closed_meanwhile_leaves_what_it_has),
        cmocka_unit_test(the_loop_may_go_first),
        cmocka_unit_test(a_stream_is_freed_with_what_it_holds),
        cmocka_unit_test(a_write_waits_for_its_reader),
        cmocka_unit_test(a_write_that_cannot_end_closes),
        cmocka_unit_test(a_flush_can_be_made_again),
        cmocka_unit_test(a_write_hears_of_a_reset),
        cmocka_unit_test(what_is_not_read_stays_with_the_peer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
