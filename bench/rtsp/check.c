#include "rtsp/check.h"

#include <stdlib.h>
#include <string.h>

#include "common/content.h"
#include "common/process.h"

enum {
    ENOUGH = 16, /* bytes of a frame that tell it from others */
    INTERLEAVED = 4,
    RTP_HEADER = 12,
    AAC_HEADER = 4,
    MOST_HEAD = 2048, /* of a response */
    NAL_TYPE = 0x1F,
    NAL_SPS = 7,
    NAL_PPS = 8,
    STAP_A = 24,
    FU_A = 28,
    FU_BEGINS = 0x80,
    FU_ENDS = 0x40,
    FLV_AUDIO = 8,
    FLV_VIDEO = 9,
};

static uint32_t be(const uint8_t *bytes, int count) {
    uint32_t value = 0;
    for (int i = 0; i < count; i++)
        value = value << 8 | bytes[i];
    return value;
}

static const media_frame *frame_of(const checker *c, int track, uint32_t index) {
    return &c->media->frames[c->media->tracks[track][index]];
}

static const media_frame *next_frame(const checker *c, int track) {
    if (c->next[track] == c->end[track])
        fail(EXIT_FAILURE, "a player gets more frames of track %d than were sent", track);
    return frame_of(c, track, c->next[track]);
}

/* The first frame that a player gets, by how it begins: no two begin alike. */
static void join(checker *c, int track, const uint8_t *bytes, size_t size) {
    uint32_t index = 0;
    size_t compared = size < ENOUGH ? size : ENOUGH;
    c->joins[track] = false;
    while (index < c->end[track] && memcmp(frame_of(c, track, index)->at, bytes, compared) != 0)
        index = index == 0 ? c->first[track] : index + 1;
    if (index >= c->end[track] || compared < ENOUGH)
        fail(EXIT_FAILURE, "a player begins with a frame of track %d that was not sent", track);
    if (index > c->counts[track])
        fail(EXIT_FAILURE, "a player begins with frame %u of track %d, after the warm-up", index, track);
    c->next[track] = index;
}

static void frame_is_whole(checker *c, int track) {
    /* Behind the preroll the stream goes on elsewhere. */
    c->next[track] = c->next[track] == 0 ? c->first[track] : c->next[track] + 1;
}

_Noreturn static void wrong(const media_frame *frame, const char *what) {
    fail(EXIT_FAILURE, "frame %u of track %u: %s", frame->index, frame->track, what);
}

/* A part of a picture behind the first byte of its NAL unit. */
static void take_picture(checker *c, const uint8_t *bytes, size_t size, uint8_t nal, bool begins, bool ends) {
    if (c->joins[MEDIA_VIDEO] && begins)
        join(c, MEDIA_VIDEO, bytes, size);
    const media_frame *frame = next_frame(c, MEDIA_VIDEO);
    if (begins) {
        if (c->have > 0)
            wrong(frame, "its end has not come");
        if ((nal & NAL_TYPE) != (frame->nal & NAL_TYPE))
            wrong(frame, "another kind of picture");
        c->have = 1;
    }
    if (c->have == 0 || size > frame->size - c->have || memcmp(bytes, frame->at + c->have - 1, size) != 0)
        wrong(frame, "other bytes");
    c->have += (uint32_t)size;
    if (!ends)
        return;
    if (c->have != frame->size)
        wrong(frame, "not whole");
    c->have = 0;
    frame_is_whole(c, MEDIA_VIDEO);
}

static void take_audio(checker *c, const uint8_t *bytes, size_t size) {
    if (c->joins[MEDIA_AUDIO])
        join(c, MEDIA_AUDIO, bytes, size);
    const media_frame *frame = next_frame(c, MEDIA_AUDIO);
    if (size != frame->size || memcmp(bytes, frame->at, size) != 0)
        wrong(frame, "other bytes");
    frame_is_whole(c, MEDIA_AUDIO);
}

static bool is_set(uint8_t nal) {
    return (nal & NAL_TYPE) == NAL_SPS || (nal & NAL_TYPE) == NAL_PPS;
}

static void take_rtp_video(checker *c, const uint8_t *payload, size_t size, bool marker) {
    uint8_t type = payload[0] & NAL_TYPE;
    if (is_set(payload[0]) || type == STAP_A)
        return;
    if (type != FU_A) {
        take_picture(c, payload + 1, size - 1, payload[0], true, true);
    } else {
        if (marker != !!(payload[1] & FU_ENDS))
            wrong(next_frame(c, MEDIA_VIDEO), "a marker that is not at its end");
        take_picture(c, payload + 2, size - 2, payload[1], payload[1] & FU_BEGINS, payload[1] & FU_ENDS);
    }
}

static void take_rtp(checker *c, int track, const uint8_t *packet, size_t size) {
    const size_t least = RTP_HEADER + (track == MEDIA_AUDIO ? AAC_HEADER : 1);
    if (size < least || packet[0] != 0x80)
        fail(EXIT_FAILURE, "track %d: no RTP packet, or one with an extension: %zu bytes, the first is %#x", track,
             size, size > 0 ? packet[0] : 0);
    uint16_t sequence = (uint16_t)be(packet + 2, 2);
    uint32_t ssrc = be(packet + 8, 4);
    if (c->begun[track] && (sequence != c->sequence[track] || ssrc != c->ssrc[track]))
        fail(EXIT_FAILURE, "track %d: packet %u of %#x, expected %u of %#x", track, sequence, ssrc, c->sequence[track],
             c->ssrc[track]);
    c->begun[track] = true;
    c->sequence[track] = (uint16_t)(sequence + 1);
    c->ssrc[track] = ssrc;
    c->packets++;
    const uint8_t *payload = packet + RTP_HEADER;
    if (track == MEDIA_VIDEO) {
        take_rtp_video(c, payload, size - RTP_HEADER, packet[1] & 0x80);
    } else {
        if (be(payload, 2) != 16 || be(payload + 2, 2) >> 3 != size - RTP_HEADER - AAC_HEADER)
            wrong(next_frame(c, MEDIA_AUDIO), "a wrong length");
        take_audio(c, payload + AAC_HEADER, size - RTP_HEADER - AAC_HEADER);
    }
}

size_t check_rtp(checker *c, uint8_t *bytes, size_t size) {
    size_t done = 0;
    while (size - done >= INTERLEAVED) {
        const uint8_t *frame = bytes + done;
        size_t length = be(frame + 2, 2);
        if (frame[0] != '$' || frame[1] > 3)
            fail(EXIT_FAILURE, "no interleaved frame where one should be: byte %#x, channel %u", frame[0], frame[1]);
        if (size - done < INTERLEAVED + length)
            break;
        if (frame[1] % 2 == 0) /* the others are reports */
            take_rtp(c, frame[1] / 2, frame + INTERLEAVED, length);
        done += INTERLEAVED + length;
    }
    return done;
}

/* The answer's head: 0 while it is not whole. */
static size_t check_answer(checker *c, const uint8_t *bytes, size_t size) {
    static const char status[] = "HTTP/1.0 200 ", status_1[] = "HTTP/1.1 200 ",
                      chunked_body[] = "Transfer-Encoding: chunked";
    const uint8_t *end = memmem(bytes, size, "\r\n\r\n", 4);
    if (!end && size < MOST_HEAD)
        return 0;
    if (!end || (memcmp(bytes, status, sizeof status - 1) != 0 && memcmp(bytes, status_1, sizeof status_1 - 1) != 0))
        fail(EXIT_FAILURE, "a player is refused: %.*s", (int)(size < 64 ? size : 64), (const char *)bytes);
    c->has_answer = true;
    c->is_chunked = memmem(bytes, (size_t)(end - bytes), chunked_body, sizeof chunked_body - 1) != NULL;
    return (size_t)(end + 4 - bytes);
}

/* The file header: 0 while it is not whole. */
static size_t check_head(checker *c, const uint8_t *bytes, size_t size) {
    if (size < CONTENT_FILE_HEADER)
        return 0;
    if (memcmp(bytes, "FLV\1\5", 5) != 0)
        fail(EXIT_FAILURE, "not FLV with audio and video");
    c->has_head = true;
    return CONTENT_FILE_HEADER;
}

/* Both. What has come in chunks behind the answer goes to the end of the bytes, without them. */
static size_t check_begin(checker *c, uint8_t *bytes, size_t size) {
    size_t done = 0;
    if (!c->has_answer) {
        done = check_answer(c, bytes, size);
        if (!c->has_answer)
            return 0;
        size_t data = c->is_chunked ? chunked_strip(&c->chunks_of, bytes + done, size - done) : size - done;
        memmove(bytes + size - data, bytes + done, data);
        done = size - data;
    }
    return done + check_head(c, bytes + done, size - done);
}

static void take_flv_video(checker *c, const uint8_t *payload, size_t size) {
    if (size < 5 || payload[1] != 1)
        return; /* the decoder's configuration */
    for (size_t at = 5; at < size;) {
        size_t length = size - at > 4 ? be(payload + at, 4) : SIZE_MAX;
        if (length == 0 || length > size - at - 4)
            wrong(next_frame(c, MEDIA_VIDEO), "a wrong length");
        const uint8_t *nal = payload + at + 4;
        if (!is_set(*nal))
            take_picture(c, nal + 1, length - 1, *nal, true, true);
        at += 4 + length;
    }
}

static void take_flv(checker *c, uint8_t type, const uint8_t *payload, size_t size) {
    if (type == FLV_VIDEO)
        take_flv_video(c, payload, size);
    else if (type == FLV_AUDIO && size >= 2 && payload[1] == 1)
        take_audio(c, payload + 2, size - 2);
    c->packets++;
}

size_t check_flv(checker *c, uint8_t *bytes, size_t size) {
    size_t done = c->has_head ? 0 : check_begin(c, bytes, size);
    while (c->has_head && size - done >= CONTENT_TAG_HEADER) {
        const uint8_t *tag = bytes + done, *payload = tag + CONTENT_TAG_HEADER;
        size_t length = be(tag + 1, 3);
        if (size - done < CONTENT_AROUND_PAYLOAD + length)
            break;
        if (be(payload + length, 4) != CONTENT_TAG_HEADER + length)
            fail(EXIT_FAILURE, "a tag whose trailer is another's");
        take_flv(c, tag[0], payload, length);
        done += CONTENT_AROUND_PAYLOAD + length;
    }
    return done;
}

static bool take_message(void *user, uint8_t type, const uint8_t *payload, size_t size) {
    if (type == RTMP_AUDIO || type == RTMP_VIDEO)
        take_flv(user, type, payload, size);
    return true;
}

size_t check_rtmp(checker *c, uint8_t *bytes, size_t size) {
    return rtmp_take(&c->chunks, bytes, size, take_message, c);
}

void check_start(checker *c, const media *of, const check_span *span, bool joins) {
    c->media = of;
    for (uint32_t i = 0; i < span->end; i++) {
        uint8_t track = of->frames[i].track;
        c->first[track] += i < span->first;
        c->counts[track] += i < span->counted;
        c->enough[track] += i < span->enough;
        c->end[track]++;
    }
    c->joins[MEDIA_VIDEO] = c->joins[MEDIA_AUDIO] = joins;
}
