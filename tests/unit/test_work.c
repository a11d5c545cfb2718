/* Work on a loop's thread: in order, beside what is done to files, and not begun when it is
 * cancelled in time. */
#include <sluice/file_writer.h>
#include <sluice/loop.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "support/files.h"

enum { JOBS = 5 };

/* The linker puts this in the place of the call (--wrap). */
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *user);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *user);

static bool has_no_threads;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *user) {
    return has_no_threads ? EAGAIN : __real_pthread_create(thread, attributes, start, user);
}

typedef struct job {
    sluice_work *work;
    pthread_t run_on, done_on;
    unsigned runs, done;
    unsigned place;         /* among those that have run: from 1 on */
    unsigned *count;        /* of them */
    struct job *to_cancel;  /* by its done */
    sem_t *begun, *may_end; /* of a job that lasts until the test says so */
} job;

static void job_run(void *user) {
    job *running = user;
    running->run_on = pthread_self();
    running->runs++;
    if (running->count)
        running->place = ++*running->count;
    if (running->begun) {
        sem_post(running->begun);
        sem_wait(running->may_end);
    }
}

static void job_done(void *user) {
    job *ending = user;
    ending->done_on = pthread_self();
    ending->done++;
    ending->work = NULL;
    if (ending->to_cancel)
        assert_int_equal(sluice_work_cancel(ending->to_cancel->work), 0);
}

static void ask(const loop_rig *rig, job *asked) {
    assert_int_equal(sluice_loop_work(rig->loop, job_run, job_done, asked, &asked->work), 0);
}

/* A loop whose thread is at work for as long as the test wants. */
typedef struct held_rig {
    loop_rig rig;
    sem_t begun, may_end;
    job holder;
    unsigned count;
    job jobs[JOBS];
} held_rig;

static void held_open(held_rig *held, void **state) {
    static const sluice_pool_options pool = {.size = sizeof pool, .no_huge_pages = true};
    *held = (held_rig){0};
    files_rig_open(&held->rig, &pool, state);
    assert_int_equal(sem_init(&held->begun, 0, 0), 0);
    assert_int_equal(sem_init(&held->may_end, 0, 0), 0);
    held->holder = (job){.begun = &held->begun, .may_end = &held->may_end};
    ask(&held->rig, &held->holder);
    for (unsigned i = 0; i < JOBS; i++) {
        held->jobs[i].count = &held->count;
        ask(&held->rig, &held->jobs[i]);
    }
    sem_wait(&held->begun);
}

static void held_close(held_rig *held) {
    files_rig_close(&held->rig);
    sem_destroy(&held->begun);
    sem_destroy(&held->may_end);
    assert_int_equal(held->holder.runs, 1);
    assert_int_equal(held->holder.done, 1);
    for (unsigned i = 0; i < JOBS; i++)
        assert_int_equal(held->jobs[i].done, 1);
}

static void work_is_done_elsewhere_and_told_here(void **state) {
    static const sluice_pool_options pool = {.size = sizeof pool, .no_huge_pages = true};
    loop_rig rig;
    job jobs[JOBS] = {0};
    unsigned count = 0;
    files_rig_open(&rig, &pool, state);
    for (unsigned i = 0; i < JOBS - 1; i++) {
        jobs[i].count = &count;
        ask(&rig, &jobs[i]);
    }
    for (unsigned i = 0; i < JOBS - 1; i++) {
        turn_until_count(rig.loop, &jobs[i].done, 1);
        assert_int_equal(jobs[i].runs, 1);
        assert_int_equal(jobs[i].place, i + 1);
        assert_true(pthread_equal(jobs[i].done_on, pthread_self()));
        assert_false(pthread_equal(jobs[i].run_on, pthread_self()));
    }
    /* What nobody has waited for is done when the loop goes; and who does not want to cancel needs
     * no handle. */
    assert_int_equal(sluice_loop_work(rig.loop, job_run, job_done, &jobs[JOBS - 1], NULL), 0);
    files_rig_close(&rig);
    assert_int_equal(jobs[JOBS - 1].runs, 1);
    assert_int_equal(jobs[JOBS - 1].done, 1);
}

/* The last, one between others and the first: while something else runs, and holds up the telling
 * of none of them. */
static void cancelled_work_is_not_begun(void **state) {
    static const unsigned cancelled[] = {4, 2, 0};
    held_rig held;
    held_open(&held, state);
    for (unsigned i = 0; i < 3; i++) {
        job *unwanted = &held.jobs[cancelled[i]];
        assert_int_equal(sluice_work_cancel(unwanted->work), 0);
        assert_int_equal(sluice_work_cancel(unwanted->work), 0);
        assert_int_equal(unwanted->done, 0);
        turn_until_count(held.rig.loop, &unwanted->done, 1);
    }
    assert_int_equal(held.holder.done + held.jobs[1].done + held.jobs[3].done, 0);
    /* Behind what is left, in the order in which it was asked. */
    job more = {.count = &held.count};
    ask(&held.rig, &more);
    sem_post(&held.may_end);
    turn_until_count(held.rig.loop, &more.done, 1);
    assert_int_equal(held.jobs[1].place, 1);
    assert_int_equal(held.jobs[3].place, 2);
    assert_int_equal(more.place, 3);
    assert_int_equal(held.jobs[0].runs + held.jobs[2].runs + held.jobs[4].runs, 0);
    held_close(&held);
}

static void work_that_has_begun_goes_on(void **state) {
    held_rig held;
    held_open(&held, state);
    assert_int_equal(sluice_work_cancel(held.holder.work), -EBUSY);
    sem_post(&held.may_end);
    turn_until_count(held.rig.loop, &held.jobs[JOBS - 1].done, 1);
    assert_int_equal(held.count, JOBS);
    held_close(&held);
}

/* Work that is done and has not been told of is over as well. */
static void work_that_is_over_is_not_cancelled(void **state) {
    held_rig held;
    held_open(&held, state);
    sem_t ended, unused;
    assert_int_equal(sem_init(&ended, 0, 0), 0);
    assert_int_equal(sem_init(&unused, 0, 1), 0);
    job last = {.begun = &ended, .may_end = &unused};
    ask(&held.rig, &last);
    sem_post(&held.may_end);
    sem_wait(&ended);
    assert_int_equal(sluice_work_cancel(held.jobs[0].work), -EBUSY);
    turn_until_count(held.rig.loop, &last.done, 1);
    assert_int_equal(held.jobs[0].runs, 1);
    held_close(&held);
    sem_destroy(&ended);
    sem_destroy(&unused);
}

static void work_is_cancelled_by_anothers_done(void **state) {
    held_rig held;
    held_open(&held, state);
    held.jobs[0].to_cancel = &held.jobs[3];
    assert_int_equal(sluice_work_cancel(held.jobs[0].work), 0);
    turn_until_count(held.rig.loop, &held.jobs[3].done, 1);
    assert_int_equal(held.jobs[3].runs, 0);
    sem_post(&held.may_end);
    held_close(&held);
    assert_int_equal(held.count, JOBS - 2);
}

/* A turn runs it then, if nobody has cancelled it before; also when later work has found a
 * thread. */
static void work_without_a_thread_is_cancelled(void **state) {
    static const sluice_pool_options pool = {.size = sizeof pool, .no_huge_pages = true};
    loop_rig rig;
    job unwanted[2] = {0}, wanted[2] = {0};
    files_rig_open(&rig, &pool, state);
    has_no_threads = true;
    ask(&rig, &unwanted[0]);
    assert_int_equal(sluice_work_cancel(unwanted[0].work), 0);
    assert_int_equal(sluice_work_cancel(unwanted[0].work), 0);
    ask(&rig, &wanted[0]);
    ask(&rig, &unwanted[1]);
    has_no_threads = false;
    ask(&rig, &wanted[1]);
    assert_int_equal(sluice_work_cancel(unwanted[1].work), 0);
    assert_int_equal(unwanted[0].done + unwanted[1].done, 0);
    for (unsigned i = 0; i < 2; i++) {
        turn_until_count(rig.loop, &unwanted[i].done, 1);
        turn_until_count(rig.loop, &wanted[i].done, 1);
        assert_int_equal(wanted[i].runs, 1);
    }
    assert_true(pthread_equal(wanted[0].run_on, pthread_self()));
    assert_false(pthread_equal(wanted[1].run_on, pthread_self()));
    files_rig_close(&rig);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(unwanted[i].runs, 0);
        assert_int_equal(unwanted[i].done, 1);
        assert_int_equal(wanted[i].runs, 1);
        assert_int_equal(wanted[i].done, 1);
    }
}

/* With work that waits, work that is cancelled, and work that runs: each is told once. */
static void a_loop_is_freed_with_work_waiting(void **state) {
    held_rig held;
    held_open(&held, state);
    assert_int_equal(sluice_work_cancel(held.jobs[1].work), 0);
    assert_int_equal(sluice_work_cancel(held.jobs[4].work), 0);
    sem_post(&held.may_end);
    held_close(&held);
    assert_int_equal(held.jobs[1].runs + held.jobs[4].runs, 0);
    assert_int_equal(held.count, JOBS - 2);
}

/* A host that watches the loop's descriptor hears of it. */
static void a_host_is_told_of_what_is_cancelled(void **state) {
    held_rig held;
    held_open(&held, state);
    struct pollfd watched = {.fd = sluice_loop_fd(held.rig.loop), .events = POLLIN};
    assert_true(watched.fd >= 0);
    assert_int_equal(sluice_work_cancel(held.jobs[2].work), 0);
    while (!held.jobs[2].done) {
        assert_true(poll(&watched, 1, sluice_loop_timeout(held.rig.loop)) >= 0);
        assert_int_equal(sluice_loop_turn(held.rig.loop, 0), 0);
    }
    sem_post(&held.may_end);
    held_close(&held);
}

static int open_file(int fd, void *user) {
    (void)fd;
    (void)user;
    int opened = memfd_create("written", MFD_CLOEXEC);
    return opened < 0 ? -errno : opened;
}

static void file_closed(sluice_file_writer *writer, int error, void *user) {
    unsigned *closed = user;
    (void)writer;
    assert_int_equal(error, 0);
    ++*closed;
}

/* What strangers may ask for does not stand before a recording. */
static void files_do_not_wait_for_work(void **state) {
    static const sluice_file_writer_events events = {.size = sizeof events, .on_closed = file_closed};
    held_rig held;
    unsigned closed = 0;
    held_open(&held, state);
    sluice_file_writer *writer;
    assert_int_equal(sluice_file_writer_new(held.rig.loop, -1, NULL, &events, &closed, &writer), 0);
    assert_int_equal(sluice_file_writer_run(writer, open_file, NULL), 0);
    assert_int_equal(sluice_file_writer_copy(writer, "frame", 5), 0);
    assert_int_equal(sluice_file_writer_sync(writer), 0);
    sluice_file_writer_finish(writer);
    turn_until_count(held.rig.loop, &closed, 1);
    assert_int_equal(held.holder.done + held.count, 0);
    sem_post(&held.may_end);
    held_close(&held);
}

static int wait_and_open(int fd, void *user) {
    held_rig *held = user;
    (void)fd;
    sem_post(&held->begun);
    sem_wait(&held->may_end);
    return open_file(-1, NULL);
}

static void file_left(sluice_file_writer *writer, int error, void *user) {
    unsigned *closed = user;
    (void)writer;
    assert_int_equal(error, -ECANCELED);
    ++*closed;
}

/* Nothing of what has not returned is told of, or freed, before it has. */
static void a_close_ends_before_what_hangs(void **state) {
    static const sluice_file_writer_events events = {.size = sizeof events, .on_closed = file_left};
    held_rig held;
    unsigned closed = 0;
    held_open(&held, state);
    sluice_file_writer *writer;
    assert_int_equal(sluice_file_writer_new(held.rig.loop, -1, NULL, &events, &closed, &writer), 0);
    assert_int_equal(sluice_file_writer_run(writer, wait_and_open, &held), 0);
    assert_int_equal(sluice_loop_turn(held.rig.loop, 0), 0);
    sem_wait(&held.begun);
    assert_int_equal(sluice_loop_close_within(NULL, 0), -EINVAL);
    assert_int_equal(sluice_loop_close_within(held.rig.loop, 0), -ETIMEDOUT);
    assert_int_equal(sluice_loop_close_within(held.rig.loop, 30), -ETIMEDOUT);
    assert_int_equal(held.holder.done + held.count + closed, 0);
    sem_post(&held.may_end);
    sem_post(&held.may_end);
    assert_int_equal(sluice_loop_close_within(held.rig.loop, -1), 0);
    assert_int_equal(held.holder.done, 1);
    assert_int_equal(held.count, JOBS);
    assert_int_equal(closed, 1);
    held_close(&held);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FILES_ON_BOTH(work_is_done_elsewhere_and_told_here), FILES_ON_BOTH(cancelled_work_is_not_begun),
        FILES_ON_BOTH(work_that_has_begun_goes_on),          FILES_ON_BOTH(work_that_is_over_is_not_cancelled),
        FILES_ON_BOTH(work_is_cancelled_by_anothers_done),   FILES_ON_BOTH(a_loop_is_freed_with_work_waiting),
        FILES_ON_BOTH(a_host_is_told_of_what_is_cancelled),  FILES_ON_BOTH(files_do_not_wait_for_work),
        FILES_ON_BOTH(work_without_a_thread_is_cancelled),   FILES_ON_BOTH(a_close_ends_before_what_hangs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
