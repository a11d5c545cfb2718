/* The reader: containers that are open, and the values of AMF 0. */
#include "framers/amf/amf_read.h"

#include <errno.h>
#include <string.h>

#include "abi/sized.h"

enum {
    AMF0_NUMBER = 0,
    AMF0_BOOLEAN = 1,
    AMF0_STRING = 2,
    AMF0_OBJECT = 3,
    AMF0_MOVIECLIP = 4,
    AMF0_NULL = 5,
    AMF0_UNDEFINED = 6,
    AMF0_REFERENCE = 7,
    AMF0_ECMA_ARRAY = 8,
    AMF0_OBJECT_END = 9,
    AMF0_STRICT_ARRAY = 10,
    AMF0_DATE = 11,
    AMF0_LONG_STRING = 12,
    AMF0_UNSUPPORTED = 13,
    AMF0_RECORDSET = 14,
    AMF0_XML_DOCUMENT = 15,
    AMF0_TYPED_OBJECT = 16,
    AMF0_AVMPLUS = 17, /* the value behind it is written in AMF 3 */
};

int sluice_amf_read(sluice_amf_reader *reader, const sluice_slice *payload, sluice_amf_version version,
                    const sluice_amf_limits *limits) {
    sluice_amf_limits l;
    int error = SIZED_READ(&l, limits);
    *reader = (sluice_amf_reader){.error = -EINVAL};
    if (error)
        return error;
    if (l.depth > SLUICE_AMF_MAX_DEPTH || (version != SLUICE_AMF0 && version != SLUICE_AMF3))
        return -EINVAL;
    if (payload->length > (l.bytes ? l.bytes : SLUICE_AMF_DEFAULT_BYTES))
        return reader->error = -EMSGSIZE;
    reader->error = 0;
    reader->bytes = reader->rest = *payload;
    reader->version = (uint8_t)version;
    reader->depth = l.depth ? (uint8_t)l.depth : SLUICE_AMF_MAX_DEPTH;
    reader->values = l.values ? l.values : SLUICE_AMF_DEFAULT_VALUES;
    return 0;
}

int amf_enter(sluice_amf_reader *reader, sluice_amf_level level) {
    if (reader->height >= reader->depth)
        return -EMSGSIZE;
    reader->levels[reader->height++] = level;
    reader->entered = true;
    return 0;
}

static int enter0(sluice_amf_reader *reader, enum amf_level kind, uint32_t count) {
    int error = amf_enter(reader, (sluice_amf_level){.kind = (uint8_t)kind, .left = count});
    return error ? error : 1;
}

/* At the end of an object: an empty name and its marker, which are stepped over. */
static bool skip_object_end(sluice_cursor *cursor) {
    sluice_cursor end = *cursor;
    uint32_t marker;
    if (!cursor_be24(&end, &marker) || marker != AMF0_OBJECT_END)
        return false;
    *cursor = end;
    return true;
}

/* Text behind a length of @width bytes. */
static bool read_text(sluice_cursor *cursor, unsigned width, sluice_slice *ret_text) {
    uint64_t length;
    if (!cursor_be(cursor, width, &length) || length > cursor_left(cursor))
        return false;
    *ret_text = amf_borrow(cursor, (size_t)length);
    return true;
}

static bool read_string(sluice_cursor *cursor, sluice_amf_value *value, sluice_amf_type type, unsigned width) {
    value->type = type;
    return read_text(cursor, width, &value->text);
}

static bool read_date(sluice_cursor *cursor, sluice_amf_value *value) {
    enum { ZONE = 2 }; /* reserved: nobody fills it in */
    value->type = SLUICE_AMF_DATE;
    return amf_read_double(cursor, &value->number) && cursor_skip(cursor, ZONE);
}

static bool read_boolean(sluice_cursor *cursor, sluice_amf_value *value) {
    uint8_t byte;
    if (!cursor_u8(cursor, &byte))
        return false;
    value->type = SLUICE_AMF_BOOLEAN;
    value->boolean = byte != 0;
    return true;
}

static bool read_reference(sluice_cursor *cursor, sluice_amf_value *value) {
    uint16_t reference;
    if (!cursor_be16(cursor, &reference))
        return false;
    value->type = SLUICE_AMF_REFERENCE;
    value->reference = reference;
    return true;
}

/* Each element takes a byte at least: a count beyond that cannot be. */
static int read_array(sluice_amf_reader *reader, sluice_cursor *cursor, sluice_amf_value *value) {
    if (!cursor_be32(cursor, &value->count) || value->count > cursor_left(cursor))
        return -EPROTO;
    value->type = SLUICE_AMF_ARRAY;
    return enter0(reader, AMF_LEVEL_COUNTED, value->count);
}

/* The count means nothing: encoders write 0, or forget to count. */
static int read_ecma_array(sluice_amf_reader *reader, sluice_cursor *cursor, sluice_amf_value *value) {
    if (!cursor_be32(cursor, &value->count))
        return -EPROTO;
    value->type = SLUICE_AMF_ECMA_ARRAY;
    return enter0(reader, AMF_LEVEL_ECMA, 0);
}

static int read_object(sluice_amf_reader *reader, sluice_cursor *cursor, sluice_amf_value *value, bool typed) {
    value->type = SLUICE_AMF_OBJECT;
    if (typed && !read_text(cursor, 2, &value->text))
        return -EPROTO;
    return enter0(reader, AMF_LEVEL_NAMED, 0);
}

static int is_read(bool read) {
    return read ? 1 : -EPROTO;
}

static int read_empty(sluice_amf_value *value, sluice_amf_type type) {
    value->type = type;
    return 1;
}

static int read_value(sluice_amf_reader *reader, sluice_cursor *cursor, sluice_amf_value *value) {
    uint8_t marker = 0;
    if (!cursor_u8(cursor, &marker))
        return -EPROTO;
    switch (marker) {
    case AMF0_NUMBER:
        value->type = SLUICE_AMF_NUMBER;
        return is_read(amf_read_double(cursor, &value->number));
    case AMF0_BOOLEAN:
        return is_read(read_boolean(cursor, value));
    case AMF0_STRING:
        return is_read(read_string(cursor, value, SLUICE_AMF_STRING, 2));
    case AMF0_LONG_STRING:
        return is_read(read_string(cursor, value, SLUICE_AMF_STRING, 4));
    case AMF0_XML_DOCUMENT:
        return is_read(read_string(cursor, value, SLUICE_AMF_XML, 4));
    case AMF0_NULL:
        return read_empty(value, SLUICE_AMF_NULL);
    case AMF0_UNDEFINED:
        return read_empty(value, SLUICE_AMF_UNDEFINED);
    case AMF0_UNSUPPORTED:
        return read_empty(value, SLUICE_AMF_UNSUPPORTED);
    case AMF0_REFERENCE:
        return is_read(read_reference(cursor, value));
    case AMF0_DATE:
        return is_read(read_date(cursor, value));
    case AMF0_OBJECT:
    case AMF0_TYPED_OBJECT:
        return read_object(reader, cursor, value, marker == AMF0_TYPED_OBJECT);
    case AMF0_ECMA_ARRAY:
        return read_ecma_array(reader, cursor, value);
    case AMF0_STRICT_ARRAY:
        return read_array(reader, cursor, value);
    case AMF0_AVMPLUS:
        return amf3_read_value(reader, cursor, value);
    case AMF0_MOVIECLIP:
    case AMF0_RECORDSET:
        return -EOPNOTSUPP;
    default:
        return -EPROTO;
    }
}

static bool is_open(const sluice_amf_reader *reader, sluice_amf_level *level, sluice_cursor *cursor) {
    switch (level->kind) {
    case AMF_LEVEL_COUNTED:
        return level->left > 0;
    case AMF_LEVEL_ECMA:
        if (cursor_left(cursor) == 0 && reader->height == 1)
            return false;
        return !skip_object_end(cursor);
    case AMF_LEVEL_NAMED:
        return !skip_object_end(cursor);
    default:
        return amf3_is_open(level, cursor);
    }
}

static void leave_what_has_ended(sluice_amf_reader *reader, sluice_cursor *cursor) {
    while (reader->height > 0 && !is_open(reader, &reader->levels[reader->height - 1], cursor))
        reader->height--;
}

/* A member's name, where members have one, and the value. */
static int read_member(sluice_amf_reader *reader, sluice_cursor *cursor, sluice_amf_value *value) {
    sluice_amf_level *level = &reader->levels[reader->height - 1];
    int error;
    switch (level->kind) {
    case AMF_LEVEL_COUNTED:
        level->left--;
        return read_value(reader, cursor, value);
    case AMF_LEVEL_ECMA:
    case AMF_LEVEL_NAMED:
        return read_text(cursor, 2, &value->name) ? read_value(reader, cursor, value) : -EPROTO;
    default:
        error = amf3_read_name(reader, level, cursor, &value->name);
        return error ? error : amf3_read_value(reader, cursor, value);
    }
}

static int next(sluice_amf_reader *reader, sluice_cursor *cursor, sluice_amf_value *value) {
    leave_what_has_ended(reader, cursor);
    reader->entered = false;
    if (reader->height == 0 && cursor_left(cursor) == 0)
        return 0;
    if (reader->values == 0)
        return -EMSGSIZE;
    reader->values--;
    value->depth = reader->height;
    if (reader->height > 0)
        return read_member(reader, cursor, value);
    if (reader->version == SLUICE_AMF3)
        return amf3_read_value(reader, cursor, value);
    return read_value(reader, cursor, value);
}

/* What has been read is behind the reader. */
static void advance(sluice_amf_reader *reader, const sluice_cursor *cursor) {
    size_t left = cursor_left(cursor);
    reader->rest = left == 0 ? (sluice_slice){0}
                             : (sluice_slice){cursor->at.block, reader->bytes.last, cursor->at.offset, left};
}

int sluice_amf_next(sluice_amf_reader *reader, sluice_amf_value *ret_value) {
    if (reader->error)
        return reader->error;
    sluice_cursor cursor = cursor_of_slice(&reader->rest);
    sluice_amf_value value = {0};
    int result = next(reader, &cursor, &value);
    if (result < 0)
        return reader->error = result;
    advance(reader, &cursor);
    if (result > 0)
        *ret_value = value;
    return result;
}

int sluice_amf_skip(sluice_amf_reader *reader) {
    if (reader->error || !reader->entered)
        return reader->error;
    sluice_cursor cursor = cursor_of_slice(&reader->rest);
    for (uint8_t around = (uint8_t)(reader->height - 1);;) {
        leave_what_has_ended(reader, &cursor);
        if (reader->height <= around)
            break;
        sluice_amf_value value = {0};
        int result = next(reader, &cursor, &value);
        if (result < 0)
            return reader->error = result;
    }
    reader->entered = false;
    advance(reader, &cursor);
    return 0;
}

int sluice_amf_find(sluice_amf_reader *reader, const char *name, sluice_amf_value *ret_value) {
    sluice_amf_reader place = *reader;
    sluice_amf_value value;
    int result;
    if (!reader->entered)
        return reader->error;
    while ((result = sluice_amf_next(&place, &value)) == 1 && value.depth >= reader->height) {
        if (value.depth > reader->height || !sluice_amf_equals(&value.name, name))
            continue;
        *reader = place;
        *ret_value = value;
        return 1;
    }
    return result < 0 ? result : 0;
}

bool sluice_amf_equals(const sluice_slice *slice, const char *text) {
    size_t length = strlen(text);
    if (length != slice->length)
        return false;
    sluice_cursor cursor = cursor_of_slice(slice);
    while (length > 0) {
        size_t here;
        const uint8_t *view = cursor_view(&cursor, &here);
        if (memcmp(view, text, here) != 0)
            return false;
        cursor_skip(&cursor, here);
        text += here;
        length -= here;
    }
    return true;
}

int sluice_amf_get_text(const sluice_slice *slice, char *buffer, size_t size) {
    sluice_cursor cursor = cursor_of_slice(slice);
    size_t length = slice->length;
    buffer[0] = 0;
    if (length >= size || length > INT32_MAX)
        return -EMSGSIZE;
    for (size_t i = 0; i < length; i++) {
        buffer[i] = (char)cursor_byte(&cursor);
        if (buffer[i] == 0) {
            buffer[0] = 0;
            return -EILSEQ;
        }
    }
    buffer[length] = 0;
    return (int)length;
}
