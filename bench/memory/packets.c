/*
 * Packets of 1 KiB behind a length of four bytes, in a hundred streams, as a streaming server reads
 * them; and FLV tags. They arrive in pieces of random size: each piece is copied once into where
 * the variant would have had the kernel write it, so a piece costs all the same. One scenario holds
 * the last packets of each stream, as a server does that sends them to others: memory that is given
 * back long after it was had.
 */
#include "memory/work.h"

#include <sluice/flv.h>
#include <sluice/reader.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/checksum.h"
#include "common/content.h"

enum { STREAMS = 100, MOST_PIECES = 18, PACKET = 1024, LENGTH = 4, BUFFER = 64 << 10, MOST_KEPT = 64, SEED = 1 };

typedef struct piece_source {
    content content;
    uint64_t random;
    uint32_t least, most; /* bytes of a piece */
} piece_source;

typedef struct stream {
    uint64_t place; /* in the content */
    uint64_t packets;
    /* The library. */
    sluice_chain *chain;
    sluice_reader *reader;
    sluice_flv *flv;
    uint64_t size; /* of the packet that is awaited; 0: its length is */
    sluice_slice kept_slices[MOST_KEPT];
    /* The others. */
    uint8_t *buffer;
    uint8_t *packet;
    uint8_t header[SLUICE_FLV_TAG_HEADER_SIZE];
    uint32_t have; /* bytes of the header, then of the packet */
    uint8_t *kept[MOST_KEPT];
} stream;

typedef struct packet_run {
    const bench_work *work;
    bool flv; /* tags; else packets behind a length */
    sluice_pool *pool;
    uint64_t checksum, done, bytes;
    piece_source arrivals;
    stream *streams;
} packet_run;

/* The tags made into packets behind a length, in place: as many bytes, so that both can be
 * compared. */
static void make_lengths(content *made) {
    for (uint32_t i = 0; i < made->tags; i++) {
        uint8_t *at = made->bytes + (size_t)i * made->tag_size;
        memmove(at + LENGTH, at + SLUICE_FLV_TAG_HEADER_SIZE, PACKET);
        memset(at + LENGTH + PACKET, 0, made->tag_size - PACKET - LENGTH);
        uint32_t length = made->tag_size - LENGTH;
        at[0] = 0, at[1] = 0, at[2] = (uint8_t)(length >> 8), at[3] = (uint8_t)length;
    }
    memcpy(made->bytes + made->length, made->bytes, BUFFER);
}

static void prepare(packet_run *run, const bench_work *work, bool flv) {
    run->work = work;
    run->flv = flv;
    run->arrivals = (piece_source){.random = SEED, .least = work->least, .most = work->most};
    content_make(&run->arrivals.content, PACKET, BUFFER, SEED);
    if (!flv)
        make_lengths(&run->arrivals.content);
    run->streams = work_allocate(STREAMS * sizeof(stream));
    memset(run->streams, 0, STREAMS * sizeof(stream));
}

/* The next piece of a stream. */
static const uint8_t *arrive(packet_run *run, stream *s, size_t *ret_size) {
    piece_source *arrivals = &run->arrivals;
    const uint8_t *bytes = content_at(&arrivals->content, s->place);
    uint32_t size = arrivals->most;
    if (arrivals->least < arrivals->most)
        size = arrivals->least + (uint32_t)(content_random(&arrivals->random) % (arrivals->most - arrivals->least + 1));
    s->place += size;
    run->bytes += size;
    *ret_size = size;
    return bytes;
}

static void count(packet_run *run, stream *s, const uint8_t *first, size_t size) {
    run->checksum += packet_checksum(first, (uint32_t)size, s->packets++);
    run->done++;
}

/* All streams in turn until so many packets were found; then as long as it takes to end at the same
 * piece in all. */
static void feed_all(packet_run *run, uint64_t operations,
                     void (*feed)(packet_run *, stream *, const uint8_t *, size_t)) {
    work_begin();
    while (run->done < operations)
        for (uint32_t i = 0; i < STREAMS; i++) {
            size_t size;
            const uint8_t *bytes = arrive(run, &run->streams[i], &size);
            feed(run, &run->streams[i], bytes, size);
        }
    work_end(run->done, run->bytes, run->checksum);
}

/* Ours. */

static void take_slice(packet_run *run, stream *s, sluice_slice *slice) {
    struct iovec piece;
    uint8_t straddling[CHECKSUM_BYTES];
    sluice_slice_iov(slice, 0, &piece, 1);
    const uint8_t *first = piece.iov_base;
    if (piece.iov_len < CHECKSUM_BYTES) {
        sluice_slice_copy(slice, 0, straddling, sizeof straddling);
        first = straddling;
    }
    uint64_t index = s->packets;
    count(run, s, first, sluice_slice_length(slice));
    if (run->work->keep == 0) {
        sluice_slice_release(slice);
        return;
    }
    sluice_slice *place = &s->kept_slices[index % run->work->keep];
    sluice_slice_release(place);
    work_check("keep", sluice_slice_take(slice, place));
}

/* As readv(2) does: behind the stream's last bytes, then into fresh blocks. */
static void append(stream *s, const uint8_t *bytes, size_t size) {
    struct iovec room[MOST_PIECES];
    int count = work_check("room", sluice_chain_reserve(s->chain, size, room, MOST_PIECES));
    size_t left = size;
    for (int i = 0; i < count && left > 0; i++) {
        size_t part = left < room[i].iov_len ? left : room[i].iov_len;
        memcpy(room[i].iov_base, bytes, part);
        bytes += part;
        left -= part;
    }
    work_check("commit", sluice_chain_commit(s->chain, size));
}

static void feed_lengths(packet_run *run, stream *s, const uint8_t *bytes, size_t size) {
    sluice_slice slice;
    append(s, bytes, size);
    for (;;) {
        if (s->size == 0 && sluice_reader_be(s->reader, LENGTH, &s->size) < 0)
            return;
        if (sluice_reader_slice(s->reader, s->size, &slice) < 0)
            return;
        s->size = 0;
        take_slice(run, s, &slice);
    }
}

static void feed_flv(packet_run *run, stream *s, const uint8_t *bytes, size_t size) {
    sluice_flv_tag *tag;
    append(s, bytes, size);
    while (work_check("FLV", sluice_flv_next(s->flv, s->chain, &tag)) > 0)
        take_slice(run, s, &tag->payload);
}

static void run_library(const bench_work *work, uint64_t operations, bool flv) {
    packet_run run = {0};
    const sluice_pool_options options = {.size = sizeof options, .max_blocks = 1 << 17};
    prepare(&run, work, flv);
    work_check("pool", sluice_pool_new(&options, &run.pool));
    for (uint32_t i = 0; i < STREAMS; i++) {
        stream *s = &run.streams[i];
        work_check("chain", sluice_chain_new(run.pool, &s->chain));
        work_check("reader", sluice_reader_new(s->chain, &s->reader));
        work_check("framer", sluice_flv_new(0, &s->flv));
        if (flv)
            feed_flv(&run, s, content_file_header, CONTENT_FILE_HEADER);
    }
    feed_all(&run, operations, flv ? feed_flv : feed_lengths);
}

static void library_lengths(const bench_work *work, uint64_t operations) {
    run_library(work, operations, false);
}

static void library_flv(const bench_work *work, uint64_t operations) {
    run_library(work, operations, true);
}

/* Theirs: a copy per packet. */

/* The bytes behind the header that belong to the packet; a tag's trailer is one of them. */
static uint32_t rest_of(const packet_run *run, const stream *s) {
    return (uint32_t)s->size + (run->flv ? SLUICE_FLV_TRAILER_SIZE : 0);
}

static void start_packet(const packet_run *run, stream *s) {
    /* In the last three bytes of a length, and behind the first one of a tag's header. */
    const uint8_t *size = s->header + 1;
    s->size = (uint32_t)size[0] << 16 | (uint32_t)size[1] << 8 | size[2];
    s->packet = work_allocate(rest_of(run, s));
    s->have = 0;
}

static void finish_packet(packet_run *run, stream *s) {
    uint64_t index = s->packets;
    count(run, s, s->packet, s->size);
    if (run->work->keep > 0) {
        uint8_t **place = &s->kept[index % run->work->keep];
        free(*place);
        *place = s->packet;
    } else {
        free(s->packet);
    }
    s->packet = NULL;
    s->size = s->have = 0;
}

/* The pieces go where the packet is put together: read(2) into the packet's own memory, as far as
 * the packet goes. */
static void feed_malloc(packet_run *run, stream *s, const uint8_t *bytes, size_t size) {
    while (size > 0) {
        uint32_t whole = s->packet ? rest_of(run, s) : run->flv ? SLUICE_FLV_TAG_HEADER_SIZE : LENGTH;
        size_t part = whole - s->have < size ? whole - s->have : size;
        memcpy((s->packet ? s->packet : s->header) + s->have, bytes, part);
        s->have += (uint32_t)part;
        bytes += part;
        size -= part;
        if (s->have < whole)
            return;
        if (s->packet)
            finish_packet(run, s);
        else
            start_packet(run, s);
    }
}

/* The pieces go into the stream's buffer, and out of it into the packet's memory. */
static void feed_buffer(packet_run *run, stream *s, const uint8_t *bytes, size_t size) {
    memcpy(s->buffer, bytes, size);
    feed_malloc(run, s, s->buffer, size);
}

static void run_malloc(const bench_work *work, uint64_t operations, bool flv) {
    packet_run run = {0};
    prepare(&run, work, flv);
    feed_all(&run, operations, feed_malloc);
}

static void run_buffer(const bench_work *work, uint64_t operations, bool flv) {
    packet_run run = {0};
    prepare(&run, work, flv);
    for (uint32_t i = 0; i < STREAMS; i++)
        run.streams[i].buffer = work_allocate(BUFFER);
    feed_all(&run, operations, feed_buffer);
}

static void malloc_lengths(const bench_work *work, uint64_t operations) {
    run_malloc(work, operations, false);
}

static void malloc_flv(const bench_work *work, uint64_t operations) {
    run_malloc(work, operations, true);
}

static void buffer_lengths(const bench_work *work, uint64_t operations) {
    run_buffer(work, operations, false);
}

static void buffer_flv(const bench_work *work, uint64_t operations) {
    run_buffer(work, operations, true);
}

/* clang-format off */
#define IN_ALL_VARIANTS(name, what, least, most, kept)      \
    {name, "library", library_##what, least, most, kept},   \
    {name, "read-malloc", malloc_##what, least, most, kept},\
    {name, "buffer-malloc", buffer_##what, least, most, kept}

const bench_work packet_work[] = {
    IN_ALL_VARIANTS("flv", flv, BUFFER, BUFFER, 0),
    IN_ALL_VARIANTS("streaming-good", lengths, 1024, 4096, 0),
    IN_ALL_VARIANTS("streaming-normal", lengths, 256, 2048, 0),
    IN_ALL_VARIANTS("streaming-poor", lengths, 64, 512, 0),
    IN_ALL_VARIANTS("streaming-worst", lengths, 1, 128, 0),
    IN_ALL_VARIANTS("pressure", lengths, 256, 2048, MOST_KEPT),
    {0},
};
