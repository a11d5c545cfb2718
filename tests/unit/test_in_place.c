/*
 * Zero-copy, seen at the addresses: what a player is sent of a payload lies in the blocks that were
 * received, each byte where it came, whatever the player is sent it as. Only what is around the
 * payload is elsewhere.
 */
#include "daemon/relay/player_list.h"
#include "daemon/relay/registry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/base/log.h"
#include "daemon/relay/rtp_packetizer.h"
#include "support/publishing.h"
#include "support/sockets.h"
#include "support/taking.h"

enum {
    GUARD = 60,
    BLOCK = 4096,
    FRAMES = 50,
    FRAME = 10000, /* bytes of a frame's payload: more than two blocks */
    UNIT = 9,      /* where the one unit of H.264 begins in it */
    BLOCKS = 4,    /* of a frame's tag, at most */
    PIECES = 256,  /* of one send */
    /* bytes of a tag that are no payload, with those of a chunk or a message, at most */
    AROUND_TAG = 64,
    AROUND_PACKET = 32, /* and of an RTP packet */
    PACKET = 1000,      /* bytes of an RTP packet at least, but for the last */
    CLOCK = 1000000,
};

void __wrap_sluice_conn_want_send(sluice_conn *conn);
uint64_t __wrap_sluice_loop_now(const sluice_loop *loop);

void __wrap_sluice_conn_want_send(sluice_conn *conn) {
    (void)conn;
}

uint64_t __wrap_sluice_loop_now(const sluice_loop *loop) {
    (void)loop;
    return CLOCK;
}

/* The blocks of a tag, as they were received. The stream keeps them: they cannot be others'
 * meanwhile. */
typedef struct received {
    const uint8_t *data[BLOCKS];
    size_t lengths[BLOCKS];
    size_t count;
} received;

typedef struct relay {
    loop_rig loop;
    struct registry *registry;
    struct stream *stream;
    struct player player;
    sluice_chain *chain;
    sluice_flv *flv;
    received last;
} relay;

/* As a receive does it. */
static void receive(relay *r, const uint8_t *bytes, size_t size) {
    r->last.count = 0;
    for (size_t done = 0, here; done < size; done += here, r->last.count++) {
        sluice_block *block;
        here = size - done < BLOCK ? size - done : BLOCK;
        assert_true(r->last.count < BLOCKS);
        assert_int_equal(sluice_block_get(r->loop.pool, &block), 0);
        memcpy(sluice_block_data(block), bytes + done, here);
        assert_int_equal(sluice_block_set_length(block, (uint32_t)here), 0);
        r->last.data[r->last.count] = sluice_block_data(block);
        r->last.lengths[r->last.count] = here;
        sluice_chain_append(r->chain, block);
    }
}

static void publish(relay *r, const uint8_t *payload, uint32_t size, uint32_t timestamp) {
    uint8_t bytes[SLUICE_FLV_TAG_HEADER_SIZE + FRAME + SLUICE_FLV_TRAILER_SIZE];
    sluice_flv_tag *tag;
    sluice_flv_write_tag_header(bytes, SLUICE_FLV_VIDEO, size, timestamp);
    memcpy(bytes + SLUICE_FLV_TAG_HEADER_SIZE, payload, size);
    sluice_flv_write_trailer(bytes + SLUICE_FLV_TAG_HEADER_SIZE + size, size);
    receive(r, bytes, SLUICE_FLV_TAG_HEADER_SIZE + size + SLUICE_FLV_TRAILER_SIZE);
    assert_int_equal(sluice_flv_next(r->flv, r->chain, &tag), 1);
    assert_int_equal(stream_publish(r->stream, tag, SLUICE_FLV_HAS_VIDEO), 0);
}

static void publish_header(relay *r) {
    static const uint8_t header[] = {0x17, 0, 0, 0, 0, 1, 0x64, 0, 10, 0xff, 0xe0, 0};
    publish(r, header, sizeof header, 0);
}

static void publish_frame(relay *r, unsigned number) {
    const uint32_t unit = FRAME - UNIT;
    const uint8_t head[] = {number == 0 ? 0x17 : 0x27,
                            1,
                            0,
                            0,
                            0,
                            (uint8_t)(unit >> 24),
                            (uint8_t)(unit >> 16),
                            (uint8_t)(unit >> 8),
                            (uint8_t)unit,
                            number == 0 ? 0x65 : 0x41};
    uint8_t payload[FRAME];
    pattern_fill(number, 0, payload, sizeof payload);
    memcpy(payload, head, sizeof head);
    publish(r, payload, sizeof payload, number * 40);
}

static void relay_open(relay *r, const struct wire_format *format) {
    static const struct stream_policies policies = {.all = {.gop_size = 16 << 20, .player_buffer = 16 << 20}};
    const struct stream_limits limits = {.packet_bytes = 16 << 20, .policies = &policies};
    *r = (relay){.player = {.form = {.format = format, .tracks = {true}, .chunk_size = FRAME}}};
    log_set_level(LOG_ERROR);
    loop_rig_open(
        &r->loop,
        &(sluice_pool_options){.size = sizeof(sluice_pool_options), .block_size = BLOCK, .no_huge_pages = true}, NULL,
        GUARD);
    assert_int_equal(registry_new(r->loop.loop, &limits, &r->registry), 0);
    assert_int_equal(registry_get(r->registry, "live/a", strlen("live/a"), CLOCK, &r->stream), 0);
    publishing_begin(r->stream, r->loop.pool, &r->chain, &r->flv);
    publish_header(r);
    publish_frame(r, 0);
    if (format != &wire_rtp) {
        stream_add_player(r->stream, &r->player);
        return;
    }
    stream_add_asking(r->stream, &r->player);
    assert_non_null(r->stream->rtp);
    r->player.description = r->stream->rtp->description;
    stream_play(r->stream, &r->player);
}

static void relay_close(relay *r) {
    stream_remove_player(r->stream, &r->player);
    player_clear(&r->player);
    sluice_chain_free(r->chain);
    sluice_flv_free(r->flv);
    stream_detach(r->stream, CLOCK);
    stream_unref(r->stream);
    registry_free(r->registry);
    loop_rig_close(&r->loop);
    hang_guard(0);
}

/* Where in the tag the piece was received; -1: it lies elsewhere. It is of one block, as far as
 * that was filled. */
static int64_t place_of(const received *r, const struct iovec *piece) {
    const uint8_t *base = piece->iov_base;
    size_t before = 0;
    for (size_t i = 0; i < r->count; before += r->lengths[i++]) {
        if (base < r->data[i] || base >= r->data[i] + BLOCK)
            continue;
        assert_true(base + piece->iov_len <= r->data[i] + r->lengths[i]);
        return (int64_t)(before + (size_t)(base - r->data[i]));
    }
    return -1;
}

/* What is sent now is the payload from @from on, where it was received, and no more than @around
 * bytes besides. */
static void check_sent(relay *r, size_t from, size_t around) {
    struct iovec pieces[PIECES];
    size_t place = SLUICE_FLV_TAG_HEADER_SIZE + from, besides = 0, count;
    while ((count = player_gather(&r->player, pieces, PIECES)) > 0) {
        size_t bytes = 0;
        for (size_t i = 0; i < count; i++) {
            int64_t at = place_of(&r->last, &pieces[i]);
            bytes += pieces[i].iov_len;
            if (at < 0) {
                besides += pieces[i].iov_len;
                continue;
            }
            assert_int_equal(at, place);
            place += pieces[i].iov_len;
        }
        player_sent(&r->player, bytes);
    }
    assert_int_equal(place, SLUICE_FLV_TAG_HEADER_SIZE + FRAME);
    assert_in_range(besides, 1, around);
}

static void relay_in_place(const struct wire_format *format, size_t from, size_t around) {
    relay r;
    relay_open(&r, format);
    take_queued(&r.player);
    for (unsigned number = 1; number < FRAMES; number++) {
        publish_frame(&r, number);
        check_sent(&r, from, around);
    }
    relay_close(&r);
}

static void tags_are_sent_from_the_blocks_received(void **state) {
    (void)state;
    relay_in_place(&wire_flv, 0, AROUND_TAG);
}

static void chunks_are_sent_from_the_blocks_received(void **state) {
    (void)state;
    relay_in_place(&wire_flv_chunked, 0, AROUND_TAG);
}

static void messages_are_sent_from_the_blocks_received(void **state) {
    (void)state;
    relay_in_place(&wire_flv_websocket, 0, AROUND_TAG);
}

static void rtmp_is_sent_from_the_blocks_received(void **state) {
    (void)state;
    relay_in_place(&wire_rtmp, 0, AROUND_TAG);
}

/* The unit's first byte is in each packet's own header: a fragment says of what it is one. */
static void packets_are_sent_from_the_blocks_received(void **state) {
    (void)state;
    relay_in_place(&wire_rtp, UNIT + 1, (FRAME / PACKET + 1) * AROUND_PACKET);
}

/* A decoder's header stays as long as its publisher: it is the one payload that is copied, and the
 * block in which it came is free. */
static void a_header_holds_no_block(void **state) {
    (void)state;
    sluice_pool_stats stats = {.size = sizeof stats};
    relay r;
    relay_open(&r, &wire_flv);
    take_queued(&r.player);
    sluice_pool_get_stats(r.loop.pool, &stats);
    uint32_t before = stats.held;
    uint64_t held = r.stream->blocks_held;
    publish_header(&r);
    sluice_pool_get_stats(r.loop.pool, &stats);
    assert_int_equal(stats.held, before);
    assert_int_equal(r.stream->blocks_held, held);
    assert_int_equal(r.stream->copies, 2); /* the one before is in the group */
    relay_close(&r);
}

/* Headers without end are in the group, each. A stream has so many copies, and the next is in its
 * block; when the group goes, they come back. */
static void a_stream_has_so_many_copies(void **state) {
    (void)state;
    enum { MOST = 2 * TRACKS_HEADERS };
    relay r;
    relay_open(&r, &wire_flv);
    take_queued(&r.player);
    while (r.stream->copies < MOST)
        publish_header(&r);
    uint64_t held = r.stream->blocks_held;
    publish_header(&r);
    assert_int_equal(r.stream->copies, MOST);
    assert_int_equal(r.stream->blocks_held, held + 1);
    take_queued(&r.player);
    publish_frame(&r, 0);
    assert_int_equal(r.stream->copies, 0);
    publish_header(&r);
    assert_int_equal(r.stream->copies, 1);
    relay_close(&r);
}

/* They are bounded by --gop-size as if each were a block. */
static void a_group_of_headers_is_bounded(void **state) {
    (void)state;
    enum { MOST = 20 };
    relay r;
    relay_open(&r, &wire_flv);
    r.stream->policy.gop_size = MOST * BLOCK;
    while (r.stream->gop.blocks < MOST)
        publish_header(&r);
    assert_true(r.stream->gop.count > MOST / 2);
    publish_header(&r);
    assert_int_equal(r.stream->gop.count, 0);
    relay_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_holds_no_block),
        cmocka_unit_test(a_stream_has_so_many_copies),
        cmocka_unit_test(a_group_of_headers_is_bounded),
        cmocka_unit_test(tags_are_sent_from_the_blocks_received),
        cmocka_unit_test(chunks_are_sent_from_the_blocks_received),
        cmocka_unit_test(messages_are_sent_from_the_blocks_received),
        cmocka_unit_test(rtmp_is_sent_from_the_blocks_received),
        cmocka_unit_test(packets_are_sent_from_the_blocks_received),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
