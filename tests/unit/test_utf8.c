/* The UTF-8 check: what it lets pass, and at which byte it says no, however the text is cut. */
#include "framers/text/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    GOOD = -1,  /* complete */
    SHORT = -2, /* may go on, is not complete */
    LAST_CODE_POINT = 0x10FFFF,
};

/* The place of the byte that cannot be, or how the text ends. */
static int check_cut(const uint8_t *bytes, size_t n, size_t cut) {
    utf8_state state = {0};
    if (!utf8_check(&state, bytes, cut)) {
        /* Found where it is, not later. */
        for (size_t i = 0; i < cut; i++) {
            utf8_state again = {0};
            if (!utf8_check(&again, bytes, i + 1))
                return (int)i;
        }
        fail_msg("refused whole, taken by bytes");
    }
    for (size_t i = cut; i < n; i++)
        if (!utf8_check(&state, bytes + i, 1))
            return (int)i;
    return utf8_is_complete(&state) ? GOOD : SHORT;
}

/* The code point that a sequence of the given length would mean, by the definition (RFC 3629), or
 * -1. */
static long decode(const uint8_t *bytes, size_t n) {
    static const long least[] = {0, 0, 0x80, 0x800, 0x10000};
    static const uint8_t mark[] = {0, 0, 0xC0, 0xE0, 0xF0}, mask[] = {0, 0x80, 0xE0, 0xF0, 0xF8};
    if ((bytes[0] & mask[n]) != (n == 1 ? 0 : mark[n]))
        return -1;
    long value = bytes[0] & (uint8_t)~mask[n];
    for (size_t i = 1; i < n; i++) {
        if ((bytes[i] & 0xC0) != 0x80)
            return -1;
        value = value << 6 | (bytes[i] & 0x3F);
    }
    bool surrogate = value >= 0xD800 && value <= 0xDFFF;
    return value < least[n] || value > LAST_CODE_POINT || surrogate ? -1 : value;
}

static size_t encode(long code_point, uint8_t *bytes) {
    static const uint8_t mark[] = {0, 0, 0xC0, 0xE0, 0xF0};
    size_t n = code_point < 0x80 ? 1 : code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; code_point >>= 6)
        bytes[i] = (uint8_t)(0x80 | (code_point & 0x3F));
    bytes[0] = (uint8_t)(mark[n] | code_point);
    return n;
}

static void test_every_code_point(void **state) {
    (void)state;
    for (long code_point = 0; code_point <= LAST_CODE_POINT + 0xFFFF; code_point++) {
        uint8_t bytes[4];
        size_t n = encode(code_point, bytes);
        bool valid = code_point <= LAST_CODE_POINT && !(code_point >= 0xD800 && code_point <= 0xDFFF);
        for (size_t cut = 0; cut <= n; cut++)
            if ((check_cut(bytes, n, cut) == GOOD) != valid)
                fail_msg("U+%lX cut at %zu", (unsigned long)code_point, cut);
    }
}

/* Every sequence of two bytes and of three, and of four those at the borders of what is allowed. */
static void test_every_short_sequence(void **state) {
    (void)state;
    for (unsigned i = 0; i < 1 << 24; i++) {
        const uint8_t bytes[] = {(uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i};
        bool first = decode(bytes, 1) >= 0;
        /* As one of three, 1 + 2, 2 + 1, 1 + 1 + 1. */
        bool valid = decode(bytes, 3) >= 0 || (decode(bytes, 2) >= 0 && decode(bytes + 2, 1) >= 0) ||
                     (first && (decode(bytes + 1, 2) >= 0 || (decode(bytes + 1, 1) >= 0 && decode(bytes + 2, 1) >= 0)));
        utf8_state text = {0};
        if ((utf8_check(&text, bytes, 3) && utf8_is_complete(&text)) != valid)
            fail_msg("%02X %02X %02X", bytes[0], bytes[1], bytes[2]);
    }
}

static void test_every_long_sequence(void **state) {
    static const uint8_t borders[] = {0x00, 0x7F, 0x80, 0x81, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xFF};
    (void)state;
    for (unsigned lead = 0xF0; lead <= 0xFF; lead++)
        for (unsigned second = 0; second <= 0xFF; second++)
            for (size_t third = 0; third < sizeof borders; third++)
                for (size_t fourth = 0; fourth < sizeof borders; fourth++) {
                    const uint8_t bytes[] = {(uint8_t)lead, (uint8_t)second, borders[third], borders[fourth]};
                    utf8_state text = {0};
                    bool valid = utf8_check(&text, bytes, 4) && utf8_is_complete(&text);
                    if (valid != (decode(bytes, 4) >= 0))
                        fail_msg("%02X %02X %02X %02X", bytes[0], bytes[1], bytes[2], bytes[3]);
                }
}

/* The first byte with which it cannot go on is the one that is refused. */
static void test_where_it_fails(void **state) {
    const struct {
        const char *text;
        int at;
    } cases[] = {
        {"", GOOD},
        {"Hello-\xC2\xB5@\xC3\x9F\xC3\xB6\xC3\xA4\xC3\xBC\xC3\xA0\xC3\xA1-UTF-8!!", GOOD},
        {"\xCE\xBA\xE1\xBD\xB9\xCF\x83\xCE\xBC\xCE\xB5", GOOD},
        {"\xCE\xBA\xE1\xBD\xB9\xCF\x83\xCE\xBC\xCE", SHORT},
        {"\xCE\xBA\xE1\xBD\xB9\xCF\x83\xCE\xBC\xCE\xB5\xED\xA0\x80"
         "edited",
         12},
        {"\xCE\xBA\xE1\xBD\xB9\xCF\x83\xCE\xBC\xCE\xB5\xF4\x90\x80\x80"
         "edited",
         12},
        {"\xED\x9F\xBF", GOOD},
        {"\xEE\x80\x80", GOOD},
        {"\xEF\xBF\xBD", GOOD},
        {"\xEF\xBF\xBF", GOOD},
        {"\xF0\x90\x80\x80", GOOD},
        {"\xF4\x8F\xBF\xBF", GOOD},
        {"\xF0\x90\x80", SHORT},
        {"\xF0\x90", SHORT},
        {"\xF0", SHORT},
        {"\xE1\x80", SHORT},
        {"\x80", 0},
        {"\xBF", 0},
        {"\xC0\xAF", 0},
        {"\xC1\xBF", 0},
        {"\xE0\x80\xAF", 1},
        {"\xE0\x9F\xBF", 1},
        {"\xF0\x80\x80\xAF", 1},
        {"\xF0\x8F\xBF\xBF", 1},
        {"\xF8\x88\x80\x80\x80", 0},
        {"\xFC\x84\x80\x80\x80\x80", 0},
        {"\xFE", 0},
        {"\xFF", 0},
        {"\xED\xA0\x80\xED\xB0\x80", 1},
        {"\xED\xBF\xBF", 1},
        {"\xF4\x90\x80\x80", 1},
        {"\xF5\x80\x80\x80", 0},
        {"\xC3(", 1},
        {"\xE2\x82(", 2},
        {"\xF0\x9F\x98(", 3},
        {"\xC3"
         "a word, which no character has in it\xA9",
         1},
        {"eight by\xC3\xA4te words, the last of them \xE2\x82\xACnot ASCII: \xFF", 51},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n = strlen(cases[i].text);
        for (size_t cut = 0; cut <= n; cut++) {
            int at = check_cut((const uint8_t *)cases[i].text, n, cut);
            if (at != cases[i].at)
                fail_msg("case %zu cut at %zu: %d", i, cut, at);
        }
    }
}

/* NUL is a character like others. */
static void test_nul(void **state) {
    const uint8_t bytes[20] = {0};
    (void)state;
    for (size_t cut = 0; cut <= sizeof bytes; cut++)
        assert_int_equal(check_cut(bytes, sizeof bytes, cut), GOOD);
}

/* Words are never read over the end, at any length and alignment; a bad byte is found at any place
 * of a word. */
static void test_ends_of_memory(void **state) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    (void)state;
    uint8_t *area = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(area != MAP_FAILED);
    assert_int_equal(mprotect(area + page, page, PROT_NONE), 0);
    for (size_t n = 0; n <= 64; n++) {
        uint8_t *bytes = area + page - n;
        memset(bytes, 'a', n);
        utf8_state text = {0};
        assert_true(utf8_check(&text, bytes, n) && utf8_is_complete(&text));
        for (size_t bad = 0; bad < n; bad++) {
            bytes[bad] = 0xFF;
            utf8_state again = {0};
            assert_false(utf8_check(&again, bytes, n));
            assert_int_equal(check_cut(bytes, n, n), bad);
            bytes[bad] = 'a';
        }
    }
    munmap(area, 2 * page);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code_point),
        cmocka_unit_test(test_every_short_sequence),
        cmocka_unit_test(test_every_long_sequence),
        cmocka_unit_test(test_where_it_fails),
        cmocka_unit_test(test_nul),
        cmocka_unit_test(test_ends_of_memory),
    };
    return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}
