/* The choice between the backends, and what is done where io_uring cannot be had. */
#include <sluice/loop.h>

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/conn.h>

#include "backends/uring_abi.h"
#include "support/backends_rig.h"
#include "support/sockets.h"

/* With a window, io_uring is the default on each kernel. */
static const sluice_loop_options windowed = {.size = sizeof windowed, .batch_us = 100};

static void a_choice_is_kept(void **state) {
    (void)state;
    sluice_pool *pool;
    assert_int_equal(sluice_pool_new(NULL, &pool), 0);
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        sluice_loop *loop;
        assert_int_equal(
            sluice_loop_new(pool, &(sluice_loop_options){.size = sizeof(sluice_loop_options), .backend = both[i]},
                            &loop),
            0);
        assert_string_equal(stats_of(loop).backend, names[both[i]]);
        assert_int_equal(stats_of(loop).fallback_error, 0);
        assert_int_equal(stats_of(loop).reason, SLUICE_REASON_REQUESTED);
        assert_true(strlen(stats_of(loop).features) > 0);
        sluice_loop_free(loop);
    }
    pool_close(pool);
}

/* This machine has it: the test before has used it. Without a window it depends on the kernel's
 * bundles: test_bundles.c. */
static void auto_prefers_io_uring(void **state) {
    (void)state;
    sluice_pool *pool;
    sluice_loop *loop;
    assert_int_equal(sluice_pool_new(NULL, &pool), 0);
    assert_int_equal(sluice_loop_new(pool, &windowed, &loop), 0);
    assert_string_equal(stats_of(loop).backend, "io_uring");
    assert_int_equal(stats_of(loop).reason, SLUICE_REASON_URING_WORKS);
    assert_int_equal(stats_of(loop).fallback_error, 0);
    sluice_loop_free(loop);
    pool_close(pool);
}

static void wrong_settings_are_refused_by_all(void **state) {
    (void)state;
    static const sluice_loop_options wrong[] = {
        {.size = sizeof(sluice_loop_options), .batch_us = 100001},
        {.size = sizeof(sluice_loop_options), .batch_us = 100001, .backend = SLUICE_BACKEND_URING},
        {.size = sizeof(sluice_loop_options), .batch_us = 100001, .backend = SLUICE_BACKEND_EPOLL},
        {.size = sizeof(sluice_loop_options), .backend = SLUICE_BACKEND_EPOLL + 1},
    };
    sluice_pool *pool;
    sluice_loop *const untouched = (sluice_loop *)(void *)&pool;
    sluice_loop *loop = untouched, *second = untouched;
    assert_int_equal(sluice_pool_new(NULL, &pool), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(sluice_loop_new(pool, &wrong[i], &loop), -EINVAL);
    assert_ptr_equal(loop, untouched);
    /* Nor does a pool that is in use make a fallback. */
    for (sluice_backend_choice choice = SLUICE_BACKEND_AUTO; choice <= SLUICE_BACKEND_EPOLL; choice++) {
        assert_int_equal(sluice_loop_new(pool,
                                         &(sluice_loop_options){.size = sizeof(sluice_loop_options),
                                                                .backend = SLUICE_BACKEND_EPOLL},
                                         &loop),
                         0);
        assert_int_equal(sluice_loop_new(pool,
                                         &(sluice_loop_options){.size = sizeof(sluice_loop_options), .backend = choice},
                                         &second),
                         -EBUSY);
        assert_ptr_equal(second, untouched);
        sluice_loop_free(loop);
    }
    pool_close(pool);
}

/* Where io_uring cannot be had: in processes of their own. They say what is wrong; nothing asserts
 * there. */

static unsigned open_descriptors(void) {
    unsigned count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (directory && readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static void count_bytes(sluice_conn *conn, void *user) {
    size_t *count = user;
    *count += sluice_chain_skip(sluice_conn_chain(conn), SIZE_MAX);
}

/* The loop receives. */
static bool is_alive(sluice_loop *loop) {
    static const sluice_conn_events events = {.size = sizeof events, .on_data = count_bytes};
    sluice_conn *conn;
    size_t count = 0;
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0 ||
        sluice_conn_new(loop, fds[0], &events, &count, &conn) < 0 || write(fds[1], "hello", 5) != 5)
        return false;
    while (count < 5 && sluice_loop_turn(loop, -1) == 0)
        ;
    close(fds[1]);
    return count == 5;
}

/* Linux 6.1 and 6.12 do not count the memory of rings as locked: then nothing is in the way. */
static bool counts_rings(void) {
    struct io_uring ring;
    int error = io_uring_queue_init(8, &ring, 0);
    if (!error)
        io_uring_queue_exit(&ring);
    return error == -ENOMEM;
}

static const char *what_is_wrong_without_obstacle(void) {
    sluice_pool *pool;
    sluice_loop *loop = NULL;
    if (sluice_pool_new(&(sluice_pool_options){.size = sizeof(sluice_pool_options), .no_huge_pages = true}, &pool) < 0)
        return "no pool";
    if (sluice_loop_new(pool, &windowed, &loop) < 0)
        return "no loop";
    if (strcmp(stats_of(loop).backend, "io_uring") != 0 || stats_of(loop).fallback_error != 0)
        return "the default is not io_uring";
    if (!is_alive(loop))
        return "io_uring does not receive";
    sluice_loop_free(loop);
    sluice_pool_free(pool);
    return NULL;
}

static const char *what_is_wrong(int error) {
    sluice_pool *pool;
    sluice_loop *loop = NULL;
    if (sluice_pool_new(&(sluice_pool_options){.size = sizeof(sluice_pool_options), .no_huge_pages = true}, &pool) < 0)
        return "no pool";
    unsigned descriptors = open_descriptors();
    if (sluice_loop_new(pool,
                        &(sluice_loop_options){.size = sizeof(sluice_loop_options), .backend = SLUICE_BACKEND_URING},
                        &loop) != error)
        return "the choice of io_uring does not fail as it should";
    if (loop)
        return "a result was written on failure";
    if (open_descriptors() != descriptors)
        return "a failure leaves descriptors open";

    if (sluice_loop_new(pool, NULL, &loop) < 0)
        return "the default does not fall back";
    if (strcmp(stats_of(loop).backend, "epoll") != 0 || stats_of(loop).fallback_error != error ||
        stats_of(loop).reason != SLUICE_REASON_URING_FAILED)
        return "the fallback does not say what it is, and why";
    if (!is_alive(loop))
        return "the fallback does not receive";
    sluice_loop_free(loop);

    if (sluice_loop_new(pool,
                        &(sluice_loop_options){.size = sizeof(sluice_loop_options), .backend = SLUICE_BACKEND_EPOLL},
                        &loop) < 0)
        return "the choice of epoll fails";
    if (stats_of(loop).fallback_error != 0)
        return "a choice is called a fallback";
    sluice_loop_free(loop);
    sluice_pool_free(pool);
    return open_descriptors() == descriptors ? NULL : "a loop leaves descriptors open";
}

/* From now on the system call fails so. */
static int forbid(unsigned call, int error) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}

/* Locked memory counts for those only who may not lock what they like. */
static int lock_nothing(void) {
    const struct rlimit none = {0, 0};
    const unsigned nobody = 65534;
    if (setrlimit(RLIMIT_MEMLOCK, &none) < 0)
        return -errno;
    if (geteuid() == 0 && (setresgid(nobody, nobody, nobody) < 0 || setresuid(nobody, nobody, nobody) < 0))
        return -errno;
    return 0;
}

/* A way to make io_uring impossible. */
typedef struct obstacle {
    unsigned call; /* 0: no locked memory */
    int error;
} obstacle;

static int meet(const obstacle *o) {
    hang_guard(GUARD);
    if ((o->call ? forbid(o->call, -o->error) : lock_nothing()) < 0)
        return SKIPPED;
    const char *wrong = o->call || counts_rings() ? what_is_wrong(o->error) : what_is_wrong_without_obstacle();
    if (wrong)
        fprintf(stderr, "%s: system call %u, %s\n", wrong, o->call, strerror(-o->error));
    return wrong ? 1 : 0;
}

static void run_into(const obstacle *obstacles, size_t count) {
    for (size_t i = 0; i < count; i++) {
        int status;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            _exit(meet(&obstacles[i]));
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == SKIPPED) {
            print_message("skipped: this machine does not let io_uring be made impossible\n");
            skip();
        }
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

static void auto_falls_back_where_io_uring_is_forbidden(void **state) {
    (void)state;
    static const obstacle obstacles[] = {
        {SYS_io_uring_setup, -EPERM},
        {SYS_io_uring_setup, -ENOSYS},
        {SYS_io_uring_setup, -EACCES},
        /* The ring can be made, but not used. */
        {SYS_io_uring_enter, -EPERM},
        {SYS_io_uring_register, -EPERM},
    };
    run_into(obstacles, sizeof obstacles / sizeof *obstacles);
}

static void auto_falls_back_without_locked_memory(void **state) {
    (void)state;
    run_into(&(obstacle){0, -ENOMEM}, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_choice_is_kept),
        cmocka_unit_test(auto_prefers_io_uring),
        cmocka_unit_test(wrong_settings_are_refused_by_all),
        cmocka_unit_test(auto_falls_back_where_io_uring_is_forbidden),
        cmocka_unit_test(auto_falls_back_without_locked_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
