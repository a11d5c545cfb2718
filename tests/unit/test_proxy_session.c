/* A connection of a proxy at its deadline: before its header, and while it leaves behind it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sluice/chain.h>
#include <sluice/pool.h>

#include "daemon/server/handover.h"
#include "daemon/server/session.h"
#include "daemon/server/worker.h"

enum { HEADER_MS = 10000 };

static struct {
    sluice_pool *pool;
    sluice_chain *chain;
    struct worker worker;
    struct session *session;
    uint64_t now;
    unsigned left, rejected;
} rig;

/* The linker puts these in the place of the calls (--wrap). */
sluice_chain *__wrap_sluice_conn_chain(sluice_conn *conn);
int __wrap_sluice_conn_detach(sluice_conn *conn, sluice_conn_detached_fn *detached, void *user);
uint64_t __wrap_sluice_loop_now(const sluice_loop *loop);
void __wrap_session_account(struct session *session);
void __wrap_handover_log_refusal(const struct handover *handover, const char *reason);

sluice_chain *__wrap_sluice_conn_chain(sluice_conn *conn) {
    (void)conn;
    return rig.chain;
}

/* It leaves in a later turn. */
int __wrap_sluice_conn_detach(sluice_conn *conn, sluice_conn_detached_fn *detached, void *user) {
    (void)conn;
    (void)detached;
    assert_ptr_equal(user, rig.session);
    rig.left++;
    return 0;
}

uint64_t __wrap_sluice_loop_now(const sluice_loop *loop) {
    (void)loop;
    return rig.now;
}

void __wrap_session_account(struct session *session) {
    assert_ptr_equal(session, rig.session);
}

void __wrap_handover_log_refusal(const struct handover *handover, const char *reason) {
    (void)handover;
    assert_non_null(strstr(reason, "PROXY header"));
    rig.rejected++;
}

static int begin(void **state) {
    const struct handover handover = {0};
    (void)state;
    memset(&rig, 0, sizeof rig);
    assert_int_equal(sluice_pool_new(NULL, &rig.pool), 0);
    assert_int_equal(sluice_chain_new(rig.pool, &rig.chain), 0);
    rig.session = calloc(1, handover_proxy_stage->size);
    assert_non_null(rig.session);
    rig.now = 1000;
    rig.session->type = handover_proxy_stage;
    rig.session->worker = &rig.worker;
    assert_int_equal(handover_proxy_stage->prepare(rig.session, &handover), 0);
    return 0;
}

static int finish(void **state) {
    (void)state;
    handover_proxy_stage->discard(rig.session);
    sluice_chain_free(rig.chain);
    sluice_pool_free(rig.pool);
    return 0;
}

static void send_text(const char *text) {
    struct iovec room;
    assert_int_equal(sluice_chain_reserve(rig.chain, strlen(text), &room, 1), 1);
    memcpy(room.iov_base, text, strlen(text));
    assert_int_equal(sluice_chain_commit(rig.chain, strlen(text)), 0);
    handover_proxy_stage->events->on_data(NULL, rig.session);
}

static void tick(uint64_t after) {
    rig.now = 1000 + after;
    handover_proxy_stage->tick(rig.session, rig.now);
}

static void without_a_header_it_is_rejected_in_time(void **state) {
    (void)state;
    send_text("PROXY TCP4 10.0.0.1 10.0.0.2 1000 ");
    tick(HEADER_MS - 1);
    assert_int_equal(rig.rejected, 0);
    tick(HEADER_MS);
    assert_int_equal(rig.rejected, 1);
    assert_int_equal(rig.left, 1);
    tick(2 * HEADER_MS);
    assert_int_equal(rig.rejected, 1);
    assert_int_equal(rig.left, 1);
}

/* The last moment before the deadline, which passes while it leaves its loop. */
static void a_header_in_time_is_not_rejected(void **state) {
    (void)state;
    tick(HEADER_MS - 1);
    send_text("PROXY TCP4 10.0.0.1 10.0.0.2 1000 2000\r\n");
    assert_int_equal(rig.left, 1);
    tick(HEADER_MS);
    assert_int_equal(rig.rejected, 0);
    assert_int_equal(rig.left, 1);
}

static void a_wrong_header_is_rejected_once(void **state) {
    (void)state;
    send_text("GET / HTTP/1.1\r\n");
    tick(HEADER_MS);
    assert_int_equal(rig.rejected, 1);
    assert_int_equal(rig.left, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_a_header_it_is_rejected_in_time, begin, finish),
        cmocka_unit_test_setup_teardown(a_header_in_time_is_not_rejected, begin, finish),
        cmocka_unit_test_setup_teardown(a_wrong_header_is_rejected_once, begin, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
