/* Ranges of addresses, rules, and tokens. */
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "daemon/access/authorize.h"
#include "daemon/access/rule.h"
#include "daemon/access/token.h"
#include "daemon/base/cidr.h"

static struct cidr_address address_of(const char *text) {
    struct cidr cidr;
    assert_int_equal(cidr_parse(text, &cidr), 0);
    assert_int_equal(cidr.bits, 128);
    return cidr.address;
}

/* Each length of a prefix has the addresses that differ behind it, and not the one that differs in
 * its last bit. */
static void test_each_prefix(void **state) {
    static const char *const bases[] = {"0.0.0.0", "::"};
    (void)state;
    for (size_t family = 0; family < 2; family++) {
        unsigned most = family == 0 ? 32 : 128, first = 128 - most;
        for (unsigned bits = 0; bits <= most; bits++) {
            char text[64];
            struct cidr cidr;
            snprintf(text, sizeof text, "%s/%u", bases[family], bits);
            assert_int_equal(cidr_parse(text, &cidr), 0);
            for (unsigned bit = 0; bit < most; bit++) {
                struct cidr_address other = address_of(bases[family]);
                other.bytes[(first + bit) / 8] ^= (uint8_t)(0x80 >> (first + bit) % 8);
                assert_int_equal(cidr_has(&cidr, &other), bit >= bits);
            }
        }
    }
}

static void test_families(void **state) {
    (void)state;
    struct cidr all4, all6;
    struct sockaddr_storage storage = {.ss_family = AF_INET};
    ((struct sockaddr_in *)&storage)->sin_addr.s_addr = htonl(0x0a010203);
    const struct cidr_address four = cidr_address(&storage), six = address_of("fd00::1");
    const struct cidr_address same = address_of("10.1.2.3");
    assert_memory_equal(&four, &same, sizeof four);
    assert_int_equal(cidr_parse("0.0.0.0/0", &all4), 0);
    assert_int_equal(cidr_parse("fd00::/8", &all6), 0);
    assert_true(cidr_has(&all4, &four));
    assert_false(cidr_has(&all4, &six));
    assert_true(cidr_has(&all6, &six));
    assert_false(cidr_has(&all6, &four));
    assert_int_equal(cidr_parse("::/0", &all6), 0);
    assert_true(cidr_has(&all6, &six));
    assert_false(cidr_has(&all6, &four));
}

static void test_wrong_ranges(void **state) {
    static const char *const wrong[] = {"",        "10.0.0.0/33", "10.0.0.0/",   "10.0.0.0/-1", "10.0.0.0/8x",
                                        "10.1/16", "10.0.0.1/8",  "::1/127",     "::/129",      "host",
                                        "[::1]",   "10.0.0.0/ 8", "fd00::1::/8", "256.0.0.0/8", "/8"};
    struct cidr cidr;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(cidr_parse(wrong[i], &cidr), -EINVAL);
}

static bool fits(const char *pattern, const char *name) {
    struct rules rules = {0};
    char text[256];
    const struct cidr_address peer = address_of("127.0.0.1");
    snprintf(text, sizeof text, "play %s allow", pattern);
    assert_null(rules_add(&rules, text, "here"));
    bool found = rules_find(&rules, RULE_PLAY, name, strlen(name), &peer) != NULL;
    rules_clear(&rules);
    return found;
}

static void test_patterns(void **state) {
    (void)state;
    assert_true(fits("*", "live/a"));
    assert_true(fits("live/a", "live/a"));
    assert_true(fits("live/*", "live/a/b"));
    assert_true(fits("*/a", "live/a"));
    assert_true(fits("*a*a*", "banana"));
    assert_true(fits("l**e/a", "live/a"));
    assert_true(fits("live/a*", "live/a"));
    assert_false(fits("live/a", "live/aa"));
    assert_false(fits("live/aa", "live/a"));
    assert_false(fits("live/*", "live"));
    assert_false(fits("*/b", "live/a"));
    assert_false(fits("a*a", "a"));
    assert_false(
        fits("*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}

/* The first one that fits the action, the stream and the address. */
static void test_first_decides(void **state) {
    static const char *const texts[] = {"publish live/* from 10.0.0.0/8,fd00::/8 allow",
                                        "publish live/* user=a,token=k", "all * from 10.0.0.0/8 deny", "play * user"};
    struct rules rules = {0};
    const struct cidr_address near = address_of("10.1.1.1"), far = address_of("192.0.2.1"), six = address_of("fd00::9");
    (void)state;
    for (size_t i = 0; i < 4; i++)
        assert_null(rules_add(&rules, texts[i], "here"));
    const struct rule *list = rules.list;
    assert_ptr_equal(rules_find(&rules, RULE_PUBLISH, "live/a", 6, &near), &list[0]);
    assert_ptr_equal(rules_find(&rules, RULE_PUBLISH, "live/a", 6, &six), &list[0]);
    assert_ptr_equal(rules_find(&rules, RULE_PUBLISH, "live/a", 6, &far), &list[1]);
    assert_ptr_equal(rules_find(&rules, RULE_PUBLISH, "x/a", 3, &near), &list[2]);
    assert_ptr_equal(rules_find(&rules, RULE_PLAY, "live/a", 6, &near), &list[2]);
    assert_ptr_equal(rules_find(&rules, RULE_PLAY, "live/a", 6, &far), &list[3]);
    assert_null(rules_find(&rules, RULE_PUBLISH, "x/a", 3, &far));
    assert_true(rule_names_user(&list[1], "a"));
    assert_false(rule_names_user(&list[1], "k"));
    assert_true(rule_names_user(&list[3], "anyone"));
    assert_false(rule_names_user(&list[0], "a"));
    rules_clear(&rules);
}

static void test_wrong_rules(void **state) {
    static const char *const wrong[] = {
        "",
        "play",
        "play *",
        "play * from",
        "play * from 10.0.0.0/8",
        "play * from 10.0.0.1/8 allow",
        "play * from , allow",
        "play * allow allow",
        "play * allow,deny",
        "play * allow,user",
        "play * user=",
        "play * allow=a",
        "play * token",
        "play * secret",
        "play * cert",
        "play * cert=",
        "play * deny,cert=a",
        "play * nothing",
        "play, * allow",
        "record * allow",
        "play a?b allow",
        ("play * from 1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,"
         "1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1 allow"),
        "play * user,user,user,user,user,user,user,user,user,user,user,user,user,user,user,user,user",
    };
    struct rules rules = {0};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_non_null(rules_add(&rules, wrong[i], "here"));
    assert_int_equal(rules.count, 0);
    for (size_t i = 0; i < RULES_MAX; i++)
        assert_null(rules_add(&rules, "all * allow", "here"));
    assert_non_null(rules_add(&rules, "all * allow", "here"));
    rules_clear(&rules);
}

/* As another program makes them: printf 'v1\nplay\nlive/cam\n1800000000' | openssl dgst -sha256
 * -hmac secret */
static void test_token(void **state) {
    static const char known[] = "v1.1800000000.106f0ba70a09fa5c7aa0b6b0cdb7ce4e5426e63180d5a131c54b1cf8e2c9c73d";
    char token[TOKEN_TEXT], other[TOKEN_TEXT];
    (void)state;
    assert_int_equal(token_sign("secret", "play", "live/cam", 1800000000, token), 0);
    assert_string_equal(token, known);
    assert_true(token_is_valid(token, "secret", "play", "live/cam", 1799999999));
    assert_false(token_is_valid(token, "secret", "play", "live/cam", 1800000000));
    assert_false(token_is_valid(token, "Secret", "play", "live/cam", 0));
    assert_false(token_is_valid(token, "secret", "publish", "live/cam", 0));
    assert_false(token_is_valid(token, "secret", "play", "live/ca", 0));
    /* Each character counts, and each cut. */
    for (size_t i = 0; i < sizeof known - 1; i++) {
        memcpy(other, known, sizeof known);
        other[i] ^= 1;
        assert_false(token_is_valid(other, "secret", "play", "live/cam", 0));
        memcpy(other, known, i);
        other[i] = '\0';
        assert_false(token_is_valid(other, "secret", "play", "live/cam", 0));
    }
    snprintf(other, sizeof other, "v1.0%s", known + 3);
    assert_false(token_is_valid(other, "secret", "play", "live/cam", 0));
    assert_false(token_is_valid("v1.99999999999999999999999.a", "secret", "play", "live/cam", 0));
}

/* Whether a user's password is wanted before the name of the stream is known. */
static void test_users_by_path(void **state) {
    static const struct {
        const char *rules[3], *path;
        bool wanted;
    } cases[] = {
        {{"publish live/* user"}, "live", true},
        {{"publish * user=a"}, "live", true},
        {{"publish live/* user"}, "other", false},
        {{"publish live/* user"}, "live/x", true},
        {{"publish live/cam user"}, "live", true},
        {{"publish live/cam user"}, "live/cam", true},
        {{"publish live/cam user"}, "live/camera", false},
        {{"publish live/cam user"}, "li", false},
        {{"publish liv* user"}, "live", true},
        {{"publish */cam user"}, "live", true},
        {{"play live/* user"}, "live", false},
        {{"publish live/* user,token=k"}, "live", false},
        {{"publish live/* from 10.0.0.0/8 user"}, "live", false},
        {{"publish live/* deny"}, "live", false},
        {{"publish live/cam deny", "publish live/* user"}, "live", true},
        {{"publish live/cam token=k", "publish live/* user"}, "live", false},
        {{"publish other/* token=k", "publish live/* user"}, "live", true},
        {{"publish live/* user", "publish live/* allow"}, "live", true},
        {{"publish live/cam user", "publish * allow"}, "live", false},
        {{"publish live/* user"}, "", true},
        {{"publish live/* user,cert=other"}, "live", true},
        {{"publish live/* user,cert=cam7"}, "live", false},
        {{"publish live/* cert=other"}, "live", false},
        {{"publish live/cam cert=other", "publish live/* user"}, "live", true},
        {{"publish live/cam cert=cam7", "publish live/* user"}, "live", false},
    };
    const struct cidr_address peer = address_of("127.0.0.1");
    const struct users *users = (const struct users *)&peer; /* it is not looked into */
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rules rules = {0};
        for (size_t j = 0; j < 3 && cases[i].rules[j]; j++)
            assert_null(rules_add(&rules, cases[i].rules[j], "here"));
        const struct authorize access = {.by = {&rules, users, NULL},
                                         .action = RULE_PUBLISH,
                                         .stream = {cases[i].path, strlen(cases[i].path)},
                                         .peer = &peer,
                                         .certificate = "cam7"};
        assert_int_equal(authorize_wants_user(&access), cases[i].wanted);
        const struct authorize nobody = {
            .by = {&rules, NULL, NULL}, .action = RULE_PUBLISH, .stream = access.stream, .peer = &peer};
        assert_false(authorize_wants_user(&nobody));
        rules_clear(&rules);
    }
}

/* A client certificate is enough where the rule names it, and no other one is. */
static void test_certificates(void **state) {
    static const struct {
        const char *rules[2], *certificate;
        enum authorize_verdict verdict;
    } cases[] = {
        {{"publish live/* cert=cam7"}, "cam7", AUTHORIZE_GRANTED},
        {{"publish live/* cert=cam7"}, "cam8", AUTHORIZE_REFUSED},
        {{"publish live/* cert=cam7"}, "cam", AUTHORIZE_REFUSED},
        {{"publish live/* cert=cam7"}, "Cam7", AUTHORIZE_REFUSED},
        {{"publish live/* cert=cam7"}, "", AUTHORIZE_REFUSED},
        {{"publish live/* cert=cam7"}, NULL, AUTHORIZE_REFUSED},
        {{"publish live/* cert=cam8,cert=cam7"}, "cam7", AUTHORIZE_GRANTED},
        {{"publish live/* token=k,cert=cam7"}, "cam7", AUTHORIZE_GRANTED},
        {{"publish live/* token=k,cert=cam7"}, "k", AUTHORIZE_ASK},
        {{"publish live/* user=cam7"}, "cam7", AUTHORIZE_ASK},
        {{"publish live/* user"}, "cam7", AUTHORIZE_ASK},
        {{"publish live/* deny", "publish * cert=cam7"}, "cam7", AUTHORIZE_REFUSED},
        {{"play live/* cert=cam7"}, "cam7", AUTHORIZE_REFUSED},
        {{"publish live/* from 10.0.0.0/8 cert=cam7"}, "cam7", AUTHORIZE_REFUSED},
    };
    const struct cidr_address peer = address_of("127.0.0.1");
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rules rules = {0};
        const struct rule *rule;
        for (size_t j = 0; j < 2 && cases[i].rules[j]; j++)
            assert_null(rules_add(&rules, cases[i].rules[j], "here"));
        const struct authorize access = {.by = {&rules, NULL, NULL},
                                         .action = RULE_PUBLISH,
                                         .stream = {"live/a", 6},
                                         .peer = &peer,
                                         .certificate = cases[i].certificate};
        assert_int_equal(authorize_client(&access, &rule), cases[i].verdict);
        rules_clear(&rules);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_prefix), cmocka_unit_test(test_families),      cmocka_unit_test(test_wrong_ranges),
        cmocka_unit_test(test_patterns),    cmocka_unit_test(test_first_decides), cmocka_unit_test(test_wrong_rules),
        cmocka_unit_test(test_token),       cmocka_unit_test(test_users_by_path), cmocka_unit_test(test_certificates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
