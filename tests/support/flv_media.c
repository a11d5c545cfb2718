#include "support/flv_media.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/feed.h"
#include "support/http_feed.h"
#include "support/slices.h"
#include "support/vectors.h"

void flv_media_add(flv_media *media, const sluice_flv_tag *tag) {
    uint8_t bytes[1 << 16];
    assert_true(media->count < FLV_MEDIA_MOST);
    flv_media_frame *frame = &media->frames[media->count++];
    size_t size = slice_bytes(&tag->payload, bytes, sizeof bytes);
    assert_int_equal(size, tag->size);
    *frame = (flv_media_frame){.type = tag->type, .view = tag->view, .timestamp = tag->timestamp};
    frame->size = size - tag->view.header_size;
    frame->bytes = malloc(frame->size + 1);
    assert_non_null(frame->bytes);
    memcpy(frame->bytes, bytes + tag->view.header_size, frame->size);
}

flv_media *flv_media_read(const char *name) {
    size_t size;
    uint8_t *bytes = vector_read(name, &size);
    flv_media *media = calloc(1, sizeof *media);
    sluice_pool *pool = http_feed_pool(4096, 1024);
    sluice_chain *chain = http_feed_chain(pool);
    sluice_flv *flv;
    sluice_flv_tag *tag;
    int result;
    assert_non_null(media);
    assert_int_equal(sluice_flv_new(0, &flv), 0);
    feed(chain, pool, bytes, size, 0);
    while ((result = sluice_flv_next(flv, chain, &tag)) == 1)
        if (tag->type != SLUICE_FLV_SCRIPT)
            flv_media_add(media, tag);
    assert_int_equal(result, 0);
    sluice_flv_free(flv);
    sluice_chain_free(chain);
    http_feed_pool_done(pool);
    free(bytes);
    return media;
}

void flv_media_free(flv_media *media) {
    for (size_t i = 0; media && i < media->count; i++)
        free(media->frames[i].bytes);
    free(media);
}

const flv_media_frame *flv_media_find(const flv_media *media, sluice_flv_type type, sluice_flv_packet packet,
                                      size_t number) {
    for (size_t i = 0; i < media->count; i++)
        if (media->frames[i].type == type && media->frames[i].view.packet == packet && number-- == 0)
            return &media->frames[i];
    return NULL;
}

static void compare_track(const flv_media *media, const flv_media *out, sluice_flv_type type, size_t unsent,
                          int64_t *offset) {
    size_t i = 0;
    uint32_t before = 0;
    for (; flv_media_find(media, type, SLUICE_FLV_FRAME, i + unsent); i++) {
        const flv_media_frame *a = flv_media_find(media, type, SLUICE_FLV_FRAME, i);
        const flv_media_frame *b = flv_media_find(out, type, SLUICE_FLV_FRAME, i);
        if (!b || a->size != b->size || memcmp(a->bytes, b->bytes, a->size) != 0)
            fail_msg("type %d, frame %zu of %zu bytes differs", (int)type, i, a->size);
        assert_int_equal(a->view.codec, b->view.codec);
        assert_int_equal(a->view.key_frame, b->view.key_frame);
        if (*offset == INT64_MIN)
            *offset = (int64_t)b->timestamp - a->timestamp;
        int64_t decoded = (int64_t)b->timestamp - a->timestamp - *offset;
        int64_t shown = decoded + b->view.composition_time - a->view.composition_time;
        if (decoded < -1 || decoded > 1 || shown < -1 || shown > 1)
            fail_msg("type %d, frame %zu: %u + %d, not %u + %d, offset %lld", (int)type, i, b->timestamp,
                     b->view.composition_time, a->timestamp, a->view.composition_time, (long long)*offset);
        assert_true(b->timestamp >= before);
        before = b->timestamp;
    }
    assert_null(flv_media_find(out, type, SLUICE_FLV_FRAME, i));
}

/* Samples may be cut into frames elsewhere: all of them together, and each frame's time by what is
 * before it. */
static bool compare_samples(const flv_media *media, const flv_media *out) {
    static uint8_t samples[1 << 20];
    const flv_media_frame *first = flv_media_find(media, SLUICE_FLV_AUDIO, SLUICE_FLV_FRAME, 0);
    const flv_media_frame *begin = flv_media_find(out, SLUICE_FLV_AUDIO, SLUICE_FLV_FRAME, 0), *frame;
    if (!first || (first->view.codec != SLUICE_CODEC_PCMA && first->view.codec != SLUICE_CODEC_PCMU))
        return false;
    size_t size = 0, at = 0;
    for (size_t i = 0; (frame = flv_media_find(media, SLUICE_FLV_AUDIO, SLUICE_FLV_FRAME, i)); i++) {
        memcpy(samples + size, frame->bytes, frame->size);
        size += frame->size;
    }
    for (size_t i = 0; (frame = flv_media_find(out, SLUICE_FLV_AUDIO, SLUICE_FLV_FRAME, i)); i++) {
        assert_true(size - at >= frame->size);
        assert_memory_equal(samples + at, frame->bytes, frame->size);
        assert_int_equal(frame->view.codec, first->view.codec);
        assert_int_equal(frame->view.channels, first->view.channels);
        uint32_t time = (uint32_t)(at / 8 / first->view.channels);
        if (frame->timestamp - begin->timestamp + 1 - time > 2)
            fail_msg("samples, frame %zu: %u, not %u", i, frame->timestamp - begin->timestamp, time);
        at += frame->size;
    }
    assert_int_equal(at, size);
    return true;
}

void flv_media_compare(const flv_media *media, const flv_media *out, size_t unsent) {
    int64_t offset = INT64_MIN;
    compare_track(media, out, SLUICE_FLV_VIDEO, 0, &offset);
    if (!compare_samples(media, out))
        compare_track(media, out, SLUICE_FLV_AUDIO, unsent, &offset);
}

static void begin_track(flv_media_track *track, const char *name, unsigned rate, unsigned channels) {
    *track = (flv_media_track){.unpacker.size = sizeof track->unpacker};
    uint32_t codec = sluice_codec_by_rtp_name((sluice_http_text){name, strlen(name)});
    assert_int_equal(sluice_codec_init(&track->config, codec, rate, (uint8_t)channels), 0);
}

size_t flv_media_tracks(const char *name, flv_media_track tracks[2]) {
    size_t size, count = 0;
    char *text = (char *)vector_read(name, &size);
    char *line = strstr(text, "m=");
    unsigned type, rate, channels;
    assert_non_null(line);
    for (char *next; line && (next = strchr(line, '\n')) && strncmp(line, "SETUP", 5) != 0; line = next + 1) {
        char codec[32];
        *next = '\0';
        line[strcspn(line, "\r")] = '\0';
        if (sscanf(line, "m=%*s 0 RTP/AVP %u", &type) == 1) {
            assert_true(count < 2);
            count++;
            if (type == 0 || type == 8) /* says all */
                begin_track(&tracks[count - 1], type ? "PCMA" : "PCMU", 8000, 1);
        } else if (sscanf(line, "a=rtpmap:%*u %31[^/]/%u/%u", codec, &rate, &channels) == 3) {
            begin_track(&tracks[count - 1], codec, rate, channels);
        } else if (sscanf(line, "a=rtpmap:%*u %31[^/]/%u", codec, &rate) == 2) {
            begin_track(&tracks[count - 1], codec, rate, 0);
        } else if (strncmp(line, "a=fmtp:", 7) == 0) {
            const char *fmtp = strchr(line, ' ');
            assert_non_null(fmtp);
            assert_int_equal(sluice_codec_read_fmtp(&tracks[count - 1].config, (sluice_http_text){fmtp, strlen(fmtp)},
                                                    &tracks[count - 1].unpacker),
                             0);
        }
    }
    free(text);
    return count;
}
