/* FLV to RTP: an FLV stream's tags as packets of two tracks, which are RTP to a receiver. */
#include <string.h>

#include <sluice/flv.h>
#include <sluice/flv_rtp.h>

#include "fuzz/fuzz.h"

typedef struct player {
    sluice_flv *flv;
    sluice_flv_rtp *tracks[2];
    uint32_t max_packet;
} player;

static void check_packet(fuzz_run *run, const player *p, const sluice_flv_rtp_packet *packet) {
    sluice_chain *chain;
    sluice_slice whole;
    sluice_rtp_packet read;
    size_t size = packet->header_size + sluice_slice_length(&packet->slice);
    FUZZ_CHECK(size <= p->max_packet && sluice_slice_length(&packet->slice) > 0);
    FUZZ_CHECK(sluice_chain_new(run->pool, &chain) == 0);
    fuzz_append(run, chain, packet->header, packet->header_size);
    FUZZ_CHECK(sluice_chain_append_slice(chain, &packet->slice) == 0);
    FUZZ_CHECK(sluice_chain_take(chain, size, &whole) == 0);
    FUZZ_CHECK(sluice_rtp_read(&whole, &read) == 0);
    FUZZ_CHECK(read.marker == packet->marker && read.timestamp == packet->timestamp);
    FUZZ_CHECK(read.sequence == packet->sequence && read.payload_length == size - SLUICE_RTP_HEADER_SIZE);
    sluice_slice_release(&whole);
    sluice_chain_free(chain);
}

static void send_tag(fuzz_run *run, const player *p, sluice_flv_rtp *rtp, const sluice_flv_tag *tag) {
    sluice_flv_rtp_packet packet;
    uint16_t sequence = sluice_flv_rtp_sequence(rtp);
    int result = sluice_flv_rtp_push(rtp, tag->type, tag->timestamp, &tag->payload);
    fuzz_show(run, "push", result);
    while ((result = sluice_flv_rtp_next(rtp, &packet)) == 1) {
        FUZZ_CHECK(packet.sequence == sequence);
        sequence++;
        fuzz_show_bytes(run, "header", packet.header, packet.header_size);
        fuzz_show(run, "key", packet.begins_key);
        fuzz_show_slice(run, "rest", &packet.slice);
        check_packet(run, p, &packet);
    }
    fuzz_show(run, "sent", result);
    FUZZ_CHECK(sluice_flv_rtp_next(rtp, &packet) == 0);
}

static int next(void *state, sluice_chain *chain, fuzz_run *run) {
    const player *p = state;
    sluice_flv_tag *tag;
    int result = sluice_flv_next(p->flv, chain, &tag);
    if (result != 1)
        return result;
    for (unsigned i = 0; i < 2; i++)
        send_tag(run, p, p->tracks[i], tag);
    fuzz_keep(run, &tag->payload);
    return 1;
}

static size_t need(const void *state) {
    return sluice_flv_need(((const player *)state)->flv);
}

static void show_track(fuzz_run *run, const sluice_flv_rtp *rtp) {
    const sluice_codec_config *config = sluice_flv_rtp_config(rtp);
    sluice_flv_rtp_stats stats = {.size = sizeof stats};
    uint8_t report[400];
    sluice_flv_rtp_get_stats(rtp, &stats);
    fuzz_show_bytes(run, "stats", &stats, sizeof stats);
    int size = sluice_flv_rtp_report(rtp, 9ULL << 61, (9ULL << 61) + (77ULL << 32), "a@b", report, sizeof report);
    fuzz_show(run, "report", size);
    if (size > 0)
        fuzz_show_bytes(run, "report", report, (size_t)size);
    FUZZ_CHECK((config != NULL) == (size > 0));
    if (!config)
        return;
    char fmtp[SLUICE_CODEC_MAX_FMTP];
    size = sluice_codec_write_fmtp(config, fmtp, sizeof fmtp);
    FUZZ_CHECK(size >= 0);
    fuzz_show_bytes(run, "fmtp", fmtp, (size_t)size);
    fuzz_show(run, "time", sluice_flv_rtp_timestamp(rtp, 12345));
}

void fuzz_target(fuzz_run *run) {
    static const uint32_t limits[] = {64, 200, 1400, 65535};
    player p = {.max_packet = limits[run->settings[0] % 4]};
    FUZZ_CHECK(sluice_flv_new(0, &p.flv) == 0);
    for (unsigned i = 0; i < 2; i++) {
        const sluice_flv_rtp_options options = {.size = sizeof options,
                                                .type = i ? SLUICE_FLV_AUDIO : SLUICE_FLV_VIDEO,
                                                .payload_type = 96,
                                                .ssrc = 1,
                                                .sequence = 65530,
                                                .timestamp = UINT32_MAX - 5000,
                                                .max_packet = p.max_packet};
        FUZZ_CHECK(sluice_flv_rtp_new(&options, &p.tracks[i]) == 0);
    }
    fuzz_drive(run, &(fuzz_framer){next, need}, &p);
    for (unsigned i = 0; i < 2; i++) {
        show_track(run, p.tracks[i]);
        sluice_flv_rtp_free(p.tracks[i]);
    }
    sluice_flv_free(p.flv);
}
