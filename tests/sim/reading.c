#include "sim/reading.h"

#include <errno.h>

#include <stdio.h>

#include <sluice/file.h>
#include <sluice/slice.h>

#include "sim/kernel.h"
#include "sim/pattern.h"
#include "sim/world.h"

struct reading {
    sluice_file *file;
    uint32_t stream;
    uint64_t size;
    uint64_t place; /* of the next byte */
    sluice_slice held;
    uint64_t held_place;
    bool settled, is_ended, has_starved, closed;
};

static void check_slice(const struct reading *reading, const sluice_slice *slice, uint64_t place) {
    struct iovec pieces[128];
    size_t length = sluice_slice_length(slice);
    for (size_t done = 0; done < length;) {
        size_t count = sluice_slice_iov(slice, done, pieces, 128);
        for (size_t i = 0; i < count && i < 128; i++) {
            size_t same = pattern_check(reading->stream, place + done, pieces[i].iov_base, pieces[i].iov_len);
            WORLD_CHECK(same == pieces[i].iov_len, "byte %llu of file %u is wrong",
                        (unsigned long long)(place + done + same), reading->stream);
            done += pieces[i].iov_len;
        }
    }
}

static void release(struct reading *reading) {
    check_slice(reading, &reading->held, reading->held_place);
    sluice_slice_release(&reading->held);
}

static void consume(struct reading *reading, size_t n) {
    sluice_chain *chain = sluice_file_chain(reading->file);
    sluice_slice slice;
    WORLD_CHECK(sluice_file_offset(reading->file) == reading->place, "file %u is at %llu, not at %llu", reading->stream,
                (unsigned long long)sluice_file_offset(reading->file), (unsigned long long)reading->place);
    if (n == 0 || sluice_chain_take(chain, n, &slice) < 0)
        return;
    release(reading);
    reading->held = slice;
    reading->held_place = reading->place;
    reading->place += n;
    if (reading->settled || world_one_in(2))
        release(reading);
}

static void go_to(struct reading *reading, uint64_t place, uint64_t length) {
    WORLD_CHECK(sluice_file_seek(reading->file, place, length) == 0, "file %u cannot seek", reading->stream);
    reading->place = place;
    reading->is_ended = false;
}

static void on_data(sluice_file *file, void *at) {
    struct reading *reading = at;
    size_t length = sluice_chain_length(sluice_file_chain(file));
    if (reading->settled) {
        consume(reading, length);
        return;
    }
    consume(reading, world_one_in(3) ? length : world_random((uint32_t)length + 1));
    if (world_one_in(10))
        sluice_file_set_need(file, world_random(20000));
    if (world_one_in(10))
        go_to(reading, world_random((uint32_t)reading->size + 1), world_one_in(2) ? 0 : world_between(1, 50000));
}

static void on_end(sluice_file *file, int error, void *at) {
    struct reading *reading = at;
    world_trace("file's end", reading->stream, error, 0);
    reading->is_ended = true;
    /* In a pool of few slabs, a class may have no more blocks than the kernel keeps for its
     * receives. */
    reading->has_starved |= error == -ENOBUFS;
    WORLD_CHECK(!reading->settled || !error || !world_is_calm() || error == -EIO || error == -ENOBUFS,
                "file %u ends with %d", reading->stream, error);
    if (!error)
        consume(reading, sluice_chain_length(sluice_file_chain(file)));
    else if (!reading->settled && world_one_in(2))
        go_to(reading, 0, 0);
}

static void on_closed(sluice_file *file, void *at) {
    struct reading *reading = at;
    (void)file;
    reading->file = NULL;
    reading->closed = true;
}

static const sluice_file_events events = {
    .size = sizeof events, .on_data = on_data, .on_end = on_end, .on_closed = on_closed};

static int make_file(struct reading *reading) {
    static uint32_t made;
    char path[32];
    uint8_t bytes[4096];
    reading->stream = 100000 + world_random(100000);
    snprintf(path, sizeof path, "file-%u", ++made);
    int fd = disk_open(path, true);
    for (uint64_t place = 0; fd >= 0 && place < reading->size; place += sizeof bytes) {
        size_t n = reading->size - place < sizeof bytes ? reading->size - place : sizeof bytes;
        pattern_write(reading->stream, place, bytes, n);
        disk_put(kernel_file(fd)->disk, bytes, n);
    }
    return fd;
}

struct reading *reading_new(sluice_loop *loop) {
    static const uint32_t sizes[] = {0, 512, 4096, 16384};
    struct reading *reading = world_allocate(sizeof *reading);
    reading->size = world_between(1, 600000);
    const sluice_file_options options = {.size = sizeof options,
                                         .read_ahead = world_one_in(2) ? 0 : world_between(1, 100000),
                                         .block_size = sizes[world_random(4)]};
    int fd = make_file(reading);
    if (fd < 0 || sluice_file_new(loop, fd, &options, &events, reading, &reading->file) < 0) {
        if (fd >= 0)
            kernel_close(fd);
        world_free(reading);
        return NULL;
    }
    return reading;
}

void reading_settle(struct reading *reading) {
    release(reading);
    reading->settled = true;
    sluice_file_set_need(reading->file, 0);
    go_to(reading, 0, 0);
}

void reading_judge(const struct reading *reading) {
    WORLD_CHECK(reading->is_ended && (reading->place == reading->size || reading->has_starved),
                "of %llu bytes of file %u only %llu were read", (unsigned long long)reading->size, reading->stream,
                (unsigned long long)reading->place);
}

void reading_end(struct reading *reading) {
    release(reading);
    sluice_file_close(reading->file);
}

void reading_free(struct reading *reading) {
    WORLD_CHECK(reading->closed, "file %u was not closed", reading->stream);
    world_free(reading);
}
