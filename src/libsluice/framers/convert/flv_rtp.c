#include <sluice/flv_rtp.h>

#include <errno.h>
#include <stdlib.h>

#include "abi/sized.h"
#include "framers/codec/codec.h"
#include "framers/flv/flv_view.h"
#include "framers/rtp/rtp_nals.h"
#include "memory/slice.h"
#include "reader/cursor.h"

enum {
    DEFAULT_PACKET = 1400,
    LEAST_PACKET = 64,
    MOST_PACKET = 65535,
    MILLISECONDS = 1000,
};

/* A place in a slice that is mostly moved on, so that a picture of many blocks is walked over
 * once. */
struct place {
    const sluice_slice *in;
    size_t at;
    sluice_slice rest; /* from there on; without references */
};

/* Where a NAL unit or frame lies in the slice that it is sent from. */
struct part {
    const sluice_slice *in;
    size_t offset, length;
    uint8_t start[2];
};

struct sluice_flv_rtp {
    sluice_flv_rtp_options options;
    sluice_rtp_format format;
    sluice_flv_rtp_stats stats;
    sluice_codec_config config; /* of the last sequence header; codec 0 before there was one */
    /* the sequence header's payload, from which parameter sets are sent */
    sluice_slice record;
    struct part sets[SLUICE_CODEC_MAX_SETS];
    size_t set_count;

    sluice_rtp_clock clock; /* of FLV, milliseconds */
    bool has_expected;
    /* audio: where the next frame begins if there is no gap, in units of the clock */
    int64_t expected;

    /* The tag that next() works on. */
    bool is_open;
    bool begins_key;  /* the next packet is the first of a key picture */
    sluice_slice tag; /* its payload */
    size_t at;        /* of the next length prefix, or of the samples not sent yet */
    unsigned skipped; /* NAL units that become no packet, so far */
    /* of those to be sent before the next NAL unit; set_count when there are none */
    size_t next_set;
    uint32_t timestamp;
    bool has_part; /* the part below is under way */
    struct part part;
    sluice_rtp_packing packing;
    bool is_last;       /* the part is the tag's last */
    int error;          /* to be told when what precedes it has been sent */
    sluice_slice given; /* what the last packet showed */
    struct place read;  /* of the lengths */
    struct place sent;  /* of the parts */
};

int sluice_flv_rtp_new(const sluice_flv_rtp_options *options, sluice_flv_rtp **ret_rtp) {
    sluice_flv_rtp_options o;
    int error = SIZED_READ(&o, options);
    if (error)
        return error;
    o.max_packet = o.max_packet ? o.max_packet : DEFAULT_PACKET;
    if ((o.type != SLUICE_FLV_VIDEO && o.type != SLUICE_FLV_AUDIO) || o.payload_type > 127 ||
        o.max_packet < LEAST_PACKET || o.max_packet > MOST_PACKET)
        return -EINVAL;
    sluice_flv_rtp *rtp = calloc(1, sizeof *rtp);
    if (!rtp)
        return -ENOMEM;
    rtp->options = o;
    *ret_rtp = rtp;
    return 0;
}

static void close_tag(sluice_flv_rtp *rtp) {
    sluice_slice_release(&rtp->tag);
    rtp->is_open = rtp->has_part = false;
    rtp->read = rtp->sent = (struct place){0};
}

void sluice_flv_rtp_free(sluice_flv_rtp *rtp) {
    if (!rtp)
        return;
    close_tag(rtp);
    sluice_slice_release(&rtp->given);
    sluice_slice_release(&rtp->record);
    free(rtp);
}

/* The slice from @at on, which is not beyond its end. */
static const sluice_slice *seek(struct place *place, const sluice_slice *in, size_t at) {
    if (place->in != in || at < place->at)
        *place = (struct place){in, 0, *in};
    slice_walk walk = slice_walk_at(&place->rest, at - place->at);
    place->rest = (sluice_slice){walk.block, in->last, walk.offset, walk.left};
    place->at = at;
    return &place->rest;
}

/* The element behind a length of @size bytes at @at: 1, 0 (the slice ends here), -EPROTO. */
static int read_prefixed(struct place *place, const sluice_slice *in, size_t at, unsigned size, size_t header,
                         struct part *ret_part) {
    sluice_cursor cursor = cursor_of_slice(seek(place, in, at));
    uint64_t length;
    if (cursor_left(&cursor) == 0)
        return 0;
    if (!cursor_be(&cursor, size, &length) || length > cursor_left(&cursor))
        return -EPROTO;
    struct part part = {.in = in, .offset = at + size, .length = (size_t)length};
    for (size_t i = 0; i < header && i < length; i++)
        part.start[i] = cursor_byte(&cursor);
    *ret_part = part;
    return 1;
}

static size_t header_size(const sluice_flv_rtp *rtp) {
    return rtp->format == SLUICE_RTP_H265 ? 2 : 1;
}

static uint8_t type_of(const sluice_flv_rtp *rtp, const struct part *part) {
    return rtp_nal_type(rtp->format, part->start[0]);
}

/* Parameter sets where they lie in the record, which has been found to be well-formed. */
static void find_sets(sluice_flv_rtp *rtp, size_t offset) {
    sluice_cursor cursor = cursor_of_slice(&rtp->record);
    bool is_h265 = rtp->format == SLUICE_RTP_H265;
    uint8_t groups = 2, count = 0;
    cursor_skip(&cursor, offset + (is_h265 ? 22 : 5));
    rtp->set_count = 0;
    if (is_h265)
        cursor_u8(&cursor, &groups);
    for (unsigned group = 0; group < groups; group++) {
        uint16_t sets = 0;
        if (is_h265) {
            cursor_skip(&cursor, 1);
            cursor_be16(&cursor, &sets);
        } else if (cursor_u8(&cursor, &count)) {
            sets = group == 0 ? count & 0x1F : count;
        }
        for (unsigned i = 0; i < sets; i++) {
            struct part part;
            size_t at = rtp->record.length - cursor_left(&cursor);
            if (read_prefixed(&rtp->read, &rtp->record, at, 2, header_size(rtp), &part) != 1)
                return;
            cursor_skip(&cursor, 2 + part.length);
            if (part.length >= 2 && codec_is_set(rtp->config.codec, type_of(rtp, &part)) &&
                rtp->set_count < SLUICE_CODEC_MAX_SETS)
                rtp->sets[rtp->set_count++] = part;
        }
    }
}

static int take_record(sluice_flv_rtp *rtp, const sluice_flv_view *view, const sluice_slice *payload) {
    int format = sluice_codec_rtp_format(view->codec);
    if (format < 0)
        return -EOPNOTSUPP;
    int error = sluice_codec_read_record(&rtp->config, view->codec, payload, view->header_size);
    if (error)
        return error;
    rtp->format = (sluice_rtp_format)format;
    rtp->has_expected = false;
    sluice_slice_release(&rtp->record);
    rtp->read = rtp->sent = (struct place){0};
    rtp->set_count = rtp->next_set = 0;
    if (codec_is_video(view->codec)) {
        sluice_slice_ref(payload, &rtp->record);
        find_sets(rtp, view->header_size);
    }
    return 0;
}

/* Units of the clock in so many milliseconds, rounded to the nearest. */
static int64_t to_units(const sluice_flv_rtp *rtp, int64_t milliseconds) {
    int64_t twice = milliseconds * rtp->config.clock_rate * 2 + MILLISECONDS;
    return twice / (2 * MILLISECONDS) - (twice % (2 * MILLISECONDS) < 0);
}

/*
 * FLV has milliseconds, but audio frames follow each other without gaps: as long as this agrees
 * with the tags' times, the time is computed from the frames' own lengths.
 */
static int64_t audio_time(sluice_flv_rtp *rtp, int64_t milliseconds, uint32_t duration) {
    int64_t time = to_units(rtp, milliseconds), tolerance = rtp->config.clock_rate / MILLISECONDS + 1;
    if (rtp->has_expected && rtp->expected >= time - tolerance && rtp->expected <= time + tolerance)
        time = rtp->expected;
    rtp->has_expected = duration > 0;
    rtp->expected = time + duration;
    return time;
}

static uint32_t frame_duration(const sluice_flv_rtp *rtp, const sluice_slice *payload, size_t offset) {
    sluice_cursor cursor = cursor_of_slice(payload);
    uint8_t start[2] = {0};
    size_t n = 0;
    cursor_skip(&cursor, offset);
    switch (rtp->config.codec) {
    case SLUICE_CODEC_AAC:
        return rtp->config.frame_duration;
    case SLUICE_CODEC_OPUS:
        while (n < 2 && cursor_u8(&cursor, &start[n]))
            n++;
        return sluice_rtp_opus_duration(start, n);
    default:
        return (uint32_t)(cursor_left(&cursor) / rtp->config.channels);
    }
}

/* Whether the picture brings parameter sets of its own: 1, 0, -EMSGSIZE (too many units precede its
 * first slice). */
static int has_sets(sluice_flv_rtp *rtp) {
    struct part part;
    size_t at = rtp->at;
    uint8_t size = rtp->config.length_size;
    for (unsigned skipped = 0; skipped <= SLUICE_FLV_RTP_MAX_SKIPPED; skipped++) {
        if (read_prefixed(&rtp->read, &rtp->tag, at, size, header_size(rtp), &part) != 1)
            return 0;
        uint8_t type = type_of(rtp, &part);
        if (part.length > 0 && codec_is_set(rtp->config.codec, type))
            return 1;
        /* They precede the picture's slices, which have the lowest types. */
        if (part.length > 0 && type <= (rtp->format == SLUICE_RTP_H265 ? 31 : 5))
            return 0;
        at = part.offset + part.length;
    }
    return -EMSGSIZE;
}

/* G.711 has no sequence header: a frame says all. */
static void note_g711(sluice_flv_rtp *rtp, const sluice_flv_view *view) {
    if (view->codec != SLUICE_CODEC_PCMA && view->codec != SLUICE_CODEC_PCMU)
        return;
    if (rtp->config.codec == view->codec && rtp->config.channels == view->channels)
        return;
    sluice_codec_init(&rtp->config, view->codec, view->sample_rate, view->channels);
    rtp->format = SLUICE_RTP_AUDIO;
    rtp->has_expected = false;
}

int sluice_flv_rtp_push(sluice_flv_rtp *rtp, sluice_flv_type type, uint32_t timestamp, const sluice_slice *payload) {
    if (rtp->is_open)
        return -EBUSY;
    if (type != rtp->options.type)
        return 0;
    sluice_flv_view view;
    flv_view(type, payload, &view);
    if (view.many_tracks)
        return -EOPNOTSUPP;
    if (view.track != rtp->options.track)
        return 0;
    if (view.packet == SLUICE_FLV_SEQUENCE_HEADER)
        return take_record(rtp, &view, payload);
    if (view.packet != SLUICE_FLV_FRAME)
        return 0;
    if (sluice_codec_rtp_format(view.codec) < 0)
        return -EOPNOTSUPP;
    note_g711(rtp, &view);
    if (rtp->config.codec != view.codec || payload->length <= view.header_size)
        return 0;

    int64_t milliseconds = sluice_rtp_unwrap(&rtp->clock, timestamp);
    sluice_slice_ref(payload, &rtp->tag);
    rtp->is_open = true;
    rtp->error = 0;
    rtp->at = view.header_size;
    rtp->skipped = 0;
    rtp->next_set = rtp->set_count;
    rtp->begins_key = view.key_frame;
    int64_t time;
    if (type == SLUICE_FLV_VIDEO) {
        time = to_units(rtp, milliseconds + view.composition_time);
        int sets = view.key_frame ? has_sets(rtp) : 1;
        if (sets == 0)
            rtp->next_set = 0;
        if (sets < 0)
            rtp->error = sets;
    } else {
        time = audio_time(rtp, milliseconds, frame_duration(rtp, payload, view.header_size));
    }
    rtp->timestamp = rtp->options.timestamp + (uint32_t)time;
    return 0;
}

/* The next NAL unit that is not empty: 1, 0, -EPROTO, -EMSGSIZE (too many are). Moves the place to
 * it, so that none of those before it is gone over again. */
static int next_nal(sluice_flv_rtp *rtp, struct part *ret_part) {
    uint8_t size = rtp->config.length_size;
    int result;
    while ((result = read_prefixed(&rtp->read, &rtp->tag, rtp->at, size, header_size(rtp), ret_part)) == 1 &&
           ret_part->length < header_size(rtp)) {
        rtp->at = ret_part->offset + ret_part->length;
        if (++rtp->skipped > SLUICE_FLV_RTP_MAX_SKIPPED)
            return -EMSGSIZE;
    }
    return result;
}

/* The next part of a picture: parameter sets go before it, but behind its delimiter. */
static int next_video_part(sluice_flv_rtp *rtp) {
    struct part part;
    int result = next_nal(rtp, &part);
    if (result != 1)
        return result;
    if (rtp->next_set < rtp->set_count && !codec_is_delimiter(rtp->config.codec, type_of(rtp, &part))) {
        rtp->part = rtp->sets[rtp->next_set++];
        rtp->is_last = false;
        return 1;
    }
    rtp->part = part;
    rtp->at = part.offset + part.length;
    result = next_nal(rtp, &part);
    rtp->is_last = result != 1;
    rtp->error = result < 0 ? result : 0;
    return 1;
}

/* An audio frame is the rest of the tag; of samples as many as fit. */
static int next_audio_part(sluice_flv_rtp *rtp) {
    size_t left = rtp->tag.length - rtp->at;
    if (left == 0)
        return 0;
    if (rtp->config.codec == SLUICE_CODEC_PCMA || rtp->config.codec == SLUICE_CODEC_PCMU) {
        size_t most = rtp->options.max_packet - SLUICE_RTP_HEADER_SIZE;
        most -= most % rtp->config.channels;
        left = left < most ? left : most;
    }
    rtp->part = (struct part){.in = &rtp->tag, .offset = rtp->at, .length = left};
    rtp->at += left;
    rtp->is_last = true;
    return 1;
}

static int begin_part(sluice_flv_rtp *rtp) {
    if (rtp->error)
        return rtp->error;
    int result = rtp->options.type == SLUICE_FLV_VIDEO ? next_video_part(rtp) : next_audio_part(rtp);
    if (result != 1)
        return result;
    int error = sluice_rtp_pack(&rtp->packing, rtp->format, rtp->part.start, rtp->part.length,
                                rtp->options.max_packet - SLUICE_RTP_HEADER_SIZE);
    rtp->has_part = !error;
    return error ? error : 1;
}

static void write_packet(sluice_flv_rtp *rtp, const sluice_rtp_part *part, sluice_flv_rtp_packet *packet) {
    /* The marker of audio is the beginning of a talkspurt, of AAC the end of a frame. */
    bool ends = part->last && rtp->is_last && rtp->format != SLUICE_RTP_AUDIO;
    const sluice_rtp_packet header = {
        .marker = ends,
        .payload_type = rtp->options.payload_type,
        .sequence = rtp->options.sequence++,
        .timestamp = rtp->timestamp,
        .ssrc = rtp->options.ssrc,
    };
    sluice_rtp_write(packet->header, &header);
    for (size_t i = 0; i < part->prefix_size; i++)
        packet->header[SLUICE_RTP_HEADER_SIZE + i] = part->prefix[i];
    packet->header_size = SLUICE_RTP_HEADER_SIZE + part->prefix_size;
    packet->marker = ends;
    packet->begins_key = rtp->begins_key;
    packet->timestamp = header.timestamp;
    packet->sequence = header.sequence;
    packet->slice = rtp->given;
    rtp->begins_key = false;
    rtp->stats.packets++;
    rtp->stats.octets += part->prefix_size + part->length;
}

int sluice_flv_rtp_next(sluice_flv_rtp *rtp, sluice_flv_rtp_packet *ret_packet) {
    sluice_rtp_part part;
    sluice_slice_release(&rtp->given);
    if (!rtp->is_open)
        return 0;
    while (!rtp->has_part || sluice_rtp_pack_next(&rtp->packing, &part) == 0) {
        /* Samples that follow in a packet of their own are later. */
        if (rtp->has_part && rtp->format == SLUICE_RTP_AUDIO)
            rtp->timestamp += (uint32_t)(rtp->part.length / (rtp->config.channels ? rtp->config.channels : 1));
        rtp->has_part = false;
        int result = begin_part(rtp);
        if (result != 1) {
            close_tag(rtp);
            return result;
        }
    }
    const sluice_slice *from = seek(&rtp->sent, rtp->part.in, rtp->part.offset + part.offset);
    sluice_slice_sub(from, 0, part.length, &rtp->given);
    write_packet(rtp, &part, ret_packet);
    return 1;
}

void sluice_flv_rtp_cancel(sluice_flv_rtp *rtp) {
    close_tag(rtp);
}

const sluice_codec_config *sluice_flv_rtp_config(const sluice_flv_rtp *rtp) {
    return rtp->config.codec ? &rtp->config : NULL;
}

uint16_t sluice_flv_rtp_sequence(const sluice_flv_rtp *rtp) {
    return rtp->options.sequence;
}

uint32_t sluice_flv_rtp_timestamp(const sluice_flv_rtp *rtp, int64_t milliseconds) {
    return rtp->options.timestamp + (uint32_t)to_units(rtp, milliseconds);
}

int sluice_flv_rtp_report(const sluice_flv_rtp *rtp, uint64_t zero, uint64_t now, const char *cname, uint8_t *buffer,
                          size_t size) {
    if (!rtp->config.codec)
        return -EINVAL;
    sluice_rtp_mapping mapping = {
        .valid = true, .ntp = zero, .timestamp = rtp->options.timestamp, .rate = rtp->config.clock_rate};
    sluice_rtcp_packet report = {
        .type = SLUICE_RTCP_SR,
        .ssrc = rtp->options.ssrc,
        .ntp = now,
        .timestamp = (uint32_t)sluice_rtp_from_ntp(&mapping, now),
        .packets = (uint32_t)rtp->stats.packets,
        .octets = (uint32_t)rtp->stats.octets,
    };
    int length = sluice_rtcp_write(buffer, size, &report);
    if (length < 0)
        return length;
    int sdes = sluice_rtcp_write_sdes(buffer + length, size - (size_t)length, rtp->options.ssrc, cname);
    return sdes < 0 ? sdes : length + sdes;
}

int sluice_flv_rtp_get_stats(const sluice_flv_rtp *rtp, sluice_flv_rtp_stats *ret_stats) {
    return SIZED_WRITE(ret_stats, &rtp->stats);
}
