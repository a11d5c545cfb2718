/* Signatures of pulls between nodes: what is written is read again; what is changed is not. */
#include "daemon/cluster/cluster_sign.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "shared/text.h"

enum { NOW = 1000000, LONG = 3000 };

static const uint8_t secret[] = "a secret of the cluster", other_secret[] = "another secret of it";

static struct cluster_signing signing_of(const char *path) {
    return (struct cluster_signing){text_of("GET"), text_of(path), secret, sizeof secret - 1};
}

static struct cluster_fetch a_fetch(void) {
    return (struct cluster_fetch){.from = "edge-1",
                                  .to = "origin.2",
                                  .epoch = 1700000000000001,
                                  .expires_ms = NOW + CLUSTER_SIGN_MS,
                                  .via = "a,b_c",
                                  .mode = CLUSTER_FROM_PARENT};
}

static int read_at(const char *value, const struct cluster_signing *signing, uint64_t now) {
    struct cluster_fetch fetch;
    return cluster_sign_read(text_of(value), signing, now, &fetch);
}

static void what_is_written_is_read(void **state) {
    (void)state;
    const struct cluster_signing signing = signing_of("/live/a.flv");
    struct cluster_fetch fetch = a_fetch(), again;
    char value[CLUSTER_FIELD];
    assert_int_equal(cluster_sign_write(&fetch, &signing, value), 0);
    assert_int_equal(cluster_sign_read(text_of(value), &signing, NOW, &again), 0);
    assert_string_equal(again.from, "edge-1");
    assert_string_equal(again.to, "origin.2");
    assert_true(again.epoch == fetch.epoch && again.expires_ms == fetch.expires_ms);
    assert_string_equal(again.via, "a,b_c");
    assert_int_equal(again.mode, CLUSTER_FROM_PARENT);
    fetch.via[0] = '\0';
    fetch.mode = CLUSTER_FROM_ORIGIN;
    assert_int_equal(cluster_sign_write(&fetch, &signing, value), 0);
    assert_int_equal(cluster_sign_read(text_of(value), &signing, NOW, &again), 0);
    assert_string_equal(again.via, "");
    assert_int_equal(again.mode, CLUSTER_FROM_ORIGIN);
}

/* A vector by another implementation: Python's hmac. */
static void the_signature_is_hmac_sha256(void **state) {
    static const char expected[] =
        "from=edge-1; to=origin.2; epoch=1700000000000001; expires=1060000; via=a,b_c; mode=parent; "
        "signature=4c5ac2b54190ef4c127920401acbafa6fff6897686982c31aa8560064bbc7b12";
    (void)state;
    const struct cluster_signing signing = signing_of("/live/a.flv");
    const struct cluster_fetch fetch = a_fetch();
    char value[CLUSTER_FIELD];
    assert_int_equal(cluster_sign_write(&fetch, &signing, value), 0);
    assert_string_equal(value, expected);
}

static void it_expires(void **state) {
    (void)state;
    const struct cluster_signing signing = signing_of("/live/a.flv");
    const struct cluster_fetch fetch = a_fetch();
    char value[CLUSTER_FIELD];
    assert_int_equal(cluster_sign_write(&fetch, &signing, value), 0);
    assert_int_equal(read_at(value, &signing, NOW + CLUSTER_SIGN_MS - 1), 0);
    assert_int_equal(read_at(value, &signing, NOW + CLUSTER_SIGN_MS), -EKEYEXPIRED);
}

static void it_holds_for_this_request_alone(void **state) {
    (void)state;
    struct cluster_signing signing = signing_of("/live/a.flv");
    const struct cluster_fetch fetch = a_fetch();
    char value[CLUSTER_FIELD];
    assert_int_equal(cluster_sign_write(&fetch, &signing, value), 0);
    signing.path = text_of("/live/b.flv");
    assert_int_equal(read_at(value, &signing, NOW), -EKEYREJECTED);
    signing = signing_of("/live/a.flv");
    signing.method = text_of("POST");
    assert_int_equal(read_at(value, &signing, NOW), -EKEYREJECTED);
    signing = signing_of("/live/a.flv");
    signing.secret = other_secret;
    signing.secret_size = sizeof other_secret - 1;
    assert_int_equal(read_at(value, &signing, NOW), -EKEYREJECTED);
    signing.secret = secret;
    signing.secret_size = sizeof secret - 2;
    assert_int_equal(read_at(value, &signing, NOW), -EKEYREJECTED);
}

/* Each character, each bit. */
static void nothing_of_it_may_change(void **state) {
    (void)state;
    const struct cluster_signing signing = signing_of("/live/a.flv");
    const struct cluster_fetch fetch = a_fetch();
    char value[CLUSTER_FIELD];
    assert_int_equal(cluster_sign_write(&fetch, &signing, value), 0);
    for (size_t i = 0; i < strlen(value); i++) {
        for (unsigned bit = 0; bit < 7; bit++) {
            char changed[CLUSTER_FIELD];
            memcpy(changed, value, sizeof changed);
            changed[i] ^= (char)(1u << bit);
            assert_int_not_equal(read_at(changed, &signing, NOW), 0);
        }
    }
    for (size_t length = 0; length < strlen(value); length++) {
        struct cluster_fetch again;
        assert_int_not_equal(cluster_sign_read((sluice_http_text){value, length}, &signing, NOW, &again), 0);
    }
}

static void with_a_secret_there_is_a_signature_and_without_none(void **state) {
    (void)state;
    const struct cluster_signing signing = signing_of("/live/a.flv");
    struct cluster_signing none = signing;
    const struct cluster_fetch fetch = a_fetch();
    char signed_value[CLUSTER_FIELD], value[CLUSTER_FIELD];
    none.secret_size = 0;
    assert_int_equal(cluster_sign_write(&fetch, &signing, signed_value), 0);
    assert_int_equal(cluster_sign_write(&fetch, &none, value), 0);
    assert_null(strstr(value, "signature"));
    assert_int_equal(read_at(value, &none, NOW), 0);
    assert_int_equal(read_at(value, &signing, NOW), -EKEYREJECTED);
    assert_int_equal(read_at(signed_value, &none, NOW), -EKEYREJECTED);
    /* By nobody's secret, which anybody has. */
    assert_int_equal(read_at(value, &none, NOW + CLUSTER_SIGN_MS), -EKEYEXPIRED);
}

static void what_is_malformed_is_rejected(void **state) {
    static const char *const values[] = {
        "",
        "from=a",
        "from=a; to=b; epoch=1; expires=2000000; via=; mode=origin;",
        "from=a; to=b; epoch=1; expires=2000000; via=; mode=origin; ",
        "from=a; to=b; epoch=1; expires=2000000; via=; mode=other",
        "from=a; to=b; epoch=1; expires=2000000; via=; mode=",
        "from=a; to=b; epoch=1; expires=2000000; mode=origin",
        "from=a; to=b; expires=2000000; via=; mode=origin",
        "to=b; from=a; epoch=1; expires=2000000; via=; mode=origin",
        "from=a;to=b; epoch=1; expires=2000000; via=; mode=origin",
        "from=; to=b; epoch=1; expires=2000000; via=; mode=origin",
        "from=a b; to=b; epoch=1; expires=2000000; via=; mode=origin",
        "from=a; to=b/; epoch=1; expires=2000000; via=; mode=origin",
        "from=a; to=b; epoch=; expires=2000000; via=; mode=origin",
        "from=a; to=b; epoch=01; expires=2000000; via=; mode=origin",
        "from=a; to=b; epoch=-1; expires=2000000; via=; mode=origin",
        "from=a; to=b; epoch=9007199254740992; expires=2000000; via=; mode=origin",
        "from=a; to=b; epoch=1; expires=9223372036854775808; via=; mode=origin",
        "from=a; to=b; epoch=1; expires=2000000; via=,; mode=origin",
        "from=a; to=b; epoch=1; expires=2000000; via=c,; mode=origin",
        "from=a; to=b; epoch=1; expires=2000000; via=,c; mode=origin",
        "from=a; to=b; epoch=1; expires=2000000; via=c, d; mode=origin",
        "from=a; to=b; epoch=1; expires=2000000; via=1,2,3,4,5,6,7,8,9; mode=origin",
    };
    const struct cluster_signing none = {text_of("GET"), text_of("/a.flv"), secret, 0};
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        assert_int_equal(read_at(values[i], &none, NOW), -EPROTO);
    assert_int_equal(read_at("from=a; to=b; epoch=1; expires=2000000; via=; mode=origin", &none, NOW), 0);
    assert_int_equal(read_at("from=a; to=b; epoch=9007199254740991; expires=9223372036854775807; "
                             "via=1,2,3,4,5,6,7,8; mode=parent",
                             &none, NOW),
                     0);
}

static void names_are_bounded(void **state) {
    (void)state;
    const struct cluster_signing signing = signing_of("/live/a.flv");
    struct cluster_fetch fetch = a_fetch(), again;
    char value[CLUSTER_FIELD], name[CLUSTER_NODE + 2] = "", longer[LONG];
    memset(name, 'n', CLUSTER_NODE + 1);
    name[CLUSTER_NODE] = '\0';
    memcpy(fetch.from, name, sizeof fetch.from);
    memcpy(fetch.to, name, sizeof fetch.to);
    fetch.via[0] = '\0';
    for (char c = '1'; c <= '0' + CLUSTER_VIA_MOST; c++) {
        name[0] = c;
        assert_int_equal(cluster_via_add(fetch.via, name), 0);
    }
    name[0] = 'x';
    assert_int_equal(cluster_via_add(fetch.via, name), -ENOSPC);
    name[0] = '1';
    assert_int_equal(cluster_via_add(fetch.via, name), 0);
    fetch.epoch = (UINT64_C(1) << 53) - 1;
    fetch.expires_ms = INT64_MAX;
    assert_int_equal(cluster_sign_write(&fetch, &signing, value), 0);
    assert_int_equal(cluster_sign_read(text_of(value), &signing, NOW, &again), 0);
    assert_string_equal(again.via, fetch.via);
    snprintf(longer, sizeof longer, "from=n%s", value + strlen("from="));
    assert_int_equal(read_at(longer, &signing, NOW), -EPROTO);
    /* A path that is none of a stream's. */
    memset(longer, 'p', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    const struct cluster_signing far = signing_of(longer);
    assert_int_equal(cluster_sign_write(&fetch, &far, value), -EIO);
    assert_int_equal(read_at(value, &far, NOW), -EKEYREJECTED);
}

/* A response is of one request and one epoch. */
static void responses_are_signed(void **state) {
    static const struct cluster_signing none;
    struct cluster_fetch fetch = a_fetch(), read;
    char value[CLUSTER_FIELD], written[CLUSTER_SIGNATURE + 1], other[CLUSTER_SIGNATURE + 1],
        answer[CLUSTER_SIGNATURE + 1];
    const struct cluster_signing signing = signing_of("/live/a.flv");
    struct cluster_signing wrong = signing;
    (void)state;
    assert_int_equal(cluster_sign_write(&fetch, &none, value), 0);
    cluster_sign_get(value, written);
    assert_string_equal(written, "");
    fetch.expires_ms++;
    assert_int_equal(cluster_sign_write(&fetch, &signing, value), 0);
    cluster_sign_get(value, other);
    fetch.expires_ms--;
    assert_int_equal(cluster_sign_write(&fetch, &signing, value), 0);
    cluster_sign_get(value, written);
    assert_int_equal(cluster_sign_read(text_of(value), &signing, NOW, &read), 0);
    assert_string_equal(read.signature, written);
    assert_int_equal(cluster_sign_response(&signing, read.signature, 7, answer), 0);
    assert_true(cluster_sign_check_response(&signing, written, 7, text_of(answer)));
    assert_false(cluster_sign_check_response(&signing, written, 8, text_of(answer)));
    assert_false(cluster_sign_check_response(&signing, other, 7, text_of(answer)));
    assert_false(cluster_sign_check_response(&signing, written, 7, text_of(written)));
    assert_false(cluster_sign_check_response(&signing, written, 7, text_of("")));
    assert_false(cluster_sign_check_response(&signing, written, 7, (sluice_http_text){answer, CLUSTER_SIGNATURE - 1}));
    wrong.secret_size--;
    assert_false(cluster_sign_check_response(&wrong, written, 7, text_of(answer)));
}

static void a_list_of_nodes(void **state) {
    (void)state;
    char via[CLUSTER_VIA] = "";
    assert_false(cluster_via_has(via, ""));
    assert_false(cluster_via_has(via, "a"));
    assert_int_equal(cluster_via_add(via, "ab"), 0);
    assert_int_equal(cluster_via_add(via, "c"), 0);
    assert_int_equal(cluster_via_add(via, "ab"), 0);
    assert_string_equal(via, "ab,c");
    assert_true(cluster_via_has(via, "ab"));
    assert_true(cluster_via_has(via, "c"));
    assert_false(cluster_via_has(via, "a"));
    assert_false(cluster_via_has(via, "b"));
    assert_false(cluster_via_has(via, "ab,c"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(the_signature_is_hmac_sha256),
        cmocka_unit_test(it_expires),
        cmocka_unit_test(it_holds_for_this_request_alone),
        cmocka_unit_test(nothing_of_it_may_change),
        cmocka_unit_test(with_a_secret_there_is_a_signature_and_without_none),
        cmocka_unit_test(what_is_malformed_is_rejected),
        cmocka_unit_test(names_are_bounded),
        cmocka_unit_test(responses_are_signed),
        cmocka_unit_test(a_list_of_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
