/* AMF 0 and AMF 3: what a reader makes of payloads, however they are cut, and what is written. */
#include <sluice/amf.h>

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sluice/pool.h>

#include "support/feed.h"
#include "support/slices.h"

enum { MOST = 65536 };

/* What has been read, as text. */
typedef struct transcript {
    char text[MOST];
    size_t length;
} transcript;

__attribute__((format(printf, 2, 3))) static void say(transcript *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(t->text + t->length, MOST - t->length, format, arguments);
    va_end(arguments);
    assert_in_range(n, 0, MOST - t->length - 1);
    t->length += (size_t)n;
}

/* Text as it is, other bytes in hexadecimal. */
static void say_slice(transcript *t, const sluice_slice *slice) {
    uint8_t bytes[MOST];
    size_t n = slice_bytes(slice, bytes, sizeof bytes);
    for (size_t i = 0; i < n; i++)
        say(t, bytes[i] >= ' ' && bytes[i] < 127 ? "%c" : "\\%02x", bytes[i]);
}

static void say_value(transcript *t, const sluice_amf_value *value) {
    static const char *const names[] = {
        [SLUICE_AMF_NUMBER] = "number",
        [SLUICE_AMF_INTEGER] = "integer",
        [SLUICE_AMF_BOOLEAN] = "boolean",
        [SLUICE_AMF_STRING] = "string",
        [SLUICE_AMF_NULL] = "null",
        [SLUICE_AMF_UNDEFINED] = "undefined",
        [SLUICE_AMF_UNSUPPORTED] = "none",
        [SLUICE_AMF_REFERENCE] = "reference",
        [SLUICE_AMF_DATE] = "date",
        [SLUICE_AMF_XML] = "xml",
        [SLUICE_AMF_BYTES] = "bytes",
        [SLUICE_AMF_INTS] = "ints",
        [SLUICE_AMF_UINTS] = "uints",
        [SLUICE_AMF_DOUBLES] = "doubles",
        [SLUICE_AMF_OBJECT] = "object",
        [SLUICE_AMF_ECMA_ARRAY] = "ecma",
        [SLUICE_AMF_ARRAY] = "array",
        [SLUICE_AMF_VECTOR] = "vector",
        [SLUICE_AMF_DICTIONARY] = "dictionary",
    };
    for (unsigned i = 0; i < value->depth; i++)
        say(t, ".");
    if (value->name.length > 0) {
        say_slice(t, &value->name);
        say(t, "=");
    }
    say(t, "%s", names[value->type]);
    if (value->number != 0)
        say(t, " %g", value->number);
    if (value->boolean)
        say(t, " true");
    if (value->count > 0)
        say(t, " [%u]", value->count);
    if (value->type == SLUICE_AMF_REFERENCE)
        say(t, " %u", value->reference);
    if (value->text.length > 0) {
        say(t, " ");
        say_slice(t, &value->text);
    }
    say(t, "\n");
}

/* All of a payload, and the error at its end if there is one. */
static void read_all(transcript *t, const sluice_slice *payload, sluice_amf_version version,
                     const sluice_amf_limits *limits) {
    sluice_amf_reader reader;
    sluice_amf_value value;
    *t = (transcript){0};
    int result = sluice_amf_read(&reader, payload, version, limits);
    while (result >= 0 && (result = sluice_amf_next(&reader, &value)) == 1)
        say_value(t, &value);
    if (result < 0)
        say(t, "%s", result == -EPROTO ? "broken" : result == -EMSGSIZE ? "limit" : "unsupported");
    assert_int_equal(sluice_amf_next(&reader, &value), result);
}

/* Read in one piece, and cut in every two places over guard pages. */
static void expect(sluice_pool *pool, sluice_amf_version version, const void *bytes, size_t size,
                   const char *expected) {
    static transcript whole, cut;
    sluice_slice slice = slice_of(pool, bytes, size, 0);
    read_all(&whole, &slice, version, NULL);
    sluice_slice_release(&slice);
    assert_string_equal(whole.text, expected);
    feed_guarded *guarded = feed_guarded_new(bytes, size);
    for (size_t a = 0; a <= size; a += feed_cuts_apart())
        for (size_t b = a; b <= size; b++) {
            slice = slice_guarded(pool, guarded, a, b, size);
            read_all(&cut, &slice, version, NULL);
            sluice_slice_release(&slice);
            assert_string_equal(cut.text, expected);
        }
    feed_guarded_free(guarded);
}

/* A literal with NULs inside. */
#define AMF0(bytes) SLUICE_AMF0, bytes, sizeof(bytes) - 1
#define AMF3(bytes) SLUICE_AMF3, bytes, sizeof(bytes) - 1

static void commands_are_read(void **state) {
    /* as ffmpeg 5.1 begins, shortened */
    expect(*state,
           AMF0("\2\0\7connect\0\x3f\xf0\0\0\0\0\0\0\3\0\3app\2\0\4live\0\4type\2\0\x0anonprivate"
                "\0\0\x09"),
           "string connect\nnumber 1\nobject\n.app=string live\n.type=string nonprivate\n");
    expect(*state, AMF0("\2\0\7publish\0\x40\x14\0\0\0\0\0\0\5\2\0\1a\2\0\4live"),
           "string publish\nnumber 5\nnull\nstring a\nstring live\n");
    expect(*state, AMF0(""), "");
}

static void every_marker_of_amf0(void **state) {
    expect(*state, AMF0("\1\1\1\0\6\7\1\2\x0d\x0b\x40\0\0\0\0\0\0\0\xff\xff"),
           "boolean true\nboolean\nundefined\nreference 258\nnone\ndate 2\n");
    expect(*state, AMF0("\x0c\0\0\0\3abc\x0f\0\0\0\4<a/>\2\0\0"), "string abc\nxml <a/>\nstring\n");
    expect(*state, AMF0("\x10\0\3Foo\0\1x\5\0\0\x09\x0a\0\0\0\2\5\x0a\0\0\0\0\6"),
           "object Foo\n.x=null\narray [2]\n.null\n.array\nundefined\n");
    expect(*state, AMF0("\x08\0\0\0\7\0\1a\x08\0\0\0\0\0\0\x09\0\1b\3\0\0\x09\0\0\x09\5"),
           "ecma [7]\n.a=ecma\n.b=object\nnull\n");
    /* a name of no bytes is one, unless the end marker follows */
    expect(*state, AMF0("\3\0\0\5\0\0\x09"), "object\n.null\n");
    expect(*state, AMF0("\4\0\1a"), "unsupported");
    expect(*state, AMF0("\x0e"), "unsupported");
    expect(*state, AMF0("\x09"), "broken");
    expect(*state, AMF0("\x12"), "broken");
    expect(*state, AMF0("\xff"), "broken");
}

static void an_ecma_array_may_lack_its_end(void **state) {
    expect(*state, AMF0("\x08\0\0\0\1\0\1a\5"), "ecma [1]\n.a=null\n");
    expect(*state, AMF0("\3\0\1a\5"), "object\n.a=null\nbroken");
    expect(*state, AMF0("\3\0\1a\x08\0\0\0\0"), "object\n.a=ecma\nbroken");
}

static void every_marker_of_amf3(void **state) {
    expect(*state, AMF3("\0\1\2\3\4\5\5\x40\0\0\0\0\0\0\0\6\7abc"),
           "undefined\nnull\nboolean\nboolean true\ninteger 5\nnumber 2\nstring abc\n");
    expect(*state, AMF3("\4\x7f\4\x81\0\4\xff\xff\x7f\4\xbf\xff\xff\xff\4\xc0\x80\x80\0\4\xff\xff\xff\xff"),
           "integer 127\ninteger 128\ninteger 2.09715e+06\ninteger 2.68435e+08\ninteger -2.68435e+08\ninteger -1\n");
    expect(*state, AMF3("\7\7<a>\x0b\7<b>\x0c\5\1\2\x08\1\x40\0\0\0\0\0\0\0\x08\6"),
           "xml <a>\nxml <b>\nbytes \\01\\02\ndate 2\nreference 3\n");
    expect(*state, AMF3("\x09\5\3x\4\1\3y\x09\1\1\1\4\2\4\3"),
           "array [2]\n.x=integer 1\n.y=array\n.integer 2\n.integer 3\n");
    expect(*state, AMF3("\x0d\5\0\0\0\0\1\0\0\0\2\x0e\3\1\xff\xff\xff\xff\x0f\3\0\x40\0\0\0\0\0\0\0"),
           "ints [2] \\00\\00\\00\\01\\00\\00\\00\\02\nuints [1] \\ff\\ff\\ff\\ff\ndoubles [1] "
           "@\\00\\00\\00\\00\\00\\00\\00\n");
    expect(*state, AMF3("\x10\5\0\3C\1\4\1\x11\3\0\6\3k\6\5vv"),
           "vector [2] C\n.null\n.integer 1\ndictionary [2]\n.string k\n.string vv\n");
    expect(*state, AMF3("\x12"), "broken");
    expect(*state, AMF3("\4\xff\xff\xff"), "broken");
}

static void classes_and_references(void **state) {
    /* two members and dynamic; then by reference; then dynamic alone */
    expect(*state,
           AMF3("\x0a\x2b\3P\3x\3y\4\1\4\2\3z\4\3\1"
                "\x0a\1\4\4\4\5\1"
                "\x0a\x0b\1\2\4\6\1"),
           "object P\n.x=integer 1\n.y=integer 2\n.z=integer 3\n"
           "object P\n.x=integer 4\n.y=integer 5\n"
           "object\n.x=integer 6\n");
    /* strings 0 and 1, the empty one is none */
    expect(*state, AMF3("\6\3a\6\1\6\3b\6\2\6\0\6\4"), "string a\nstring\nstring b\nstring b\nstring a\nbroken");
    /* members whose names are references, read each time */
    expect(*state, AMF3("\6\3a\x0a\x13\1\0\4\1\x0a\1\4\2"), "string a\nobject\n.a=integer 1\nobject\n.a=integer 2\n");
    expect(*state, AMF3("\x09\1\1\x09\0\x0a\2"), "array\nreference 0\nbroken");
    /* encodes itself; traits that are not there */
    expect(*state, AMF3("\x0a\7\3P"), "unsupported");
    expect(*state, AMF3("\x0a\1"), "broken");
    expect(*state, AMF3("\x0a\5"), "broken");
}

static void amf3_inside_amf0(void **state) {
    /* each value is marked, what is in it is not; strings are counted across values */
    expect(*state, AMF0("\x11\6\3a\5\x11\x09\3\1\6\0\3\0\1k\x11\x0a\x0b\1\3m\1\1\0\0\x09"),
           "string a\nnull\narray [1]\n.string a\nobject\n.k=object\n..m=null\n");
}

static void what_is_announced_is_not_there(void **state) {
    /* the class of CVE-2015-8270 and 8271, and CVE-2017-11665: lengths and counts beyond the end */
    expect(*state,
           AMF0("\2\xff\xff"
                "abc"),
           "broken");
    expect(*state,
           AMF0("\x0c\xff\xff\xff\xff"
                "abc"),
           "broken");
    expect(*state, AMF0("\3\0\5ab"), "object\nbroken");
    expect(*state, AMF0("\x0a\xff\xff\xff\xff\5\5\5"), "broken");
    expect(*state, AMF0("\x0a\0\0\0\4\5\5\5"), "broken");
    expect(*state, AMF0("\x10\0\4Foo"), "broken");
    expect(*state, AMF0("\0\x40\0"), "broken");
    expect(*state, AMF0("\x11"), "broken");
    expect(*state, AMF3("\6\xff\xff\xff\xff"), "broken");
    expect(*state, AMF3("\x0c\xff\xff\xff\xff\1\2"), "broken");
    expect(*state, AMF3("\x09\xff\xff\xff\xff\1"), "broken");
    expect(*state, AMF3("\x0f\xff\xff\xff\xff\0\1"), "broken");
    expect(*state, AMF3("\x11\xff\xff\xff\xff\0\1"), "broken");
    expect(*state, AMF3("\x10\xff\xff\xff\xff\0\1\1"), "broken");
    expect(*state, AMF3("\x0a\xff\xff\xff\xfb\1\3a"), "broken");
    expect(*state, AMF3("\6\xff\xff\xff\xfe"), "broken");
}

/* The end of a transcript of repeated bytes: an opening, so many times a part. */
static const char *end_of(sluice_pool *pool, sluice_amf_version version, const char *part, size_t length,
                          unsigned times, const sluice_amf_limits *limits) {
    static transcript t;
    static char bytes[200000];
    assert_true(length * times <= sizeof bytes);
    for (unsigned i = 0; i < times; i++)
        memcpy(bytes + i * length, part, length);
    sluice_slice slice = slice_of(pool, bytes, length * times, 0);
    read_all(&t, &slice, version, limits);
    sluice_slice_release(&slice);
    const char *last = strrchr(t.text, '\n');
    return last ? last + 1 : t.text;
}

#define PART(bytes) bytes, sizeof(bytes) - 1

static void limits_are_exact(void **state) {
    sluice_pool *pool = *state;
    sluice_amf_limits depth = {.size = sizeof depth, .depth = 3};
    sluice_amf_limits values = {.size = sizeof values, .values = 10};
    sluice_amf_limits bytes = {.size = sizeof bytes, .bytes = 10};
    assert_string_equal(end_of(pool, SLUICE_AMF0, PART("\3\0\1a"), 3, &depth), "broken");
    assert_string_equal(end_of(pool, SLUICE_AMF0, PART("\3\0\1a"), 4, &depth), "limit");
    assert_string_equal(end_of(pool, SLUICE_AMF0, PART("\3\0\1a"), SLUICE_AMF_MAX_DEPTH, NULL), "broken");
    assert_string_equal(end_of(pool, SLUICE_AMF0, PART("\3\0\1a"), SLUICE_AMF_MAX_DEPTH + 1, NULL), "limit");
    assert_string_equal(end_of(pool, SLUICE_AMF3, PART("\x09\3\1"), SLUICE_AMF_MAX_DEPTH, NULL), "broken");
    assert_string_equal(end_of(pool, SLUICE_AMF3, PART("\x09\3\1"), SLUICE_AMF_MAX_DEPTH + 1, NULL), "limit");
    assert_string_equal(end_of(pool, SLUICE_AMF0, PART("\x0a\0\0\0\1"), 10000, NULL), "limit");
    assert_string_equal(end_of(pool, SLUICE_AMF0, PART("\5"), 10, &values), "");
    assert_string_equal(end_of(pool, SLUICE_AMF0, PART("\5"), 11, &values), "limit");
    assert_string_equal(end_of(pool, SLUICE_AMF0, PART("\5"), SLUICE_AMF_DEFAULT_VALUES, NULL), "");
    assert_string_equal(end_of(pool, SLUICE_AMF0, PART("\5"), SLUICE_AMF_DEFAULT_VALUES + 1, NULL), "limit");
    assert_string_equal(end_of(pool, SLUICE_AMF0, PART("\1\1"), 5, &bytes), "");
    assert_string_equal(end_of(pool, SLUICE_AMF0, PART("\1\1"), 6, &bytes), "limit");
    assert_string_equal(end_of(pool, SLUICE_AMF0, PART("\1"), SLUICE_AMF_DEFAULT_BYTES + 1, NULL), "limit");
}

static void references_are_bounded(void **state) {
    static transcript t;
    uint8_t bytes[600];
    for (int number = SLUICE_AMF_MAX_STRINGS - 1; number <= SLUICE_AMF_MAX_STRINGS; number++) {
        size_t n = 0;
        for (int i = 0; i <= SLUICE_AMF_MAX_STRINGS; i++) {
            memcpy(bytes + n, "\6\5", 2);
            bytes[n + 2] = (uint8_t)('a' + i % 26);
            bytes[n + 3] = (uint8_t)('a' + i / 26);
            n += 4;
        }
        bytes[n++] = 6;
        if (number > 63)
            bytes[n++] = 0x81;
        bytes[n++] = (uint8_t)(number << 1 & 0x7F);
        sluice_slice slice = slice_of(*state, bytes, n, 0);
        read_all(&t, &slice, SLUICE_AMF3, NULL);
        sluice_slice_release(&slice);
        const char *end = t.text + t.length;
        if (number < SLUICE_AMF_MAX_STRINGS)
            assert_string_equal(end - strlen("string lc\n"), "string lc\n");
        else
            assert_string_equal(end - strlen("\nlimit"), "\nlimit");
    }
}

static void settings_are_checked(void **state) {
    (void)state;
    sluice_amf_reader reader;
    sluice_amf_value value;
    const sluice_slice empty = {0};
    const sluice_amf_limits wrong[] = {
        {.size = 0},
        {.size = sizeof(sluice_amf_limits), .depth = SLUICE_AMF_MAX_DEPTH + 1},
    };
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(sluice_amf_read(&reader, &empty, SLUICE_AMF0, &wrong[i]), -EINVAL);
        assert_int_equal(sluice_amf_next(&reader, &value), -EINVAL);
        assert_int_equal(sluice_amf_skip(&reader), -EINVAL);
    }
    assert_int_equal(sluice_amf_read(&reader, &empty, (sluice_amf_version)1, NULL), -EINVAL);
}

static void members_are_found_and_passed_over(void **state) {
    static const char bytes[] =
        "\3\0\1a\3\0\1x\5\0\0\x09\0\1x\2\0\2hi\0\1l\x0a\0\0\0\2\5\2\0\1q\0\0\x09\0\0\0\0\0\0\0\0\0";
    sluice_slice slice = slice_of(*state, bytes, sizeof bytes - 1, 3);
    sluice_amf_reader reader, copy;
    sluice_amf_value value;
    char text[3];
    assert_int_equal(sluice_amf_read(&reader, &slice, SLUICE_AMF0, NULL), 0);
    assert_int_equal(sluice_amf_find(&reader, "x", &value), 0); /* no container */
    assert_int_equal(sluice_amf_skip(&reader), 0);
    assert_int_equal(sluice_amf_next(&reader, &value), 1);
    copy = reader;
    /* not the one inside of the other */
    assert_int_equal(sluice_amf_find(&copy, "x", &value), 1);
    assert_int_equal(value.type, SLUICE_AMF_STRING);
    assert_true(sluice_amf_equals(&value.text, "hi") && !sluice_amf_equals(&value.text, "ho") &&
                !sluice_amf_equals(&value.text, "h"));
    assert_int_equal(sluice_amf_get_text(&value.text, text, 3), 2);
    assert_string_equal(text, "hi");
    assert_int_equal(sluice_amf_get_text(&value.text, text, 2), -EMSGSIZE);
    assert_string_equal(text, "");
    copy = reader;
    assert_int_equal(sluice_amf_find(&copy, "none", &value), 0);
    assert_int_equal(sluice_amf_find(&copy, "l", &value), 1);
    assert_int_equal(value.count, 2);
    assert_int_equal(sluice_amf_skip(&copy), 0);
    assert_int_equal(sluice_amf_next(&copy, &value), 1); /* behind the object, which has ended */
    assert_int_equal(value.type, SLUICE_AMF_NUMBER);
    assert_int_equal(value.depth, 0);
    assert_int_equal(sluice_amf_skip(&reader), 0);
    assert_int_equal(sluice_amf_next(&reader, &value), 1);
    assert_int_equal(value.type, SLUICE_AMF_NUMBER);
    assert_int_equal(sluice_amf_next(&reader, &value), 0);
    sluice_slice_release(&slice);
}

static void a_nul_is_no_text(void **state) {
    sluice_slice slice = slice_of(*state, "a\0b", 3, 1);
    char text[8];
    assert_int_equal(sluice_amf_get_text(&slice, text, sizeof text), -EILSEQ);
    assert_string_equal(text, "");
    sluice_slice_release(&slice);
}

static void write_sample(sluice_amf_writer *writer) {
    sluice_amf_write_string(writer, "connect");
    sluice_amf_write_number(writer, -1.5);
    sluice_amf_write_object(writer);
    sluice_amf_write_name(writer, "b");
    sluice_amf_write_boolean(writer, true);
    sluice_amf_write_name(writer, "list");
    sluice_amf_write_array(writer, 2);
    sluice_amf_write_null(writer);
    sluice_amf_write_text(writer, "", 0);
    sluice_amf_write_name(writer, "map");
    sluice_amf_write_ecma_array(writer, 1);
    sluice_amf_write_name(writer, "u");
    sluice_amf_write_undefined(writer);
    sluice_amf_write_object_end(writer);
    sluice_amf_write_object_end(writer);
    sluice_amf_write_date(writer, 1000);
    sluice_amf_write_boolean(writer, false);
}

static void what_is_written_is_read(void **state) {
    static const char expected[] = "string connect\nnumber -1.5\nobject\n.b=boolean true\n.list=array [2]\n..null\n"
                                   "..string\n.map=%s\n..u=undefined\ndate 1000\nboolean\n";
    for (int version = 0; version <= 3; version += 3) {
        uint8_t bytes[200];
        char text[400];
        size_t n = 0, other;
        sluice_amf_writer writer;
        sluice_amf_write_begin(&writer, bytes, sizeof bytes, (sluice_amf_version)version);
        write_sample(&writer);
        assert_int_equal(sluice_amf_write_end(&writer, &n), 0);
        snprintf(text, sizeof text, expected, version == SLUICE_AMF0 ? "ecma [1]" : "array");
        expect(*state, (sluice_amf_version)version, bytes, n, text);
        /* one byte less is not enough, and nothing is written behind the memory */
        for (size_t size = 0; size < n; size++) {
            uint8_t *guarded = malloc(size ? size : 1);
            sluice_amf_write_begin(&writer, guarded, size, (sluice_amf_version)version);
            write_sample(&writer);
            assert_int_equal(sluice_amf_write_end(&writer, &other), -EMSGSIZE);
            free(guarded);
        }
    }
}

static void long_texts(void **state) {
    static char text[70000], bytes[70010];
    static const size_t lengths[] = {63, 64, 8191, 8192, 65535, 65536, 69999};
    const sluice_amf_limits limits = {.size = sizeof limits, .bytes = sizeof bytes};
    memset(text, 'x', sizeof text);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int version = 0; version <= 3; version += 3) {
            sluice_amf_writer writer;
            sluice_amf_reader reader;
            sluice_amf_value value;
            size_t n = 0;
            sluice_amf_write_begin(&writer, bytes, sizeof bytes, (sluice_amf_version)version);
            sluice_amf_write_text(&writer, text, lengths[i]);
            assert_int_equal(sluice_amf_write_end(&writer, &n), 0);
            sluice_slice slice = slice_of(*state, bytes, n, 0);
            assert_int_equal(sluice_amf_read(&reader, &slice, (sluice_amf_version)version, &limits), 0);
            assert_int_equal(sluice_amf_next(&reader, &value), 1);
            assert_int_equal(value.type, SLUICE_AMF_STRING);
            assert_int_equal(value.text.length, lengths[i]);
            assert_int_equal(sluice_amf_next(&reader, &value), 0);
            sluice_slice_release(&slice);
        }
}

static void what_cannot_be_written(void **state) {
    (void)state;
    static char name[70001];
    char bytes[16];
    size_t n;
    sluice_amf_writer writer;
    memset(name, 'x', sizeof name - 1);
    const char *const names[] = {"", name};
    for (size_t i = 0; i < 2; i++) {
        sluice_amf_write_begin(&writer, bytes, sizeof bytes, SLUICE_AMF0);
        sluice_amf_write_object(&writer);
        sluice_amf_write_name(&writer, names[i]);
        sluice_amf_write_object_end(&writer);
        assert_int_equal(sluice_amf_write_end(&writer, &n), -EINVAL);
    }
    sluice_amf_write_begin(&writer, bytes, sizeof bytes, SLUICE_AMF0);
    sluice_amf_write_name(&writer, "outside");
    assert_int_equal(sluice_amf_write_end(&writer, &n), -EINVAL);
    sluice_amf_write_begin(&writer, bytes, sizeof bytes, SLUICE_AMF0);
    sluice_amf_write_object_end(&writer);
    assert_int_equal(sluice_amf_write_end(&writer, &n), -EINVAL);
    sluice_amf_write_begin(&writer, bytes, sizeof bytes, SLUICE_AMF0);
    sluice_amf_write_object(&writer);
    assert_int_equal(sluice_amf_write_end(&writer, &n), -EINVAL);
    sluice_amf_write_begin(&writer, bytes, sizeof bytes, SLUICE_AMF3);
    sluice_amf_write_array(&writer, UINT32_MAX);
    assert_int_equal(sluice_amf_write_end(&writer, &n), -EMSGSIZE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(commands_are_read, feed_set_up, feed_tear_down),
        cmocka_unit_test_setup_teardown(every_marker_of_amf0, feed_set_up, feed_tear_down),
        cmocka_unit_test_setup_teardown(an_ecma_array_may_lack_its_end, feed_set_up, feed_tear_down),
        cmocka_unit_test_setup_teardown(every_marker_of_amf3, feed_set_up, feed_tear_down),
        cmocka_unit_test_setup_teardown(classes_and_references, feed_set_up, feed_tear_down),
        cmocka_unit_test_setup_teardown(amf3_inside_amf0, feed_set_up, feed_tear_down),
        cmocka_unit_test_setup_teardown(what_is_announced_is_not_there, feed_set_up, feed_tear_down),
        cmocka_unit_test_setup_teardown(limits_are_exact, feed_set_up, feed_tear_down),
        cmocka_unit_test_setup_teardown(references_are_bounded, feed_set_up, feed_tear_down),
        cmocka_unit_test(settings_are_checked),
        cmocka_unit_test_setup_teardown(members_are_found_and_passed_over, feed_set_up, feed_tear_down),
        cmocka_unit_test_setup_teardown(a_nul_is_no_text, feed_set_up, feed_tear_down),
        cmocka_unit_test_setup_teardown(what_is_written_is_read, feed_set_up, feed_tear_down),
        cmocka_unit_test_setup_teardown(long_texts, feed_set_up, feed_tear_down),
        cmocka_unit_test(what_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
