#include "shared/rtp_input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <sluice/codec.h>
#include <sluice/rtp_flv.h>

#include "shared/clock.h"

enum {
    NOT_TAKEN = -1,
    NAME_MOST = 32, /* characters of a word of a media's name */
};

struct rtp_input {
    sluice_rtp_flv *flv;
    int8_t tracks[SLUICE_SDP_MAX_MEDIA]; /* of each media, or NOT_TAKEN */
    size_t media_count;
    uint32_t ssrc;
    uint32_t max_frame; /* bytes; 0: the library's limit */
    bool has_more;      /* tags of the last packet are to be taken */
    const struct rtp_input_events *events;
    void *user;
};

/* The track that carries the media in one of its formats. */
static int add_track(struct rtp_input *input, const sluice_sdp_media *media) {
    for (size_t i = 0; i < media->format_count; i++) {
        const sluice_sdp_format *format = &media->formats[i];
        sluice_codec_config config;
        sluice_rtp_unpacker_options options = {.size = sizeof options, .max_unit = input->max_frame};
        uint8_t channels = format->channels <= UINT8_MAX ? (uint8_t)format->channels : 0;
        if (sluice_codec_read_rtpmap(&config, format->encoding, format->clock_rate, channels, &options) < 0 ||
            sluice_codec_read_fmtp(&config, format->fmtp, &options) < 0)
            continue;
        int track = sluice_rtp_flv_add(input->flv, &config, &options, format->payload_type);
        if (track >= 0 || track == -ENOMEM)
            return track;
    }
    return NOT_TAKEN;
}

/* Appends a word of the peer's, of which only what encodings' names are made of is shown. */
static size_t append_word(char *text, size_t at, sluice_http_text word) {
    for (size_t i = 0; i < word.length && i < NAME_MOST; i++) {
        char byte = word.text[i];
        bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
                     byte == '-' || byte == '.' || byte == '_' || byte == '+';
        text[at++] = byte;
        if (!plain)
            text[at - 1] = '?';
    }
    return at;
}

/* Appends the name of a media, by the first of its formats. */
static void add_name(char names[RTP_INPUT_NAMES], const sluice_sdp_media *media) {
    static const char more[] = ", ...";
    char name[2 * NAME_MOST + 8];
    const sluice_sdp_format *format = &media->formats[0];
    size_t at = append_word(name, 0, media->type), length = strlen(names);
    name[at++] = '/';
    at = append_word(name, at, format->encoding.length > 0 ? format->encoding : format->name);
    /* The end is cut off once, and is said to be. */
    if (length >= sizeof more && strcmp(names + length - sizeof more + 1, more) == 0)
        return;
    if (length + 2 + at + sizeof more > RTP_INPUT_NAMES)
        snprintf(names + length, RTP_INPUT_NAMES - length, "%s", more);
    else
        snprintf(names + length, RTP_INPUT_NAMES - length, "%s%.*s", length > 0 ? ", " : "", (int)at, name);
}

int rtp_input_new(sluice_pool *pool, const sluice_sdp *sdp, uint32_t max_frame, const struct rtp_input_events *events,
                  void *user, struct rtp_input **ret_input, char ret_ignored[RTP_INPUT_NAMES]) {
    struct rtp_input *input = calloc(1, sizeof *input);
    int error = input ? sluice_rtp_flv_new(pool, &input->flv) : -ENOMEM;
    bool any = false;
    if (input)
        input->max_frame = max_frame;
    ret_ignored[0] = '\0';
    if (!error && getrandom(&input->ssrc, sizeof input->ssrc, 0) < 0)
        error = -errno;
    for (size_t i = 0; i < sdp->media_count && !error; i++) {
        int track = add_track(input, &sdp->media[i]);
        input->tracks[i] = (int8_t)track;
        any |= track >= 0;
        error = track == -ENOMEM ? -ENOMEM : 0;
        if (track == NOT_TAKEN)
            add_name(ret_ignored, &sdp->media[i]);
    }
    if (error || !any) {
        rtp_input_free(input);
        return error ? error : -EOPNOTSUPP;
    }
    input->media_count = sdp->media_count;
    input->events = events;
    input->user = user;
    *ret_input = input;
    return 0;
}

void rtp_input_free(struct rtp_input *input) {
    if (!input)
        return;
    sluice_rtp_flv_free(input->flv);
    free(input);
}

bool rtp_input_takes(const struct rtp_input *input, size_t media) {
    return media < input->media_count && input->tracks[media] >= 0;
}

static void tell_dropped(const struct rtp_input *input, int error) {
    void (*dropped)(void *user) = error == -EMSGSIZE ? input->events->too_large : input->events->lost;
    if (dropped)
        dropped(input->user);
}

/* Until the consumer has had enough; @all: until there is none. */
static void take_tags(struct rtp_input *input, bool all) {
    sluice_flv_tag *tag;
    int result;
    input->has_more = false;
    while (!input->has_more && (result = sluice_rtp_flv_next(input->flv, &tag)) != 0) {
        if (result > 0)
            input->has_more = !input->events->tag(tag, sluice_rtp_flv_flags(input->flv), input->user) && !all;
        else
            tell_dropped(input, result);
    }
}

bool rtp_input_has_more(const struct rtp_input *input) {
    return input->has_more;
}

void rtp_input_go_on(struct rtp_input *input) {
    take_tags(input, false);
}

void rtp_input_rtp(struct rtp_input *input, size_t media, const sluice_slice *packet) {
    if (input->tracks[media] >= 0 &&
        sluice_rtp_flv_push(input->flv, (unsigned)input->tracks[media], packet, clock_ns()) == 0)
        take_tags(input, false);
}

bool rtp_input_rtcp(struct rtp_input *input, size_t media, const sluice_slice *compound) {
    bool ended = false;
    if (input->tracks[media] >= 0)
        (void)sluice_rtp_flv_push_rtcp(input->flv, (unsigned)input->tracks[media], compound, clock_ns(), &ended);
    return ended;
}

size_t rtp_input_write_report(struct rtp_input *input, size_t media, uint8_t buffer[RTP_MAX_RECEIVER_REPORT]) {
    if (input->tracks[media] < 0)
        return 0;
    int length = sluice_rtp_flv_report(input->flv, (unsigned)input->tracks[media], input->ssrc, clock_ns(), "sluiced",
                                       buffer, RTP_MAX_RECEIVER_REPORT);
    return length > 0 ? (size_t)length : 0;
}

size_t rtp_input_blocks(const struct rtp_input *input) {
    size_t blocks = 0;
    for (unsigned track = 0; track < SLUICE_RTP_FLV_TRACKS; track++)
        blocks += sluice_rtp_flv_blocks(input->flv, track);
    return blocks;
}

bool rtp_input_is_inside(const struct rtp_input *input, uint64_t *ret_frame) {
    size_t most = 0;
    for (unsigned track = 0; track < SLUICE_RTP_FLV_TRACKS; track++) {
        size_t blocks = sluice_rtp_flv_blocks(input->flv, track);
        sluice_rtp_flv_stats stats = {.size = sizeof stats};
        if (blocks <= most || sluice_rtp_flv_get_stats(input->flv, track, &stats) < 0)
            continue;
        most = blocks;
        *ret_frame = (stats.frames + stats.dropped) * SLUICE_RTP_FLV_TRACKS + track;
    }
    return most > 0;
}

void rtp_input_get_counts(const struct rtp_input *input, struct rtp_input_counts *ret_counts) {
    struct rtp_input_counts counts = {0};
    for (unsigned track = 0; track < SLUICE_RTP_FLV_TRACKS; track++) {
        sluice_rtp_flv_stats stats = {.size = sizeof stats};
        if (sluice_rtp_flv_get_stats(input->flv, track, &stats) < 0)
            continue;
        counts.packets += stats.packets;
        counts.lost += stats.lost;
        counts.malformed += stats.malformed;
        counts.dropped += stats.dropped;
    }
    *ret_counts = counts;
}

void rtp_input_flush(struct rtp_input *input) {
    /* First what is left of the last packet, then what the flush completes. */
    take_tags(input, true);
    sluice_rtp_flv_flush(input->flv);
    take_tags(input, true);
}
