/* The writer: values into the caller's memory, in AMF 0 or in AMF 3 without references. */
#include <sluice/amf.h>

#include <errno.h>
#include <string.h>

enum {
    AMF0_NUMBER = 0,
    AMF0_BOOLEAN = 1,
    AMF0_STRING = 2,
    AMF0_OBJECT = 3,
    AMF0_NULL = 5,
    AMF0_UNDEFINED = 6,
    AMF0_ECMA_ARRAY = 8,
    AMF0_OBJECT_END = 9,
    AMF0_STRICT_ARRAY = 10,
    AMF0_DATE = 11,
    AMF0_LONG_STRING = 12,

    AMF3_UNDEFINED = 0,
    AMF3_NULL = 1,
    AMF3_FALSE = 2,
    AMF3_DOUBLE = 5,
    AMF3_STRING = 6,
    AMF3_DATE = 8,
    AMF3_ARRAY = 9,
    AMF3_OBJECT = 10,
    AMF3_HERE = 1,          /* not a reference */
    AMF3_EMPTY = 1,         /* a string of no bytes */
    AMF3_DYNAMIC = 0x0B,    /* an object of no class, all of whose members bring their names */
    AMF3_MOST = 0x0FFFFFFF, /* what a length or count can be */
};

void sluice_amf_write_begin(sluice_amf_writer *writer, void *buffer, size_t size, sluice_amf_version version) {
    *writer = (sluice_amf_writer){.begin = buffer, .size = size, .version = (uint8_t)version};
}

static void fail(sluice_amf_writer *writer, int error) {
    if (!writer->error)
        writer->error = error;
}

/* Room for n bytes; NULL where there is none. */
static uint8_t *take(sluice_amf_writer *writer, size_t n) {
    if (n > writer->size - writer->used)
        fail(writer, -EMSGSIZE);
    if (writer->error)
        return NULL;
    uint8_t *at = writer->begin + writer->used;
    writer->used += n;
    return at;
}

/* n bytes, most significant first. */
static void put(sluice_amf_writer *writer, unsigned n, uint64_t value) {
    uint8_t *at = take(writer, n);
    if (!at)
        return;
    for (unsigned i = 0; i < n; i++)
        at[i] = (uint8_t)(value >> (8 * (n - 1 - i)));
}

static void put_bytes(sluice_amf_writer *writer, const char *bytes, size_t n) {
    uint8_t *at = take(writer, n);
    if (at && n > 0)
        memcpy(at, bytes, n);
}

static void put_double(sluice_amf_writer *writer, double number) {
    const union {
        double number;
        uint64_t bits;
    } value = {number};
    put(writer, 8, value.bits);
}

/* At most 29 bits, in the fewest bytes. */
static void put_u29(sluice_amf_writer *writer, uint32_t value) {
    if (value < 1U << 7)
        put(writer, 1, value);
    else if (value < 1U << 14)
        put(writer, 2, (value >> 7 | 0x80) << 8 | (value & 0x7F));
    else if (value < 1U << 21)
        put(writer, 3, (value >> 14 | 0x80) << 16 | (value >> 7 & 0x7F) << 8 | 0x8000 | (value & 0x7F));
    else
        put(writer, 4,
            (value >> 22 | 0x80) << 24 | (value >> 15 & 0x7F) << 16 | (value >> 8 & 0x7F) << 8 | 0x808000 |
                (value & 0xFF));
}

static bool is_amf3(const sluice_amf_writer *writer) {
    return writer->version == SLUICE_AMF3;
}

static void put_marker(sluice_amf_writer *writer, uint8_t amf0, uint8_t amf3) {
    put(writer, 1, is_amf3(writer) ? amf3 : amf0);
}

/* A length or a count of AMF 3. */
static void put_count3(sluice_amf_writer *writer, size_t n) {
    if (n > AMF3_MOST)
        fail(writer, -EMSGSIZE);
    else
        put_u29(writer, (uint32_t)n << 1 | AMF3_HERE);
}

void sluice_amf_write_number(sluice_amf_writer *writer, double number) {
    put_marker(writer, AMF0_NUMBER, AMF3_DOUBLE);
    put_double(writer, number);
}

void sluice_amf_write_boolean(sluice_amf_writer *writer, bool boolean) {
    if (is_amf3(writer))
        put(writer, 1, AMF3_FALSE + boolean);
    else
        put(writer, 2, AMF0_BOOLEAN << 8 | boolean);
}

void sluice_amf_write_text(sluice_amf_writer *writer, const char *text, size_t length) {
    if (is_amf3(writer)) {
        put(writer, 1, AMF3_STRING);
        put_count3(writer, length);
    } else if (length > UINT32_MAX) {
        fail(writer, -EMSGSIZE);
    } else {
        bool is_long = length > UINT16_MAX;
        put(writer, 1, is_long ? AMF0_LONG_STRING : AMF0_STRING);
        put(writer, is_long ? 4 : 2, length);
    }
    put_bytes(writer, text, length);
}

void sluice_amf_write_string(sluice_amf_writer *writer, const char *text) {
    sluice_amf_write_text(writer, text, strlen(text));
}

void sluice_amf_write_null(sluice_amf_writer *writer) {
    put_marker(writer, AMF0_NULL, AMF3_NULL);
}

void sluice_amf_write_undefined(sluice_amf_writer *writer) {
    put_marker(writer, AMF0_UNDEFINED, AMF3_UNDEFINED);
}

void sluice_amf_write_date(sluice_amf_writer *writer, double milliseconds) {
    if (is_amf3(writer))
        put(writer, 2, AMF3_DATE << 8 | AMF3_HERE);
    else
        put(writer, 1, AMF0_DATE);
    put_double(writer, milliseconds);
    if (!is_amf3(writer))
        put(writer, 2, 0); /* the zone, which is reserved */
}

void sluice_amf_write_object(sluice_amf_writer *writer) {
    if (is_amf3(writer))
        put(writer, 3, AMF3_OBJECT << 16 | AMF3_DYNAMIC << 8 | AMF3_EMPTY);
    else
        put(writer, 1, AMF0_OBJECT);
    writer->open++;
}

void sluice_amf_write_ecma_array(sluice_amf_writer *writer, uint32_t count) {
    if (is_amf3(writer)) {
        put(writer, 2, AMF3_ARRAY << 8 | AMF3_HERE);
    } else {
        put(writer, 1, AMF0_ECMA_ARRAY);
        put(writer, 4, count);
    }
    writer->open++;
}

void sluice_amf_write_array(sluice_amf_writer *writer, uint32_t count) {
    put_marker(writer, AMF0_STRICT_ARRAY, AMF3_ARRAY);
    if (is_amf3(writer)) {
        put_count3(writer, count);
        put(writer, 1, AMF3_EMPTY);
    } else {
        put(writer, 4, count);
    }
}

void sluice_amf_write_name(sluice_amf_writer *writer, const char *name) {
    size_t length = strlen(name);
    if (length == 0 || length > UINT16_MAX || writer->open == 0)
        fail(writer, -EINVAL);
    else if (is_amf3(writer))
        put_count3(writer, length);
    else
        put(writer, 2, length);
    put_bytes(writer, name, length);
}

void sluice_amf_write_object_end(sluice_amf_writer *writer) {
    if (writer->open == 0) {
        fail(writer, -EINVAL);
        return;
    }
    writer->open--;
    if (is_amf3(writer))
        put(writer, 1, AMF3_EMPTY);
    else
        put(writer, 3, AMF0_OBJECT_END);
}

int sluice_amf_write_end(const sluice_amf_writer *writer, size_t *ret_length) {
    if (writer->error)
        return writer->error;
    if (writer->open > 0)
        return -EINVAL;
    *ret_length = writer->used;
    return 0;
}
