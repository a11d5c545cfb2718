#include "rtsp/wire.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/content.h"
#include "common/process.h"
#include "rtsp/rtmp.h"

enum {
    SLACK = 4096,       /* what stands before the first frame */
    RTP_PAYLOAD = 1388, /* of packets of 1400 bytes */
    RTP_FRAME = 4 + 12, /* bytes before each payload */
    /* around a frame that is one packet, at most; with the parameter sets before a key picture */
    AROUND = 64,
    SETS = 128,
    FLV_AUDIO = 8,
    FLV_VIDEO = 9,
    VIDEO_HEAD = 9, /* before a NAL unit in a tag: the codec's bytes, and its length */
    AUDIO_HEAD = 2,
    FU_A = 28,
};

static uint8_t *put_be(uint8_t *to, uint32_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        *to++ = (uint8_t)(value >> 8 * (bytes - 1 - i));
    return to;
}

static uint8_t *put(uint8_t *to, const void *bytes, size_t size) {
    if (size > 0)
        memcpy(to, bytes, size);
    return to + size;
}

static void make(wire *made, const media *of) {
    uint64_t room = SLACK;
    for (uint32_t i = 0; i < of->count; i++) {
        uint32_t size = of->frames[i].size;
        room += size + (size / (RTP_PAYLOAD - 2) + 1) * (RTP_FRAME + 2) + AROUND + SETS;
    }
    made->bytes = malloc(room);
    made->ends = calloc(of->count, sizeof *made->ends);
    if (!made->bytes || !made->ends)
        fail(EXIT_FAILURE, "no memory for a stream of so many frames");
}

static uint8_t *put_tag_header(uint8_t *to, uint8_t type, size_t size, uint64_t at_ns) {
    uint32_t milliseconds = (uint32_t)((at_ns + 500000) / 1000000);
    *to++ = type;
    to = put_be(to, (uint32_t)size, 3);
    to = put_be(to, milliseconds, 3);
    *to++ = (uint8_t)(milliseconds >> 24);
    return put_be(to, 0, 3);
}

static uint8_t *put_tag(uint8_t *to, uint8_t type, const uint8_t *head, size_t head_size, const media_bytes *rest,
                        uint64_t at_ns) {
    to = put_tag_header(to, type, head_size + rest->size, at_ns);
    to = put(to, head, head_size);
    to = put(to, rest->bytes, rest->size);
    return put_be(to, CONTENT_TAG_HEADER + (uint32_t)(head_size + rest->size), 4);
}

/* What a tag and a message are alike in: head and rest of the payload of a frame or a
 * configuration. */
typedef uint8_t *put_fn(uint8_t *to, uint8_t type, const uint8_t *head, size_t head_size, const media_bytes *rest,
                        uint64_t at_ns);

static uint8_t *put_message(uint8_t *to, uint8_t type, const uint8_t *head, size_t head_size, const media_bytes *rest,
                            uint64_t at_ns) {
    return rtmp_put(to, type, (uint32_t)((at_ns + 500000) / 1000000), head, head_size, rest->bytes, rest->size);
}

/* The decoders' configurations. */
static uint8_t *put_configurations(uint8_t *to, put_fn *put_one) {
    static const uint8_t audio[] = {0xAF, 0};
    uint8_t record[64] = {0x17, 0, 0, 0, 0, 1, 0, 0, 0, 0xFF, 0xE1}, *end = record + 11;
    memcpy(record + 6, media_sps.bytes + 1, 3); /* profile and level */
    end = put_be(end, (uint32_t)media_sps.size, 2);
    end = put(end, media_sps.bytes, media_sps.size);
    end = put_be(end, 1, 1);
    end = put_be(end, (uint32_t)media_pps.size, 2);
    end = put(end, media_pps.bytes, media_pps.size);
    to = put_one(to, FLV_VIDEO, record, (size_t)(end - record), &(media_bytes){0}, 0);
    return put_one(to, FLV_AUDIO, audio, sizeof audio, &media_aac, 0);
}

static uint8_t *put_frame(uint8_t *to, const media_frame *frame, put_fn *put_one) {
    uint8_t video[] = {media_is_key(frame) ? 0x17 : 0x27, 1, 0, 0, 0, 0, 0, 0, 0, frame->nal};
    static const uint8_t audio[] = {0xAF, 1};
    put_be(video + 5, frame->size, 4);
    if (frame->track == MEDIA_VIDEO)
        return put_one(to, FLV_VIDEO, video, sizeof video, &(media_bytes){frame->at, frame->size - 1}, frame->at_ns);
    return put_one(to, FLV_AUDIO, audio, sizeof audio, &(media_bytes){frame->at, frame->size}, frame->at_ns);
}

static void put_frames(wire *made, uint8_t *to, const media *of, put_fn *put_one) {
    to = put_configurations(to, put_one);
    for (uint32_t i = 0; i < of->count; i++) {
        to = put_frame(to, &of->frames[i], put_one);
        made->ends[i] = (uint64_t)(to - made->bytes);
    }
}

void wire_make_flv(wire *made, const media *of) {
    make(made, of);
    uint8_t *to = put(made->bytes, content_file_header, CONTENT_FILE_HEADER);
    to[4 - CONTENT_FILE_HEADER] = 5; /* audio and video */
    put_frames(made, to, of, put_tag);
}

uint64_t wire_flv_head(void) {
    uint8_t scratch[SLACK];
    /* As tags without what is around them. */
    return (uint64_t)(put_configurations(scratch, put_tag) - scratch) - 2 * CONTENT_AROUND_PAYLOAD;
}

uint64_t wire_flv_payload(const media_frame *frame) {
    return frame->size + (frame->track == MEDIA_VIDEO ? VIDEO_HEAD : AUDIO_HEAD);
}

void wire_make_rtmp(wire *made, const media *of) {
    uint8_t size[4];
    make(made, of);
    put_be(size, RTMP_CHUNK, sizeof size);
    put_frames(made, rtmp_put(made->bytes, RTMP_SET_CHUNK_SIZE, 0, size, sizeof size, NULL, 0), of, put_message);
}

/* Head and rest of one packet's payload. */
static uint8_t *put_packet(uint8_t *to, const media_frame *frame, uint16_t *sequence, bool marker, const uint8_t *head,
                           size_t head_size, const media_bytes *rest) {
    *to++ = '$';
    *to++ = (uint8_t)(2 * frame->track);
    to = put_be(to, (uint32_t)(RTP_FRAME - 4 + head_size + rest->size), 2);
    *to++ = 0x80;
    *to++ = (uint8_t)(marker << 7 | (96 + frame->track));
    to = put_be(to, (*sequence)++, 2);
    to = put_be(to, frame->clock, 4);
    to = put_be(to, 0x5EED0000u + frame->track, 4);
    to = put(to, head, head_size);
    return put(to, rest->bytes, rest->size);
}

static uint8_t *put_picture(uint8_t *to, const media_frame *frame, uint16_t *sequence) {
    if (media_is_key(frame)) {
        to = put_packet(to, frame, sequence, false, &frame->nal, 0, &media_sps);
        to = put_packet(to, frame, sequence, false, &frame->nal, 0, &media_pps);
    }
    if (frame->size <= RTP_PAYLOAD)
        return put_packet(to, frame, sequence, true, &frame->nal, 1, &(media_bytes){frame->at, frame->size - 1});
    for (uint32_t done = 0, size = frame->size - 1; done < size;) {
        uint32_t part = size - done < RTP_PAYLOAD - 2 ? size - done : RTP_PAYLOAD - 2;
        bool last = done + part == size;
        const uint8_t head[] = {(frame->nal & 0xE0) | FU_A,
                                (uint8_t)((done == 0) << 7 | last << 6 | (frame->nal & 0x1F))};
        to = put_packet(to, frame, sequence, last, head, sizeof head, &(media_bytes){frame->at + done, part});
        done += part;
    }
    return to;
}

void wire_make_rtp(wire *made, const media *of) {
    uint16_t sequences[MEDIA_TRACKS] = {1000, 2000};
    make(made, of);
    uint8_t *to = made->bytes;
    for (uint32_t i = 0; i < of->count; i++) {
        const media_frame *frame = &of->frames[i];
        uint8_t head[4] = {0, 16};
        put_be(head + 2, frame->size << 3, 2);
        if (frame->track == MEDIA_VIDEO)
            to = put_picture(to, frame, &sequences[MEDIA_VIDEO]);
        else
            to = put_packet(to, frame, &sequences[MEDIA_AUDIO], true, head, sizeof head,
                            &(media_bytes){frame->at, frame->size});
        made->ends[i] = (uint64_t)(to - made->bytes);
    }
}

static uint32_t be(const uint8_t *bytes, int count) {
    uint32_t value = 0;
    for (int i = 0; i < count; i++)
        value = value << 8 | bytes[i];
    return value;
}

static size_t interleaved_size(const uint8_t *frame) {
    return 4 + be(frame + 2, 2);
}

/* The number of each track's first packet from there on. */
static void find_sequences(const uint8_t *at, uint16_t numbers[MEDIA_TRACKS]) {
    for (unsigned found = 0; found != (1u << MEDIA_TRACKS) - 1; at += interleaved_size(at)) {
        unsigned track = at[1] / 2;
        if (!(found & 1u << track))
            numbers[track] = (uint16_t)be(at + 6, 2);
        found |= 1u << track;
    }
}

void wire_rtp_preroll(const wire *of, uint32_t first, uint8_t *to) {
    size_t size = of->ends[MEDIA_PREROLL - 1];
    uint16_t behind[MEDIA_TRACKS], next[MEDIA_TRACKS];
    find_sequences(of->bytes + size, behind);
    find_sequences(of->bytes + of->ends[first - 1], next);
    put(to, of->bytes, size);
    for (size_t at = 0; at < size; at += interleaved_size(to + at)) {
        unsigned track = to[at + 1] / 2;
        put_be(to + at + 6, (uint16_t)(be(to + at + 6, 2) + next[track] - behind[track]), 2);
    }
}
