/* Hosts that are sent away, and what counts as one: an IPv4 address, an IPv6 network of 64 bits. */
#include "daemon/access/ban.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void an_ipv6_network_is_one_host(void **state) {
    (void)state;
    static const struct {
        const char *one, *other;
        bool same;
    } rows[] = {
        {"[2001:db8::1]:1", "[2001:db8::1]:2", true},
        {"[2001:db8::1]:1", "[2001:db8::ffff:ffff:ffff:ffff]:2", true},
        {"[2001:db8::1]:1", "[2001:db8:0:1::1]:1", false},
        {"[2001:db8:0:ffff::]:1", "[2001:db8:1::]:1", false},
        {"192.0.2.1:1", "192.0.2.1:65535", true},
        {"192.0.2.1:1", "192.0.2.2:1", false},
        {"[::ffff:192.0.2.1]:1", "[::ffff:192.0.2.1]:2", true},
        {"[::ffff:192.0.2.1]:1", "[::ffff:192.0.2.2]:1", false},
        {"[::ffff:192.0.2.1]:1", "192.0.2.1:2", true},
        {"[::1]:1", "127.0.0.1:1", false},
        {"unknown", "unknown", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bans bans = {0};
        assert_int_equal(address_is_same_host(rows[i].one, rows[i].other), rows[i].same);
        assert_int_equal(address_is_same_host(rows[i].other, rows[i].one), rows[i].same);
        assert_int_equal(bans_add(&bans, "live/a", rows[i].one, 0, 1000, &(struct ban_origin){0}), 0);
        assert_int_equal(bans_hold(&bans, "live/a", rows[i].other, 999), rows[i].same);
        assert_false(bans_hold(&bans, "live/b", rows[i].one, 999));
        assert_false(bans_hold(&bans, "live/a", rows[i].one, 1000));
        bans_clear(&bans);
    }
}

/* Addresses of one network take one place. */
static void a_network_takes_one_place(void **state) {
    (void)state;
    struct bans bans = {0};
    char peer[ADDRESS_TEXT];
    for (unsigned i = 0; i < 2 * BAN_MOST; i++) {
        snprintf(peer, sizeof peer, "[2001:db8::%x]:1", i);
        assert_int_equal(bans_add(&bans, "live/a", peer, 0, 1000, &(struct ban_origin){0}), 0);
    }
    assert_int_equal(bans.count, 1);
    bans_clear(&bans);
}

/* A cluster's list of bans ends those of it that it has not, and no other; what is known of a ban
 * that is listed again stays known. */
static void a_list_is_the_truth_of_shared_bans(void **state) {
    (void)state;
    static const struct ban_origin heard = {.node = "n1", .is_shared = true},
                                   listed = {.is_shared = true, .is_listed = true}, own = {0};
    struct bans bans = {0};
    size_t count;
    assert_int_equal(bans_add(&bans, "live/a", "192.0.2.1:1", 5, 1000, &heard), 0);
    assert_int_equal(bans_add(&bans, "live/a", "192.0.2.2:1", 5, 1000, &heard), 0);
    assert_int_equal(bans_add(&bans, "live/a", "192.0.2.3:1", 5, 1000, &own), 0);
    assert_int_equal(bans_add(&bans, "live/a", "192.0.2.4:1", 5, 1000, &own), 0);
    bans_share(&bans, "live/a", "192.0.2.4:9", 6);
    bans_share(&bans, "live/b", "192.0.2.4:9", 6);
    bans_doubt(&bans);
    assert_true(bans_hold(&bans, "live/a", "192.0.2.1:1", 6));
    assert_int_equal(bans_add(&bans, "live/a", "192.0.2.2:1", 7, 500, &listed), 0);
    assert_int_equal(bans_add(&bans, "live/b", "192.0.2.5:1", 7, 500, &listed), 0);
    assert_int_equal(bans_end_doubted(&bans), 2);
    assert_int_equal(bans_end_doubted(&bans), 0);
    assert_false(bans_hold(&bans, "live/a", "192.0.2.1:1", 8));
    assert_true(bans_hold(&bans, "live/a", "192.0.2.3:1", 8));
    assert_false(bans_hold(&bans, "live/a", "192.0.2.4:1", 8));
    const struct ban *list = bans_list(&bans, 8, &count);
    assert_int_equal(count, 3);
    for (size_t i = 0; i < count; i++) {
        const bool was_heard = strcmp(list[i].host, "192.0.2.2") == 0, is_own = strcmp(list[i].host, "192.0.2.3") == 0;
        assert_string_equal(list[i].node, was_heard ? "n1" : "");
        assert_int_equal(list[i].since, was_heard || is_own ? 5 : 0);
        assert_int_equal(list[i].is_shared, !is_own);
        assert_int_equal(list[i].until, is_own ? 1005 : 507);
    }
    bans_list(&bans, 1005, &count);
    assert_int_equal(count, 0);
    bans_clear(&bans);
}

/* That of another process goes on here: it began before, and ends in time. */
static void an_earlier_ban_has_its_age(void **state) {
    (void)state;
    struct bans bans = {0};
    size_t count;
    assert_int_equal(bans_add(&bans, "live/a", "192.0.2.1:1", 1000, 50, &(struct ban_origin){.age_ms = 300}), 0);
    const struct ban *list = bans_list(&bans, 1049, &count);
    assert_int_equal(count, 1);
    assert_int_equal(list[0].since, 700);
    assert_int_equal(list[0].until, 1050);
    bans_clear(&bans);
}

/* Of one stream, whatever the host. */
static void bans_are_lifted(void **state) {
    (void)state;
    struct bans bans = {0};
    assert_false(bans_lift(&bans, "live/a", 0));
    assert_int_equal(bans_add(&bans, "live/a", "192.0.2.1:1", 0, 1000, &(struct ban_origin){0}), 0);
    assert_int_equal(bans_add(&bans, "live/b", "192.0.2.1:1", 0, 1000, &(struct ban_origin){0}), 0);
    assert_int_equal(bans_add(&bans, "live/a", "192.0.2.2:1", 0, 1000, &(struct ban_origin){0}), 0);
    assert_true(bans_lift(&bans, "live/a", 999));
    assert_false(bans_hold(&bans, "live/a", "192.0.2.1:1", 999));
    assert_false(bans_hold(&bans, "live/a", "192.0.2.2:1", 999));
    assert_true(bans_hold(&bans, "live/b", "192.0.2.1:1", 999));
    assert_false(bans_lift(&bans, "live/b", 1000));
    bans_clear(&bans);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ipv6_network_is_one_host),
        cmocka_unit_test(a_network_takes_one_place),
        cmocka_unit_test(bans_are_lifted),
        cmocka_unit_test(an_earlier_ban_has_its_age),
        cmocka_unit_test(a_list_is_the_truth_of_shared_bans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
