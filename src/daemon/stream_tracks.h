/* A stream's tags by their tracks: what each is, what is counted of it, and tags of many tracks taken apart. */
#ifndef SLUICED_STREAM_TRACKS_H
#define SLUICED_STREAM_TRACKS_H

#include "daemon/stream.h"
#include "daemon/track_payload.h"

/* @is_main: of the main track, or of none */
enum packet_role stream_role(const sluice_flv_tag *tag, bool is_metadata, bool is_main);

/* @place: of its track */
void stream_count_tag(struct stream *stream, const sluice_flv_tag *tag, unsigned place);

/* Of a header or metadata: the same bytes in the same place have the same. 0 for others */
uint32_t stream_header_version(struct stream *stream, const struct packet *packet);

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
