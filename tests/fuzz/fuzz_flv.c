/* FLV: tags, what their payloads are, and metadata. */
#include <string.h>

#include <sluice/flv.h>

#include "fuzz/fuzz.h"

static void show_view(fuzz_run *run, const sluice_flv_view *view) {
    fuzz_show(run, "codec", view->codec);
    fuzz_show(run, "packet", view->packet);
    fuzz_show(run, "flags", view->key_frame << 3 | view->many_tracks << 2 | view->enhanced << 1 | view->multitrack);
    fuzz_show(run, "track", view->track);
    fuzz_show(run, "frame type", view->frame_type);
    fuzz_show(run, "audio", view->audio_format << 8 | view->channels);
    fuzz_show(run, "rate", view->sample_rate);
    fuzz_show(run, "composition time", view->composition_time);
    fuzz_show(run, "header size", view->header_size);
}

/* Each track lies behind the one before, within the payload; a header for it can be written, and
 * says the same. */
static void show_tracks(fuzz_run *run, const sluice_flv_tag *tag) {
    sluice_flv_tracks place = {0};
    sluice_flv_track track;
    size_t at = 0;
    int result;
    while ((result = sluice_flv_next_track(&place, tag->type, &tag->payload, &track)) == 1) {
        uint8_t header[SLUICE_FLV_MAX_TRACK_HEADER];
        size_t size = sluice_slice_length(&track.slice);
        FUZZ_CHECK(track.header_size <= size && place.at >= at + size && place.at <= tag->size && place.at > at);
        at = place.at;
        fuzz_show(run, "id", track.id);
        fuzz_show(run, "codec", track.codec);
        fuzz_show(run, "packet", track.packet << 1 | track.key_frame);
        fuzz_show(run, "composition time", track.composition_time);
        fuzz_show_slice(run, "bytes", &track.slice);
        for (int alone = 0; alone < 2; alone++)
            fuzz_show_bytes(run, "header", header, sluice_flv_write_track_header(header, tag->type, &track, alone));
        sluice_slice_release(&track.slice);
    }
    fuzz_show(run, "tracks", result);
}

static void show_metadata(fuzz_run *run, const sluice_slice *payload) {
    sluice_flv_metadata metadata;
    int result = sluice_flv_read_metadata(payload, &metadata);
    fuzz_show(run, "metadata", result);
    if (result != 0)
        return;
    fuzz_show(run, "has", metadata.has_video << 1 | metadata.has_audio);
    const double numbers[] = {metadata.width, metadata.height, metadata.frame_rate, metadata.video_data_rate,
                              metadata.audio_data_rate};
    fuzz_show_bytes(run, "numbers", numbers, sizeof numbers);
    fuzz_show(run, "@setDataFrame", (int64_t)metadata.set_data_frame);
    FUZZ_CHECK(metadata.set_data_frame <= sluice_slice_length(payload));
}

static int next(void *state, sluice_chain *chain, fuzz_run *run) {
    sluice_flv_tag *tag;
    int result = sluice_flv_next(state, chain, &tag);
    if (result != 1)
        return result;
    FUZZ_CHECK(tag->size > 0 && tag->size == sluice_slice_length(&tag->payload));
    FUZZ_CHECK(tag->view.header_size <= tag->size);
    fuzz_show(run, "tag", tag->type);
    fuzz_show(run, "timestamp", tag->timestamp);
    fuzz_show(run, "trailer", tag->trailer_ok);
    show_view(run, &tag->view);
    show_tracks(run, tag);
    fuzz_show_slice(run, "payload", &tag->payload);
    if (tag->type == SLUICE_FLV_SCRIPT)
        show_metadata(run, &tag->payload);
    fuzz_keep(run, &tag->payload);
    return 1;
}

static size_t need(const void *state) {
    return sluice_flv_need(state);
}

void fuzz_target(fuzz_run *run) {
    static const uint32_t limits[] = {0, 1, 100, 2000};
    sluice_flv *flv;
    FUZZ_CHECK(sluice_flv_new(limits[run->settings[0] % 4], &flv) == 0);
    fuzz_drive(run, &(fuzz_framer){next, need}, flv);
    fuzz_show(run, "file header", sluice_flv_flags(flv));
    sluice_flv_free(flv);
}
