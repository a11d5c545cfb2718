/* The writer: queued pieces, limits, and what leaves on the loop, in order and without a copy. */
#include <sluice/writer.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/conn.h>
#include <sluice/loop.h>
#include <sluice/slice.h>

#include "support/allocations.h"
#include "support/sockets.h"
#include "support/writer_rig.h"

static uint64_t enters_of(const sluice_loop *loop) {
    sluice_loop_stats stats = {.size = sizeof stats};
    sluice_loop_get_stats(loop, &stats);
    return stats.enters;
}

static void arguments_are_checked(void **state) {
    (void)state;
    loop_rig rig;
    session s;
    uint8_t bytes[SLUICE_WRITER_COPY_MAX + 1] = {0};
    sluice_writer *const untouched = (sluice_writer *)(void *)&s;
    sluice_writer *writer = untouched;
    loop_rig_open(&rig, &small_pool, NULL, GUARD);
    session_open(&s, &rig, sockets_unix_pair, UNLIMITED);
    assert_int_equal(sluice_writer_new(NULL, 1, &writer), -EINVAL);
    assert_int_equal(sluice_writer_new(s.conn, 0, &writer), -EINVAL);
    assert_ptr_equal(writer, untouched);
    assert_int_equal(sluice_writer_copy(s.writer, bytes, sizeof bytes), -EMSGSIZE);
    assert_int_equal(sluice_writer_copy(s.writer, NULL, 0), 0);
    assert_int_equal(sluice_writer_slice(s.writer, &(sluice_slice){0}), 0);
    assert_int_equal(stats_of(s.writer).queued_items, 0);
    assert_int_equal(sluice_writer_copy(s.writer, bytes, sizeof bytes - 1), 0);
    assert_int_equal(sluice_writer_queued(s.writer), sizeof bytes - 1);
    /* More than was gathered is all of it; without a gather nothing. */
    sluice_writer_sent(s.writer, 1);
    assert_int_equal(sluice_writer_queued(s.writer), sizeof bytes - 1);
    struct iovec iov;
    assert_int_equal(sluice_writer_gather(s.writer, &iov, 0), 0);
    assert_int_equal(sluice_writer_gather(s.writer, &iov, 1), 1);
    sluice_writer_sent(s.writer, SIZE_MAX);
    assert_int_equal(sluice_writer_queued(s.writer), 0);
    sluice_writer_free(NULL);
    session_close(&s, &rig);
    loop_rig_close(&rig);
}

/* The pieces driven by hand, so that sends end where the test wants. */

enum {
    MIXED = 51,       /* bytes */
    MIXED_PIECES = 8, /* two copies that lie together are one */
    MIXED_LENT = 4,   /* lent items, of which one is empty */
};

/* Where each lent item ends. */
static const size_t lent_ends[MIXED_LENT] = {25, 25, 40, 51};

static void queue_mixed(session *s, const uint8_t *bytes, sluice_pool *pool) {
    assert_int_equal(sluice_writer_copy(s->writer, bytes, 7), 0);
    assert_int_equal(put_slice(s->writer, pool, bytes + 7, 12, 5), 0);
    assert_int_equal(sluice_writer_borrow(s->writer, bytes + 19, 6, released, s), 0);
    assert_int_equal(sluice_writer_borrow(s->writer, NULL, 0, released, s), 0);
    assert_int_equal(sluice_writer_copy(s->writer, bytes + 25, 4), 0);
    assert_int_equal(sluice_writer_copy(s->writer, bytes + 29, 10), 0);
    assert_int_equal(sluice_writer_borrow(s->writer, bytes + 39, 1, released, s), 0);
    assert_int_equal(sluice_writer_borrow(s->writer, bytes + 40, 11, released, s), 0);
    assert_int_equal(s->released, 0);
}

static unsigned lent_before(size_t sent) {
    unsigned count = 0;
    for (int i = 0; i < MIXED_LENT; i++)
        count += lent_ends[i] <= sent;
    return count;
}

/* Gathers, compares with what is to come, and says that @bytes of it were sent. */
static size_t gather_and_send(session *s, const uint8_t *bytes, size_t sent, size_t most, size_t max) {
    struct iovec iov[MIXED_PIECES];
    size_t seen = 0, count = sluice_writer_gather(s->writer, iov, max);
    assert_true(count > 0 && count <= max);
    for (size_t i = 0; i < count; i++) {
        assert_true(iov[i].iov_len > 0 && iov[i].iov_len <= MIXED - sent - seen);
        assert_memory_equal(iov[i].iov_base, bytes + sent + seen, iov[i].iov_len);
        seen += iov[i].iov_len;
    }
    if (max == MIXED_PIECES)
        assert_int_equal(seen, MIXED - sent);
    size_t taken = seen < most ? seen : most;
    sluice_writer_sent(s->writer, taken);
    return taken;
}

static void sends_may_end_at_every_byte(void **state) {
    (void)state;
    loop_rig rig;
    session s;
    uint8_t bytes[MIXED];
    loop_rig_open(&rig, &small_pool, NULL, GUARD);
    session_open(&s, &rig, sockets_unix_pair, UNLIMITED);
    pattern_fill(SEED, 0, bytes, MIXED);
    uint64_t total = 0;
    for (size_t first = 0; first <= MIXED; first++)
        for (size_t second = 0; first + second <= MIXED; second++)
            for (size_t max = 1; max <= MIXED_PIECES; max++) {
                s.released = 0;
                queue_mixed(&s, bytes, rig.pool);
                size_t sent = gather_and_send(&s, bytes, 0, first, max);
                assert_int_equal(s.released, lent_before(sent));
                for (size_t most = second; sent < MIXED; most = SIZE_MAX) {
                    sent += gather_and_send(&s, bytes, sent, most, max);
                    assert_int_equal(s.released, lent_before(sent));
                    assert_int_equal(sluice_writer_queued(s.writer), MIXED - sent);
                }
                total += MIXED;
                assert_int_equal(stats_of(s.writer).queued_items, 0);
                assert_int_equal(stats_of(s.writer).sent_bytes, total);
                assert_int_equal(held(rig.pool), 0);
            }
    session_close(&s, &rig);
    loop_rig_close(&rig);
}

static void blocks_go_as_their_bytes_are_taken(void **state) {
    (void)state;
    loop_rig rig;
    session s;
    struct iovec iov[2];
    uint8_t bytes[40];
    pattern_fill(SEED, 0, bytes, sizeof bytes);
    loop_rig_open(&rig, &small_pool, NULL, GUARD);
    session_open(&s, &rig, sockets_unix_pair, UNLIMITED);
    sluice_slice slice = slice_of(rig.pool, bytes, 40, 10);
    assert_int_equal(sluice_writer_slice(s.writer, &slice), 0);
    /* The same bytes twice: the references are the writer's own. */
    assert_int_equal(sluice_writer_slice(s.writer, &slice), 0);
    sluice_slice_release(&slice);
    assert_int_equal(held(rig.pool), 4);
    for (size_t sent = 1; sent <= 80; sent++) {
        assert_int_equal(sluice_writer_gather(s.writer, iov, 1), 1);
        assert_int_equal(*(uint8_t *)iov->iov_base, bytes[(sent - 1) % 40]);
        sluice_writer_sent(s.writer, 1);
        assert_int_equal(held(rig.pool), sent <= 40 ? 4 : 4 - (sent - 40) / 10);
    }
    session_close(&s, &rig);
    loop_rig_close(&rig);
}

/* What the kernel has been given stays where it is while the queue and its memory grow. */
static void what_is_being_sent_does_not_move(void **state) {
    (void)state;
    enum { FIRST = 6000, MORE = 200000 };
    loop_rig rig;
    session s;
    struct iovec iov[64];
    static uint8_t bytes[FIRST + MORE];
    pattern_fill(SEED, 0, bytes, sizeof bytes);
    loop_rig_open(&rig, &small_pool, NULL, GUARD);
    session_open(&s, &rig, sockets_unix_pair, UNLIMITED);
    for (size_t done = 0; done < FIRST; done += 1000)
        assert_int_equal(sluice_writer_copy(s.writer, bytes + done, 1000), 0);
    size_t count = sluice_writer_gather(s.writer, iov, 64), seen = 0;
    assert_true(count > 1);
    assert_int_equal(stats_of(s.writer).queued_items, count);
    for (size_t done = FIRST; done < FIRST + MORE; done += 100) {
        assert_int_equal(sluice_writer_copy(s.writer, bytes + done, 50), 0);
        assert_int_equal(sluice_writer_borrow(s.writer, bytes + done + 50, 50, NULL, NULL), 0);
    }
    for (size_t i = 0; i < count; seen += iov[i++].iov_len)
        assert_memory_equal(iov[i].iov_base, bytes + seen, iov[i].iov_len);
    assert_int_equal(seen, FIRST);
    sluice_writer_sent(s.writer, seen);
    while (sluice_writer_queued(s.writer) > 0) {
        size_t begin = seen;
        count = sluice_writer_gather(s.writer, iov, 64);
        for (size_t i = 0; i < count; seen += iov[i++].iov_len)
            assert_memory_equal(iov[i].iov_base, bytes + seen, iov[i].iov_len);
        sluice_writer_sent(s.writer, seen - begin);
    }
    assert_int_equal(seen, FIRST + MORE);
    session_close(&s, &rig);
    loop_rig_close(&rig);
}

static void the_limit_holds(void **state) {
    (void)state;
    loop_rig rig;
    session s;
    struct iovec iov[4];
    uint8_t bytes[101] = {0};
    loop_rig_open(&rig, &small_pool, NULL, GUARD);
    session_open(&s, &rig, sockets_unix_pair, 100);
    assert_int_equal(stats_of(s.writer).limit, 100);
    assert_int_equal(sluice_writer_copy(s.writer, bytes, 101), -EMSGSIZE);
    assert_int_equal(put_slice(s.writer, rig.pool, bytes, 101, 0), -EMSGSIZE);
    assert_int_equal(sluice_writer_borrow(s.writer, bytes, 101, released, &s), -EMSGSIZE);
    assert_int_equal(sluice_writer_room(s.writer), 100);
    assert_int_equal(sluice_writer_borrow(s.writer, bytes, 60, released, &s), 0);
    assert_int_equal(sluice_writer_room(s.writer), 40);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(sluice_writer_copy(s.writer, bytes, 41), -EAGAIN);
        assert_int_equal(put_slice(s.writer, rig.pool, bytes, 41, 0), -EAGAIN);
        assert_int_equal(sluice_writer_borrow(s.writer, bytes, 41, released, &s), -EAGAIN);
        assert_int_equal(stats_of(s.writer).queued_bytes, 60);
        assert_int_equal(stats_of(s.writer).queued_items, 1);
    }
    assert_int_equal(held(rig.pool), 0);
    assert_int_equal(put_slice(s.writer, rig.pool, bytes, 40, 0), 0);
    assert_int_equal(sluice_writer_room(s.writer), 0);
    assert_int_equal(sluice_writer_copy(s.writer, bytes, 1), -EAGAIN);
    /* There is room again as bytes are taken, also within an item. */
    assert_int_equal(sluice_writer_gather(s.writer, iov, 4), 2);
    assert_int_equal(sluice_writer_room(s.writer), 0);
    sluice_writer_sent(s.writer, 25);
    assert_int_equal(s.released, 0);
    assert_int_equal(sluice_writer_room(s.writer), 25);
    assert_int_equal(sluice_writer_copy(s.writer, bytes, 25), 0);
    session_close(&s, &rig);
    assert_int_equal(s.released, 1);
    assert_int_equal(s.released_bytes, 60);
    loop_rig_close(&rig);
}

static void the_number_of_items_is_limited(void **state) {
    (void)state;
    loop_rig rig;
    session s;
    struct iovec iov;
    loop_rig_open(&rig, &small_pool, NULL, GUARD);
    session_open(&s, &rig, sockets_unix_pair, UNLIMITED);
    assert_int_equal(sluice_writer_borrow(s.writer, "x", 1, released, &s), 0);
    for (unsigned i = 2; i < SLUICE_WRITER_ITEMS_MAX; i++)
        assert_int_equal(sluice_writer_borrow(s.writer, NULL, 0, released, &s), 0);
    assert_int_equal(sluice_writer_copy(s.writer, "ab", 2), 0);
    assert_int_equal(sluice_writer_room(s.writer), 0);
    assert_int_equal(sluice_writer_borrow(s.writer, NULL, 0, released, &s), -EAGAIN);
    /* Copies that lie together need no more items. */
    assert_int_equal(sluice_writer_copy(s.writer, "cd", 2), 0);
    assert_int_equal(sluice_writer_gather(s.writer, &iov, 1), 1);
    sluice_writer_sent(s.writer, 1);
    /* With the byte the items without bytes behind it are done with. */
    assert_int_equal(s.released, SLUICE_WRITER_ITEMS_MAX - 1);
    assert_int_equal(stats_of(s.writer).queued_items, 1);
    assert_int_equal(sluice_writer_gather(s.writer, &iov, 1), 1);
    assert_int_equal(iov.iov_len, 4);
    assert_memory_equal(iov.iov_base, "abcd", 4);
    sluice_writer_sent(s.writer, 4);
    session_close(&s, &rig);
    loop_rig_close(&rig);
}

/* On the loop. */

/* Queues pattern bytes as all kinds of items, as long as there is room. The lent ones are of
 * @bytes. */
typedef struct producer {
    session session; /* first: what is called when sent finds it there */
    sluice_pool *pool;
    const uint8_t *bytes;
    uint64_t total, place;
    uint32_t most;
    uint64_t random;
    unsigned lent, refused;
} producer;

static void produce(session *s) {
    producer *p = (producer *)(void *)s;
    while (p->place < p->total) {
        const uint8_t *from = p->bytes + p->place;
        size_t n = random_between(&p->random, 1, p->most);
        uint32_t kind = random_between(&p->random, 0, 2);
        if (kind == 0 && n > SLUICE_WRITER_COPY_MAX)
            n = SLUICE_WRITER_COPY_MAX;
        if (n > p->total - p->place)
            n = p->total - p->place;
        int error = 0;
        switch (kind) {
        case 0:
            error = sluice_writer_copy(s->writer, from, n);
            break;
        case 1:
            error = put_slice(s->writer, p->pool, from, n, random_between(&p->random, 1, 512));
            break;
        default:
            error = sluice_writer_borrow(s->writer, from, n, released, s);
            p->lent += error == 0;
        }
        if (error) {
            assert_int_equal(error, -EAGAIN);
            p->refused++;
            return;
        }
        p->place += n;
    }
    if (sluice_writer_queued(s->writer) == 0)
        assert_int_equal(sluice_conn_finish(s->conn), 0);
}

static void send_mixed(void pair(int fds[2]), uint64_t total, uint32_t most, uint32_t read_most, bool small_buffer) {
    loop_rig rig;
    producer p;
    socket_reader reader;
    uint8_t *bytes = malloc(total);
    assert_non_null(bytes);
    pattern_fill(SEED, 0, bytes, total);
    loop_rig_open(&rig, &small_pool, NULL, GUARD);
    p = (producer){.pool = rig.pool, .bytes = bytes, .total = total, .most = most, .random = total};
    session_open(&p.session, &rig, pair, 40000);
    p.session.when_sent = produce;
    if (small_buffer)
        sockets_hold_little(sluice_conn_fd(p.session.conn), p.session.peer);
    socket_reader_start(&reader, p.session.peer, SEED, read_most, 0);
    produce(&p.session);
    while (stats_of(p.session.writer).sent_bytes < total)
        turn(rig.loop);
    socket_reader_join(&reader);
    assert_int_equal(reader.total, total);
    assert_true(reader.matches);
    assert_int_equal(p.session.released, p.lent);
    assert_true(p.refused > 0);
    assert_int_equal(held(rig.pool), 0);
    session_close(&p.session, &rig);
    assert_int_equal(p.session.released, p.lent);
    loop_rig_close(&rig);
    free(bytes);
}

static void mixed_items_arrive_in_order(void **state) {
    (void)state;
    send_mixed(sockets_tcp_pair, 4 << 20, 3000, 100000, false);
    send_mixed(sockets_unix_pair, 1 << 20, 3000, 100000, false);
    send_mixed(sockets_tcp_pair, 1 << 19, 40, 100000, false);
}

static void slow_readers_and_small_buffers_change_nothing(void **state) {
    (void)state;
    send_mixed(sockets_tcp_pair, 1 << 20, 20000, 1000, true);
    send_mixed(sockets_unix_pair, 1 << 19, 20000, 700, true);
    send_mixed(sockets_tcp_pair, 1 << 18, 300, 500, true);
}

static void many_messages_leave_in_one_system_call(void **state) {
    (void)state;
    enum { MESSAGES = 120, HEADER = 4, PAYLOAD = 50, BYTES = MESSAGES * (HEADER + PAYLOAD) };
    loop_rig rig;
    session s;
    uint8_t bytes[BYTES], received[BYTES];
    pattern_fill(SEED, 0, bytes, sizeof bytes);
    loop_rig_open(&rig, &small_pool, NULL, GUARD);
    session_open(&s, &rig, sockets_tcp_pair, UNLIMITED);
    turn_through(rig.loop, 3);
    sluice_loop_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    sluice_loop_get_stats(rig.loop, &before);
    for (size_t at = 0; at < BYTES; at += HEADER + PAYLOAD) {
        assert_int_equal(sluice_writer_copy(s.writer, bytes + at, HEADER), 0);
        assert_int_equal(sluice_writer_borrow(s.writer, bytes + at + HEADER, PAYLOAD, released, &s), 0);
    }
    turn_until_count(rig.loop, &s.sends, 1);
    sluice_loop_get_stats(rig.loop, &after);
    assert_int_equal(sluice_writer_queued(s.writer), 0);
    assert_int_equal(s.gathers, 1);
    assert_int_equal(s.sends, 1);
    assert_int_equal(s.released, MESSAGES);
    assert_int_equal(after.turns - before.turns, 1);
    assert_int_equal(after.enters - before.enters, 1);
    assert_int_equal(recv(s.peer, received, BYTES, MSG_WAITALL), BYTES);
    assert_memory_equal(received, bytes, BYTES);
    session_close(&s, &rig);
    loop_rig_close(&rig);
}

static void flush_sends_before_the_next_turn(void **state) {
    (void)state;
    loop_rig rig;
    session s;
    char text[16];
    loop_rig_open(&rig, &small_pool, NULL, GUARD);
    session_open(&s, &rig, sockets_tcp_pair, UNLIMITED);
    assert_int_equal(sluice_writer_flush(s.writer), 0);
    assert_int_equal(sluice_writer_copy(s.writer, "head ", 5), 0);
    assert_int_equal(sluice_writer_borrow(s.writer, "body", 4, released, &s), 0);
    assert_int_equal(sluice_writer_flush(s.writer), 0);
    assert_int_equal(s.released, 1);
    assert_int_equal(sluice_writer_queued(s.writer), 0);
    assert_int_equal(recv(s.peer, text, 9, MSG_WAITALL), 9);
    assert_memory_equal(text, "head body", 9);
    assert_int_equal(s.sends, 0);
    turn_through(rig.loop, 3);
    assert_int_equal(s.gathers, 0);
    session_close(&s, &rig);
    loop_rig_close(&rig);
}

/* The rest of a flush goes by the loop; a flush during a send of the loop's does not overtake
 * it. */
static void flushes_and_turns_keep_the_order(void **state) {
    (void)state;
    enum { TOTAL = 1 << 20, PIECE = 10000 };
    loop_rig rig;
    session s;
    socket_reader reader;
    uint8_t *bytes = malloc(TOTAL);
    assert_non_null(bytes);
    pattern_fill(SEED, 0, bytes, TOTAL);
    loop_rig_open(&rig, &small_pool, NULL, GUARD);
    session_open(&s, &rig, sockets_tcp_pair, UNLIMITED);
    sockets_hold_little(sluice_conn_fd(s.conn), s.peer);
    unsigned lent = 0;
    for (size_t at = 0; at < TOTAL / 2; at += PIECE, lent++)
        assert_int_equal(
            sluice_writer_borrow(s.writer, bytes + at, at + PIECE < TOTAL / 2 ? PIECE : TOTAL / 2 - at, released, &s),
            0);
    assert_int_equal(sluice_writer_flush(s.writer), 0);
    assert_true(sluice_writer_queued(s.writer) > 0 && sluice_writer_queued(s.writer) < TOTAL / 2);
    turn_until_blocked(rig.loop, s.conn);
    assert_int_equal(sluice_writer_borrow(s.writer, bytes + TOTAL / 2, TOTAL / 2, released, &s), 0);
    size_t queued = sluice_writer_queued(s.writer);
    assert_int_equal(sluice_writer_flush(s.writer), 0);
    assert_int_equal(sluice_writer_queued(s.writer), queued);
    socket_reader_start(&reader, s.peer, SEED, 3000, 0);
    while (sluice_writer_queued(s.writer) > 0) {
        turn(rig.loop);
        assert_int_equal(sluice_writer_flush(s.writer), 0);
    }
    assert_int_equal(sluice_conn_finish(s.conn), 0);
    socket_reader_join(&reader);
    assert_true(reader.matches);
    assert_int_equal(reader.total, TOTAL);
    assert_int_equal(s.released, lent + 1);
    session_close(&s, &rig);
    loop_rig_close(&rig);
    free(bytes);
}

/* Steady states. */

static void a_steady_queue_allocates_nothing(void **state) {
    (void)state;
    enum { WARM_UP = 20, MEASURED = 200, MESSAGES = 100 };
    loop_rig rig;
    session s;
    static uint8_t bytes[4096], received[MESSAGES * 500];
    loop_rig_open(&rig, NULL, NULL, GUARD);
    session_open(&s, &rig, sockets_tcp_pair, UNLIMITED);
    sluice_slice slice = slice_of(rig.pool, bytes, 300, 100);
    for (int round = 0; round < WARM_UP + MEASURED; round++) {
        if (round == WARM_UP)
            allocations = 0;
        for (int i = 0; i < MESSAGES; i++) {
            assert_int_equal(sluice_writer_copy(s.writer, bytes, 150), 0);
            assert_int_equal(sluice_writer_slice(s.writer, &slice), 0);
            assert_int_equal(sluice_writer_borrow(s.writer, bytes, 50, released, &s), 0);
        }
        while (sluice_writer_queued(s.writer) > 0)
            turn(rig.loop);
        assert_int_equal(recv(s.peer, received, sizeof received, MSG_WAITALL), sizeof received);
    }
    unsigned long counted = allocations;
    assert_int_equal(s.released, (WARM_UP + MEASURED) * MESSAGES);
    sluice_slice_release(&slice);
    session_close(&s, &rig);
    loop_rig_close(&rig);
#ifdef COUNTS_ALLOCATIONS
    assert_int_equal(counted, 0);
#else
    (void)counted;
#endif
}

/* Echoes messages by reference, as long as there is room. */

enum {
    MESSAGE = 50,
    ECHOED = 100000,
};

typedef struct echo {
    session session;
    unsigned echoed;
    bool full;
} echo;

static void echo_on(session *s) {
    echo *e = (echo *)(void *)s;
    sluice_chain *chain = sluice_conn_chain(s->conn);
    while (sluice_chain_length(chain) >= MESSAGE && sluice_writer_room(s->writer) >= MESSAGE) {
        sluice_slice message;
        assert_int_equal(sluice_chain_take(chain, MESSAGE, &message), 0);
        assert_int_equal(sluice_writer_slice(s->writer, &message), 0);
        sluice_slice_release(&message);
        e->echoed++;
    }
    bool full = sluice_chain_length(chain) >= MESSAGE;
    if (full && !e->full)
        sluice_conn_pause(s->conn);
    else if (!full && e->full)
        sluice_conn_resume(s->conn);
    e->full = full;
    if (e->echoed == ECHOED && sluice_writer_queued(s->writer) == 0)
        assert_int_equal(sluice_conn_finish(s->conn), 0);
}

static void echo_data(sluice_conn *conn, void *user) {
    (void)conn;
    echo_on(user);
}

static void small_messages_are_echoed(void **state) {
    (void)state;
    static const sluice_conn_events events = {.size = sizeof events,
                                              .on_data = echo_data,
                                              .on_end = session_end,
                                              .on_gather = session_gather,
                                              .on_sent = session_sent,
                                              .on_closed = session_closed};
    loop_rig rig;
    echo e = {0};
    socket_writer writer;
    socket_reader reader;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    session_open(&e.session, &rig, sockets_tcp_pair, 65536);
    e.session.when_sent = echo_on;
    sluice_conn_set_events(e.session.conn, &events, &e);
    sluice_conn_set_need(e.session.conn, MESSAGE);
    uint64_t before = enters_of(rig.loop);
    socket_reader_start(&reader, e.session.peer, SEED, 20000, 0);
    socket_writer_start(&writer, e.session.peer, SEED, (uint64_t)ECHOED * MESSAGE, 500, 8000);
    while (stats_of(e.session.writer).sent_bytes < (uint64_t)ECHOED * MESSAGE)
        turn(rig.loop);
    uint64_t enters = enters_of(rig.loop) - before;
    socket_writer_join(&writer);
    socket_reader_join(&reader);
    assert_false(writer.broken);
    assert_true(reader.matches);
    assert_int_equal(reader.total, ECHOED * MESSAGE);
    assert_int_equal(stats_of(e.session.writer).sent_items, ECHOED);
    /* Each turn serves the messages of at least one write, which are ten or more but for the
     * edges. */
    assert_true(enters < ECHOED / 2);
    print_message("%d messages echoed with %llu system calls of the loop\n", ECHOED, (unsigned long long)enters);
    session_close(&e.session, &rig);
    loop_rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(sends_may_end_at_every_byte),
        cmocka_unit_test(blocks_go_as_their_bytes_are_taken),
        cmocka_unit_test(what_is_being_sent_does_not_move),
        cmocka_unit_test(the_limit_holds),
        cmocka_unit_test(the_number_of_items_is_limited),
        cmocka_unit_test(mixed_items_arrive_in_order),
        cmocka_unit_test(slow_readers_and_small_buffers_change_nothing),
        cmocka_unit_test(many_messages_leave_in_one_system_call),
        cmocka_unit_test(flush_sends_before_the_next_turn),
        cmocka_unit_test(flushes_and_turns_keep_the_order),
        cmocka_unit_test(a_steady_queue_allocates_nothing),
        cmocka_unit_test(small_messages_are_echoed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
