/*
 * The user's own memory in chains: read, cut, kept, moved and sent in place like any block, and
 * given back exactly once; chains that the user fills himself, with such memory and blocks mixed.
 */
#include <sluice/chain.h>

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/flv.h>
#include <sluice/reader.h>
#include <sluice/writer.h>

#include "memory/chain.h"
#include "reader/cursor.h"
#include "support/feed.h"
#include "support/sockets.h"

enum { BLOCK = 512, TEXT = 26, GUARD = 60 };

static const char text[TEXT + 1] = "abcdefghijklmnopqrstuvwxyz";

static const sluice_backend_choice both[] = {SLUICE_BACKEND_URING, SLUICE_BACKEND_EPOLL};

/* Memory of its own, that traps when it is touched after it was given back. */
typedef struct lent {
    char *memory;
    size_t size;
    unsigned released;
    pthread_t by;
} lent;

/* On any thread, so that nothing is asserted here: a call for something else does not count. */
static void released(const void *memory, size_t n, void *user) {
    lent *l = user;
    l->released += memory == l->memory && n == l->size;
    l->by = pthread_self();
    free(l->memory);
}

static void lend(sluice_chain *chain, lent *l, const void *bytes, size_t n) {
    *l = (lent){.memory = malloc(n), .size = n};
    assert_non_null(l->memory);
    memcpy(l->memory, bytes, n);
    assert_int_equal(sluice_chain_append_memory(chain, l->memory, n, released, l), 0);
    assert_true(chain_is_sound(chain));
}

static sluice_pool *new_pool(uint32_t max_blocks) {
    sluice_pool *pool;
    sluice_pool_options options = {.size = sizeof options,
                                   .block_size = BLOCK,
                                   .slab_blocks = 8,
                                   .max_blocks = max_blocks,
                                   .reserve_blocks = 4,
                                   .no_huge_pages = true};
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
    return pool;
}

static sluice_pool_stats counts(sluice_pool *pool) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(pool, &stats);
    assert_int_equal(stats.total, stats.free + stats.kernel + stats.held);
    return stats;
}

static void free_pool(sluice_pool *pool) {
    feed_assert_returned(pool);
    sluice_pool_free(pool);
}

static sluice_chain *new_chain(sluice_pool *pool) {
    sluice_chain *chain;
    assert_int_equal(sluice_chain_new(pool, &chain), 0);
    return chain;
}

/* The slice's bytes, where they lie. */
static void assert_slice(const sluice_slice *slice, const char *bytes, size_t n) {
    struct iovec iov[8];
    size_t done = 0, count = sluice_slice_iov(slice, 0, iov, 8);
    assert_true(count <= 8);
    for (size_t i = 0; i < count; i++) {
        assert_true(done + iov[i].iov_len <= n);
        assert_memory_equal(iov[i].iov_base, bytes + done, iov[i].iov_len);
        done += iov[i].iov_len;
    }
    assert_int_equal(done, n);
}

/* Foreign memory before, between and behind blocks, cut at every two places and released in both
 * orders. */
static void given_back_once_with_the_last_reference(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(32);
    const size_t ends[] = {7, 12, 20, TEXT};
    for (size_t a = 0; a <= TEXT; a++)
        for (size_t b = a; b <= TEXT; b++)
            for (int order = 0; order < 2; order++) {
                sluice_chain *chain = new_chain(pool);
                sluice_slice slices[2];
                lent l[2];
                lend(chain, &l[0], text, 7);
                feed(chain, pool, text + 7, 5, 0);
                lend(chain, &l[1], text + 12, 8);
                feed(chain, pool, text + 20, TEXT - 20, 0);
                assert_int_equal(counts(pool).foreign, 2);
                assert_int_equal(counts(pool).held, 2);
                assert_int_equal(sluice_chain_take(chain, a, &slices[0]), 0);
                assert_int_equal(sluice_chain_take(chain, b - a, &slices[1]), 0);
                assert_true(chain_is_sound(chain));
                assert_slice(&slices[0], text, a);
                assert_slice(&slices[1], text + a, b - a);
                /* Memory of the user's is no block of the pool. */
                size_t pooled = (a > ends[0]) + (a > ends[2]);
                assert_int_equal(sluice_slice_footprint(&slices[0], NULL), pooled);

                sluice_slice_release(&slices[order]);
                sluice_chain_skip(chain, sluice_chain_length(chain));
                size_t from = order ? 0 : a, to = order ? a : b;
                for (int i = 0; i < 2; i++) {
                    size_t begin = i ? ends[1] : 0, end = i ? ends[2] : ends[0];
                    bool is_held = from < to && from < end && to > begin;
                    assert_int_equal(l[i].released, !is_held);
                }
                assert_slice(&slices[!order], text + from, to - from);
                sluice_slice_release(&slices[!order]);
                assert_int_equal(l[0].released + l[1].released, 2);
                sluice_chain_free(chain);
                feed_assert_returned(pool);
            }
    assert_int_equal(counts(pool).bytes_copied, 0);
    free_pool(pool);
}

/* What goes with the chain, without having been read. */
static void a_chain_that_is_freed_gives_back(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(8);
    sluice_chain *chain = new_chain(pool);
    lent l[3];
    for (int i = 0; i < 3; i++)
        lend(chain, &l[i], text, 3);
    assert_int_equal(sluice_chain_skip(chain, 4), 4);
    assert_int_equal(l[0].released, 1);
    assert_int_equal(l[1].released + l[2].released, 0);
    sluice_chain_free(chain);
    assert_int_equal(l[1].released, 1);
    assert_int_equal(l[2].released, 1);
    free_pool(pool);
}

static void nothing_is_given_back_at_once(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(8);
    sluice_chain *chain = new_chain(pool);
    lent l = {.memory = malloc(1)};
    assert_int_equal(sluice_chain_append_memory(chain, l.memory, 0, released, &l), 0);
    assert_int_equal(l.released, 1);
    l.memory = NULL;
    assert_int_equal(sluice_chain_append_memory(chain, NULL, 0, released, &l), 0);
    assert_int_equal(l.released, 2);
    assert_int_equal(sluice_chain_append_memory(chain, NULL, 0, NULL, NULL), 0);
    assert_int_equal(sluice_chain_blocks(chain), 0);
    assert_true(chain_is_sound(chain));
    sluice_chain_free(chain);
    free_pool(pool);
}

static void refused_memory_stays_the_users(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(8);
    sluice_chain *chain = new_chain(pool);
    lent l = {.memory = strdup(text), .size = 1};
    assert_int_equal(sluice_chain_append_memory(chain, NULL, 1, released, &l), -EINVAL);
    assert_int_equal(sluice_chain_append_memory(chain, l.memory, (size_t)UINT32_MAX + 1, released, &l), -EMSGSIZE);
    /* There is a limit on the pieces. */
    size_t pieces = 0;
    int error;
    while ((error = sluice_chain_append_memory(chain, text, 1, NULL, NULL)) == 0)
        assert_true(++pieces < 100000);
    assert_int_equal(error, -ENOBUFS);
    assert_int_equal(sluice_chain_append_memory(chain, l.memory, 1, released, &l), -ENOBUFS);
    assert_int_equal(sluice_chain_length(chain), pieces);
    assert_int_equal(counts(pool).foreign, pieces);
    assert_true(chain_is_sound(chain));
    assert_int_equal(l.released, 0);
    /* And with one gone there is room for one. */
    assert_int_equal(sluice_chain_skip(chain, 1), 1);
    assert_int_equal(sluice_chain_append_memory(chain, l.memory, 1, released, &l), 0);
    sluice_chain_free(chain);
    assert_int_equal(l.released, 1);
    free_pool(pool);
}

/* Views of it hold it: in another chain, in the same one again, and of views. */
static void moved_on_it_is_held_by_its_views(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(32);
    for (size_t n = 1; n <= TEXT; n++) {
        sluice_chain *chain = new_chain(pool), *second = new_chain(pool), *third = new_chain(pool);
        sluice_slice slice;
        lent l;
        lend(chain, &l, text, TEXT);
        assert_int_equal(sluice_chain_move(chain, n, second), 0);
        assert_int_equal(sluice_chain_move(second, n, third), 0);
        assert_int_equal(sluice_chain_take(third, n, &slice), 0);
        assert_int_equal(sluice_chain_append_slice(second, &slice), 0);
        sluice_slice_release(&slice);
        sluice_chain_free(chain);
        sluice_chain_free(third);
        assert_int_equal(l.released, 0);
        assert_true(chain_is_sound(second));
        assert_int_equal(sluice_chain_take(second, n, &slice), 0);
        assert_slice(&slice, text, n);
        sluice_chain_free(second);
        assert_int_equal(l.released, 0);
        sluice_slice_release(&slice);
        assert_int_equal(l.released, 1);
        feed_assert_returned(pool);
    }
    free_pool(pool);
}

/* The reserve is for blocks; who keeps memory of the user's takes none. */
static void keeping_it_costs_no_reserve(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(8);
    sluice_chain *chain = new_chain(pool);
    sluice_slice alone, mixed, kept;
    lent l[2];
    lend(chain, &l[0], text, 10);
    lend(chain, &l[1], text + 10, 10);
    feed(chain, pool, text, 4, 1);
    assert_int_equal(sluice_pool_available(pool), 4);
    assert_int_equal(sluice_chain_take(chain, 12, &alone), 0);
    assert_int_equal(sluice_chain_take(chain, 9, &mixed), 0);
    assert_int_equal(sluice_slice_take(&mixed, &kept), -ENOBUFS);
    assert_int_equal(sluice_slice_take(&alone, &kept), 0);
    assert_int_equal(sluice_slice_length(&alone), 0);
    assert_slice(&kept, text, 12);
    sluice_slice_release(&mixed);
    sluice_slice_release(&kept);
    assert_int_equal(l[0].released + l[1].released, 2);
    sluice_chain_free(chain);
    free_pool(pool);
}

static void a_mark_holds_it(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(8);
    for (size_t n = 0; n <= TEXT; n++) {
        sluice_chain *chain = new_chain(pool);
        sluice_reader *reader;
        uint8_t byte;
        lent l[2];
        assert_int_equal(sluice_reader_new(chain, &reader), 0);
        lend(chain, &l[0], text, 9);
        lend(chain, &l[1], text + 9, TEXT - 9);
        assert_int_equal(sluice_reader_mark(reader, TEXT), 0);
        for (int times = 0; times < 2; times++) {
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(sluice_reader_u8(reader, &byte), 0);
                assert_int_equal(byte, text[i]);
            }
            assert_int_equal(l[0].released + l[1].released, 0);
            assert_int_equal(sluice_reader_rewind(reader), 0);
            assert_true(chain_is_sound(chain));
        }
        assert_int_equal(sluice_reader_skip(reader, TEXT), 0);
        sluice_reader_unmark(reader);
        assert_int_equal(l[0].released + l[1].released, 2);
        sluice_reader_free(reader);
        sluice_chain_free(chain);
    }
    free_pool(pool);
}

/* A line that is lent out of it, until the next call. */
static void a_line_that_is_lent_holds_it(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(8);
    sluice_chain *chain = new_chain(pool);
    sluice_reader *reader;
    const char *line;
    size_t length;
    lent l;
    assert_int_equal(sluice_reader_new(chain, &reader), 0);
    lend(chain, &l, "line\r\n", 6);
    assert_int_equal(sluice_reader_line(reader, NULL, 10, &line, &length), 0);
    assert_int_equal(l.released, 0);
    assert_ptr_equal(line, l.memory);
    assert_int_equal(length, 4);
    assert_int_equal(sluice_reader_skip(reader, 0), 0);
    assert_int_equal(l.released, 1);
    sluice_reader_free(reader);
    sluice_chain_free(chain);
    free_pool(pool);
}

typedef struct other_thread {
    sluice_slice slice;
    pthread_t thread;
} other_thread;

static void *release_there(void *user) {
    other_thread *o = user;
    sluice_slice_release(&o->slice);
    return NULL;
}

/* Given back there, also when the pool has been given up meanwhile. */
static void given_back_on_the_thread_of_the_last_release(void **state) {
    (void)state;
    for (int gone = 0; gone < 2; gone++) {
        sluice_pool *pool = new_pool(8);
        sluice_chain *chain = new_chain(pool);
        other_thread o;
        lent l;
        lend(chain, &l, text, TEXT);
        feed(chain, pool, text, 5, 0);
        assert_int_equal(sluice_chain_take(chain, TEXT + 3, &o.slice), 0);
        sluice_chain_free(chain);
        if (gone)
            sluice_pool_free(pool);
        assert_int_equal(l.released, 0);
        assert_int_equal(pthread_create(&o.thread, NULL, release_there, &o), 0);
        assert_int_equal(pthread_join(o.thread, NULL), 0);
        assert_int_equal(l.released, 1);
        assert_true(pthread_equal(l.by, o.thread));
        if (!gone)
            free_pool(pool);
    }
}

/* Who is told may go on at once: the next piece, for another chain. */
typedef struct relay {
    sluice_chain *to;
    unsigned left;
    unsigned released;
} relay;

static void released_to_the_next(const void *memory, size_t n, void *user) {
    relay *r = user;
    r->released++;
    if (r->left > 0) {
        r->left--;
        assert_int_equal(sluice_chain_append_memory(r->to, memory, n, released_to_the_next, r), 0);
    }
}

static void who_is_told_may_append_elsewhere(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(8);
    sluice_chain *chain = new_chain(pool);
    relay r = {.to = new_chain(pool), .left = 7};
    for (int i = 0; i < 5; i++)
        assert_int_equal(sluice_chain_append_memory(chain, text + i, 1, released_to_the_next, &r), 0);
    assert_int_equal(sluice_chain_skip(chain, 5), 5);
    assert_int_equal(r.released, 5);
    assert_int_equal(sluice_chain_length(r.to), 5);
    sluice_slice slice;
    assert_int_equal(sluice_chain_take(r.to, 5, &slice), 0);
    assert_slice(&slice, text, 5);
    sluice_slice_release(&slice);
    assert_int_equal(sluice_chain_length(r.to), 2);
    sluice_chain_free(chain);
    sluice_chain_free(r.to);
    assert_int_equal(r.released, 12);
    free_pool(pool);
}

/* A piece pushed in by the user: a block that he has filled, or his memory. */
static void push(sluice_chain *chain, sluice_pool *pool, const uint8_t *bytes, size_t n, bool foreign) {
    if (foreign)
        assert_int_equal(sluice_chain_append_memory(chain, bytes, n, NULL, NULL), 0);
    else
        feed(chain, pool, bytes, n, 0);
}

/* Three pieces, each of either kind: bit i of @kinds says whose memory the i-th is. */
static void push_cut(sluice_chain *chain, sluice_pool *pool, const uint8_t *bytes, size_t n, size_t a, size_t b,
                     unsigned kinds) {
    push(chain, pool, bytes, a, kinds & 1);
    push(chain, pool, bytes + a, b - a, kinds & 2);
    push(chain, pool, bytes + b, n - b, kinds & 4);
    assert_true(chain_is_sound(chain));
    assert_int_equal(sluice_chain_length(chain), n);
}

static void a_reader_over_what_is_pushed_in(void **state) {
    (void)state;
    static const uint8_t bytes[] = "\x11\x22\x33\x44\x55\x66\x77\xE5\x8E\x26key: v\r\n0123456789";
    enum { SIZE = sizeof bytes - 1 };
    sluice_pool *pool = new_pool(32);
    for (size_t a = 0; a <= SIZE; a++)
        for (size_t b = a; b <= SIZE; b++)
            for (unsigned kinds = 0; kinds < 8; kinds++) {
                sluice_chain *chain = new_chain(pool);
                sluice_reader *reader;
                uint8_t byte, scratch[16];
                uint64_t value;
                const char *line;
                const uint8_t *view;
                size_t length;
                sluice_slice slice;
                assert_int_equal(sluice_reader_new(chain, &reader), 0);
                push_cut(chain, pool, bytes, SIZE, a, b, kinds);
                assert_int_equal(sluice_reader_u8(reader, &byte), 0);
                assert_int_equal(byte, 0x11);
                assert_int_equal(sluice_reader_be(reader, 3, &value), 0);
                assert_int_equal(value, 0x223344);
                assert_int_equal(sluice_reader_le(reader, 3, &value), 0);
                assert_int_equal(value, 0x776655);
                assert_int_equal(sluice_reader_leb128(reader, &value), 0);
                assert_int_equal(value, 624485);
                assert_int_equal(sluice_reader_line(reader, (char *)scratch, sizeof scratch, &line, &length), 0);
                assert_int_equal(length, 6);
                assert_memory_equal(line, "key: v", 6);
                assert_int_equal(sluice_reader_peek(reader, 10, scratch, &view), 0);
                assert_memory_equal(view, "0123456789", 10);
                assert_int_equal(sluice_reader_slice(reader, 10, &slice), 0);
                assert_slice(&slice, "0123456789", 10);
                sluice_slice_release(&slice);
                assert_int_equal(sluice_reader_u8(reader, &byte), -EAGAIN);
                sluice_reader_free(reader);
                sluice_chain_free(chain);
            }
    free_pool(pool);
}

/* Two tags, the second one with a payload of 30 bytes. */
static size_t make_flv(uint8_t *bytes) {
    size_t n = SLUICE_FLV_HEADER_SIZE;
    sluice_flv_write_header(bytes, SLUICE_FLV_HAS_AUDIO | SLUICE_FLV_HAS_VIDEO);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t size = 5 + 25 * i;
        sluice_flv_write_tag_header(bytes + n, i ? SLUICE_FLV_VIDEO : SLUICE_FLV_AUDIO, size, 40 * i);
        n += SLUICE_FLV_TAG_HEADER_SIZE;
        pattern_fill(i, 0, bytes + n, size);
        n += size;
        sluice_flv_write_trailer(bytes + n, size);
        n += SLUICE_FLV_TRAILER_SIZE;
    }
    return n;
}

static void the_flv_framer_over_what_is_pushed_in(void **state) {
    (void)state;
    uint8_t bytes[200];
    size_t size = make_flv(bytes);
    sluice_pool *pool = new_pool(32);
    for (size_t a = 0; a <= size; a++)
        for (size_t b = a; b <= size; b++)
            for (unsigned kinds = 0; kinds < 8; kinds++) {
                sluice_chain *chain = new_chain(pool);
                sluice_flv *flv;
                sluice_flv_tag *tag;
                sluice_slice kept[2];
                assert_int_equal(sluice_flv_new(1000, &flv), 0);
                push_cut(chain, pool, bytes, size, a, b, kinds);
                for (uint32_t i = 0; i < 2; i++) {
                    assert_int_equal(sluice_flv_next(flv, chain, &tag), 1);
                    assert_int_equal(tag->timestamp, 40 * i);
                    assert_int_equal(sluice_slice_take(&tag->payload, &kept[i]), 0);
                }
                assert_int_equal(sluice_flv_next(flv, chain, &tag), 0);
                sluice_flv_free(flv);
                sluice_chain_free(chain);
                for (uint32_t i = 0; i < 2; i++) {
                    assert_int_equal(sluice_slice_length(&kept[i]), 5 + 25 * i);
                    assert_true(pattern_slice_matches(i, 0, &kept[i]));
                    sluice_slice_release(&kept[i]);
                }
            }
    assert_int_equal(counts(pool).bytes_copied, 0);
    free_pool(pool);
}

typedef struct sender {
    sluice_writer *writer;
    bool done;
} sender;

static size_t sender_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    sender *s = user;
    (void)conn;
    return sluice_writer_gather(s->writer, iov, max);
}

static void sender_sent(sluice_conn *conn, size_t bytes, void *user) {
    sender *s = user;
    (void)conn;
    sluice_writer_sent(s->writer, bytes);
    s->done = sluice_writer_queued(s->writer) == 0;
}

static void sender_closed(sluice_conn *conn, void *user) {
    sender *s = user;
    (void)conn;
    sluice_writer_free(s->writer);
}

/* A slice of it leaves in place, and it is given back when the kernel has taken the last byte. */
static void sent_from_where_it_lies(void **state) {
    (void)state;
    enum { SIZE = 1 << 20 };
    static const sluice_conn_events events = {
        .size = sizeof events, .on_gather = sender_gather, .on_sent = sender_sent, .on_closed = sender_closed};
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        loop_rig rig;
        sender s = {0};
        lent l = {.memory = malloc(SIZE), .size = SIZE};
        sluice_conn *conn;
        sluice_slice slice;
        socket_reader reader;
        int fds[2];
        loop_rig_open(&rig, NULL, &(sluice_loop_options){.size = sizeof(sluice_loop_options), .backend = both[i]},
                      GUARD);
        sockets_unix_pair(fds);
        sockets_hold_little(fds[0], fds[1]);
        assert_int_equal(sluice_conn_new(rig.loop, fds[0], &events, &s, &conn), 0);
        assert_int_equal(sluice_writer_new(conn, SIZE, &s.writer), 0);
        sluice_chain *chain = new_chain(rig.pool);
        pattern_fill(1, 0, l.memory, SIZE);
        assert_int_equal(sluice_chain_append_memory(chain, l.memory, SIZE, released, &l), 0);
        assert_int_equal(sluice_chain_take(chain, SIZE, &slice), 0);
        assert_int_equal(sluice_writer_slice(s.writer, &slice), 0);
        sluice_slice_release(&slice);
        sluice_chain_free(chain);
        turn_until_blocked(rig.loop, conn);
        assert_int_equal(l.released, 0);
        socket_reader_start(&reader, fds[1], 1, 65536, 0);
        turn_until(rig.loop, &s.done);
        assert_int_equal(l.released, 1);
        sluice_conn_close(conn);
        loop_rig_close(&rig);
        socket_reader_join(&reader);
        assert_true(reader.matches);
        assert_int_equal(reader.total, SIZE);
        close(fds[1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(given_back_once_with_the_last_reference),
        cmocka_unit_test(a_chain_that_is_freed_gives_back),
        cmocka_unit_test(nothing_is_given_back_at_once),
        cmocka_unit_test(refused_memory_stays_the_users),
        cmocka_unit_test(moved_on_it_is_held_by_its_views),
        cmocka_unit_test(keeping_it_costs_no_reserve),
        cmocka_unit_test(a_mark_holds_it),
        cmocka_unit_test(a_line_that_is_lent_holds_it),
        cmocka_unit_test(given_back_on_the_thread_of_the_last_release),
        cmocka_unit_test(who_is_told_may_append_elsewhere),
        cmocka_unit_test(a_reader_over_what_is_pushed_in),
        cmocka_unit_test(the_flv_framer_over_what_is_pushed_in),
        cmocka_unit_test(sent_from_where_it_lies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
