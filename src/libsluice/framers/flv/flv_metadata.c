/* Reading onMetaData: AMF 0 (Adobe, 2007), as much of it as stepping over every value takes. */
#include <sluice/flv.h>

#include <errno.h>
#include <math.h>
#include <string.h>

#include "reader/cursor.h"

enum {
    AMF_NUMBER = 0,
    AMF_BOOLEAN = 1,
    AMF_STRING = 2,
    AMF_OBJECT = 3,
    AMF_NULL = 5,
    AMF_UNDEFINED = 6,
    AMF_REFERENCE = 7,
    AMF_ECMA_ARRAY = 8,
    AMF_OBJECT_END = 9,
    AMF_STRICT_ARRAY = 10,
    AMF_DATE = 11,
    AMF_LONG_STRING = 12,
    AMF_UNSUPPORTED = 13,
    AMF_XML_DOCUMENT = 15,
    AMF_TYPED_OBJECT = 16,

    DEPTH_LIMIT = 8,
    NAME_LIMIT = 32,
};

/* A name, read out of the blocks: text of a few bytes. Of a name longer than that only the length
 * is kept. */
struct name {
    size_t length;
    char text[NAME_LIMIT];
};

static bool read_name(sluice_cursor *cursor, struct name *ret_name) {
    uint16_t length;
    if (!cursor_be16(cursor, &length) || length > cursor_left(cursor))
        return false;
    ret_name->length = length;
    if (length > NAME_LIMIT)
        return cursor_skip(cursor, length);
    for (size_t i = 0; i < length; i++)
        ret_name->text[i] = (char)cursor_byte(cursor);
    return true;
}

/* The length decides first: a name that is too long to be kept is none of those looked for. */
static bool name_is(const struct name *name, const char *text) {
    return name->length == strlen(text) && memcmp(name->text, text, name->length) == 0;
}

static bool read_number(sluice_cursor *cursor, double *ret_number) {
    union {
        uint64_t bits;
        double number;
    } value;
    if (!cursor_be(cursor, sizeof value.bits, &value.bits))
        return false;
    *ret_number = value.number;
    return true;
}

static bool skip_string(sluice_cursor *cursor) {
    uint16_t length;
    return cursor_be16(cursor, &length) && cursor_skip(cursor, length);
}

static bool skip_long_string(sluice_cursor *cursor) {
    uint32_t length;
    return cursor_be32(cursor, &length) && cursor_skip(cursor, length);
}

/* At the end of an object: an empty name and its marker, which are stepped over. */
static bool skip_object_end(sluice_cursor *cursor) {
    sluice_cursor end = *cursor;
    uint32_t marker;
    if (!cursor_be24(&end, &marker) || marker != AMF_OBJECT_END)
        return false;
    *cursor = end;
    return true;
}

/* A place in the payload, and how many values have been stepped over up to there. */
struct walk {
    sluice_cursor at;
    uint32_t values;
};

static bool skip_value(struct walk *walk, unsigned depth);

static bool skip_properties(struct walk *walk, unsigned depth) {
    while (!skip_object_end(&walk->at))
        if (!skip_string(&walk->at) || !skip_value(walk, depth))
            return false;
    return true;
}

/* The count may say anything: the payload's end, or the limit of values, ends the loop. */
static bool skip_elements(struct walk *walk, unsigned depth) {
    uint32_t count;
    if (!cursor_be32(&walk->at, &count))
        return false;
    while (count-- > 0)
        if (!skip_value(walk, depth))
            return false;
    return true;
}

/* Steps over a value with what is in it; @depth counts the values around it. False also beyond the
 * limit of values, which shows in their number. */
static bool skip_value(struct walk *walk, unsigned depth) {
    sluice_cursor *cursor = &walk->at;
    uint8_t type;
    if (++walk->values > SLUICE_FLV_MAX_VALUES || depth > DEPTH_LIMIT || !cursor_u8(cursor, &type))
        return false;
    switch (type) {
    case AMF_NULL:
    case AMF_UNDEFINED:
    case AMF_UNSUPPORTED:
        return true;
    case AMF_BOOLEAN:
        return cursor_skip(cursor, 1);
    case AMF_REFERENCE:
        return cursor_skip(cursor, 2);
    case AMF_NUMBER:
        return cursor_skip(cursor, 8);
    case AMF_DATE:
        return cursor_skip(cursor, 8 + 2);
    case AMF_STRING:
        return skip_string(cursor);
    case AMF_LONG_STRING:
    case AMF_XML_DOCUMENT:
        return skip_long_string(cursor);
    case AMF_STRICT_ARRAY:
        return skip_elements(walk, depth + 1);
    case AMF_OBJECT:
        return skip_properties(walk, depth + 1);
    case AMF_TYPED_OBJECT:
        return skip_string(cursor) && skip_properties(walk, depth + 1);
    case AMF_ECMA_ARRAY:
        return cursor_skip(cursor, 4) && skip_properties(walk, depth + 1);
    default:
        return false;
    }
}

/* What is said of a track, before the sayings are weighed. */
struct track {
    bool codec;  /* a codec id is there */
    bool denied; /* hasVideo, hasAudio: false */
    bool stated; /* hasVideo, hasAudio: true */
};

struct findings {
    sluice_flv_metadata metadata;
    struct track video, audio;
};

/* A size or a rate; what cannot be one says nothing. */
static void find_number(sluice_cursor value, double *ret_number) {
    uint8_t type;
    double number;
    if (!cursor_u8(&value, &type) || type != AMF_NUMBER || !read_number(&value, &number))
        return;
    if (isfinite(number) && number >= 0)
        *ret_number = number;
}

/* A number, or a FourCC or name as a string. */
static void find_codec(sluice_cursor value, struct track *track) {
    uint8_t type;
    if (cursor_u8(&value, &type) && (type == AMF_NUMBER || type == AMF_STRING))
        track->codec = true;
}

static void find_presence(sluice_cursor value, struct track *track) {
    uint8_t type, present;
    if (!cursor_u8(&value, &type) || type != AMF_BOOLEAN || !cursor_u8(&value, &present))
        return;
    track->stated = present != 0;
    track->denied = present == 0;
}

/* Looks at one property's value, by a cursor of its own. */
static void find(struct findings *findings, const struct name *name, sluice_cursor value) {
    sluice_flv_metadata *metadata = &findings->metadata;
    if (name_is(name, "width"))
        find_number(value, &metadata->width);
    else if (name_is(name, "height"))
        find_number(value, &metadata->height);
    else if (name_is(name, "framerate"))
        find_number(value, &metadata->frame_rate);
    else if (name_is(name, "videodatarate"))
        find_number(value, &metadata->video_data_rate);
    else if (name_is(name, "audiodatarate"))
        find_number(value, &metadata->audio_data_rate);
    else if (name_is(name, "videocodecid"))
        find_codec(value, &findings->video);
    else if (name_is(name, "audiocodecid"))
        find_codec(value, &findings->audio);
    else if (name_is(name, "hasVideo"))
        find_presence(value, &findings->video);
    else if (name_is(name, "hasAudio"))
        find_presence(value, &findings->audio);
}

/* The properties of the object that onMetaData carries. */
static bool read_properties(struct walk *walk, bool end_may_be_missing, struct findings *findings) {
    while (!skip_object_end(&walk->at)) {
        struct name name;
        if (end_may_be_missing && cursor_left(&walk->at) == 0)
            return true;
        if (!read_name(&walk->at, &name))
            return false;
        find(findings, &name, walk->at);
        if (!skip_value(walk, 1))
            return false;
    }
    return true;
}

/* Usually an ECMA array; some encoders leave its end marker out. Values of other types say
 * nothing. */
static bool read_object(struct walk *walk, struct findings *findings) {
    sluice_cursor inside = walk->at;
    uint8_t type;
    if (!cursor_u8(&inside, &type))
        return false;
    if (type != AMF_OBJECT && type != AMF_ECMA_ARRAY)
        return skip_value(walk, 0);
    if (type == AMF_ECMA_ARRAY && !cursor_skip(&inside, 4))
        return false;
    walk->at = inside;
    return read_properties(walk, type == AMF_ECMA_ARRAY, findings);
}

static bool read_script_name(sluice_cursor *cursor, struct name *ret_name) {
    uint8_t type;
    return cursor_u8(cursor, &type) && type == AMF_STRING && read_name(cursor, ret_name);
}

int sluice_flv_read_metadata(const sluice_slice *payload, sluice_flv_metadata *ret_metadata) {
    struct findings findings = {0};
    struct name name;
    struct walk walk = {.at = cursor_of_slice(payload)};
    if (!read_script_name(&walk.at, &name))
        return -EPROTO;
    if (name_is(&name, "@setDataFrame")) {
        findings.metadata.set_data_frame = sluice_slice_length(payload) - cursor_left(&walk.at);
        if (!read_script_name(&walk.at, &name))
            return -EPROTO;
    }
    if (!name_is(&name, "onMetaData"))
        return -ENOENT;
    if (sluice_slice_length(payload) > SLUICE_FLV_MAX_METADATA)
        return -EMSGSIZE;
    if (!read_object(&walk, &findings))
        return walk.values > SLUICE_FLV_MAX_VALUES ? -EMSGSIZE : -EPROTO;

    const struct track *video = &findings.video, *audio = &findings.audio;
    findings.metadata.has_video = video->stated || (video->codec && !video->denied);
    findings.metadata.has_audio = audio->stated || (audio->codec && !audio->denied);
    *ret_metadata = findings.metadata;
    return 0;
}
