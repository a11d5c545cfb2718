/* sluice-probe's way through damaged FLV: every sound tag is found, and what is wrong is told, at
 * every cut. */
#include "tools/probe/flv_scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/http_feed.h"

enum { TAGS = 8, ROOM = 16384, MOST = 64, FILE_HEADER = SLUICE_FLV_HEADER_SIZE };

/* A stream of audio tags, and where each lies. */
struct stream {
    uint8_t bytes[ROOM];
    size_t size;
    size_t at[TAGS + 1];
};

/* What a scan has found: "t13 t54 damage@95+7 ..." */
struct found {
    char text[2048];
    size_t length;
};

static void make_tag(struct stream *stream, size_t number, uint32_t size) {
    uint8_t *to = stream->bytes + stream->size;
    stream->at[number] = stream->size;
    sluice_flv_write_tag_header(to, SLUICE_FLV_AUDIO, size, (uint32_t)number * 23);
    to += SLUICE_FLV_TAG_HEADER_SIZE;
    memset(to, (int)(0x80 + number), size);
    to[0] = 0xAF;
    to[1] = 1;
    sluice_flv_write_trailer(to + size, size);
    stream->size += SLUICE_FLV_TAG_HEADER_SIZE + size + SLUICE_FLV_TRAILER_SIZE;
    stream->at[number + 1] = stream->size;
}

static void make(struct stream *stream) {
    sluice_flv_write_header(stream->bytes, SLUICE_FLV_HAS_AUDIO);
    stream->size = FILE_HEADER;
    for (size_t i = 0; i < TAGS; i++)
        make_tag(stream, i, (uint32_t)(40 + 300 * (i % 3)));
}

__attribute__((format(printf, 2, 3))) static void note(struct found *found, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(found->text + found->length, sizeof found->text - found->length, format, arguments);
    va_end(arguments);
    assert_true(length >= 0 && (size_t)length < sizeof found->text - found->length);
    found->length += (size_t)length;
}

static void take(struct flv_scan *scan, bool ended, struct found *found) {
    static const char *const names[] = {"no-header", "damage", "trailer", "unknown", "truncated"};
    struct flv_scan_step step;
    int result;
    while ((result = flv_scan_next(scan, ended, &step)) > 0) {
        if (step.has_fault && step.bytes > 0)
            note(found, "%s@%llu+%llu ", names[step.fault], (unsigned long long)step.offset,
                 (unsigned long long)step.bytes);
        else if (step.has_fault)
            note(found, "%s@%llu ", names[step.fault], (unsigned long long)step.offset);
        if (step.tag)
            note(found, "t%llu ", (unsigned long long)step.offset);
    }
    assert_int_equal(result, 0);
}

/* Scans what comes in two pieces, and what is left of it in pieces of @piece bytes. */
static void scan_pieces(const uint8_t *bytes, size_t size, size_t cut, size_t piece, struct found *found) {
    sluice_pool *pool = http_feed_pool(512, 512);
    sluice_chain *chain = http_feed_chain(pool);
    struct flv_scan *scan;
    sluice_pool_stats stats = {.size = sizeof stats};
    *found = (struct found){0};
    assert_int_equal(flv_scan_new(pool, chain, &scan), 0);
    http_feed_bytes(pool, chain, bytes, cut);
    take(scan, false, found);
    for (size_t at = cut; at < size; at += piece) {
        http_feed_bytes(pool, chain, bytes + at, size - at < piece ? size - at : piece);
        take(scan, false, found);
    }
    take(scan, true, found);
    assert_int_equal(sluice_chain_length(chain), 0);
    flv_scan_free(scan);
    sluice_chain_free(chain);
    sluice_pool_get_stats(pool, &stats);
    assert_int_equal(stats.held, 0);
    assert_int_equal(stats.views, 0);
    sluice_pool_free(pool);
}

/* The same is found however the bytes come. */
static void expect(const uint8_t *bytes, size_t size, const char *expected) {
    struct found found;
    scan_pieces(bytes, size, size, 1, &found);
    assert_string_equal(found.text, expected);
    for (size_t cut = 0; cut < size; cut += 1 + cut / 64) {
        scan_pieces(bytes, size, cut, size, &found);
        assert_string_equal(found.text, expected);
    }
    scan_pieces(bytes, size, 0, 7, &found);
    assert_string_equal(found.text, expected);
}

/* Tags from @from up to @to, as they are to be found, @shift bytes away from where they were
 * made. */
static void note_tags(struct found *found, const struct stream *stream, size_t from, size_t to, long shift) {
    for (size_t i = from; i < to; i++)
        note(found, "t%ld ", (long)stream->at[i] + shift);
}

static void what_is_sound(void **state) {
    (void)state;
    struct stream stream;
    struct found expected = {0};
    make(&stream);
    note_tags(&expected, &stream, 0, TAGS, 0);
    expect(stream.bytes, stream.size, expected.text);
}

static void bytes_between_tags(void **state) {
    (void)state;
    static const uint8_t garbage[] = {0x47, 0x40, 0, 0x10, 9, 0, 8, 0, 0, 1, 0xff, 0x12, 9};
    struct stream stream;
    struct found expected = {0};
    make(&stream);
    size_t at = stream.at[3];
    memmove(stream.bytes + at + sizeof garbage, stream.bytes + at, stream.size - at);
    memcpy(stream.bytes + at, garbage, sizeof garbage);
    note_tags(&expected, &stream, 0, 3, 0);
    note(&expected, "damage@%zu+%zu ", at, sizeof garbage);
    note_tags(&expected, &stream, 3, TAGS, sizeof garbage);
    expect(stream.bytes, stream.size + sizeof garbage, expected.text);
}

/* From within a payload some bytes are missing: that tag is lost, and none behind it. */
static void bytes_missing(void **state) {
    (void)state;
    struct stream stream;
    struct found expected = {0};
    make(&stream);
    size_t at = stream.at[4] + 100;
    memmove(stream.bytes + at, stream.bytes + at + 50, stream.size - at - 50);
    note_tags(&expected, &stream, 0, 4, 0);
    note(&expected, "damage@%zu+%zu ", stream.at[4], stream.at[5] - stream.at[4] - 50);
    note_tags(&expected, &stream, 5, TAGS, -50);
    expect(stream.bytes, stream.size - 50, expected.text);
}

/* A header overwritten; among others with a size that goes beyond the end. */
static void headers_overwritten(void **state) {
    (void)state;
    for (size_t byte = 0; byte < 4; byte++) {
        struct stream stream;
        struct found expected = {0};
        make(&stream);
        stream.bytes[stream.at[2] + byte] ^= 0x7f;
        note_tags(&expected, &stream, 0, 2, 0);
        note(&expected, "damage@%zu+%zu ", stream.at[2], stream.at[3] - stream.at[2]);
        note_tags(&expected, &stream, 3, TAGS, 0);
        expect(stream.bytes, stream.size, expected.text);
    }
}

/* The end, wherever it comes: what is whole is found, and where the rest begins is said. */
static void truncated_everywhere(void **state) {
    (void)state;
    struct stream stream;
    make(&stream);
    for (size_t size = FILE_HEADER + 1; size < stream.at[3]; size++) {
        struct found expected = {0}, found;
        size_t whole = 0;
        while (stream.at[whole + 1] <= size)
            whole++;
        note_tags(&expected, &stream, 0, whole, 0);
        if (stream.at[whole] < size)
            note(&expected, "truncated@%zu+%zu ", stream.at[whole], size - stream.at[whole]);
        scan_pieces(stream.bytes, size, size / 2, size, &found);
        assert_string_equal(found.text, expected.text);
    }
}

static void no_file_header(void **state) {
    (void)state;
    struct stream stream;
    struct found expected = {0};
    make(&stream);
    note(&expected, "no-header@0 ");
    note_tags(&expected, &stream, 0, TAGS, -FILE_HEADER);
    expect(stream.bytes + FILE_HEADER, stream.size - FILE_HEADER, expected.text);
}

/* Some writers never get the PreviousTagSize right: that is no damage. */
static void trailers_all_wrong(void **state) {
    (void)state;
    struct stream stream;
    struct found expected = {0};
    make(&stream);
    for (size_t i = 0; i < TAGS; i++) {
        memset(stream.bytes + stream.at[i + 1] - SLUICE_FLV_TRAILER_SIZE, 0, SLUICE_FLV_TRAILER_SIZE);
        note(&expected, "trailer@%zu t%zu ", stream.at[i], stream.at[i]);
    }
    expect(stream.bytes, stream.size, expected.text);
}

static void encrypted_and_empty(void **state) {
    (void)state;
    struct stream stream;
    struct found expected = {0};
    make(&stream);
    stream.bytes[stream.at[1]] |= 0x20;
    make_tag(&stream, TAGS - 1, 0);
    note_tags(&expected, &stream, 0, 1, 0);
    note(&expected, "unknown@%zu+%zu ", stream.at[1], stream.at[2] - stream.at[1]);
    note_tags(&expected, &stream, 2, TAGS - 1, 0);
    size_t last = stream.at[TAGS - 1];
    note(&expected, "t%zu unknown@%zu+15 ", last - (SLUICE_FLV_TAG_HEADER_SIZE + 340 + SLUICE_FLV_TRAILER_SIZE), last);
    expect(stream.bytes, stream.size, expected.text);
}

static void what_is_not_flv(void **state) {
    (void)state;
    static const char text[] = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>there is no tag in here</html>";
    struct found expected = {0};
    note(&expected, "no-header@0 damage@0+%zu ", sizeof text - 1);
    expect((const uint8_t *)text, sizeof text - 1, expected.text);
    expect((const uint8_t *)text, 0, "no-header@0 ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_sound),        cmocka_unit_test(bytes_between_tags),
        cmocka_unit_test(bytes_missing),        cmocka_unit_test(headers_overwritten),
        cmocka_unit_test(truncated_everywhere), cmocka_unit_test(no_file_header),
        cmocka_unit_test(trailers_all_wrong),   cmocka_unit_test(encrypted_and_empty),
        cmocka_unit_test(what_is_not_flv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
