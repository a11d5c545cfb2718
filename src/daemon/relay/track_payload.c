#include "daemon/relay/track_payload.h"

#include <errno.h>
#include <string.h>

enum { LEGACY_VIDEO = 5, COMPOSITION = 3 }; /* bytes of a header, and of its last field */

int track_payloads_init(struct track_payloads *payloads, sluice_pool *pool) {
    struct track_payloads made = {0};
    int error = sluice_chain_new(pool, &made.headers);
    if (!error)
        error = sluice_chain_new(pool, &made.parts);
    if (error)
        track_payloads_clear(&made);
    else
        *payloads = made;
    return error;
}

void track_payloads_clear(struct track_payloads *payloads) {
    sluice_chain_free(payloads->headers);
    sluice_chain_free(payloads->parts);
    *payloads = (struct track_payloads){0};
}

void track_payloads_rest(struct track_payloads *payloads) {
    sluice_chain_skip(payloads->headers, SIZE_MAX);
}

/* Room for so many bytes in one piece: behind the byte that has stayed, or else in another
 * block. */
static int reserve(sluice_chain *chain, size_t n, struct iovec *ret_room) {
    int pieces = sluice_chain_reserve(chain, n, ret_room, 1);
    if (pieces < 0 || ret_room->iov_len >= n)
        return pieces < 0 ? pieces : 0;
    (void)sluice_chain_commit(chain, 0);
    sluice_chain_skip(chain, SIZE_MAX);
    pieces = sluice_chain_reserve(chain, n, ret_room, 1);
    if (pieces >= 0 && ret_room->iov_len < n)
        (void)sluice_chain_commit(chain, 0);
    return pieces < 0 ? pieces : ret_room->iov_len < n ? -ENOBUFS : 0;
}

static int take_header(sluice_chain *chain, const uint8_t *bytes, size_t n, sluice_slice *ret_header) {
    struct iovec room;
    int error = reserve(chain, n + 1, &room);
    if (error)
        return error;
    memcpy(room.iov_base, bytes, n);
    memset((uint8_t *)room.iov_base + n, 0, 1);
    error = sluice_chain_commit(chain, n + 1);
    if (error)
        return error;
    sluice_chain_skip(chain, sluice_chain_length(chain) - (n + 1));
    return sluice_chain_take(chain, n, ret_header);
}

/* As a framer would see the payload. */
static sluice_flv_view view_of(sluice_flv_type type, const sluice_flv_track *track, size_t header, bool alone) {
    bool enhanced = header >= 5 && (!alone || track->codec != SLUICE_CODEC_H264);
    bool video = type == SLUICE_FLV_VIDEO;
    uint8_t audio_format = track->codec == SLUICE_CODEC_AAC && header == 2 ? 10 : 9;
    return (sluice_flv_view){
        .codec = track->codec,
        .packet = track->packet,
        .key_frame = track->key_frame,
        .enhanced = enhanced,
        .multitrack = !alone,
        .track = alone ? 0 : track->id,
        .frame_type = track->frame_type,
        .audio_format = video ? 0 : audio_format,
        .composition_time = track->composition_time,
        .header_size = (uint32_t)header + track->header_size,
    };
}

int track_payload_make(struct track_payloads *payloads, sluice_flv_type type, const sluice_flv_track *track, bool alone,
                       sluice_slice *ret_payload, sluice_flv_view *ret_view) {
    uint8_t bytes[SLUICE_FLV_MAX_TRACK_HEADER];
    size_t size = sluice_flv_write_track_header(bytes, type, track, alone);
    sluice_slice header;
    /* FLV's own form always has a composition time; the header before it need not. */
    if (alone && type == SLUICE_FLV_VIDEO && size == LEGACY_VIDEO && track->codec == SLUICE_CODEC_H264)
        for (size_t i = 0; i < COMPOSITION; i++)
            bytes[size - 1 - i] = (uint8_t)((uint32_t)track->composition_time >> 8 * i);
    int error = take_header(payloads->headers, bytes, size, &header);
    if (error)
        return error;
    error = sluice_chain_append_slice(payloads->parts, &header);
    sluice_slice_release(&header);
    if (!error)
        error = sluice_chain_append_slice(payloads->parts, &track->slice);
    if (!error)
        error = sluice_chain_take(payloads->parts, sluice_chain_length(payloads->parts), ret_payload);
    if (error) {
        sluice_chain_skip(payloads->parts, SIZE_MAX);
        return error;
    }
    *ret_view = view_of(type, track, size, alone);
    return 0;
}

/* The only track, or the first. The slice is the caller's. */
static bool first_track(const struct packet *packet, sluice_flv_track *ret_track) {
    sluice_flv_view view = packet_view(packet);
    sluice_flv_tracks place = {0};
    if (view.multitrack)
        return sluice_flv_next_track(&place, packet->type, &packet->payload, ret_track) == 1;
    *ret_track = (sluice_flv_track){
        .codec = view.codec,
        .packet = view.packet,
        .key_frame = view.key_frame,
        .frame_type = view.frame_type,
        .composition_time = view.composition_time,
    };
    return sluice_slice_sub(&packet->payload, view.header_size, packet_size(packet) - view.header_size,
                            &ret_track->slice) == 0;
}

void track_payload_make_alone(struct track_payloads *payloads, struct packet *packet) {
    sluice_flv_tag tag = {.type = packet->type};
    sluice_flv_track track;
    sluice_slice payload;
    if (packet->has_alone || !first_track(packet, &track))
        return;
    if (track_payload_make(payloads, packet->type, &track, true, &payload, &tag.view) == 0) {
        struct packet *alone = packet_new(packet_pool_of(packet), &tag, packet->role, packet->timestamp, &payload);
        sluice_slice_release(&payload);
        if (alone) {
            alone->received_at = packet->received_at;
            alone->track = packet->track;
            packet_set_version(alone, packet_version(packet));
            packet_set_alone(packet, alone);
        }
    }
    sluice_slice_release(&track.slice);
}
