/* SHA-1 against the vectors of NIST. */
#include "framers/text/sha1.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_digest(const void *bytes, size_t n, const char *expected) {
    uint8_t digest[SHA1_SIZE];
    char text[2 * SHA1_SIZE + 1];
    sha1(bytes, n, digest);
    for (int i = 0; i < SHA1_SIZE; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(text, expected);
}

static void assert_text_digest(const char *text, const char *expected) {
    assert_digest(text, strlen(text), expected);
}

/* The examples of FIPS 180 and of NIST's "Examples with Intermediate Values". */
static void test_examples(void **state) {
    (void)state;
    assert_text_digest("", "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    assert_text_digest("abc", "a9993e364706816aba3e25717850c26c9cd0d89d");
    assert_text_digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                       "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    assert_text_digest(
        "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrs"
        "mnopqrstnopqrstu",
        "a49b2446a02c645bf419f995b67091253a04a259");
    assert_text_digest("The quick brown fox jumps over the lazy dog", "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12");
}

static void test_a_million(void **state) {
    enum { MILLION = 1000000 };
    (void)state;
    char *bytes = malloc(MILLION);
    assert_non_null(bytes);
    memset(bytes, 'a', MILLION);
    assert_digest(bytes, MILLION, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    free(bytes);
}

/* Of the Cryptographic Algorithm Validation Program: SHA1ShortMsg. */
static void test_short_messages(void **state) {
    (void)state;
    assert_digest("\x36", 1, "c1dfd96eea8cc2b62785275bca38ac261256e278");
    assert_digest("\x19\x5a", 2, "0a1c2d555bbe431ad6288af5a54f93e0449c9232");
    assert_digest("\xdf\x4b\xd2", 3, "bf36ed5d74727dfd5d7854ec6b1d49468d8ee8aa");
    assert_digest("\x54\x9e\x95\x9e", 4, "b78bae6d14338ffccfd5d5b5674a275f6ef9c717");
    assert_digest("\xf7\xfb\x1b\xe2\x05", 5, "60b7d5bb560a1acf6fa45721bd0abb419a841a89");
}

/* Around the length at which the end no longer fits into the last chunk. */
static void test_ends(void **state) {
    const struct {
        size_t n;
        const char *digest;
    } cases[] = {
        {55, "c1c8bbdc22796e28c0e15163d20899b65621d65a"},  {56, "c2db330f6083854c99d4b5bfb6e8f29f201be699"},
        {57, "f08f24908d682555111be7ff6f004e78283d989a"},  {63, "03f09f5b158a7a8cdad920bddc29b81c18a551f5"},
        {64, "0098ba824b5c16427bd7a1122a5a442a25ec644d"},  {65, "11655326c708d70319be2610e8a57d9a5b959d3b"},
        {119, "ee971065aaa017e0632a8ca6c77bb3bf8b1dfc56"}, {120, "f34c1488385346a55709ba056ddd08280dd4c6d6"},
        {127, "89d95fa32ed44a7c610b7ee38517ddf57e0bb975"}, {128, "ad5b3fdbcb526778c2839d2f151ea753995e26a0"},
    };
    char bytes[128];
    (void)state;
    memset(bytes, 'a', sizeof bytes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_digest(bytes, cases[i].n, cases[i].digest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_a_million),
        cmocka_unit_test(test_short_messages),
        cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests_name("sha1", tests, NULL, NULL);
}
