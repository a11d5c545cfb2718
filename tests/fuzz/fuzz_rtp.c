/*
 * RTP and RTCP: the input is a list of packets, of which the first setting chooses the payload
 * format, a record's first byte whether it is RTP or RTCP.
 */
#include <errno.h>
#include <string.h>

#include <sluice/rtp.h>

#include "fuzz/fuzz.h"

typedef struct receiver {
    sluice_rtp_unpacker *unpacker;
    sluice_rtp_source source;
    sluice_rtp_clock clock;
    sluice_rtp_unpacker_options options;
} receiver;

static void show_unit(fuzz_run *run, sluice_rtp_unit *unit) {
    size_t length = 0, pieces = 0;
    fuzz_show(run, "unit", unit->timestamp);
    fuzz_show(run, "sequence", (int64_t)unit->sequence);
    fuzz_show(run, "flags", unit->key << 1 | unit->damaged);
    for (size_t i = 0; i < unit->nal_count; i++) {
        const sluice_rtp_nal *nal = &unit->nals[i];
        size_t in_nal = nal->header_size;
        FUZZ_CHECK(nal->first == pieces && nal->count <= unit->piece_count - pieces && nal->header_size <= 2);
        fuzz_show(run, "nal", nal->type);
        fuzz_show_bytes(run, "header", nal->header, nal->header_size);
        for (size_t k = 0; k < nal->count; k++) {
            FUZZ_CHECK(sluice_slice_length(&unit->pieces[nal->first + k]) > 0);
            in_nal += sluice_slice_length(&unit->pieces[nal->first + k]);
            fuzz_gather(run, &unit->pieces[nal->first + k]);
            fuzz_keep(run, &unit->pieces[nal->first + k]);
        }
        fuzz_show_gathered(run, "nal");
        FUZZ_CHECK(in_nal == nal->length);
        pieces += nal->count;
        length += in_nal;
    }
    FUZZ_CHECK(unit->nal_count > 0 && pieces == unit->piece_count && length == unit->length);
}

static void drain(fuzz_run *run, receiver *r) {
    sluice_rtp_unit *unit;
    int result;
    unsigned rounds = 0;
    while ((result = sluice_rtp_unpacker_next(r->unpacker, &unit)) != 0) {
        FUZZ_CHECK(rounds++ < 100000);
        if (result == 1)
            show_unit(run, unit);
        else
            fuzz_show(run, "refused", result);
    }
}

static void show_packet(fuzz_run *run, const sluice_rtp_packet *packet, size_t size) {
    fuzz_show(run, "packet", packet->marker << 7 | packet->payload_type);
    fuzz_show(run, "number", packet->sequence);
    fuzz_show(run, "timestamp", packet->timestamp);
    fuzz_show(run, "ssrc", packet->ssrc);
    fuzz_show_bytes(run, "csrc", packet->csrc, packet->csrc_count * sizeof *packet->csrc);
    fuzz_show(run, "extension", packet->has_extension ? packet->extension_profile : -1);
    fuzz_show(run, "padding", packet->padding);
    if (packet->has_extension)
        FUZZ_CHECK(packet->extension_offset + packet->extension_length <= packet->payload_offset);
    FUZZ_CHECK(packet->payload_offset + packet->payload_length + packet->padding == size);
}

static void take_packet(fuzz_run *run, receiver *r, const sluice_slice *slice) {
    sluice_rtp_packet packet;
    uint64_t sequence = 0;
    int result = sluice_rtp_read(slice, &packet);
    fuzz_show(run, "rtp", result);
    if (result != 0)
        return;
    show_packet(run, &packet, sluice_slice_length(slice));
    sluice_rtp_arrival arrival = sluice_rtp_note(&r->source, packet.sequence, &sequence);
    fuzz_show(run, "arrival", arrival);
    sluice_rtp_note_time(&r->source, packet.timestamp, (uint32_t)r->source.received * 90);
    fuzz_show(run, "unwrapped", sluice_rtp_unwrap(&r->clock, packet.timestamp));
    if (arrival == SLUICE_RTP_SUSPECT)
        return;
    fuzz_show(run, "push", sluice_rtp_unpacker_push(r->unpacker, slice, &packet, sequence));
    drain(run, r);
}

static void show_compound(fuzz_run *run, const sluice_slice *slice) {
    sluice_rtcp_packet packet;
    size_t offset = 0, before = 0;
    int result;
    while ((result = sluice_rtcp_next(slice, &offset, &packet)) == 1) {
        FUZZ_CHECK(packet.offset == before && packet.offset + packet.length == offset);
        before = offset;
        fuzz_show(run, "rtcp", packet.type);
        fuzz_show(run, "length", (int64_t)packet.length);
        if (packet.type < SLUICE_RTCP_SR || packet.type > SLUICE_RTCP_BYE)
            continue;
        fuzz_show(run, "ssrc", packet.ssrc);
        fuzz_show(run, "count", packet.count);
        FUZZ_CHECK(packet.count <= SLUICE_RTCP_MAX_REPORTS);
        if (packet.type == SLUICE_RTCP_SR) {
            fuzz_show(run, "ntp", (int64_t)packet.ntp);
            fuzz_show(run, "sent", (int64_t)((uint64_t)packet.packets << 32 | packet.octets));
        }
        if (packet.type <= SLUICE_RTCP_RR) {
            for (size_t i = 0; i < packet.count; i++) {
                fuzz_show(run, "of", packet.reports[i].ssrc);
                fuzz_show(run, "lost", packet.reports[i].lost);
                fuzz_show(run, "jitter", packet.reports[i].jitter);
            }
        } else {
            fuzz_show_bytes(run, "sources", packet.sources, packet.count * sizeof *packet.sources);
            sluice_slice text;
            FUZZ_CHECK(sluice_slice_sub(slice, packet.text_offset, packet.text_length, &text) == 0);
            fuzz_show_slice(run, "text", &text);
            sluice_slice_release(&text);
        }
    }
    fuzz_show(run, "compound", result);
    FUZZ_CHECK(offset == sluice_slice_length(slice));
}

static void show_report(fuzz_run *run, receiver *r) {
    sluice_rtcp_report report;
    const sluice_rtp_source *source = &r->source;
    FUZZ_CHECK(source->lost <= INT64_MAX && source->since <= source->received);
    sluice_rtp_report(&r->source, 1, 0, 0, 0, &report);
    fuzz_show(run, "lost", report.lost);
    fuzz_show(run, "fraction", report.fraction_lost);
    fuzz_show(run, "highest", report.highest);
    fuzz_show(run, "jitter", report.jitter);
}

void fuzz_target(fuzz_run *run) {
    uint8_t how = run->settings[0], sizes = run->settings[1];
    receiver r = {.options = {.size = sizeof r.options, .latm = how & 4}};
    if (how & 8)
        r.options.max_unit = 200;
    if (how & 16)
        r.options.max_pieces = 5;
    if (how & 32)
        r.options.max_nals = 3;
    if (how & 64) {
        static const uint8_t lengths[] = {6, 13, 16}, indexes[] = {0, 2, 3};
        r.options.size_length = lengths[sizes % 3];
        r.options.index_length = indexes[(sizes >> 4) % 3];
        r.options.index_delta_length = indexes[(sizes >> 6) % 3];
    }
    FUZZ_CHECK(sluice_rtp_unpacker_new((sluice_rtp_format)(how % 4), &r.options, &r.unpacker) == 0);
    uint8_t kind;
    const uint8_t *bytes;
    size_t size;
    while (fuzz_record(run, &kind, &bytes, &size)) {
        sluice_slice slice = fuzz_slice(run, bytes, size);
        if (kind % 2)
            show_compound(run, &slice);
        else
            take_packet(run, &r, &slice);
        sluice_slice_release(&slice);
    }
    sluice_rtp_unpacker_flush(r.unpacker);
    drain(run, &r);
    show_report(run, &r);
    sluice_rtp_unpacker_free(r.unpacker);
}
