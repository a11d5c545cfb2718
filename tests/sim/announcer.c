#include "sim/announcer.h"

#include <stdio.h>
#include <string.h>

#include "sim/rtp.h"
#include "sim/world.h"

enum {
    VERSION = 0x80,
    MARKER = 0x80,
    VIDEO = 96, /* payload types */
    AUDIO = 97,
    NOISE = 13,
    VIDEO_RATE = 90, /* a millisecond */
    AUDIO_RATE = 44100,
    SENDER_REPORT = 200,
    REPORT = 28,
    BODY = 1024,
    PATIENCE = 30, /* frames, of which there are a hundred in a second while nothing goes wrong */
};

static void put(struct announcer *announcer, const void *bytes, size_t n) {
    world_append(&announcer->out, &announcer->out_length, &announcer->out_room, bytes, n);
}

static void put16(uint8_t *out, uint32_t value) {
    out[0] = (uint8_t)(value >> 8);
    out[1] = (uint8_t)value;
}

static void put32(uint8_t *out, uint32_t value) {
    put16(out, value >> 16);
    put16(out + 2, value);
}

/* Requests */

static void ask(struct announcer *announcer, const char *method, const char *behind, const char *headers,
                const char *body) {
    struct dialog *dialog = &announcer->dialog;
    dialog_ask(dialog, method, behind, headers, body);
    put(announcer, dialog->out, dialog->out_length);
    dialog->out_length = 0;
}

static void write_base64(char *out, const uint8_t *bytes, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        uint32_t three = (uint32_t)bytes[i] << 16 | (i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0) |
                         (i + 2 < n ? bytes[i + 2] : 0);
        for (unsigned k = 0; k < 4; k++)
            *out++ = i + k <= n ? digits[three >> (18 - 6 * k) & 63] : '=';
    }
    *out = '\0';
}

static void write_hex(char *out, const uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

/* The parameter sets, as SDP has them. */
static size_t describe_video(const struct announcer *announcer, char *out, size_t room) {
    const uint8_t *payload = announcer->video_header + MEDIA_TAG_HEADER;
    char sps[64], pps[128], sets[256] = "";
    write_base64(sps, payload + MEDIA_SPS, MEDIA_SPS_SIZE);
    write_base64(pps, payload + MEDIA_PPS, MEDIA_LEAST - MEDIA_PPS);
    if (!announcer->sets_in_band)
        snprintf(sets, sizeof sets, ";sprop-parameter-sets=%s,%s", sps, pps);
    return (size_t)snprintf(out, room,
                            "m=video 0 RTP/AVP %d\r\na=rtpmap:%d H264/90000\r\na=fmtp:%d packetization-mode=1%s\r\n"
                            "a=control:trackID=0\r\n",
                            VIDEO, VIDEO, VIDEO, sets);
}

static size_t describe_audio(const struct announcer *announcer, char *out, size_t room) {
    char config[2 * MEDIA_LEAST + 1];
    write_hex(config, announcer->audio_header + MEDIA_TAG_HEADER + MEDIA_BEFORE_AUDIO,
              MEDIA_LEAST - MEDIA_BEFORE_AUDIO);
    return (size_t)snprintf(out, room,
                            "m=audio 0 RTP/AVP %d\r\na=rtpmap:%d MPEG4-GENERIC/%d/2\r\na=fmtp:%d streamtype=5;"
                            "mode=AAC-hbr;config=%s;SizeLength=13;IndexLength=3;IndexDeltaLength=3\r\n"
                            "a=control:trackID=1\r\n",
                            AUDIO, AUDIO, AUDIO_RATE, AUDIO, config);
}

static void announce(struct announcer *announcer) {
    char body[BODY];
    size_t n = (size_t)snprintf(body, sizeof body, "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=%s\r\nt=0 0\r\n",
                                announcer->who);
    if (announcer->has_video)
        n += describe_video(announcer, body + n, sizeof body - n);
    if (announcer->has_audio)
        n += describe_audio(announcer, body + n, sizeof body - n);
    WORLD_CHECK(n < sizeof body, "%s: a description is too long", announcer->who);
    ask(announcer, "ANNOUNCE", "", "", body);
}

/* The next track, or all of them are to be recorded. */
static void go_on(struct announcer *announcer) {
    char behind[16], header[96];
    if (announcer->next_track == 0 && !announcer->has_video)
        announcer->next_track++;
    unsigned track = announcer->next_track++;
    if (track >= (announcer->has_audio ? 2 : 1)) {
        announcer->step = ANNOUNCER_STARTS;
        ask(announcer, "RECORD", "", "", "");
        return;
    }
    announcer->step = ANNOUNCER_SETS_UP;
    snprintf(behind, sizeof behind, "/trackID=%u", track);
    snprintf(header, sizeof header, "Transport: RTP/AVP/TCP;unicast;interleaved=%u-%u;mode=record\r\n", 2 * track,
             2 * track + 1);
    ask(announcer, "SETUP", behind, header, "");
}

static void granted(void *user, const char *reply) {
    struct announcer *announcer = user;
    (void)reply;
    switch (announcer->step) {
    case ANNOUNCER_ANNOUNCES:
    case ANNOUNCER_SETS_UP:
        go_on(announcer);
        break;
    case ANNOUNCER_STARTS:
        announcer->step = ANNOUNCER_SENDS;
        break;
    case ANNOUNCER_SENDS:
    case ANNOUNCER_LEAVES:
        break;
    }
}

static void refused(void *user, unsigned status) {
    struct announcer *announcer = user;
    world_trace("announcer refused", announcer->step, status, 0);
    WORLD_CHECK(status == 403 || status >= 500 || announcer->has_lied, "%s: refused with %u", announcer->who, status);
    announcer->is_refused = true;
}

/* Reports of what has come. */
static void see_packet(void *user, unsigned channel, const uint8_t *bytes, size_t n) {
    const struct announcer *announcer = user;
    unsigned track = channel / 2;
    WORLD_CHECK(channel % 2 == 1 && track < ANNOUNCER_TRACKS && announcer->step >= ANNOUNCER_STARTS && n >= 8 &&
                    bytes[0] >> 6 == 2 && bytes[1] == SENDER_REPORT + 1 && (get16(bytes + 2) + 1) * 4 <= n,
                "%s: a report of %zu bytes in channel %u", announcer->who, n, channel);
    /* Over a connection nothing is lost on the way. */
    WORLD_CHECK((bytes[0] & TYPE) == 0 || (n >= 16 && bytes[12] == 0), "%s: a part of %u is reported as lost",
                announcer->who, bytes[12]);
}

void announcer_begin(struct announcer *announcer, const struct media_tag *first, bool has_video, bool has_audio) {
    static const struct dialog_events events = {.granted = granted, .refused = refused, .packet = see_packet};
    struct media_tag header = *first;
    *announcer = (struct announcer){
        .has_video = has_video,
        .has_audio = has_audio,
        .is_hasty = world_one_in(4),
        .sets_in_band = world_one_in(3),
        .packet_most = world_one_in(4) ? world_between(100, 40000) : 1400,
    };
    snprintf(announcer->who, sizeof announcer->who, "publisher %u of %u", first->generation, first->stream);
    announcer->dialog = (struct dialog){
        .who = announcer->who, .stream = first->stream, .events = &events, .user = announcer};
    header.size = MEDIA_LEAST;
    header.kind = MEDIA_VIDEO_HEADER;
    media_write_tag(announcer->video_header, &header);
    header.kind = MEDIA_AUDIO_HEADER;
    media_write_tag(announcer->audio_header, &header);
    for (unsigned i = 0; i < ANNOUNCER_TRACKS; i++)
        announcer->tracks[i] = (struct announcer_track){(uint16_t)world_random(65536), world_between(1, 1000000),
                                                        world_random(UINT32_MAX)};
    announce(announcer);
}

void announcer_take(struct announcer *announcer, const uint8_t *bytes, size_t n) {
    dialog_take(&announcer->dialog, bytes, n);
}

bool announcer_may_send(const struct announcer *announcer) {
    return announcer->step == ANNOUNCER_SENDS || (announcer->step == ANNOUNCER_STARTS && announcer->is_hasty);
}

/* Media */

static uint32_t rtp_time(const struct announcer *announcer, unsigned track, uint32_t milliseconds) {
    uint64_t units = track == 0 ? (uint64_t)milliseconds * VIDEO_RATE : (uint64_t)milliseconds * AUDIO_RATE / 1000;
    return announcer->tracks[track].first_time + (uint32_t)units;
}

static void put_interleaved(struct announcer *announcer, unsigned channel, size_t n) {
    uint8_t head[DIALOG_INTERLEAVED] = {'$', (uint8_t)channel};
    put16(head + 2, (uint32_t)n);
    put(announcer, head, sizeof head);
}

struct packet {
    unsigned track, type;
    bool marker;
    uint32_t time;
};

/* A packet whose payload is in two parts. */
static void put_packet(struct announcer *announcer, const struct packet *packet, const uint8_t *one, size_t one_size,
                       const uint8_t *other, size_t other_size) {
    struct announcer_track *track = &announcer->tracks[packet->track];
    uint8_t head[RTP] = {VERSION, (uint8_t)(packet->type | (packet->marker ? MARKER : 0))};
    put16(head + 2, ++track->sequence);
    put32(head + 4, packet->time);
    put32(head + 8, track->source);
    /* Now and then twice: some senders repeat what has gone by a network that loses. */
    for (unsigned times = world_one_in(40) ? 2 : 1; times > 0; times--) {
        put_interleaved(announcer, 2 * packet->track, RTP + one_size + other_size);
        put(announcer, head, sizeof head);
        put(announcer, one, one_size);
        put(announcer, other, other_size);
    }
}

static uint32_t piece(const struct announcer *announcer, size_t left) {
    uint32_t most = world_one_in(8) ? world_between(50, announcer->packet_most) : announcer->packet_most;
    return left < most ? (uint32_t)left : most;
}

/* In one packet where it fits; else in fragments. */
static void put_nal(struct announcer *announcer, struct packet *packet, const uint8_t *nal, size_t n) {
    uint32_t here = piece(announcer, n);
    if (here == n) {
        packet->marker = true;
        put_packet(announcer, packet, nal, n, NULL, 0);
        return;
    }
    for (size_t done = 1; done < n; done += here) {
        here = piece(announcer, n - done);
        bool begins = done == 1;
        /* All of it in one fragment is not allowed. */
        if (begins && done + here == n)
            here--;
        bool ends = done + here == n;
        uint8_t head[2] = {(uint8_t)((nal[0] & ~TYPE) | FU_A),
                           (uint8_t)((begins ? BEGINS : 0) | (ends ? ENDS : 0) | (nal[0] & TYPE))};
        packet->marker = ends;
        put_packet(announcer, packet, head, sizeof head, nal + done, here);
    }
}

/* The parameter sets, in one packet or in two. */
static void put_sets(struct announcer *announcer, const struct packet *packet) {
    const uint8_t *payload = announcer->video_header + MEDIA_TAG_HEADER;
    enum { PPS_SIZE = MEDIA_LEAST - MEDIA_PPS };
    if (world_one_in(2)) {
        put_packet(announcer, packet, payload + MEDIA_SPS, MEDIA_SPS_SIZE, NULL, 0);
        put_packet(announcer, packet, payload + MEDIA_PPS, PPS_SIZE, NULL, 0);
        return;
    }
    uint8_t both[5 + MEDIA_SPS_SIZE + PPS_SIZE] = {0x60 | STAP_A};
    put16(both + 1, MEDIA_SPS_SIZE);
    memcpy(both + 3, payload + MEDIA_SPS, MEDIA_SPS_SIZE);
    put16(both + 3 + MEDIA_SPS_SIZE, PPS_SIZE);
    memcpy(both + 5 + MEDIA_SPS_SIZE, payload + MEDIA_PPS, PPS_SIZE);
    put_packet(announcer, packet, both, sizeof both, NULL, 0);
}

/* Each packet says how long the whole frame is. */
static void put_audio(struct announcer *announcer, struct packet *packet, const uint8_t *frame, size_t n) {
    uint8_t head[AU] = {0, 16};
    uint32_t here;
    put16(head + 2, (uint32_t)n << 3);
    for (size_t done = 0; done < n; done += here) {
        here = piece(announcer, n - done);
        packet->marker = done + here == n;
        put_packet(announcer, packet, head, sizeof head, frame + done, here);
    }
}

static void put_report(struct announcer *announcer, unsigned track, uint32_t milliseconds) {
    uint8_t report[REPORT] = {VERSION, SENDER_REPORT, 0, REPORT / 4 - 1};
    put32(report + 4, announcer->tracks[track].source);
    put32(report + 8, 3900000000U + milliseconds / 1000);
    put32(report + 12, (uint32_t)((uint64_t)(milliseconds % 1000) * UINT32_MAX / 1000));
    put32(report + 16, rtp_time(announcer, track, milliseconds));
    put_interleaved(announcer, 2 * track + 1, sizeof report);
    put(announcer, report, sizeof report);
}

/* What else comes between frames, and must not disturb them. */
static void put_other(struct announcer *announcer, unsigned track, uint32_t milliseconds) {
    static const uint8_t noise[] = "nothing that is heard";
    const struct packet packet = {track, NOISE, false, rtp_time(announcer, track, milliseconds)};
    switch (world_random(24)) {
    case 0:
        put_packet(announcer, &packet, noise, sizeof noise, NULL, 0);
        break;
    case 1:
        put_report(announcer, track, milliseconds);
        break;
    case 2:
        /* A channel that nobody has set up. */
        put_interleaved(announcer, 9, sizeof noise);
        put(announcer, noise, sizeof noise);
        break;
    case 3:
        if (announcer->step == ANNOUNCER_SENDS && dialog_is_answered(&announcer->dialog))
            ask(announcer, world_one_in(2) ? "GET_PARAMETER" : "OPTIONS", "", "", "");
        break;
    }
}

void announcer_put_frame(struct announcer *announcer, const struct media_tag *tag) {
    static uint8_t bytes[MEDIA_MOST + MEDIA_AROUND];
    const uint8_t *payload = bytes + MEDIA_TAG_HEADER;
    unsigned track = tag->kind == MEDIA_AUDIO ? 1 : 0;
    struct packet packet = {track, track == 0 ? VIDEO : AUDIO, false, rtp_time(announcer, track, tag->timestamp)};
    media_write_tag(bytes, tag);
    announcer->waited = dialog_is_answered(&announcer->dialog) ? 0 : announcer->waited + 1;
    WORLD_CHECK(announcer->waited < PATIENCE || !world_is_calm(), "%s: request %u is not answered", announcer->who,
                announcer->dialog.asked);
    put_other(announcer, track, tag->timestamp);
    if (tag->kind == MEDIA_AUDIO) {
        put_audio(announcer, &packet, payload + MEDIA_BEFORE_AUDIO, tag->size - MEDIA_BEFORE_AUDIO);
        return;
    }
    if (tag->kind == MEDIA_KEY_FRAME && announcer->sets_in_band)
        put_sets(announcer, &packet);
    put_nal(announcer, &packet, payload + MEDIA_BEFORE_NAL, tag->size - MEDIA_BEFORE_NAL);
}

void announcer_put_end(struct announcer *announcer) {
    announcer->step = ANNOUNCER_LEAVES;
    if (*announcer->dialog.session && world_one_in(2))
        ask(announcer, "TEARDOWN", "", "", "");
}

const uint8_t *announcer_take_out(struct announcer *announcer, size_t *ret_size) {
    *ret_size = announcer->out_length;
    announcer->out_length = 0;
    return announcer->out;
}

void announcer_clear(struct announcer *announcer) {
    dialog_clear(&announcer->dialog);
    world_free(announcer->out);
}
