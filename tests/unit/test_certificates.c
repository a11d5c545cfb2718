/* Certificates of the daemon's settings: how they are written, and when they expire. */
#include <stdarg.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "daemon/config/tls_option.h"
#include "daemon/tls/tls_expiry.h"

enum { DAY = 86400 };

static void reads_names_and_files(void **state) {
    static const struct {
        const char *text, *name, *chain, *key;
    } cases[] = {
        {"a.pem,a.key", NULL, "a.pem", "a.key"},
        {"/etc/a.pem,/etc/a.pem", NULL, "/etc/a.pem", "/etc/a.pem"},
        {"example.org=/a,/b", "example.org", "/a", "/b"},
        {"*.example.org=/a,/b", "*.example.org", "/a", "/b"},
        {"localhost=a,b=c", "localhost", "a", "b=c"},
        {"/x=y/a,/b", NULL, "/x=y/a", "/b"},
        {"./x=y,/b", NULL, "./x=y", "/b"},
        {"xn--bcher-kva.example=/a,/b", "xn--bcher-kva.example", "/a", "/b"},
    };
    struct tls_options options = {0};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(tls_options_add(&options, cases[i].text, "here"));
        const struct tls_certificate_option *read = &options.certificates[i];
        assert_string_equal(read->said, cases[i].text);
        assert_string_equal(read->where, "here");
        assert_string_equal(read->chain, cases[i].chain);
        assert_string_equal(read->key, cases[i].key);
        assert_int_equal(read->name != NULL, cases[i].name != NULL);
        if (read->name)
            assert_string_equal(read->name, cases[i].name);
    }
    tls_options_clear(&options);
}

static void rejects_what_is_neither(void **state) {
    static const char *const wrong[] = {"",        "a",       ",",         ",b",      "a,",      "a,b,c",
                                        "n=",      "n=a",     "n=,b",      "=a,b",    ".n=a,b",  "*=a,b",
                                        "*.=a,b",  "n*=a,b",  "a.*.b=a,b", "n m=a,b", "n:1=a,b", "**.n=a,b",
                                        "n=a,b,c", "n\n=a,b", "*.*.n=a,b"};
    struct tls_options options = {0};
    char name[300];
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_non_null(tls_options_add(&options, wrong[i], "here"));
    memset(name, 'n', sizeof name);
    strcpy(name + 254, "=a,b");
    assert_non_null(tls_options_add(&options, name, "here"));
    assert_null(tls_options_add(&options, name + 1, "here"));
    for (size_t i = 1; i < TLS_OPTION_CERTIFICATES; i++)
        assert_null(tls_options_add(&options, "a,b", "here"));
    assert_non_null(tls_options_add(&options, "a,b", "here"));
    assert_int_equal(options.certificate_count, TLS_OPTION_CERTIFICATES);
    tls_options_clear(&options);
    assert_int_equal(options.certificate_count, 0);
}

/* Whole days, rounded down; a warning from 21 on. */
static void counts_days(void **state) {
    static const struct {
        int64_t left, days;
        const char *state;
    } cases[] = {
        {90 * DAY, 90, "valid"},    {22 * DAY, 22, "valid"},   {22 * DAY - 1, 21, "expiring"},
        {21 * DAY, 21, "expiring"}, {DAY, 1, "expiring"},      {DAY - 1, 0, "expiring"},
        {1, 0, "expiring"},         {0, 0, "expired"},         {-1, -1, "expired"},
        {-DAY, -1, "expired"},      {-DAY - 1, -2, "expired"}, {36500LL * DAY, 36500, "valid"},
    };
    const int64_t now = 1800000000;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(tls_expiry_days(now + cases[i].left, now), cases[i].days);
        assert_string_equal(tls_expiry_state(now + cases[i].left, now), cases[i].state);
    }
}

static void writes_times_and_hashes(void **state) {
    uint8_t hash[SLUICE_TLS_HASH];
    char time[TLS_EXPIRY_TIME], text[TLS_EXPIRY_HASH];
    (void)state;
    tls_expiry_format_time(1800000000, time);
    assert_string_equal(time, "2027-01-15T08:00:00Z");
    tls_expiry_format_time(253402300799, time);
    assert_string_equal(time, "9999-12-31T23:59:59Z");
    for (size_t i = 0; i < sizeof hash; i++)
        hash[i] = (uint8_t)(8 * i + 7);
    tls_expiry_format_hash(hash, text);
    assert_string_equal(text, "070f171f272f373f474f575f676f777f878f979fa7afb7bfc7cfd7dfe7eff7ff");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_names_and_files),
        cmocka_unit_test(rejects_what_is_neither),
        cmocka_unit_test(counts_days),
        cmocka_unit_test(writes_times_and_hashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
