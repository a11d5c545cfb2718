/* Files that are written on a loop: bytes in order, full and slow disks, closes at any moment. On
 * both backends. */
#include <sluice/file_writer.h>

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "backends/uring.h"
#include "loop/loop.h"
#include "support/files.h"
#include "support/slices.h"

enum { BLOCK = 4096, SEED = 7 };

typedef struct owner {
    sluice_file_writer *writer;
    unsigned progress, errors, closed;
    int error, close_error;
    bool late;
    bool retries; /* whatever fails is tried again */
} owner;

static void owner_progress(sluice_file_writer *writer, void *user) {
    owner *told = user;
    (void)writer;
    told->progress++;
    told->late |= told->closed > 0;
}

static void owner_error(sluice_file_writer *writer, int error, void *user) {
    owner *told = user;
    told->errors++;
    told->error = error;
    told->late |= told->closed > 0;
    if (told->retries)
        sluice_file_writer_retry(writer);
}

static void owner_closed(sluice_file_writer *writer, int error, void *user) {
    owner *told = user;
    (void)writer;
    told->closed++;
    told->close_error = error;
}

static const sluice_file_writer_events events = {
    .size = sizeof events, .on_progress = owner_progress, .on_error = owner_error, .on_closed = owner_closed};

static void open_rig(loop_rig *rig, void **state) {
    static const sluice_pool_options pool = {.size = sizeof pool, .block_size = BLOCK, .no_huge_pages = true};
    files_rig_open(rig, &pool, state);
}

static int open_file(void) {
    int fd = memfd_create("written", MFD_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void start(owner *made, const loop_rig *rig, int fd, const sluice_file_writer_options *options) {
    *made = (owner){0};
    assert_int_equal(sluice_file_writer_new(rig->loop, fd, options, &events, made, &made->writer), 0);
}

static void finish(owner *ending, const loop_rig *rig) {
    sluice_file_writer_finish(ending->writer);
    turn_until_count(rig->loop, &ending->closed, 1);
    assert_false(ending->late);
    assert_int_equal(ending->close_error, 0);
    assert_int_equal(ending->errors, 0);
}

static void close_now(owner *ending, const loop_rig *rig) {
    sluice_file_writer_close(ending->writer);
    turn_until_count(rig->loop, &ending->closed, 1);
    assert_false(ending->late);
    assert_int_equal(ending->close_error, -ECANCELED);
}

/* A slice of pattern bytes in pieces of a random size. */
static sluice_slice make_slice(const loop_rig *rig, uint64_t place, size_t size, size_t piece) {
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    pattern_fill(SEED, place, bytes, size);
    sluice_slice slice = slice_of(rig->pool, bytes, size, piece);
    free(bytes);
    return slice;
}

static int queue(owner *to, const loop_rig *rig, uint64_t place, size_t size, size_t piece) {
    sluice_slice slice = make_slice(rig, place, size, piece);
    int error = sluice_file_writer_slice(to->writer, &slice);
    if (error)
        sluice_slice_release(&slice);
    else
        assert_int_equal(sluice_slice_length(&slice), 0);
    return error;
}

/* The file holds the first @size pattern bytes and nothing else. */
static void check_file(int fd, uint64_t size) {
    struct stat status;
    uint8_t bytes[65536];
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_size, size);
    for (uint64_t at = 0; at < size;) {
        ssize_t n = pread(fd, bytes, sizeof bytes, (off_t)at);
        assert_true(n > 0 && pattern_matches(SEED, at, bytes, (size_t)n));
        at += (uint64_t)n;
    }
}

/* Slices of every make and copied bytes between them, thousands, while the writer is at it. */
static void bytes_of_all_kinds_arrive_in_order(void **state) {
    static const size_t gathers[] = {0, 1, 10000, 1 << 20};
    for (size_t g = 0; g < 4; g++) {
        const sluice_file_writer_options options = {.size = sizeof options, .gather = gathers[g], .limit = 4 << 20};
        loop_rig rig;
        owner to;
        uint64_t seed = 11 + g, place = 0;
        open_rig(&rig, state);
        int fd = open_file();
        start(&to, &rig, dup(fd), &options);
        for (unsigned i = 0; i < 3000; i++) {
            uint8_t small[SLUICE_FILE_WRITER_COPY_MAX];
            size_t size = random_between(&seed, 0, sizeof small);
            pattern_fill(SEED, place, small, size);
            assert_int_equal(sluice_file_writer_copy(to.writer, small, size), 0);
            place += size;
            size = random_between(&seed, 1, i % 100 == 0 ? 400000 : 2000);
            while (sluice_file_writer_room(to.writer) < size)
                turn(rig.loop);
            assert_int_equal(queue(&to, &rig, place, size, random_between(&seed, 1, BLOCK)), 0);
            place += size;
            if (i % 7 == 0)
                turn_through(rig.loop, 1);
        }
        finish(&to, &rig);
        check_file(fd, place);
        close(fd);
        files_rig_close(&rig);
    }
}

/* A slice of more pieces than one call takes, and an empty one. */
static void slices_of_any_number_of_pieces_are_written(void **state) {
    loop_rig rig;
    owner to;
    open_rig(&rig, state);
    int fd = open_file();
    sluice_slice empty = {0};
    start(&to, &rig, dup(fd), NULL);
    assert_int_equal(queue(&to, &rig, 0, 3000, 1), 0);
    assert_int_equal(sluice_file_writer_slice(to.writer, &empty), 0);
    assert_int_equal(queue(&to, &rig, 3000, 3 << 20, BLOCK), 0);
    finish(&to, &rig);
    check_file(fd, 3000 + (3 << 20));
    close(fd);
    files_rig_close(&rig);
}

static void bytes_go_where_they_are_told_to(void **state) {
    const sluice_file_writer_options options = {.size = sizeof options, .offset = 1000};
    loop_rig rig;
    owner to;
    open_rig(&rig, state);
    int fd = open_file();
    start(&to, &rig, dup(fd), &options);
    assert_int_equal(queue(&to, &rig, 1000, 5000, 0), 0);
    assert_int_equal(sluice_file_writer_seek(to.writer, 0), 0);
    assert_int_equal(queue(&to, &rig, 0, 600, 0), 0);
    assert_int_equal(queue(&to, &rig, 600, 400, 0), 0);
    assert_int_equal(sluice_file_writer_seek(to.writer, 6000), 0);
    assert_int_equal(queue(&to, &rig, 6000, 1, 0), 0);
    assert_int_equal(sluice_file_writer_seek(to.writer, INT64_MAX), -EINVAL);
    finish(&to, &rig);
    check_file(fd, 6001);
    close(fd);
    files_rig_close(&rig);
}

/* What is gathered waits for a flush, however often the loop turns. */
static void gathered_bytes_wait_to_be_flushed(void **state) {
    const sluice_file_writer_options options = {.size = sizeof options, .gather = 10000};
    loop_rig rig;
    owner to;
    open_rig(&rig, state);
    int fd = open_file();
    start(&to, &rig, dup(fd), &options);
    assert_int_equal(queue(&to, &rig, 0, 9999, 0), 0);
    files_settle(&rig);
    check_file(fd, 0);
    assert_int_equal(to.progress, 0);
    sluice_file_writer_flush(to.writer);
    while (sluice_file_writer_queued(to.writer) > 0)
        turn(rig.loop);
    check_file(fd, 9999);
    assert_int_equal(queue(&to, &rig, 9999, 5000, 0), 0);
    files_settle(&rig);
    check_file(fd, 9999);
    assert_int_equal(queue(&to, &rig, 14999, 5000, 0), 0);
    while (sluice_file_writer_queued(to.writer) > 0)
        turn(rig.loop);
    check_file(fd, 19999);
    finish(&to, &rig);
    close(fd);
    files_rig_close(&rig);
}

static void the_queue_is_bounded(void **state) {
    const sluice_file_writer_options options = {.size = sizeof options, .limit = 10000, .gather = 1 << 20};
    loop_rig rig;
    owner to;
    open_rig(&rig, state);
    int fd = open_file();
    start(&to, &rig, dup(fd), &options);
    assert_int_equal(sluice_file_writer_room(to.writer), 10000);
    assert_int_equal(queue(&to, &rig, 0, 10001, 0), -EMSGSIZE);
    assert_int_equal(queue(&to, &rig, 0, 4000, 0), 0);
    assert_int_equal(queue(&to, &rig, 4000, 6001, 0), -EAGAIN);
    assert_int_equal(sluice_file_writer_copy(to.writer, "", SLUICE_FILE_WRITER_COPY_MAX + 1), -EMSGSIZE);
    assert_int_equal(sluice_file_writer_queued(to.writer), 4000);
    assert_int_equal(queue(&to, &rig, 4000, 6000, 0), 0);
    assert_int_equal(sluice_file_writer_room(to.writer), 0);
    turn_until_count(rig.loop, &to.progress, 1);
    assert_int_equal(sluice_file_writer_room(to.writer), 10000);
    finish(&to, &rig);
    check_file(fd, 10000);
    close(fd);
    files_rig_close(&rig);
}

/* Opening, syncing, renaming and closing follow the bytes. */
typedef struct opening {
    int directory;
    unsigned fails; /* so many times */
    unsigned calls;
    pthread_t on;
} opening;

static int open_part(int fd, void *user) {
    opening *opens = user;
    assert_int_equal(fd, -1);
    opens->calls++;
    opens->on = pthread_self();
    if (opens->fails > 0) {
        opens->fails--;
        return -ENOSPC;
    }
    return openat(opens->directory, "part", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

static int count_bytes(int fd, void *user) {
    struct stat status;
    if (fstat(fd, &status) < 0)
        return -errno;
    *(uint64_t *)user = (uint64_t)status.st_size;
    return 0;
}

typedef struct folder {
    char name[32];
    int fd;
} folder;

static void folder_open(folder *made) {
    strcpy(made->name, "/tmp/sluice-test-XXXXXX");
    assert_non_null(mkdtemp(made->name));
    made->fd = open(made->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(made->fd >= 0);
}

static void folder_close(folder *ending) {
    unlinkat(ending->fd, "part", 0);
    unlinkat(ending->fd, "whole", 0);
    close(ending->fd);
    assert_int_equal(rmdir(ending->name), 0);
}

static void a_file_is_opened_synced_and_renamed_in_order(void **state) {
    loop_rig rig;
    owner to;
    folder in;
    uint64_t seen = 0;
    open_rig(&rig, state);
    folder_open(&in);
    opening opens = {.directory = in.fd, .fails = 2};
    start(&to, &rig, -1, NULL);
    to.retries = true;
    assert_int_equal(sluice_file_writer_run(to.writer, open_part, &opens), 0);
    assert_int_equal(queue(&to, &rig, 0, 50000, 0), 0);
    assert_int_equal(sluice_file_writer_run(to.writer, count_bytes, &seen), 0);
    assert_int_equal(queue(&to, &rig, 50000, 50000, 0), 0);
    assert_int_equal(sluice_file_writer_sync(to.writer), 0);
    assert_int_equal(sluice_file_writer_rename(to.writer, in.fd, "part", "whole"), 0);
    sluice_file_writer_finish(to.writer);
    assert_int_equal(sluice_file_writer_copy(to.writer, "x", 1), -EPIPE);
    assert_int_equal(sluice_file_writer_room(to.writer), 0);
    turn_until_count(rig.loop, &to.closed, 1);
    assert_int_equal(to.close_error, 0);
    assert_int_equal(to.errors, 2);
    assert_int_equal(to.error, -ENOSPC);
    assert_int_equal(opens.calls, 3);
    assert_false(pthread_equal(opens.on, pthread_self()));
    assert_int_equal(seen, 50000);
    int fd = openat(in.fd, "whole", O_RDONLY);
    assert_true(fd >= 0);
    check_file(fd, 100000);
    close(fd);
    assert_int_equal(faccessat(in.fd, "part", F_OK, 0), -1);
    folder_close(&in);
    files_rig_close(&rig);
}

static void renaming_replaces_nothing(void **state) {
    loop_rig rig;
    owner to;
    folder in;
    open_rig(&rig, state);
    folder_open(&in);
    close(openat(in.fd, "whole", O_WRONLY | O_CREAT, 0600));
    opening opens = {.directory = in.fd};
    start(&to, &rig, -1, NULL);
    assert_int_equal(sluice_file_writer_run(to.writer, open_part, &opens), 0);
    assert_int_equal(sluice_file_writer_rename(to.writer, in.fd, "part", "whole"), 0);
    sluice_file_writer_finish(to.writer);
    turn_until_count(rig.loop, &to.errors, 1);
    assert_int_equal(to.error, -EEXIST);
    assert_int_equal(unlinkat(in.fd, "whole", 0), 0);
    sluice_file_writer_retry(to.writer);
    turn_until_count(rig.loop, &to.closed, 1);
    assert_int_equal(to.close_error, 0);
    assert_int_equal(faccessat(in.fd, "whole", F_OK, 0), 0);
    folder_close(&in);
    files_rig_close(&rig);
}

/* /dev/full has room for nothing; what was queued stays, and nothing is tried before the owner
 * wants it. */
static void a_full_disk_is_told_and_keeps_the_queue(void **state) {
    loop_rig rig;
    owner to;
    open_rig(&rig, state);
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    start(&to, &rig, fd, NULL);
    assert_int_equal(queue(&to, &rig, 0, 20000, 0), 0);
    for (unsigned i = 1; i <= 3; i++) {
        turn_until_count(rig.loop, &to.errors, i);
        assert_int_equal(to.error, -ENOSPC);
        assert_int_equal(queue(&to, &rig, 0, 10, 0), 0);
        files_settle(&rig);
        assert_int_equal(to.errors, i);
        assert_int_equal(sluice_file_writer_queued(to.writer), 20000 + 10 * i);
        assert_int_equal(sluice_file_writer_offset(to.writer), 0);
        sluice_file_writer_retry(to.writer);
    }
    close_now(&to, &rig);
    files_rig_close(&rig);
}

/* A file may grow to a place in the middle of a write: what fits is written, the rest when there is
 * room again. */
static void writing_goes_on_when_there_is_room_again(void **state) {
    const struct rlimit little = {.rlim_cur = 30001, .rlim_max = RLIM_INFINITY};
    struct rlimit before;
    loop_rig rig;
    owner to;
    open_rig(&rig, state);
    int fd = open_file();
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    start(&to, &rig, dup(fd), NULL);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(queue(&to, &rig, i * 5000, 5000, 1000), 0);
    turn_until_count(rig.loop, &to.errors, 1);
    assert_int_equal(to.error, -EFBIG);
    assert_int_equal(sluice_file_writer_offset(to.writer), 30001);
    assert_int_equal(sluice_file_writer_queued(to.writer), 50000 - 30001);
    check_file(fd, 30001);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    sluice_file_writer_retry(to.writer);
    to.errors = 0;
    finish(&to, &rig);
    check_file(fd, 50000);
    close(fd);
    files_rig_close(&rig);
}

/* Without anybody to tell, an error closes. */
static void an_error_that_nobody_hears_closes(void **state) {
    static const sluice_file_writer_events deaf = {.size = sizeof deaf, .on_closed = owner_closed};
    loop_rig rig;
    owner to = {0};
    open_rig(&rig, state);
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_int_equal(sluice_file_writer_new(rig.loop, fd, NULL, &deaf, &to, &to.writer), 0);
    assert_int_equal(queue(&to, &rig, 0, 20000, 0), 0);
    turn_until_count(rig.loop, &to.closed, 1);
    assert_int_equal(to.close_error, -ECANCELED);
    assert_int_equal(sluice_file_writer_new(rig.loop, 12345, NULL, &deaf, &to, &to.writer), -EBADF);
    files_rig_close(&rig);
}

/* A pipe is a disk that is as slow as we like: it takes what is read from it. Reads what is there,
 * up to @n bytes. */
static void read_pipe(int fd, uint64_t *place, size_t n) {
    uint8_t bytes[4096];
    ssize_t got = read(fd, bytes, n < sizeof bytes ? n : sizeof bytes);
    if (got < 0 && errno == EAGAIN)
        return;
    assert_true(got > 0 && pattern_matches(SEED, *place, bytes, (size_t)got));
    *place += (uint64_t)got;
}

static void a_slow_disk_holds_up_nobody(void **state) {
    const sluice_file_writer_options options = {.size = sizeof options, .limit = 1 << 20};
    loop_rig rig;
    owner to;
    int pipes[2];
    open_rig(&rig, state);
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    int capacity = fcntl(pipes[1], F_GETPIPE_SZ);
    sockets_set_blocking(pipes[0], false);
    start(&to, &rig, pipes[1], &options);
    uint64_t queued = 0, read = 0;
    while (queue(&to, &rig, queued, 10000, 0) == 0)
        queued += 10000;
    assert_int_equal(queued, (1 << 20) / 10000 * 10000);
    /* Turns come and go while the write waits. */
    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(sluice_loop_turn(rig.loop, 1), 0);
    assert_true(sluice_file_writer_queued(to.writer) >= queued - (uint64_t)capacity);
    assert_int_equal(to.errors, 0);
    /* What the pipe has taken, another process may read while the rest still waits. */
    read_pipe(pipes[0], &read, 1000);
    sluice_file_writer_finish(to.writer);
    while (read < queued) {
        read_pipe(pipes[0], &read, queued - read);
        assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
    }
    turn_until_count(rig.loop, &to.closed, 1);
    assert_int_equal(to.close_error, 0);
    close(pipes[0]);
    files_rig_close(&rig);
}

/* A close while the kernel has blocks in its hands: they come back when it has let go, and not
 * before. */
static void a_close_waits_for_what_is_under_way(void **state) {
    loop_rig rig;
    owner to;
    int pipes[2];
    open_rig(&rig, state);
    assert_true(sluice_loop_fd(rig.loop) >= 0);
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    start(&to, &rig, pipes[1], NULL);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(queue(&to, &rig, i * 10000, 10000, 0), 0);
    turn_through(rig.loop, 3);
    sluice_file_writer_close(to.writer);
    sluice_file_writer_close(to.writer);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(sluice_loop_turn(rig.loop, 1), 0);
    assert_int_equal(to.closed, 0);
    assert_true(files_held(&rig) > 0);
    /* Until then the loop has nothing to do, and no turn is made for nothing. */
    assert_int_equal(sluice_loop_timeout(rig.loop), -1);
    close(pipes[0]);
    turn_until_count(rig.loop, &to.closed, 1);
    assert_int_equal(to.close_error, -ECANCELED);
    files_rig_close(&rig);
}

/* A pipe whose reader has gone: that is an error, and no signal, however the ring works. */

static volatile sig_atomic_t sigpipes;

static void count_sigpipe(int number) {
    (void)number;
    sigpipes++;
}

/* The reader goes before anything is written, or while a write waits for it. */
static void write_to_nobody(void **state, bool waits, bool deferred) {
    struct sigaction action = {.sa_handler = count_sigpipe}, before_action;
    sigset_t before, after, pending;
    loop_rig rig;
    owner to;
    int pipes[2];
    open_rig(&rig, state);
    assert_int_equal(sigaction(SIGPIPE, &action, &before_action), 0);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &before), 0);
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    if (loop_rig_is_uring(&rig) && !deferred)
        ((uring *)rig.loop->backend)->deferred = false;
    start(&to, &rig, pipes[1], NULL);
    assert_int_equal(queue(&to, &rig, 0, 1 << 20, 0), 0);
    if (waits)
        turn_through(rig.loop, 5);
    assert_int_equal(to.errors, 0);
    close(pipes[0]);
    turn_until_count(rig.loop, &to.errors, 1);
    assert_int_equal(to.error, -EPIPE);
    close_now(&to, &rig);
    files_rig_close(&rig);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    assert_int_equal(sigismember(&after, SIGPIPE), sigismember(&before, SIGPIPE));
    assert_int_equal(sigpending(&pending), 0);
    assert_int_equal(sigismember(&pending, SIGPIPE), 0);
    assert_int_equal(sigpipes, 0);
    assert_int_equal(sigaction(SIGPIPE, &before_action, NULL), 0);
}

static void a_reader_that_goes_raises_no_signal(void **state) {
    for (int waits = 0; waits < 2; waits++)
        for (int deferred = 0; deferred < 2; deferred++)
            write_to_nobody(state, waits, deferred);
}

/* The program's own setting: a signal that waits stays, and so does one that it has blocked. */
static void a_signal_of_the_program_is_left_to_it(void **state) {
    sigset_t set, before, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &set, &before), 0);
    assert_int_equal(pthread_kill(pthread_self(), SIGPIPE), 0);
    loop_rig rig;
    owner to;
    int pipes[2], number;
    open_rig(&rig, state);
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    start(&to, &rig, pipes[1], NULL);
    assert_int_equal(queue(&to, &rig, 0, 1000, 0), 0);
    close(pipes[0]);
    turn_until_count(rig.loop, &to.errors, 1);
    close_now(&to, &rig);
    files_rig_close(&rig);
    assert_int_equal(sigpending(&pending), 0);
    assert_int_equal(sigismember(&pending, SIGPIPE), 1);
    assert_int_equal(sigwait(&set, &number), 0);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
}

/* Closed at every step of its life, and freed with the loop. */
static void it_may_be_closed_at_any_time(void **state) {
    for (unsigned turns = 0; turns < 16; turns++) {
        for (unsigned by_loop = 0; by_loop < 2; by_loop++) {
            loop_rig rig;
            owner to;
            folder in;
            open_rig(&rig, state);
            folder_open(&in);
            opening opens = {.directory = in.fd};
            start(&to, &rig, -1, NULL);
            assert_int_equal(sluice_file_writer_run(to.writer, open_part, &opens), 0);
            assert_int_equal(queue(&to, &rig, 0, 3 << 20, 0), 0);
            assert_int_equal(sluice_file_writer_sync(to.writer), 0);
            assert_int_equal(sluice_file_writer_rename(to.writer, in.fd, "part", "whole"), 0);
            sluice_file_writer_finish(to.writer);
            turn_through(rig.loop, turns);
            if (!by_loop && !to.closed)
                sluice_file_writer_close(to.writer);
            files_rig_close(&rig);
            assert_int_equal(to.closed, 1);
            assert_false(to.late);
            folder_close(&in);
        }
    }
}

/* Many files at once, each with its own bytes. */
static void files_do_not_wait_for_each_other(void **state) {
    enum { FILES = 20 };
    loop_rig rig;
    owner to[FILES];
    int fds[FILES];
    open_rig(&rig, state);
    for (unsigned i = 0; i < FILES; i++) {
        fds[i] = open_file();
        start(&to[i], &rig, dup(fds[i]), NULL);
    }
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < FILES; i++)
            assert_int_equal(queue(&to[i], &rig, round * 5000, 5000, 0), 0);
        turn_through(rig.loop, 1);
    }
    for (unsigned i = 0; i < FILES; i++) {
        finish(&to[i], &rig);
        check_file(fds[i], 100000);
        close(fds[i]);
    }
    files_rig_close(&rig);
}

/* Stands between the loop and its backend: the first write is interrupted when the test says so. */
static struct {
    const struct backend_operations *real;
    struct backend_operations operations;
    io_call *held;
    bool was_tried_again;
} interrupting;

/* What the heap has free is used for something else. */
static void use_free_memory(void) {
    enum { SIZES = 1000, STEP = 16 };
    void *memory[SIZES];
    for (size_t i = 0; i < SIZES; i++) {
        memory[i] = malloc((i + 1) * STEP);
        assert_non_null(memory[i]);
        memset(memory[i], 0xff, (i + 1) * STEP);
    }
    for (size_t i = 0; i < SIZES; i++)
        free(memory[i]);
}

static bool interrupted_call(sluice_backend *backend, io_call *call) {
    if (!interrupting.held) {
        interrupting.held = call;
        call->io->operations++;
        return true;
    }
    if (!interrupting.was_tried_again)
        use_free_memory();
    interrupting.was_tried_again = true;
    return interrupting.real->call(backend, call);
}

/* The bytes that were copied lie in the queue, which has grown meanwhile. */
static void an_interrupted_write_is_tried_again_with_the_same_bytes(void **state) {
    enum { ITEMS = 100, SMALL = 8, LARGE = 32 };
    loop_rig rig;
    owner to;
    uint64_t place = 0;
    open_rig(&rig, state);
    interrupting.real = rig.loop->backend->operations;
    interrupting.operations = *interrupting.real;
    interrupting.operations.call = interrupted_call;
    interrupting.held = NULL;
    interrupting.was_tried_again = false;
    rig.loop->backend->operations = &interrupting.operations;
    int fd = open_file();
    start(&to, &rig, dup(fd), NULL);
    for (unsigned i = 0; i < ITEMS; i++) {
        uint8_t small[SMALL];
        pattern_fill(SEED, place, small, sizeof small);
        assert_int_equal(sluice_file_writer_copy(to.writer, small, sizeof small), 0);
        assert_int_equal(queue(&to, &rig, place + SMALL, LARGE, BLOCK), 0);
        place += SMALL + LARGE;
        if (i == 2)
            turn_through(rig.loop, 1);
    }
    assert_non_null(interrupting.held);
    interrupting.held->io->operations--;
    interrupting.held->io->events->call_done(interrupting.held->io, interrupting.held, -EINTR);
    assert_true(interrupting.was_tried_again);
    finish(&to, &rig);
    check_file(fd, place);
    close(fd);
    files_rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FILES_ON_BOTH(bytes_of_all_kinds_arrive_in_order),
        FILES_ON_BOTH(slices_of_any_number_of_pieces_are_written),
        FILES_ON_BOTH(bytes_go_where_they_are_told_to),
        FILES_ON_BOTH(gathered_bytes_wait_to_be_flushed),
        FILES_ON_BOTH(the_queue_is_bounded),
        FILES_ON_BOTH(a_file_is_opened_synced_and_renamed_in_order),
        FILES_ON_BOTH(renaming_replaces_nothing),
        FILES_ON_BOTH(a_full_disk_is_told_and_keeps_the_queue),
        FILES_ON_BOTH(writing_goes_on_when_there_is_room_again),
        FILES_ON_BOTH(an_error_that_nobody_hears_closes),
        FILES_ON_BOTH(a_slow_disk_holds_up_nobody),
        FILES_ON_BOTH(a_close_waits_for_what_is_under_way),
        FILES_ON_BOTH(a_reader_that_goes_raises_no_signal),
        FILES_ON_BOTH(a_signal_of_the_program_is_left_to_it),
        FILES_ON_BOTH(it_may_be_closed_at_any_time),
        FILES_ON_BOTH(an_interrupted_write_is_tried_again_with_the_same_bytes),
        FILES_ON_BOTH(files_do_not_wait_for_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
