/* A stream's tags by their tracks: what each is, what is counted of it, and tags of many tracks taken apart. */
#ifndef SLUICED_STREAM_TRACKS_H
#define SLUICED_STREAM_TRACKS_H

#include "daemon/stream.h"
#include "daemon/track_payload.h"

/* What every tag passes through is inline: a tag of 3 bytes costs some 100 ns in all. */

/* @is_main: of the main track, or of none */
static inline enum packet_role stream_role(const sluice_flv_tag *tag, bool is_metadata, bool is_main) {
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

/* @place: of its track */
static inline void stream_count_tag(struct stream *stream, const sluice_flv_tag *tag, unsigned place) {
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

/* The version of a header or of metadata: the same bytes in the same place have the same. */
uint32_t stream_take_header(struct stream *stream, const struct packet *packet);

/* 0 for others. */
static inline uint32_t stream_header_version(struct stream *stream, const struct packet *packet) {
    return packet->role >= PACKET_KEY_FRAME ? 0 : stream_take_header(stream, packet);
}

/* The places are those that the stream's own worker has given. */
void stream_take_replica_track(struct stream *replica, const struct stream_tag *tag);

struct stream_parts {
    struct stream *stream;
    struct track_payloads *payloads;
    int (*publish)(struct stream *stream, sluice_flv_tag *tag, uint8_t flags); /* 0, -ENOMEM */
    uint8_t flags;
};

/*
 * Publishes the tracks of a tag that holds many, each as a tag of its own; as many as there may be, and what is behind
 * them is not looked at. The main track's is the first, since a group begins with its key frame, and the others' key
 * frames belong to it. 0, -ENOMEM (one of them is lost)
 */
int stream_publish_parts(const struct stream_parts *parts, const sluice_flv_tag *tag);

#endif
