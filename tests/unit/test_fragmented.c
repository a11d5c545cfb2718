/*
 * A peer that sends small pieces does not have its chain keep many times its bytes: they share
 * blocks, without being copied; and where they do not, as a last resort, they are copied together.
 */
#include <sluice/conn.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/loop.h>

#include "memory/chain.h"
#include "support/http_feed.h"
#include "support/sockets.h"

enum {
    GUARD = 120,
    SEED = 31,
    BLOCK = 4096,
    FEW = 5,   /* blocks that a chain may keep however short it is */
    SHARE = 4, /* and so many times its bytes */
    /* The same where the full blocks among poor ones have been consumed: then the last resort is
     * the bound. */
    FEW_MIXED = 18,
    SHARE_MIXED = 8,
};

static const sluice_loop_options every_piece = {.size = sizeof every_piece, .no_low_water = true};

static const sluice_conn_events quiet = {.size = sizeof quiet};

typedef struct stream {
    loop_rig rig;
    sluice_conn *conn;
    sluice_chain *chain;
    int peer;
    size_t sent;
    uint64_t place;
    bool may_copy;
} stream;

static void stream_open(stream *s, const sluice_pool_options *pool) {
    int fds[2];
    *s = (stream){0};
    loop_rig_open(&s->rig, pool, &every_piece, GUARD);
    sockets_tcp_pair(fds);
    s->peer = fds[1];
    assert_int_equal(sluice_conn_new(s->rig.loop, fds[0], &quiet, NULL, &s->conn), 0);
    s->chain = sluice_conn_chain(s->conn);
}

static void stream_send(stream *s, size_t n) {
    pattern_write(s->peer, SEED, s->sent, n);
    s->sent += n;
    while (sluice_chain_consumed(s->chain) + sluice_chain_length(s->chain) < s->sent)
        turn(s->rig.loop);
    assert_true(chain_is_sound(s->chain));
}

static void stream_close(stream *s) {
    assert_true(pattern_consume(s->chain, sluice_chain_length(s->chain), SEED, &s->place));
    assert_int_equal(s->place, s->sent);
    sluice_conn_close(s->conn);
    close(s->peer);
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(s->rig.pool, &stats);
    if (!s->may_copy) {
        assert_int_equal(stats.bytes_copied, 0);
        loop_rig_close(&s->rig);
        return;
    }
    sluice_loop_free(s->rig.loop);
    sluice_pool_get_stats(s->rig.pool, &stats);
    assert_int_equal(stats.held, 0);
    sluice_pool_free(s->rig.pool);
    hang_guard(0);
}

static void assert_footprint(const stream *s, size_t piece, size_t few, size_t share) {
    size_t length = sluice_chain_length(s->chain), footprint = sluice_chain_footprint(s->chain);
    if (footprint > few * BLOCK + share * length)
        fail_msg("%zu bytes in pieces of %zu keep %zu", length, piece, footprint);
}

static uint64_t aimed(const stream *s) {
    sluice_loop_stats stats = {.size = sizeof stats};
    sluice_loop_get_stats(s->rig.loop, &stats);
    return stats.aimed;
}

/* At each moment, and in all of the pool; nothing is copied, which the rig's end checks. */
static void small_pieces_keep_little(void **state) {
    (void)state;
    enum { TOTAL = 48000 };
    static const size_t pieces[] = {1, 15, 16, 17, 40, 100, 300, 511, 1023};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        stream s;
        stream_open(&s, NULL);
        for (size_t n = 0; n < 3000 && s.sent + pieces[i] <= TOTAL; n++) {
            stream_send(&s, pieces[i]);
            assert_footprint(&s, pieces[i], FEW, SHARE);
        }
        sluice_pool_stats stats = {.size = sizeof stats};
        sluice_pool_get_stats(s.rig.pool, &stats);
        assert_in_range(stats.held, 1, FEW + SHARE * s.sent / BLOCK + 1);
        stream_close(&s);
    }
}

/* Sizes that change, and a consumer that takes some of it now and then. */
static void mixed_pieces_keep_little(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        stream s;
        uint64_t random = seed;
        stream_open(&s, NULL);
        for (int n = 0; n < 1500; n++) {
            size_t piece = 1 + http_feed_random(&random) % (n % 100 < 95 ? 300 : 9000);
            stream_send(&s, piece);
            assert_footprint(&s, piece, FEW_MIXED, SHARE_MIXED);
            size_t length = sluice_chain_length(s.chain);
            if (http_feed_random(&random) % 50 == 0)
                assert_true(pattern_consume(s.chain, http_feed_random(&random) % (length + 1), SEED, &s.place));
        }
        s.may_copy = true;
        stream_close(&s);
    }
}

/* Packets of a usual size are not received one by one, however many of them are kept. */
static void usual_pieces_take_blocks(void **state) {
    (void)state;
    stream s;
    stream_open(&s, NULL);
    for (int n = 0; n < 200; n++)
        stream_send(&s, n % 2 ? BLOCK / 4 : 1400);
    assert_int_equal(aimed(&s), 0);
    assert_true(sluice_chain_blocks(s.chain) >= 150);
    stream_close(&s);
}

/* Two blocks may be as empty as they are: the next one makes the chain fragmented. */
static void two_pieces_have_blocks_of_their_own(void **state) {
    (void)state;
    stream s;
    stream_open(&s, NULL);
    stream_send(&s, 16);
    turn_through(s.rig.loop, 3);
    stream_send(&s, 16);
    turn_through(s.rig.loop, 3);
    assert_int_equal(aimed(&s), 0);
    assert_int_equal(sluice_chain_blocks(s.chain), 2);
    for (int i = 0; i < 3; i++)
        stream_send(&s, 16);
    assert_true(aimed(&s) > 0);
    stream_close(&s);
}

static sluice_block *fill_block(stream *s, size_t n) {
    sluice_block *block;
    assert_int_equal(sluice_block_get(s->rig.pool, &block), 0);
    pattern_fill(SEED, s->sent, sluice_block_data(block), n);
    assert_int_equal(sluice_block_set_length(block, (uint32_t)n), 0);
    s->sent += n;
    return block;
}

/* What is in nearly empty blocks all the same, as bytes are that came faster than a turn, is copied
 * once. */
static void the_last_resort_copies(void **state) {
    (void)state;
    enum { BLOCKS = 200, PIECE = 16 };
    stream s;
    sluice_pool_stats stats = {.size = sizeof stats};
    stream_open(&s, NULL);
    turn_through(s.rig.loop, 2);
    for (int i = 0; i < BLOCKS; i++)
        sluice_chain_append(s.chain, fill_block(&s, PIECE));
    const uint8_t *first = s.chain->front.at;
    for (int i = 0; i < 20; i++)
        stream_send(&s, PIECE);
    assert_ptr_equal(s.chain->front.at, first);
    assert_footprint(&s, PIECE, FEW, SHARE);
    sluice_pool_get_stats(s.rig.pool, &stats);
    assert_in_range(stats.bytes_copied, (BLOCKS - 10) * PIECE, (BLOCKS + 20) * PIECE);
    s.may_copy = true;
    stream_close(&s);
}

static void consume(sluice_conn *conn, void *user) {
    stream *s = user;
    sluice_chain *chain = sluice_conn_chain(conn);
    assert_true(pattern_consume(chain, sluice_chain_length(chain), SEED, &s->place));
}

/* Many small pieces of one turn, consumed when they have come: the rig's end checks that nothing
 * was copied. */
static void what_is_consumed_as_it_comes_is_not_copied(void **state) {
    (void)state;
    enum { BLOCKS = 200, PIECE = 16 };
    static const sluice_conn_events consuming = {.size = sizeof consuming, .on_data = consume};
    stream s;
    int fds[2];
    stream_open(&s, NULL);
    sluice_conn_close(s.conn);
    close(s.peer);
    sockets_tcp_pair(fds);
    s.peer = fds[1];
    assert_int_equal(sluice_conn_new(s.rig.loop, fds[0], &consuming, &s, &s.conn), 0);
    s.chain = sluice_conn_chain(s.conn);
    turn_through(s.rig.loop, 2);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < BLOCKS; i++)
            sluice_chain_append(s.chain, fill_block(&s, PIECE));
        stream_send(&s, PIECE);
        assert_int_equal(sluice_chain_length(s.chain), 0);
    }
    stream_close(&s);
}

/* A few nearly empty blocks are not worth it: nothing is copied, which the rig's end checks. */
static void few_blocks_are_left_as_they_are(void **state) {
    (void)state;
    enum { BLOCKS = 10, PIECE = 16 };
    stream s;
    stream_open(&s, NULL);
    turn_through(s.rig.loop, 2);
    for (int i = 0; i < BLOCKS; i++)
        sluice_chain_append(s.chain, fill_block(&s, PIECE));
    for (int i = 0; i < 20; i++)
        stream_send(&s, PIECE);
    assert_true(sluice_chain_footprint(s.chain) > BLOCKS * BLOCK);
    stream_close(&s);
}

/* Behind nearly empty blocks, pieces of a usual size do not make the chain fragmented. */
static void usual_pieces_behind_poor_blocks_take_blocks(void **state) {
    (void)state;
    enum { BLOCKS = 10, PIECE = 16 };
    stream s;
    stream_open(&s, NULL);
    turn_through(s.rig.loop, 2);
    for (int i = 0; i < BLOCKS; i++)
        sluice_chain_append(s.chain, fill_block(&s, PIECE));
    for (int i = 0; i < 3; i++) {
        stream_send(&s, 1400);
        turn_through(s.rig.loop, 3);
    }
    assert_int_equal(aimed(&s), 0);
    assert_int_equal(sluice_chain_blocks(s.chain), BLOCKS + 3);
    stream_close(&s);
}

/* Whatever the chain is made of: the same bytes, those who refer to blocks see theirs, and what can
 * go is gone. */
static void compacting_changes_no_byte(void **state) {
    (void)state;
    enum { SIZE = 512, TEXT = 6000, SLICES = 8 };
    static const char own[] = "the user's memory";
    for (uint64_t seed = 1; seed <= 300; seed++) {
        sluice_pool *pool = http_feed_pool(SIZE, 4096);
        sluice_chain chain;
        uint64_t random = seed, place = 0;
        sluice_slice slices[SLICES] = {0};
        uint64_t places[SLICES];
        unsigned taken = 0;
        size_t sent = 0;
        bool is_users = seed % 3 == 0;
        chain_init(&chain, pool);
        while (sent < TEXT) {
            uint8_t bytes[SIZE];
            size_t n = 1 + http_feed_random(&random) % (http_feed_random(&random) % 8 ? 30 : SIZE);
            pattern_fill(SEED, sent, bytes, n);
            http_feed_bytes(pool, &chain, bytes, n);
            unpoison_memory(chain.last->data, chain.last->capacity);
            sent += n;
            if (taken < SLICES && http_feed_random(&random) % 40 == 0) {
                places[taken] = place;
                n = 1 + http_feed_random(&random) % sluice_chain_length(&chain);
                assert_int_equal(sluice_chain_take(&chain, n, &slices[taken++]), 0);
                place += n;
            }
            if (http_feed_random(&random) % 100 == 0) {
                chain_walk_at(&chain, sluice_chain_length(&chain) / 2);
                chain_compact(&chain);
                assert_true(chain_is_sound(&chain));
            }
        }
        if (is_users)
            assert_int_equal(sluice_chain_append_memory(&chain, own, sizeof own, NULL, NULL), 0);
        size_t length = sluice_chain_length(&chain);
        chain_compact(&chain);
        assert_true(chain_is_sound(&chain));
        assert_int_equal(sluice_chain_length(&chain), length);
        for (unsigned i = 0; i < taken; i++) {
            assert_true(pattern_slice_matches(SEED, places[i], &slices[i]));
            sluice_slice_release(&slices[i]);
        }
        /* With nobody else about, two neighbours but for the first two do not fit into one. */
        chain_compact(&chain);
        for (sluice_block *b = chain.first ? chain.first->next : NULL; b && b != chain.last; b = b->next)
            if (b->next->kind == BLOCK_POOLED)
                assert_true(b->length + b->next->length > SIZE);
        assert_true(pattern_consume(&chain, length - (is_users ? sizeof own : 0), SEED, &place));
        chain_clear(&chain);
        sluice_pool_stats stats = {.size = sizeof stats};
        sluice_pool_get_stats(pool, &stats);
        assert_int_equal(stats.held, 0);
        assert_int_equal(stats.views, 0);
        sluice_pool_free(pool);
    }
}

/* Of which others have slices and views, nothing is moved and nothing is overwritten. */
static void what_others_see_stays(void **state) {
    (void)state;
    sluice_pool *pool = http_feed_pool(512, 64);
    sluice_chain chain, *to = http_feed_chain(pool);
    chain_init(&chain, pool);
    for (int i = 0; i < 6; i++) {
        http_feed_bytes(pool, &chain, "0123456789", 10);
        unpoison_memory(chain.last->data, chain.last->capacity);
    }
    sluice_block *second = chain.first->next, *fourth = second->next->next;
    block_ref(second);
    block_ref(fourth);
    chain_compact(&chain);
    assert_true(chain_is_sound(&chain));
    /* The third cannot go into the second, nor the fourth into the third; the last two become
     * one. */
    assert_int_equal(sluice_chain_blocks(&chain), 5);
    assert_ptr_equal(chain.first->next, second);
    sluice_block_release(second);
    sluice_block_release(fourth);
    chain_compact(&chain);
    assert_int_equal(sluice_chain_blocks(&chain), 2);
    assert_int_equal(sluice_chain_footprint(&chain), 1024);
    chain_clear(&chain);
    chain_compact(&chain);
    assert_true(chain_is_sound(&chain));
    sluice_chain_free(to);
    sluice_pool_free(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_pieces_keep_little),
        cmocka_unit_test(mixed_pieces_keep_little),
        cmocka_unit_test(two_pieces_have_blocks_of_their_own),
        cmocka_unit_test(usual_pieces_take_blocks),
        cmocka_unit_test(the_last_resort_copies),
        cmocka_unit_test(what_is_consumed_as_it_comes_is_not_copied),
        cmocka_unit_test(few_blocks_are_left_as_they_are),
        cmocka_unit_test(usual_pieces_behind_poor_blocks_take_blocks),
        cmocka_unit_test(compacting_changes_no_byte),
        cmocka_unit_test(what_others_see_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
