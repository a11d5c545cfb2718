/* A session's budget for a turn: how many pieces, how long, and what becomes of the connection meanwhile. */
#include "daemon/budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/session.h"
#include "support/files.h"
#include "support/sockets.h"

static uint64_t now_ns = 1;
static bool is_test_time;

int __real_clock_gettime(clockid_t id, struct timespec *ret_time);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret_time);

int __wrap_clock_gettime(clockid_t id, struct timespec *ret_time) {
    if (!is_test_time)
        return __real_clock_gettime(id, ret_time);
    *ret_time = (struct timespec){(time_t)(now_ns / 1000000000), (long)(now_ns % 1000000000)};
    return 0;
}

static void pieces_are_counted(void **state) {
    struct session session = {0};
    (void)state;
    is_test_time = true;
    for (int round = 0; round < 2; round++) {
        budget_begin(&session);
        for (int i = 1; i < BUDGET_PIECES; i++)
            budget_charge(&session.budget);
        assert_false(budget_is_spent(&session.budget));
        budget_charge(&session.budget);
        assert_true(budget_is_spent(&session.budget));
    }
    is_test_time = false;
}

/* The clock is looked at now and then. */
static void time_is_looked_at(void **state) {
    struct session session = {0};
    (void)state;
    is_test_time = true;
    budget_begin(&session);
    now_ns += (uint64_t)BUDGET_US * 1000 - 1;
    for (int i = 0; i < BUDGET_LOOKS; i++)
        budget_charge(&session.budget);
    assert_false(budget_is_spent(&session.budget));
    now_ns++;
    for (int i = 0; i < BUDGET_LOOKS; i++)
        budget_charge(&session.budget);
    assert_true(budget_is_spent(&session.budget));
    budget_begin(&session);
    assert_false(budget_is_spent(&session.budget));
    is_test_time = false;
}

/* Every sixteenth piece; and of a session without a budget, never: nothing bounds what is left of it at its end. */
static void the_clock_is_looked_at_with_every_sixteenth(void **state) {
    enum { LOOKS = 16 };
    struct session session = {0};
    (void)state;
    is_test_time = true;
    for (int i = 0; i < 2 * LOOKS; i++)
        budget_charge(&session.budget);
    assert_false(budget_is_spent(&session.budget));
    budget_begin(&session);
    now_ns += (uint64_t)BUDGET_US * 1000;
    for (int i = 1; i < LOOKS; i++)
        budget_charge(&session.budget);
    assert_false(budget_is_spent(&session.budget));
    budget_charge(&session.budget);
    assert_true(budget_is_spent(&session.budget));
    is_test_time = false;
}

typedef struct consumer {
    struct session session;
    bool works; /* and never gets done */
    unsigned data;
} consumer;

static void on_data(sluice_conn *conn, void *user) {
    consumer *c = user;
    c->data++;
    budget_begin(&c->session);
    for (int i = 0; i < (c->works ? BUDGET_PIECES : 1); i++)
        budget_charge(&c->session.budget);
    assert_int_equal(budget_end(&c->session, sluice_conn_chain(conn)), c->works);
}

static const sluice_conn_events events = {.on_data = on_data};

/* One that has work left receives no more than it may hold; what is in its socket comes when it is done. */
static void a_backlog_pauses_receiving(void **state) {
    static const char bytes[3 * BUDGET_BACKLOG];
    loop_rig rig;
    consumer c = {.works = true};
    int fds[2], size = 4 << 20;
    files_rig_open(&rig, NULL, state);
    sockets_tcp_pair(fds);
    assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_RCVBUF, &size, sizeof size), 0);
    assert_int_equal(sluice_conn_new(rig.loop, fds[0], &events, &c, &c.session.conn), 0);
    sockets_write(fds[1], bytes, BUDGET_BACKLOG);
    turn_until_buffered(rig.loop, c.session.conn, BUDGET_BACKLOG);
    turn_through(rig.loop, 3);
    assert_true(budget_has_more(&c.session));
    assert_false(c.session.budget.is_paused);
    sockets_write(fds[1], bytes, 1);
    turn_until_buffered(rig.loop, c.session.conn, BUDGET_BACKLOG + 1);
    turn_through(rig.loop, 3);
    assert_true(c.session.budget.is_paused);
    sockets_write(fds[1], bytes, sizeof bytes);
    sockets_wait_delivered(fds[1]);
    turn_through(rig.loop, 20);
    assert_int_equal(sluice_chain_length(sluice_conn_chain(c.session.conn)), BUDGET_BACKLOG + 1);
    c.works = false;
    turn_until_buffered(rig.loop, c.session.conn, BUDGET_BACKLOG + 1 + sizeof bytes);
    assert_false(c.session.budget.is_paused);
    assert_false(budget_has_more(&c.session));
    sluice_conn_close(c.session.conn);
    turn_through(rig.loop, 5);
    close(fds[1]);
    files_rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_counted),
        cmocka_unit_test(time_is_looked_at),
        cmocka_unit_test(the_clock_is_looked_at_with_every_sixteenth),
        FILES_ON_BOTH(a_backlog_pauses_receiving),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
