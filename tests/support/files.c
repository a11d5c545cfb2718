#include "support/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

const sluice_loop_options files_uring = {.size = sizeof files_uring, .backend = SLUICE_BACKEND_URING};
const sluice_loop_options files_epoll = {.size = sizeof files_epoll, .backend = SLUICE_BACKEND_EPOLL};

void files_rig_open(loop_rig *rig, const sluice_pool_options *pool, void **state) {
    loop_rig_open(rig, pool, *state, FILES_GUARD);
}

void files_rig_close(loop_rig *rig) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(rig->pool, &stats);
    assert_int_equal(stats.bytes_copied, 0);
    loop_rig_close(rig);
}

int files_make(uint64_t size) {
    uint8_t bytes[65536];
    char name[] = "/tmp/sluice-test-XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    assert_int_equal(unlink(name), 0);
    for (uint64_t at = 0; at < size;) {
        size_t here = size - at < sizeof bytes ? (size_t)(size - at) : sizeof bytes;
        pattern_fill(FILES_SEED, at, bytes, here);
        assert_int_equal(write(fd, bytes, here), here);
        at += here;
    }
    return fd;
}

size_t file_buffered(const file_consumer *consumer) {
    return sluice_chain_length(sluice_file_chain(consumer->file));
}

void file_consume(file_consumer *consumer, size_t n) {
    if (!pattern_consume(sluice_file_chain(consumer->file), n, FILES_SEED, &consumer->place))
        consumer->differs = true;
}

static void consumer_data(sluice_file *file, void *user) {
    file_consumer *consumer = user;
    consumer->file = file;
    consumer->late |= consumer->closed > 0;
    consumer->data++;
    if (!consumer->leaves)
        file_consume(consumer, file_buffered(consumer));
}

static void consumer_end(sluice_file *file, int error, void *user) {
    file_consumer *consumer = user;
    consumer->file = file;
    consumer->late |= consumer->closed > 0;
    consumer->told_end = true;
    consumer->error = error;
    consumer->ends++;
}

static void consumer_closed(sluice_file *file, void *user) {
    file_consumer *consumer = user;
    (void)file;
    consumer->closed++;
}

const sluice_file_events file_consumer_events = {.size = sizeof file_consumer_events,
                                                 .on_data = consumer_data,
                                                 .on_end = consumer_end,
                                                 .on_closed = consumer_closed};

void file_consumer_open(file_consumer *consumer, const loop_rig *rig, int fd, const sluice_file_options *options) {
    consumer->place = options ? options->offset : 0;
    assert_int_equal(sluice_file_new(rig->loop, fd, options, &file_consumer_events, consumer, &consumer->file), 0);
}

uint32_t files_held(const loop_rig *rig) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(rig->pool, &stats);
    return stats.held;
}

void files_settle(const loop_rig *rig) {
    for (unsigned quiet = 0; quiet < 5;) {
        sluice_loop_stats before = {.size = sizeof before}, after = {.size = sizeof after};
        sluice_loop_get_stats(rig->loop, &before);
        assert_int_equal(sluice_loop_turn(rig->loop, 1), 0);
        sluice_loop_get_stats(rig->loop, &after);
        quiet = after.completions == before.completions ? quiet + 1 : 0;
    }
}

void file_consumer_close(file_consumer *consumer, const loop_rig *rig) {
    sluice_file_close(consumer->file);
    turn_until_count(rig->loop, &consumer->closed, 1);
    assert_false(consumer->late);
}
