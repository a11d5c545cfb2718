#include "framers/convert/rtp_flv.h"

#include <errno.h>
#include <stdlib.h>

#include "abi/sized.h"
#include "framers/codec/codec.h"
#include "framers/flv/flv_view.h"
#include "framers/rtp/rtp_unpack.h"
#include "memory/chain.h"
#include "reader/cursor.h"

enum {
    G711_RATE = 8000,
    /*
     * What is carried has clocks of 8,000 to 96,000 Hz, and some senders count microseconds. A
     * timestamp has 32 bits: of a clock that is faster than this, a gap of minutes could be one in
     * either direction.
     */
    MAX_CLOCK_RATE = 10000000,
    MILLI = 1000,
    MOST_COMPOSITION = 0x7FFFFF,
};

static const uint64_t nanoseconds_in_second = 1000000000;

struct track {
    struct rtp_flv_config *config;
    sluice_codec_config *shown; /* what sluice_rtp_flv_config() has returned; or NULL */
    sluice_rtp_unpacker *unpacker;
    sluice_rtp_unit *unit; /* the unpacker's, to be delivered; NULL for none */
    uint64_t now;          /* when its last packet came, nanoseconds */

    sluice_flv_type type;
    int payload_type; /* or SLUICE_RTP_FLV_ANY */
    uint32_t ssrc, other;
    bool has_ssrc;
    bool has_other; /* another source has been heard */

    bool is_complete; /* the configuration */
    bool header_due;  /* the sequence header is to be delivered before the next frame */
    bool stalled;     /* there was no memory for it: not again before the next packet */
    bool started;     /* a frame has been delivered */

    sluice_rtp_source source;
    /* raised when the source changes, so that sequence numbers go on ascending */
    uint64_t generation;
    uint64_t report_ntp, report_arrival;

    struct rtp_track_time time;
    struct rtp_decode_order *order; /* of video */
    int64_t decoded;                /* milliseconds, of the last tag */
    /* as in sluice_rtp_flv_stats, which has those of the source, too */
    struct {
        uint64_t malformed, ignored, frames, damaged, dropped;
    } stats;
};

struct sluice_rtp_flv {
    struct track tracks[SLUICE_RTP_FLV_TRACKS];
    unsigned track_count;
    struct rtp_decode_order order; /* of the video track, of which there is one at most */
    struct rtp_line line;
    struct rtp_flv_builder builder;
    sluice_flv_tag tag;
};

int sluice_rtp_flv_new(sluice_pool *pool, sluice_rtp_flv **ret_flv) {
    sluice_rtp_flv *flv = calloc(1, sizeof *flv);
    if (!flv)
        return -ENOMEM;
    flv->builder.pool = pool;
    *ret_flv = flv;
    return 0;
}

void sluice_rtp_flv_free(sluice_rtp_flv *flv) {
    if (!flv)
        return;
    for (unsigned i = 0; i < flv->track_count; i++) {
        sluice_rtp_unpacker_free(flv->tracks[i].unpacker);
        free(flv->tracks[i].config);
        free(flv->tracks[i].shown);
    }
    sluice_slice_release(&flv->tag.payload);
    sluice_block_release(flv->builder.headers);
    free(flv);
}

static bool is_carried(const sluice_codec_config *config) {
    bool is_g711 = config->codec == SLUICE_CODEC_PCMA || config->codec == SLUICE_CODEC_PCMU;
    if (sluice_codec_rtp_format(config->codec) < 0 || config->clock_rate == 0 || config->clock_rate > MAX_CLOCK_RATE)
        return false;
    if (is_g711)
        return config->clock_rate == G711_RATE && (config->channels == 1 || config->channels == 2);
    return codec_is_video(config->codec) || sluice_codec_is_complete(config);
}

/* G.711 has no sequence header. */
static bool has_header(const sluice_codec_config *config) {
    return config->codec != SLUICE_CODEC_PCMA && config->codec != SLUICE_CODEC_PCMU;
}

int sluice_rtp_flv_add(sluice_rtp_flv *flv, const sluice_codec_config *config,
                       const sluice_rtp_unpacker_options *options, int payload_type) {
    sluice_flv_type type = codec_is_video(config->codec) ? SLUICE_FLV_VIDEO : SLUICE_FLV_AUDIO;
    if (payload_type < SLUICE_RTP_FLV_ANY || payload_type > 127)
        return -EINVAL;
    if (!is_carried(config))
        return -EOPNOTSUPP;
    for (unsigned i = 0; i < flv->track_count; i++)
        if (flv->tracks[i].type == type)
            return -EEXIST;
    struct track *track = &flv->tracks[flv->track_count];
    *track = (struct track){
        .type = type,
        .payload_type = payload_type,
        .time.rate = config->clock_rate,
        .order = type == SLUICE_FLV_VIDEO ? &flv->order : NULL,
    };
    track->is_complete = sluice_codec_is_complete(config);
    track->header_due = has_header(config) && track->is_complete;
    int error = rtp_flv_keep_config(&track->config, config);
    if (!error)
        error = sluice_rtp_unpacker_new((sluice_rtp_format)sluice_codec_rtp_format(config->codec), options,
                                        &track->unpacker);
    if (!error) {
        track->unpacker->pool = flv->builder.pool;
        return (int)flv->track_count++;
    }
    free(track->config);
    track->config = NULL;
    return error;
}

uint8_t sluice_rtp_flv_flags(const sluice_rtp_flv *flv) {
    uint8_t flags = 0;
    for (unsigned i = 0; i < flv->track_count; i++)
        flags |= flv->tracks[i].type == SLUICE_FLV_VIDEO ? SLUICE_FLV_HAS_VIDEO : SLUICE_FLV_HAS_AUDIO;
    return flags;
}

/*
 * Whether the packet is of the track's source. Another one takes its place when two packets in a
 * row are of it: one may be a stray.
 */
static bool is_of_source(struct track *track, uint32_t ssrc) {
    if (track->has_ssrc && ssrc != track->ssrc) {
        bool again = track->has_other && track->other == ssrc;
        track->has_other = true;
        track->other = ssrc;
        if (!again)
            return false;
        /* Above all numbers there were, and there is a gap: what is under way is not to be gone on
         * with. */
        track->generation += (track->source.highest & ~(uint64_t)0xFFFF) + 0x20000;
        sluice_rtp_source fresh = {
            .received = track->source.received,
            .lost = track->source.lost,
            .reordered = track->source.reordered,
            .duplicates = track->source.duplicates,
            .restarts = track->source.restarts + 1,
        };
        track->source = fresh;
        track->time.mapping.valid = false;
    }
    track->has_ssrc = true;
    track->has_other = false;
    track->ssrc = ssrc;
    return true;
}

/*
 * A packet of another payload type is no source of the track's. Of the track's own source it has
 * one of the numbers, which is not missing then: the unpacker is given it without what it carries.
 */
static bool is_ignored(struct track *track, sluice_rtp_packet *packet) {
    if (track->payload_type == SLUICE_RTP_FLV_ANY || packet->payload_type == track->payload_type)
        return false;
    track->stats.ignored++;
    packet->payload_length = 0;
    return !track->has_ssrc || packet->ssrc != track->ssrc;
}

int sluice_rtp_flv_push(sluice_rtp_flv *flv, unsigned number, const sluice_slice *slice, uint64_t now) {
    if (number >= flv->track_count)
        return -EINVAL;
    struct track *track = &flv->tracks[number];
    sluice_rtp_packet packet;
    uint64_t sequence;
    int error = sluice_rtp_read(slice, &packet);
    if (error) {
        track->stats.malformed++;
        return error;
    }
    /* Before the packet is taken note of: it will be given again, and is no duplicate then. */
    if (track->unit || track->unpacker->has_packet)
        return -EBUSY;
    if (is_ignored(track, &packet) || !is_of_source(track, packet.ssrc))
        return 0;
    sluice_rtp_arrival arrival = sluice_rtp_note(&track->source, packet.sequence, &sequence);
    if (arrival == SLUICE_RTP_SUSPECT || arrival == SLUICE_RTP_DUPLICATE)
        return 0;
    track->now = now;
    track->stalled = false;
    if (packet.payload_length == 0) {
        error = sluice_rtp_unpacker_push(track->unpacker, slice, &packet, sequence + track->generation);
        return error == -ESTALE ? 0 : error;
    }
    uint64_t units = now / nanoseconds_in_second * track->time.rate +
                     now % nanoseconds_in_second * track->time.rate / nanoseconds_in_second;
    sluice_rtp_note_time(&track->source, packet.timestamp, (uint32_t)units);
    error = sluice_rtp_unpacker_push(track->unpacker, slice, &packet, sequence + track->generation);
    return error == -ESTALE ? 0 : error;
}

/* Whether a BYE is of the track's source, or of any where it is not known yet. */
static bool names_source(const struct track *track, const sluice_rtcp_packet *bye) {
    for (int i = 0; i < bye->count; i++)
        if (!track->has_ssrc || bye->sources[i] == track->ssrc)
            return true;
    return false;
}

int sluice_rtp_flv_push_rtcp(sluice_rtp_flv *flv, unsigned number, const sluice_slice *compound, uint64_t now,
                             bool *ret_bye) {
    if (number >= flv->track_count)
        return -EINVAL;
    struct track *track = &flv->tracks[number];
    sluice_rtcp_packet packet;
    size_t offset = 0;
    bool bye = false;
    int result;
    for (unsigned packets = 0; (result = sluice_rtcp_next(compound, &offset, &packet)) == 1; packets++) {
        bool ours = !track->has_ssrc || packet.ssrc == track->ssrc;
        if (packets == SLUICE_RTP_FLV_MAX_RTCP) {
            result = -EMSGSIZE;
            break;
        }
        if (packet.type == SLUICE_RTCP_SR && ours) {
            track->report_ntp = packet.ntp;
            track->report_arrival = now;
            rtp_time_report(&track->time, packet.ntp, packet.timestamp);
            for (unsigned i = 0; i < flv->track_count; i++)
                rtp_time_correct(&flv->line, &flv->tracks[i].time);
        }
        if (packet.type == SLUICE_RTCP_BYE)
            bye |= names_source(track, &packet);
    }
    track->stats.malformed += result < 0;
    if (ret_bye)
        *ret_bye = bye;
    return result;
}

/*
 * Takes the parameter sets of a picture: 1 (the configuration has changed), 0, or -ENOMEM (it has
 * not). Broken ones are left out.
 */
static int take_sets(struct track *track, const sluice_rtp_unit *unit) {
    sluice_codec_config config;
    bool known = false, changed = false;
    for (size_t i = 0; i < unit->nal_count; i++) {
        const sluice_rtp_nal *nal = &unit->nals[i];
        uint8_t bytes[SLUICE_CODEC_MAX_BYTES];
        size_t n = 0;
        if (!codec_is_set(track->config->codec, nal->type) || nal->length > sizeof bytes)
            continue;
        if (!known)
            rtp_flv_read_config(track->config, &config);
        known = true;
        for (; n < nal->header_size; n++)
            bytes[n] = nal->header[n];
        for (size_t p = nal->first; p < nal->first + (size_t)nal->count; p++) {
            sluice_cursor cursor = cursor_of_slice(&unit->pieces[p]);
            while (cursor_u8(&cursor, &bytes[n]))
                n++;
        }
        changed |= sluice_codec_add_set(&config, bytes, n) == 1;
    }
    int error = changed ? rtp_flv_keep_config(&track->config, &config) : 0;
    if (error || !changed)
        return error;
    track->is_complete = sluice_codec_is_complete(&config);
    return 1;
}

/* Whether there is more in the unit than parameter sets and a delimiter. */
static bool has_picture(const struct track *track, const sluice_rtp_unit *unit) {
    for (size_t i = 0; i < unit->nal_count; i++)
        if (!codec_is_set(track->config->codec, unit->nals[i].type) &&
            !codec_is_delimiter(track->config->codec, unit->nals[i].type))
            return true;
    return false;
}

static void configure_order(struct track *track) {
    sluice_codec_config config;
    rtp_flv_read_config(track->config, &config);
    rtp_decode_configure(track->order, &config);
}

/* The next unit of the track that is to be delivered: 1, 0 (none), -ENOMEM or -EMSGSIZE (one has
 * been dropped). */
static int next_unit(struct track *track) {
    for (;;) {
        sluice_rtp_unit *unit;
        int result = sluice_rtp_unpacker_next(track->unpacker, &unit);
        if (result == 0)
            return 0;
        if (result == -ENOMEM || result == -EMSGSIZE)
            track->stats.dropped++;
        else if (result < 0)
            track->stats.malformed++;
        if (result == -ENOMEM || result == -EMSGSIZE)
            return result;
        if (result < 0)
            continue;
        if (track->type == SLUICE_FLV_VIDEO) {
            int changed = take_sets(track, unit);
            if (changed < 0) {
                track->stats.dropped++;
                return changed;
            }
            track->header_due |= changed && track->is_complete;
            if (changed)
                configure_order(track);
            if (!has_picture(track, unit))
                continue;
            if (!track->started && (!unit->key || !track->is_complete)) {
                track->stats.dropped++;
                continue;
            }
        }
        track->unit = unit;
        return 1;
    }
}

static int64_t to_ms(int64_t microseconds) {
    return (microseconds + (microseconds >= 0 ? MILLI / 2 : -MILLI / 2)) / MILLI;
}

/* When the unit is decoded and shown, milliseconds. Decoding times go up, whatever the sender
 * says. */
static int64_t decode_time(sluice_rtp_flv *flv, struct track *track, int32_t *ret_composition) {
    bool jumped;
    int64_t shown = rtp_time_of(&flv->line, &track->time, track->unit->timestamp, track->now, &jumped);
    int64_t decoded = shown;
    if (track->type == SLUICE_FLV_VIDEO) {
        if (!track->started || jumped) {
            track->order->count = 0;
            configure_order(track);
        }
        decoded = rtp_decode_time(track->order, shown);
    }
    int64_t ms = to_ms(decoded), shown_ms = to_ms(shown);
    ms = ms < 0 ? 0 : ms;
    /* Two at one time are better than one that is decoded after it is shown. */
    int64_t least = track->decoded + (track->type == SLUICE_FLV_VIDEO && track->decoded < shown_ms);
    if (track->started && ms < least)
        ms = least;
    int64_t composition = shown_ms - ms;
    if (composition > MOST_COMPOSITION || composition < -MOST_COMPOSITION)
        composition = 0;
    *ret_composition = (int32_t)composition;
    return ms;
}

/* The frame that has been built becomes the tag. */
static void finish(sluice_rtp_flv *flv, const struct track *track, int64_t milliseconds) {
    sluice_flv_tag *tag = &flv->tag;
    size_t length = sluice_chain_length(flv->builder.media);
    sluice_chain_take(flv->builder.media, length, &tag->payload);
    tag->type = track->type;
    tag->timestamp = (uint32_t)milliseconds;
    tag->size = (uint32_t)length;
    tag->trailer_ok = true;
    flv_view(track->type, &tag->payload, &tag->view);
}

static int build_header(sluice_rtp_flv *flv, const struct track *track) {
    uint8_t bytes[RTP_FLV_HEADER + SLUICE_CODEC_MAX_RECORD];
    sluice_codec_config config;
    size_t size = rtp_flv_sequence_header(track->config, bytes);
    rtp_flv_read_config(track->config, &config);
    int record = sluice_codec_write_record(&config, bytes + size, sizeof bytes - size);
    return record < 0 ? record : rtp_flv_add_bytes(&flv->builder, bytes, size + (size_t)record);
}

static int build_frame(sluice_rtp_flv *flv, const struct track *track, int32_t composition) {
    uint8_t bytes[RTP_FLV_HEADER];
    const sluice_rtp_unit *unit = track->unit;
    if (unit->length + 4 * unit->nal_count > SLUICE_FLV_MAX_PAYLOAD - RTP_FLV_HEADER)
        return -EMSGSIZE;
    size_t size = rtp_flv_frame_header(track->config, unit->key, composition, bytes);
    int error = rtp_flv_add_bytes(&flv->builder, bytes, size);
    if (error)
        return error;
    if (track->type == SLUICE_FLV_VIDEO)
        return rtp_flv_add_picture(&flv->builder, track->config->codec, unit);
    return rtp_flv_add_pieces(&flv->builder, unit, &unit->nals[0]);
}

/* Makes the next frame of a track the tag: 1, or -ENOBUFS, -ENOMEM, -EMSGSIZE. */
static int make_tag(sluice_rtp_flv *flv, struct track *track) {
    int error;
    if (track->header_due) {
        error = build_header(flv, track);
        if (!error) {
            track->header_due = false;
            finish(flv, track, track->started ? track->decoded : 0);
            return 1;
        }
        track->stalled = true;
    } else {
        int32_t composition;
        int64_t milliseconds = decode_time(flv, track, &composition);
        error = build_frame(flv, track, composition);
        track->decoded = milliseconds;
        if (!error) {
            track->started = true;
            track->stats.frames++;
            track->stats.damaged += track->unit->damaged;
            track->unit = NULL;
            finish(flv, track, milliseconds);
            return 1;
        }
    }
    chain_clear(flv->builder.media);
    track->stats.dropped += track->unit != NULL;
    track->unit = NULL;
    return error;
}

/* The same. A frame is made at once, so the chain is not part of each session. */
static int deliver(sluice_rtp_flv *flv, struct track *track) {
    sluice_chain media = {.pool = flv->builder.pool};
    flv->builder.media = &media;
    int result = make_tag(flv, track);
    flv->builder.media = NULL;
    return result;
}

static bool is_due(const struct track *track) {
    return track->header_due && !track->stalled;
}

int sluice_rtp_flv_next(sluice_rtp_flv *flv, sluice_flv_tag **ret_tag) {
    sluice_slice_release(&flv->tag.payload);
    for (unsigned i = 0; i < flv->track_count; i++) {
        struct track *track = &flv->tracks[i];
        for (;;) {
            int result = is_due(track) || track->unit ? 1 : next_unit(track);
            if (result < 0)
                return result;
            if (result == 0 && !is_due(track))
                break; /* a picture that is not delivered may have brought the sets */
            result = deliver(flv, track);
            if (result == 1)
                *ret_tag = &flv->tag;
            return result;
        }
    }
    return 0;
}

void sluice_rtp_flv_flush(sluice_rtp_flv *flv) {
    for (unsigned i = 0; i < flv->track_count; i++)
        sluice_rtp_unpacker_flush(flv->tracks[i].unpacker);
}

int sluice_rtp_flv_report(sluice_rtp_flv *flv, unsigned number, uint32_t ssrc, uint64_t now, const char *cname,
                          uint8_t *buffer, size_t size) {
    if (number >= flv->track_count || !flv->tracks[number].has_ssrc)
        return -EINVAL;
    struct track *track = &flv->tracks[number];
    sluice_rtcp_packet report = {.type = SLUICE_RTCP_RR, .ssrc = ssrc, .count = 1};
    int length = SLUICE_RTCP_RR_SIZE + SLUICE_RTCP_REPORT_SIZE;
    if (size < (size_t)length)
        return -EMSGSIZE;
    int sdes = sluice_rtcp_write_sdes(buffer + length, size - (size_t)length, ssrc, cname);
    if (sdes < 0)
        return sdes;
    /* Differences alone count, so that any clock will do. */
    sluice_rtp_report(&track->source, track->ssrc, track->report_ntp, sluice_rtp_ntp_from_unix(track->report_arrival),
                      sluice_rtp_ntp_from_unix(now), &report.reports[0]);
    return sluice_rtcp_write(buffer, size, &report) + sdes;
}

size_t sluice_rtp_flv_blocks(const sluice_rtp_flv *flv, unsigned number) {
    return number < flv->track_count ? flv->tracks[number].unpacker->blocks : 0;
}

int sluice_rtp_flv_get_stats(const sluice_rtp_flv *flv, unsigned number, sluice_rtp_flv_stats *ret_stats) {
    if (number >= flv->track_count)
        return -EINVAL;
    const struct track *track = &flv->tracks[number];
    const sluice_rtp_flv_stats stats = {
        .packets = track->source.received,
        .lost = track->source.lost,
        .reordered = track->source.reordered,
        .duplicates = track->source.duplicates,
        .malformed = track->stats.malformed,
        .ignored = track->stats.ignored,
        .frames = track->stats.frames,
        .damaged = track->stats.damaged,
        .dropped = track->stats.dropped,
        .jumps = track->time.jumps,
        .skew_us = track->time.skew,
    };
    return SIZED_WRITE(ret_stats, &stats);
}

const sluice_codec_config *sluice_rtp_flv_config(const sluice_rtp_flv *flv, unsigned number) {
    if (number >= flv->track_count)
        return NULL;
    /* Made when it is asked for, which does not change the session otherwise. */
    struct track *track = (struct track *)&flv->tracks[number];
    if (!track->shown)
        track->shown = malloc(sizeof *track->shown);
    if (track->shown)
        rtp_flv_read_config(track->config, track->shown);
    return track->shown;
}
