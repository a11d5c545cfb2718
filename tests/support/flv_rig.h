/* FLV streams that are made by hand, and what the framer makes of them. */
#ifndef SLUICE_TESTS_SUPPORT_FLV_RIG_H
#define SLUICE_TESTS_SUPPORT_FLV_RIG_H

#include <sluice/flv.h>

#include <string.h>

#include <sluice/chain.h>
#include <sluice/pool.h>
#include <sluice/slice.h>

#include "memory/chain.h"
#include "support/feed.h"

enum {
    MAX_TAGS = 64,
    MAX_BYTES = 4096,
    TAG_OVERHEAD = SLUICE_FLV_TAG_HEADER_SIZE + SLUICE_FLV_TRAILER_SIZE,
    TYPE_UNKNOWN = 15,
};

/* A stream made by hand. */
struct vector {
    uint8_t bytes[MAX_BYTES];
    size_t size;
};

/* A tag that came out. */
struct event {
    sluice_flv_type type;
    uint32_t timestamp;
    uint32_t size;
    bool trailer_ok;
    sluice_flv_view view;
    uint64_t at; /* of the payload in the stream */
};

/* All that came out. */
struct outcome {
    struct event events[MAX_TAGS];
    size_t count;
    int result; /* of the last next() */
    uint64_t consumed;
    uint8_t flags;
};

/* ---- Making streams ---- */

static inline void add_bytes(struct vector *vector, const void *bytes, size_t size) {
    if (size > sizeof vector->bytes - vector->size)
        fail_msg("the vector is too long");
    memcpy(vector->bytes + vector->size, bytes, size);
    vector->size += size;
}

static inline void add_header(struct vector *vector, uint8_t flags) {
    const uint8_t header[] = {'F', 'L', 'V', 1, flags, 0, 0, 0, 9, 0, 0, 0, 0};
    add_bytes(vector, header, sizeof header);
}

static inline void add_tag_header(struct vector *vector, uint8_t type, uint32_t timestamp, uint32_t size) {
    const uint8_t header[] = {
        type,
        (uint8_t)(size >> 16),
        (uint8_t)(size >> 8),
        (uint8_t)size,
        (uint8_t)(timestamp >> 16),
        (uint8_t)(timestamp >> 8),
        (uint8_t)timestamp,
        (uint8_t)(timestamp >> 24),
        0,
        0,
        0,
    };
    add_bytes(vector, header, sizeof header);
}

static inline void add_trailer(struct vector *vector, uint32_t value) {
    const uint8_t trailer[] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8), (uint8_t)value};
    add_bytes(vector, trailer, sizeof trailer);
}

static inline void add_tag(struct vector *vector, uint8_t type, uint32_t timestamp, const void *payload,
                           uint32_t size) {
    add_tag_header(vector, type, timestamp, size);
    add_bytes(vector, payload, size);
    add_trailer(vector, SLUICE_FLV_TAG_HEADER_SIZE + size);
}

static const uint8_t avc_key[] = {0x17, 1, 0, 0, 80, 0, 0, 0, 9, 0x65};

static const uint8_t aac_frame[] = {0xAF, 1, 0x21, 0x10};

/* ---- Reading streams ---- */

enum keeping { KEEP_NONE, KEEP_FORWARDS, KEEP_BACKWARDS };

/* A stream under way. */
struct run {
    sluice_flv *flv;
    sluice_chain chain;
    const uint8_t *bytes;           /* of the whole stream */
    const struct outcome *expected; /* to compare with, or NULL to record */
    struct outcome got;
    enum keeping keeping;
    sluice_slice kept[MAX_TAGS];
};

static inline void begin(struct run *run, sluice_pool *pool, const uint8_t *bytes, const struct outcome *expected) {
    run->bytes = bytes;
    run->expected = expected;
    run->got.count = 0;
    run->got.result = 0;
    run->keeping = KEEP_NONE;
    chain_init(&run->chain, pool);
    if (sluice_flv_new(0, &run->flv) != 0)
        fail_msg("no framer");
}

static inline bool same_view(const sluice_flv_view *a, const sluice_flv_view *b) {
    return a->codec == b->codec && a->packet == b->packet && a->key_frame == b->key_frame &&
           a->enhanced == b->enhanced && a->multitrack == b->multitrack && a->many_tracks == b->many_tracks &&
           a->track == b->track && a->frame_type == b->frame_type && a->audio_format == b->audio_format &&
           a->channels == b->channels && a->sample_rate == b->sample_rate &&
           a->composition_time == b->composition_time && a->header_size == b->header_size;
}

static inline bool same_event(const struct event *a, const struct event *b) {
    return a->type == b->type && a->timestamp == b->timestamp && a->size == b->size && a->trailer_ok == b->trailer_ok &&
           a->at == b->at && same_view(&a->view, &b->view);
}

/* The slice holds exactly these bytes. */
static inline bool slice_is(const sluice_slice *slice, const uint8_t *bytes, size_t size) {
    struct iovec pieces[8];
    size_t done = 0;
    if (sluice_slice_length(slice) != size)
        return false;
    while (done < size) {
        size_t count = sluice_slice_iov(slice, done, pieces, 8);
        for (size_t i = 0; i < count && i < 8; i++) {
            if (pieces[i].iov_len > size - done || memcmp(pieces[i].iov_base, bytes + done, pieces[i].iov_len) != 0)
                return false;
            done += pieces[i].iov_len;
        }
        if (count == 0)
            return false;
    }
    return true;
}

static inline void take_event(struct run *run, sluice_flv_tag *tag) {
    size_t index = run->got.count++;
    struct event event = {
        .type = tag->type,
        .timestamp = tag->timestamp,
        .size = tag->size,
        .trailer_ok = tag->trailer_ok,
        .view = tag->view,
        .at = sluice_chain_consumed(&run->chain) - SLUICE_FLV_TRAILER_SIZE - tag->size,
    };
    if (index >= MAX_TAGS || (run->expected && index >= run->expected->count))
        fail_msg("too many tags");
    if (!slice_is(&tag->payload, run->bytes + event.at, tag->size))
        fail_msg("tag %zu has another payload", index);
    if (!run->expected)
        run->got.events[index] = event;
    else if (!same_event(&event, &run->expected->events[index]))
        fail_msg("tag %zu is another one", index);
    if (run->keeping != KEEP_NONE && sluice_slice_take(&tag->payload, &run->kept[index]) != 0)
        fail_msg("tag %zu cannot be kept", index);
}

/* Takes all tags that there are. */
static inline void drain(struct run *run) {
    sluice_flv_tag *tag;
    while ((run->got.result = sluice_flv_next(run->flv, &run->chain, &tag)) == 1)
        take_event(run, tag);
    if (sluice_flv_need(run->flv) <= sluice_chain_length(&run->chain))
        fail_msg("no tag, and nothing needed");
}

/* What is kept holds its bytes though all else is gone, and may go in any order. */
static inline void release_kept(struct run *run) {
    const struct outcome *known = run->expected ? run->expected : &run->got;
    for (size_t i = 0; i < run->got.count; i++) {
        size_t index = run->keeping == KEEP_FORWARDS ? i : run->got.count - 1 - i;
        const struct event *event = &known->events[index];
        if (!slice_is(&run->kept[index], run->bytes + event->at, event->size))
            fail_msg("kept tag %zu has changed", index);
        sluice_slice_release(&run->kept[index]);
    }
}

static inline void finish(struct run *run) {
    run->got.consumed = sluice_chain_consumed(&run->chain);
    run->got.flags = sluice_flv_flags(run->flv);
    if (run->expected) {
        if (run->got.count != run->expected->count || run->got.result != run->expected->result)
            fail_msg("%zu tags instead of %zu, result %d instead of %d", run->got.count, run->expected->count,
                     run->got.result, run->expected->result);
        if (run->got.consumed != run->expected->consumed || run->got.flags != run->expected->flags)
            fail_msg("another end");
    }
    if (!chain_is_sound(&run->chain))
        fail_msg("the chain is broken");
    chain_clear(&run->chain);
    sluice_flv_free(run->flv);
    if (run->keeping != KEEP_NONE)
        release_kept(run);
}

/* What the stream gives in one piece. */
static inline void read_whole(sluice_pool *pool, const struct vector *vector, struct outcome *ret_outcome) {
    struct run run;
    begin(&run, pool, vector->bytes, NULL);
    feed(&run.chain, pool, vector->bytes, vector->size, 0);
    drain(&run);
    finish(&run);
    *ret_outcome = run.got;
}

/* ---- Tags ---- */

static inline void begin_tags(sluice_pool *pool, uint32_t limit, sluice_flv **ret_flv, sluice_chain *ret_chain) {
    struct vector vector = {.size = 0};
    sluice_flv_tag *tag;
    chain_init(ret_chain, pool);
    assert_int_equal(sluice_flv_new(limit, ret_flv), 0);
    add_header(&vector, 0);
    feed(ret_chain, pool, vector.bytes, vector.size, 0);
    assert_int_equal(sluice_flv_next(*ret_flv, ret_chain, &tag), 0);
}

#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, feed_set_up, feed_tear_down)

#endif
