/* RTMP messages: what is written is read, and views of control messages, commands, aggregates. */
#include <sluice/rtmp.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sluice/pool.h>

#include "support/feed.h"
#include "support/rtmp_chunks.h"
#include "support/slices.h"

/* ---- Writing ---- */

static void add_written(bytes *b, sluice_rtmp_message *m, uint32_t chunk_size, const uint8_t *payload) {
    sluice_rtmp_chunking chunking;
    sluice_rtmp_chunk chunk;
    assert_int_equal(sluice_rtmp_chunk_begin(&chunking, m, chunk_size), 0);
    while (sluice_rtmp_chunk_next(&chunking, &chunk) == 1) {
        add(b, chunk.header, chunk.header_size);
        add(b, payload + chunk.offset, chunk.length);
    }
    assert_int_equal(sluice_rtmp_chunk_next(&chunking, &chunk), 0);
}

static void what_is_written_is_read(void **state) {
    static bytes b;
    static uint8_t payload[70000];
    static const uint32_t sizes[] = {0, 1, 127, 128, 129, 4096, 70000};
    static const uint32_t chunk_sizes[] = {1, 2, 127, 128, 4096, 65536, SLUICE_RTMP_MAX_CHUNK};
    static const uint32_t times[] = {0, 0xFFFFFE, 0xFFFFFF, 0x1000000, 0xFFFFFFFF};
    static const uint32_t ids[] = {2, 63, 64, 319, 320, 65599, 6};
    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (uint8_t)(i * 11 + i / 256);
    for (size_t c = 0; c < 7; c++)
        for (size_t i = 0; i < 7; i++) {
            char expected[200];
            sluice_rtmp_message m = {9, ids[i], 1, times[i % 5], sizes[i], {0}};
            const sluice_rtmp_control control = {.type = SLUICE_RTMP_SET_CHUNK_SIZE, .value = chunk_sizes[c]};
            uint8_t set[SLUICE_RTMP_CONTROL_SIZE];
            int n = sluice_rtmp_write_control(set, &control);
            assert_int_equal(n, 16);
            b.size = 0;
            add(&b, set, (size_t)n);
            add_written(&b, &m, chunk_sizes[c], payload);
            char *text = read_in_pieces(*state, &b, 4000, NULL);
            snprintf(expected, sizeof expected, "\n9 on %u, stream 1 at %u: %u, %08x\n0\n", m.chunk_stream, m.timestamp,
                     m.size, sum_of(0, payload, m.size));
            assert_string_equal(strchr(text, '\n'), expected);
            free(text);
            if (chunk_sizes[c] >= 127)
                expect_whole(*state, &b, NULL);
        }
}

static void what_cannot_be_written(void **state) {
    (void)state;
    sluice_rtmp_chunking chunking;
    const sluice_rtmp_message good = {9, 6, 1, 0, 10, {0}};
    sluice_rtmp_message bad = good;
    bad.chunk_stream = 1;
    assert_int_equal(sluice_rtmp_chunk_begin(&chunking, &bad, 128), -EINVAL);
    bad.chunk_stream = 65600;
    assert_int_equal(sluice_rtmp_chunk_begin(&chunking, &bad, 128), -EINVAL);
    bad = good;
    bad.size = SLUICE_RTMP_MAX_MESSAGE + 1;
    assert_int_equal(sluice_rtmp_chunk_begin(&chunking, &bad, 128), -EINVAL);
    assert_int_equal(sluice_rtmp_chunk_begin(&chunking, &good, 0), -EINVAL);
    assert_int_equal(sluice_rtmp_chunk_begin(&chunking, &good, 0x80000000), -EINVAL);
    uint8_t buffer[SLUICE_RTMP_CONTROL_SIZE];
    const sluice_rtmp_control wrong[] = {{.type = 1}, {.type = 1, .value = 0x80000000}, {.type = 8}, {.type = 0}};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(sluice_rtmp_write_control(buffer, &wrong[i]), -EINVAL);
}

/* ---- Views ---- */

static void control_messages(void **state) {
    static const sluice_rtmp_control controls[] = {
        {.type = SLUICE_RTMP_SET_CHUNK_SIZE, .value = 128},
        {.type = SLUICE_RTMP_ABORT, .value = 6},
        {.type = SLUICE_RTMP_ACKNOWLEDGEMENT, .value = 0xFFFFFFFF},
        {.type = SLUICE_RTMP_WINDOW_SIZE, .value = 2500000},
        {.type = SLUICE_RTMP_PEER_BANDWIDTH, .value = 2500000, .limit = 2},
        {.type = SLUICE_RTMP_USER_CONTROL, .event = SLUICE_RTMP_STREAM_BEGIN, .value = 1},
        {.type = SLUICE_RTMP_USER_CONTROL, .event = SLUICE_RTMP_SET_BUFFER, .value = 1, .second = 3000},
        {.type = SLUICE_RTMP_USER_CONTROL, .event = 31, .value = 1},
    };
    for (size_t i = 0; i < sizeof controls / sizeof *controls; i++) {
        uint8_t buffer[SLUICE_RTMP_CONTROL_SIZE];
        sluice_rtmp_control control = {0};
        sluice_rtmp_message *m;
        reading r;
        int n = sluice_rtmp_write_control(buffer, &controls[i]);
        assert_in_range(n, 16, SLUICE_RTMP_CONTROL_SIZE);
        begin(&r, *state, NULL);
        feed(r.chain, *state, buffer, (size_t)n, 1);
        assert_int_equal(sluice_rtmp_next(r.rtmp, r.chain, &m), 1);
        assert_int_equal(sluice_rtmp_read_control(m, &control), 0);
        assert_memory_equal(&control, &controls[i], sizeof control);
        m->type = SLUICE_RTMP_AUDIO;
        assert_int_equal(sluice_rtmp_read_control(m, &control), -ENOMSG);
        free(end(&r));
    }
}

static sluice_rtmp_message message_of(sluice_pool *pool, uint8_t type, const void *at, size_t size) {
    return (sluice_rtmp_message){type, 3, 0, 1000, (uint32_t)size, slice_of(pool, at, size, 3)};
}

static void commands(void **state) {
    static const char plain[] = "\2\0\7publish\0\x40\x14\0\0\0\0\0\0\5\2\0\1a";
    static const char marked[] = "\0\2\0\7publish\0\x40\x14\0\0\0\0\0\0\x11\1\x11\6\3a";
    static const char *const broken[] = {"\2\0\7publish\2", "\5\5", "\2\0\1a\5", "\2\0\7pub"};
    sluice_rtmp_command command;
    sluice_amf_value value;
    for (int i = 0; i < 3; i++) {
        uint8_t type = i == 0 ? SLUICE_RTMP_COMMAND : SLUICE_RTMP_COMMAND3;
        sluice_rtmp_message m = i < 2 ? message_of(*state, type, plain, sizeof plain - 1)
                                      : message_of(*state, type, marked, sizeof marked - 1);
        assert_int_equal(sluice_rtmp_read_command(&m, NULL, &command), 0);
        assert_true(sluice_amf_equals(&command.name, "publish"));
        assert_true(command.transaction == 5);
        assert_int_equal(sluice_amf_next(&command.values, &value), 1);
        assert_int_equal(value.type, SLUICE_AMF_NULL);
        assert_int_equal(sluice_amf_next(&command.values, &value), 1);
        assert_true(sluice_amf_equals(&value.text, "a"));
        assert_int_equal(sluice_amf_next(&command.values, &value), 0);
        m.type = SLUICE_RTMP_DATA3;
        assert_int_equal(sluice_rtmp_read_command(&m, NULL, &command), -ENOMSG);
        assert_int_equal(sluice_rtmp_read_values(&m, NULL, &command.values), 0);
        assert_int_equal(sluice_amf_next(&command.values, &value), 1);
        assert_int_equal(value.type, SLUICE_AMF_STRING);
        m.type = SLUICE_RTMP_VIDEO;
        assert_int_equal(sluice_rtmp_read_values(&m, NULL, &command.values), -ENOMSG);
        sluice_slice_release(&m.payload);
    }
    for (size_t i = 0; i < 5; i++) {
        sluice_rtmp_message m = message_of(*state, SLUICE_RTMP_COMMAND, i < 4 ? broken[i] : "",
                                           i < 4 ? (i == 1   ? 2
                                                    : i == 2 ? 5
                                                    : i == 3 ? 6
                                                             : 11)
                                                 : 0);
        assert_int_equal(sluice_rtmp_read_command(&m, NULL, &command), -EPROTO);
        sluice_slice_release(&m.payload);
    }
}

static void aggregates(void **state) {
    static bytes b;
    sluice_rtmp_parts place = {0};
    sluice_rtmp_message part;
    b.size = 0;
    for (uint32_t i = 0; i < 3; i++) {
        add_be(&b, 4, (8 + i % 2) << 24 | i * 5);
        add_be(&b, 4, (500 + 40 * i) << 8 | 1);
        add_be(&b, 3, 0);
        add_filled(&b, i * 5);
        add_be(&b, 4, 11 + i * 5);
    }
    for (size_t size = b.size; size > 0; size--) {
        sluice_rtmp_message m = message_of(*state, SLUICE_RTMP_AGGREGATE, b.at, size);
        uint32_t count = 0;
        int result;
        place = (sluice_rtmp_parts){0};
        while ((result = sluice_rtmp_next_part(&place, &m, &part)) == 1) {
            assert_int_equal(part.type, 8 + count % 2);
            assert_int_equal(part.timestamp, 1000 + 40 * count);
            assert_int_equal(part.size, 5 * count);
            assert_int_equal(part.payload.length, part.size);
            sluice_slice_release(&part.payload);
            count++;
        }
        assert_int_equal(result, size == b.size || size == 15 || size == 35 ? 0 : -EPROTO);
        m.type = SLUICE_RTMP_VIDEO;
        assert_int_equal(sluice_rtmp_next_part(&place, &m, &part), -ENOMSG);
        sluice_slice_release(&m.payload);
    }
    b.at[0] = SLUICE_RTMP_AGGREGATE; /* in itself */
    sluice_rtmp_message m = message_of(*state, SLUICE_RTMP_AGGREGATE, b.at, b.size);
    place = (sluice_rtmp_parts){0};
    assert_int_equal(sluice_rtmp_next_part(&place, &m, &part), -EPROTO);
    sluice_slice_release(&m.payload);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_is_read, set_up, tear_down),
        cmocka_unit_test(what_cannot_be_written),
        cmocka_unit_test_setup_teardown(control_messages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(commands, set_up, tear_down),
        cmocka_unit_test_setup_teardown(aggregates, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
