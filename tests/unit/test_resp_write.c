/* Commands, byte for byte. */
#include <sluice/resp.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ARG(text)                                                                                                      \
    { text, sizeof text - 1 }

static const sluice_resp_arg set_key[] = {ARG("SET"), ARG("some-key!!")};

/* Writes into exactly as much memory as it takes, and is refused one byte less, of which it touches
 * none. */
static char *write_exactly(const sluice_resp_arg *args, size_t count, const uint64_t *payload, size_t *ret_length) {
    size_t size = payload ? sluice_resp_command_header_size(args, count, *payload)
                          : sluice_resp_command_size(args, count);
    char *memory = malloc(size);
    assert_non_null(memory);
    *ret_length = 77;
    memset(memory, 'x', size);
    for (size_t room = size - 1; room <= size; room++) {
        int result = payload ? sluice_resp_write_command_header(memory, room, args, count, *payload, ret_length)
                             : sluice_resp_write_command(memory, room, args, count, ret_length);
        assert_int_equal(result, room < size ? -EMSGSIZE : 0);
        assert_int_equal(*ret_length, room < size ? 77 : size);
        for (size_t i = 0; i < size && room < size; i++)
            assert_int_equal(memory[i], 'x');
    }
    return memory;
}

static void assert_written(const sluice_resp_arg *args, size_t count, const uint64_t *payload, const char *expected,
                           size_t length) {
    size_t written;
    char *memory = write_exactly(args, count, payload, &written);
    assert_int_equal(written, length);
    assert_memory_equal(memory, expected, length);
    free(memory);
}

static void test_header_of_set(void **state) {
    (void)state;
    static const struct {
        uint64_t payload;
        const char *expected;
    } cases[] = {
        {0, "*3\r\n$3\r\nSET\r\n$10\r\nsome-key!!\r\n$0\r\n"},
        {9, "*3\r\n$3\r\nSET\r\n$10\r\nsome-key!!\r\n$9\r\n"},
        {10, "*3\r\n$3\r\nSET\r\n$10\r\nsome-key!!\r\n$10\r\n"},
        {1 << 20, "*3\r\n$3\r\nSET\r\n$10\r\nsome-key!!\r\n$1048576\r\n"},
        {UINT64_MAX, "*3\r\n$3\r\nSET\r\n$10\r\nsome-key!!\r\n$18446744073709551615\r\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_written(set_key, 2, &cases[i].payload, cases[i].expected, strlen(cases[i].expected));
}

static void test_commands(void **state) {
    (void)state;
    static const char binary[] = "a\0b\r\n";
    const sluice_resp_arg args[] = {ARG("ECHO"), {binary, 5}, {NULL, 0}};
    static const char expected[] = "*3\r\n$4\r\nECHO\r\n$5\r\na\0b\r\n\r\n$0\r\n\r\n";
    assert_written(args, 3, NULL, expected, sizeof expected - 1);
    assert_written(args, 1, NULL, "*1\r\n$4\r\nECHO\r\n", 14);
    const uint64_t payload = 3;
    assert_written(args, 1, &payload, "*2\r\n$4\r\nECHO\r\n$3\r\n", 18);
}

/* Where the count gets another digit. */
static void test_many_arguments(void **state) {
    (void)state;
    sluice_resp_arg args[100];
    char expected[1000];
    const uint64_t payload = 1;
    for (size_t i = 0; i < 100; i++)
        args[i] = (sluice_resp_arg)ARG("x");
    for (size_t count = 1; count <= 100; count++) {
        for (size_t header = 0; header <= 1; header++) {
            size_t total = count + header;
            size_t length = 0;
            expected[length++] = '*';
            if (total >= 100)
                expected[length++] = '1';
            if (total >= 10)
                expected[length++] = (char)('0' + total / 10 % 10);
            expected[length++] = (char)('0' + total % 10);
            expected[length++] = '\r';
            expected[length++] = '\n';
            for (size_t i = 0; i < count; i++, length += 7)
                memcpy(expected + length, "$1\r\nx\r\n", 7);
            if (header) {
                memcpy(expected + length, "$1\r\n", 4);
                length += 4;
            }
            assert_written(args, count, header ? &payload : NULL, expected, length);
        }
    }
}

static void test_single_headers(void **state) {
    (void)state;
    static const struct {
        sluice_resp_type type;
        uint64_t n;
        const char *expected;
    } cases[] = {
        {SLUICE_RESP_ARRAY, 0, "*0\r\n"},
        {SLUICE_RESP_BULK, 99, "$99\r\n"},
        {SLUICE_RESP_BULK, 100, "$100\r\n"},
        {SLUICE_RESP_BULK, UINT64_MAX, "$18446744073709551615\r\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char buffer[SLUICE_RESP_HEADER_SIZE];
        size_t length = sluice_resp_write_header(buffer, cases[i].type, cases[i].n);
        assert_int_equal(length, strlen(cases[i].expected));
        assert_memory_equal(buffer, cases[i].expected, length);
    }
}

static void test_refused(void **state) {
    (void)state;
    char buffer[8] = "untouch";
    size_t length = 77;
    const sluice_resp_arg huge[] = {{buffer, SIZE_MAX - 20}, {buffer, SIZE_MAX}, {buffer, 30}};
    assert_int_equal(sluice_resp_write_command(buffer, sizeof buffer, set_key, 0, &length), -EINVAL);
    assert_int_equal(sluice_resp_write_command_header(buffer, sizeof buffer, set_key, 0, 1, &length), -EINVAL);
    for (size_t count = 1; count <= 3; count++) {
        assert_int_equal(sluice_resp_command_size(huge, count), SIZE_MAX);
        assert_int_equal(sluice_resp_write_command(buffer, SIZE_MAX, huge, count, &length), -EMSGSIZE);
        assert_int_equal(sluice_resp_command_header_size(huge, count, 1), SIZE_MAX);
        assert_int_equal(sluice_resp_write_command_header(buffer, SIZE_MAX, huge, count, 1, &length), -EMSGSIZE);
    }
    assert_string_equal(buffer, "untouch");
    assert_int_equal(length, 77);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header_of_set),  cmocka_unit_test(test_commands), cmocka_unit_test(test_many_arguments),
        cmocka_unit_test(test_single_headers), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("resp_write", tests, NULL, NULL);
}
