/*
 * The values of AMF 3. Strings and descriptions of classes may be referred to by number: the reader
 * keeps the places of the first ones. Containers that are referred to are not resolved, so nothing
 * can contain itself.
 */
#include "framers/amf/amf_read.h"

#include <errno.h>

enum {
    AMF3_UNDEFINED = 0,
    AMF3_NULL = 1,
    AMF3_FALSE = 2,
    AMF3_TRUE = 3,
    AMF3_INTEGER = 4,
    AMF3_DOUBLE = 5,
    AMF3_STRING = 6,
    AMF3_XML_DOCUMENT = 7,
    AMF3_DATE = 8,
    AMF3_ARRAY = 9,
    AMF3_OBJECT = 10,
    AMF3_XML = 11,
    AMF3_BYTES = 12,
    AMF3_INTS = 13,
    AMF3_UINTS = 14,
    AMF3_DOUBLES = 15,
    AMF3_VECTOR = 16,
    AMF3_DICTIONARY = 17,

    EMPTY_NAME = 1, /* a string of no bytes: ends members with names */
    INTEGER_BITS = 29,
};

/* Seven bits a byte, most significant first; the fourth byte has eight. */
static bool read_u29(sluice_cursor *cursor, uint32_t *ret_value) {
    uint32_t value = 0;
    uint8_t byte;
    for (int i = 0; i < 3; i++) {
        if (!cursor_u8(cursor, &byte))
            return false;
        value = value << 7 | (byte & 0x7F);
        if (!(byte & 0x80)) {
            *ret_value = value;
            return true;
        }
    }
    if (!cursor_u8(cursor, &byte))
        return false;
    *ret_value = value << 8 | byte;
    return true;
}

static uint32_t place_of(const sluice_amf_reader *reader, const sluice_cursor *cursor) {
    return (uint32_t)(reader->bytes.length - cursor_left(cursor));
}

/* A place in the payload that has been read before. */
static sluice_cursor cursor_at(const sluice_amf_reader *reader, uint32_t at) {
    sluice_cursor cursor = cursor_of_slice(&reader->bytes);
    cursor_skip(&cursor, at);
    return cursor;
}

static sluice_slice text_at(const sluice_amf_reader *reader, sluice_amf_string string) {
    sluice_cursor cursor = cursor_at(reader, string.at);
    return amf_borrow(&cursor, string.length);
}

/* A string, or a reference to an earlier one. One that has been read before is not counted
 * again. */
static int read_string(sluice_amf_reader *reader, sluice_cursor *cursor, bool again, sluice_amf_string *ret_string) {
    uint32_t head;
    if (!read_u29(cursor, &head))
        return -EPROTO;
    uint32_t number = head >> 1;
    if (!(head & 1)) {
        if (number >= reader->strings)
            return -EPROTO;
        if (number >= SLUICE_AMF_MAX_STRINGS)
            return -EMSGSIZE;
        *ret_string = reader->known[number];
        return 0;
    }
    if (number > cursor_left(cursor))
        return -EPROTO;
    *ret_string = (sluice_amf_string){place_of(reader, cursor), number};
    cursor_skip(cursor, number);
    if (number > 0 && !again) {
        if (reader->strings < SLUICE_AMF_MAX_STRINGS)
            reader->known[reader->strings] = *ret_string;
        reader->strings++;
    }
    return 0;
}

static int read_text(sluice_amf_reader *reader, sluice_cursor *cursor, sluice_slice *ret_text) {
    sluice_amf_string string;
    int error = read_string(reader, cursor, false, &string);
    if (!error)
        *ret_text = text_at(reader, string);
    return error;
}

/* The head of what can be referred to: 1 (it is here, with so much of a number), 0 (a reference,
 * into @value), or an error. */
static int read_head(sluice_amf_reader *reader, sluice_cursor *cursor, sluice_amf_value *value, uint32_t *ret_number) {
    uint32_t head;
    if (!read_u29(cursor, &head))
        return -EPROTO;
    *ret_number = head >> 1;
    if (head & 1) {
        reader->objects++;
        return 1;
    }
    if (*ret_number >= reader->objects)
        return -EPROTO;
    value->type = SLUICE_AMF_REFERENCE;
    value->reference = *ret_number;
    return 0;
}

/* Enters a container: 1, or an error. */
static int enter(sluice_amf_reader *reader, sluice_amf_level level) {
    int error = amf_enter(reader, level);
    return error ? error : 1;
}

/* Runs of bytes: XML, byte arrays, and vectors of numbers, which have a byte before them. */
static int read_run(sluice_amf_reader *reader, sluice_cursor *cursor, sluice_amf_value *value, sluice_amf_type type,
                    uint32_t width) {
    uint32_t count;
    int result = read_head(reader, cursor, value, &count);
    if (result <= 0)
        return result < 0 ? result : 1;
    if (width > 1 && !cursor_skip(cursor, 1))
        return -EPROTO;
    if (count > cursor_left(cursor) / width)
        return -EPROTO;
    value->type = type;
    value->count = width > 1 ? count : 0;
    value->text = amf_borrow(cursor, (size_t)count * width);
    return 1;
}

static int read_date(sluice_amf_reader *reader, sluice_cursor *cursor, sluice_amf_value *value) {
    uint32_t unused;
    int result = read_head(reader, cursor, value, &unused);
    if (result <= 0)
        return result < 0 ? result : 1;
    value->type = SLUICE_AMF_DATE;
    return amf_read_double(cursor, &value->number) ? 1 : -EPROTO;
}

/* Each member takes a byte at least: a count beyond that cannot be. */
static int read_array(sluice_amf_reader *reader, sluice_cursor *cursor, sluice_amf_value *value) {
    uint32_t count;
    int result = read_head(reader, cursor, value, &count);
    if (result <= 0)
        return result < 0 ? result : 1;
    if (count > cursor_left(cursor))
        return -EPROTO;
    value->type = SLUICE_AMF_ARRAY;
    value->count = count;
    return enter(reader, (sluice_amf_level){.kind = AMF_LEVEL_ARRAY3, .left = count});
}

/* Behind the count a byte that says whether the vector may grow, or the keys are weak. */
static int read_vector(sluice_amf_reader *reader, sluice_cursor *cursor, sluice_amf_value *value) {
    uint32_t count;
    int result = read_head(reader, cursor, value, &count);
    if (result <= 0)
        return result < 0 ? result : 1;
    if (!cursor_skip(cursor, 1))
        return -EPROTO;
    int error = read_text(reader, cursor, &value->text);
    if (error)
        return error;
    if (count > cursor_left(cursor))
        return -EPROTO;
    value->type = SLUICE_AMF_VECTOR;
    value->count = count;
    return enter(reader, (sluice_amf_level){.kind = AMF_LEVEL_COUNTED3, .left = count});
}

static int read_dictionary(sluice_amf_reader *reader, sluice_cursor *cursor, sluice_amf_value *value) {
    uint32_t count;
    int result = read_head(reader, cursor, value, &count);
    if (result <= 0)
        return result < 0 ? result : 1;
    if (!cursor_skip(cursor, 1) || count > cursor_left(cursor) / 2)
        return -EPROTO;
    value->type = SLUICE_AMF_DICTIONARY;
    value->count = 2 * count;
    return enter(reader, (sluice_amf_level){.kind = AMF_LEVEL_COUNTED3, .left = 2 * count});
}

/* The description of a class, of @head's rest: whether it is dynamic, and how many members. */
static int read_traits(sluice_amf_reader *reader, sluice_cursor *cursor, uint32_t head, sluice_amf_traits *ret_traits) {
    sluice_amf_traits traits = {.dynamic = head & 1, .count = head >> 1};
    sluice_amf_string name;
    int error = read_string(reader, cursor, false, &traits.name);
    if (error)
        return error;
    if (traits.count > cursor_left(cursor))
        return -EPROTO;
    if (traits.count > reader->values)
        return -EMSGSIZE;
    traits.names_at = place_of(reader, cursor);
    for (uint32_t i = 0; i < traits.count && !error; i++)
        error = read_string(reader, cursor, false, &name);
    if (error)
        return error;
    if (reader->classes < SLUICE_AMF_MAX_TRAITS)
        reader->traits[reader->classes] = traits;
    reader->classes++;
    *ret_traits = traits;
    return 0;
}

static int traits_of(sluice_amf_reader *reader, sluice_cursor *cursor, uint32_t head, sluice_amf_traits *ret_traits) {
    enum { HERE = 1, EXTERNAL = 2 };
    uint32_t number = head >> 1;
    if (!(head & HERE)) {
        if (number >= reader->classes)
            return -EPROTO;
        if (number >= SLUICE_AMF_MAX_TRAITS)
            return -EMSGSIZE;
        *ret_traits = reader->traits[number];
        return 0;
    }
    return head & EXTERNAL ? -EOPNOTSUPP : read_traits(reader, cursor, head >> 2, ret_traits);
}

static int read_object(sluice_amf_reader *reader, sluice_cursor *cursor, sluice_amf_value *value) {
    uint32_t head;
    sluice_amf_traits traits;
    int result = read_head(reader, cursor, value, &head);
    if (result <= 0)
        return result < 0 ? result : 1;
    int error = traits_of(reader, cursor, head, &traits);
    if (error)
        return error;
    if (traits.count > cursor_left(cursor))
        return -EPROTO;
    value->type = SLUICE_AMF_OBJECT;
    value->text = text_at(reader, traits.name);
    return enter(reader, (sluice_amf_level){
                             .kind = AMF_LEVEL_OBJECT3,
                             .dynamic = traits.dynamic,
                             .left = traits.count,
                             .names_at = traits.names_at,
                         });
}

static int read_integer(sluice_cursor *cursor, sluice_amf_value *value) {
    uint32_t bits;
    if (!read_u29(cursor, &bits))
        return -EPROTO;
    value->type = SLUICE_AMF_INTEGER;
    value->integer = (int32_t)bits - (bits >> (INTEGER_BITS - 1) ? 1 << INTEGER_BITS : 0);
    value->number = value->integer;
    return 1;
}

static int read_double(sluice_cursor *cursor, sluice_amf_value *value) {
    value->type = SLUICE_AMF_NUMBER;
    return amf_read_double(cursor, &value->number) ? 1 : -EPROTO;
}

static int give_text(sluice_amf_reader *reader, sluice_cursor *cursor, sluice_amf_value *value) {
    value->type = SLUICE_AMF_STRING;
    int error = read_text(reader, cursor, &value->text);
    return error ? error : 1;
}

int amf3_read_value(sluice_amf_reader *reader, sluice_cursor *cursor, sluice_amf_value *value) {
    uint8_t marker = 0;
    if (!cursor_u8(cursor, &marker))
        return -EPROTO;
    switch (marker) {
    case AMF3_UNDEFINED:
        value->type = SLUICE_AMF_UNDEFINED;
        return 1;
    case AMF3_NULL:
        value->type = SLUICE_AMF_NULL;
        return 1;
    case AMF3_FALSE:
    case AMF3_TRUE:
        value->type = SLUICE_AMF_BOOLEAN;
        value->boolean = marker == AMF3_TRUE;
        return 1;
    case AMF3_INTEGER:
        return read_integer(cursor, value);
    case AMF3_DOUBLE:
        return read_double(cursor, value);
    case AMF3_STRING:
        return give_text(reader, cursor, value);
    case AMF3_XML_DOCUMENT:
    case AMF3_XML:
        return read_run(reader, cursor, value, SLUICE_AMF_XML, 1);
    case AMF3_BYTES:
        return read_run(reader, cursor, value, SLUICE_AMF_BYTES, 1);
    case AMF3_INTS:
        return read_run(reader, cursor, value, SLUICE_AMF_INTS, sizeof(int32_t));
    case AMF3_UINTS:
        return read_run(reader, cursor, value, SLUICE_AMF_UINTS, sizeof(uint32_t));
    case AMF3_DOUBLES:
        return read_run(reader, cursor, value, SLUICE_AMF_DOUBLES, sizeof(double));
    case AMF3_DATE:
        return read_date(reader, cursor, value);
    case AMF3_ARRAY:
        return read_array(reader, cursor, value);
    case AMF3_OBJECT:
        return read_object(reader, cursor, value);
    case AMF3_VECTOR:
        return read_vector(reader, cursor, value);
    case AMF3_DICTIONARY:
        return read_dictionary(reader, cursor, value);
    default:
        return -EPROTO;
    }
}

/* Steps over an empty name. */
static bool skip_empty_name(sluice_cursor *cursor) {
    sluice_cursor next = *cursor;
    uint8_t byte;
    if (!cursor_u8(&next, &byte) || byte != EMPTY_NAME)
        return false;
    *cursor = next;
    return true;
}

bool amf3_is_open(sluice_amf_level *level, sluice_cursor *cursor) {
    if (level->kind == AMF_LEVEL_OBJECT3) {
        if (level->left > 0)
            return true;
        return level->dynamic && !skip_empty_name(cursor);
    }
    if (level->kind == AMF_LEVEL_ARRAY3) {
        if (!skip_empty_name(cursor))
            return true;
        level->kind = AMF_LEVEL_COUNTED3;
    }
    return level->left > 0;
}

int amf3_read_name(sluice_amf_reader *reader, sluice_amf_level *level, sluice_cursor *cursor, sluice_slice *ret_name) {
    if (level->kind == AMF_LEVEL_COUNTED3) {
        level->left--;
        return 0;
    }
    if (level->kind == AMF_LEVEL_ARRAY3 || level->left == 0)
        return read_text(reader, cursor, ret_name);
    sluice_amf_string name;
    sluice_cursor names = cursor_at(reader, level->names_at);
    int error = read_string(reader, &names, true, &name);
    if (error)
        return error;
    level->left--;
    level->names_at = place_of(reader, &names);
    *ret_name = text_at(reader, name);
    return 0;
}
