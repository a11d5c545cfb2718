/* Files whose reads come back late, out of order, short or with an error, and files that change. On
 * both backends. */
#include <sluice/file.h>

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/conn.h>
#include <sluice/reader.h>

#include "loop/loop.h"
#include "support/files.h"

enum { BLOCK = 4096, READ = 65536, WINDOW = 256 << 10 };

/* Stands between the loop and its backend, and does to reads what disks do to them. */
typedef struct meddler {
    const struct backend_operations *real;
    struct backend_operations operations;
    const struct io_events *real_events;
    struct io_events events;
    bool holds;        /* reads wait for pass() */
    uint32_t piece;    /* no read gets more than so many bytes; 0: as many as it asks for */
    unsigned refused;  /* so many reads find no room to be submitted */
    unsigned asked;    /* reads so far */
    unsigned done;     /* that came back */
    unsigned fails_at; /* the read with this number, from 1, fails */
    int error;         /* with this */
    io_read *held[16];
    size_t held_count;
    struct {
        io_read *read;
        uint32_t length;
        unsigned number;
    } shortened[16];
} meddler;

static meddler m;

static void meddled_done(sluice_io *io, io_read *read, int result) {
    m.done++;
    for (size_t i = 0; i < 16; i++) {
        if (m.shortened[i].read != read)
            continue;
        m.shortened[i].read = NULL;
        read->length = m.shortened[i].length;
        if (m.shortened[i].number == m.fails_at)
            result = m.error;
    }
    m.real_events->read_done(io, read, result);
}

static void pass_on(sluice_backend *backend, io_read *read) {
    size_t i = 0;
    if (read->io->events != &m.events) {
        m.real_events = read->io->events;
        m.events = *m.real_events;
        m.events.read_done = meddled_done;
        read->io->events = &m.events;
    }
    while (m.shortened[i].read)
        i++;
    m.shortened[i].read = read;
    m.shortened[i].length = read->length;
    m.shortened[i].number = ++m.asked;
    if (m.piece > 0 && read->length - read->filled > m.piece)
        read->length = read->filled + m.piece;
    assert_true(m.real->read(backend, read));
}

static bool meddled_read(sluice_backend *backend, io_read *read) {
    if (m.refused > 0) {
        m.refused--;
        return false;
    }
    if (m.holds) {
        assert_true(m.held_count < 16);
        read->io->operations++;
        m.held[m.held_count++] = read;
    } else {
        pass_on(backend, read);
    }
    return true;
}

static void meddle(const loop_rig *rig) {
    m = (meddler){.real = rig->loop->backend->operations};
    m.operations = *m.real;
    m.operations.read = meddled_read;
    rig->loop->backend->operations = &m.operations;
}

/* The held read with this place in the order of asking goes to the backend. */
static void let_go(const loop_rig *rig, size_t place) {
    io_read *read = m.held[place];
    assert_true(place < m.held_count);
    memmove(&m.held[place], &m.held[place + 1], (--m.held_count - place) * sizeof *m.held);
    read->io->operations--;
    pass_on(rig->loop->backend, read);
}

/* And comes back. */
static void pass(const loop_rig *rig, size_t place) {
    unsigned done = m.done;
    bool cancelled = m.held[place]->io->cancelled;
    let_go(rig, place);
    while (m.done == done && !cancelled)
        turn_through(rig->loop, 1);
}

static void meddled_open(loop_rig *rig, void **state) {
    static const sluice_pool_options pool = {.size = sizeof pool, .block_size = BLOCK, .no_huge_pages = true};
    files_rig_open(rig, &pool, state);
    meddle(rig);
}

static void hold_first_reads(const loop_rig *rig, size_t count) {
    m.holds = true;
    turn_through(rig->loop, 3);
    assert_int_equal(m.held_count, count);
}

/* Order. */

static void reads_that_overtake_others_wait(void **state) {
    loop_rig rig;
    file_consumer c = {.leaves = true};
    meddled_open(&rig, state);
    file_consumer_open(&c, &rig, files_make(WINDOW - 100), NULL);
    hold_first_reads(&rig, 4);
    pass(&rig, 3);
    pass(&rig, 1);
    turn_through(rig.loop, 3);
    assert_int_equal(file_buffered(&c), 0);
    assert_int_equal(c.data + c.ends, 0);
    assert_int_equal(sluice_file_offset(c.file), 0);
    pass(&rig, 0);
    assert_int_equal(file_buffered(&c), 2 * READ);
    assert_int_equal(c.ends, 0);
    assert_int_equal(sluice_file_offset(c.file), 0);
    /* The last one has known of the end for long. */
    pass(&rig, 0);
    turn_until(rig.loop, &c.told_end);
    file_consume(&c, file_buffered(&c));
    assert_int_equal(c.place, WINDOW - 100);
    assert_false(c.differs);
    files_rig_close(&rig);
}

/* Whatever becomes of a read, its blocks are the file's until they are back in the pool. */
static void what_a_file_keeps_is_known(void **state) {
    loop_rig rig;
    file_consumer c = {.leaves = true};
    meddled_open(&rig, state);
    file_consumer_open(&c, &rig, files_make(WINDOW - 100), NULL);
    assert_int_equal(sluice_file_footprint(c.file), 0);
    hold_first_reads(&rig, 4);
    assert_int_equal(sluice_file_footprint(c.file), WINDOW);
    /* Done, and behind others that are not. */
    pass(&rig, 2);
    assert_int_equal(file_buffered(&c), 0);
    assert_int_equal(sluice_file_footprint(c.file), WINDOW);
    pass(&rig, 0);
    assert_int_equal(file_buffered(&c), READ);
    assert_int_equal(sluice_file_footprint(c.file), WINDOW);
    /* Whole blocks, as long as a byte of them is there. */
    file_consume(&c, BLOCK + 1);
    assert_int_equal(sluice_file_footprint(c.file), WINDOW - BLOCK);
    assert_int_equal(files_held(&rig), (WINDOW - BLOCK) / BLOCK);
    /* Nobody wants them any more. */
    assert_int_equal(sluice_file_seek(c.file, WINDOW - 200, 0), 0);
    assert_int_equal(sluice_file_footprint(c.file), WINDOW - READ);
    turn_through(rig.loop, 3);
    assert_int_equal(m.held_count, 3);
    assert_int_equal(sluice_file_footprint(c.file), WINDOW - READ + BLOCK);
    assert_int_equal(files_held(&rig), (WINDOW - READ + BLOCK) / BLOCK);
    pass(&rig, 0);
    assert_int_equal(sluice_file_footprint(c.file), READ + BLOCK);
    pass(&rig, 0);
    pass(&rig, 0);
    turn_until(rig.loop, &c.told_end);
    assert_int_equal(file_buffered(&c), 100);
    assert_int_equal(sluice_file_footprint(c.file), BLOCK);
    sluice_chain_skip(sluice_file_chain(c.file), 100);
    assert_int_equal(sluice_file_footprint(c.file), 0);
    files_rig_close(&rig);
}

static void any_order_gives_the_same_bytes(void **state) {
    loop_rig rig;
    file_consumer c = {0};
    uint64_t random = 5;
    meddled_open(&rig, state);
    m.holds = true;
    file_consumer_open(&c, &rig, files_make(5 << 20),
                       &(sluice_file_options){.size = sizeof(sluice_file_options), .read_ahead = 1 << 20});
    while (!c.told_end) {
        turn_through(rig.loop, 1);
        assert_true(m.held_count <= 8);
        m.piece = random_between(&random, 0, 1) ? random_between(&random, 1, READ) : 0;
        if (m.held_count > 0)
            pass(&rig, random_between(&random, 0, (uint32_t)m.held_count - 1));
    }
    assert_int_equal(c.place, 5 << 20);
    assert_int_equal(c.error, 0);
    assert_false(c.differs);
    files_rig_close(&rig);
}

/* Each read comes back with a little only, and is asked for the rest. */
static void short_reads_go_on(void **state) {
    static const uint32_t pieces[] = {1, 511, 4095, 4096, 4097, 30000};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        loop_rig rig;
        file_consumer c = {0};
        uint64_t size = pieces[i] == 1 ? 3000 : 300000;
        meddled_open(&rig, state);
        m.piece = pieces[i];
        file_consumer_open(&c, &rig, files_make(size), NULL);
        turn_until(rig.loop, &c.told_end);
        assert_true(m.asked >= size / pieces[i]);
        assert_int_equal(c.place, size);
        assert_int_equal(c.error, 0);
        assert_false(c.differs);
        files_rig_close(&rig);
    }
}

static void reads_without_room_to_submit_are_repeated(void **state) {
    loop_rig rig;
    file_consumer c = {0};
    meddled_open(&rig, state);
    m.refused = 7;
    m.piece = 20000;
    file_consumer_open(&c, &rig, files_make(500000), NULL);
    for (unsigned asked = 0; !c.told_end; asked = m.asked) {
        m.refused += m.asked != asked;
        turn(rig.loop);
    }
    assert_int_equal(c.place, 500000);
    assert_false(c.differs);
    files_rig_close(&rig);
}

/* Errors. */

static void what_cannot_be_read_is_refused(void **state) {
    loop_rig rig;
    file_consumer c = {0};
    sluice_file *const untouched = (sluice_file *)(void *)&c;
    sluice_file *file = untouched;
    int fds[2];
    files_rig_open(&rig, NULL, state);
    assert_int_equal(sluice_file_new(rig.loop, -1, NULL, NULL, NULL, &file), -EBADF);
    int fd = open("/tmp", O_RDONLY | O_CLOEXEC);
    assert_int_equal(sluice_file_new(rig.loop, fd, NULL, NULL, NULL, &file), -EISDIR);
    assert_int_equal(close(fd), 0);
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(sluice_file_new(rig.loop, fds[0], NULL, NULL, NULL, &file), -ESPIPE);
    close(fds[0]);
    close(fds[1]);
    sockets_unix_pair(fds);
    assert_int_equal(sluice_file_new(rig.loop, fds[0], NULL, NULL, NULL, &file), -ESPIPE);
    close(fds[0]);
    close(fds[1]);
    fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(sluice_file_new(rig.loop, fd, NULL, NULL, NULL, &file), -ESPIPE);
    close(fd);
    fd = files_make(1);
    assert_int_equal(sluice_file_new(rig.loop, fd,
                                     &(sluice_file_options){.size = sizeof(sluice_file_options), .offset = INT64_MAX},
                                     NULL, NULL, &file),
                     -EINVAL);
    assert_ptr_equal(file, untouched);

    /* It is still the caller's; afterwards it is the file's. */
    assert_int_equal(sluice_file_new(rig.loop, fd, NULL, NULL, NULL, &file), 0);
    assert_int_equal(sluice_file_fd(file), fd);
    assert_ptr_equal(sluice_file_loop(file), rig.loop);
    sluice_file_close(file);
    sluice_file_close(NULL);
    files_rig_close(&rig);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void a_descriptor_that_only_writes_fails(void **state) {
    loop_rig rig;
    file_consumer c = {0};
    char name[32];
    int fd = files_make(100);
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    int writer = open(name, O_WRONLY | O_CLOEXEC);
    assert_true(writer >= 0);
    close(fd);
    files_rig_open(&rig, NULL, state);
    file_consumer_open(&c, &rig, writer, NULL);
    turn_until(rig.loop, &c.told_end);
    assert_int_equal(c.error, -EBADF);
    assert_int_equal(c.data, 0);
    turn_through(rig.loop, 5);
    assert_int_equal(c.ends, 1);
    assert_int_equal(sluice_file_fill(c.file, 1, UINT64_MAX), -EBADF);
    files_rig_close(&rig);
}

/* The process's own memory as a file: of a mapping, what lies beyond the end of the mapped file
 * cannot be read. */
static void bytes_before_an_error_are_delivered(void **state) {
    enum { PAGE_MOST = 64 << 10, MAPPED = 5 * PAGE_MOST };
    loop_rig rig;
    int mapped = files_make(MAPPED);
    uint8_t *memory = mmap(NULL, MAPPED + PAGE_MOST, PROT_READ | PROT_WRITE, MAP_SHARED, mapped, 0);
    assert_true(memory != MAP_FAILED);
    close(mapped);
    uint64_t place = (uint64_t)(uintptr_t)memory + 100;
    file_consumer c = {0};
    pattern_fill(FILES_SEED, place, memory + 100, MAPPED - 100);
    int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    files_rig_open(&rig, NULL, state);
    file_consumer_open(&c, &rig, fd, &(sluice_file_options){.size = sizeof(sluice_file_options), .offset = place});
    turn_until(rig.loop, &c.told_end);
    assert_int_equal(c.error, -EIO);
    assert_int_equal(c.place - place, MAPPED - 100);
    assert_false(c.differs);
    files_rig_close(&rig);
    munmap(memory, MAPPED + PAGE_MOST);
}

static void an_error_ends_it_at_its_place(void **state) {
    loop_rig rig;
    file_consumer c = {.leaves = true};
    meddled_open(&rig, state);
    m.fails_at = 2;
    m.error = -EIO;
    int fd = files_make(1 << 20);
    file_consumer_open(&c, &rig, fd, NULL);
    turn_until(rig.loop, &c.told_end);
    assert_int_equal(c.error, -EIO);
    /* What was read behind that place is dropped. */
    assert_int_equal(file_buffered(&c), READ);
    turn_through(rig.loop, 5);
    assert_int_equal(files_held(&rig), READ / BLOCK);
    assert_int_equal(sluice_file_fill(c.file, READ + 1, UINT64_MAX), -EIO);
    file_consume(&c, READ);
    assert_int_equal(sluice_file_offset(c.file), READ);
    assert_int_equal(c.ends, 1);

    /* It may be tried again. */
    c.leaves = c.told_end = false;
    assert_int_equal(sluice_file_seek(c.file, READ, 0), 0);
    turn_until(rig.loop, &c.told_end);
    assert_int_equal(c.error, 0);
    assert_int_equal(c.place, 1 << 20);
    assert_false(c.differs);
    files_rig_close(&rig);
}

static void an_interrupted_read_is_repeated(void **state) {
    loop_rig rig;
    file_consumer c = {0};
    meddled_open(&rig, state);
    m.fails_at = 3;
    m.error = -EINTR;
    file_consumer_open(&c, &rig, files_make(1 << 20), NULL);
    turn_until(rig.loop, &c.told_end);
    assert_int_equal(c.error, 0);
    assert_int_equal(c.place, 1 << 20);
    assert_false(c.differs);
    files_rig_close(&rig);
}

/* Files that change. */

static void a_file_that_is_cut_off_ends_early(void **state) {
    static const uint64_t ends[] = {0, 1, READ - 1, READ, 100000, 3 * READ + 5};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        loop_rig rig;
        file_consumer c = {0};
        int fd = files_make(1 << 20);
        meddled_open(&rig, state);
        file_consumer_open(&c, &rig, fd, NULL);
        hold_first_reads(&rig, 4);
        assert_int_equal(ftruncate(fd, (off_t)ends[i]), 0);
        /* From the back: what is behind the end finds nothing before the end is found. */
        while (m.held_count > 0)
            pass(&rig, m.held_count - 1);
        m.holds = false;
        turn_until(rig.loop, &c.told_end);
        assert_int_equal(c.error, 0);
        assert_int_equal(c.place, ends[i]);
        assert_false(c.differs);
        files_rig_close(&rig);
    }
}

static void a_file_that_grows_is_read_to_its_new_end(void **state) {
    static const uint64_t more[] = {1, 5000, 1 << 20};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        loop_rig rig;
        file_consumer c = {0};
        uint8_t *bytes = malloc(more[i]);
        int fd = files_make(100000);
        assert_non_null(bytes);
        meddled_open(&rig, state);
        file_consumer_open(&c, &rig, fd, NULL);
        hold_first_reads(&rig, 2);
        pattern_fill(FILES_SEED, 100000, bytes, more[i]);
        assert_int_equal(pwrite(fd, bytes, more[i], 100000), more[i]);
        m.holds = false;
        pass(&rig, 1);
        pass(&rig, 0);
        turn_until(rig.loop, &c.told_end);
        assert_int_equal(c.error, 0);
        assert_int_equal(c.place, 100000 + more[i]);
        assert_false(c.differs);
        /* That was the end: what comes later does not count. */
        assert_int_equal(pwrite(fd, "x", 1, (off_t)(100000 + more[i])), 1);
        turn_through(rig.loop, 5);
        assert_int_equal(c.ends, 1);
        assert_int_equal(c.place, 100000 + more[i]);
        free(bytes);
        files_rig_close(&rig);
    }
}

/* Leaving. */

static void close_in_data(sluice_file *file, void *user) {
    file_consumer *c = user;
    file_consumer_events.on_data(file, user);
    sluice_file_close(file);
    sluice_file_close(file);
    /* Nothing of this matters any more. */
    sluice_file_set_need(file, 5);
    assert_int_equal(sluice_file_seek(file, 0, 0), -EBADF);
    assert_int_equal(c->closed, 0);
}

static void a_close_waits_for_the_kernel(void **state) {
    loop_rig rig;
    file_consumer c = {.leaves = true};
    meddled_open(&rig, state);
    file_consumer_open(&c, &rig, files_make(1 << 20), NULL);
    hold_first_reads(&rig, 4);
    pass(&rig, 2);
    pass(&rig, 0);
    assert_int_equal(file_buffered(&c), READ);
    unsigned data = c.data;
    sluice_file_close(c.file);
    turn_through(rig.loop, 5);
    assert_int_equal(c.closed, 0);
    assert_true(files_held(&rig) >= 2 * READ / BLOCK);
    pass(&rig, 0);
    turn_through(rig.loop, 5);
    assert_int_equal(c.closed, 0);
    while (m.held_count > 0)
        pass(&rig, 0);
    turn_until_count(rig.loop, &c.closed, 1);
    assert_int_equal(files_held(&rig), 0);
    assert_int_equal(c.data, data);
    assert_int_equal(c.ends, 0);
    files_rig_close(&rig);
}

static void any_moment_is_good_for_a_close(void **state) {
    loop_rig rig;
    sluice_file_events events = file_consumer_events;
    events.on_data = close_in_data;
    files_rig_open(&rig, NULL, state);
    for (unsigned turns = 0; turns < 6; turns++) {
        file_consumer c = {0};
        int fd = files_make(1 << 20);
        assert_int_equal(fsync(fd), 0);
        assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
        file_consumer_open(&c, &rig, fd,
                           &(sluice_file_options){.size = sizeof(sluice_file_options), .read_ahead = 1 << 20});
        for (unsigned i = 0; i < turns; i++)
            assert_int_equal(sluice_loop_turn(rig.loop, 0), 0);
        file_consumer_close(&c, &rig);
        assert_int_equal(c.closed, 1);
        assert_int_equal(files_held(&rig), 0);
        assert_int_equal(fcntl(fd, F_GETFD), -1);
    }
    file_consumer inside = {0}, left = {.leaves = true}, unborn = {0};
    assert_int_equal(sluice_file_new(rig.loop, files_make(1 << 20), NULL, &events, &inside, &inside.file), 0);
    turn_until_count(rig.loop, &inside.closed, 1);
    assert_int_equal(inside.data, 1);
    assert_int_equal(inside.ends, 0);
    /* The loop's end is theirs. */
    file_consumer_open(&left, &rig, files_make(1 << 20), NULL);
    turn_through(rig.loop, 3);
    file_consumer_open(&unborn, &rig, files_make(1 << 20), NULL);
    files_rig_close(&rig);
    assert_int_equal(left.closed, 1);
    assert_int_equal(unborn.closed, 1);
}

static void a_seek_leaves_reads_behind(void **state) {
    loop_rig rig;
    file_consumer c = {.leaves = true};
    meddled_open(&rig, state);
    file_consumer_open(&c, &rig, files_make(1 << 20), NULL);
    hold_first_reads(&rig, 4);
    pass(&rig, 2);
    assert_int_equal(sluice_file_seek(c.file, 500000, 1000), 0);
    /* What was asked for before belongs nowhere, whenever it comes; what is asked for now waits for
     * nobody's bytes. */
    turn_through(rig.loop, 3);
    assert_int_equal(m.held_count, 4);
    pass(&rig, 3);
    pass(&rig, 1);
    turn_through(rig.loop, 3);
    pass(&rig, 0);
    pass(&rig, 0);
    turn_until(rig.loop, &c.told_end);
    assert_int_equal(file_buffered(&c), 1000);
    c.place = 500000;
    file_consume(&c, 1000);
    assert_false(c.differs);
    assert_int_equal(c.ends, 1);
    assert_int_equal(files_held(&rig), 0);
    files_rig_close(&rig);
}

/* A deadline passes while the disk is busy. */
static void a_deadline_ends_the_wait(void **state) {
    loop_rig rig;
    file_consumer c = {.leaves = true};
    meddled_open(&rig, state);
    file_consumer_open(&c, &rig, files_make(1 << 20), NULL);
    hold_first_reads(&rig, 4);
    uint64_t begin = clock_now();
    assert_int_equal(sluice_file_fill(c.file, 1, 0), -ETIMEDOUT);
    assert_int_equal(sluice_file_fill(c.file, 1, (begin + 30) * 1000000), -ETIMEDOUT);
    assert_true(clock_now() >= begin + 30);
    /* Less than is needed, but more than there was. */
    let_go(&rig, 0);
    int error;
    do
        error = sluice_file_fill(c.file, WINDOW, (clock_now() + 30) * 1000000);
    while (error == -ETIMEDOUT);
    assert_int_equal(error, 0);
    assert_int_equal(file_buffered(&c), READ);
    m.holds = false;
    while (m.held_count > 0)
        let_go(&rig, 0);
    assert_int_equal(sluice_file_fill(c.file, 1 << 20, UINT64_MAX), 0);
    file_consume(&c, file_buffered(&c));
    assert_int_equal(c.place, 1 << 20);
    assert_false(c.differs);
    files_rig_close(&rig);
}

/* Nobody gives a block back for seconds. */
static void it_gives_up_without_blocks(void **state) {
    static const sluice_pool_options pool = {.size = sizeof pool,
                                             .block_size = BLOCK,
                                             .slab_blocks = 8,
                                             .max_blocks = 16,
                                             .reserve_blocks = 1,
                                             .no_huge_pages = true};
    loop_rig rig;
    sluice_file *file;
    sluice_slice slice;
    int error;
    uint64_t place = 0;
    files_rig_open(&rig, &pool, state);
    assert_int_equal(sluice_file_new(rig.loop, files_make(1 << 20), NULL, NULL, NULL, &file), 0);
    sluice_chain *chain = sluice_file_chain(file);
    while ((error = sluice_file_fill(file, 1 << 20, UINT64_MAX)) == 0)
        assert_true(sluice_chain_length(chain) <= 16 * BLOCK);
    assert_int_equal(error, -ENOBUFS);
    size_t length = sluice_chain_length(chain);
    assert_true(length >= BLOCK);
    assert_int_equal(sluice_chain_take(chain, length, &slice), 0);
    assert_true(pattern_slice_matches(FILES_SEED, 0, &slice));
    /* A seek revives it, and it waits anew: only the caller's deadline passes meanwhile. */
    place = sluice_file_offset(file);
    assert_int_equal(place, length);
    assert_int_equal(sluice_file_seek(file, place, 0), 0);
    assert_int_equal(sluice_file_fill(file, 1, (clock_now() + 1000) * 1000000), -ETIMEDOUT);
    /* There are blocks again: it goes on where it stopped. */
    sluice_slice_release(&slice);
    while (place < 1 << 20) {
        assert_int_equal(sluice_file_fill(file, 1, UINT64_MAX), 0);
        assert_true(pattern_consume(chain, sluice_chain_length(chain), FILES_SEED, &place));
    }
    assert_int_equal(sluice_file_fill(file, 1, UINT64_MAX), -ENODATA);
    files_rig_close(&rig);
}

/* A file that is closed by what else its turn tells is gone with that turn, and its reader with
 * it. */
typedef struct closer {
    sluice_file *file;
    sluice_reader *reader;
    unsigned sent;
} closer;

static size_t closer_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    static char byte = 'x';
    closer *c = user;
    (void)conn, (void)max;
    iov[0] = (struct iovec){&byte, 1};
    return c->sent == 0;
}

static void closer_sent(sluice_conn *conn, size_t bytes, void *user) {
    closer *c = user;
    (void)conn, (void)bytes;
    c->sent++;
    sluice_file_close(c->file);
}

static void closer_closed(sluice_file *file, void *user) {
    closer *c = user;
    (void)file;
    sluice_reader_free(c->reader);
}

static void a_file_closed_within_a_wait_takes_its_reader_along(void **state) {
    enum { SIZE = 64 << 20, PART = 8 << 20 };
    static const sluice_conn_events events = {
        .size = sizeof events, .on_gather = closer_gather, .on_sent = closer_sent};
    static const sluice_file_events file_events = {.size = sizeof file_events, .on_closed = closer_closed};
    uint8_t *memory = malloc(PART);
    assert_non_null(memory);
    for (int call = 0; call < 3; call++) {
        loop_rig rig;
        closer c = {0};
        sluice_conn *conn;
        int fds[2];
        size_t done;
        files_rig_open(&rig, NULL, state);
        sockets_unix_pair(fds);
        assert_int_equal(sluice_file_new(rig.loop, files_make(SIZE), NULL, &file_events, &c, &c.file), 0);
        assert_int_equal(sluice_reader_new(sluice_file_chain(c.file), &c.reader), 0);
        sluice_file_attach_reader(c.file, c.reader);
        assert_int_equal(sluice_conn_new(rig.loop, fds[0], &events, &c, &conn), 0);
        sluice_conn_want_send(conn);
        int error = call == 0   ? sluice_reader_fill(c.reader, SIZE)
                    : call == 1 ? sluice_reader_skip(c.reader, SIZE)
                                : sluice_reader_read_into(c.reader, memory, PART, &done);
        assert_int_equal(error, -ECANCELED);
        assert_int_equal(c.sent, 1);
        close(fds[1]);
        files_rig_close(&rig);
    }
    free(memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FILES_ON_BOTH(reads_that_overtake_others_wait),
        FILES_ON_BOTH(what_a_file_keeps_is_known),
        FILES_ON_BOTH(any_order_gives_the_same_bytes),
        FILES_ON_BOTH(short_reads_go_on),
        FILES_ON_BOTH(reads_without_room_to_submit_are_repeated),
        FILES_ON_BOTH(what_cannot_be_read_is_refused),
        FILES_ON_BOTH(a_descriptor_that_only_writes_fails),
        FILES_ON_BOTH(bytes_before_an_error_are_delivered),
        FILES_ON_BOTH(an_error_ends_it_at_its_place),
        FILES_ON_BOTH(an_interrupted_read_is_repeated),
        FILES_ON_BOTH(a_file_that_is_cut_off_ends_early),
        FILES_ON_BOTH(a_file_that_grows_is_read_to_its_new_end),
        FILES_ON_BOTH(a_close_waits_for_the_kernel),
        FILES_ON_BOTH(any_moment_is_good_for_a_close),
        FILES_ON_BOTH(a_file_closed_within_a_wait_takes_its_reader_along),
        FILES_ON_BOTH(a_seek_leaves_reads_behind),
        FILES_ON_BOTH(a_deadline_ends_the_wait),
        FILES_ON_BOTH(it_gives_up_without_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
