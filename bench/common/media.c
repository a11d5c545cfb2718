#include "common/media.h"

#include <stdlib.h>
#include <string.h>

#include "common/content.h"
#include "common/process.h"

enum {
    FRAMES_PER_SECOND = 25,
    GROUP = 50, /* pictures */
    AAC_SAMPLES = 1024,
    AAC_BYTES = 371, /* 128 kbit/s */
    AUDIO_KBITS = 128,
    LEAST_PICTURE = 128, /* half of it is still enough for a checksum */
    NAL_KEY = 0x65,
    NAL_OTHER = 0x41,
    POOL = 1 << 20, /* bytes that all frames are parts of */
    /* between the beginnings of two frames, so that no two in reach are the same */
    POOL_STEP = 63 * 8,
};

static const uint8_t sps[] = {0x67, 0x64, 0x00, 0x0A, 0xAC, 0xD9, 0x42, 0x0D, 0xB0, 0x11, 0x00, 0x00,
                              0x03, 0x00, 0x01, 0x00, 0x00, 0x03, 0x00, 0x14, 0x0F, 0x12, 0x25, 0x96};
static const uint8_t pps[] = {0x68, 0xEF, 0x8F, 0xCB};
static const uint8_t aac[] = {0x12, 0x10};
const media_bytes media_sps = {sps, sizeof sps}, media_pps = {pps, sizeof pps}, media_aac = {aac, sizeof aac};

const char media_sdp[] =
    "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n"
    "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n"
    "a=fmtp:96 packetization-mode=1;sprop-parameter-sets=Z2QACqzZQg2wEQAAAwABAAADABQPEiWW,aO+Pyw==\r\n"
    "a=control:streamid=0\r\n"
    "m=audio 0 RTP/AVP 97\r\na=rtpmap:97 MPEG4-GENERIC/44100/2\r\n"
    "a=fmtp:97 mode=AAC-hbr;sizelength=13;indexlength=3;indexdeltalength=3;config=1210\r\n"
    "a=control:streamid=1\r\n";

static uint32_t clock_of(uint32_t track, uint32_t index) {
    return index * (track == MEDIA_VIDEO ? MEDIA_VIDEO_CLOCK / FRAMES_PER_SECOND : AAC_SAMPLES);
}

static uint64_t ns_of(uint32_t track, uint32_t index) {
    return (uint64_t)clock_of(track, index) * 1000000000 /
           (track == MEDIA_VIDEO ? MEDIA_VIDEO_CLOCK : MEDIA_AUDIO_CLOCK);
}

/* Bytes of a picture that is no key picture, on average. */
static uint32_t usual_picture(uint32_t kbits, uint32_t key_times) {
    uint32_t bytes = kbits > AUDIO_KBITS ? (kbits - AUDIO_KBITS) * 125 / FRAMES_PER_SECOND : 0;
    bytes = bytes * GROUP / (GROUP - 1 + key_times);
    return bytes > LEAST_PICTURE ? bytes : LEAST_PICTURE;
}

static void make_frame(media_frame *frame, uint32_t usual, uint32_t key_times, uint64_t *random) {
    uint64_t number = content_random(random);
    if (frame->track == MEDIA_AUDIO) {
        frame->size = AAC_BYTES;
    } else if (frame->index % GROUP == 0) {
        frame->size = key_times * usual;
        frame->nal = NAL_KEY;
    } else {
        /* Half as large up to one and a half times. */
        frame->size = usual / 2 + (uint32_t)(number % usual);
        frame->nal = NAL_OTHER;
    }
    frame->clock = clock_of(frame->track, frame->index);
    frame->at_ns = ns_of(frame->track, frame->index);
}

void media_make(media *made, uint32_t kbits, uint32_t key_times, uint32_t count) {
    uint64_t random = 1;
    uint32_t usual = usual_picture(kbits, key_times);
    size_t room = POOL + (size_t)(key_times + 1) * usual;
    uint8_t *pool = malloc(room + sizeof random);
    *made = (media){.frames = calloc(count, sizeof *made->frames), .count = count};
    made->tracks[MEDIA_VIDEO] = calloc(count, sizeof *made->tracks[0]);
    made->tracks[MEDIA_AUDIO] = calloc(count, sizeof *made->tracks[0]);
    if (!pool || !made->frames || !made->tracks[MEDIA_VIDEO] || !made->tracks[MEDIA_AUDIO])
        fail(EXIT_FAILURE, "no memory for the media");
    for (size_t at = 0; at < room; at += sizeof random) {
        uint64_t word = content_random(&random);
        memcpy(pool + at, &word, sizeof word);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t *counts = made->counts;
        uint8_t track = ns_of(MEDIA_AUDIO, counts[MEDIA_AUDIO]) < ns_of(MEDIA_VIDEO, counts[MEDIA_VIDEO]);
        made->frames[i] = (media_frame){
            .track = track, .index = counts[track], .at = pool + (uint64_t)i * POOL_STEP % POOL};
        make_frame(&made->frames[i], usual, key_times, &random);
        made->tracks[track][counts[track]++] = i;
        made->bytes += made->frames[i].size;
    }
}

static uint64_t since_preroll(const media *of, uint32_t frame) {
    return of->frames[frame].at_ns - of->frames[MEDIA_PREROLL].at_ns;
}

uint32_t media_first(const media *of, enum arrivals how, uint32_t stream, uint32_t streams) {
    uint64_t phase = arrivals_phase_ns(how, stream, streams, MEDIA_GROUP_NS);
    uint32_t first = MEDIA_PREROLL;
    while (since_preroll(of, first) < phase)
        first++;
    return first;
}

void media_due(const media *of, enum arrivals how, uint32_t stream, uint32_t streams, uint64_t *due_ns,
               uint32_t count) {
    uint64_t phase = arrivals_phase_ns(how, stream, streams, MEDIA_GROUP_NS);
    uint32_t first = media_first(of, how, stream, streams);
    for (uint32_t i = 0; i < count; i++)
        due_ns[i] = since_preroll(of, first + i) - phase;
    arrivals_send(how, stream, due_ns, count);
}
