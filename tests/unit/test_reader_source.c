/*
 * Every kind of source, with one and the same table of a reader's calls: in pieces of every size,
 * with an end, a reset and a deadline at every place. A new kind is one more line of `kinds`.
 */
#include <sluice/reader.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/conn.h>
#include <sluice/file.h>
#include <sluice/stream.h>

#include "support/feed.h"
#include "support/reader_calls.h"
#include "support/sockets.h"

enum { BLOCK = 512, BLOCKS = 128, GUARD = 250 };

static const sluice_pool_options pool_options = {.size = sizeof pool_options,
                                                 .block_size = BLOCK,
                                                 .slab_blocks = 8,
                                                 .max_blocks = BLOCKS,
                                                 .reserve_blocks = 1,
                                                 .no_huge_pages = true};

/* The kinds of sources: each brings the stream to a reader in its own way. */

enum ending { END_NONE, END_FINISH, END_RESET };

typedef struct supply {
    const struct supply_kind *kind;
    loop_rig rig;
    sluice_pool *pool;
    sluice_chain *chain; /* of what is pushed in */
    sluice_conn *conn;
    sluice_stream *stream;
    sluice_file *file;
    sluice_reader *reader;
    int peer;
    size_t come, until; /* bytes of the stream that have been given; that may be */
    size_t most;        /* bytes of a piece, at most: random */
    enum ending ending; /* what follows them */
    bool ended, told;
    uint64_t random;
} supply;

typedef struct supply_kind {
    const char *name;
    void (*open)(supply *s);
    void (*close)(supply *s);
    /* for those whose calls do not wait: the next piece is there now; false: none is left */
    bool (*more)(supply *s);
    bool has_end; /* else what is missing comes later, for ever */
    bool has_timeout;
    bool has_no_reset;
} supply_kind;

static size_t supply_piece(supply *s) {
    size_t left = s->until - s->come;
    size_t n = s->most >= left ? left : random_between(&s->random, 1, (uint32_t)s->most);
    return n < left ? n : left;
}

/* Pushed in by the user: blocks and foreign memory in turn. */

static void pushed_open(supply *s) {
    assert_int_equal(sluice_pool_new(&pool_options, &s->pool), 0);
    assert_int_equal(sluice_chain_new(s->pool, &s->chain), 0);
    assert_int_equal(sluice_reader_new(s->chain, &s->reader), 0);
}

static void pushed_close(supply *s) {
    sluice_reader_free(s->reader);
    sluice_chain_free(s->chain);
    feed_assert_returned(s->pool);
    sluice_pool_free(s->pool);
}

static bool pushed_more(supply *s) {
    size_t n = supply_piece(s);
    if (n == 0)
        return false;
    if (s->come & 1)
        feed(s->chain, s->pool, reader_stream + s->come, n, 0);
    else
        assert_int_equal(sluice_chain_append_memory(s->chain, reader_stream + s->come, n, NULL, NULL), 0);
    s->come += n;
    return true;
}

/* A socket's peer. With a reset the last piece and the reset come together. */
static bool peer_gives(supply *s) {
    size_t n = supply_piece(s);
    sockets_write(s->peer, reader_stream + s->come, n);
    s->come += n;
    if (s->come == s->until && s->ending != END_NONE && !s->ended) {
        s->ended = true;
        if (s->ending == END_RESET) {
            /* What its kernel has not sent by then a reset discards. */
            sockets_wait_delivered(s->peer);
            sockets_reset_on_close(s->peer);
        }
        close(s->peer);
        return true;
    }
    return n > 0;
}

static void peer_close(supply *s) {
    if (!s->ended)
        close(s->peer);
}

/* A rig whose copies are allowed: those of the calls that are tested. */
static void supply_rig_close(supply *s) {
    sluice_loop_free(s->rig.loop);
    feed_assert_returned(s->rig.pool);
    sluice_pool_free(s->rig.pool);
}

/* A connection of an event loop, whose calls say -EAGAIN. */

static void evented_end(sluice_conn *conn, int error, void *user) {
    (void)conn, (void)error;
    ((supply *)user)->told = true;
}

static void evented_open(supply *s) {
    static const sluice_conn_events events = {.size = sizeof events, .on_end = evented_end};
    int fds[2];
    loop_rig_open(&s->rig, &pool_options, NULL, GUARD);
    sockets_tcp_pair(fds);
    s->peer = fds[1];
    assert_int_equal(sluice_conn_new(s->rig.loop, fds[0], &events, s, &s->conn), 0);
    assert_int_equal(sluice_reader_new(sluice_conn_chain(s->conn), &s->reader), 0);
    sluice_conn_attach_reader(s->conn, s->reader);
}

static void evented_close(supply *s) {
    peer_close(s);
    sluice_reader_free(s->reader);
    sluice_conn_close(s->conn);
    supply_rig_close(s);
}

static bool evented_more(supply *s) {
    if (!peer_gives(s))
        return false;
    const sluice_chain *chain = sluice_conn_chain(s->conn);
    while (sluice_chain_consumed(chain) + sluice_chain_length(chain) < s->come || s->told != s->ended)
        turn(s->rig.loop);
    return true;
}

/* A stream, whose calls wait: the peer writes from inside the turns that they run. */

static void stream_gives(void *user) {
    supply *s = user;
    if (peer_gives(s))
        assert_int_equal(sluice_loop_post(s->rig.loop, stream_gives, s), 0);
}

static void stream_open(supply *s) {
    int fds[2];
    loop_rig_open(&s->rig, &pool_options, NULL, GUARD);
    sockets_tcp_pair(fds);
    s->peer = fds[1];
    assert_int_equal(sluice_stream_new(s->rig.loop, fds[0], NULL, &s->stream), 0);
    s->reader = sluice_stream_reader(s->stream);
    assert_int_equal(sluice_loop_post(s->rig.loop, stream_gives, s), 0);
}

static void stream_close(supply *s) {
    peer_close(s);
    sluice_stream_free(s->stream);
    supply_rig_close(s);
}

/* A file, whose calls wait. */

static void file_open(supply *s) {
    int fd = memfd_create("stream", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, reader_stream, s->until), s->until);
    loop_rig_open(&s->rig, &pool_options, NULL, GUARD);
    sluice_file_options options = {.size = sizeof options, .read_ahead = (uint32_t)s->most};
    assert_int_equal(sluice_file_new(s->rig.loop, fd, &options, NULL, NULL, &s->file), 0);
    assert_int_equal(sluice_reader_new(sluice_file_chain(s->file), &s->reader), 0);
    sluice_file_attach_reader(s->file, s->reader);
}

static void file_close(supply *s) {
    sluice_reader_free(s->reader);
    sluice_file_close(s->file);
    supply_rig_close(s);
}

static const supply_kind kinds[] = {
    {"pushed", pushed_open, pushed_close, pushed_more, .has_end = false},
    {"evented", evented_open, evented_close, evented_more, .has_end = true},
    {"stream", stream_open, stream_close, NULL, .has_end = true, .has_timeout = true},
    {"file", file_open, file_close, NULL, .has_end = true, .has_no_reset = true},
};

/* One way in which a stream comes. */
typedef struct scenario {
    size_t until;       /* bytes that come */
    size_t most;        /* of a piece */
    enum ending ending; /* what follows */
    int error;          /* what the call says that then needs more; 0: the table's */
} scenario;

static int call_with_more(supply *s, reading *r, const reader_call *call) {
    for (;;) {
        uint64_t before = sluice_reader_total(s->reader) - r->part;
        int error = call->read(r, call);
        if (error && !call->streaming)
            assert_int_equal(sluice_reader_total(s->reader), before);
        if (error != -EAGAIN || !s->kind->more || !s->kind->more(s))
            return error;
    }
}

/* Every call up to the one at which the bytes end, and what had come of that one. */
static void run_scenario(const supply_kind *kind, const scenario *c) {
    supply s = {.kind = kind, .until = c->until, .most = c->most, .ending = c->ending, .random = c->until};
    size_t begin, place = 0;
    int expected = reader_call_at(c->until, &begin), error = 0, at = 0;
    kind->open(&s);
    reading r;
    reading_open(&r, s.reader);
    for (; at < READER_CALLS; at++, r.part = 0) {
        error = call_with_more(&s, &r, &reader_calls[at]);
        if (error)
            break;
        place += reader_calls[at].length;
    }
    if (at == READER_CALLS) {
        uint8_t byte;
        error = call_with_more(&s, &r, &reader_calls[0]);
        assert_int_equal(sluice_reader_u8(s.reader, &byte), error);
    }
    int end = kind->has_end ? c->error : -EAGAIN;
    if (kind->has_no_reset && c->ending == END_RESET)
        end = -ENODATA;
    if (at != expected || error != end)
        fail_msg("%s, %zu bytes in pieces of %zu: %s says %d, not %d", kind->name, c->until, c->most,
                 at < READER_CALLS ? reader_calls[at].name : "the end", error, end);
    assert_int_equal(place, begin);
    if (at < READER_CALLS && reader_calls[at].streaming) {
        assert_int_equal(r.part, c->until - begin);
    } else {
        /* Not consumed, and still to be had. */
        uint8_t out[64];
        assert_int_equal(sluice_reader_copy(s.reader, out, sizeof out), c->until - begin);
        assert_memory_equal(out, reader_stream + begin, c->until - begin);
    }
    assert_int_equal(sluice_reader_total(s.reader), c->until);
    reading_close(&r);
    kind->close(&s);
}

static void run_on_all(const scenario *c) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        run_scenario(&kinds[i], c);
}

/* In one piece, byte by byte, and in random pieces of every size. */
static void every_source_in_pieces_of_every_size(void **state) {
    (void)state;
    for (size_t most = 1; most <= READER_STREAM; most++)
        run_on_all(&(scenario){.until = READER_STREAM, .most = most, .ending = END_FINISH, .error = -ENODATA});
}

static void every_source_ends_at_every_place(void **state) {
    (void)state;
    for (size_t until = 0; until <= READER_STREAM; until++)
        for (size_t most = 7; most <= 1000; most += 993)
            run_on_all(&(scenario){.until = until, .most = most, .ending = END_FINISH, .error = -ENODATA});
}

/* What came with a reset is read before it is told. */
static void every_source_is_reset_at_every_place(void **state) {
    (void)state;
    for (size_t until = 1; until <= READER_STREAM; until++)
        for (size_t most = 7; most <= 1000; most += 993)
            run_on_all(&(scenario){.until = until, .most = most, .ending = END_RESET, .error = -ECONNRESET});
}

/* The deadline passes at every place; the same call made again goes on as if nothing had been. */
static void a_deadline_loses_nothing(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const supply_kind *kind = &kinds[i];
        for (size_t until = 0; kind->has_timeout && until < READER_STREAM; until++) {
            supply s = {.kind = kind, .until = until, .most = 5, .random = until};
            size_t begin, place = 0;
            int error, expected = reader_call_at(until, &begin);
            kind->open(&s);
            reading r;
            reading_open(&r, s.reader);
            /* The bytes are not to be late for the calls before. */
            assert_int_equal(sluice_reader_fill(s.reader, until), 0);
            sluice_reader_set_timeout(s.reader, 1);
            assert_int_equal(reading_go_on(&r, 0, &place, &error), expected);
            assert_int_equal(error, -ETIMEDOUT);
            assert_int_equal(place, begin);
            s.until = READER_STREAM;
            sluice_reader_set_timeout(s.reader, 0);
            assert_int_equal(sluice_loop_post(s.rig.loop, stream_gives, &s), 0);
            assert_int_equal(reading_go_on(&r, expected, &place, &error), READER_CALLS);
            assert_int_equal(sluice_reader_total(s.reader), READER_STREAM);
            reading_close(&r);
            kind->close(&s);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_source_in_pieces_of_every_size),
        cmocka_unit_test(every_source_ends_at_every_place),
        cmocka_unit_test(every_source_is_reset_at_every_place),
        cmocka_unit_test(a_deadline_loses_nothing),
    };
    return cmocka_run_group_tests(tests, reader_stream_make, NULL);
}
