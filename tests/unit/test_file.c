/* Files that are read ahead: their bytes, how far ahead, beside others, and under framers. */
#include <sluice/file.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/conn.h>
#include <sluice/flv.h>
#include <sluice/reader.h>

#include "memory/chain.h"
#include "support/file_rig.h"
#include "support/files.h"

enum { BLOCK = 4096, WINDOW = 256 << 10 };

/* The bytes. */

static void read_whole(const loop_rig *rig, uint64_t size) {
    file_consumer c = {0};
    file_consumer_open(&c, rig, files_make(size), NULL);
    turn_until(rig->loop, &c.told_end);
    assert_int_equal(c.place, size);
    assert_false(c.differs);
    assert_int_equal(c.error, 0);
    assert_true(size > 0 ? c.data > 0 : c.data == 0);
    assert_int_equal(sluice_file_offset(c.file), size);
    /* There is one end, and nothing after it. */
    turn_through(rig->loop, 5);
    assert_int_equal(c.ends, 1);
    assert_int_equal(files_held(rig), 0);
    file_consumer_close(&c, rig);
}

static void contents_are_unchanged(void **state) {
    for (size_t i = 0; i < SIZES; i++) {
        loop_rig rig;
        uint64_t block = sizes[i].block_size;
        const uint64_t lengths[] = {0,     1,      block - 1,   block,      block + 1,  2 * block,
                                    65535, 131072, WINDOW - 1u, WINDOW + 1, 3 * WINDOW, (10 << 20) + 3};
        files_rig_open(&rig, &sizes[i], state);
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
            read_whole(&rig, lengths[k]);
        files_rig_close(&rig);
    }
}

/* A slab is registered when a read could name its memory, which a file of one block can. */
static void a_read_of_one_piece_registers_its_slab(void **state) {
    loop_rig rig;
    sluice_loop_stats stats = {.size = sizeof stats};
    file_consumer consumer = {0};
    files_rig_open(&rig, NULL, state);
    sluice_loop_get_stats(rig.loop, &stats);
    assert_null(strstr(stats.features, "fixed-buffers"));
    file_consumer_open(&consumer, &rig, files_make(100), NULL);
    turn_until(rig.loop, &consumer.told_end);
    assert_int_equal(consumer.place, 100);
    sluice_loop_get_stats(rig.loop, &stats);
    if (loop_rig_is_uring(&rig))
        assert_non_null(strstr(stats.features, "fixed-buffers"));
    file_consumer_close(&consumer, &rig);
    files_rig_close(&rig);
}

static void contents_are_unchanged_without_fixed_buffers(void **state) {
    for (size_t i = 0; i < SIZES; i++) {
        loop_rig rig;
        sluice_loop_options options = *(const sluice_loop_options *)*state;
        options.no_fixed = true;
        loop_rig_open(&rig, &sizes[i], &options, FILES_GUARD);
        read_whole(&rig, (3 << 20) + 5);
        files_rig_close(&rig);
    }
}

/* One loop reads three files, each into blocks of a size of its own. */
static void each_file_has_blocks_of_its_size(void **state) {
    static const uint32_t block_sizes[] = {4096, 16384, 65536};
    enum { FILES = sizeof block_sizes / sizeof *block_sizes, SIZE = (3 << 20) + 1 };
    loop_rig rig;
    file_consumer c[FILES] = {0};
    files_rig_open(&rig, NULL, state);
    for (int i = 0; i < FILES; i++) {
        c[i].leaves = true;
        file_consumer_open(&c[i], &rig, files_make(SIZE),
                           &(sluice_file_options){.size = sizeof(sluice_file_options), .block_size = block_sizes[i]});
    }
    for (int i = 0; i < FILES; i++) {
        turn_until_count(rig.loop, &c[i].data, 1);
        assert_int_equal(sluice_file_chain(c[i].file)->first->capacity, block_sizes[i]);
        c[i].leaves = false;
        file_consume(&c[i], file_buffered(&c[i]));
        turn_until(rig.loop, &c[i].told_end);
        assert_int_equal(c[i].place, SIZE);
        assert_false(c[i].differs);
        file_consumer_close(&c[i], &rig);
    }
    sluice_file *file = NULL;
    int fd = files_make(1);
    assert_int_equal(sluice_file_new(rig.loop, fd,
                                     &(sluice_file_options){.size = sizeof(sluice_file_options), .block_size = 8192},
                                     NULL, NULL, &file),
                     -EINVAL);
    assert_null(file);
    close(fd);
    files_rig_close(&rig);
}

/* The kernel has to fetch it from the disk, and says of some reads before others that they are
 * done. */
static void what_is_not_in_the_page_cache_arrives(void **state) {
    loop_rig rig;
    file_consumer c = {0};
    int fd = files_make(24 << 20);
    assert_int_equal(fsync(fd), 0);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    files_rig_open(&rig, NULL, state);
    file_consumer_open(&c, &rig, fd,
                       &(sluice_file_options){.size = sizeof(sluice_file_options), .read_ahead = 2 << 20});
    turn_until(rig.loop, &c.told_end);
    assert_int_equal(c.place, 24 << 20);
    assert_int_equal(c.error, 0);
    assert_false(c.differs);
    files_rig_close(&rig);
}

static void holes_are_zeros(void **state) {
    enum { HOLE = 1 << 20 };
    loop_rig rig;
    file_consumer c = {.leaves = true};
    int fd = files_make(100);
    uint64_t place = 0;
    uint8_t zeros[4096] = {0}, bytes[4096];
    assert_int_equal(pwrite(fd, "end", 3, HOLE), 3);
    files_rig_open(&rig, NULL, state);
    file_consumer_open(&c, &rig, fd,
                       &(sluice_file_options){.size = sizeof(sluice_file_options), .read_ahead = 2 * HOLE});
    turn_until(rig.loop, &c.told_end);
    sluice_chain *chain = sluice_file_chain(c.file);
    assert_int_equal(sluice_chain_length(chain), HOLE + 3);
    assert_true(pattern_consume(chain, 100, FILES_SEED, &place));
    while (sluice_chain_length(chain) > 3) {
        sluice_slice slice;
        struct iovec piece;
        size_t n = sluice_chain_length(chain) - 3 < 96 ? sluice_chain_length(chain) - 3 : 96;
        assert_int_equal(sluice_chain_take(chain, n, &slice), 0);
        assert_true(sluice_slice_iov(&slice, 0, &piece, 1) >= 1);
        assert_memory_equal(piece.iov_base, zeros, piece.iov_len);
        sluice_slice_release(&slice);
    }
    assert_int_equal(pread(fd, bytes, 3, HOLE), 3);
    assert_memory_equal(bytes, "end", 3);
    files_rig_close(&rig);
}

/* Such files say that they are empty. */
static void files_without_a_size_are_read_to_their_end(void **state) {
    static const char name[] = "/proc/self/limits";
    loop_rig rig;
    file_consumer c = {.leaves = true};
    char expected[16384], line[512];
    const char *text;
    size_t length, done = 0;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t size = read(fd, expected, sizeof expected);
    assert_true(size > 500);
    files_rig_open(&rig, NULL, state);
    file_consumer_open(&c, &rig, fd, NULL);
    turn_until(rig.loop, &c.told_end);
    assert_int_equal(file_buffered(&c), size);
    sluice_reader *reader;
    assert_int_equal(sluice_reader_new(sluice_file_chain(c.file), &reader), 0);
    while (sluice_reader_line(reader, line, sizeof line, &text, &length) == 0) {
        assert_memory_equal(text, expected + done, length);
        done += length + 1;
    }
    assert_int_equal(done, size);
    sluice_reader_free(reader);
    files_rig_close(&rig);
}

static void a_part_is_read(void **state) {
    enum { SIZE = (1 << 20) + 77 };
    static const struct {
        uint64_t offset, length, expected;
    } parts[] = {
        {0, 1, 1},
        {1, 0, SIZE - 1},
        {SIZE - 1, 0, 1},
        {SIZE - 1, 1, 1},
        {SIZE, 0, 0},
        {SIZE + 100, 10, 0},
        {4095, 2, 2},
        {4096, 65536, 65536},
        {100, 131072, 131072},
        {500000, UINT64_MAX, SIZE - 500000},
        {SIZE - 10, 20, 10},
        {0, SIZE, SIZE},
        {(uint64_t)INT64_MAX - 1, 0, 0},
    };
    for (size_t i = 0; i < SIZES; i++) {
        loop_rig rig;
        int fd = files_make(SIZE);
        files_rig_open(&rig, &sizes[i], state);
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            file_consumer c = {0};
            file_consumer_open(&c, &rig, dup(fd),
                               &(sluice_file_options){.size = sizeof(sluice_file_options),
                                                      .offset = parts[k].offset,
                                                      .length = parts[k].length});
            assert_int_equal(sluice_file_offset(c.file), parts[k].offset);
            turn_until(rig.loop, &c.told_end);
            assert_int_equal(c.error, 0);
            assert_false(c.differs);
            assert_int_equal(c.place - parts[k].offset, parts[k].expected);
            file_consumer_close(&c, &rig);
        }
        assert_int_equal(close(fd), 0);
        files_rig_close(&rig);
    }
}

/* How far ahead. */

/* Bytes in the chain and blocks of them, while a consumer takes a little at a time between the
 * turns. */
static void consume_slowly(const loop_rig *rig, size_t window, uint32_t read_ahead, size_t step) {
    enum { SIZE = 700000 };
    file_consumer c = {.leaves = true};
    size_t block = sluice_pool_available(rig->pool) ? 4096 : 0;
    size_t most = 0;
    file_consumer_open(&c, rig, files_make(SIZE),
                       &(sluice_file_options){.size = sizeof(sluice_file_options), .read_ahead = read_ahead});
    /* However slow the disk is: it gets that far ahead before anything is consumed. */
    while (file_buffered(&c) <= window - window / 2)
        turn(rig->loop);
    while (c.place < SIZE) {
        turn_through(rig->loop, 1);
        size_t buffered = file_buffered(&c);
        most = buffered > most ? buffered : most;
        assert_true(buffered <= window + block);
        /* The first block does not count; and the last read looks for the end beyond the last
         * byte. */
        assert_true(files_held(rig) <= window / block + 2);
        file_consume(&c, buffered < step ? buffered : step);
    }
    assert_false(c.differs);
    assert_true(most > window - window / 2);
    turn_until(rig->loop, &c.told_end);
    file_consumer_close(&c, rig);
}

static void no_more_than_the_window_is_read_ahead(void **state) {
    static const sluice_pool_options pool = {.size = sizeof pool, .block_size = BLOCK, .no_huge_pages = true};
    loop_rig rig;
    files_rig_open(&rig, &pool, state);
    consume_slowly(&rig, WINDOW, 0, 9999);
    consume_slowly(&rig, 20000, 20000, 3000);
    consume_slowly(&rig, BLOCK, 1, 1000);
    consume_slowly(&rig, 600000, 600000, 100000);
    files_rig_close(&rig);
}

static void a_full_window_rests(void **state) {
    loop_rig rig;
    file_consumer c = {.leaves = true};
    files_rig_open(&rig, NULL, state);
    file_consumer_open(&c, &rig, files_make(1 << 20), NULL);
    while (file_buffered(&c) < WINDOW)
        turn(rig.loop);
    files_settle(&rig);
    assert_int_equal(file_buffered(&c), WINDOW);
    sluice_loop_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    sluice_loop_get_stats(rig.loop, &before);
    turn_through(rig.loop, 20);
    sluice_loop_get_stats(rig.loop, &after);
    assert_int_equal(after.completions, before.completions);
    assert_int_equal(sluice_loop_timeout(rig.loop), -1);
    /* Any consumption is noticed. */
    file_consume(&c, 65536);
    while (file_buffered(&c) < WINDOW)
        turn(rig.loop);
    files_settle(&rig);
    assert_int_equal(file_buffered(&c), WINDOW);
    assert_false(c.differs);
    files_rig_close(&rig);
}

/* In an embedded loop the host learns of it by the descriptor. */
static void consumption_between_turns_wakes_the_host(void **state) {
    enum { SIZE = (1 << 20) + 1 };
    loop_rig rig;
    file_consumer c = {.leaves = true};
    files_rig_open(&rig, NULL, state);
    file_consumer_open(&c, &rig, files_make(SIZE), NULL);
    struct pollfd watched = {.fd = sluice_loop_fd(rig.loop), .events = POLLIN};
    assert_true(watched.fd >= 0);
    while (c.place < SIZE) {
        /* As long as there is nothing the disk may be slow. */
        for (int wait = 0; poll(&watched, 1, wait) == 1 || sluice_loop_timeout(rig.loop) == 0 || wait != 0;
             wait = file_buffered(&c) > 0 ? 0 : sluice_loop_timeout(rig.loop))
            assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
        assert_int_equal(sluice_loop_timeout(rig.loop), -1);
        assert_true(file_buffered(&c) > 0);
        file_consume(&c, file_buffered(&c));
        /* At once, or when a read completes that the kernel still has: the last finds the end.
         * Behind it, one that was begun before may complete. */
        if (!c.told_end)
            assert_int_equal(poll(&watched, 1, -1), 1);
    }
    assert_true(c.told_end);
    assert_false(c.differs);
    files_rig_close(&rig);
}

/* A consumer takes some of what it is told and waits for a whole number of bytes again. */
static void take_in_steps(sluice_file *file, void *user) {
    file_consumer *c = user;
    c->file = file;
    c->data++;
    if (file_buffered(c) < 100000 && !c->told_end)
        c->differs = sluice_file_offset(file) + 100000 <= 1 << 20;
    file_consume(c, file_buffered(c) < 100000 ? file_buffered(c) : 100000);
}

static void needs_are_met(void **state) {
    loop_rig rig;
    file_consumer c = {.leaves = true};
    sluice_file_events events = file_consumer_events;
    files_rig_open(&rig, NULL, state);

    /* Beyond the window. */
    file_consumer_open(&c, &rig, files_make(2 << 20),
                       &(sluice_file_options){.size = sizeof(sluice_file_options), .read_ahead = 16384});
    sluice_file_set_need(c.file, 1000000);
    turn_until_count(rig.loop, &c.data, 1);
    assert_in_range(file_buffered(&c), 1000000, 1000000 + 65536);
    /* Lowered: what is there is told, though nothing comes. */
    sluice_file_set_need(c.file, 1500000);
    sluice_file_set_need(c.file, 1);
    turn_until_count(rig.loop, &c.data, 2);
    file_consumer_close(&c, &rig);

    /* One that stays, and leaves a rest smaller than itself in the one block of the window. */
    c = (file_consumer){.leaves = true};
    events.on_data = take_in_steps;
    assert_int_equal(sluice_file_new(rig.loop, files_make(1 << 20),
                                     &(sluice_file_options){.size = sizeof(sluice_file_options), .read_ahead = 1},
                                     &events, &c, &c.file),
                     0);
    sluice_file_set_need(c.file, 100000);
    turn_until(rig.loop, &c.told_end);
    assert_false(c.differs);
    /* The end delivers what is left. */
    while (file_buffered(&c) > 0)
        file_consume(&c, file_buffered(&c));
    assert_int_equal(c.place, 1 << 20);
    files_rig_close(&rig);
}

/* Within a block a reader takes bytes without a word to anybody. */
static void what_is_taken_within_a_block_is_made_good(void **state) {
    loop_rig rig;
    file_consumer c = {.leaves = true};
    sluice_reader *reader;
    files_rig_open(&rig, NULL, state);
    file_consumer_open(&c, &rig, files_make(1 << 20),
                       &(sluice_file_options){.size = sizeof(sluice_file_options), .read_ahead = 1});
    sluice_file_set_need(c.file, 3 * BLOCK);
    assert_int_equal(sluice_reader_new(sluice_file_chain(c.file), &reader), 0);
    for (uint64_t place = 0; place < 50 * BLOCK;) {
        unsigned told = c.data;
        turn_until_count(rig.loop, &c.data, told + 1);
        assert_true(file_buffered(&c) >= 3 * BLOCK);
        while (file_buffered(&c) >= 3 * BLOCK - 1000) {
            uint8_t byte;
            assert_int_equal(sluice_reader_u8(reader, &byte), 0);
            assert_true(pattern_matches(FILES_SEED, place++, &byte, 1));
        }
    }
    sluice_reader_free(reader);
    file_consumer_close(&c, &rig);
    files_rig_close(&rig);
}

static void a_pool_smaller_than_the_window_is_enough(void **state) {
    static const sluice_pool_options pools[] = {
        {.size = sizeof(sluice_pool_options),
         .block_size = BLOCK,
         .slab_blocks = 8,
         .max_blocks = 16,
         .reserve_blocks = 1,
         .no_huge_pages = true},
        {.size = sizeof(sluice_pool_options),
         .block_size = 65536,
         .slab_blocks = 8,
         .max_blocks = 8,
         .reserve_blocks = 1,
         .no_huge_pages = true},
        {.size = sizeof(sluice_pool_options),
         .block_size = 512,
         .slab_blocks = 8,
         .max_blocks = 8,
         .reserve_blocks = 1,
         .no_huge_pages = true},
    };
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++) {
        loop_rig rig;
        files_rig_open(&rig, &pools[i], state);
        read_whole(&rig, 500001);
        files_rig_close(&rig);
    }
}

/* Reading ahead is a guess, and takes nothing that a connection may come to need. A need is
 * none. */
static void half_of_the_pool_is_for_others(void **state) {
    static const sluice_pool_options pool = {.size = sizeof pool,
                                             .block_size = BLOCK,
                                             .slab_blocks = 8,
                                             .max_blocks = 40,
                                             .reserve_blocks = 1,
                                             .no_huge_pages = true};
    loop_rig rig;
    file_consumer c[3] = {{.leaves = true}, {.leaves = true}, {.leaves = true}};
    files_rig_open(&rig, &pool, state);
    for (size_t i = 0; i < 3; i++)
        file_consumer_open(&c[i], &rig, files_make(1 << 20), NULL);
    files_settle(&rig);
    /* Besides, those that would have nothing otherwise have a block, and one for when that is
     * consumed. */
    assert_in_range(files_held(&rig), 20, 24);
    for (size_t i = 0; i < 3; i++)
        assert_true(file_buffered(&c[i]) >= BLOCK);
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(rig.pool, &stats);
    sluice_file_set_need(c[2].file, file_buffered(&c[2]) + 1);
    files_settle(&rig);
    if (stats.free > 1)
        assert_in_range(files_held(&rig), stats.held + 1, stats.held + 2);
    files_rig_close(&rig);
}

/* Slices hold every block; another thread releases them. */
typedef struct hoarder {
    sluice_slice slices[64];
    size_t count;
} hoarder;

static void *release_all(void *user) {
    hoarder *h = user;
    for (size_t i = 0; i < h->count; i++)
        sluice_slice_release(&h->slices[i]);
    return NULL;
}

static void released_blocks_resume_it(void **state) {
    enum { SIZE = 300000 };
    static const sluice_pool_options pool = {.size = sizeof pool,
                                             .block_size = BLOCK,
                                             .slab_blocks = 16,
                                             .max_blocks = 32,
                                             .reserve_blocks = 1,
                                             .no_huge_pages = true};
    loop_rig rig;
    file_consumer c = {.leaves = true};
    files_rig_open(&rig, &pool, state);
    file_consumer_open(&c, &rig, files_make(SIZE), NULL);
    while (c.place < SIZE) {
        hoarder h = {0};
        pthread_t thread;
        /* Until there is no block to read into: the consumer waits and nothing comes. */
        for (unsigned quiet = 0; quiet < 3;) {
            turn_through(rig.loop, 1);
            size_t n = file_buffered(&c);
            quiet = n == 0 ? quiet + 1 : 0;
            if (n == 0)
                continue;
            assert_true(h.count < 64);
            assert_int_equal(sluice_chain_take(sluice_file_chain(c.file), n, &h.slices[h.count]), 0);
            assert_true(pattern_slice_matches(FILES_SEED, c.place, &h.slices[h.count++]));
            c.place += n;
        }
        if (c.place == SIZE) {
            release_all(&h);
            break;
        }
        assert_false(c.told_end);
        unsigned data = c.data;
        assert_int_equal(pthread_create(&thread, NULL, release_all, &h), 0);
        turn_until_count(rig.loop, &c.data, data + 1);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    turn_until(rig.loop, &c.told_end);
    assert_int_equal(c.error, 0);
    files_rig_close(&rig);
}

/* More than one. */

typedef struct socket_consumer {
    sluice_conn *conn;
    uint64_t place;
    bool differs, ended;
} socket_consumer;

static void socket_data(sluice_conn *conn, void *user) {
    socket_consumer *s = user;
    sluice_chain *chain = sluice_conn_chain(conn);
    if (!pattern_consume(chain, sluice_chain_length(chain), 5, &s->place))
        s->differs = true;
}

static void socket_end(sluice_conn *conn, int error, void *user) {
    socket_consumer *s = user;
    (void)conn;
    s->ended = true;
    s->differs |= error != 0;
}

static void files_and_sockets_share_a_loop(void **state) {
    static const sluice_conn_events events = {.size = sizeof events, .on_data = socket_data, .on_end = socket_end};
    static const sluice_pool_options pools[] = {
        {.size = sizeof(sluice_pool_options), .block_size = BLOCK, .no_huge_pages = true},
        /* Too small for two windows and what the socket brings. */
        {.size = sizeof(sluice_pool_options),
         .block_size = BLOCK,
         .slab_blocks = 8,
         .max_blocks = 64,
         .reserve_blocks = 1,
         .no_huge_pages = true},
    };
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++) {
        loop_rig rig;
        file_consumer files[2] = {0};
        socket_consumer s = {0};
        socket_writer writer;
        int fds[2];
        files_rig_open(&rig, &pools[i], state);
        sockets_tcp_pair(fds);
        assert_int_equal(sluice_conn_new(rig.loop, fds[0], &events, &s, &s.conn), 0);
        for (size_t k = 0; k < 2; k++)
            file_consumer_open(&files[k], &rig, files_make(3000000 + k), NULL);
        socket_writer_start(&writer, fds[1], 5, 3 << 20, 1, 30000);
        turn_until(rig.loop, &files[0].told_end);
        turn_until(rig.loop, &files[1].told_end);
        turn_until(rig.loop, &s.ended);
        socket_writer_join(&writer);
        assert_int_equal(s.place, 3 << 20);
        assert_false(s.differs);
        for (size_t k = 0; k < 2; k++) {
            assert_int_equal(files[k].place, 3000000 + k);
            assert_int_equal(files[k].error, 0);
            assert_false(files[k].differs);
        }
        close(fds[1]);
        files_rig_close(&rig);
    }
}

/* Elsewhere. */

typedef struct seeker {
    file_consumer c;
    unsigned seeks;
    const uint64_t *places;
    unsigned left;
} seeker;

static void seek_within(sluice_file *file, void *user) {
    seeker *s = user;
    file_consumer_events.on_data(file, user);
    if (s->left == 0)
        return;
    s->left--;
    s->c.place = s->places[s->seeks++];
    assert_int_equal(sluice_file_seek(file, s->c.place, 0), 0);
    assert_int_equal(sluice_file_offset(file), s->c.place);
}

static void a_seek_goes_on_elsewhere(void **state) {
    enum { SIZE = 3 << 20 };
    static const uint64_t places[] = {2 << 20, 1, 70000, SIZE - 1, SIZE, 0, SIZE + 1000, 4096};
    loop_rig rig;
    seeker s = {.places = places, .left = sizeof places / sizeof *places};
    sluice_file_events events = file_consumer_events;
    events.on_data = seek_within;
    files_rig_open(&rig, &sizes[0], state);
    assert_int_equal(sluice_file_new(rig.loop, files_make(SIZE), NULL, &events, &s, &s.c.file), 0);
    unsigned ends = 0;
    while (s.left > 0) {
        turn(rig.loop);
        /* At and beyond the end there is nothing, and the file ends again. */
        if (s.c.ends > ends && s.left > 0) {
            ends = s.c.ends;
            s.left--;
            s.c.place = s.places[s.seeks++];
            assert_int_equal(sluice_file_seek(s.c.file, s.c.place, 0), 0);
        }
    }
    while (s.c.place < SIZE || s.c.ends == ends)
        turn(rig.loop);
    assert_int_equal(s.seeks, sizeof places / sizeof *places);
    assert_true(ends >= 2);
    assert_int_equal(s.c.place, SIZE);
    assert_false(s.c.differs);
    assert_int_equal(s.c.error, 0);
    files_rig_close(&rig);
}

/* As for a request of several ranges: each ends where it was said. */
static void ranges_follow_each_other(void **state) {
    static const struct {
        uint64_t offset, length;
    } ranges[] = {{1000, 10}, {0, 1}, {300000, 200000}, {4096, 8192}, {999999, 1}};
    loop_rig rig;
    sluice_file *file;
    files_rig_open(&rig, NULL, state);
    assert_int_equal(sluice_file_new(rig.loop, files_make(1000000), NULL, NULL, NULL, &file), 0);
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        uint64_t place = ranges[i].offset, end = place + ranges[i].length;
        assert_int_equal(sluice_file_seek(file, place, ranges[i].length), 0);
        assert_int_equal(sluice_chain_length(sluice_file_chain(file)), 0);
        while (place < end) {
            assert_int_equal(sluice_file_fill(file, 1, UINT64_MAX), 0);
            size_t n = sluice_chain_length(sluice_file_chain(file));
            assert_true(pattern_consume(sluice_file_chain(file), n, FILES_SEED, &place));
        }
        assert_int_equal(place, end);
        assert_int_equal(sluice_file_fill(file, 1, UINT64_MAX), -ENODATA);
    }
    assert_int_equal(sluice_file_seek(file, INT64_MAX, 0), -EINVAL);
    assert_int_equal(sluice_file_seek(file, UINT64_MAX, 1), -EINVAL);
    assert_int_equal(sluice_file_offset(file), 1000000);
    files_rig_close(&rig);
}

/* Framers. */

typedef struct framed {
    sluice_flv *flv;
    uint8_t *found;
    size_t size;
    unsigned tags;
    bool told_end;
    int error;
} framed;

enum { TAGS = 150, LARGEST = 400000 };

/* Copies in the test's own way: that the library copies nothing is part of what is tested. */
static void frame(framed *f, sluice_chain *chain) {
    sluice_flv_tag *tag;
    int result;
    while ((result = sluice_flv_next(f->flv, chain, &tag)) > 0) {
        const uint32_t fields[] = {tag->type, tag->timestamp, tag->size};
        memcpy(f->found + f->size, fields, sizeof fields);
        f->size += sizeof fields;
        for (size_t done = 0; done < tag->size;) {
            struct iovec pieces[64];
            size_t count = sluice_slice_iov(&tag->payload, done, pieces, 64);
            for (size_t i = 0; i < count && i < 64; i++) {
                memcpy(f->found + f->size, pieces[i].iov_base, pieces[i].iov_len);
                f->size += pieces[i].iov_len;
                done += pieces[i].iov_len;
            }
        }
        f->tags++;
    }
    f->error = result;
}

static void framed_data(sluice_file *file, void *user) {
    framed *f = user;
    frame(f, sluice_file_chain(file));
    sluice_file_set_need(file, sluice_flv_need(f->flv));
}

static void framed_end(sluice_file *file, int error, void *user) {
    framed *f = user;
    (void)file;
    f->told_end = true;
    f->error = f->error ? f->error : error;
}

/* Tags of all sizes, some larger than the window. */
static uint8_t *make_flv(size_t *ret_size) {
    uint8_t *stream = malloc(TAGS * (size_t)(LARGEST + 64));
    uint64_t random = 3;
    size_t size = SLUICE_FLV_HEADER_SIZE;
    assert_non_null(stream);
    sluice_flv_write_header(stream, SLUICE_FLV_HAS_VIDEO);
    for (uint32_t i = 0; i < TAGS; i++) {
        uint32_t n = random_between(&random, 1, i % 10 ? 5000 : LARGEST);
        sluice_flv_write_tag_header(stream + size, i % 3 ? SLUICE_FLV_VIDEO : SLUICE_FLV_AUDIO, n, 40 * i);
        pattern_fill(i, 0, stream + size + SLUICE_FLV_TAG_HEADER_SIZE, n);
        size += SLUICE_FLV_TAG_HEADER_SIZE + n;
        sluice_flv_write_trailer(stream + size, n);
        size += SLUICE_FLV_TRAILER_SIZE;
    }
    *ret_size = size;
    return stream;
}

static void framed_open(framed *f, size_t size) {
    *f = (framed){.found = malloc(size)};
    assert_non_null(f->found);
    assert_int_equal(sluice_flv_new(0, &f->flv), 0);
}

static void tags_are_those_of_the_bytes(void **state) {
    static const sluice_file_events events = {.size = sizeof events, .on_data = framed_data, .on_end = framed_end};
    size_t size;
    uint8_t *stream = make_flv(&size);
    int fd = files_make(0);
    assert_int_equal(write(fd, stream, size), size);
    for (size_t i = 0; i < SIZES; i++) {
        loop_rig rig;
        framed memory, file;
        sluice_file *source;
        sluice_chain *chain;
        files_rig_open(&rig, &sizes[i], state);
        framed_open(&memory, size);
        assert_int_equal(sluice_chain_new(rig.pool, &chain), 0);
        for (size_t at = 0; at < size;) {
            sluice_block *block;
            assert_int_equal(sluice_block_get(rig.pool, &block), 0);
            size_t n = size - at < sluice_block_capacity(block) ? size - at : sluice_block_capacity(block);
            memcpy(sluice_block_data(block), stream + at, n);
            assert_int_equal(sluice_block_set_length(block, (uint32_t)n), 0);
            sluice_chain_append(chain, block);
            frame(&memory, chain);
            at += n;
        }
        framed_open(&file, size);
        assert_int_equal(sluice_file_new(rig.loop, dup(fd), NULL, &events, &file, &source), 0);
        turn_until(rig.loop, &file.told_end);
        assert_int_equal(file.error, 0);
        assert_int_equal(file.tags, TAGS);
        assert_int_equal(memory.tags, TAGS);
        assert_int_equal(file.size, memory.size);
        assert_memory_equal(file.found, memory.found, file.size);
        sluice_flv_free(memory.flv);
        sluice_flv_free(file.flv);
        free(memory.found);
        free(file.found);
        sluice_chain_free(chain);
        files_rig_close(&rig);
    }
    close(fd);
    free(stream);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FILES_ON_BOTH(contents_are_unchanged),
        FILES_ON_BOTH(contents_are_unchanged_without_fixed_buffers),
        FILES_ON_BOTH(a_read_of_one_piece_registers_its_slab),
        FILES_ON_BOTH(each_file_has_blocks_of_its_size),
        FILES_ON_BOTH(what_is_not_in_the_page_cache_arrives),
        FILES_ON_BOTH(holes_are_zeros),
        FILES_ON_BOTH(files_without_a_size_are_read_to_their_end),
        FILES_ON_BOTH(a_part_is_read),
        FILES_ON_BOTH(no_more_than_the_window_is_read_ahead),
        FILES_ON_BOTH(a_full_window_rests),
        FILES_ON_BOTH(consumption_between_turns_wakes_the_host),
        FILES_ON_BOTH(needs_are_met),
        FILES_ON_BOTH(what_is_taken_within_a_block_is_made_good),
        FILES_ON_BOTH(a_pool_smaller_than_the_window_is_enough),
        FILES_ON_BOTH(half_of_the_pool_is_for_others),
        FILES_ON_BOTH(released_blocks_resume_it),
        FILES_ON_BOTH(files_and_sockets_share_a_loop),
        FILES_ON_BOTH(a_seek_goes_on_elsewhere),
        FILES_ON_BOTH(ranges_follow_each_other),
        FILES_ON_BOTH(tags_are_those_of_the_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
