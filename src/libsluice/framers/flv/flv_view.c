#include "framers/flv/flv_view.h"

#include <errno.h>

/* Names as in the Enhanced RTMP v2 specification; below them the numbers of the FLV
 * specification. */
enum {
    EX_SEQUENCE_START = 0,
    EX_CODED_FRAMES = 1,
    EX_SEQUENCE_END = 2,
    EX_CODED_FRAMES_X = 3,         /* video */
    EX_METADATA = 4,               /* video */
    EX_MULTICHANNEL_CONFIG = 4,    /* audio */
    EX_MPEG2TS_SEQUENCE_START = 5, /* video */
    EX_AUDIO_MULTITRACK = 5,
    EX_VIDEO_MULTITRACK = 6,
    EX_MODEX = 7,
    EX_RESERVED = 15,

    ONE_TRACK = 0, /* AvMultitrackType: an id, no size */
    MANY_TRACKS = 1,
    MANY_CODECS = 2, /* a FourCC for each track */

    FRAME_KEY = 1,
    FRAME_COMMAND = 5,

    VIDEO_H263 = 2,
    VIDEO_VP6 = 4,
    VIDEO_VP6_ALPHA = 5,
    VIDEO_AVC = 7,
    VIDEO_HEVC = 12, /* in no specification, but many encoders' before Enhanced RTMP */

    AUDIO_EX_HEADER = 9,
    AUDIO_AAC = 10,

    PACKET_SEQUENCE_HEADER = 0, /* the second byte of AVC, HEVC and AAC */
    PACKET_DATA = 1,
    PACKET_SEQUENCE_END = 2,

    /* bytes of a frame of AVC or HEVC before its data: two, and the composition time */
    LEGACY_HEADER = 5,
};

/* Signed 24 bit. */
static int32_t composition_time(uint32_t value) {
    return (int32_t)(value ^ 0x800000) - 0x800000;
}

static bool read_composition_time(sluice_cursor *cursor, sluice_flv_view *view) {
    uint32_t value;
    if (!cursor_be24(cursor, &value))
        return false;
    view->composition_time = composition_time(value);
    return true;
}

static bool has_composition_time(uint32_t codec) {
    return codec == SLUICE_CODEC_H264 || codec == SLUICE_CODEC_HEVC || codec == SLUICE_CODEC_VVC;
}

/* The modifiers in front of the packet type proper. False where they break off, or are too many. */
static bool skip_modifiers(sluice_cursor *cursor, uint8_t *packet) {
    for (unsigned i = 0; *packet == EX_MODEX; i++) {
        uint8_t length, types;
        uint16_t long_length;
        if (i == SLUICE_FLV_MAX_MODIFIERS || !cursor_u8(cursor, &length))
            return false;
        size_t size = length + (size_t)1;
        if (size == 256) {
            if (!cursor_be16(cursor, &long_length))
                return false;
            size = long_length + (size_t)1;
        }
        if (!cursor_skip(cursor, size) || !cursor_u8(cursor, &types))
            return false;
        *packet = types & 0x0F;
    }
    return true;
}

/*
 * The FourCC, and what multitrack puts around it: @multitrack is the packet type that announces it.
 * Moves the cursor to the codec's data, or to the first track's id where several tracks follow;
 * @ret_data to the codec's data of the first.
 */
static bool read_codec(sluice_cursor *cursor, uint8_t multitrack, uint8_t *packet, sluice_flv_view *view,
                       sluice_cursor *ret_data) {
    uint8_t types = 0;
    if (*packet == multitrack) {
        view->multitrack = true;
        if (!cursor_u8(cursor, &types))
            return false;
        *packet = types & 0x0F;
        view->many_tracks = types >> 4 != ONE_TRACK;
    }
    /* With many codecs the FourCC is the first track's, with one codec everybody's: it stands in
     * the same place. */
    if (!cursor_be32(cursor, &view->codec))
        return false;
    *ret_data = *cursor;
    if (!view->multitrack)
        return true;
    if (types >> 4 > MANY_CODECS) {
        /* Reserved: the rest is undefined. */
        *packet = EX_RESERVED;
        return true;
    }
    if (!cursor_u8(ret_data, &view->track))
        return false;
    if (view->many_tracks)
        return cursor_skip(ret_data, 3);
    *cursor = *ret_data;
    return true;
}

static sluice_flv_packet extended_video_packet(uint8_t packet) {
    switch (packet) {
    case EX_SEQUENCE_START:
    case EX_MPEG2TS_SEQUENCE_START:
        return SLUICE_FLV_SEQUENCE_HEADER;
    case EX_CODED_FRAMES:
    case EX_CODED_FRAMES_X:
        return SLUICE_FLV_FRAME;
    case EX_SEQUENCE_END:
        return SLUICE_FLV_SEQUENCE_END;
    case EX_METADATA:
        return SLUICE_FLV_METADATA;
    default:
        return SLUICE_FLV_OTHER;
    }
}

static bool read_extended_video(sluice_cursor *cursor, uint8_t packet, sluice_flv_view *view) {
    sluice_cursor data;
    if (!skip_modifiers(cursor, &packet))
        return false;
    /* A command has neither codec nor track. Metadata ignores the frame type. */
    if (view->frame_type == FRAME_COMMAND && packet != EX_METADATA) {
        view->packet = SLUICE_FLV_COMMAND;
        return true;
    }
    if (!read_codec(cursor, EX_VIDEO_MULTITRACK, &packet, view, &data))
        return false;
    if (packet == EX_CODED_FRAMES && has_composition_time(view->codec)) {
        if (!read_composition_time(&data, view))
            return false;
        if (!view->many_tracks)
            *cursor = data;
    }
    view->packet = extended_video_packet(packet);
    return true;
}

static uint32_t legacy_video_codec(uint8_t id) {
    switch (id) {
    case VIDEO_H263:
        return SLUICE_CODEC_H263;
    case VIDEO_VP6:
    case VIDEO_VP6_ALPHA:
        return SLUICE_CODEC_VP6;
    case VIDEO_AVC:
        return SLUICE_CODEC_H264;
    case VIDEO_HEVC:
        return SLUICE_CODEC_HEVC;
    default:
        return SLUICE_CODEC_NONE;
    }
}

/* The packet type byte of AVC, HEVC and AAC; AAC has no end of sequence. */
static sluice_flv_packet legacy_packet(uint8_t packet) {
    switch (packet) {
    case PACKET_SEQUENCE_HEADER:
        return SLUICE_FLV_SEQUENCE_HEADER;
    case PACKET_DATA:
        return SLUICE_FLV_FRAME;
    case PACKET_SEQUENCE_END:
        return SLUICE_FLV_SEQUENCE_END;
    default:
        return SLUICE_FLV_OTHER;
    }
}

static bool read_legacy_video(sluice_cursor *cursor, uint8_t id, sluice_flv_view *view) {
    view->codec = legacy_video_codec(id);
    view->packet = view->frame_type == FRAME_COMMAND ? SLUICE_FLV_COMMAND : SLUICE_FLV_FRAME;
    if (view->packet == SLUICE_FLV_COMMAND || (id != VIDEO_AVC && id != VIDEO_HEVC))
        return true;

    uint8_t packet;
    if (!cursor_u8(cursor, &packet) || !read_composition_time(cursor, view))
        return false;
    view->packet = legacy_packet(packet);
    /* The field is there in every packet, and means something in frames alone. */
    if (view->packet != SLUICE_FLV_FRAME)
        view->composition_time = 0;
    return true;
}

/*
 * The five bytes of a frame of H.264 or HEVC in its old form, which is what most tags are, where
 * one block has them: the same as below without a check for each. False where it is something else.
 */
static bool read_usual_video(const sluice_slice *payload, sluice_flv_view *view) {
    const sluice_block *block = payload->first;
    if (payload->length < LEGACY_HEADER || (block != payload->last && block->length - payload->offset < LEGACY_HEADER))
        return false;
    const uint8_t *bytes = block->data + payload->offset;
    uint8_t id = bytes[0] & 0x0F, frame_type = bytes[0] >> 4;
    if (frame_type >= FRAME_COMMAND || (id != VIDEO_AVC && id != VIDEO_HEVC) || bytes[1] != PACKET_DATA)
        return false;
    *view = (sluice_flv_view){
        .codec = id == VIDEO_AVC ? SLUICE_CODEC_H264 : SLUICE_CODEC_HEVC,
        .packet = SLUICE_FLV_FRAME,
        .frame_type = frame_type,
        .key_frame = frame_type == FRAME_KEY,
        .composition_time = composition_time((uint32_t)bytes[2] << 16 | (uint32_t)bytes_be16(bytes + 3)),
        .header_size = LEGACY_HEADER,
    };
    return true;
}

static bool read_video(sluice_cursor *cursor, sluice_flv_view *view) {
    uint8_t first;
    if (!cursor_u8(cursor, &first))
        return false;
    view->enhanced = first >> 7;
    view->frame_type = first >> 4 & 7;
    bool whole = view->enhanced ? read_extended_video(cursor, first & 0x0F, view)
                                : read_legacy_video(cursor, first & 0x0F, view);
    view->key_frame = whole && view->packet == SLUICE_FLV_FRAME && view->frame_type == FRAME_KEY;
    return whole;
}

static sluice_flv_packet extended_audio_packet(uint8_t packet) {
    switch (packet) {
    case EX_SEQUENCE_START:
        return SLUICE_FLV_SEQUENCE_HEADER;
    case EX_CODED_FRAMES:
        return SLUICE_FLV_FRAME;
    case EX_SEQUENCE_END:
        return SLUICE_FLV_SEQUENCE_END;
    case EX_MULTICHANNEL_CONFIG:
        return SLUICE_FLV_METADATA;
    default:
        return SLUICE_FLV_OTHER;
    }
}

static bool read_extended_audio(sluice_cursor *cursor, uint8_t packet, sluice_flv_view *view) {
    sluice_cursor data;
    if (!skip_modifiers(cursor, &packet) || !read_codec(cursor, EX_AUDIO_MULTITRACK, &packet, view, &data))
        return false;
    view->packet = extended_audio_packet(packet);
    return true;
}

/* What a sound format fixes; 0 where the flag bits beside it decide. */
static const struct audio_format {
    uint32_t codec;
    uint16_t sample_rate;
    uint8_t channels;
} audio_formats[16] = {
    [0] = {SLUICE_CODEC_PCM, 0, 0},
    [1] = {SLUICE_CODEC_ADPCM, 0, 0},
    [2] = {SLUICE_CODEC_MP3, 0, 0},
    [3] = {SLUICE_CODEC_PCM, 0, 0},
    [4] = {SLUICE_CODEC_NELLYMOSER, 16000, 1},
    [5] = {SLUICE_CODEC_NELLYMOSER, 8000, 1},
    [6] = {SLUICE_CODEC_NELLYMOSER, 0, 0},
    [7] = {SLUICE_CODEC_PCMA, 8000, 0},
    [8] = {SLUICE_CODEC_PCMU, 8000, 0},
    [11] = {SLUICE_CODEC_SPEEX, 16000, 1},
    [14] = {SLUICE_CODEC_MP3, 8000, 0},
};

static bool read_legacy_audio(sluice_cursor *cursor, uint8_t flags, sluice_flv_view *view) {
    static const uint16_t rates[4] = {5512, 11025, 22050, 44100};
    if (view->audio_format == AUDIO_AAC) {
        /* The flag bits are the same for every AAC stream. */
        view->codec = SLUICE_CODEC_AAC;
        uint8_t packet;
        if (!cursor_u8(cursor, &packet))
            return false;
        view->packet = packet <= PACKET_DATA ? legacy_packet(packet) : SLUICE_FLV_OTHER;
        return true;
    }
    const struct audio_format *format = &audio_formats[view->audio_format];
    view->codec = format->codec;
    view->packet = SLUICE_FLV_FRAME;
    view->sample_rate = format->sample_rate ? format->sample_rate : rates[flags >> 2 & 3];
    view->channels = format->channels ? format->channels : (uint8_t)(1 + (flags & 1));
    return true;
}

static bool read_audio(sluice_cursor *cursor, sluice_flv_view *view) {
    uint8_t first;
    if (!cursor_u8(cursor, &first))
        return false;
    view->audio_format = first >> 4;
    view->enhanced = view->audio_format == AUDIO_EX_HEADER;
    return view->enhanced ? read_extended_audio(cursor, first & 0x0F, view)
                          : read_legacy_audio(cursor, first & 0x0F, view);
}

/* By itself, so that the usual frame needs no room for a cursor. */
static __attribute__((noinline)) void read_any(sluice_flv_type type, const sluice_slice *payload,
                                               sluice_flv_view *ret_view) {
    *ret_view = (sluice_flv_view){.packet = SLUICE_FLV_METADATA};
    if (type == SLUICE_FLV_SCRIPT)
        return;
    sluice_cursor cursor = cursor_of_slice(payload);
    if (type == SLUICE_FLV_VIDEO ? read_video(&cursor, ret_view) : read_audio(&cursor, ret_view)) {
        ret_view->header_size = (uint32_t)(payload->length - cursor_left(&cursor));
    } else {
        ret_view->packet = SLUICE_FLV_OTHER;
        ret_view->header_size = (uint32_t)payload->length;
    }
}

void flv_view(sluice_flv_type type, const sluice_slice *payload, sluice_flv_view *ret_view) {
    if (type != SLUICE_FLV_VIDEO || !read_usual_video(payload, ret_view))
        read_any(type, payload, ret_view);
}

void sluice_flv_read_view(sluice_flv_type type, const sluice_slice *payload, sluice_flv_view *ret_view) {
    flv_view(type, payload, ret_view);
}

/* ---- Tracks ---- */

/* What stands before the first track: the cursor is moved there. False where there are none. */
static bool begin_tracks(sluice_cursor *cursor, sluice_flv_type type, sluice_flv_tracks *place) {
    bool video = type == SLUICE_FLV_VIDEO;
    uint8_t first, packet, types;
    if (type == SLUICE_FLV_SCRIPT || !cursor_u8(cursor, &first))
        return false;
    packet = first & 0x0F;
    if ((video ? !(first & 0x80) : first >> 4 != AUDIO_EX_HEADER) || !skip_modifiers(cursor, &packet) ||
        packet != (video ? EX_VIDEO_MULTITRACK : EX_AUDIO_MULTITRACK))
        return false;
    place->frame_type = video ? first >> 4 & 7 : 0;
    if (place->frame_type == FRAME_COMMAND || !cursor_u8(cursor, &types))
        return false;
    place->packet_type = types & 0x0F;
    place->kind = types >> 4;
    return place->kind == MANY_CODECS || (place->kind < MANY_CODECS && cursor_be32(cursor, &place->codec));
}

/* The header of one track and where its bytes are. False where it breaks off. */
static bool read_track(sluice_cursor *cursor, sluice_flv_tracks *place, sluice_flv_track *track, uint32_t *ret_size) {
    if (place->kind == MANY_CODECS && !cursor_be32(cursor, &place->codec))
        return false;
    if (!cursor_u8(cursor, &track->id))
        return false;
    if (place->kind == ONE_TRACK)
        *ret_size = (uint32_t)cursor_left(cursor);
    else if (!cursor_be24(cursor, ret_size))
        return false;
    return *ret_size <= cursor_left(cursor);
}

static bool view_track(sluice_flv_type type, sluice_cursor data, uint32_t size, const sluice_flv_tracks *place,
                       sluice_flv_track *track) {
    bool video = type == SLUICE_FLV_VIDEO;
    track->codec = place->codec;
    track->packet_type = place->packet_type;
    track->frame_type = place->frame_type;
    track->packet = video ? extended_video_packet(place->packet_type) : extended_audio_packet(place->packet_type);
    track->key_frame = track->packet == SLUICE_FLV_FRAME && place->frame_type == FRAME_KEY;
    if (!video || place->packet_type != EX_CODED_FRAMES || !has_composition_time(place->codec))
        return true;
    uint32_t time;
    if (size < 3 || !cursor_be24(&data, &time))
        return false;
    track->composition_time = composition_time(time);
    track->header_size = 3;
    return true;
}

int sluice_flv_next_track(sluice_flv_tracks *place, sluice_flv_type type, const sluice_slice *payload,
                          sluice_flv_track *ret_track) {
    sluice_cursor cursor = cursor_of_slice(payload);
    sluice_flv_tracks after = *place;
    sluice_flv_track track = {0};
    uint32_t size = 0;
    if (place->at == 0 && !begin_tracks(&cursor, type, &after))
        return 0;
    if (place->at > 0 && !cursor_skip(&cursor, place->at))
        return -EINVAL;
    if (cursor_left(&cursor) == 0 && place->at > 0)
        return 0;
    if (!read_track(&cursor, &after, &track, &size) || !view_track(type, cursor, size, &after, &track))
        return -EPROTO;
    size_t offset = payload->length - cursor_left(&cursor);
    if (sluice_slice_sub(payload, offset, size, &track.slice) < 0)
        return -EPROTO;
    after.at = offset + size;
    *place = after;
    *ret_track = track;
    return 1;
}

/* The form that FLV had before FourCCs, which more players read. 0: there is none */
static size_t write_legacy(uint8_t *to, const sluice_flv_track *track) {
    static const uint8_t packets[] = {[SLUICE_FLV_FRAME] = PACKET_DATA,
                                      [SLUICE_FLV_SEQUENCE_HEADER] = PACKET_SEQUENCE_HEADER,
                                      [SLUICE_FLV_SEQUENCE_END] = PACKET_SEQUENCE_END};
    bool video = track->codec == SLUICE_CODEC_H264;
    /* AAC has no end of sequence there. */
    if ((!video && track->codec != SLUICE_CODEC_AAC) || track->packet_type == EX_MPEG2TS_SEQUENCE_START ||
        track->packet > (video ? SLUICE_FLV_SEQUENCE_END : SLUICE_FLV_SEQUENCE_HEADER))
        return 0;
    to[0] = (uint8_t)(video ? track->frame_type << 4 | VIDEO_AVC : AUDIO_AAC << 4 | 0x0F);
    to[1] = packets[track->packet];
    if (!video || track->header_size > 0)
        return 2;
    to[2] = to[3] = to[4] = 0;
    return LEGACY_HEADER;
}

size_t sluice_flv_write_track_header(uint8_t buffer[SLUICE_FLV_MAX_TRACK_HEADER], sluice_flv_type type,
                                     const sluice_flv_track *track, bool alone) {
    bool video = type == SLUICE_FLV_VIDEO;
    uint8_t first = (uint8_t)(video ? 0x80 | track->frame_type << 4 : AUDIO_EX_HEADER << 4);
    size_t at = alone ? write_legacy(buffer, track) : 0;
    if (at > 0)
        return at;
    unsigned packet = alone ? track->packet_type : video ? EX_VIDEO_MULTITRACK : EX_AUDIO_MULTITRACK;
    buffer[at++] = (uint8_t)(first | packet);
    if (!alone)
        buffer[at++] = (uint8_t)(ONE_TRACK << 4 | track->packet_type);
    for (int shift = 24; shift >= 0; shift -= 8)
        buffer[at++] = (uint8_t)(track->codec >> shift);
    if (!alone)
        buffer[at++] = track->id;
    return at;
}
