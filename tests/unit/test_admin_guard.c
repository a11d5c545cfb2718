/* Who is let in to the administration, and bans of publishers: both without sockets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "daemon/access/ban.h"
#include "daemon/admin/admin_guard.h"
#include "daemon/base/address.h"

static unsigned check(const struct admin_guard *guard, struct admin_request request) {
    const char *reason = NULL;
    unsigned status = admin_guard_check(guard, &request, &reason);
    assert_int_equal(status != 0, reason != NULL);
    return status;
}

static struct admin_options listen_on(const char *text) {
    struct admin_options options = {0};
    assert_int_equal(admin_options_add(&options, text), 0);
    return options;
}

static void test_host(void **state) {
    static const char *const good[] = {"localhost",      "LOCALHOST:8081", "127.0.0.1",
                                       "127.1.2.3:8081", "[::1]",          "[::1]:1"};
    static const char *const bad[] = {
        "",     "localhost.", "localhosts", "127.0.0.1.example", "::1",   "192.0.2.1", "a.example:8081", "127.0.0.1 ",
        "[::1", "0x7f.1",     "2130706433", "127.0.0.1:70000",   "127.1", "0.0.0.0"};
    (void)state;
    struct admin_options options = listen_on("127.0.0.1:8081");
    const struct admin_guard guard = {&options.listeners[0], NULL};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(check(&guard, (struct admin_request){.host = good[i]}), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(check(&guard, (struct admin_request){.host = bad[i]}), 403);
    assert_int_equal(check(&guard, (struct admin_request){.host = NULL}), 403);
}

static void test_unix_asks_nothing(void **state) {
    (void)state;
    struct admin_options options = listen_on("unix:/run/sluiced/admin");
    const struct admin_guard guard = {&options.listeners[0], "a token that is long enough"};
    assert_int_equal(check(&guard, (struct admin_request){.changes = true, .origin = "http://a.example"}), 0);
}

/* One that others may come to asks as TCP does beyond loopback. */
static void test_open_unix_asks_for_the_token(void **state) {
    (void)state;
    struct admin_options options = listen_on("unix:/run/sluiced/admin");
    options.listeners[0].is_open = true;
    const struct admin_guard guard = {&options.listeners[0], "secret"};
    assert_int_equal(check(&guard, (struct admin_request){.host = "localhost"}), 401);
    assert_int_equal(check(&guard, (struct admin_request){.authorization = "Bearer secret"}), 0);
}

static void test_token(void **state) {
    (void)state;
    struct admin_options options = listen_on("192.0.2.1:8081");
    const struct admin_guard guard = {&options.listeners[0], "secret"};
    assert_int_equal(check(&guard, (struct admin_request){.host = "a.example"}), 401);
    assert_int_equal(check(&guard, (struct admin_request){.host = "a.example", .is_static = true}), 0);
    assert_int_equal(check(&guard, (struct admin_request){.authorization = "bearer secret"}), 0);
    assert_int_equal(check(&guard, (struct admin_request){.authorization = "Bearer secret "}), 401);
    assert_int_equal(check(&guard, (struct admin_request){.authorization = "Bearer secre"}), 401);
    assert_int_equal(check(&guard, (struct admin_request){.authorization = "secret"}), 401);
    /* The token is no reason to let another site's page use it. */
    const struct admin_request forged = {
        .host = "a.example", .origin = "http://b.example", .authorization = "Bearer secret", .changes = true};
    assert_int_equal(check(&guard, forged), 403);
}

static void test_cors(void **state) {
    (void)state;
    struct admin_options options = listen_on("[::1]:8081");
    const struct admin_guard guard = {&options.listeners[0], NULL};
    struct admin_request request = {.host = "localhost:8081", .origin = "http://localhost:8081", .changes = true};
    assert_int_equal(check(&guard, request), 0);
    request.origin = "https://localhost:8081";
    assert_int_equal(check(&guard, request), 0);
    request.origin = "http://localhost:8080";
    assert_int_equal(check(&guard, request), 403);
    request.changes = false;
    assert_int_equal(check(&guard, request), 0);
}

static void test_options(void **state) {
    (void)state;
    struct admin_options options = {0};
    char longest[sizeof options.listeners[0].path + 8];
    assert_int_equal(admin_options_add(&options, "unix:"), -22);
    assert_int_equal(admin_options_add(&options, "8081"), -22);
    snprintf(longest, sizeof longest, "unix:/%0*d", (int)sizeof options.listeners[0].path - 1, 0);
    assert_int_equal(admin_options_add(&options, longest), -22);
    snprintf(longest, sizeof longest, "unix:/%0*d", (int)sizeof options.listeners[0].path - 2, 0);
    for (int i = 0; i < ADMIN_MAX_LISTENERS; i++)
        assert_int_equal(admin_options_add(&options, longest), 0);
    assert_int_equal(admin_options_add(&options, "127.0.0.1:1"), -28);
}

static void test_bans(void **state) {
    struct bans bans = {0};
    (void)state;
    assert_false(bans_hold(&bans, "live/a", "192.0.2.1:1000", 0));
    assert_int_equal(bans_add(&bans, "live/a", "192.0.2.1:1000", 100, 50, &(struct ban_origin){0}), 0);
    assert_true(bans_hold(&bans, "live/a", "192.0.2.1:2000", 149));
    assert_false(bans_hold(&bans, "live/a", "192.0.2.2:1000", 149));
    assert_false(bans_hold(&bans, "live/b", "192.0.2.1:1000", 149));
    /* Again: the last one counts. */
    assert_int_equal(bans_add(&bans, "live/a", "192.0.2.1:1", 149, 100, &(struct ban_origin){0}), 0);
    assert_int_equal(bans.count, 1);
    assert_true(bans_hold(&bans, "live/a", "192.0.2.1:2000", 248));
    assert_false(bans_hold(&bans, "live/a", "192.0.2.1:2000", 249));
    assert_int_equal(bans.count, 0);
    assert_int_equal(bans_add(&bans, "live/six", "[2001:db8::1]:80", 0, 10, &(struct ban_origin){0}), 0);
    assert_true(bans_hold(&bans, "live/six", "[2001:db8::1]:81", 9));
    bans_clear(&bans);
}

/* There are never more than so many; the one that would end first goes. */
static void test_most_bans(void **state) {
    struct bans bans = {0};
    char stream[32];
    (void)state;
    for (int i = 0; i <= BAN_MOST; i++) {
        snprintf(stream, sizeof stream, "live/%d", i);
        assert_int_equal(
            bans_add(&bans, stream, "192.0.2.1:1", 0, (uint64_t)(1000 + (i == 7 ? 0 : i)), &(struct ban_origin){0}), 0);
    }
    assert_int_equal(bans.count, BAN_MOST);
    assert_false(bans_hold(&bans, "live/0", "192.0.2.1:1", 1) && bans_hold(&bans, "live/7", "192.0.2.1:1", 1));
    assert_true(bans_hold(&bans, "live/256", "192.0.2.1:1", 1));
    assert_true(bans_hold(&bans, "live/1", "192.0.2.1:1", 1));
    bans_clear(&bans);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_unix_asks_nothing),
        cmocka_unit_test(test_open_unix_asks_for_the_token),
        cmocka_unit_test(test_token),
        cmocka_unit_test(test_cors),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_bans),
        cmocka_unit_test(test_most_bans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
