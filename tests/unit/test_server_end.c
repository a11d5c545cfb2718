/* The end of a server whose run has failed: what is still there ends with it, and asks nobody who
 * has gone. */
#include <errno.h>
#include <event2/event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/admin/admin.h"
#include "daemon/control/cluster_actions.h"
#include "daemon/control/reload.h"
#include "daemon/control/worker_query.h"
#include "daemon/process/upgrade.h"
#include "daemon/protocols/rtsp/rtsp_session.h"
#include "daemon/server/server.h"
#include "daemon/server/worker.h"
#include "support/server_rig.h"

static const char requests[] = "DESCRIBE rtsp://a/live/a RTSP/1.0\r\nCSeq: 1\r\n\r\n"
                               "DESCRIBE rtsp://a/live/b RTSP/1.0\r\nCSeq: 2\r\n\r\n";

struct rig {
    const struct options *options;
    struct server *server;
    sluice_loop *loop;
    int peer;
    struct hook_query *asked;
    unsigned count; /* of questions */
};

static void ask(void *user, struct hook_query *job) {
    struct rig *rig = user;
    rig->asked = job;
    rig->count++;
}

static void come_back(void *user) {
    struct hook_query *job = user;
    job->done(job);
}

static void open_rig(struct rig *rig) {
    const char *backend = getenv("SLUICE_TEST_BACKEND");
    char *arguments[] = {"sluiced",
                         "--http",
                         "127.0.0.1:0",
                         "--workers",
                         "1",
                         "--hook-play",
                         "http://127.0.0.1:9/",
                         "--log-level",
                         "error",
                         "--backend",
                         backend ? (char *)backend : "auto",
                         NULL};
    int fds[2];
    *rig = (struct rig){0};
    rig->options = server_rig_options(sizeof arguments / sizeof *arguments - 1, arguments);
    assert_int_equal(server_new(rig->options, &rig->server), 0);
    server_set_hook_asker(rig->server, ask, rig);
    struct worker *worker = server_worker(rig->server, 0);
    rig->loop = worker->loop;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    server_add_connection(rig->server);
    struct handover handover = {.connection = {.fd = fds[0], .told = true},
                                .peer = {.ss_family = AF_INET},
                                .listener = {&rtsp_protocol, .merge_window_ms = OPTIONS_MERGE_UNSET}};
    handover_begin(worker, &handover);
    assert_non_null(worker->sessions);
    rig->peer = fds[1];
    assert_int_equal(write(rig->peer, requests, sizeof requests - 1), sizeof requests - 1);
}

static void close_rig(struct rig *rig) {
    server_free(rig->server);
    close(rig->peer);
    options_unref(rig->options);
}

/* A hook's answer is called with the loop's end, and there is another request behind the one that
 * it was about. */
static void an_answer_at_the_end_begins_nothing(void **state) {
    struct rig rig;
    (void)state;
    open_rig(&rig);
    while (rig.count == 0)
        assert_int_equal(sluice_loop_turn(rig.loop, 1000), 0);
    sluice_loop_post_call(rig.asked->loop, &rig.asked->call, come_back, rig.asked);
    close_rig(&rig);
    assert_int_equal(rig.count, 1);
}

static void without_an_asker_requests_are_refused(void **state) {
    char answer[4096];
    size_t length = 0;
    struct rig rig;
    (void)state;
    open_rig(&rig);
    server_set_hook_asker(rig.server, NULL, NULL);
    do {
        assert_int_equal(sluice_loop_turn(rig.loop, 1000), 0);
        ssize_t n = recv(rig.peer, answer + length, sizeof answer - 1 - length, MSG_DONTWAIT);
        length += n > 0 ? (size_t)n : 0;
        answer[length] = '\0';
    } while (!strstr(answer, "CSeq: 2"));
    assert_ptr_equal(strstr(answer, "RTSP/1.0 503 "), answer);
    close_rig(&rig);
    assert_int_equal(rig.count, 0);
}

struct answers {
    unsigned count;
    size_t answered; /* workers, the last time */
};

static void take_answer(const struct worker_answer *answer, void *user) {
    struct answers *answers = user;
    answers->count++;
    answers->answered = answer->answered;
}

/* Whoever asks a worker that hangs is told that it does, again and again, and what it has when it
 * goes on. */
static void a_worker_that_hangs_does_not_use_up_the_questions(void **state) {
    enum { MANY = 200 };
    struct event_base *base = event_base_new();
    struct answers answers = {0};
    struct worker_query *worker_query;
    struct rig rig;
    (void)state;
    open_rig(&rig);
    server_set_hook_asker(rig.server, NULL, NULL);
    assert_non_null(base);
    assert_int_equal(worker_query_new(base, rig.server, &worker_query), 0);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(worker_query_snapshot(worker_query, 0, take_answer, &answers), 0);
        while (answers.count == i)
            assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
        assert_int_equal(answers.answered, 0);
    }
    /* It goes on: behind the one question that it was asked it is asked again. */
    do {
        unsigned before = answers.count;
        assert_int_equal(worker_query_snapshot(worker_query, 0, take_answer, &answers), 0);
        while (answers.count == before) {
            assert_int_equal(sluice_loop_turn(rig.loop, 10), 0);
            assert_int_equal(event_base_loop(base, EVLOOP_NONBLOCK), 0);
        }
    } while (answers.answered == 0);
    /* One that is still out at the end. */
    unsigned before = answers.count;
    assert_int_equal(worker_query_snapshot(worker_query, 0, take_answer, &answers), 0);
    worker_query_free(worker_query);
    assert_int_equal(answers.count, before + 1);
    close_rig(&rig);
    event_base_free(base);
}

/* Its parent ends between its ready and its turn, while the worker is yet to hear that it is to
 * stop accepting. */
static void a_successor_that_waits_for_its_turn_ends_with_the_server(void **state) {
    /* One socket is lent: so the channel is descriptor 4. */
    char *words[] = {"/bin/sh", "-c", "printf r >&4; exec sleep 60", NULL};
    const struct command_line line = {.words = words};
    struct event_base *base = event_base_new();
    struct reload *reload;
    struct admin *admin;
    struct upgrade *upgrade;
    struct rig rig;
    (void)state;
    open_rig(&rig);
    server_set_hook_asker(rig.server, NULL, NULL);
    assert_non_null(base);
    assert_int_equal(reload_new(base, rig.server, &line, rig.options, NULL, &reload), 0);
    assert_int_equal(admin_new(base, rig.server, rig.options, NULL, reload, NULL, NULL, &admin), 0);
    assert_int_equal(upgrade_new(base, rig.server, &line, admin, reload, &upgrade), 0);
    assert_int_equal(upgrade_start(upgrade, NULL, NULL), 0);
    /* It is started, and then it is ready. */
    while (waitpid(-1, NULL, WNOHANG) < 0) {
        assert_int_equal(sluice_loop_turn(rig.loop, 10), 0);
        assert_int_equal(event_base_loop(base, EVLOOP_NONBLOCK), 0);
    }
    assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
    upgrade_free(upgrade);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    reload_free(reload);
    admin_free(admin);
    event_base_free(base);
    close_rig(&rig);
}

/* The control plane, which is freed before the server, counts them. */
static void a_kick_at_the_end_is_not_counted_down(void **state) {
    const struct cluster_event kick = {.verb = CLUSTER_EVENT_KICK, .stream = "live/a", .location.node = "b"};
    struct cluster_actions actions = {0};
    struct rig rig;
    (void)state;
    open_rig(&rig);
    server_set_hook_asker(rig.server, NULL, NULL);
    actions.server = rig.server;
    assert_int_equal(cluster_actions_take(&actions, &kick), 0);
    assert_int_equal(atomic_load(&actions.waiting), 1);
    while (atomic_load(&actions.waiting) > 0)
        assert_int_equal(sluice_loop_turn(rig.loop, 1000), 0);
    assert_int_equal(cluster_actions_take(&actions, &kick), 0);
    close_rig(&rig);
    assert_int_equal(atomic_load(&actions.waiting), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_at_the_end_begins_nothing),
        cmocka_unit_test(without_an_asker_requests_are_refused),
        cmocka_unit_test(a_kick_at_the_end_is_not_counted_down),
        cmocka_unit_test(a_worker_that_hangs_does_not_use_up_the_questions),
        cmocka_unit_test(a_successor_that_waits_for_its_turn_ends_with_the_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
