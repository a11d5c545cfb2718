/* How the tools verify servers: hashes as they are written, files that cannot be used, and contexts
 * for URLs with TLS alone. */
#include "tools/trust.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared/tls_hash.h"

enum { TEXT = 3 * SLUICE_TLS_HASH };

/* The hash whose bytes are 0xF0, 0xF1 and so on, with or without colons. */
static void write_hash(char text[TEXT], const char *colon) {
    char *at = text;
    for (unsigned i = 0; i < SLUICE_TLS_HASH; i++)
        at += sprintf(at, "%s%02x", i > 0 ? colon : "", (0xF0 + i) & 0xFF);
}

static void hashes(void **state) {
    (void)state;
    static const char *const colons[] = {"", ":"};
    for (size_t i = 0; i < 2; i++) {
        char text[TEXT];
        uint8_t hash[SLUICE_TLS_HASH];
        write_hash(text, colons[i]);
        assert_true(tls_hash_read(text, hash));
        for (unsigned k = 0; k < SLUICE_TLS_HASH; k++)
            assert_int_equal(hash[k], (0xF0 + k) & 0xFF);
        for (char *c = text; *c; c++)
            *c = *c >= 'a' && *c <= 'f' ? (char)(*c - 'a' + 'A') : *c;
        assert_true(tls_hash_read(text, hash));
    }
}

static void what_is_no_hash(void **state) {
    (void)state;
    char text[TEXT + 2], good[TEXT];
    uint8_t hash[SLUICE_TLS_HASH] = {77};
    write_hash(good, "");
    /* A digit less, a digit more, a character that is none, a colon at either end or twice. */
    snprintf(text, sizeof text, "%.63s", good);
    assert_false(tls_hash_read(text, hash));
    snprintf(text, sizeof text, "%s0", good);
    assert_false(tls_hash_read(text, hash));
    snprintf(text, sizeof text, "%.63sg", good);
    assert_false(tls_hash_read(text, hash));
    snprintf(text, sizeof text, ":%s", good);
    assert_false(tls_hash_read(text, hash));
    snprintf(text, sizeof text, "%s:", good);
    assert_false(tls_hash_read(text, hash));
    snprintf(text, sizeof text, "%.2s::%s", good, good + 2);
    assert_false(tls_hash_read(text, hash));
    assert_false(tls_hash_read("", hash));
    assert_int_equal(hash[0], 77);
}

static void pins(void **state) {
    (void)state;
    struct trust trust = {0};
    char text[TEXT];
    write_hash(text, ":");
    assert_false(trust_add_pin(&trust, "f0"));
    for (size_t i = 0; i < SLUICE_TLS_PINS_MAX; i++)
        assert_true(trust_add_pin(&trust, text));
    assert_int_equal(trust.pin_count, SLUICE_TLS_PINS_MAX);
    assert_false(trust_add_pin(&trust, text));
    assert_int_equal(trust.pin_count, SLUICE_TLS_PINS_MAX);
}

static void contexts(void **state) {
    (void)state;
    struct trust trust = {.ca = "/nonexistent.pem"};
    struct target target;
    /* Nothing is read for a URL without TLS. */
    assert_int_equal(target_read("http://h/a", &target), 0);
    assert_true(trust_prepare(&trust, &target));
    assert_null(target.tls);
    trust_release(&target);
    assert_int_equal(target_read("https://h/a", &target), 0);
    assert_false(trust_prepare(&trust, &target));
    assert_null(target.tls);
    trust.ca = "/dev/null";
    assert_false(trust_prepare(&trust, &target));
    assert_null(target.tls);
    trust = (struct trust){.pin_count = 1};
    assert_true(trust_prepare(&trust, &target));
    assert_non_null(target.tls);
    trust_release(&target);
    assert_null(target.tls);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes),
        cmocka_unit_test(what_is_no_hash),
        cmocka_unit_test(pins),
        cmocka_unit_test(contexts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
