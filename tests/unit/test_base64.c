/* Base64: the vectors of RFC 4648, every length both ways, and what is none. */
#include "framers/text/base64.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void the_standards_vectors(void **state) {
    (void)state;
    static const char *const vectors[][2] = {{"", ""},
                                             {"f", "Zg=="},
                                             {"fo", "Zm8="},
                                             {"foo", "Zm9v"},
                                             {"foob", "Zm9vYg=="},
                                             {"fooba", "Zm9vYmE="},
                                             {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        char text[16];
        uint8_t bytes[16];
        size_t n = strlen(vectors[i][0]), length = strlen(vectors[i][1]);
        base64_encode((const uint8_t *)vectors[i][0], n, text);
        assert_int_equal(BASE64_SIZE(n), length);
        assert_memory_equal(text, vectors[i][1], length);
        assert_int_equal(base64_decode(text, length, bytes), n);
        assert_memory_equal(bytes, vectors[i][0], n);
        while (length > 0 && text[length - 1] == '=')
            length--;
        assert_int_equal(base64_decode(text, length, bytes), n);
        assert_memory_equal(bytes, vectors[i][0], n);
    }
}

static void every_length_and_byte(void **state) {
    (void)state;
    uint8_t bytes[256], back[BASE64_SIZE(256) + 2];
    char text[BASE64_SIZE(256)];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 167 + 13);
    for (size_t n = 0; n <= sizeof bytes; n++) {
        base64_encode(bytes, n, text);
        assert_int_equal(base64_decode(text, BASE64_SIZE(n), back), n);
        assert_memory_equal(back, bytes, n);
    }
}

static void what_is_none(void **state) {
    (void)state;
    static const char *const texts[] = {"Z", "Zg=", "Zm9vY", "Z===", "Zm 9v", "Zm9-", "Zm9_", "Zg==Zg==", "=", "Zm=v"};
    uint8_t bytes[16];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ssize_t expected = strcmp(texts[i], "Zg=") == 0 ? 1 : strcmp(texts[i], "=") == 0 ? 0 : -EPROTO;
        assert_int_equal(base64_decode(texts[i], strlen(texts[i]), bytes), expected);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_standards_vectors),
        cmocka_unit_test(every_length_and_byte),
        cmocka_unit_test(what_is_none),
    };
    return cmocka_run_group_tests_name("base64", tests, NULL, NULL);
}
