/* What both ends of RTMP share: the HMAC, the handshake of two ends, and messages that are queued
 * whole or not at all. */
#include "shared/rtmp_peer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/rtmp_rig.h"

enum { LIMIT = 16384 };

static void assert_digest(const uint8_t digest[SLUICE_RTMP_DIGEST_SIZE], const char *expected) {
    char text[2 * SLUICE_RTMP_DIGEST_SIZE + 1];
    for (int i = 0; i < SLUICE_RTMP_DIGEST_SIZE; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(text, expected);
}

/* RFC 4231, test cases 2 and 6. The pieces are one message; a key may be longer than a block. */
static void hmac_is_that_of_rfc_4231(void **state) {
    char first[] = "what do ya ", second[] = "want for nothing?", third[] = "Test Using Larger Than Block-Size Key";
    char fourth[] = " - Hash Key First";
    uint8_t key[131], digest[SLUICE_RTMP_DIGEST_SIZE];
    const struct iovec pieces[] = {{first, sizeof first - 1}, {NULL, 0}, {second, sizeof second - 1}};
    const struct iovec others[] = {{third, sizeof third - 1}, {fourth, sizeof fourth - 1}};
    (void)state;
    assert_int_equal(rtmp_hmac("Jefe", 4, pieces, 3, digest, NULL), 0);
    assert_digest(digest, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    assert_int_equal(rtmp_hmac(key, sizeof key, others, 2, digest, NULL), 0);
    assert_digest(digest, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

static void handshake_of(sluice_rtmp_schema schema) {
    struct rtmp_rig rig;
    sluice_rtmp_handshake *made[2];
    bool done[2] = {false, false};
    rtmp_rig_open(&rig, LIMIT);
    assert_int_equal(rtmp_handshake_begin(SLUICE_RTMP_CLIENT, schema, &made[0]), 0);
    assert_int_equal(rtmp_handshake_begin(SLUICE_RTMP_SERVER, SLUICE_RTMP_SIMPLE, &made[1]), 0);
    assert_int_equal(rtmp_handshake_send(made[0], rig.ends[0].writer), 0);
    while (!done[0] || !done[1]) {
        for (int i = 0; i < 2; i++) {
            int result = done[i] ? 1 : sluice_rtmp_handshake_next(made[i], sluice_conn_chain(rig.ends[i].conn));
            assert_true(result >= 0);
            done[i] = result == 1;
            assert_int_equal(rtmp_handshake_send(made[i], rig.ends[i].writer), 0);
        }
        if (!done[0] || !done[1])
            turn(rig.loop.loop);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sluice_rtmp_handshake_schema(made[i]), schema);
        sluice_rtmp_handshake_free(made[i]);
    }
    rtmp_rig_close(&rig);
}

static void handshakes_agree_with_digests_and_without(void **state) {
    (void)state;
    handshake_of(SLUICE_RTMP_SIMPLE);
    handshake_of(SLUICE_RTMP_EARLY);
    handshake_of(SLUICE_RTMP_LATE);
}

/* What does not fit stays with the handshake, whole, for a later call. */
static void handshake_without_room_is_not_sent_in_part(void **state) {
    struct rtmp_rig rig;
    sluice_rtmp_handshake *handshake;
    const uint8_t *bytes;
    (void)state;
    rtmp_rig_open(&rig, 1000);
    assert_int_equal(rtmp_handshake_begin(SLUICE_RTMP_CLIENT, SLUICE_RTMP_EARLY, &handshake), 0);
    assert_int_equal(rtmp_handshake_send(handshake, rig.ends[0].writer), -EAGAIN);
    assert_int_equal(sluice_writer_queued(rig.ends[0].writer), 0);
    assert_int_equal(sluice_rtmp_handshake_output(handshake, &bytes), 1537);
    sluice_rtmp_handshake_free(handshake);
    rtmp_rig_close(&rig);
}

static void control_messages_arrive(void **state) {
    const sluice_rtmp_control window = {.type = SLUICE_RTMP_WINDOW_SIZE, .value = 2500000};
    const sluice_rtmp_control none = {.type = SLUICE_RTMP_COMMAND};
    sluice_rtmp_control control;
    sluice_rtmp *framer;
    struct rtmp_rig rig;
    (void)state;
    rtmp_rig_open(&rig, LIMIT);
    assert_int_equal(sluice_rtmp_new(NULL, &framer), 0);
    assert_int_equal(rtmp_send_control(rig.ends[0].writer, &none), -EINVAL);
    assert_int_equal(rtmp_send_control(rig.ends[0].writer, &window), 0);
    assert_int_equal(sluice_rtmp_read_control(rtmp_rig_receive(&rig, framer), &control), 0);
    assert_int_equal(control.type, SLUICE_RTMP_WINDOW_SIZE);
    assert_int_equal(control.value, 2500000);
    sluice_rtmp_free(framer);
    rtmp_rig_close(&rig);
}

static void begin_connect(struct rtmp_command *command, const char *url) {
    rtmp_command_begin(command, "connect", 1);
    sluice_amf_write_object(&command->values);
    rtmp_command_text(command, "tcUrl", url);
    rtmp_command_number(command, "capsEx", 3);
    sluice_amf_write_object_end(&command->values);
}

/* The same command at a chunk size, as the other end reads it. */
static void command_at(uint32_t chunk_size, size_t headers) {
    const sluice_rtmp_control announced = {.type = SLUICE_RTMP_SET_CHUNK_SIZE, .value = chunk_size};
    char url[1001];
    struct rtmp_command command;
    sluice_rtmp_command seen;
    sluice_amf_value value;
    sluice_rtmp *framer;
    struct rtmp_rig rig;
    memset(url, 'u', sizeof url - 1);
    url[sizeof url - 1] = '\0';
    rtmp_rig_open(&rig, LIMIT);
    assert_int_equal(sluice_rtmp_new(NULL, &framer), 0);
    assert_int_equal(rtmp_send_control(rig.ends[0].writer, &announced), 0);
    assert_int_equal(rtmp_rig_receive(&rig, framer)->type, SLUICE_RTMP_SET_CHUNK_SIZE);
    begin_connect(&command, url);
    assert_int_equal(rtmp_command_send(&command, 1, chunk_size, rig.ends[0].writer), 0);
    size_t queued = sluice_writer_queued(rig.ends[0].writer);
    sluice_rtmp_message *message = rtmp_rig_receive(&rig, framer);
    assert_int_equal(queued, message->size + 12 + headers - 1);
    assert_int_equal(message->stream, 1);
    assert_int_equal(message->chunk_stream, RTMP_STREAM_CHANNEL);
    assert_int_equal(sluice_rtmp_read_command(message, NULL, &seen), 0);
    assert_true(sluice_amf_equals(&seen.name, "connect"));
    assert_true(seen.transaction == 1);
    assert_int_equal(sluice_amf_next(&seen.values, &value), 1);
    sluice_amf_reader members = seen.values;
    assert_int_equal(sluice_amf_find(&members, "tcUrl", &value), 1);
    assert_true(sluice_amf_equals(&value.text, url));
    assert_int_equal(sluice_amf_find(&seen.values, "capsEx", &value), 1);
    assert_true(value.number == 3);
    sluice_rtmp_free(framer);
    rtmp_rig_close(&rig);
}

static void commands_arrive_at_any_chunk_size(void **state) {
    (void)state;
    command_at(65536, 1);
    /* 1050 bytes: of the name 10, the number 9, the members 7 + 1003 and 8 + 9, the object 4. */
    command_at(128, 9);
    command_at(1024, 2);
}

static void data_messages_have_no_transaction(void **state) {
    struct rtmp_command command;
    sluice_amf_reader values;
    sluice_amf_value value;
    sluice_rtmp *framer;
    struct rtmp_rig rig;
    (void)state;
    rtmp_rig_open(&rig, LIMIT);
    assert_int_equal(sluice_rtmp_new(NULL, &framer), 0);
    rtmp_data_begin(&command, "onMetaData");
    sluice_amf_write_boolean(&command.values, true);
    assert_int_equal(rtmp_command_send(&command, 0, SLUICE_RTMP_DEFAULT_CHUNK, rig.ends[0].writer), 0);
    sluice_rtmp_message *message = rtmp_rig_receive(&rig, framer);
    assert_int_equal(message->type, SLUICE_RTMP_DATA);
    assert_int_equal(message->chunk_stream, RTMP_COMMAND_CHANNEL);
    assert_int_equal(sluice_rtmp_read_values(message, NULL, &values), 0);
    assert_int_equal(sluice_amf_next(&values, &value), 1);
    assert_true(sluice_amf_equals(&value.text, "onMetaData"));
    assert_int_equal(sluice_amf_next(&values, &value), 1);
    assert_true(value.boolean);
    assert_int_equal(sluice_amf_next(&values, &value), 0);
    sluice_rtmp_free(framer);
    rtmp_rig_close(&rig);
}

/* Over a bound nothing is queued, not even a first chunk; the text does not stay in memory. */
static void what_cannot_be_sent_leaves_nothing(void **state) {
    static char text[RTMP_COMMAND_MAX];
    struct rtmp_command command;
    struct rtmp_rig rig;
    (void)state;
    rtmp_rig_open(&rig, 2000);
    memset(text, 's', sizeof text - 1);
    rtmp_command_begin(&command, "connect", 1);
    sluice_amf_write_string(&command.values, text);
    assert_int_equal(rtmp_command_send(&command, 0, 128, rig.ends[0].writer), -EMSGSIZE);
    rtmp_command_begin(&command, "connect", 1);
    sluice_amf_write_object(&command.values);
    assert_int_equal(rtmp_command_send(&command, 0, 128, rig.ends[0].writer), -EINVAL);
    /* One name of 10 bytes, a number of 9, and the string's 3. */
    text[RTMP_COMMAND_MAX - 22] = '\0';
    rtmp_command_begin(&command, "connect", 1);
    sluice_amf_write_string(&command.values, text);
    assert_int_equal(rtmp_command_send(&command, 0, 128, rig.ends[0].writer), -EAGAIN);
    for (size_t i = 0; i < sizeof command.bytes; i++)
        assert_int_equal(command.bytes[i], 0);
    begin_connect(&command, "rtmp://host/app");
    assert_int_equal(rtmp_command_send(&command, 0, 0, rig.ends[0].writer), -EINVAL);
    assert_int_equal(sluice_writer_queued(rig.ends[0].writer), 0);
    rtmp_rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hmac_is_that_of_rfc_4231),
        cmocka_unit_test(handshakes_agree_with_digests_and_without),
        cmocka_unit_test(handshake_without_room_is_not_sent_in_part),
        cmocka_unit_test(control_messages_arrive),
        cmocka_unit_test(commands_arrive_at_any_chunk_size),
        cmocka_unit_test(data_messages_have_no_transaction),
        cmocka_unit_test(what_cannot_be_sent_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
