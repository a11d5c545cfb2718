#include "daemon/stream_tracks.h"

#include <errno.h>

uint32_t stream_take_header(struct stream *stream, const struct packet *packet) {
    struct track_header *header = packet->role == PACKET_METADATA
                                      ? &stream->metadata_header
                                      : &stream_tracks(stream, packet->type)->list[packet->track].header;
    return track_header_take(header, &packet->payload, &stream->versions);
}

void stream_take_replica_track(struct stream *replica, const struct stream_tag *tag) {
    if (tag->tag.type == SLUICE_FLV_SCRIPT)
        return;
    struct tracks *tracks = stream_tracks(replica, tag->tag.type);
    tracks->main = tag->main;
    tracks->list[tag->track].id = tag->tag.view.track;
    tracks->list[tag->track].seen = true;
}

/* One track of a tag that holds many, as a tag of its own. */
static int publish_part(const struct stream_parts *parts, const sluice_flv_tag *whole, const sluice_flv_track *track) {
    sluice_flv_tag tag = {.type = whole->type, .timestamp = whole->timestamp, .trailer_ok = true};
    int error = track_payload_make(parts->payloads, tag.type, track, false, &tag.payload, &tag.view);
    if (error) {
        stream_lose(parts->stream);
        return -ENOMEM;
    }
    tag.size = (uint32_t)sluice_slice_length(&tag.payload);
    error = parts->publish(parts->stream, &tag, parts->flags);
    sluice_slice_release(&tag.payload);
    return error;
}

int stream_publish_parts(const struct stream_parts *parts, const sluice_flv_tag *tag) {
    struct stream *stream = parts->stream;
    uint8_t main = tracks_main(stream_tracks(stream, tag->type))->id;
    int error = 0, result = 1;
    bool is_frame = tag->view.packet == SLUICE_FLV_FRAME;
    for (int others = 0; others < 2; others++) {
        sluice_flv_tracks place = {0};
        sluice_flv_track track;
        for (unsigned i = 0; i < TRACKS_MOST; i++) {
            result = sluice_flv_next_track(&place, tag->type, &tag->payload, &track);
            if (result != 1)
                break;
            int failed = (track.id != main) == others ? publish_part(parts, tag, &track) : 0;
            error = error ? error : failed;
            sluice_slice_release(&track.slice);
        }
        if (others && result == 1 && sluice_flv_next_track(&place, tag->type, &tag->payload, &track) == 1) {
            stream->beyond_tracks += is_frame;
            sluice_slice_release(&track.slice);
        }
    }
    stream->frames_dropped += result < 0 && is_frame;
    return error;
}
