#include "daemon/relay/rtp_packetizer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "daemon/relay/player.h"

enum {
    FIRST_DYNAMIC = 96,
    PCMU_MONO = 0, /* RFC 3551, table 4 */
    PCMA_MONO = 8,
    /*
     * A frame may have so many RTP packets, and one more for so many bytes. A packet costs some
     * dozens of bytes, and is walked over: a frame of NAL units of a byte each would cost a hundred
     * times what it brings.
     */
    FRAME_PACKETS = 256,
    FRAME_PACKET_BYTES = 512,
    /* How the wall clock of reports follows the media. */
    /* by which it may be wrong: players need the tracks to agree, not the time of day */
    TOLERANCE_MS = 500,
    STEP_MS = 1000,   /* beyond which it moves at once: players jump with it */
    SLEW_MS = 1,      /* and short of which it moves by so much for each window */
    GAP_MS = 1000,    /* without a frame */
    WINDOW_MS = 3000, /* in which no frame is in time */
};

bool rtp_packetizer_has_tracks(const struct rtp_packetizer *output) {
    return output->tracks[RTP_VIDEO_TRACK].present || output->tracks[RTP_AUDIO_TRACK].present;
}

static const struct tracks *tracks_of(const struct stream *stream, unsigned track) {
    return track == RTP_VIDEO_TRACK ? &stream->video : &stream->audio;
}

static struct packet *header_in(const struct stream_headers *headers, unsigned track, uint8_t place) {
    return stream_headers_get(headers, track == RTP_VIDEO_TRACK ? PACKET_VIDEO_HEADER : PACKET_AUDIO_HEADER, place);
}

/*
 * What is known of a main track: by its sequence header, or by its codec alone. @header: the one
 * that is in force, or NULL. False where RTP cannot carry it.
 */
static bool read_config(const struct stream *stream, unsigned number, const struct packet *header,
                        sluice_codec_config *config) {
    bool video = number == RTP_VIDEO_TRACK;
    const struct track *track = tracks_main(tracks_of(stream, number));
    if (!(stream->seen & (video ? SLUICE_FLV_HAS_VIDEO : SLUICE_FLV_HAS_AUDIO)))
        return false;
    sluice_flv_view view = header ? packet_view(header) : (sluice_flv_view){0};
    if (header && sluice_codec_rtp_format(view.codec) >= 0)
        return sluice_codec_read_record(config, view.codec, &header->payload, view.header_size) == 0;
    /* The others cannot be sent without one. */
    return (track->codec == SLUICE_CODEC_OPUS || track->codec == SLUICE_CODEC_PCMA ||
            track->codec == SLUICE_CODEC_PCMU) &&
           sluice_codec_init(config, track->codec, 0, track->channels) == 0;
}

/* What players were told and cannot be told again: of video, parameter sets come with the key
 * frames. */
static bool is_other_config(const sluice_codec_config *before, const sluice_codec_config *config) {
    if (before->codec != config->codec || before->clock_rate != config->clock_rate ||
        before->channels != config->channels)
        return true;
    return config->codec == SLUICE_CODEC_AAC &&
           (before->size != config->size || memcmp(before->bytes, config->bytes, config->size) != 0);
}

static bool is_other(const struct rtp_track *track, bool present, uint8_t id, const sluice_codec_config *config) {
    if (track->present != present || !present)
        return track->present != present;
    return track->id != id || is_other_config(&track->config, config);
}

static uint8_t payload_type_of(unsigned track, const sluice_codec_config *config) {
    if (config->codec == SLUICE_CODEC_PCMU && config->channels == 1)
        return PCMU_MONO;
    if (config->codec == SLUICE_CODEC_PCMA && config->channels == 1)
        return PCMA_MONO;
    return (uint8_t)(FIRST_DYNAMIC + track);
}

static int make_track(struct rtp_track *track, unsigned number) {
    struct {
        uint32_t ssrc, timestamp;
        uint16_t sequence;
    } random;
    if (getrandom(&random, sizeof random, 0) < (ssize_t)sizeof random)
        return -EIO;
    const sluice_flv_rtp_options options = {
        .size = sizeof options,
        .type = number == RTP_VIDEO_TRACK ? SLUICE_FLV_VIDEO : SLUICE_FLV_AUDIO,
        .payload_type = track->payload_type,
        .track = track->id,
        .ssrc = random.ssrc,
        .sequence = random.sequence,
        .timestamp = random.timestamp,
    };
    sluice_flv_rtp_free(track->rtp);
    track->rtp = NULL;
    return sluice_flv_rtp_new(&options, &track->rtp);
}

/* The track by the header with which the group begins, unless what follows it is another track to
 * players. */
static bool choose_config(struct rtp_packetizer *output, const struct stream *stream, unsigned number,
                          sluice_codec_config *config) {
    uint8_t place = tracks_of(stream, number)->main;
    const struct packet *now = header_in(&stream->headers, number, place);
    const struct packet *then = stream->gop.count > 0 ? header_in(&stream->gop.headers, number, place) : NULL;
    /* One of a codec that has no headers has followed. */
    if (now && packet_view(now).codec != tracks_main(tracks_of(stream, number))->codec)
        now = then = NULL;
    bool present = read_config(stream, number, now, config);
    sluice_codec_config earlier;
    if (!present || !then || packet_version(then) == packet_version(now) ||
        !read_config(stream, number, then, &earlier))
        return present;
    if (is_other_config(&earlier, config))
        output->has_group = false;
    else
        *config = earlier;
    return true;
}

void rtp_packetizer_describe(struct rtp_packetizer *output, const struct stream *stream) {
    bool other = output->description == 0;
    output->has_group = true;
    for (unsigned i = 0; i < PACKET_TRACKS; i++) {
        struct rtp_track *track = &output->tracks[i];
        const struct tracks *tracks = tracks_of(stream, i);
        sluice_codec_config config;
        bool present = choose_config(output, stream, i, &config);
        bool differs = is_other(track, present, tracks_main(tracks)->id, &config);
        other |= differs;
        track->present = present;
        if (!present)
            continue;
        track->config = config;
        track->place = tracks->main;
        track->id = tracks_main(tracks)->id;
        track->payload_type = payload_type_of(i, &config);
        if (differs && make_track(track, i) < 0)
            track->present = false;
    }
    output->description += other;
}

bool rtp_packetizer_has_group(const struct rtp_packetizer *output) {
    return output->has_group;
}

static struct rtp_track *track_of(struct rtp_packetizer *output, const struct packet *packet) {
    return &output->tracks[packet->type == SLUICE_FLV_VIDEO ? RTP_VIDEO_TRACK : RTP_AUDIO_TRACK];
}

static void note_header(struct rtp_packetizer *output, const struct packet *header) {
    if (!header)
        return;
    struct rtp_track *track = track_of(output, header);
    sluice_flv_rtp_packet none;
    if (track->present && track->place == header->track &&
        sluice_flv_rtp_push(track->rtp, header->type, header->timestamp, &header->payload) == 0)
        while (sluice_flv_rtp_next(track->rtp, &none) > 0)
            continue;
}

static void note_headers(struct rtp_packetizer *output, const struct stream_headers *headers) {
    for (unsigned i = 0; i < PACKET_TRACKS; i++)
        note_header(output, header_in(headers, i, output->tracks[i].place));
}

static uint64_t ntp_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return sluice_rtp_ntp_from_unix((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
}

/* In the units of NTP: 2^32 in a second. */
static int64_t ntp_of(int64_t milliseconds) {
    const int64_t second = (int64_t)1 << 32;
    return milliseconds / 1000 * second + milliseconds % 1000 * second / 1000;
}

static void begin_window(struct rtp_packetizer *output, uint64_t now) {
    output->window_at = output->noted_at = now;
    output->least = INT64_MAX;
}

/* How far the clock moves when the least late frame of a window was @late. */
static int64_t correction(int64_t late) {
    const int64_t slew = ntp_of(SLEW_MS);
    if (late > ntp_of(STEP_MS))
        return late;
    if (late > ntp_of(TOLERANCE_MS))
        return slew;
    return late < -ntp_of(TOLERANCE_MS) ? -slew : 0;
}

/*
 * Both tracks have one wall clock, which follows the media. A late frame may have been held up on
 * its way. But if no frame of a while was in time, then the time of the publisher has stood still
 * (the clock moves by the lateness of the least late frame) or its clock differs from ours (it is
 * followed by steps that nobody notices). A player that takes times from reports jumps when the
 * clock does, so unsteady frames move nothing. A frame ahead of the clock cannot have been held up:
 * it moves the clock at once, if it is far ahead, or no report has shown the clock yet.
 */
static void note_time(struct rtp_packetizer *output, uint32_t timestamp) {
    uint64_t now = ntp_now();
    int64_t time = ntp_of(sluice_rtp_unwrap(&output->clock, timestamp));
    int64_t late = (int64_t)(now - output->ntp_zero - (uint64_t)time);
    bool is_free = !output->has_clock || (!output->is_reported && late < 0);
    if (is_free || late < -ntp_of(STEP_MS)) {
        output->has_clock = true;
        output->ntp_zero = now - (uint64_t)time;
        begin_window(output, now);
        return;
    }
    /* What came before a gap says nothing about what comes behind it. */
    if (now - output->noted_at >= (uint64_t)ntp_of(GAP_MS))
        begin_window(output, now);
    output->noted_at = now;
    if (late < output->least)
        output->least = late;
    if (now - output->window_at < (uint64_t)ntp_of(WINDOW_MS))
        return;
    output->ntp_zero += (uint64_t)correction(output->least);
    begin_window(output, now);
}

static int add_packet(struct rtp_packetizer *output, struct packet *packet, const sluice_flv_rtp_packet *made) {
    if (packet->rtp.count >= FRAME_PACKETS + packet_size(packet) / FRAME_PACKET_BYTES)
        return -EMSGSIZE;
    struct rtp_packet *rtp = packet_add_rtp(packet, &output->packets);
    if (!rtp)
        return -ENOMEM;
    if (packet->rtp.wire_size == 0) {
        packet->rtp.timestamp = made->timestamp;
        packet->rtp.sequence = made->sequence;
    }
    memcpy(rtp->head + SLUICE_RTSP_INTERLEAVED_SIZE, made->header, made->header_size);
    rtp->head_size = (uint8_t)(SLUICE_RTSP_INTERLEAVED_SIZE + made->header_size);
    sluice_slice_ref(&made->slice, &rtp->rest);
    rtp_packet_finish(&packet->rtp, rtp);
    return 0;
}

/* True where the packet has become RTP packets just now. */
static bool make(struct rtp_packetizer *output, struct packet *packet) {
    unsigned number = packet->type == SLUICE_FLV_VIDEO ? RTP_VIDEO_TRACK : RTP_AUDIO_TRACK;
    struct rtp_track *track = &output->tracks[number];
    sluice_flv_rtp_packet made;
    /* Those of the group: of now, take_header() takes them. */
    if (packet->role == PACKET_VIDEO_HEADER || packet->role == PACKET_AUDIO_HEADER)
        note_header(output, packet);
    if (packet_rtp(packet) || packet->role < PACKET_KEY_FRAME || packet->role > PACKET_AUDIO)
        return false;
    packet_begin_rtp(packet, (uint8_t)number);
    if (!track->present || track->place != packet->track ||
        sluice_flv_rtp_push(track->rtp, packet->type, packet->timestamp, &packet->payload) < 0)
        return false;
    int result, error = 0;
    while (!error && (result = sluice_flv_rtp_next(track->rtp, &made)) > 0)
        error = add_packet(output, packet, &made);
    if (error || result < 0) {
        /* The frame is lost for RTSP players, who see it by the sequence numbers. */
        sluice_flv_rtp_cancel(track->rtp);
        packet_drop_rtp(packet);
        return false;
    }
    return true;
}

void rtp_packetizer_begin(struct rtp_packetizer *output, const struct stream *stream) {
    /* The last packet of the group has just come; the others say nothing about the time. */
    const struct packet *last = NULL;
    rtp_packetizer_describe(output, stream);
    if (output->has_group) {
        note_headers(output, &stream->gop.headers);
        for (size_t i = 0; i < stream->gop.count; i++)
            if (make(output, stream->gop.packets[i]))
                last = stream->gop.packets[i];
    }
    note_headers(output, &stream->headers);
    if (last)
        note_time(output, last->timestamp);
}

/* A header that is the stream's now. True: the track is another one by it than players were
 * told. */
static bool take_header(struct rtp_packetizer *output, const struct stream *stream, const struct packet *header) {
    sluice_codec_config config;
    struct rtp_track *track = track_of(output, header);
    unsigned number = (unsigned)(track - output->tracks);
    if (!track->present || track->place != header->track)
        return false;
    if (read_config(stream, number, header, &config) && !is_other_config(&track->config, &config)) {
        note_header(output, header);
        return false;
    }
    rtp_packetizer_begin(output, stream);
    return true;
}

/*
 * Makes the packet's RTP packets, unless it has them; takes note of headers. Where that fails, it
 * has none: for want of memory, or because the frame is in more parts than its size is worth.
 * Players of tracks that are others from now on are ended: they cannot be told.
 */
static void packetize(struct stream_sink *sink, struct stream *stream, struct packet *packet, uint8_t flags) {
    struct rtp_packetizer *output = (struct rtp_packetizer *)sink;
    (void)flags;
    if (!stream->settled || stream->rtp_players == 0)
        return;
    if (packet->role != PACKET_VIDEO_HEADER && packet->role != PACKET_AUDIO_HEADER) {
        if (make(output, packet))
            note_time(output, packet->timestamp);
        return;
    }
    if (!take_header(output, stream, packet))
        return;
    for (struct player *player = stream->players; player; player = player->next)
        if (player->form.format->is_packetized && (player->state == PLAYER_PLAYING || player->state == PLAYER_BEHIND))
            player_end(player);
}

static void freed(struct stream_sink *sink) {
    struct rtp_packetizer *output = (struct rtp_packetizer *)sink;
    for (size_t i = 0; i < PACKET_TRACKS; i++)
        sluice_flv_rtp_free(output->tracks[i].rtp);
    free(output);
}

struct rtp_packetizer *rtp_packetizer_new(struct stream *stream) {
    static const struct stream_sink_type type = {.rank = SINK_PACKETIZER, .packet = packetize, .freed = freed};
    struct rtp_packetizer *output = calloc(1, sizeof *output);
    if (!output)
        return NULL;
    if (getrandom(&output->id, sizeof output->id, 0) < 0)
        output->id = 1;
    output->sink.type = &type;
    stream_add_sink(stream, &output->sink);
    return output;
}

int rtp_packetizer_write_sdp(const struct rtp_packetizer *output, const char *name, const char *address, char *buffer,
                             size_t size) {
    char fmtp[SLUICE_CODEC_MAX_FMTP];
    sluice_sdp_writer writer;
    sluice_sdp_write_session(&writer, buffer, size, output->id, output->description, address, name, "sluiced");
    sluice_sdp_write_attribute(&writer, "range", "npt=now-");
    sluice_sdp_write_attribute(&writer, "control", "*");
    for (unsigned i = 0; i < PACKET_TRACKS; i++) {
        const struct rtp_track *track = &output->tracks[i];
        if (!track->present)
            continue;
        sluice_sdp_write_media(&writer, i == RTP_VIDEO_TRACK ? "video" : "audio", track->payload_type,
                               sluice_codec_rtp_name(track->config.codec), track->config.clock_rate,
                               track->config.channels);
        if (sluice_codec_write_fmtp(&track->config, fmtp, sizeof fmtp) > 0)
            sluice_sdp_write_attribute(&writer, "fmtp", "%u %s", track->payload_type, fmtp);
        sluice_sdp_write_attribute(&writer, "control", "trackID=%u", i);
    }
    return sluice_sdp_write_end(&writer);
}

size_t rtp_packetizer_write_report(struct rtp_packetizer *output, unsigned number, uint8_t buffer[RTP_MAX_REPORT]) {
    const struct rtp_track *track = &output->tracks[number];
    if (!track->present || !output->has_clock)
        return 0;
    output->is_reported = true;
    int length = sluice_flv_rtp_report(track->rtp, output->ntp_zero, ntp_now(), "sluiced", buffer, RTP_MAX_REPORT);
    return length > 0 ? (size_t)length : 0;
}
