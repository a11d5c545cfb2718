/*
 * fork(2) with a loop: in the child its turns fail at once, and what the child does with what
 * belongs to it does not reach the kernel, where all of that is the parent's. The parent goes on.
 */
#include <sluice/conn.h>

#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/stream.h>

#include "backends/fork_mark.h"
#include "support/files.h"
#include "support/sockets.h"

enum { GUARD = 60, CHILD_GUARD = 20, ROUNDS = 20 };

/* Whether the kernel clears memory in a child; else processes are compared. */
static bool kernel_wipes;

int __real_madvise(void *memory, size_t n, int advice);
int __wrap_madvise(void *memory, size_t n, int advice);

int __wrap_madvise(void *memory, size_t n, int advice) {
    if (advice == MADV_WIPEONFORK && !kernel_wipes) {
        errno = EINVAL;
        return -1;
    }
    return __real_madvise(memory, n, advice);
}

typedef struct parent {
    loop_rig rig;
    sluice_conn *conn;
    sluice_listener *listener;
    int peer;
    unsigned accepted;
    size_t received, sent;
    bool sends;
} parent;

static void on_data(sluice_conn *conn, void *user) {
    sluice_chain *chain = sluice_conn_chain(conn);
    ((parent *)user)->received += sluice_chain_skip(chain, sluice_chain_length(chain));
}

static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    static char byte = 'p';
    parent *p = user;
    (void)conn, (void)max;
    *iov = (struct iovec){&byte, 1};
    return p->sends ? 1 : 0;
}

static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    parent *p = user;
    (void)conn;
    p->sent += bytes;
    p->sends = false;
}

static const sluice_conn_events events = {
    .size = sizeof events, .on_data = on_data, .on_gather = on_gather, .on_sent = on_sent};

static void on_accept(sluice_listener *listener, int fd, void *user) {
    (void)listener;
    ((parent *)user)->accepted++;
    close(fd);
}

static void parent_open(parent *p, void **state) {
    const struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fds[2];
    *p = (parent){0};
    loop_rig_open(&p->rig, NULL,
                  &(sluice_loop_options){.size = sizeof(sluice_loop_options),
                                         .backend = ((const sluice_loop_options *)*state)->backend},
                  GUARD);
    sockets_tcp_pair(fds);
    p->peer = fds[1];
    assert_int_equal(sluice_conn_new(p->rig.loop, fds[0], &events, p, &p->conn), 0);
    assert_int_equal(
        sluice_listener_new(p->rig.loop, (const struct sockaddr *)&address, sizeof address, on_accept, p, &p->listener),
        0);
}

/* A byte each way, and a connection: what is armed still is. */
static void parent_goes_on(parent *p) {
    struct sockaddr_storage address;
    size_t goal = p->received + 1;
    unsigned accepts = p->accepted + 1;
    char byte;
    sockets_write(p->peer, "c", 1);
    turn_until_size(p->rig.loop, &p->received, goal);
    p->sends = true;
    sluice_conn_want_send(p->conn);
    turn_until_size(p->rig.loop, &p->sent, goal);
    assert_int_equal(read(p->peer, &byte, 1), 1);
    assert_int_equal(sluice_listener_address(p->listener, &address), 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(struct sockaddr_in)), 0);
    turn_until_count(p->rig.loop, &p->accepted, accepts);
    close(fd);
}

static void parent_close(parent *p) {
    close(p->peer);
    loop_rig_close(&p->rig);
    hang_guard(0);
}

/* What the child says: 0, or which of its steps went wrong. */
static int as_child(parent *p) {
    alarm(CHILD_GUARD);
    for (int i = 0; i < 3; i++)
        if (sluice_loop_turn(p->rig.loop, 0) != -ECHILD)
            return 1;
    if (sluice_loop_turn(p->rig.loop, -1) != -ECHILD || sluice_loop_run(p->rig.loop) != -ECHILD)
        return 2;
    p->sends = true;
    sluice_conn_want_send(p->conn);
    sluice_conn_pause(p->conn);
    sluice_conn_resume(p->conn);
    sluice_conn_close(p->conn);
    sluice_listener_free(p->listener);
    sluice_loop_free(p->rig.loop);
    return 0;
}

static void run_child(parent *p) {
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(as_child(p));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Before the first turn of the loop, and after some. */
static void a_child_has_an_error_and_the_parent_goes_on(void **state) {
    for (int wipes = 0; wipes < 2; wipes++) {
        parent p;
        kernel_wipes = wipes;
        parent_open(&p, state);
        run_child(&p);
        for (unsigned i = 0; i < ROUNDS; i++) {
            parent_goes_on(&p);
            run_child(&p);
        }
        parent_goes_on(&p);
        parent_close(&p);
    }
}

/* Nobody waits for ever in a call that turns the loop itself. */
static void a_stream_of_a_child_has_an_error(void **state) {
    loop_rig rig;
    sluice_stream *stream;
    int fds[2], status;
    kernel_wipes = true;
    loop_rig_open(&rig, NULL,
                  &(sluice_loop_options){.size = sizeof(sluice_loop_options),
                                         .backend = ((const sluice_loop_options *)*state)->backend},
                  GUARD);
    sockets_tcp_pair(fds);
    assert_int_equal(sluice_stream_new(rig.loop, fds[0], NULL, &stream), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(CHILD_GUARD);
        _exit(sluice_reader_fill(sluice_stream_reader(stream), 4) == -ECHILD ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    sluice_stream_free(stream);
    close(fds[1]);
    loop_rig_close(&rig);
    hang_guard(0);
}

/* A loop that the child makes is its own, also where it lies at the same place. */
static void a_child_makes_loops_of_its_own(void **state) {
    int status;
    kernel_wipes = true;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        parent p;
        alarm(CHILD_GUARD);
        parent_open(&p, state);
        parent_goes_on(&p);
        _exit(sluice_loop_turn(p.rig.loop, 0));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FILES_ON_BOTH(a_child_has_an_error_and_the_parent_goes_on),
        FILES_ON_BOTH(a_stream_of_a_child_has_an_error),
        FILES_ON_BOTH(a_child_makes_loops_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
