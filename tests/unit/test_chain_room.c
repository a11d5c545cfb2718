/*
 * Room at a chain's end that the user fills himself, as readv(2) does: what is reserved, what of it
 * gets into the chain and what goes back, whatever is done to the chain in between.
 */
#include <sluice/chain.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/reader.h>

#include "memory/chain.h"
#include "support/feed.h"
#include "support/sockets.h"

enum { BLOCK = 512, SEED = 7, MOST_PIECES = 16 };

/* A chain of pattern bytes, and how many have gone in and come out. */
typedef struct filled {
    sluice_pool *pool;
    sluice_chain *chain;
    uint64_t in, out;
} filled;

static void open_filled(filled *f, uint32_t max_blocks) {
    const sluice_pool_options options = {.size = sizeof options,
                                         .block_size = BLOCK,
                                         .slab_blocks = 8,
                                         .max_blocks = max_blocks,
                                         .reserve_blocks = 4,
                                         .no_huge_pages = true};
    *f = (filled){0};
    assert_int_equal(sluice_pool_new(&options, &f->pool), 0);
    assert_int_equal(sluice_chain_new(f->pool, &f->chain), 0);
}

static void close_filled(filled *f) {
    sluice_chain_free(f->chain);
    feed_assert_returned(f->pool);
    sluice_pool_free(f->pool);
}

static uint32_t held(const filled *f) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(f->pool, &stats);
    assert_int_equal(stats.total, stats.free + stats.kernel + stats.held);
    return stats.held;
}

static size_t bytes_of(const struct iovec *room, int count) {
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += room[i].iov_len;
    return bytes;
}

/* Writes the next @n bytes into room that is there. */
static void fill_room(filled *f, const struct iovec *room, int count, size_t n) {
    assert_true(bytes_of(room, count) >= n);
    for (size_t done = 0; done < n; room++) {
        size_t here = n - done < room->iov_len ? n - done : room->iov_len;
        pattern_fill(SEED, f->in + done, room->iov_base, here);
        done += here;
    }
}

static void commit(filled *f, size_t n) {
    assert_int_equal(sluice_chain_commit(f->chain, n), 0);
    assert_true(chain_is_sound(f->chain));
    f->in += n;
}

/* Room for @n bytes in one call, filled and committed. */
static void append(filled *f, size_t n) {
    struct iovec room[MOST_PIECES];
    int count = sluice_chain_reserve(f->chain, n, room, MOST_PIECES);
    assert_true(count > 0);
    fill_room(f, room, count, n);
    commit(f, n);
}

/* A block of the next 40 bytes; feed() would have the rest of it trap. */
static void append_block(filled *f) {
    enum { BYTES = 40 };
    sluice_block *block;
    assert_int_equal(sluice_block_get(f->pool, &block), 0);
    pattern_fill(SEED, f->in, sluice_block_data(block), BYTES);
    assert_int_equal(sluice_block_set_length(block, BYTES), 0);
    sluice_chain_append(f->chain, block);
    f->in += BYTES;
}

static void take(filled *f, size_t n, sluice_slice *ret_slice) {
    assert_int_equal(sluice_chain_take(f->chain, n, ret_slice), 0);
    assert_true(chain_is_sound(f->chain));
    assert_true(pattern_slice_matches(SEED, f->out, ret_slice));
    f->out += n;
}

static void take_and_release(filled *f, size_t n) {
    sluice_slice slice;
    take(f, n, &slice);
    sluice_slice_release(&slice);
}

static void small_pieces_share_blocks(void **state) {
    (void)state;
    filled f;
    open_filled(&f, 64);
    for (int i = 0; i < 100; i++)
        append(&f, 10);
    assert_int_equal(held(&f), 2);
    assert_int_equal(sluice_chain_blocks(f.chain), 2);
    assert_int_equal(sluice_chain_length(f.chain), 1000);
    take_and_release(&f, 1000);
    assert_int_equal(held(&f), 0);
    close_filled(&f);
}

/* Of every size from any place in a block: in order, and only what is needed of fresh blocks. */
static void pieces_of_all_sizes(void **state) {
    (void)state;
    for (size_t before = 0; before <= BLOCK + 3; before++)
        for (size_t n = 1; n <= 3 * BLOCK; n += before % 97 == 0 ? 1 : 61) {
            filled f;
            open_filled(&f, 16);
            if (before > 0)
                append(&f, before);
            append(&f, n);
            assert_int_equal(sluice_chain_length(f.chain), before + n);
            assert_true(held(&f) <= (before + n + BLOCK - 1) / BLOCK + 1);
            take_and_release(&f, before + n);
            close_filled(&f);
        }
}

static void a_free_end_that_is_hardly_any_is_left(void **state) {
    (void)state;
    filled f;
    struct iovec room[2];
    open_filled(&f, 16);
    append(&f, BLOCK - 20);
    assert_int_equal(sluice_chain_reserve(f.chain, 100, room, 2), 1);
    assert_int_equal(room[0].iov_len, BLOCK);
    /* It will do for what it holds. */
    assert_int_equal(sluice_chain_reserve(f.chain, 20, room, 2), 1);
    assert_int_equal(room[0].iov_len, 20);
    fill_room(&f, room, 1, 20);
    commit(&f, 20);
    assert_int_equal(held(&f), 1);
    assert_int_equal(sluice_chain_reserve(f.chain, 1, room, 2), 1);
    assert_int_equal(room[0].iov_len, BLOCK);
    close_filled(&f);
}

static void what_is_not_committed_goes_back(void **state) {
    (void)state;
    filled f;
    struct iovec room[MOST_PIECES], again;
    open_filled(&f, 16);
    assert_int_equal(sluice_chain_reserve(f.chain, 5 * BLOCK, room, MOST_PIECES), 5);
    assert_int_equal(held(&f), 5);
    void *first = room[0].iov_base;
    commit(&f, 0);
    assert_int_equal(held(&f), 0);
    assert_int_equal(sluice_chain_length(f.chain), 0);

    /* The block taken first is the one that is used next: it is the one in the cache. */
    assert_int_equal(sluice_chain_reserve(f.chain, 5 * BLOCK, room, MOST_PIECES), 5);
    assert_ptr_equal(room[0].iov_base, first);
    fill_room(&f, room, 5, BLOCK + 1);
    commit(&f, BLOCK + 1);
    assert_int_equal(held(&f), 2);

    /* Room that is reserved again, or that the chain has when it is freed. */
    assert_int_equal(sluice_chain_reserve(f.chain, 3 * BLOCK, room, MOST_PIECES), 4);
    assert_int_equal(sluice_chain_reserve(f.chain, 3 * BLOCK, room, MOST_PIECES), 4);
    assert_int_equal(held(&f), 5);
    assert_int_equal(sluice_chain_reserve(f.chain, 1, &again, 1), 1);
    assert_ptr_equal(again.iov_base, room[0].iov_base);
    assert_int_equal(held(&f), 2);
    assert_int_equal(sluice_chain_reserve(f.chain, 3 * BLOCK, room, MOST_PIECES), 4);
    close_filled(&f);
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    filled f;
    struct iovec room[2];
    open_filled(&f, 16);
    assert_int_equal(sluice_chain_reserve(f.chain, 0, room, 2), -EINVAL);
    assert_int_equal(sluice_chain_reserve(f.chain, 1, room, 0), -EINVAL);
    assert_int_equal(sluice_chain_reserve(f.chain, 1, room, -1), -EINVAL);
    assert_int_equal(sluice_chain_commit(f.chain, 1), -EINVAL);
    assert_int_equal(sluice_chain_commit(f.chain, 0), 0);
    assert_int_equal(sluice_chain_reserve(f.chain, 3 * BLOCK, room, 2), 2);
    assert_int_equal(sluice_chain_commit(f.chain, 2 * BLOCK + 1), -EINVAL);
    /* Which has changed nothing. */
    fill_room(&f, room, 2, 2 * BLOCK);
    commit(&f, 2 * BLOCK);
    assert_int_equal(sluice_chain_commit(f.chain, 1), -EINVAL);
    take_and_release(&f, 2 * BLOCK);
    close_filled(&f);
}

static void on_closed(sluice_conn *conn, void *user) {
    (void)conn;
    *(bool *)user = true;
}

/* Its backend receives behind its blocks. */
static void a_connections_chain_is_not_for_that(void **state) {
    (void)state;
    loop_rig rig;
    int fds[2];
    sluice_conn *conn;
    struct iovec room;
    bool closed = false;
    const sluice_conn_events events = {.size = sizeof events, .on_closed = on_closed};
    loop_rig_open(&rig, NULL, NULL, 60);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_int_equal(sluice_conn_new(rig.loop, fds[0], &events, &closed, &conn), 0);
    assert_int_equal(sluice_chain_reserve(sluice_conn_chain(conn), 1, &room, 1), -EINVAL);
    sluice_conn_close(conn);
    turn_until(rig.loop, &closed);
    loop_rig_close(&rig);
    close(fds[1]);
}

static void a_pool_that_has_no_more(void **state) {
    (void)state;
    filled f;
    struct iovec room[MOST_PIECES];
    sluice_slice kept;
    open_filled(&f, 8);
    append(&f, 6 * BLOCK + 100);
    /* Less than was asked for: the free end and one block. */
    assert_int_equal(sluice_chain_reserve(f.chain, 10 * BLOCK, room, MOST_PIECES), 2);
    assert_int_equal(bytes_of(room, 2), 2 * BLOCK - 100);
    fill_room(&f, room, 2, 2 * BLOCK - 100);
    commit(&f, 2 * BLOCK - 100);
    assert_int_equal(sluice_chain_reserve(f.chain, 1, room, MOST_PIECES), -ENOBUFS);
    take(&f, 8 * BLOCK, &kept);
    assert_int_equal(sluice_chain_reserve(f.chain, 1, room, MOST_PIECES), -ENOBUFS);
    assert_int_equal(sluice_chain_commit(f.chain, 0), 0);
    sluice_slice_release(&kept);
    append(&f, 8 * BLOCK);
    take_and_release(&f, 8 * BLOCK);

    /* A free end that is hardly any is room when there is no other. */
    append(&f, 8 * BLOCK - 12);
    assert_int_equal(sluice_chain_reserve(f.chain, 4 * BLOCK, room, MOST_PIECES), 1);
    assert_int_equal(room[0].iov_len, 12);
    fill_room(&f, room, 1, 12);
    commit(&f, 12);
    assert_int_equal(sluice_chain_reserve(f.chain, 4 * BLOCK, room, MOST_PIECES), -ENOBUFS);
    close_filled(&f);
}

/* The block with the room leaves the chain, with or without a slice that keeps it, and whether or
 * not more follows. */
static void consumed_meanwhile(void **state) {
    (void)state;
    for (int kept = 0; kept < 2; kept++)
        for (int followed = 0; followed < 2; followed++)
            for (size_t n = 0; n <= 2 * BLOCK; n += 171) {
                filled f;
                struct iovec room[2];
                sluice_slice slice = {0};
                open_filled(&f, 64);
                append(&f, 300);
                assert_int_equal(sluice_chain_reserve(f.chain, BLOCK, room, 2), 2);
                take(&f, 300, &slice);
                if (!kept)
                    sluice_slice_release(&slice);
                assert_int_equal(sluice_chain_length(f.chain), 0);
                if (followed)
                    append_block(&f);
                size_t bytes = n < BLOCK + 212 ? n : BLOCK + 212;
                fill_room(&f, room, 2, bytes);
                commit(&f, bytes);
                assert_true(!kept || pattern_slice_matches(SEED, 0, &slice));
                append(&f, 200);
                take_and_release(&f, (size_t)(f.in - f.out));
                assert_true(!kept || pattern_slice_matches(SEED, 0, &slice));
                sluice_slice_release(&slice);
                close_filled(&f);
            }
}

/* What is appended while room is out comes before it. */
static void appended_meanwhile(void **state) {
    (void)state;
    filled f;
    struct iovec room[1];
    open_filled(&f, 64);
    append(&f, 100);
    assert_int_equal(sluice_chain_reserve(f.chain, 50, room, 1), 1);
    append_block(&f);
    fill_room(&f, room, 1, 50);
    commit(&f, 50);
    take_and_release(&f, 190);
    close_filled(&f);
}

/* A reader with a mark before 100 bytes, which are consumed while there is room for 50 behind
 * them. */
static sluice_reader *consume_before_room(filled *f, struct iovec *room) {
    sluice_reader *reader;
    open_filled(f, 64);
    assert_int_equal(sluice_reader_new(f->chain, &reader), 0);
    append(f, 100);
    assert_int_equal(sluice_reader_mark(reader, 1000), 0);
    assert_int_equal(sluice_chain_reserve(f->chain, 50, room, 1), 1);
    assert_int_equal(sluice_reader_skip(reader, 100), 0);
    assert_int_equal(sluice_chain_length(f->chain), 0);
    return reader;
}

/* The block comes back into the chain by its mark, and is filled on. */
static void rewound_meanwhile(void **state) {
    (void)state;
    filled f;
    struct iovec room[1];
    sluice_reader *reader = consume_before_room(&f, room);
    assert_int_equal(sluice_reader_rewind(reader), 0);
    fill_room(&f, room, 1, 50);
    commit(&f, 50);
    append(&f, 60);
    take_and_release(&f, 210);
    sluice_reader_free(reader);
    close_filled(&f);
}

/* What was committed to a block that a mark held, behind what the mark puts back. */
static void rewound_before_what_was_committed(void **state) {
    (void)state;
    filled f;
    struct iovec room[1];
    sluice_reader *reader = consume_before_room(&f, room);
    fill_room(&f, room, 1, 50);
    commit(&f, 50);
    append(&f, 60);
    assert_int_equal(sluice_reader_rewind(reader), 0);
    assert_true(chain_is_sound(f.chain));
    append(&f, 70);
    take_and_release(&f, 280);
    sluice_reader_free(reader);
    close_filled(&f);
}

/* Room that is given up when its block has left the chain: by another, and with the chain. */
static void given_up_when_its_block_has_left(void **state) {
    (void)state;
    filled f;
    struct iovec room[2];
    open_filled(&f, 64);
    for (int again = 0; again < 2; again++) {
        append(&f, 100);
        assert_int_equal(sluice_chain_reserve(f.chain, 600, room, 2), 2);
        take_and_release(&f, 100);
        assert_int_equal(held(&f), 2);
        if (again == 0)
            assert_int_equal(sluice_chain_reserve(f.chain, 1, room, 1), 1);
        assert_int_equal(held(&f), again == 0 ? 1 : 2);
    }
    close_filled(&f);
}

/* What has left the chain needs a view to be named again. Without one nothing is there, and nothing
 * leaks. */
static void no_view_is_left(void **state) {
    (void)state;
    enum { LENT = 1 << 12 };
    static const char lent[LENT];
    filled f;
    struct iovec room[2];
    sluice_slice slice;
    sluice_chain *other;
    open_filled(&f, 8);
    assert_int_equal(sluice_chain_new(f.pool, &other), 0);
    int error = 0;
    for (int i = 0; i < LENT && !error; i++)
        error = sluice_chain_append_memory(other, lent + i, 1, NULL, NULL);
    assert_int_equal(error, -ENOBUFS);
    append(&f, 300);
    assert_int_equal(sluice_chain_reserve(f.chain, BLOCK, room, 2), 2);
    take(&f, 300, &slice);
    assert_int_equal(sluice_chain_commit(f.chain, 300), -ENOBUFS);
    assert_int_equal(sluice_chain_length(f.chain), 0);
    assert_true(chain_is_sound(f.chain));
    assert_int_equal(held(&f), 1);
    sluice_slice_release(&slice);
    sluice_chain_free(other);
    f.out = f.in;
    append(&f, 300);
    close_filled(&f);
}

/* A program's own loop: reads of what has come, frames of another length kept for a while. */
static void read_from_a_socket(void **state) {
    (void)state;
    enum { BYTES = 1 << 20, FRAME = 700, KEPT = 8 };
    filled f;
    int fds[2];
    socket_writer writer;
    sluice_slice kept[KEPT] = {0};
    size_t at = 0;
    uint32_t most = 0;
    open_filled(&f, 256);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    socket_writer_start(&writer, fds[1], SEED, BYTES, 1, 300);
    for (;;) {
        struct iovec room[4];
        int count = sluice_chain_reserve(f.chain, 1024, room, 4);
        assert_true(count > 0);
        ssize_t n = readv(fds[0], room, count);
        assert_true(n >= 0);
        commit(&f, (size_t)n);
        if (n == 0)
            break;
        for (; sluice_chain_length(f.chain) >= FRAME; at++) {
            sluice_slice_release(&kept[at % KEPT]);
            take(&f, FRAME, &kept[at % KEPT]);
        }
        most = held(&f) > most ? held(&f) : most;
    }
    take_and_release(&f, sluice_chain_length(f.chain));
    assert_int_equal(f.out, BYTES);
    /* Nine frames end to end, and a block begun at each end: a block for each read would be 20 and
     * more. */
    assert_true(most <= (KEPT + 1) * FRAME / BLOCK + 4);
    for (size_t i = 0; i < KEPT; i++)
        sluice_slice_release(&kept[i]);
    socket_writer_join(&writer);
    close(fds[0]);
    close(fds[1]);
    close_filled(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_pieces_share_blocks),
        cmocka_unit_test(pieces_of_all_sizes),
        cmocka_unit_test(a_free_end_that_is_hardly_any_is_left),
        cmocka_unit_test(what_is_not_committed_goes_back),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(a_connections_chain_is_not_for_that),
        cmocka_unit_test(a_pool_that_has_no_more),
        cmocka_unit_test(consumed_meanwhile),
        cmocka_unit_test(appended_meanwhile),
        cmocka_unit_test(rewound_meanwhile),
        cmocka_unit_test(rewound_before_what_was_committed),
        cmocka_unit_test(given_up_when_its_block_has_left),
        cmocka_unit_test(no_view_is_left),
        cmocka_unit_test(read_from_a_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
