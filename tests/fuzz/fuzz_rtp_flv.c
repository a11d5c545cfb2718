/*
 * RTP to FLV: the input is a list of packets for two tracks, whose codecs the settings choose; "f"
 * is a record that holds the fmtp parameters of SDP. The tags, written one after the other, are FLV
 * to the framer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/rtp_flv.h>

#include "fuzz/fuzz.h"

typedef struct session {
    sluice_rtp_flv *flv;
    sluice_flv *framer;
    sluice_chain *written; /* what the framer reads */
    uint64_t now;
    uint32_t last[32]; /* times, by the type */
} session;

/* What the framer says of a tag is what the session has said. */
static void check_tag(fuzz_run *run, session *s, const sluice_flv_tag *tag) {
    uint8_t header[SLUICE_FLV_TAG_HEADER_SIZE], trailer[SLUICE_FLV_TRAILER_SIZE];
    sluice_flv_tag *again;
    sluice_flv_write_tag_header(header, tag->type, tag->size, tag->timestamp);
    sluice_flv_write_trailer(trailer, tag->size);
    fuzz_append(run, s->written, header, sizeof header);
    FUZZ_CHECK(sluice_chain_append_slice(s->written, &tag->payload) == 0);
    fuzz_append(run, s->written, trailer, sizeof trailer);
    FUZZ_CHECK(sluice_flv_next(s->framer, s->written, &again) == 1);
    FUZZ_CHECK(again->type == tag->type && again->timestamp == tag->timestamp && again->size == tag->size);
    FUZZ_CHECK(again->trailer_ok && again->view.codec == tag->view.codec && again->view.packet == tag->view.packet);
    FUZZ_CHECK(again->view.key_frame == tag->view.key_frame && again->view.header_size == tag->view.header_size);
    FUZZ_CHECK(again->view.composition_time == tag->view.composition_time);
    FUZZ_CHECK(again->view.channels == tag->view.channels && again->view.sample_rate == tag->view.sample_rate);
    FUZZ_CHECK(fuzz_hash(&again->payload) == fuzz_hash(&tag->payload));
}

static void drain(fuzz_run *run, session *s) {
    sluice_flv_tag *tag;
    int result;
    unsigned rounds = 0;
    while ((result = sluice_rtp_flv_next(s->flv, &tag)) != 0) {
        FUZZ_CHECK(rounds++ < 100000);
        if (result == -EMSGSIZE) {
            fuzz_show(run, "too large", 1);
            continue;
        }
        FUZZ_CHECK(result == 1); /* there is memory enough */
        FUZZ_CHECK(tag->size == sluice_slice_length(&tag->payload) && tag->size > 0);
        fuzz_show(run, "tag", tag->type);
        fuzz_show(run, "timestamp", tag->timestamp);
        fuzz_show(run, "packet", tag->view.packet);
        fuzz_show(run, "key", tag->view.key_frame);
        fuzz_show(run, "composition time", tag->view.composition_time);
        fuzz_show_slice(run, "payload", &tag->payload);
        if (tag->view.packet == SLUICE_FLV_FRAME) {
            FUZZ_CHECK(tag->timestamp >= s->last[tag->type % 32]);
            s->last[tag->type % 32] = tag->timestamp;
        }
        check_tag(run, s, tag);
        fuzz_keep(run, &tag->payload);
    }
}

/* The first records may be fmtp parameters: the first track's, the second's. */
static void add_tracks(fuzz_run *run, session *s) {
    static const uint32_t codecs[] = {SLUICE_CODEC_H264, SLUICE_CODEC_HEVC, SLUICE_CODEC_AAC,
                                      SLUICE_CODEC_OPUS, SLUICE_CODEC_PCMA, SLUICE_CODEC_PCMU};
    for (unsigned i = 0; i < SLUICE_RTP_FLV_TRACKS; i++) {
        sluice_codec_config config;
        sluice_rtp_unpacker_options options = {.size = sizeof options, .latm = run->settings[i] & 64};
        unsigned codec = run->settings[i] % 6;
        FUZZ_CHECK(sluice_codec_init(&config, codecs[codec], codec > 3 ? 8000 : 0, 1 + (run->settings[i] >> 7)) == 0);
        if (run->done < run->size && run->bytes[run->done] == 'f') {
            const uint8_t *bytes;
            size_t size;
            uint8_t kind;
            if (!fuzz_record(run, &kind, &bytes, &size))
                break;
            char *text = fuzz_copy(bytes, size);
            fuzz_show(run, "fmtp", sluice_codec_read_fmtp(&config, (sluice_http_text){text, size}, &options));
            free(text);
        }
        fuzz_show(run, "add", sluice_rtp_flv_add(s->flv, &config, &options, SLUICE_RTP_FLV_ANY));
    }
    fuzz_show(run, "flags", sluice_rtp_flv_flags(s->flv));
}

static void show_end(fuzz_run *run, session *s) {
    for (unsigned i = 0; i < SLUICE_RTP_FLV_TRACKS; i++) {
        sluice_rtp_flv_stats stats = {.size = sizeof stats};
        uint8_t report[SLUICE_RTP_FLV_REPORT_SIZE];
        if (sluice_rtp_flv_get_stats(s->flv, i, &stats) != 0)
            continue;
        fuzz_show_bytes(run, "stats", &stats, sizeof stats);
        int size = sluice_rtp_flv_report(s->flv, i, 7, s->now, "a@b", report, sizeof report);
        fuzz_show(run, "report", size);
        if (size > 0)
            fuzz_show_bytes(run, "report", report, (size_t)size);
        FUZZ_CHECK(sluice_rtp_flv_config(s->flv, i));
    }
}

void fuzz_target(fuzz_run *run) {
    session s = {.now = 1000000000};
    uint8_t kind, header[SLUICE_FLV_HEADER_SIZE];
    const uint8_t *bytes;
    size_t size;
    FUZZ_CHECK(sluice_rtp_flv_new(run->pool, &s.flv) == 0);
    FUZZ_CHECK(sluice_flv_new(SLUICE_FLV_MAX_PAYLOAD, &s.framer) == 0);
    FUZZ_CHECK(sluice_chain_new(run->pool, &s.written) == 0);
    sluice_flv_write_header(header, SLUICE_FLV_HAS_AUDIO | SLUICE_FLV_HAS_VIDEO);
    fuzz_append(run, s.written, header, sizeof header);
    add_tracks(run, &s);
    drain(run, &s);
    while (fuzz_record(run, &kind, &bytes, &size)) {
        sluice_slice slice = fuzz_slice(run, bytes, size);
        unsigned track = kind >> 1 & 1;
        s.now += (uint64_t)(kind >> 2) * 5000000;
        if (kind & 1) {
            bool bye = false;
            fuzz_show(run, "rtcp", sluice_rtp_flv_push_rtcp(s.flv, track, &slice, s.now, &bye));
            fuzz_show(run, "bye", bye);
        } else {
            fuzz_show(run, "rtp", sluice_rtp_flv_push(s.flv, track, &slice, s.now));
        }
        sluice_slice_release(&slice);
        drain(run, &s);
    }
    sluice_rtp_flv_flush(s.flv);
    drain(run, &s);
    show_end(run, &s);
    sluice_rtp_flv_free(s.flv);
    sluice_flv_free(s.framer);
    sluice_chain_free(s.written);
}
