#include "play/stamps.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/process.h"

enum {
    MOST_HEAD = 1024, /* of a response */
    STEPS = 64,       /* of each power of two: a step is at most 1.6 % */
    STEP_BITS = 6,
    POWERS = 65 - STEP_BITS,
    TAGS_AT_ONCE = 64,
};

static uint64_t counts[POWERS * STEPS];
static uint64_t all, longest;

static uint32_t place_of(uint64_t ns) {
    uint32_t power = 0;
    while (ns >> power >= 2 * STEPS)
        power++;
    return power * STEPS + (uint32_t)(ns >> power);
}

static uint64_t value_at(uint32_t place) {
    if (place < 2 * STEPS)
        return place;
    uint32_t power = place / STEPS - 1;
    return (uint64_t)(place - power * STEPS) << power;
}

static void count(uint64_t ns) {
    counts[place_of(ns)]++;
    all++;
    if (ns > longest)
        longest = ns;
}

/* Bytes, 0 when there are none now. */
static size_t receive(int fd, void *memory, size_t room, int flags) {
    ssize_t n = recv(fd, memory, room, MSG_DONTWAIT | flags);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        fail(EXIT_FAILURE, "a player was ended: %s", n < 0 ? strerror(errno) : "");
    return (size_t)n;
}

/* What stands before the first tag, when it is all there. */
static void start(stamp_reader *reader, int fd) {
    char head[MOST_HEAD];
    size_t n = receive(fd, head, sizeof head, MSG_PEEK);
    const char *end = n > 0 ? memmem(head, n, "\r\n\r\n", 4) : NULL;
    if (!end)
        return;
    reader->skip = (uint32_t)(end + 4 - head) + CONTENT_FILE_HEADER;
    reader->started = true;
}

static void take_stamp(stamp_reader *reader) {
    uint64_t stamp, now = now_ns();
    memcpy(&stamp, reader->tag + CONTENT_STAMP, sizeof stamp);
    stamp = le64toh(stamp);
    if (stamp > now)
        fail(EXIT_FAILURE, "a tag without a stamp");
    /* With the first tag some things are done for the first time. */
    if (reader->tags++ > 0)
        count(now - stamp);
    uint32_t payload = (uint32_t)reader->tag[1] << 16 | (uint32_t)reader->tag[2] << 8 | reader->tag[3];
    reader->skip = payload + CONTENT_AROUND_PAYLOAD - (uint32_t)sizeof reader->tag;
    reader->have = 0;
}

uint64_t stamp_read(stamp_reader *reader, int fd) {
    uint64_t bytes = 0;
    size_t n = 1;
    if (!reader->started)
        start(reader, fd);
    if (!reader->started)
        return 0;
    for (uint32_t tags = 0; n > 0 && tags < TAGS_AT_ONCE; bytes += n) {
        if (reader->skip > 0) {
            /* The kernel drops the bytes where it would copy them. */
            n = receive(fd, NULL, reader->skip, MSG_TRUNC);
            reader->skip -= (uint32_t)n;
            continue;
        }
        n = receive(fd, reader->tag + reader->have, sizeof reader->tag - reader->have, 0);
        reader->have += (uint32_t)n;
        if (reader->have == sizeof reader->tag) {
            take_stamp(reader);
            tags++;
        }
    }
    return bytes;
}

static void print_percentile(const char *name, double share) {
    uint64_t before = (uint64_t)((double)all * share), seen = 0;
    uint32_t place = 0;
    while (place < POWERS * STEPS - 1 && (seen += counts[place]) <= before)
        place++;
    printf(", \"%s_us\": %.3f", name, (double)value_at(place) / 1e3);
}

void stamps_print(void) {
    if (all == 0)
        return;
    print_percentile("p50", 0.50);
    print_percentile("p90", 0.90);
    print_percentile("p99", 0.99);
    print_percentile("p999", 0.999);
    printf(", \"longest_us\": %.3f, \"tags\": %" PRIu64, (double)longest / 1e3, all);
}
