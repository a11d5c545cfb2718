#include "daemon/stream_tracks.h"

#include <errno.h>

struct tracks *stream_tracks(struct stream *stream, sluice_flv_type type) {
    return type == SLUICE_FLV_VIDEO ? &stream->video : &stream->audio;
}

bool stream_is_main(const struct stream *stream, const struct packet *packet) {
    return packet->type == SLUICE_FLV_SCRIPT ||
           packet->track == (packet->type == SLUICE_FLV_VIDEO ? &stream->video : &stream->audio)->main;
}

enum packet_role stream_role(const sluice_flv_tag *tag, bool is_metadata, bool is_main) {
    const sluice_flv_view *view = &tag->view;
    bool is_video = tag->type == SLUICE_FLV_VIDEO;
    if (tag->type == SLUICE_FLV_SCRIPT)
        return is_metadata ? PACKET_METADATA : PACKET_OTHER;
    if (view->packet == SLUICE_FLV_SEQUENCE_HEADER)
        return is_video ? PACKET_VIDEO_HEADER : PACKET_AUDIO_HEADER;
    if (view->packet != SLUICE_FLV_FRAME)
        return PACKET_OTHER;
    if (is_video)
        return view->key_frame && is_main ? PACKET_KEY_FRAME : PACKET_VIDEO;
    return PACKET_AUDIO;
}

void stream_count_tag(struct stream *stream, const sluice_flv_tag *tag, unsigned place) {
    bool is_frame = tag->view.packet == SLUICE_FLV_FRAME;
    if (tag->type == SLUICE_FLV_SCRIPT)
        return;
    struct track *track = &stream_tracks(stream, tag->type)->list[place];
    bool is_video = tag->type == SLUICE_FLV_VIDEO;
    stream->seen |= is_video ? SLUICE_FLV_HAS_VIDEO : SLUICE_FLV_HAS_AUDIO;
    if (tag->view.codec)
        track->codec = tag->view.codec;
    track->channels = tag->view.channels;
    track->frames += is_frame;
    track->bytes += tag->size;
    stream->video_frames += is_video && is_frame;
    stream->audio_frames += !is_video && is_frame;
}

uint32_t stream_header_version(struct stream *stream, const struct packet *packet) {
    if (packet->role >= PACKET_KEY_FRAME)
        return 0;
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
