/* Which refusals are logged, and how many of the others there were. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/base/auth_log.h"
#include "daemon/base/log.h"

static unsigned logged; /* lines of one refusal each */
static uint64_t told;   /* refusals that were told of by their number */
static char last_peer[64];

/* The linker puts these in the place of the calls (--wrap). */
void __wrap_log_write(enum log_level level, const char *message, const log_field *fields, size_t count);
void __wrap_log_write(enum log_level level, const char *message, const log_field *fields, size_t count) {
    assert_int_equal(level, LOG_WARNING);
    assert_string_equal(message, "refusals not logged");
    assert_int_equal(count, 1);
    told += strtoull(fields[0].value, NULL, 10);
}

/* --log-rate does not count what is limited here. */
void __wrap_log_write_uncounted(enum log_level level, const char *message, const log_field *fields, size_t count);
void __wrap_log_write_uncounted(enum log_level level, const char *message, const log_field *fields, size_t count) {
    assert_int_equal(level, LOG_WARNING);
    assert_int_equal(count, 4);
    assert_string_equal(message, "request refused");
    assert_string_equal(fields[1].key, "peer");
    snprintf(last_peer, sizeof last_peer, "%s", fields[1].value);
    logged++;
}

static void refuse(struct auth_log *auth_log, uint64_t now, const char *peer) {
    struct cidr cidr;
    assert_int_equal(cidr_parse(peer, &cidr), 0);
    auth_log_write(auth_log, now, "http", peer, &cidr.address, 403, NULL);
}

static int begin(void **state) {
    (void)state;
    logged = 0;
    told = 0;
    return 0;
}

/* However often one asks, others are seen, until they have had as many lines. */
static void one_address_hides_no_other(void **state) {
    (void)state;
    struct auth_log auth_log = {0};
    for (int i = 0; i < 1000; i++)
        refuse(&auth_log, 5, "10.0.0.1");
    assert_int_equal(logged, AUTH_LOG_LOGGED);
    for (int i = 0; i < AUTH_LOG_LOGGED + 1; i++)
        refuse(&auth_log, 6, "10.0.0.2");
    assert_int_equal(logged, 2 * AUTH_LOG_LOGGED);
    assert_string_equal(last_peer, "10.0.0.2");
    auth_log_tick(&auth_log, 5 + AUTH_LOG_MS - 1);
    assert_int_equal(told, 0);
    auth_log_tick(&auth_log, 5 + AUTH_LOG_MS);
    assert_int_equal(told, 1000 - AUTH_LOG_LOGGED + 1);
    auth_log_tick(&auth_log, 5 + 2 * AUTH_LOG_MS);
    assert_int_equal(told, 1000 - AUTH_LOG_LOGGED + 1);
    refuse(&auth_log, 5 + 2 * AUTH_LOG_MS, "10.0.0.1");
    assert_int_equal(logged, 2 * AUTH_LOG_LOGGED + 1);
}

/* The last address that has a place of its own, and the first that shares; and ten times as
 * many. */
static void many_addresses_are_bounded(void **state) {
    (void)state;
    struct auth_log auth_log = {0};
    char peer[32];
    for (int host = 0; host < 10 * AUTH_LOG_HOSTS; host++) {
        snprintf(peer, sizeof peer, "10.0.1.%d", host);
        for (int i = 0; i < AUTH_LOG_LOGGED + 5; i++)
            refuse(&auth_log, 0, peer);
        int counted = host < AUTH_LOG_HOSTS ? host + 1 : AUTH_LOG_HOSTS + 1;
        assert_int_equal(logged, counted * AUTH_LOG_LOGGED);
    }
    auth_log_tick(&auth_log, AUTH_LOG_MS);
    assert_int_equal(logged + told, 10 * AUTH_LOG_HOSTS * (AUTH_LOG_LOGGED + 5));
}

static void network_of_ipv6_is_one_address(void **state) {
    (void)state;
    struct auth_log auth_log = {0};
    char peer[32];
    for (int i = 1; i <= 100; i++) {
        snprintf(peer, sizeof peer, "2001:db8:0:1::%d", i);
        refuse(&auth_log, 0, peer);
    }
    assert_int_equal(logged, AUTH_LOG_LOGGED);
    refuse(&auth_log, 0, "2001:db8:0:2::1");
    assert_int_equal(logged, AUTH_LOG_LOGGED + 1);
}

/* What was not logged of one while is told of before the next one's first line. */
static void told_with_the_next_one(void **state) {
    (void)state;
    struct auth_log auth_log = {0};
    for (int i = 0; i < AUTH_LOG_LOGGED + 7; i++)
        refuse(&auth_log, 100, "10.0.0.1");
    refuse(&auth_log, 100 + AUTH_LOG_MS, "10.0.0.1");
    assert_int_equal(told, 7);
    assert_int_equal(logged, AUTH_LOG_LOGGED + 1);
    /* Also when the tick comes later than that. */
    for (int i = 0; i < AUTH_LOG_LOGGED; i++)
        refuse(&auth_log, 100 + AUTH_LOG_MS, "10.0.0.1");
    auth_log_tick(&auth_log, 100 + 2 * AUTH_LOG_MS + 1);
    assert_int_equal(told, 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(one_address_hides_no_other, begin),
        cmocka_unit_test_setup(many_addresses_are_bounded, begin),
        cmocka_unit_test_setup(network_of_ipv6_is_one_address, begin),
        cmocka_unit_test_setup(told_with_the_next_one, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
