/* AMF 0 and AMF 3: values of a payload; what of it can be written is read as it was. */
#include <stdlib.h>
#include <string.h>

#include <sluice/amf.h>

#include "fuzz/fuzz.h"

static const sluice_amf_limits *limits_of(const fuzz_run *run) {
    static const sluice_amf_limits limits[] = {
        {.size = sizeof(sluice_amf_limits)},
        {.size = sizeof(sluice_amf_limits), .depth = 2},
        {.size = sizeof(sluice_amf_limits), .values = 5},
        {.size = sizeof(sluice_amf_limits), .bytes = 50},
    };
    return &limits[run->settings[0] >> 1 & 3];
}

static sluice_amf_version version_of(const fuzz_run *run) {
    return run->settings[0] & 1 ? SLUICE_AMF3 : SLUICE_AMF0;
}

static void show_text(fuzz_run *run, const sluice_slice *slice) {
    char text[20];
    fuzz_show_slice(run, "text", slice);
    int length = sluice_amf_get_text(slice, text, sizeof text);
    fuzz_show(run, "length", length);
    FUZZ_CHECK(strlen(text) == (length < 0 ? 0 : (size_t)length));
    FUZZ_CHECK(length < 0 || sluice_amf_equals(slice, text));
}

static void show_value(fuzz_run *run, const sluice_amf_value *value) {
    fuzz_show(run, "type", value->type);
    fuzz_show(run, "depth", value->depth);
    fuzz_show(run, "boolean", value->boolean);
    fuzz_show(run, "integer", value->integer);
    fuzz_show(run, "count", value->count);
    fuzz_show(run, "reference", value->reference);
    fuzz_show_bytes(run, "number", &value->number, sizeof value->number);
    show_text(run, &value->name);
    show_text(run, &value->text);
    FUZZ_CHECK(value->depth < SLUICE_AMF_MAX_DEPTH + 1);
    FUZZ_CHECK(value->type == SLUICE_AMF_ECMA_ARRAY || value->count <= run->size);
}

static bool is_container(sluice_amf_type type) {
    return type >= SLUICE_AMF_OBJECT;
}

/* Some containers are passed over: by what is in them, so the same in each run. Behind one the next
 * value is none of its members. */
static void show_all(fuzz_run *run, sluice_amf_reader reader, bool skips) {
    sluice_amf_value value;
    int result;
    uint8_t around = UINT8_MAX;
    while ((result = sluice_amf_next(&reader, &value)) == 1) {
        FUZZ_CHECK(value.depth <= around);
        around = UINT8_MAX;
        show_value(run, &value);
        if (!is_container(value.type))
            continue;
        sluice_amf_reader place = reader;
        sluice_amf_value member;
        int found = sluice_amf_find(&place, "a", &member);
        fuzz_show(run, "found", found);
        if (found == 1)
            show_value(run, &member);
        if (skips && value.count % 2 == 0) {
            around = value.depth;
            fuzz_show(run, "skipped", sluice_amf_skip(&reader));
        }
    }
    fuzz_show(run, "result", result);
    FUZZ_CHECK(sluice_amf_next(&reader, &value) == result);
}

/* Ends the objects that a value of this depth is not in. */
static void end_objects(sluice_amf_writer *writer, const bool *named, unsigned *open, unsigned depth) {
    while (*open > depth)
        if (named[--*open])
            sluice_amf_write_object_end(writer);
}

/* A text of the input's, with a NUL behind it; the caller's. */
static char *text_of(const sluice_slice *slice) {
    char *text = malloc(sluice_slice_length(slice) + 1);
    FUZZ_CHECK(text);
    sluice_slice_copy(slice, 0, text, sluice_slice_length(slice));
    text[sluice_slice_length(slice)] = 0;
    return text;
}

/* False: the writer has nothing for it. */
static bool write_value(sluice_amf_writer *writer, const sluice_amf_value *value, bool in_named) {
    char *name = text_of(&value->name), *text = text_of(&value->text);
    bool can = in_named == (value->name.length > 0) && strlen(name) == value->name.length;
    if (in_named && can)
        sluice_amf_write_name(writer, name);
    switch (value->type) {
    case SLUICE_AMF_NUMBER:
        sluice_amf_write_number(writer, value->number);
        break;
    case SLUICE_AMF_BOOLEAN:
        sluice_amf_write_boolean(writer, value->boolean);
        break;
    case SLUICE_AMF_STRING:
        sluice_amf_write_text(writer, text, value->text.length);
        break;
    case SLUICE_AMF_NULL:
        sluice_amf_write_null(writer);
        break;
    case SLUICE_AMF_UNDEFINED:
        sluice_amf_write_undefined(writer);
        break;
    case SLUICE_AMF_DATE:
        sluice_amf_write_date(writer, value->number);
        break;
    case SLUICE_AMF_OBJECT:
        can = can && value->text.length == 0;
        sluice_amf_write_object(writer);
        break;
    case SLUICE_AMF_ECMA_ARRAY:
        sluice_amf_write_ecma_array(writer, value->count);
        break;
    case SLUICE_AMF_ARRAY:
        sluice_amf_write_array(writer, value->count);
        break;
    default:
        can = false;
    }
    free(name);
    free(text);
    return can;
}

/* The payload written anew; false where it cannot be. */
static bool write_all(sluice_amf_reader reader, sluice_amf_writer *writer, size_t *ret_length) {
    bool named[SLUICE_AMF_MAX_DEPTH + 1] = {false};
    unsigned open = 0;
    sluice_amf_value value;
    int result;
    while ((result = sluice_amf_next(&reader, &value)) == 1) {
        end_objects(writer, named, &open, value.depth);
        if (!write_value(writer, &value, value.depth > 0 && named[value.depth - 1]))
            return false;
        if (is_container(value.type))
            named[open++] = value.type != SLUICE_AMF_ARRAY;
    }
    end_objects(writer, named, &open, 0);
    return result == 0 && sluice_amf_write_end(writer, ret_length) == 0;
}

static void compare(sluice_amf_reader a, sluice_amf_reader b) {
    sluice_amf_value x, y;
    int result;
    while ((result = sluice_amf_next(&a, &x)) == 1) {
        FUZZ_CHECK(sluice_amf_next(&b, &y) == 1);
        FUZZ_CHECK(x.type == y.type || (x.type == SLUICE_AMF_ECMA_ARRAY && y.type == SLUICE_AMF_ARRAY));
        FUZZ_CHECK(x.depth == y.depth && x.boolean == y.boolean);
        FUZZ_CHECK(memcmp(&x.number, &y.number, sizeof x.number) == 0);
        FUZZ_CHECK(fuzz_hash(&x.name) == fuzz_hash(&y.name) && fuzz_hash(&x.text) == fuzz_hash(&y.text));
    }
    FUZZ_CHECK(sluice_amf_next(&b, &y) == result);
}

static void write_anew(fuzz_run *run, const sluice_amf_reader *reader, sluice_amf_version version) {
    sluice_amf_reader again;
    sluice_amf_writer writer;
    size_t size = 4 * run->size + 16, length = 0;
    char *bytes = malloc(size);
    FUZZ_CHECK(bytes);
    sluice_amf_write_begin(&writer, bytes, size, version);
    if (write_all(*reader, &writer, &length)) {
        const sluice_amf_limits limits = {.size = sizeof limits, .bytes = (uint32_t)size};
        sluice_slice slice = fuzz_slice(run, bytes, length);
        FUZZ_CHECK(sluice_amf_read(&again, &slice, version, &limits) == 0);
        compare(*reader, again);
        sluice_slice_release(&slice);
    }
    free(bytes);
}

void fuzz_target(fuzz_run *run) {
    sluice_amf_reader reader;
    sluice_slice payload = fuzz_slice(run, run->bytes, run->size);
    int result = sluice_amf_read(&reader, &payload, version_of(run), limits_of(run));
    fuzz_show(run, "read", result);
    show_all(run, reader, false);
    show_all(run, reader, true);
    if (result == 0) {
        write_anew(run, &reader, SLUICE_AMF0);
        write_anew(run, &reader, SLUICE_AMF3);
    }
    sluice_slice_release(&payload);
}
