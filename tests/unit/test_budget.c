/* A session's budget for a turn: how many pieces, how long, and what becomes of the connection
 * meanwhile. */
#include "daemon/server/budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/server/session.h"
#include "daemon/server/worker.h"
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

/* A worker with a loop and nothing else; the time is the test's. */
typedef struct place {
    loop_rig rig;
    struct worker worker;
} place;

static void place_open(place *p, void **state) {
    files_rig_open(&p->rig, NULL, state);
    p->worker = (struct worker){.loop = p->rig.loop};
    is_test_time = true;
}

static void place_close(place *p) {
    is_test_time = false;
    files_rig_close(&p->rig);
}

static void next_turn(place *p) {
    now_ns += 1000000;
    assert_int_equal(sluice_loop_turn(p->rig.loop, 0), 0);
}

/* So many pieces until the budget is spent. */
static int handle_all(struct session *session) {
    int pieces = 0;
    budget_begin(session);
    for (; !budget_is_spent(&session->budget); pieces++)
        budget_charge(&session->budget);
    return pieces;
}

static void pieces_are_counted(void **state) {
    place p;
    place_open(&p, state);
    struct session session = {.worker = &p.worker};
    for (int round = 0; round < 2; round++) {
        budget_begin(&session);
        for (int i = 1; i < BUDGET_PIECES; i++)
            budget_charge(&session.budget);
        assert_false(budget_is_spent(&session.budget));
        budget_charge(&session.budget);
        assert_true(budget_is_spent(&session.budget));
    }
    place_close(&p);
}

/* The clock is looked at now and then. */
static void time_is_looked_at(void **state) {
    place p;
    place_open(&p, state);
    struct session session = {.worker = &p.worker};
    next_turn(&p);
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
    place_close(&p);
}

/* Every sixteenth piece; and of a session without a budget, never: nothing bounds what is left of
 * it at its end. */
static void the_clock_is_looked_at_with_every_sixteenth(void **state) {
    enum { LOOKS = 16 };
    place p;
    place_open(&p, state);
    struct session session = {.worker = &p.worker};
    next_turn(&p);
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
    place_close(&p);
}

/* However many sessions there are: a few pieces of each when their slice of the turn is over. */
static void all_sessions_share_a_slice(void **state) {
    enum { COUNT = 100 };
    place p;
    place_open(&p, state);
    struct session sessions[COUNT] = {0};
    for (int turn = 0; turn < 2; turn++) {
        next_turn(&p);
        for (int i = 0; i < COUNT; i++)
            sessions[i] = (struct session){.worker = &p.worker};
        for (int i = 0; i < COUNT / 2; i++) {
            assert_int_equal(handle_all(&sessions[i]), BUDGET_PIECES);
            now_ns += (uint64_t)BUDGET_SLICE_US * 1000 / (COUNT / 2);
        }
        for (int i = COUNT / 2; i < COUNT; i++)
            assert_int_equal(handle_all(&sessions[i]), BUDGET_LEAST);
    }
    /* One that has little to do lacks nothing. */
    sessions[0] = (struct session){.worker = &p.worker};
    budget_begin(&sessions[0]);
    for (int i = 1; i < BUDGET_LEAST; i++)
        budget_charge(&sessions[0].budget);
    assert_false(budget_is_spent(&sessions[0].budget));
    place_close(&p);
}

/* The slice ends in the middle of a session's share. */
static void the_slice_ends_a_share(void **state) {
    place p;
    place_open(&p, state);
    struct session session = {.worker = &p.worker};
    next_turn(&p);
    budget_begin(&session);
    now_ns += ((uint64_t)BUDGET_SLICE_US - 1) * 1000;
    budget_begin(&session);
    now_ns += 1000;
    for (int i = 1; i < BUDGET_LOOKS; i++)
        budget_charge(&session.budget);
    assert_false(budget_is_spent(&session.budget));
    budget_charge(&session.budget);
    assert_true(budget_is_spent(&session.budget));
    place_close(&p);
}

/* While others have work left, one that has had much lately has nothing ahead of them, until that
 * is forgotten. */
static void who_has_had_much_goes_behind(void **state) {
    place p;
    place_open(&p, state);
    static const sluice_conn_events none = {.size = sizeof none};
    struct session session = {.worker = &p.worker};
    int fds[2];
    sockets_tcp_pair(fds);
    assert_int_equal(sluice_conn_new(p.rig.loop, fds[0], &none, NULL, &session.conn), 0);
    next_turn(&p);
    session.budget.since = sluice_loop_now(p.rig.loop);
    session.budget.lately = BUDGET_AHEAD - 1;
    p.worker.turn.waiting = 1;
    assert_int_equal(handle_all(&session), BUDGET_PIECES);
    session.budget.lately = BUDGET_AHEAD;
    assert_int_equal(handle_all(&session), 0);
    assert_false(budget_admits_request(&session));
    assert_true(budget_has_more(&session));
    assert_int_equal(p.worker.turn.waiting, 2);
    /* Its turn among those that have work left. */
    assert_int_equal(handle_all(&session), BUDGET_PIECES);
    assert_true(budget_admits_request(&session));
    assert_int_equal(p.worker.turn.waiting, 1);
    /* Nobody else has work left. */
    p.worker.turn.waiting = 0;
    session.budget.lately = BUDGET_AHEAD;
    assert_int_equal(handle_all(&session), BUDGET_PIECES);
    p.worker.turn.waiting = 1;
    for (int ms = 0; ms < BUDGET_AHEAD / BUDGET_PER_MS; ms++) {
        next_turn(&p);
        budget_begin(&session);
    }
    assert_int_equal(session.budget.lately, 0);
    assert_int_equal(handle_all(&session), BUDGET_PIECES);
    sluice_conn_close(session.conn);
    close(fds[1]);
    place_close(&p);
}

/* A request is worth as many as a look at the clock. */
static void requests_count_more(void **state) {
    place p;
    place_open(&p, state);
    struct session session = {.worker = &p.worker};
    next_turn(&p);
    budget_begin(&session);
    for (int i = 1; i < BUDGET_PIECES / BUDGET_LOOKS; i++)
        budget_charge_request(&session.budget);
    assert_false(budget_is_spent(&session.budget));
    budget_charge_request(&session.budget);
    assert_true(budget_is_spent(&session.budget));
    session.budget = (struct budget){0};
    for (int i = 0; i < BUDGET_AHEAD / BUDGET_LOOKS; i++)
        assert_true(budget_admits_request(&session));
    assert_int_equal(session.budget.lately, BUDGET_AHEAD);
    place_close(&p);
}

/* A session that ends in the middle of its share rests there, and again behind it: what it has used
 * is remembered once. */
static void what_was_used_is_remembered_once(void **state) {
    enum { PIECES = 3 };
    place p;
    place_open(&p, state);
    struct session session = {.worker = &p.worker};
    next_turn(&p);
    budget_begin(&session);
    for (int i = 0; i < PIECES; i++)
        budget_charge(&session.budget);
    budget_rest(&session);
    budget_rest(&session);
    assert_int_equal(session.budget.lately, PIECES);
    budget_charge(&session.budget);
    budget_rest(&session);
    assert_int_equal(session.budget.lately, PIECES + 1);
    place_close(&p);
}

/* A session that leaves with work left is none of the worker's that have. */
static void who_leaves_is_not_waited_for(void **state) {
    place p;
    place_open(&p, state);
    struct session session = {.worker = &p.worker, .budget = {.has_more = true, .is_paused = true, .lately = 7}};
    p.worker.turn.waiting = 3;
    budget_leave(&session, &p.worker);
    assert_int_equal(p.worker.turn.waiting, 2);
    assert_false(budget_has_more(&session));
    assert_false(session.budget.is_paused);
    assert_int_equal(session.budget.lately, 7);
    budget_leave(&session, &p.worker);
    assert_int_equal(p.worker.turn.waiting, 2);
    place_close(&p);
}

typedef struct consumer {
    struct session session;
    bool works; /* and never gets done */
    bool rests; /* waits for something else, however much of its budget is spent */
    unsigned data;
} consumer;

static void on_data(sluice_conn *conn, void *user) {
    consumer *c = user;
    c->data++;
    budget_begin(&c->session);
    for (int i = 0; i < (c->works ? BUDGET_PIECES : 1); i++)
        budget_charge(&c->session.budget);
    if (c->rests)
        budget_rest(&c->session);
    else
        assert_int_equal(budget_end(&c->session, sluice_conn_chain(conn)), c->works);
}

static const sluice_conn_events events = {.size = sizeof events, .on_data = on_data};

/* One that has work left receives no more than it may hold; what is in its socket comes when it is
 * done. */
static void a_backlog_pauses_receiving(void **state) {
    static const char bytes[3 * BUDGET_BACKLOG];
    loop_rig rig;
    int fds[2], size = 4 << 20;
    files_rig_open(&rig, NULL, state);
    struct worker worker = {.loop = rig.loop};
    consumer c = {.session = {.worker = &worker}, .works = true};
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

/* Where others have work left too, it receives nothing before its own is done. */
static void one_of_many_receives_nothing_meanwhile(void **state) {
    loop_rig rig;
    int fds[2];
    files_rig_open(&rig, NULL, state);
    struct worker worker = {.loop = rig.loop, .turn = {.waiting = 1}};
    consumer c = {.session = {.worker = &worker}, .works = true};
    sockets_tcp_pair(fds);
    assert_int_equal(sluice_conn_new(rig.loop, fds[0], &events, &c, &c.session.conn), 0);
    sockets_write(fds[1], "x", 1);
    turn_until_buffered(rig.loop, c.session.conn, 1);
    assert_true(c.session.budget.is_paused);
    sockets_write(fds[1], "x", 1);
    sockets_wait_delivered(fds[1]);
    turn_through(rig.loop, 20);
    assert_int_equal(sluice_chain_length(sluice_conn_chain(c.session.conn)), 1);
    c.works = false;
    c.session.budget.lately = 0;
    turn_until_buffered(rig.loop, c.session.conn, 2);
    assert_false(c.session.budget.is_paused);
    sluice_conn_close(c.session.conn);
    turn_through(rig.loop, 5);
    close(fds[1]);
    files_rig_close(&rig);
}

/* What waits for something else is read on, and nobody waits for it: else its connection's end
 * would not be noticed. */
static void what_rests_is_read(void **state) {
    loop_rig rig;
    int fds[2];
    files_rig_open(&rig, NULL, state);
    struct worker worker = {.loop = rig.loop, .turn = {.waiting = 1}};
    consumer c = {.session = {.worker = &worker}, .works = true};
    sockets_tcp_pair(fds);
    assert_int_equal(sluice_conn_new(rig.loop, fds[0], &events, &c, &c.session.conn), 0);
    sockets_write(fds[1], "x", 1);
    turn_until_buffered(rig.loop, c.session.conn, 1);
    assert_true(c.session.budget.is_paused);
    assert_int_equal(worker.turn.waiting, 2);
    c.rests = true;
    sockets_write(fds[1], "x", 1);
    turn_until_buffered(rig.loop, c.session.conn, 2);
    assert_false(c.session.budget.is_paused);
    assert_false(budget_has_more(&c.session));
    assert_int_equal(worker.turn.waiting, 1);
    /* A request that is admitted late is the end of a pause, too. */
    c.session.budget.is_paused = c.session.budget.has_more = true;
    worker.turn.waiting = 2;
    assert_true(budget_admits_request(&c.session));
    assert_false(c.session.budget.is_paused);
    assert_int_equal(worker.turn.waiting, 1);
    sluice_conn_close(c.session.conn);
    turn_through(rig.loop, 5);
    close(fds[1]);
    files_rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FILES_ON_BOTH(pieces_are_counted),
        FILES_ON_BOTH(time_is_looked_at),
        FILES_ON_BOTH(the_clock_is_looked_at_with_every_sixteenth),
        FILES_ON_BOTH(all_sessions_share_a_slice),
        FILES_ON_BOTH(the_slice_ends_a_share),
        FILES_ON_BOTH(who_has_had_much_goes_behind),
        FILES_ON_BOTH(requests_count_more),
        FILES_ON_BOTH(what_was_used_is_remembered_once),
        FILES_ON_BOTH(who_leaves_is_not_waited_for),
        FILES_ON_BOTH(a_backlog_pauses_receiving),
        FILES_ON_BOTH(one_of_many_receives_nothing_meanwhile),
        FILES_ON_BOTH(what_rests_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
