/*
 * Under AddressSanitizer a read that comes too late traps: each is done by a child, which has to
 * die of it with a report, while the same read in time has to go well. Under Valgrind, which sees
 * also what nobody has written, the child has to end with the status that it gives for errors.
 */
#include "memory/poison.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "memory/pool.h"
#include "support/feed.h"
#include "support/sockets.h"

/* What is read, and when: before it is given back, or behind that. */
typedef void late_read(bool late);

static volatile uint8_t seen;

static void read_slice(bool late) {
    loop_rig rig;
    sluice_chain *chain;
    sluice_slice slice;
    struct iovec piece;
    loop_rig_open(&rig, NULL, NULL, 20);
    assert_int_equal(sluice_chain_new(rig.pool, &chain), 0);
    feed(chain, rig.pool, "frame", 5, 0);
    assert_int_equal(sluice_chain_take(chain, 5, &slice), 0);
    sluice_slice_iov(&slice, 0, &piece, 1);
    if (late)
        sluice_slice_release(&slice);
    seen = ((volatile uint8_t *)piece.iov_base)[4];
    sluice_slice_release(&slice);
    sluice_chain_free(chain);
    loop_rig_close(&rig);
}

/* Ten bytes that have come, in one block. @ret_peer: to be closed. */
static const volatile uint8_t *receive(loop_rig *rig, sluice_slice *ret_slice, int *ret_peer) {
    static const sluice_conn_events events = {.size = sizeof events};
    sluice_conn *conn = NULL;
    struct iovec piece;
    int fds[2];
    sockets_tcp_pair(fds);
    assert_int_equal(sluice_conn_new(rig->loop, fds[0], &events, NULL, &conn), 0);
    sockets_write(fds[1], "0123456789", 10);
    turn_until_buffered(rig->loop, conn, 10);
    assert_int_equal(sluice_chain_take(sluice_conn_chain(conn), 10, ret_slice), 0);
    sluice_slice_iov(ret_slice, 0, &piece, 1);
    *ret_peer = fds[1];
    return piece.iov_base;
}

/* Consumed, and nobody holds it. */
static void read_consumed(bool late) {
    loop_rig rig;
    sluice_slice slice;
    loop_rig_open(&rig, NULL, NULL, 20);
    int peer;
    const volatile uint8_t *bytes = receive(&rig, &slice, &peer);
    if (late) {
        sluice_slice_release(&slice);
        /* The block goes back to the pool, and from there to the kernel or to nobody. */
        turn_through(rig.loop, 3);
    }
    seen = *bytes;
    sluice_slice_release(&slice);
    close(peer);
    loop_rig_close(&rig);
}

#ifdef SLUICE_VALGRIND
/*
 * Behind the bytes that came. What came has been written, though by the kernel alone. With
 * io_uring: of a plain receive Valgrind takes the whole buffer for written.
 */
static void read_behind(bool late) {
    loop_rig rig;
    sluice_slice slice;
    loop_rig_open(&rig, NULL,
                  &(sluice_loop_options){.size = sizeof(sluice_loop_options), .backend = SLUICE_BACKEND_URING}, 60);
    int peer;
    const volatile uint8_t *bytes = receive(&rig, &slice, &peer);
    /* Only what depends on it is an error, not the read. */
    if (bytes[late ? 10 : 9] == '9')
        seen = '9';
    sluice_slice_release(&slice);
    close(peer);
    loop_rig_close(&rig);
}
#endif

/* Published for receiving: the kernel may write to it at any moment. */
static void read_kernels(bool late) {
    loop_rig rig;
    sluice_block *block;
    loop_rig_open(&rig, NULL, NULL, 20);
    assert_int_equal(sluice_block_get(rig.pool, &block), 0);
    if (late)
        pool_to_kernel(rig.pool, block);
    seen = *(volatile uint8_t *)sluice_block_data(block);
    sluice_block_release(block);
    loop_rig_close(&rig);
}

/* Does the read in a child: how that ended, and the first of what it has said. */
static int in_child(late_read *work, bool late, char *report, size_t size) {
    int ends[2], status;
    size_t length = 0;
    ssize_t n;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        work(late);
        _exit(0);
    }
    close(ends[1]);
    while (length < size - 1 && (n = read(ends[0], report + length, size - 1 - length)) > 0)
        length += (size_t)n;
    report[length] = 0;
    close(ends[0]); /* who says more than that dies of it, too */
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void late_reads_trap(void **state) {
    (void)state;
    static late_read *const reads[] = {
        read_slice,
        read_consumed,
        read_kernels,
#ifdef SLUICE_VALGRIND
        read_behind,
#endif
    };
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
        char report[4096];
        assert_int_equal(in_child(reads[i], false, report, sizeof report), 0);
#ifdef SLUICE_POISONS
        assert_int_not_equal(in_child(reads[i], true, report, sizeof report), 0);
        assert_non_null(strstr(report, "use-after-poison"));
#elif defined(SLUICE_VALGRIND)
        if (RUNNING_ON_VALGRIND)
            assert_int_not_equal(in_child(reads[i], true, report, sizeof report), 0);
#endif
    }
#if !defined(SLUICE_POISONS) && !defined(SLUICE_VALGRIND)
    print_message("skipped: this build does not poison memory\n");
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_reads_trap),
    };
    return cmocka_run_group_tests_name("poison", tests, NULL, NULL);
}
