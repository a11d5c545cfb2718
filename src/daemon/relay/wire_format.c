#include "daemon/relay/wire_format.h"

#include <string.h>

/* A tag in whatever is around it: so many bytes up to @before_end, and of the packet's suffix. */
static inline size_t tag_pieces(const struct packet *packet, const uint8_t *before_end, size_t before, size_t after,
                                size_t offset, struct iovec *iov, size_t max) {
    size_t count = 0;
    if (offset < before && max > 0) {
        iov[count++] = (struct iovec){(void *)(before_end - before + offset), before - offset};
        offset = before;
    }
    if (offset < before + packet_size(packet)) {
        size_t pieces = sluice_slice_iov(&packet->payload, offset - before, iov + count, max - count);
        if (pieces > max - count)
            return max;
        count += pieces;
        offset = before + packet_size(packet);
    }
    offset -= before + packet_size(packet);
    if (count < max && offset < after)
        iov[count++] = (struct iovec){(void *)(packet->frame.suffix + offset), after - offset};
    return count;
}

static size_t tag_size(const struct packet *packet) {
    return packet_tag_size(packet);
}

static size_t plain_pieces(struct packet *packet, const struct packet_form *form, size_t offset, struct iovec *iov,
                           size_t max) {
    (void)form;
    return tag_pieces(packet, packet_as_tag(packet)->prefix + PACKET_PREFIX, SLUICE_FLV_TAG_HEADER_SIZE,
                      SLUICE_FLV_TRAILER_SIZE, offset, iov, max);
}

static size_t chunk_size(const struct packet *packet) {
    return packet_chunk_line_size(packet) + SLUICE_FLV_TAG_HEADER_SIZE + packet_size(packet) + PACKET_SUFFIX;
}

static size_t chunk_pieces(struct packet *packet, const struct packet_form *form, size_t offset, struct iovec *iov,
                           size_t max) {
    (void)form;
    return tag_pieces(packet, packet_as_tag(packet)->prefix + PACKET_PREFIX,
                      packet_chunk_line_size(packet) + SLUICE_FLV_TAG_HEADER_SIZE, PACKET_SUFFIX, offset, iov, max);
}

static size_t message_size(const struct packet *packet) {
    return packet_message_header_size(packet) + tag_size(packet);
}

static size_t message_pieces(struct packet *packet, const struct packet_form *form, size_t offset, struct iovec *iov,
                             size_t max) {
    (void)form;
    return tag_pieces(packet, packet_as_message(packet)->message + PACKET_MESSAGE,
                      packet_message_header_size(packet) + SLUICE_FLV_TAG_HEADER_SIZE, SLUICE_FLV_TRAILER_SIZE, offset,
                      iov, max);
}

static bool rtmp_has(const struct packet *packet, const struct packet_form *form) {
    return packet_size(packet) <= form->chunk_size;
}

static bool rtmp_media_has(const struct packet *packet, const struct packet_form *form) {
    return packet->type != SLUICE_FLV_SCRIPT && rtmp_has(packet, form);
}

static size_t rtmp_size(const struct packet *packet) {
    return packet_rtmp_header_size(packet) + packet_size(packet);
}

static bool is_usual_stream(const struct packet_form *form) {
    static const uint8_t usual[PACKET_RTMP_STREAM_SIZE] = {0};
    return memcmp(form->message_stream, usual, sizeof usual) == 0;
}

/* The header in three parts, of which the second is the player's own. */
static size_t rtmp_head_pieces(struct packet *packet, const struct packet_form *form, size_t offset, struct iovec *iov,
                               size_t max) {
    enum { STREAM = PACKET_RTMP_STREAM, AFTER = STREAM + PACKET_RTMP_STREAM_SIZE };
    const uint8_t *header = packet_as_rtmp(packet)->rtmp;
    size_t count = 0, size = packet_rtmp_header_size(packet);
    if (offset < STREAM && count < max) {
        iov[count++] = (struct iovec){(void *)(header + offset), STREAM - offset};
        offset = STREAM;
    }
    if (offset < AFTER && count < max) {
        iov[count++] = (struct iovec){(void *)(form->message_stream + (offset - STREAM)), AFTER - offset};
        offset = AFTER;
    }
    if (offset < size && count < max)
        iov[count++] = (struct iovec){(void *)(header + offset), size - offset};
    return count;
}

static size_t rtmp_pieces(struct packet *packet, const struct packet_form *form, size_t offset, struct iovec *iov,
                          size_t max) {
    size_t size = packet_rtmp_header_size(packet);
    if (is_usual_stream(form))
        return tag_pieces(packet, packet_as_rtmp(packet)->rtmp + size, size, 0, offset, iov, max);
    size_t count = rtmp_head_pieces(packet, form, offset, iov, max);
    offset = offset > size ? offset : size;
    return count + (count < max ? tag_pieces(packet, NULL, size, 0, offset, iov + count, max - count) : 0);
}

static bool rtp_has(const struct packet *packet, const struct packet_form *form) {
    const struct rtp_frame *rtp = packet_rtp(packet);
    return rtp && rtp->wire_size > 0 && form->tracks[rtp->track];
}

static size_t rtp_size(const struct packet *packet) {
    return packet->rtp.wire_size;
}

/* The bytes before the payload's. Where the channel is not the usual one, its mark lies
 * elsewhere. */
static size_t head_pieces(const struct packet *packet, const struct rtp_packet *rtp, uint8_t channel, size_t offset,
                          struct iovec *iov, size_t max) {
    size_t count = 0;
    if (channel != rtp->head[1] && offset < PACKET_MARK && max > 0) {
        iov[count++] = (struct iovec){(void *)(packet_channel_mark(packet, channel) + offset), PACKET_MARK - offset};
        offset = PACKET_MARK;
    }
    if (offset < rtp->head_size && count < max)
        iov[count++] = (struct iovec){(void *)(rtp->head + offset), rtp->head_size - offset};
    return count;
}

static size_t rtp_pieces(struct packet *packet, const struct packet_form *form, size_t offset, struct iovec *iov,
                         size_t max) {
    uint8_t channel = form->channels[packet->rtp.track];
    size_t count = 0;
    for (const struct rtp_packet *rtp = packet->rtp.first; rtp && count < max; rtp = rtp->next) {
        size_t size = rtp->head_size + sluice_slice_length(&rtp->rest);
        if (offset >= size) {
            offset -= size;
            continue;
        }
        count += head_pieces(packet, rtp, channel, offset, iov + count, max - count);
        size_t done = offset > rtp->head_size ? offset - rtp->head_size : 0;
        size_t pieces = sluice_slice_iov(&rtp->rest, done, iov + count, max - count);
        if (pieces > max - count)
            return max;
        count += pieces;
        offset = 0;
    }
    return count;
}

const struct wire_format wire_flv = {.size = tag_size, .pieces = plain_pieces};
const struct wire_format wire_flv_chunked = {.size = chunk_size, .pieces = chunk_pieces};
const struct wire_format wire_flv_websocket = {.size = message_size, .pieces = message_pieces};
const struct wire_format wire_rtp = {.is_packetized = true, .has = rtp_has, .size = rtp_size, .pieces = rtp_pieces};
const struct wire_format wire_rtmp = {.has = rtmp_has, .size = rtmp_size, .pieces = rtmp_pieces};
const struct wire_format wire_rtmp_media = {.has = rtmp_media_has, .size = rtmp_size, .pieces = rtmp_pieces};
