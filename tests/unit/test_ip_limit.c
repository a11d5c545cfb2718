/* Connections of each address, counted by several threads. */
#include "daemon/access/ip_limit.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

enum { THREADS = 4, ROUNDS = 20000, MOST = 3 };

static struct cidr_address address_of(const char *text) {
    struct cidr cidr;
    assert_int_equal(cidr_parse(text, &cidr), 0);
    return cidr.address;
}

static int add(struct ip_limit *counts, const char *text, uint64_t most) {
    const struct cidr_address address = address_of(text);
    return ip_limit_add(counts, &address, most);
}

static void give_back(struct ip_limit *counts, const char *text) {
    const struct cidr_address address = address_of(text);
    ip_limit_remove(counts, &address);
}

static void each_address_has_its_own(void **state) {
    (void)state;
    struct ip_limit *counts;
    assert_int_equal(ip_limit_new(&counts), 0);
    for (int i = 0; i < MOST; i++)
        assert_int_equal(add(counts, "10.0.0.1", MOST), 0);
    assert_int_equal(add(counts, "10.0.0.1", MOST), -EUSERS);
    /* What was refused is not counted; who leaves makes room. */
    give_back(counts, "10.0.0.1");
    assert_int_equal(add(counts, "10.0.0.1", MOST), 0);
    assert_int_equal(add(counts, "10.0.0.1", MOST), -EUSERS);
    assert_int_equal(add(counts, "10.0.0.1", MOST + 1), 0);
    assert_int_equal(add(counts, "10.0.0.2", MOST), 0);
    /* One that has none. */
    give_back(counts, "10.0.0.3");
    assert_int_equal(add(counts, "10.0.0.3", 1), 0);
    assert_int_equal(add(counts, "10.0.0.3", 1), -EUSERS);
    assert_int_equal(add(counts, "10.0.0.4", 0), -EUSERS);
    ip_limit_free(counts);
    ip_limit_free(NULL);
}

static void network_of_ipv6_is_one_address(void **state) {
    (void)state;
    struct ip_limit *counts;
    assert_int_equal(ip_limit_new(&counts), 0);
    assert_int_equal(add(counts, "2001:db8:0:1::1", 2), 0);
    assert_int_equal(add(counts, "2001:db8:0:1:ffff::2", 2), 0);
    assert_int_equal(add(counts, "2001:db8:0:1::3", 2), -EUSERS);
    assert_int_equal(add(counts, "2001:db8:0:2::1", 2), 0);
    /* IPv4 addresses lie in one network of IPv6, and are not one address. */
    assert_int_equal(add(counts, "10.0.0.1", 1), 0);
    assert_int_equal(add(counts, "10.0.0.2", 1), 0);
    give_back(counts, "2001:db8:0:1::9");
    assert_int_equal(add(counts, "2001:db8:0:1::3", 2), 0);
    ip_limit_free(counts);
}

static void *come_and_go(void *user) {
    struct ip_limit *counts = user;
    char text[32];
    for (unsigned i = 0; i < ROUNDS; i++) {
        snprintf(text, sizeof text, "10.0.0.%u", i % 5);
        if (add(counts, text, 2) == 0)
            give_back(counts, text);
    }
    return NULL;
}

static void threads_lose_no_count(void **state) {
    (void)state;
    struct ip_limit *counts;
    pthread_t threads[THREADS];
    assert_int_equal(ip_limit_new(&counts), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, counts), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (unsigned i = 0; i < 5; i++) {
        char text[32];
        snprintf(text, sizeof text, "10.0.0.%u", i);
        assert_int_equal(add(counts, text, 1), 0);
    }
    ip_limit_free(counts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_address_has_its_own),
        cmocka_unit_test(network_of_ipv6_is_one_address),
        cmocka_unit_test(threads_lose_no_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
