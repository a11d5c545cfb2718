/* Access units that are too large, or without memory: dropped whole and at once, and the next one
 * is well. */
#include <sluice/rtp.h>
#include <sluice/rtp_flv.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "framers/rtp/rtp_unpack.h"
#include "memory/pool.h"
#include "support/slices.h"

/* The linker puts this in the place of the call (--wrap). */
void *__real_reallocarray(void *memory, size_t count, size_t size);
void *__wrap_reallocarray(void *memory, size_t count, size_t size);

static unsigned fail_at; /* counted down; the one that reaches 0 fails */

void *__wrap_reallocarray(void *memory, size_t count, size_t size) {
    if (fail_at > 0 && --fail_at == 0)
        return NULL;
    return __real_reallocarray(memory, count, size);
}

typedef struct receiver {
    sluice_pool *pool;
    sluice_rtp_unpacker *unpacker;
    uint64_t sequence;
} receiver;

static receiver receiver_new(const sluice_rtp_unpacker_options *options) {
    receiver r = {.pool = http_feed_pool(4096, 16)};
    assert_int_equal(sluice_rtp_unpacker_new(SLUICE_RTP_H264, options, &r.unpacker), 0);
    return r;
}

static void receiver_free(receiver *r) {
    sluice_rtp_unpacker_free(r->unpacker);
    http_feed_pool_done(r->pool);
}

static uint32_t held(const receiver *r) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(r->pool, &stats);
    return stats.held;
}

/* Gives the next packet; what next() says first. */
static int give(receiver *r, bool marker, uint32_t timestamp, const char *payload, size_t size,
                sluice_rtp_unit **ret_unit) {
    uint8_t bytes[64];
    sluice_rtp_packet view = {.marker = marker, .sequence = (uint16_t)++r->sequence, .timestamp = timestamp};
    sluice_rtp_write(bytes, &view);
    memcpy(bytes + SLUICE_RTP_HEADER_SIZE, payload, size);
    sluice_slice slice = slice_of(r->pool, bytes, SLUICE_RTP_HEADER_SIZE + size, 0);
    assert_int_equal(sluice_rtp_read(&slice, &view), 0);
    assert_int_equal(sluice_rtp_unpacker_push(r->unpacker, &slice, &view, r->sequence), 0);
    sluice_slice_release(&slice);
    return sluice_rtp_unpacker_next(r->unpacker, ret_unit);
}

static void end(receiver *r) {
    sluice_rtp_unit *unit;
    assert_int_equal(sluice_rtp_unpacker_next(r->unpacker, &unit), 0);
}

/* A unit of one NAL unit, which is the first after a loss. */
static void assert_goes_on(receiver *r, uint32_t timestamp) {
    sluice_rtp_unit *unit;
    assert_int_equal(give(r, true, timestamp, "\x65xy", 3, &unit), 1);
    assert_true(unit->timestamp == timestamp && unit->length == 3 && unit->nal_count == 1 && unit->piece_count == 1);
    end(r);
    assert_int_equal(held(r), 0);
}

static void what_is_over_a_limit_is_given_back_at_once(void **state) {
    (void)state;
    receiver r = receiver_new(
        &(sluice_rtp_unpacker_options){.size = sizeof(sluice_rtp_unpacker_options), .max_unit = 10});
    sluice_rtp_unit *unit;
    assert_int_equal(give(&r, false, 1, "\x41yyyyyy", 7, &unit), 0);
    assert_int_equal(held(&r), 1);
    assert_int_equal(give(&r, false, 1, "\x41zzz", 4, &unit), -EMSGSIZE);
    end(&r);
    assert_int_equal(held(&r), 0);
    /* What is still to come of it is dropped too. */
    assert_int_equal(give(&r, true, 1, "\x41z", 2, &unit), 0);
    assert_goes_on(&r, 2);
    receiver_free(&r);
}

/* Each of the two lists of a unit cannot grow: the unit is dropped, whose other packets are dropped
 * with it. */
static void without_memory_a_unit_is_dropped_whole(void **state) {
    (void)state;
    for (unsigned at = 1; at <= 2; at++) {
        receiver r = receiver_new(NULL);
        sluice_rtp_unit *unit;
        fail_at = at;
        assert_int_equal(give(&r, false, 1, "\x41y", 2, &unit), -ENOMEM);
        assert_int_equal(fail_at, 0);
        end(&r);
        assert_int_equal(held(&r), 0);
        assert_int_equal(give(&r, true, 1, "\x41z", 2, &unit), 0);
        assert_goes_on(&r, 2);
        receiver_free(&r);
    }
}

/* The list of pieces, by default 16,384: fragments of a byte each. */
static void as_many_pieces_as_by_default(void **state) {
    (void)state;
    enum { MOST = 16384 };
    for (int more = 0; more < 2; more++) {
        sluice_pool *pool = http_feed_pool(4096, MOST + 16);
        receiver r = {.pool = pool};
        sluice_rtp_unit *unit;
        int result = 0;
        assert_int_equal(sluice_rtp_unpacker_new(SLUICE_RTP_H264, NULL, &r.unpacker), 0);
        assert_int_equal(give(&r, false, 1, "\x7C\x85y", 3, &unit), 0);
        for (int i = 2; i < MOST + more; i++)
            assert_int_equal(give(&r, false, 1, "\x7C\x05y", 3, &unit), 0);
        result = give(&r, true, 1, "\x7C\x45y", 3, &unit);
        assert_int_equal(result, more ? -EMSGSIZE : 1);
        if (!more)
            assert_int_equal(unit->piece_count, MOST);
        end(&r);
        assert_int_equal(held(&r), 0);
        receiver_free(&r);
    }
}

/* Units of a pool's sessions share room for their pieces, one after the other. */
static void between_units_the_room_is_the_pools(void **state) {
    (void)state;
    receiver r = receiver_new(NULL), other = {.pool = r.pool};
    const struct slice_rooms *rooms = pool_slice_rooms(r.pool);
    sluice_rtp_unit *unit, *others;
    assert_int_equal(sluice_rtp_unpacker_new(SLUICE_RTP_H264, NULL, &other.unpacker), 0);
    r.unpacker->pool = other.unpacker->pool = r.pool;
    assert_int_equal(give(&r, true, 1, "\x41y", 2, &unit), 1);
    assert_int_equal(rooms->kept, 0);
    end(&r);
    assert_int_equal(rooms->kept, SLICE_ROOM_LEAST * sizeof(sluice_slice));
    fail_at = 2; /* the first is the list of NAL units */
    assert_int_equal(give(&other, true, 1, "\x41y", 2, &others), 1);
    assert_int_equal(rooms->kept, 0);
    assert_int_equal(give(&r, true, 2, "\x41y", 2, &unit), -ENOMEM);
    assert_true(others->piece_count == 1 && others->length == 2);
    end(&other);
    assert_goes_on(&r, 3);
    /* While it grows, it has one room at a time. */
    for (int i = 0; i < SLICE_ROOM_LEAST; i++)
        assert_int_equal(give(&r, false, 4, "\x41y", 2, &unit), 0);
    assert_int_equal(rooms->kept, 0);
    assert_int_equal(give(&r, true, 4, "\x41y", 2, &unit), 1);
    assert_int_equal(rooms->kept, SLICE_ROOM_LEAST * sizeof(sluice_slice));
    assert_int_equal(unit->piece_count, SLICE_ROOM_LEAST + 1);
    sluice_rtp_unpacker_free(other.unpacker);
    receiver_free(&r);
}

/* A fragment may be empty; nothing is referred to for it. */
static void an_empty_fragment_is_no_piece(void **state) {
    (void)state;
    receiver r = receiver_new(NULL);
    sluice_rtp_unit *unit;
    assert_int_equal(give(&r, false, 1, "\x7C\x85y", 3, &unit), 0);
    assert_int_equal(give(&r, false, 1, "\x7C\x05", 2, &unit), 0);
    assert_int_equal(give(&r, true, 1, "\x7C\x45z", 3, &unit), 1);
    assert_true(unit->piece_count == 2 && unit->length == 3);
    receiver_free(&r);
}

/* What the session makes of it: told, and counted as dropped, not blamed on the sender. */
static void a_unit_without_memory_is_not_called_malformed(void **state) {
    (void)state;
    sluice_pool *pool = http_feed_pool(512, 8);
    sluice_codec_config config;
    sluice_rtp_flv *flv;
    sluice_flv_tag *tag;
    sluice_rtp_flv_stats stats = {.size = sizeof stats};
    assert_int_equal(sluice_codec_init(&config, SLUICE_CODEC_PCMU, 8000, 1), 0);
    assert_int_equal(sluice_rtp_flv_new(pool, &flv), 0);
    assert_int_equal(sluice_rtp_flv_add(flv, &config, NULL, SLUICE_RTP_FLV_ANY), 0);
    for (uint16_t sequence = 1; sequence <= 2; sequence++) {
        uint8_t bytes[SLUICE_RTP_HEADER_SIZE + 1] = {0};
        const sluice_rtp_packet view = {.sequence = sequence, .timestamp = sequence * 8u, .ssrc = 1};
        sluice_rtp_write(bytes, &view);
        sluice_slice slice = slice_of(pool, bytes, sizeof bytes, 0);
        fail_at = sequence == 1;
        assert_int_equal(sluice_rtp_flv_push(flv, 0, &slice, 0), 0);
        assert_int_equal(sluice_rtp_flv_next(flv, &tag), sequence == 1 ? -ENOMEM : 1);
        sluice_slice_release(&slice);
        assert_int_equal(sluice_rtp_flv_next(flv, &tag), 0);
    }
    assert_int_equal(sluice_rtp_flv_get_stats(flv, 0, &stats), 0);
    assert_int_equal(stats.malformed, 0);
    assert_int_equal(stats.dropped, 1);
    assert_int_equal(stats.frames, 1);
    sluice_rtp_flv_free(flv);
    http_feed_pool_done(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_over_a_limit_is_given_back_at_once),
        cmocka_unit_test(without_memory_a_unit_is_dropped_whole),
        cmocka_unit_test(a_unit_without_memory_is_not_called_malformed),
        cmocka_unit_test(as_many_pieces_as_by_default),
        cmocka_unit_test(between_units_the_room_is_the_pools),
        cmocka_unit_test(an_empty_fragment_is_no_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
