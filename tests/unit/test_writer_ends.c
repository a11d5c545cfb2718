/* The writer: what is given back when connection, writer or loop end, and calls out of a release.
 * */
#include <sluice/writer.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/conn.h>

#include "support/sockets.h"
#include "support/writer_rig.h"

enum { LENT = 1 << 20 };

/* A send that its peer does not read, and items behind it: two slices and two lent items, one of
 * them empty. */
static void block(session *s, const loop_rig *rig, const uint8_t *bytes) {
    session_open(s, rig, sockets_tcp_pair, UNLIMITED);
    sockets_hold_little(sluice_conn_fd(s->conn), s->peer);
    assert_int_equal(put_slice(s->writer, rig->pool, bytes, 4000, 100), 0);
    assert_int_equal(sluice_writer_borrow(s->writer, bytes, LENT, released, s), 0);
    assert_int_equal(put_slice(s->writer, rig->pool, bytes, 4000, 100), 0);
    turn_until_blocked(rig->loop, s->conn);
    assert_int_equal(sluice_writer_borrow(s->writer, NULL, 0, released, s), 0);
    assert_int_equal(sluice_writer_copy(s->writer, bytes, 100), 0);
    assert_int_equal(s->released, 0);
    assert_true(held(rig->pool) >= 40);
}

static void expect_broken(session *s, sluice_pool *pool) {
    unsigned before = s->released;
    assert_int_equal(sluice_writer_copy(s->writer, "x", 1), -EPIPE);
    assert_int_equal(put_slice(s->writer, pool, "x", 1, 0), -EPIPE);
    assert_int_equal(sluice_writer_borrow(s->writer, "x", 1, released, s), -EPIPE);
    assert_int_equal(sluice_writer_flush(s->writer), -EPIPE);
    assert_int_equal(s->released, before);
}

static void a_close_gives_everything_back(void **state) {
    (void)state;
    loop_rig rig;
    session s;
    sluice_writer *writer;
    uint8_t *bytes = calloc(1, LENT);
    loop_rig_open(&rig, &small_pool, NULL, GUARD);
    block(&s, &rig, bytes);
    sluice_conn_close(s.conn);
    /* Not before the kernel is done. */
    assert_int_equal(s.released, 0);
    expect_broken(&s, rig.pool);
    assert_int_equal(sluice_writer_new(s.conn, 1, &writer), -EPIPE);
    turn_until_count(rig.loop, &s.closed, 1);
    assert_int_equal(s.released, 2);
    assert_int_equal(s.released_at_close, 2);
    assert_int_equal(held(rig.pool), 0);
    assert_int_equal(stats_of(s.writer).queued_items, 0);
    /* The connection is no more; the writer says so. */
    expect_broken(&s, rig.pool);
    sluice_writer_free(s.writer);
    assert_int_equal(s.released, 2);
    close(s.peer);
    loop_rig_close(&rig);
    free(bytes);
}

static void a_failure_gives_everything_back(void **state) {
    (void)state;
    loop_rig rig;
    session s;
    uint8_t *bytes = calloc(1, LENT);
    loop_rig_open(&rig, &small_pool, NULL, GUARD);
    block(&s, &rig, bytes);
    sockets_reset_on_close(s.peer);
    close(s.peer);
    turn_until_count(rig.loop, &s.ends, 1);
    assert_true(s.error < 0);
    expect_broken(&s, rig.pool);
    sluice_conn_close(s.conn);
    turn_until_count(rig.loop, &s.closed, 1);
    assert_int_equal(s.released_at_close, 2);
    assert_int_equal(held(rig.pool), 0);
    sluice_writer_free(s.writer);
    assert_int_equal(s.released, 2);
    loop_rig_close(&rig);
    free(bytes);
}

static void the_loops_end_gives_everything_back(void **state) {
    (void)state;
    loop_rig rig;
    session s;
    uint8_t *bytes = calloc(1, LENT);
    loop_rig_open(&rig, &small_pool, NULL, GUARD);
    block(&s, &rig, bytes);
    loop_rig_close(&rig);
    assert_int_equal(s.closed, 1);
    assert_int_equal(s.released_at_close, 2);
    sluice_writer_free(s.writer);
    assert_int_equal(s.released, 2);
    close(s.peer);
    free(bytes);
}

static void released_before_another(const void *data, size_t size, void *user) {
    session *other = user;
    (void)data, (void)size;
    sluice_writer_free(other->writer);
    assert_int_equal(other->released, 0);
}

/* Both have been handed to the kernel; of the second nobody has been told yet. */
static void a_writer_freed_during_a_send_closes(void **state) {
    (void)state;
    loop_rig rig;
    session first, second;
    loop_rig_open(&rig, &small_pool, NULL, GUARD);
    session_open(&first, &rig, sockets_tcp_pair, UNLIMITED);
    session_open(&second, &rig, sockets_tcp_pair, UNLIMITED);
    assert_int_equal(sluice_writer_borrow(first.writer, "one", 3, released_before_another, &second), 0);
    assert_int_equal(sluice_writer_borrow(second.writer, "two", 3, released, &second), 0);
    turn_until_count(rig.loop, &second.closed, 1);
    assert_int_equal(second.released_at_close, 1);
    close(second.peer);
    session_close(&first, &rig);
    loop_rig_close(&rig);
}

/* The kernel has nothing of it: what is queued comes back at once, and the connection goes on. */
static void a_writer_freed_while_there_is_no_room_gives_back_at_once(void **state) {
    (void)state;
    loop_rig rig;
    session s;
    uint8_t *bytes = calloc(1, LENT);
    loop_rig_open(&rig, &small_pool, NULL, GUARD);
    block(&s, &rig, bytes);
    assert_true(sluice_conn_is_sending(s.conn));
    sluice_writer_free(s.writer);
    free(bytes);
    assert_int_equal(s.released, 2);
    assert_int_equal(held(rig.pool), 0);
    assert_int_equal(s.closed, 0);
    assert_int_equal(sluice_writer_new(s.conn, UNLIMITED, &s.writer), 0);
    session_close(&s, &rig);
    loop_rig_close(&rig);
}

static void a_writer_freed_between_sends_gives_way_to_another(void **state) {
    (void)state;
    loop_rig rig;
    session s;
    char text[3];
    loop_rig_open(&rig, &small_pool, NULL, GUARD);
    session_open(&s, &rig, sockets_tcp_pair, UNLIMITED);
    assert_int_equal(sluice_writer_copy(s.writer, "one", 3), 0);
    turn_until_count(rig.loop, &s.sends, 1);
    assert_int_equal(sluice_writer_borrow(s.writer, "not", 3, released, &s), 0);
    assert_int_equal(put_slice(s.writer, rig.pool, "not", 3, 1), 0);
    sluice_writer_free(s.writer);
    assert_int_equal(s.released, 1);
    assert_int_equal(held(rig.pool), 0);
    assert_int_equal(sluice_writer_new(s.conn, UNLIMITED, &s.writer), 0);
    assert_int_equal(sluice_writer_copy(s.writer, "two", 3), 0);
    turn_until_count(rig.loop, &s.sends, 2);
    assert_int_equal(recv(s.peer, text, 3, MSG_WAITALL), 3);
    assert_memory_equal(text, "one", 3);
    assert_int_equal(recv(s.peer, text, 3, MSG_WAITALL), 3);
    assert_memory_equal(text, "two", 3);
    session_close(&s, &rig);
    assert_int_equal(s.released, 1);
    loop_rig_close(&rig);
}

static void released_again(const void *data, size_t size, void *user) {
    session *s = user;
    released(data, size, user);
    /* Also without bytes, which must not be done with at once and for ever. */
    if (s->released < 20)
        assert_int_equal(sluice_writer_borrow(s->writer, data, s->released % 3, released_again, s), 0);
    if (s->released == 5)
        assert_int_equal(sluice_writer_flush(s->writer), 0);
    if (s->released == 20)
        sluice_conn_close(s->conn);
}

static void a_release_may_queue_more_and_close(void **state) {
    (void)state;
    loop_rig rig;
    session s;
    loop_rig_open(&rig, &small_pool, NULL, GUARD);
    session_open(&s, &rig, sockets_tcp_pair, UNLIMITED);
    assert_int_equal(sluice_writer_borrow(s.writer, "abc", 0, released_again, &s), 0);
    assert_int_equal(s.released, 0);
    turn_until_count(rig.loop, &s.closed, 1);
    assert_int_equal(s.released, 20);
    assert_int_equal(s.released_at_close, 20);
    sluice_writer_free(s.writer);
    close(s.peer);
    loop_rig_close(&rig);
}

static void released_and_lent_again(const void *data, size_t size, void *user) {
    session *s = user;
    released(data, size, user);
    if (s->released < 10)
        assert_int_equal(sluice_writer_borrow(s->writer, NULL, 0, released_and_lent_again, s), 0);
}

/* Each gather is done after as many as there were; otherwise who lends again without bytes would
 * never see its end. */
static void what_a_release_queues_waits(void **state) {
    (void)state;
    loop_rig rig;
    session s;
    struct iovec iov;
    loop_rig_open(&rig, &small_pool, NULL, GUARD);
    session_open(&s, &rig, sockets_unix_pair, UNLIMITED);
    assert_int_equal(sluice_writer_borrow(s.writer, NULL, 0, released_and_lent_again, &s), 0);
    for (unsigned i = 1; i <= 10; i++) {
        assert_int_equal(sluice_writer_gather(s.writer, &iov, 1), 0);
        assert_int_equal(s.released, i);
    }
    assert_int_equal(stats_of(s.writer).queued_items, 0);
    session_close(&s, &rig);
    loop_rig_close(&rig);
}

static void released_and_flushed(const void *data, size_t size, void *user) {
    session *s = user;
    released(data, size, user);
    assert_int_equal(sluice_writer_flush(s->writer), 0);
}

/* The bytes behind the lent ones may be sent already, and not be accounted for yet. */
static void a_flush_in_a_release_sends_nothing_twice(void **state) {
    (void)state;
    loop_rig rig;
    session s;
    struct iovec iov[2];
    char text[2];
    loop_rig_open(&rig, &small_pool, NULL, GUARD);
    session_open(&s, &rig, sockets_unix_pair, UNLIMITED);
    assert_int_equal(sluice_writer_borrow(s.writer, "a", 1, released_and_flushed, &s), 0);
    assert_int_equal(sluice_writer_copy(s.writer, "bcd", 3), 0);
    assert_int_equal(sluice_writer_gather(s.writer, iov, 2), 2);
    sluice_writer_sent(s.writer, 2);
    assert_int_equal(s.released, 1);
    assert_int_equal(recv(s.peer, text, 2, MSG_DONTWAIT), -1);
    assert_int_equal(sluice_writer_flush(s.writer), 0);
    assert_int_equal(recv(s.peer, text, 2, MSG_DONTWAIT), 2);
    assert_memory_equal(text, "cd", 2);
    session_close(&s, &rig);
    loop_rig_close(&rig);
}

static void released_and_closed(const void *data, size_t size, void *user) {
    session *s = user;
    released(data, size, user);
    sluice_conn_close(s->conn);
}

static void a_close_during_a_flush_ends_it(void **state) {
    (void)state;
    enum { ITEMS = 1000 };
    loop_rig rig;
    session s;
    loop_rig_open(&rig, &small_pool, NULL, GUARD);
    session_open(&s, &rig, sockets_unix_pair, UNLIMITED);
    for (int i = 0; i < ITEMS; i++)
        assert_int_equal(sluice_writer_borrow(s.writer, "x", 1, released_and_closed, &s), 0);
    assert_int_equal(sluice_writer_flush(s.writer), 0);
    assert_in_range(s.released, 1, ITEMS - 1);
    assert_int_equal(sluice_writer_queued(s.writer), ITEMS - s.released);
    session_close(&s, &rig);
    assert_int_equal(s.released_at_close, ITEMS);
    loop_rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_close_gives_everything_back),
        cmocka_unit_test(a_failure_gives_everything_back),
        cmocka_unit_test(the_loops_end_gives_everything_back),
        cmocka_unit_test(a_writer_freed_during_a_send_closes),
        cmocka_unit_test(a_writer_freed_while_there_is_no_room_gives_back_at_once),
        cmocka_unit_test(a_writer_freed_between_sends_gives_way_to_another),
        cmocka_unit_test(a_release_may_queue_more_and_close),
        cmocka_unit_test(what_a_release_queues_waits),
        cmocka_unit_test(a_flush_in_a_release_sends_nothing_twice),
        cmocka_unit_test(a_close_during_a_flush_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
