/* How long a thread has had something to do: its own time, and its wait for a processor that
 * another has. */
#include "daemon/base/thread_time.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

static uint64_t cpu_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

static void own_time_counts(void **state) {
    (void)state;
    enum { WORK_US = 20000 };
    uint64_t before = thread_time_now().ran_us, cpu = cpu_us();
    while (cpu_us() - cpu < WORK_US)
        continue;
    assert_true(thread_time_now().ran_us - before >= WORK_US);
}

static atomic_bool over;

static void *spin(void *user) {
    while (!atomic_load(&over))
        continue;
    return user;
}

/* Another thread has the same processor: the half that it gets counts, too. */
static void waiting_counts(void **state) {
    (void)state;
    enum { WORK_US = 100000 };
    cpu_set_t one, before_set;
    pthread_t other;
    assert_int_equal(sched_getaffinity(0, sizeof before_set, &before_set), 0);
    int cpu = sched_getcpu();
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(pthread_create(&other, NULL, spin, NULL), 0);
    uint64_t before = thread_time_now().waited_us, own = cpu_us();
    while (cpu_us() - own < WORK_US)
        continue;
    uint64_t waited = thread_time_now().waited_us - before;
    atomic_store(&over, true);
    pthread_join(other, NULL);
    assert_int_equal(sched_setaffinity(0, sizeof before_set, &before_set), 0);
    /* As long again, where nobody has another share; a twentieth says that it is counted. */
    assert_true(waited >= WORK_US / 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(own_time_counts), cmocka_unit_test(waiting_counts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
