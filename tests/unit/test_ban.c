/* Hosts that are sent away, and what counts as one: an IPv4 address, an IPv6 network of 64 bits. */
#include "daemon/access/ban.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

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
        assert_int_equal(bans_add(&bans, "live/a", rows[i].one, 0, 1000), 0);
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
        assert_int_equal(bans_add(&bans, "live/a", peer, 0, 1000), 0);
    }
    assert_int_equal(bans.count, 1);
    bans_clear(&bans);
}

/* Of one stream, whatever the host. */
static void bans_are_lifted(void **state) {
    (void)state;
    struct bans bans = {0};
    assert_false(bans_lift(&bans, "live/a", 0));
    assert_int_equal(bans_add(&bans, "live/a", "192.0.2.1:1", 0, 1000), 0);
    assert_int_equal(bans_add(&bans, "live/b", "192.0.2.1:1", 0, 1000), 0);
    assert_int_equal(bans_add(&bans, "live/a", "192.0.2.2:1", 0, 1000), 0);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
