/* A packet as a message of RTMP: one chunk with a full header, then the payload, from any byte on
 * and in as few pieces at once as wanted. */
#include "daemon/relay/wire_format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sluice/pool.h>

enum { SIZE = 300, MOST = 400 };

struct rig {
    sluice_pool *pool;
    sluice_chain *chain;
    struct packet_pool *packets;
    struct packet *packet;
};

static void rig_open(struct rig *rig, sluice_flv_type type, uint32_t timestamp) {
    const sluice_pool_options options = {.size = sizeof options, .block_size = 4096, .no_huge_pages = true};
    const sluice_flv_tag tag = {.type = type};
    struct iovec room;
    sluice_slice payload;
    assert_int_equal(sluice_pool_new(&options, &rig->pool), 0);
    assert_int_equal(sluice_chain_new(rig->pool, &rig->chain), 0);
    assert_int_equal(sluice_chain_reserve(rig->chain, SIZE, &room, 1), 1);
    for (size_t i = 0; i < SIZE; i++)
        ((uint8_t *)room.iov_base)[i] = (uint8_t)i;
    assert_int_equal(sluice_chain_commit(rig->chain, SIZE), 0);
    assert_int_equal(sluice_chain_take(rig->chain, SIZE, &payload), 0);
    assert_int_equal(packet_pool_new(1 << 20, &rig->packets), 0);
    rig->packet = packet_new(rig->packets, &tag, PACKET_VIDEO, timestamp, &payload);
    assert_non_null(rig->packet);
}

static void rig_close(struct rig *rig) {
    packet_unref(rig->packet);
    packet_pool_free(rig->packets);
    sluice_chain_free(rig->chain);
    sluice_pool_free(rig->pool);
}

/* All that is sent, in so many pieces at a time, from @offset on. */
static size_t gather(struct packet *packet, const struct packet_form *form, size_t offset, size_t max,
                     uint8_t bytes[MOST]) {
    size_t done = 0, count;
    struct iovec pieces[8];
    while ((count = form->format->pieces(packet, form, offset, pieces, max)) > 0) {
        assert_true(count <= max);
        for (size_t i = 0; i < count; i++) {
            assert_true(pieces[i].iov_len > 0 && done + pieces[i].iov_len <= MOST);
            memcpy(bytes + done, pieces[i].iov_base, pieces[i].iov_len);
            done += pieces[i].iov_len;
            offset += pieces[i].iov_len;
        }
    }
    return done;
}

/* The header as Adobe's specification has it in 5.3.1, and then the payload. */
static void check(struct rig *rig, const struct packet_form *form, const uint8_t *header, size_t size) {
    uint8_t whole[MOST], bytes[MOST];
    memcpy(whole, header, size);
    for (size_t i = 0; i < SIZE; i++)
        whole[size + i] = (uint8_t)i;
    assert_int_equal(form->format->size(rig->packet), size + SIZE);
    for (size_t max = 1; max <= 8; max++)
        for (size_t offset = 0; offset <= size + SIZE; offset++) {
            assert_int_equal(gather(rig->packet, form, offset, max, bytes), size + SIZE - offset);
            assert_memory_equal(bytes, whole + offset, size + SIZE - offset);
        }
}

static void a_message_is_one_chunk(void **state) {
    (void)state;
    static const uint8_t video[] = {6, 1, 2, 3, 0, 1, 44, 9, 1, 0, 0, 0};
    static const uint8_t audio[] = {4, 0, 0, 0, 0, 1, 44, 8, 1, 0, 0, 0};
    static const uint8_t data[] = {5, 0xff, 0xff, 0xfe, 0, 1, 44, 18, 1, 0, 0, 0};
    const struct packet_form form = {.format = &wire_rtmp, .chunk_size = SIZE};
    struct rig rig;
    rig_open(&rig, SLUICE_FLV_VIDEO, 0x010203);
    check(&rig, &form, video, sizeof video);
    rig_close(&rig);
    rig_open(&rig, SLUICE_FLV_AUDIO, 0);
    check(&rig, &form, audio, sizeof audio);
    rig_close(&rig);
    rig_open(&rig, SLUICE_FLV_SCRIPT, 0xfffffe);
    check(&rig, &form, data, sizeof data);
    rig_close(&rig);
}

static void late_times_are_extended(void **state) {
    (void)state;
    static const uint8_t at_bound[] = {6, 0xff, 0xff, 0xff, 0, 1, 44, 9, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff};
    static const uint8_t beyond[] = {6, 0xff, 0xff, 0xff, 0, 1, 44, 9, 1, 0, 0, 0, 0x80, 4, 5, 6};
    const struct packet_form form = {.format = &wire_rtmp, .chunk_size = SIZE};
    struct rig rig;
    rig_open(&rig, SLUICE_FLV_VIDEO, 0xffffff);
    check(&rig, &form, at_bound, sizeof at_bound);
    rig_close(&rig);
    rig_open(&rig, SLUICE_FLV_VIDEO, 0x80040506);
    check(&rig, &form, beyond, sizeof beyond);
    rig_close(&rig);
}

/* As another server numbers it, to which the stream is sent. */
static void the_message_stream_is_the_players(void **state) {
    (void)state;
    static const uint8_t video[] = {6, 1, 2, 3, 0, 1, 44, 9, 5, 0, 0, 9};
    static const uint8_t beyond[] = {6, 0xff, 0xff, 0xff, 0, 1, 44, 9, 5, 0, 0, 9, 0x80, 4, 5, 6};
    const struct packet_form form = {.format = &wire_rtmp, .chunk_size = SIZE, .message_stream = {5, 0, 0, 9}};
    struct rig rig;
    rig_open(&rig, SLUICE_FLV_VIDEO, 0x010203);
    check(&rig, &form, video, sizeof video);
    rig_close(&rig);
    rig_open(&rig, SLUICE_FLV_VIDEO, 0x80040506);
    check(&rig, &form, beyond, sizeof beyond);
    rig_close(&rig);
}

/* In one chunk it could not be sent. */
static void what_is_larger_than_a_chunk_is_left_out(void **state) {
    (void)state;
    const struct packet_form exact = {.format = &wire_rtmp, .chunk_size = SIZE};
    const struct packet_form small = {.format = &wire_rtmp, .chunk_size = SIZE - 1};
    struct rig rig;
    rig_open(&rig, SLUICE_FLV_VIDEO, 0);
    assert_true(wire_rtmp.has(rig.packet, &exact));
    assert_false(wire_rtmp.has(rig.packet, &small));
    rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_is_one_chunk),
        cmocka_unit_test(late_times_are_extended),
        cmocka_unit_test(the_message_stream_is_the_players),
        cmocka_unit_test(what_is_larger_than_a_chunk_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
