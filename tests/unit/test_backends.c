/* The two backends against each other: frames, growth, and what readiness must not change. */
#include <sluice/loop.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/conn.h>
#include <sluice/flv.h>

#include "memory/pool.h"
#include "support/backends_rig.h"
#include "support/sockets.h"

static uint32_t held(sluice_pool *pool) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(pool, &stats);
    return stats.held;
}

static void rig_open(loop_rig *rig, const sluice_pool_options *pool, sluice_backend_choice backend) {
    loop_rig_open(rig, pool, &(sluice_loop_options){.size = sizeof(sluice_loop_options), .backend = backend}, GUARD);
    assert_string_equal(stats_of(rig->loop).backend, names[backend]);
}

/* Frames: the same bytes at random write sizes through both backends. */

typedef struct bytes {
    uint8_t *data;
    size_t size;
} bytes;

/* What the framer found: each tag's header fields and payload, one after the other. */
typedef struct framed {
    sluice_conn *conn;
    sluice_flv *flv;
    bytes found;
    size_t capacity;
    unsigned tags;
    bool told_end;
    int error; /* the framer's, or the connection's */
} framed;

enum { TAGS = 200, LARGEST = 60000, FOUND_HEADER = 9 };

static void add(bytes *to, const void *from, size_t n) {
    memcpy(to->data + to->size, from, n);
    to->size += n;
}

/* A stream of tags, most small, some large. */
static bytes make_stream(uint32_t seed, bytes *ret_found) {
    static const sluice_flv_type types[] = {SLUICE_FLV_AUDIO, SLUICE_FLV_VIDEO, SLUICE_FLV_SCRIPT};
    const size_t most = SLUICE_FLV_HEADER_SIZE + TAGS * (size_t)(LARGEST + 16);
    bytes stream = {malloc(most), SLUICE_FLV_HEADER_SIZE};
    bytes found = {malloc(most), 0};
    uint64_t random = seed;
    assert_non_null(stream.data);
    assert_non_null(found.data);
    sluice_flv_write_header(stream.data, SLUICE_FLV_HAS_AUDIO | SLUICE_FLV_HAS_VIDEO);
    for (uint32_t i = 0; i < TAGS; i++) {
        uint8_t header[SLUICE_FLV_TAG_HEADER_SIZE], trailer[SLUICE_FLV_TRAILER_SIZE], fields[FOUND_HEADER];
        sluice_flv_type type = types[random_between(&random, 0, 2)];
        uint32_t size = random_between(&random, 1, random_between(&random, 0, 9) ? 3000 : LARGEST);
        sluice_flv_write_tag_header(header, type, size, 40 * i);
        sluice_flv_write_trailer(trailer, size);
        add(&stream, header, sizeof header);
        pattern_fill(seed + i, 0, stream.data + stream.size, size);
        fields[0] = (uint8_t)type;
        memcpy(fields + 1, &size, 4);
        memcpy(fields + 5, &(uint32_t){40 * i}, 4);
        add(&found, fields, sizeof fields);
        add(&found, stream.data + stream.size, size);
        stream.size += size;
        add(&stream, trailer, sizeof trailer);
    }
    *ret_found = found;
    return stream;
}

/* Copies in the test's own way: that the library copies nothing is part of what is tested. */
static void framed_tag(framed *f, const sluice_flv_tag *tag) {
    uint8_t fields[FOUND_HEADER] = {(uint8_t)tag->type};
    struct iovec pieces[64];
    memcpy(fields + 1, &tag->size, 4);
    memcpy(fields + 5, &tag->timestamp, 4);
    if (f->found.size + sizeof fields + tag->size > f->capacity || !tag->trailer_ok) {
        f->error = -EPROTO;
        return;
    }
    add(&f->found, fields, sizeof fields);
    for (size_t done = 0; done < tag->size;) {
        size_t count = sluice_slice_iov(&tag->payload, done, pieces, 64);
        for (size_t i = 0; i < count && i < 64; i++) {
            add(&f->found, pieces[i].iov_base, pieces[i].iov_len);
            done += pieces[i].iov_len;
        }
    }
    f->tags++;
}

static void framed_data(sluice_conn *conn, void *user) {
    framed *f = user;
    sluice_flv_tag *tag;
    int result;
    while ((result = sluice_flv_next(f->flv, sluice_conn_chain(conn), &tag)) > 0)
        framed_tag(f, tag);
    if (result < 0)
        f->error = result;
    sluice_conn_set_need(conn, sluice_flv_need(f->flv));
}

static void framed_end(sluice_conn *conn, int error, void *user) {
    framed *f = user;
    (void)conn;
    f->told_end = true;
    f->error = f->error ? f->error : error;
}

static const sluice_conn_events framed_events = {
    .size = sizeof framed_events, .on_data = framed_data, .on_end = framed_end};

/* A thread that writes given bytes in pieces of random size, then says that it has finished. */
typedef struct stream_writer {
    pthread_t thread;
    int fd;
    bytes stream;
    uint32_t most;
    uint64_t random;
    bool broken;
} stream_writer;

static void *write_stream(void *user) {
    stream_writer *w = user;
    for (size_t at = 0; at < w->stream.size && !w->broken;) {
        size_t n = random_between(&w->random, 1, w->most);
        if (n > w->stream.size - at)
            n = w->stream.size - at;
        ssize_t sent = send(w->fd, w->stream.data + at, n, MSG_NOSIGNAL);
        w->broken = sent < 0 && errno != EINTR;
        at += sent > 0 ? (size_t)sent : 0;
    }
    shutdown(w->fd, SHUT_WR);
    return NULL;
}

typedef struct transport {
    void (*pair)(int fds[2]);
    sluice_pool_options pool;
    uint32_t most; /* bytes a write */
} transport;

static void carry(const transport *t, sluice_backend_choice backend, uint32_t seed, bytes stream, size_t expected,
                  framed *f) {
    loop_rig rig;
    int fds[2];
    *f = (framed){.capacity = expected, .found.data = malloc(expected)};
    assert_non_null(f->found.data);
    rig_open(&rig, &t->pool, backend);
    assert_int_equal(sluice_flv_new(0, &f->flv), 0);
    t->pair(fds);
    assert_int_equal(sluice_conn_new(rig.loop, fds[0], &framed_events, f, &f->conn), 0);
    stream_writer writer = {.fd = fds[1], .stream = stream, .most = t->most, .random = seed};
    assert_int_equal(pthread_create(&writer.thread, NULL, write_stream, &writer), 0);
    turn_until(rig.loop, &f->told_end);
    assert_int_equal(pthread_join(writer.thread, NULL), 0);
    assert_false(writer.broken);
    sluice_flv_free(f->flv);
    close(fds[1]);
    loop_rig_close(&rig);
}

static void frames_are_the_same_on_both(void **state) {
    (void)state;
    const sluice_pool_options roomy = {.size = sizeof roomy, .block_size = BLOCK, .no_huge_pages = true};
    /* The largest tag is pressure: small pieces may fill half of the blocks poorly, and it just
     * fits the other half. */
    const sluice_pool_options tight = {.size = sizeof tight,
                                       .block_size = BLOCK,
                                       .slab_blocks = 8,
                                       .max_blocks = 32,
                                       .reserve_blocks = 2,
                                       .no_huge_pages = true};
    const sluice_pool_options small = {.size = sizeof small, .block_size = 512, .no_huge_pages = true};
    const transport transports[] = {
        {sockets_tcp_pair, roomy, 100000}, {sockets_tcp_pair, roomy, 1500}, {sockets_unix_pair, roomy, 20000},
        {sockets_tcp_pair, tight, 2000},   {sockets_tcp_pair, small, 5000},
    };
    for (uint32_t i = 0; i < sizeof transports / sizeof *transports; i++) {
        bytes expected;
        uint32_t seed = 1000 * (i + 1);
        bytes stream = make_stream(seed, &expected);
        for (size_t k = 0; k < sizeof both / sizeof *both; k++) {
            framed f;
            carry(&transports[i], both[k], seed, stream, expected.size, &f);
            assert_int_equal(f.error, 0);
            assert_int_equal(f.tags, TAGS);
            assert_int_equal(f.found.size, expected.size);
            assert_memory_equal(f.found.data, expected.data, expected.size);
            free(f.found.data);
        }
        free(expected.data);
        free(stream.data);
    }
}

/* Growth. */

static bool is_resident(const struct iovec *memory) {
    unsigned char pages[1024];
    size_t size = (size_t)sysconf(_SC_PAGESIZE), count = memory->iov_len / size;
    assert_in_range(count, 1, sizeof pages);
    assert_int_equal(mincore(memory->iov_base, memory->iov_len, pages), 0);
    for (size_t i = 0; i < count; i++)
        if (!(pages[i] & 1))
            return false;
    return true;
}

static bool kernel_populates(void) {
    void *page = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    bool does = madvise(page, BLOCK, MADV_POPULATE_WRITE) == 0;
    munmap(page, BLOCK);
    return does;
}

/*
 * With nobody to write to it: its blocks are with nobody else, and the kernel has it registered
 * nowhere. Half of it when the slab before it is full, the rest when less than an eighth of a slab
 * is left of that.
 */
static void the_next_slab_is_made_ready_before_it_is_needed(void **state) {
    (void)state;
    enum { SLAB = 1024, FURTHER = SLAB / 2 - SLAB / 8 + 1 };
    static sluice_block *blocks[SLAB + FURTHER];
    const sluice_pool_options options = {
        .size = sizeof options, .block_size = BLOCK, .slab_blocks = SLAB, .no_huge_pages = true};
    for (size_t k = 0; k < sizeof both / sizeof *both; k++) {
        const sluice_loop_options loop = {
            .size = sizeof loop, .backend = both[k], .no_fixed = true, .stock_bytes = BLOCK};
        loop_rig rig;
        sluice_pool_stats stats = {.size = sizeof stats};
        struct iovec slab;
        loop_rig_open(&rig, &options, &loop, GUARD);
        turn_through(rig.loop, 2);
        sluice_pool_get_stats(rig.pool, &stats);
        assert_int_equal(stats.bytes_mapped, SLAB * BLOCK);
        for (size_t i = 0; i < SLAB + 1; i++)
            assert_int_equal(sluice_block_get(rig.pool, &blocks[i]), 0);
        sluice_pool_get_stats(rig.pool, &stats);
        assert_int_equal(stats.slabs, 2);
        pool_slab(rig.pool, 1, &slab);
        const struct iovec half = {slab.iov_base, slab.iov_len / 2};
        while (kernel_populates() && !is_resident(&half))
            turn_through(rig.loop, 1);
        assert_false(is_resident(&slab));
        for (size_t i = SLAB + 1; i < SLAB + FURTHER; i++)
            assert_int_equal(sluice_block_get(rig.pool, &blocks[i]), 0);
        while (kernel_populates() && !is_resident(&slab))
            turn_through(rig.loop, 1);
        for (size_t i = 0; i < SLAB + FURTHER; i++)
            sluice_block_release(blocks[i]);
        loop_rig_close(&rig);
    }
}

/* What is not received into is registered nowhere, so its memory is touched as it is used. */
static void a_slab_that_nobody_receives_into_is_not_touched_as_a_whole(void **state) {
    (void)state;
    enum { SMALL = 512 };
    const sluice_pool_options options = {
        .size = sizeof options, .block_size = BLOCK, .class_sizes = {SMALL}, .no_huge_pages = true};
    for (size_t k = 0; k < sizeof both / sizeof *both; k++) {
        const sluice_loop_options loop = {.size = sizeof loop, .backend = both[k]};
        loop_rig rig;
        sluice_pool *small;
        sluice_block *block;
        struct iovec slab;
        loop_rig_open(&rig, &options, &loop, GUARD);
        assert_int_equal(sluice_pool_class(rig.pool, SMALL, &small), 0);
        assert_int_equal(sluice_block_get(small, &block), 0);
        *sluice_block_data(block) = 1;
        turn_through(rig.loop, 2);
        pool_slab(rig.pool, 1, &slab);
        assert_false(is_resident(&slab));
        sluice_block_release(block);
        loop_rig_close(&rig);
    }
}

static void note_length(sluice_conn *conn, void *user) {
    *(size_t *)user = sluice_chain_length(sluice_conn_chain(conn));
}

/*
 * A slab that is registered is pinned as a whole, which takes milliseconds. Receiving does not need
 * that, not even from a peer that sends a byte at a time; and what is not in use is not reported as
 * a feature.
 */
static void receiving_registers_nothing(void **state) {
    (void)state;
    enum { PIECES = 64 };
    const sluice_pool_options options = {.size = sizeof options, .block_size = BLOCK, .no_huge_pages = true};
    static const sluice_conn_events keeping = {.size = sizeof keeping, .on_data = note_length};
    for (size_t k = 0; k < sizeof both / sizeof *both; k++) {
        loop_rig rig;
        sluice_conn *conn;
        struct iovec slab;
        size_t length = 0;
        int fds[2];
        loop_rig_open(&rig, &options, &(sluice_loop_options){.size = sizeof(sluice_loop_options), .backend = both[k]},
                      GUARD);
        sockets_tcp_pair(fds);
        assert_int_equal(sluice_conn_new(rig.loop, fds[0], &keeping, &length, &conn), 0);
        for (unsigned i = 0; i < PIECES; i++) {
            sockets_write(fds[1], "b", 1);
            turn_until_buffered(rig.loop, conn, i + 1);
        }
        assert_true(stats_of(rig.loop).aimed > 0);
        assert_null(strstr(stats_of(rig.loop).features, "fixed-buffers"));
        pool_slab(rig.pool, 0, &slab);
        assert_false(is_resident(&slab));
        close(fds[1]);
        loop_rig_close(&rig);
    }
}

/* The loop ends while that may be under way. */
static void a_loop_ends_while_a_slab_is_made_ready(void **state) {
    (void)state;
    enum { TAKEN = 950 };
    static sluice_block *blocks[TAKEN];
    for (size_t k = 0; k < sizeof both / sizeof *both; k++) {
        const sluice_loop_options loop = {.size = sizeof loop, .backend = both[k]};
        loop_rig rig;
        sluice_pool_stats stats = {.size = sizeof stats};
        loop_rig_open(&rig, NULL, &loop, GUARD);
        for (size_t i = 0; i < TAKEN; i++)
            assert_int_equal(sluice_block_get(rig.pool, &blocks[i]), 0);
        sluice_pool_get_stats(rig.pool, &stats);
        assert_int_equal(stats.slabs, 1);
        assert_int_equal(stats.bytes_mapped, 2 * stats.total * BLOCK);
        for (size_t i = 0; i < TAKEN; i++)
            sluice_block_release(blocks[i]);
        loop_rig_close(&rig);
    }
}

/* What readiness must not make different. */

typedef struct listening {
    sluice_conn *conn;
    unsigned data, ends, closed;
    size_t buffered;
    int error;
} listening;

static void listening_data(sluice_conn *conn, void *user) {
    listening *l = user;
    l->data++;
    l->buffered = sluice_chain_length(sluice_conn_chain(conn));
}

static void listening_end(sluice_conn *conn, int error, void *user) {
    listening *l = user;
    (void)conn;
    l->ends++;
    l->error = error;
}

static void listening_closed(sluice_conn *conn, void *user) {
    listening *l = user;
    (void)conn;
    l->closed++;
}

static const sluice_conn_events listening_events = {
    .size = sizeof listening_events, .on_data = listening_data, .on_end = listening_end, .on_closed = listening_closed};

static void fire(sluice_timer *timer, void *user) {
    (void)timer;
    *(bool *)user = true;
}

/* Turns until a timer of 50 ms fires. How many turns it took: a loop that has nothing to do takes
 * two or three. */
static uint64_t turns_of_an_idle_loop(sluice_loop *loop) {
    sluice_timer *timer;
    bool fired = false;
    assert_int_equal(sluice_timer_new(loop, fire, &fired, &timer), 0);
    uint64_t before = stats_of(loop).turns;
    sluice_timer_start(timer, 50);
    turn_until(loop, &fired);
    sluice_timer_free(timer);
    return stats_of(loop).turns - before;
}

/* Data, an end, a reset: whatever a connection does not want to hear of does not keep the loop
 * busy. */
static void what_nobody_wants_does_not_spin(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        loop_rig rig;
        listening paused[3] = {0}, ended = {0};
        int fds[2], peers[3];
        rig_open(&rig, NULL, both[i]);
        for (int k = 0; k < 3; k++) {
            sockets_tcp_pair(fds);
            peers[k] = fds[1];
            assert_int_equal(sluice_conn_new(rig.loop, fds[0], &listening_events, &paused[k], &paused[k].conn), 0);
            sluice_conn_pause(paused[k].conn);
            pattern_write(fds[1], 1, 0, 100);
        }
        sockets_tcp_pair(fds);
        assert_int_equal(sluice_conn_new(rig.loop, fds[0], &listening_events, &ended, &ended.conn), 0);
        shutdown(fds[1], SHUT_WR);
        shutdown(peers[1], SHUT_WR);
        sockets_reset_on_close(peers[2]);
        close(peers[2]);
        turn_until_count(rig.loop, &ended.ends, 1);
        turn_through(rig.loop, 5);
        assert_in_range(turns_of_an_idle_loop(rig.loop), 1, 10);
        for (int k = 0; k < 3; k++) {
            assert_int_equal(paused[k].data + paused[k].ends, 0);
            sluice_conn_resume(paused[k].conn);
        }
        /* They hear of it now. */
        turn_until_count(rig.loop, &paused[0].data, 1);
        turn_until_count(rig.loop, &paused[1].ends, 1);
        turn_until_count(rig.loop, &paused[2].ends, 1);
        assert_int_equal(paused[0].buffered, 100);
        assert_int_equal(paused[1].buffered, 100);
        assert_int_equal(paused[1].error, 0);
        assert_int_equal(paused[2].error, -ECONNRESET);
        assert_in_range(turns_of_an_idle_loop(rig.loop), 1, 10);
        close(peers[0]);
        close(peers[1]);
        close(fds[1]);
        loop_rig_close(&rig);
    }
}

/* A call closes connections of which the same turn has something to tell. */
typedef struct sweeper {
    listening conns[20];
    unsigned accepted;
} sweeper;

static void sweep(sluice_listener *listener, int fd, void *user) {
    sweeper *s = user;
    (void)listener;
    s->accepted++;
    close(fd);
    for (size_t i = 0; i < sizeof s->conns / sizeof *s->conns; i++)
        sluice_conn_close(s->conns[i].conn);
}

static void a_call_may_close_what_the_same_turn_would_tell(void **state) {
    (void)state;
    enum { CONNS = 20 };
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        loop_rig rig;
        sweeper s = {0};
        sluice_listener *listener;
        struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        struct sockaddr_storage address;
        int peers[CONNS];
        rig_open(&rig, NULL, both[i]);
        assert_int_equal(sluice_listener_new(rig.loop, (struct sockaddr *)&any, sizeof any, sweep, &s, &listener), 0);
        assert_int_equal(sluice_listener_address(listener, &address), 0);
        for (int k = 0; k < CONNS; k++) {
            int fds[2];
            sockets_unix_pair(fds);
            peers[k] = fds[1];
            assert_int_equal(sluice_conn_new(rig.loop, fds[0], &listening_events, &s.conns[k], &s.conns[k].conn), 0);
        }
        turn_through(rig.loop, 5);
        /* First the listener, then the connections. */
        int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof address), 0);
        sockets_wait_readable(sluice_listener_fd(listener));
        for (int k = 0; k < CONNS; k++)
            sockets_write(peers[k], "x", 1);
        turn_until_count(rig.loop, &s.accepted, 1);
        for (int k = 0; k < CONNS; k++) {
            turn_until_count(rig.loop, &s.conns[k].closed, 1);
            assert_int_equal(s.conns[k].data, 0);
            close(peers[k]);
        }
        close(client);
        loop_rig_close(&rig);
    }
}

/* The same where room to send comes to both at once: the first that hears of it closes the
 * other. */
typedef struct blocked {
    sluice_conn *conn;
    struct blocked *rival;
    unsigned sent, closed;
    bool strikes;
} blocked;

static size_t blocked_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    static uint8_t megabyte[1 << 20];
    (void)conn, (void)max, (void)user;
    iov[0] = (struct iovec){megabyte, sizeof megabyte};
    return 1;
}

static void blocked_sent(sluice_conn *conn, size_t n, void *user) {
    blocked *b = user;
    (void)conn, (void)n;
    b->sent++;
    if (b->strikes && b->rival->closed == 0) {
        b->strikes = b->rival->strikes = false;
        sluice_conn_close(b->rival->conn);
    }
}

static void blocked_closed(sluice_conn *conn, void *user) {
    blocked *b = user;
    (void)conn;
    b->closed++;
}

static void drain(int fd) {
    static uint8_t drained[1 << 16];
    while (recv(fd, drained, sizeof drained, MSG_DONTWAIT) > 0)
        ;
}

static void room_to_send_may_close_a_rival(void **state) {
    (void)state;
    static const sluice_conn_events events = {
        .size = sizeof events, .on_gather = blocked_gather, .on_sent = blocked_sent, .on_closed = blocked_closed};
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        loop_rig rig;
        blocked b[2] = {{.rival = &b[1]}, {.rival = &b[0]}};
        int peers[2];
        rig_open(&rig, NULL, both[i]);
        for (int k = 0; k < 2; k++) {
            int fds[2];
            sockets_unix_pair(fds);
            peers[k] = fds[1];
            assert_int_equal(sluice_conn_new(rig.loop, fds[0], &events, &b[k], &b[k].conn), 0);
            sluice_conn_want_send(b[k].conn);
        }
        turn_until_blocked(rig.loop, b[0].conn);
        turn_until_blocked(rig.loop, b[1].conn);
        b[0].strikes = b[1].strikes = true;
        drain(peers[0]);
        drain(peers[1]);
        while (b[0].closed + b[1].closed == 0)
            turn(rig.loop);
        turn_through(rig.loop, 5);
        assert_int_equal(b[0].closed + b[1].closed, 1);
        close(peers[0]);
        close(peers[1]);
        loop_rig_close(&rig);
        assert_int_equal(b[0].closed + b[1].closed, 2);
    }
}

/* Somebody else has the socket too: that it is still open means nothing to a connection that has
 * been closed. */
static void a_duplicate_outlives_its_connection(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        loop_rig rig;
        listening l = {0};
        int fds[2];
        rig_open(&rig, NULL, both[i]);
        sockets_tcp_pair(fds);
        int duplicate = dup(fds[0]);
        assert_true(duplicate >= 0);
        assert_int_equal(sluice_conn_new(rig.loop, fds[0], &listening_events, &l, &l.conn), 0);
        turn_through(rig.loop, 3);
        sluice_conn_close(l.conn);
        turn_until_count(rig.loop, &l.closed, 1);
        pattern_write(fds[1], 1, 0, 1000);
        shutdown(fds[1], SHUT_WR);
        turn_through(rig.loop, 5);
        assert_in_range(turns_of_an_idle_loop(rig.loop), 1, 10);
        assert_int_equal(l.data + l.ends, 0);
        close(duplicate);
        close(fds[1]);
        loop_rig_close(&rig);
    }
}

/* A descriptor that cannot be received from is a failure that is told, later and once. */
static void what_is_no_socket_ends_with_an_error(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        loop_rig rig;
        listening l = {0};
        rig_open(&rig, NULL, both[i]);
        int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(sluice_conn_new(rig.loop, fd, &listening_events, &l, &l.conn), 0);
        assert_int_equal(l.ends, 0);
        turn_until_count(rig.loop, &l.ends, 1);
        assert_true(l.error < 0);
        turn_through(rig.loop, 5);
        assert_int_equal(l.ends, 1);
        loop_rig_close(&rig);
        assert_int_equal(l.closed, 1);
    }
}

/* The epoll backend's reads: as large as what comes, and no larger. */
static void reads_grow_with_what_comes(void **state) {
    (void)state;
    /* Less than that is little enough to share blocks. */
    enum { LITTLE = BLOCK / 4, MUCH = 25 * BLOCK };
    loop_rig rig;
    listening l = {0};
    uint64_t place = 0;
    int fds[2];
    rig_open(&rig, NULL, SLUICE_BACKEND_EPOLL);
    sockets_unix_pair(fds);
    assert_int_equal(sluice_conn_new(rig.loop, fds[0], &listening_events, &l, &l.conn), 0);
    for (size_t n = 0; n < 10 * LITTLE; n += LITTLE) {
        pattern_write(fds[1], 1, n, LITTLE);
        turn_until_buffered(rig.loop, l.conn, n + LITTLE);
    }
    assert_int_equal(held(rig.pool), 10);
    /* 1, 2, 4, 8 blocks and the rest, not one at a time. */
    uint64_t before = stats_of(rig.loop).completions;
    pattern_write(fds[1], 1, 10 * LITTLE, MUCH);
    turn_until_buffered(rig.loop, l.conn, 10 * LITTLE + MUCH);
    assert_in_range(stats_of(rig.loop).completions - before, 4, 6);
    /* What the last of them took for nothing has gone back. */
    assert_int_equal(held(rig.pool), 10 + MUCH / BLOCK);
    assert_true(pattern_consume(sluice_conn_chain(l.conn), 10 * LITTLE + MUCH, 1, &place));
    pattern_write(fds[1], 1, place, LITTLE);
    turn_until_buffered(rig.loop, l.conn, LITTLE);
    assert_int_equal(held(rig.pool), 1);
    close(fds[1]);
    loop_rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_the_same_on_both),
        cmocka_unit_test(the_next_slab_is_made_ready_before_it_is_needed),
        cmocka_unit_test(a_slab_that_nobody_receives_into_is_not_touched_as_a_whole),
        cmocka_unit_test(receiving_registers_nothing),
        cmocka_unit_test(a_loop_ends_while_a_slab_is_made_ready),
        cmocka_unit_test(what_nobody_wants_does_not_spin),
        cmocka_unit_test(a_call_may_close_what_the_same_turn_would_tell),
        cmocka_unit_test(room_to_send_may_close_a_rival),
        cmocka_unit_test(a_duplicate_outlives_its_connection),
        cmocka_unit_test(what_is_no_socket_ends_with_an_error),
        cmocka_unit_test(reads_grow_with_what_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
