/* FLV to RTP to FLV in its steady state allocates nothing and copies nothing. */
#include <sluice/rtp_flv.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <sluice/flv_rtp.h>

#include "support/allocations.h"
#include "support/feed.h"
#include "support/http_feed.h"
#include "support/vectors.h"

enum { TAGS = 100, WARM_UP = 3, ROUNDS = 200, ROUND_MS = 1300 };

/* The tags of a file, kept, and the way there and back. */
struct remux {
    sluice_pool *pool;
    sluice_flv_tag tags[TAGS];
    size_t tag_count, frame_count;
    sluice_flv_rtp *tracks[2];
    sluice_rtp_flv *flv;
    sluice_chain *wire;
    unsigned long frames, packets;
};

static void read_file(struct remux *r, const char *name) {
    size_t size;
    uint8_t *bytes = vector_read(name, &size);
    sluice_flv *flv;
    sluice_flv_tag *tag;
    assert_int_equal(sluice_flv_new(0, &flv), 0);
    feed(r->wire, r->pool, bytes, size, 0);
    while (sluice_flv_next(flv, r->wire, &tag) == 1) {
        if (tag->type == SLUICE_FLV_SCRIPT)
            continue;
        assert_true(r->tag_count < TAGS);
        r->frame_count += tag->view.packet == SLUICE_FLV_FRAME;
        r->tags[r->tag_count] = *tag;
        assert_int_equal(sluice_slice_take(&tag->payload, &r->tags[r->tag_count++].payload), 0);
    }
    sluice_flv_free(flv);
    free(bytes);
}

/* The packet is received again: its header in a block of its own, the rest by reference. */
static void transfer(struct remux *r, int kind, const sluice_flv_rtp_packet *packet, uint64_t now) {
    sluice_slice slice;
    sluice_flv_tag *tag;
    http_feed_bytes(r->pool, r->wire, packet->header, packet->header_size);
    assert_int_equal(sluice_chain_append_slice(r->wire, &packet->slice), 0);
    assert_int_equal(sluice_chain_take(r->wire, sluice_chain_length(r->wire), &slice), 0);
    assert_int_equal(sluice_rtp_flv_push(r->flv, (unsigned)kind, &slice, now), 0);
    sluice_slice_release(&slice);
    while (sluice_rtp_flv_next(r->flv, &tag) == 1)
        r->frames += tag->view.packet == SLUICE_FLV_FRAME;
    r->packets++;
}

static void send_round(struct remux *r, uint32_t round) {
    for (size_t i = 0; i < r->tag_count; i++) {
        const sluice_flv_tag *tag = &r->tags[i];
        int kind = tag->type == SLUICE_FLV_AUDIO;
        uint32_t timestamp = tag->timestamp + round * ROUND_MS;
        sluice_flv_rtp_packet packet;
        assert_int_equal(sluice_flv_rtp_push(r->tracks[kind], tag->type, timestamp, &tag->payload), 0);
        if (round == 0 && tag->view.packet == SLUICE_FLV_SEQUENCE_HEADER)
            assert_int_equal(
                sluice_rtp_flv_add(r->flv, sluice_flv_rtp_config(r->tracks[kind]), NULL, SLUICE_RTP_FLV_ANY), kind);
        while (sluice_flv_rtp_next(r->tracks[kind], &packet) == 1)
            transfer(r, kind, &packet, timestamp * (uint64_t)1000000);
    }
}

static void nothing_is_allocated_or_copied(void **state) {
    (void)state;
    struct remux r = {.pool = http_feed_pool(4096, 1024)};
    r.wire = http_feed_chain(r.pool);
    read_file(&r, "flv-h264-aac.flv");
    assert_int_equal(sluice_rtp_flv_new(r.pool, &r.flv), 0);
    for (int kind = 0; kind < 2; kind++) {
        const sluice_flv_rtp_options options = {
            .size = sizeof options, .type = kind ? SLUICE_FLV_AUDIO : SLUICE_FLV_VIDEO, .max_packet = 300};
        assert_int_equal(sluice_flv_rtp_new(&options, &r.tracks[kind]), 0);
    }
    for (uint32_t round = 0; round < WARM_UP; round++)
        send_round(&r, round);
    unsigned long frames = r.frames, packets = r.packets;
#ifdef COUNTS_ALLOCATIONS
    unsigned long before = allocations;
#endif
    for (uint32_t round = WARM_UP; round < WARM_UP + ROUNDS; round++)
        send_round(&r, round);
#ifdef COUNTS_ALLOCATIONS
    assert_int_equal(allocations - before, 0);
#endif
    assert_int_equal(r.frames - frames, ROUNDS * r.frame_count);
    assert_true(r.packets - packets > ROUNDS * r.tag_count);
    for (size_t i = 0; i < r.tag_count; i++)
        sluice_slice_release(&r.tags[i].payload);
    for (int kind = 0; kind < 2; kind++)
        sluice_flv_rtp_free(r.tracks[kind]);
    sluice_rtp_flv_free(r.flv);
    sluice_chain_free(r.wire);
    http_feed_pool_done(r.pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_allocated_or_copied),
    };
    return cmocka_run_group_tests_name("rtp_allocations", tests, NULL, NULL);
}
