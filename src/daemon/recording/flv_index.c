#include "daemon/recording/flv_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { AMF_NUMBER = 0, AMF_BOOLEAN = 1, AMF_STRING = 2, AMF_OBJECT = 3, AMF_ECMA_ARRAY = 8, AMF_STRICT_ARRAY = 10 };

enum {
    KEY_BYTES = 18,      /* of one key frame: two numbers */
    PADDING_HEAD = 14,   /* "padding", an array */
    PADDING_LEAST = 3,   /* an empty string */
    PADDING_STRING = 515 /* longest: with more, players give up on them */
};

int flv_index_init(struct flv_index *index, size_t room) {
    *index = (struct flv_index){.room = room};
    index->keys = malloc(room * sizeof *index->keys);
    return index->keys ? 0 : -ENOMEM;
}

void flv_index_clear(struct flv_index *index) {
    free(index->keys);
    index->keys = NULL;
}

void flv_index_describe(struct flv_index *index, const sluice_flv_metadata *metadata) {
    index->width = metadata->width;
    index->height = metadata->height;
    index->frame_rate = metadata->frame_rate;
}

/* As RTMP and FLV number codecs; those of the enhanced headers are named by their FourCC. */
static uint32_t video_number(const sluice_flv_view *view) {
    if (view->enhanced)
        return view->codec;
    switch (view->codec) {
    case SLUICE_CODEC_H263:
        return 2;
    case SLUICE_CODEC_VP6:
        return 4;
    case SLUICE_CODEC_H264:
        return 7;
    case SLUICE_CODEC_HEVC:
        return 12;
    default:
        return view->codec;
    }
}

static void enter(struct flv_index_track *track, uint32_t timestamp) {
    if (timestamp > track->last) {
        track->step = timestamp - track->last;
        track->last = timestamp;
    }
}

/* Removes every second entry; later ones are entered at the same distances. */
static void thin(struct flv_index *index) {
    size_t kept = 0;
    for (size_t i = 0; i < index->count; i += 2)
        index->keys[kept++] = index->keys[i];
    index->count = kept;
    index->gap = (index->keys[kept - 1].time - index->keys[0].time) / (uint32_t)kept;
}

static void enter_key(struct flv_index *index, uint32_t timestamp, uint64_t place) {
    if (index->count > 0 && timestamp - index->keys[index->count - 1].time < index->gap)
        return;
    if (index->count == index->room && index->room < 2)
        return;
    if (index->count == index->room)
        thin(index);
    index->keys[index->count++] = (struct flv_index_key){timestamp, place};
}

void flv_index_add(struct flv_index *index, sluice_flv_type type, const sluice_flv_view *view, uint32_t timestamp,
                   uint64_t place) {
    bool is_frame = view->packet == SLUICE_FLV_FRAME;
    if (type == SLUICE_FLV_VIDEO) {
        index->video.present = true;
        if (view->codec)
            index->video.number = video_number(view);
        if (is_frame)
            enter(&index->video, timestamp);
        if (is_frame && !index->has_main)
            index->main = view->track;
        index->has_main |= is_frame;
        if (is_frame && view->key_frame && view->track == index->main)
            enter_key(index, timestamp, place);
    } else if (type == SLUICE_FLV_AUDIO) {
        index->audio.present = true;
        index->audio.number = view->enhanced ? view->codec : view->audio_format;
        if (is_frame)
            enter(&index->audio, timestamp);
    } else {
        return;
    }
    index->frames += is_frame;
}

uint32_t flv_index_duration(const struct flv_index *index) {
    uint64_t video = (uint64_t)index->video.last + index->video.step;
    uint64_t audio = (uint64_t)index->audio.last + index->audio.step;
    uint64_t longest = video > audio ? video : audio;
    return longest < UINT32_MAX ? (uint32_t)longest : UINT32_MAX;
}

/* AMF 0. Without memory, only the length is counted. */
struct amf {
    uint8_t *at;
    size_t length;
    uint32_t properties;
};

static void put_byte(struct amf *amf, uint8_t byte) {
    if (amf->at)
        *amf->at++ = byte;
    amf->length++;
}

static void put_integer(struct amf *amf, uint64_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; i--)
        put_byte(amf, (uint8_t)(value >> (8 * i)));
}

static void put_key(struct amf *amf, const char *key) {
    put_integer(amf, strlen(key), 2);
    for (; *key; key++)
        put_byte(amf, (uint8_t)*key);
    amf->properties++;
}

static void put_double(struct amf *amf, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    amf->length += 1 + sizeof bits;
    if (!amf->at)
        return;
    /* An index has thousands: these become one store. */
    uint8_t *at = amf->at;
    at[0] = AMF_NUMBER;
    at[1] = (uint8_t)(bits >> 56);
    at[2] = (uint8_t)(bits >> 48);
    at[3] = (uint8_t)(bits >> 40);
    at[4] = (uint8_t)(bits >> 32);
    at[5] = (uint8_t)(bits >> 24);
    at[6] = (uint8_t)(bits >> 16);
    at[7] = (uint8_t)(bits >> 8);
    at[8] = (uint8_t)bits;
    amf->at += 1 + sizeof bits;
}

static void put_number(struct amf *amf, const char *key, double value) {
    put_key(amf, key);
    put_double(amf, value);
}

static void put_boolean(struct amf *amf, const char *key, bool value) {
    put_key(amf, key);
    put_byte(amf, AMF_BOOLEAN);
    put_byte(amf, value);
}

static void put_text(struct amf *amf, const char *text) {
    put_byte(amf, AMF_STRING);
    put_integer(amf, strlen(text), 2);
    for (; *text; text++)
        put_byte(amf, (uint8_t)*text);
}

static void put_array(struct amf *amf, const char *key, size_t count) {
    put_key(amf, key);
    put_byte(amf, AMF_STRICT_ARRAY);
    put_integer(amf, count, 4);
}

static void put_end(struct amf *amf) {
    put_integer(amf, 9, 3);
}

static void put_keys(struct amf *amf, const struct flv_index_key *keys, size_t count) {
    put_key(amf, "keyframes");
    put_byte(amf, AMF_OBJECT);
    put_array(amf, "times", count);
    for (size_t i = 0; i < count; i++)
        put_double(amf, keys ? (double)keys[i].time / 1000 : 0);
    put_array(amf, "filepositions", count);
    for (size_t i = 0; i < count; i++)
        put_double(amf, keys ? (double)keys[i].place : 0);
    put_end(amf);
    amf->properties -= 2;
}

static void put_tracks(struct amf *amf, const struct flv_index *index, bool video, bool audio) {
    put_boolean(amf, "hasVideo", video);
    put_boolean(amf, "hasAudio", audio);
    if (video) {
        put_number(amf, "width", index->width);
        put_number(amf, "height", index->height);
        put_number(amf, "framerate", index->frame_rate);
        put_number(amf, "videocodecid", index->video.number);
    }
    if (audio)
        put_number(amf, "audiocodecid", index->audio.number);
}

/* All but the padding. @all: as long as it can get. Where the number of properties goes: behind the
 * name. */
enum { COUNT_PLACE = 14 };

static void put_properties(struct amf *amf, const struct flv_index *index, uint64_t file_size, bool all) {
    const struct flv_index_key *keys = index->keys;
    size_t count = all ? index->room : index->count;
    double last = keys && index->count > 0 ? (double)keys[index->count - 1].time / 1000 : 0;
    put_text(amf, "onMetaData");
    put_byte(amf, AMF_ECMA_ARRAY);
    put_integer(amf, 0, 4);
    put_number(amf, "duration", file_size ? (double)flv_index_duration(index) / 1000 : 0);
    put_number(amf, "filesize", (double)file_size);
    put_tracks(amf, index, all || index->video.present, all || index->audio.present);
    put_key(amf, "encoder");
    put_text(amf, "sluiced");
    put_boolean(amf, "hasKeyframes", count > 0 && file_size);
    put_boolean(amf, "canSeekToEnd", false);
    put_number(amf, "lastkeyframetimestamp", last);
    if (all || (count > 0 && file_size))
        put_keys(amf, all ? NULL : keys, count);
}

size_t flv_index_size(size_t room) {
    const struct flv_index fullest = {.room = room};
    struct amf amf = {0};
    put_properties(&amf, &fullest, 0, true);
    return amf.length + PADDING_HEAD + PADDING_LEAST + 3;
}

size_t flv_index_room(size_t size) {
    size_t least = flv_index_size(0);
    size_t room = size > least ? (size - least) / KEY_BYTES : 0;
    return room < FLV_INDEX_MOST ? room : FLV_INDEX_MOST;
}

/* Strings that are so many bytes together, as every reader of AMF can skip. */
static void put_padding(struct amf *amf, size_t bytes) {
    size_t count = (bytes + PADDING_STRING - 1) / PADDING_STRING;
    put_array(amf, "padding", count);
    for (size_t i = 0; i < count; i++) {
        size_t size = bytes / (count - i) - PADDING_LEAST;
        bytes -= size + PADDING_LEAST;
        put_byte(amf, AMF_STRING);
        put_integer(amf, size, 2);
        for (size_t j = 0; j < size; j++)
            put_byte(amf, ' ');
    }
}

void flv_index_write(const struct flv_index *index, uint64_t file_size, uint8_t *payload, size_t size) {
    struct amf amf = {.at = payload};
    put_properties(&amf, index, file_size, false);
    put_padding(&amf, size - amf.length - PADDING_HEAD - 3);
    put_end(&amf);
    amf.at = payload + COUNT_PLACE;
    put_integer(&amf, amf.properties, 4);
}
