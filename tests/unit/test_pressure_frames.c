/* Receiving while blocks run short: frames, what gives way, the reserve, and other threads. */
#include <sluice/conn.h>

#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/loop.h>
#include <sluice/slice.h>

#include "memory/chain.h"
#include "reader/cursor.h"
#include "support/clock.h"
#include "support/pressure_rig.h"
#include "support/sockets.h"

/* Frames. */

enum { FRAME_PREFIX = 4, PREFIX_SHIFT = 24 };

/* The bytes of a stream of frames: lengths, most significant byte first, and pattern bytes. */
static void frames_fill(uint32_t seed, uint64_t place, uint32_t frame, uint8_t *bytes, size_t n) {
    uint64_t whole = (uint64_t)frame + FRAME_PREFIX;
    pattern_fill(seed, place, bytes, n);
    for (size_t i = 0; i < n; i++)
        if ((place + i) % whole < FRAME_PREFIX)
            bytes[i] = (uint8_t)(frame >> (PREFIX_SHIFT - 8 * ((place + i) % whole)));
}

/* Takes whole frames only. */
typedef struct framed {
    sluice_conn *conn;
    uint32_t seed;
    uint32_t frame;
    uint64_t place;
    unsigned frames;
    bool differs, ended;
    unsigned closed;
    int error;
} framed;

static void framed_data(sluice_conn *conn, void *user) {
    framed *f = user;
    sluice_chain *chain = sluice_conn_chain(conn);
    const size_t whole = f->frame + FRAME_PREFIX;
    uint32_t length;
    for (;;) {
        sluice_cursor cursor = cursor_of_chain(chain);
        if (!cursor_be32(&cursor, &length)) {
            sluice_conn_set_need(conn, FRAME_PREFIX);
            return;
        }
        f->differs |= length != f->frame;
        if (sluice_chain_length(chain) < whole || f->differs) {
            sluice_conn_set_need(conn, whole);
            return;
        }
        sluice_chain_skip(chain, FRAME_PREFIX);
        f->place += FRAME_PREFIX;
        f->differs |= !pattern_consume(chain, length, f->seed, &f->place);
        f->frames++;
    }
}

static void framed_end(sluice_conn *conn, int error, void *user) {
    framed *f = user;
    f->ended = true;
    f->error = error;
    if (error)
        sluice_conn_close(conn);
}

static void framed_closed(sluice_conn *conn, void *user) {
    framed *f = user;
    (void)conn;
    f->closed++;
}

static const sluice_conn_events framed_events = {
    .size = sizeof framed_events, .on_data = framed_data, .on_end = framed_end, .on_closed = framed_closed};

enum { SENDERS = 100, SENDER_THREADS = 4, PER_THREAD = SENDERS / SENDER_THREADS, FRAMES = 30, MAX_CHUNK = 128 };

typedef struct frame_senders {
    pthread_t thread;
    int fds[PER_THREAD];
    uint32_t seeds[PER_THREAD];
    uint64_t places[PER_THREAD];
    uint32_t frame;
    uint64_t total;
    bool broken; /* a receiver went away */
} frame_senders;

/* Sends one piece of one stream; false when the stream is done or broken. */
static bool send_chunk(frame_senders *s, int i, uint64_t *random) {
    uint8_t bytes[MAX_CHUNK];
    size_t n = random_between(random, 1, sizeof bytes);
    if (n > s->total - s->places[i])
        n = s->total - s->places[i];
    frames_fill(s->seeds[i], s->places[i], s->frame, bytes, n);
    ssize_t sent = send(s->fds[i], bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        s->broken = true;
        return false;
    }
    s->places[i] += sent > 0 ? (uint64_t)sent : 0;
    return s->places[i] < s->total;
}

static void *send_frames(void *user) {
    frame_senders *s = user;
    struct pollfd polls[PER_THREAD];
    uint64_t random = s->seeds[0];
    int open = PER_THREAD;
    for (int i = 0; i < PER_THREAD; i++)
        polls[i] = (struct pollfd){.fd = s->fds[i], .events = POLLOUT};
    while (open > 0) {
        if (poll(polls, PER_THREAD, -1) < 0 && errno != EINTR)
            break;
        for (int i = 0; i < PER_THREAD; i++) {
            if (polls[i].fd < 0 || polls[i].revents == 0 || send_chunk(s, i, &random))
                continue;
            polls[i].fd = -1;
            open--;
        }
    }
    return NULL;
}

static void frames_arrive_through(uint32_t blocks, uint32_t frame) {
    static framed receivers[SENDERS];
    static frame_senders senders[SENDER_THREADS];
    sluice_pool_options options = {
        .size = sizeof options, .block_size = BLOCK, .max_blocks = blocks, .no_huge_pages = true};
    loop_rig rig;
    unsigned frames = 0;
    patient_rig_open(&rig, &options, &every_piece);
    memset(senders, 0, sizeof senders);
    for (uint32_t i = 0; i < SENDERS; i++) {
        frame_senders *s = &senders[i / PER_THREAD];
        int fds[2];
        sockets_tcp_pair(fds);
        receivers[i] = (framed){.seed = i, .frame = frame};
        s->fds[i % PER_THREAD] = fds[1];
        s->seeds[i % PER_THREAD] = i;
        s->frame = frame;
        s->total = (uint64_t)FRAMES * (frame + FRAME_PREFIX);
        assert_int_equal(sluice_conn_new(rig.loop, fds[0], &framed_events, &receivers[i], &receivers[i].conn), 0);
    }
    for (int i = 0; i < SENDER_THREADS; i++)
        assert_int_equal(pthread_create(&senders[i].thread, NULL, send_frames, &senders[i]), 0);
    size_t most = 0;
    while (frames < SENDERS * FRAMES) {
        turn(rig.loop);
        size_t kept = 0;
        for (int i = 0; i < SENDERS; i++)
            kept += sluice_chain_footprint(sluice_conn_chain(receivers[i].conn));
        most = kept > most ? kept : most;
        frames = 0;
        for (int i = 0; i < SENDERS; i++) {
            frames += receivers[i].frames;
            if (receivers[i].ended)
                fail_msg("connection %d ended with %d after %u frames", i, receivers[i].error, receivers[i].frames);
        }
    }
    for (int i = 0; i < SENDER_THREADS; i++) {
        assert_int_equal(pthread_join(senders[i].thread, NULL), 0);
        assert_false(senders[i].broken);
    }
    for (int i = 0; i < SENDERS; i++) {
        assert_int_equal(receivers[i].frames, FRAMES);
        assert_false(receivers[i].differs);
        close(senders[i / PER_THREAD].fds[i % PER_THREAD]);
    }
    /*
     * Pieces that come faster than they are received share blocks, and there may be no pressure,
     * for which they are aimed. The pool's peak says nothing: epoll takes blocks for a read before
     * it knows of a piece, and a loop that is behind gets many whole frames in one turn, which go
     * at once. What the chains kept from turn to turn tells.
     */
    bool no_pressure = most < (size_t)blocks * BLOCK / 2;
    assert_true(stats_of(&rig).aimed > 0 || no_pressure);
    patient_rig_close(&rig);
}

static void partial_frames_in_small_pieces_do_not_deadlock(void **state) {
    (void)state;
    frames_arrive_through(1024, 16384);
}

static void half_the_pool_takes_half_the_frame(void **state) {
    (void)state;
    frames_arrive_through(512, 8192);
}

/* The last resort: about five seconds without a block for anyone. */

static void the_largest_gives_way_when_all_wait_for_ever(void **state) {
    (void)state;
    enum { SMALL_FRAME = 100000, LARGE_FRAME = 4 * SMALL * BLOCK };
    loop_rig rig;
    framed small = {.seed = 1, .frame = SMALL_FRAME};
    framed large = {.seed = 2, .frame = LARGE_FRAME};
    uint8_t *bytes = malloc(SMALL_FRAME + FRAME_PREFIX);
    int fds[2][2];
    assert_non_null(bytes);
    loop_rig_open(&rig, &small_pool, &every_piece, GUARD);
    for (int i = 0; i < 2; i++) {
        framed *f = i ? &large : &small;
        sockets_tcp_pair(fds[i]);
        assert_int_equal(sluice_conn_new(rig.loop, fds[i][0], &framed_events, f, &f->conn), 0);
    }
    frames_fill(small.seed, 0, small.frame, bytes, SMALL_FRAME + FRAME_PREFIX);
    sockets_write(fds[0][1], bytes, 20000);
    turn_until_buffered(rig.loop, small.conn, 20000);
    uint8_t piece[16384];
    for (uint64_t place = 0; place < 2 * SMALL * BLOCK; place += sizeof piece) {
        frames_fill(large.seed, place, large.frame, piece, sizeof piece);
        sockets_write(fds[1][1], piece, sizeof piece);
    }
    turn_until_starved(&rig);
    sockets_write(fds[0][1], bytes + 20000, SMALL_FRAME + FRAME_PREFIX - 20000);
    while (small.frames == 0)
        turn(rig.loop);
    assert_int_equal(small.frames, 1);
    assert_false(small.differs);
    assert_false(small.ended);
    assert_true(large.ended);
    assert_int_equal(large.error, -ENOBUFS);
    assert_int_equal(large.closed, 1);
    close(fds[0][1]);
    close(fds[1][1]);
    loop_rig_close(&rig);
    free(bytes);
}

typedef struct watch {
    sluice_loop *loop;
    atomic_bool barked, over;
    pthread_t thread;
} watch;

static void nothing(void *user) {
    (void)user;
}

/* Wakes the loop when it should long have woken by itself. */
static void *watch_over(void *user) {
    watch *w = user;
    for (int i = 0; i < 600 && !atomic_load(&w->over); i++)
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    if (!atomic_load(&w->over)) {
        atomic_store(&w->barked, true);
        if (sluice_loop_post(w->loop, nothing, NULL) < 0)
            abort();
    }
    return NULL;
}

/* The only one is told too, although nothing else will ever wake the loop. */
static void one_that_waits_alone_gives_way(void **state) {
    (void)state;
    loop_rig rig;
    receiver r = {.seed = 4, .leaves = true};
    loop_rig_open(&rig, &small_pool, NULL, GUARD);
    watch w = {.loop = rig.loop};
    int peer = receiver_open(&r, &rig);
    pattern_write(peer, r.seed, 0, 2 * SMALL * BLOCK);
    turn_until_starved(&rig);
    assert_int_equal(pthread_create(&w.thread, NULL, watch_over, &w), 0);
    turn_until(rig.loop, &r.told_end);
    bool alone = !atomic_load(&w.barked);
    atomic_store(&w.over, true);
    assert_int_equal(pthread_join(w.thread, NULL), 0);
    assert_true(alone);
    assert_int_equal(r.error, -ENOBUFS);
    close(peer);
    loop_rig_close(&rig);
    assert_int_equal(r.closed, 1);
}

/* Found by reading: who began to wait long after the last one had gone was ended at once. */
static void an_earlier_hunger_does_not_count(void **state) {
    (void)state;
    loop_rig rig;
    receiver r = {.seed = 3};
    hoard h = {0};
    int peer = starve(&r, &rig, &h);
    turn_through(rig.loop, 1);
    sluice_conn_pause(r.conn);
    turn_through(rig.loop, 1);
    clock_forward(LAST_RESORT + 200);
    sluice_conn_resume(r.conn);
    turn_until_starved(&rig);
    turn_through(rig.loop, 3);
    assert_false(r.told_end);
    r.leaves = false;
    hoard_release(&h);
    while (r.place < 2 * SMALL * BLOCK)
        turn(rig.loop);
    close(peer);
    patient_rig_close(&rig);
}

/* As after SIGSTOP: in that time nobody could have given a block back. */
static void a_time_without_turns_counts_little(void **state) {
    (void)state;
    loop_rig rig;
    receiver r = {.seed = 3};
    hoard h = {0};
    int peer = starve(&r, &rig, &h);
    turn_through(rig.loop, 1);
    for (unsigned counted = 1000; counted < LAST_RESORT; counted += 1000) {
        clock_forward(3600 * 1000);
        turn_through(rig.loop, 3);
        assert_false(r.told_end);
    }
    clock_forward(1000);
    turn_until(rig.loop, &r.told_end);
    assert_int_equal(r.error, -ENOBUFS);
    hoard_release(&h);
    close(peer);
    patient_rig_close(&rig);
    assert_int_equal(r.closed, 1);
}

/* The reserve. */

typedef struct keeper {
    sluice_slice kept[SMALL];
    unsigned count, refused;
} keeper;

static void keeper_data(sluice_conn *conn, void *user) {
    keeper *k = user;
    sluice_chain *chain = sluice_conn_chain(conn);
    while (sluice_chain_length(chain) > 0) {
        sluice_slice slice;
        size_t n = sluice_chain_length(chain) < BLOCK ? sluice_chain_length(chain) : BLOCK;
        assert_int_equal(sluice_chain_take(chain, n, &slice), 0);
        if (k->count < SMALL && sluice_slice_take(&slice, &k->kept[k->count]) == 0) {
            k->count++;
            continue;
        }
        k->refused++;
        sluice_slice_release(&slice);
    }
}

static void consumers_cannot_keep_the_reserve(void **state) {
    (void)state;
    static const sluice_conn_events events = {.size = sizeof events, .on_data = keeper_data};
    const sluice_pool_options options = {.size = sizeof options,
                                         .block_size = BLOCK,
                                         .slab_blocks = 8,
                                         .max_blocks = SMALL,
                                         .reserve_blocks = 16,
                                         .no_huge_pages = true};
    loop_rig rig;
    keeper k = {0};
    receiver r = {.seed = 9};
    socket_writer greedy, modest;
    sluice_conn *conn;
    int fds[2];
    patient_rig_open(&rig, &options, NULL);
    sockets_tcp_pair(fds);
    assert_int_equal(sluice_conn_new(rig.loop, fds[0], &events, &k, &conn), 0);
    socket_writer_start(&greedy, fds[1], 8, 2 << 20, 1, 30000);
    turn_until_count(rig.loop, &k.refused, 1);
    assert_true(sluice_pool_available(rig.pool) >= options.reserve_blocks);
    int peer = receiver_open(&r, &rig);
    socket_writer_start(&modest, peer, 9, 2 << 20, 1, 30000);
    turn_until(rig.loop, &r.told_end);
    assert_int_equal(r.error, 0);
    assert_int_equal(r.place, 2 << 20);
    assert_false(r.differs);
    assert_true(k.count > 0);
    sluice_conn_close(conn);
    socket_writer_join(&greedy);
    socket_writer_join(&modest);
    while (k.count > 0)
        sluice_slice_release(&k.kept[--k.count]);
    close(peer);
    close(fds[1]);
    patient_rig_close(&rig);
}

/* Storms. */

static void saturating_connections_share_a_tiny_pool(void **state) {
    (void)state;
    enum { STORM = 50, STORM_BYTES = 1 << 20 };
    loop_rig rig;
    static receiver receivers[STORM];
    static socket_writer writers[STORM];
    int peers[STORM];
    uint64_t total = 0;
    patient_rig_open(&rig, &small_pool, NULL);
    for (uint32_t i = 0; i < STORM; i++) {
        receivers[i] = (receiver){.seed = i};
        peers[i] = receiver_open(&receivers[i], &rig);
        socket_writer_start(&writers[i], peers[i], i, STORM_BYTES, 1, 30000);
    }
    for (int i = 0; i < STORM; i++) {
        turn_until(rig.loop, &receivers[i].told_end);
        socket_writer_join(&writers[i]);
        assert_int_equal(receivers[i].error, 0);
        assert_int_equal(receivers[i].place, STORM_BYTES);
        assert_false(receivers[i].differs);
        total += receivers[i].place;
        close(peers[i]);
    }
    /* At most one for each block that was filled; arming all at once, or none but one, gives many
     * times that. */
    assert_in_range(stats_of(&rig).starved, 0, total / BLOCK);
    patient_rig_close(&rig);
}

/* Slices released by another thread. */

typedef struct parcel {
    sluice_slice slice;
    struct parcel *next;
} parcel;

typedef struct releaser {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    parcel *first, **end;
    bool over, holds; /* holds: until told to let go */
    sem_t let_go;
} releaser;

static parcel *releaser_next(releaser *r) {
    pthread_mutex_lock(&r->lock);
    while (!r->first && !r->over)
        pthread_cond_wait(&r->more, &r->lock);
    parcel *p = r->first;
    if (p)
        r->first = p->next;
    if (!r->first)
        r->end = &r->first;
    pthread_mutex_unlock(&r->lock);
    return p;
}

static void *release_parcels(void *user) {
    releaser *r = user;
    parcel *p;
    if (r->holds) {
        while (sem_wait(&r->let_go) < 0)
            ;
        /* Long enough for a loop that spins to be seen. */
        nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    }
    while ((p = releaser_next(r))) {
        sluice_slice_release(&p->slice);
        free(p);
    }
    return NULL;
}

static void releaser_start(releaser *r, bool holds) {
    *r = (releaser){.end = &r->first, .holds = holds};
    assert_int_equal(pthread_mutex_init(&r->lock, NULL), 0);
    assert_int_equal(pthread_cond_init(&r->more, NULL), 0);
    assert_int_equal(sem_init(&r->let_go, 0, 0), 0);
    assert_int_equal(pthread_create(&r->thread, NULL, release_parcels, r), 0);
}

static void releaser_join(releaser *r) {
    pthread_mutex_lock(&r->lock);
    r->over = true;
    pthread_cond_signal(&r->more);
    pthread_mutex_unlock(&r->lock);
    assert_int_equal(pthread_join(r->thread, NULL), 0);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->more);
    sem_destroy(&r->let_go);
}

static void releaser_give(releaser *r, sluice_slice *slice) {
    parcel *p = malloc(sizeof *p);
    assert_non_null(p);
    *p = (parcel){.slice = *slice};
    pthread_mutex_lock(&r->lock);
    *r->end = p;
    r->end = &p->next;
    pthread_cond_signal(&r->more);
    pthread_mutex_unlock(&r->lock);
}

typedef struct giver {
    sluice_conn *conn;
    releaser releaser;
    uint64_t place;
    bool differs, told_end;
    int error;
} giver;

/* Hands everything over, without regard to the reserve. */
static void giver_data(sluice_conn *conn, void *user) {
    giver *g = user;
    sluice_chain *chain = sluice_conn_chain(conn);
    sluice_slice slice;
    assert_int_equal(sluice_chain_take(chain, sluice_chain_length(chain), &slice), 0);
    g->differs |= !pattern_slice_matches(13, g->place, &slice);
    g->place += sluice_slice_length(&slice);
    releaser_give(&g->releaser, &slice);
}

static void giver_end(sluice_conn *conn, int error, void *user) {
    giver *g = user;
    (void)conn;
    g->told_end = true;
    g->error = error;
}

static const sluice_conn_events giver_events = {
    .size = sizeof giver_events, .on_data = giver_data, .on_end = giver_end};

static void give_away(bool holds, uint64_t total) {
    const sluice_pool_options options = {.size = sizeof options,
                                         .block_size = BLOCK,
                                         .slab_blocks = 8,
                                         .max_blocks = 8,
                                         .reserve_blocks = 1,
                                         .no_huge_pages = true};
    loop_rig rig;
    giver g = {0};
    socket_writer writer;
    int fds[2];
    patient_rig_open(&rig, &options, NULL);
    releaser_start(&g.releaser, holds);
    sockets_tcp_pair(fds);
    assert_int_equal(sluice_conn_new(rig.loop, fds[0], &giver_events, &g, &g.conn), 0);
    socket_writer_start(&writer, fds[1], 13, total, 1, 30000);
    if (holds) {
        turn_until_starved(&rig);
        uint64_t place = g.place, enters = stats_of(&rig).enters;
        sem_post(&g.releaser.let_go);
        while (g.place == place)
            turn(rig.loop);
        assert_in_range(stats_of(&rig).enters - enters, 1, 100);
    }
    turn_until(rig.loop, &g.told_end);
    socket_writer_join(&writer);
    releaser_join(&g.releaser);
    assert_int_equal(g.error, 0);
    assert_int_equal(g.place, total);
    assert_false(g.differs);
    close(fds[1]);
    patient_rig_close(&rig);
}

static void another_threads_release_wakes_a_starved_loop(void **state) {
    (void)state;
    give_away(true, 1 << 20);
}

/* Thousands of times without a block: if each waited until the loop looks by itself, the guard
 * would end it. */
static void another_threads_releases_keep_a_starved_loop_going(void **state) {
    (void)state;
    give_away(false, 16 << 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(partial_frames_in_small_pieces_do_not_deadlock),
        cmocka_unit_test(half_the_pool_takes_half_the_frame),
        cmocka_unit_test(the_largest_gives_way_when_all_wait_for_ever),
        cmocka_unit_test(one_that_waits_alone_gives_way),
        cmocka_unit_test(an_earlier_hunger_does_not_count),
        cmocka_unit_test(a_time_without_turns_counts_little),
        cmocka_unit_test(consumers_cannot_keep_the_reserve),
        cmocka_unit_test(saturating_connections_share_a_tiny_pool),
        cmocka_unit_test(another_threads_release_wakes_a_starved_loop),
        cmocka_unit_test(another_threads_releases_keep_a_starved_loop_going),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
