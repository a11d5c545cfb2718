/* RTMP's handshake: both ends, with digests in both places and without, cut anywhere. */
#include <sluice/rtmp.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/evp.h>

#include <sluice/pool.h>

#include "support/feed.h"
#include "support/slices.h"

enum {
    BLOCK = 1536,
    WHOLE = 1 + 2 * BLOCK, /* what one end sends */
};

static uint8_t random_bytes[2][SLUICE_RTMP_RANDOM_SIZE];

static int set_up(void **state) {
    const sluice_pool_options options = {.size = sizeof options, .no_huge_pages = true};
    sluice_pool *pool = NULL;
    uint32_t seed = 1;
    for (size_t i = 0; i < sizeof random_bytes; i++) {
        seed = seed * 1103515245 + 12345;
        random_bytes[i / SLUICE_RTMP_RANDOM_SIZE][i % SLUICE_RTMP_RANDOM_SIZE] = (uint8_t)(seed >> 16);
    }
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
    *state = pool;
    return 0;
}

static int tear_down(void **state) {
    feed_assert_returned(*state);
    sluice_pool_free(*state);
    return 0;
}

/* As a program does it that has OpenSSL. */
static int hmac(const void *key, size_t key_size, const struct iovec *pieces, size_t count,
                uint8_t ret_digest[SLUICE_RTMP_DIGEST_SIZE], void *user) {
    EVP_PKEY *pkey = EVP_PKEY_new_raw_private_key(EVP_PKEY_HMAC, NULL, key, key_size);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    size_t size = SLUICE_RTMP_DIGEST_SIZE;
    int ok = pkey && context && EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, pkey) == 1;
    for (size_t i = 0; ok && i < count; i++)
        ok = EVP_DigestSignUpdate(context, pieces[i].iov_base, pieces[i].iov_len) == 1;
    ok = ok && EVP_DigestSignFinal(context, ret_digest, &size) == 1;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(pkey);
    if (user)
        ++*(int *)user;
    return ok ? 0 : -EIO;
}

static sluice_rtmp_handshake *handshake(sluice_rtmp_role role, sluice_rtmp_schema schema, bool digests) {
    sluice_rtmp_handshake *hs = NULL;
    const sluice_rtmp_handshake_options options = {
        .size = sizeof options,
        .random = random_bytes[role],
        .hmac = digests ? hmac : NULL,
        .schema = schema,
    };
    assert_int_equal(sluice_rtmp_handshake_new(role, &options, &hs), 0);
    return hs;
}

/* Gives what one end has to send to the other's chain, at most @piece bytes. False: nothing. */
static bool pass(sluice_pool *pool, sluice_rtmp_handshake *from, sluice_chain *to, size_t piece) {
    const uint8_t *bytes;
    size_t n = sluice_rtmp_handshake_output(from, &bytes);
    if (n > piece)
        n = piece;
    feed(to, pool, bytes, n, 0);
    sluice_rtmp_handshake_sent(from, n);
    return n > 0;
}

/* One step of one end. Below its need nothing happens. */
static int step(sluice_rtmp_handshake *hs, sluice_chain *chain) {
    size_t length = sluice_chain_length(chain), need = sluice_rtmp_handshake_need(hs);
    int result = sluice_rtmp_handshake_next(hs, chain);
    assert_in_range(result, 0, 1);
    if (length < need && result == 0)
        assert_int_equal(sluice_chain_length(chain), length);
    if (result == 0)
        assert_true(sluice_rtmp_handshake_need(hs) > sluice_chain_length(chain));
    return result;
}

static void make(sluice_pool *pool, sluice_rtmp_handshake *client, sluice_rtmp_handshake *server, size_t piece) {
    sluice_chain *to_client = http_feed_chain(pool), *to_server = http_feed_chain(pool);
    int a = 0, b = 0;
    while (!a || !b) {
        bool moved = pass(pool, client, to_server, piece);
        b = step(server, to_server);
        moved = pass(pool, server, to_client, piece) || moved;
        a = step(client, to_client);
        assert_true(moved);
    }
    while (pass(pool, client, to_server, piece))
        ;
    assert_int_equal(step(server, to_server), 1);
    assert_int_equal(sluice_chain_length(to_client) + sluice_chain_length(to_server), 0);
    sluice_chain_free(to_client);
    sluice_chain_free(to_server);
}

static void both_ends_agree(void **state) {
    static const size_t pieces[] = {1, 7, BLOCK - 1, BLOCK, BLOCK + 1, WHOLE};
    for (int schema = SLUICE_RTMP_SIMPLE; schema <= SLUICE_RTMP_LATE; schema++)
        for (int digests = 0; digests < 2; digests++)
            for (size_t i = 0; i < 6; i++) {
                sluice_rtmp_handshake *client = handshake(SLUICE_RTMP_CLIENT, (sluice_rtmp_schema)schema, true);
                sluice_rtmp_handshake *server = handshake(SLUICE_RTMP_SERVER, SLUICE_RTMP_SIMPLE, digests);
                make(*state, client, server, pieces[i]);
                int expected = digests ? schema : SLUICE_RTMP_SIMPLE;
                assert_int_equal(sluice_rtmp_handshake_schema(server), expected);
                assert_int_equal(sluice_rtmp_handshake_schema(client), expected);
                sluice_rtmp_handshake_free(client);
                sluice_rtmp_handshake_free(server);
            }
}

/* A server that has been given C0 and C1; what it sends. */
static size_t answer(sluice_pool *pool, const uint8_t first[1 + BLOCK], bool digests, uint8_t *to,
                     sluice_rtmp_schema *ret_schema) {
    sluice_rtmp_handshake *server = handshake(SLUICE_RTMP_SERVER, SLUICE_RTMP_SIMPLE, digests);
    sluice_chain *chain = http_feed_chain(pool);
    const uint8_t *bytes;
    feed(chain, pool, first, 1 + BLOCK, 0);
    assert_int_equal(sluice_rtmp_handshake_next(server, chain), 0);
    assert_int_equal(sluice_rtmp_handshake_need(server), BLOCK);
    size_t n = sluice_rtmp_handshake_output(server, &bytes);
    assert_int_equal(n, WHOLE);
    memcpy(to, bytes, n);
    *ret_schema = sluice_rtmp_handshake_schema(server);
    sluice_rtmp_handshake_free(server);
    sluice_chain_free(chain);
    return n;
}

static void a_simple_answer_is_an_echo(void **state) {
    uint8_t first[1 + BLOCK] = {3}, out[WHOLE];
    static const uint8_t zero[8];
    sluice_rtmp_schema schema;
    for (int i = 0; i < 3; i++) { /* no version; no digest; none here */
        for (size_t at = 1; at < sizeof first; at++)
            first[at] = (uint8_t)(at * 5);
        if (i == 0)
            memset(first + 1, 0, 8);
        answer(*state, first, i < 2, out, &schema);
        assert_int_equal(schema, SLUICE_RTMP_SIMPLE);
        assert_int_equal(out[0], 3);
        assert_memory_equal(out + 1, zero, 8);
        assert_memory_equal(out + 1 + BLOCK, first + 1, BLOCK);
    }
}

/* The sum of all four bytes, wherever the digest is: at both ends of what is possible. */
static void a_digest_may_be_anywhere(void **state) {
    static const char name[] = "Genuine Adobe Flash Player 001";
    static const uint8_t sums[][4] = {{0, 0, 0, 0}, {255, 255, 217, 0}, {255, 255, 218, 0}, {255, 255, 255, 255}};
    static const size_t offsets[] = {0, 727, 0, (4 * 255) % 728};
    for (int late = 0; late < 2; late++)
        for (size_t i = 0; i < 4; i++) {
            uint8_t first[1 + BLOCK] = {3}, out[WHOLE];
            size_t base = late ? 772 : 8, at = base + 4 + offsets[i];
            sluice_rtmp_schema schema;
            for (size_t j = 1; j < sizeof first; j++)
                first[j] = (uint8_t)(j * 3 + i);
            memcpy(first + 1 + base, sums[i], 4);
            const struct iovec pieces[] = {{first + 1, at}, {first + 1 + at + 32, BLOCK - 32 - at}};
            assert_int_equal(hmac(name, strlen(name), pieces, 2, first + 1 + at, NULL), 0);
            answer(*state, first, true, out, &schema);
            assert_int_equal(schema, late ? SLUICE_RTMP_LATE : SLUICE_RTMP_EARLY);
            first[1 + at] ^= 1; /* no digest any more */
            answer(*state, first, true, out, &schema);
            assert_int_equal(schema, SLUICE_RTMP_SIMPLE);
        }
}

static void other_protocols_are_refused(void **state) {
    static const struct {
        uint8_t version;
        int error;
    } cases[] = {{'G', -EPROTO}, {0x16, -EPROTONOSUPPORT}, {6, -EPROTONOSUPPORT}, {0, -EPROTONOSUPPORT}, {32, -EPROTO}};
    for (int role = 0; role < 2; role++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            sluice_rtmp_handshake *hs = handshake((sluice_rtmp_role)role, SLUICE_RTMP_SIMPLE, false);
            sluice_chain *chain = http_feed_chain(*state);
            const uint8_t *bytes;
            feed(chain, *state, &cases[i].version, 1, 0); /* the first byte is enough */
            assert_int_equal(sluice_rtmp_handshake_next(hs, chain), cases[i].error);
            assert_int_equal(sluice_rtmp_handshake_next(hs, chain), cases[i].error);
            assert_int_equal(sluice_rtmp_handshake_output(hs, &bytes), 0);
            sluice_rtmp_handshake_free(hs);
            sluice_chain_free(chain);
        }
}

static void what_follows_stays_in_the_chain(void **state) {
    uint8_t out[WHOLE + 5] = {3};
    sluice_rtmp_handshake *server = handshake(SLUICE_RTMP_SERVER, SLUICE_RTMP_SIMPLE, true);
    sluice_chain *chain = http_feed_chain(*state);
    feed(chain, *state, out, sizeof out, 100);
    assert_int_equal(sluice_rtmp_handshake_next(server, chain), 1);
    assert_int_equal(sluice_chain_length(chain), 5);
    assert_int_equal(sluice_rtmp_handshake_next(server, chain), 1);
    assert_int_equal(sluice_chain_length(chain), 5);
    sluice_rtmp_handshake_sent(server, 10 * WHOLE); /* no more than there is */
    const uint8_t *bytes;
    assert_int_equal(sluice_rtmp_handshake_output(server, &bytes), 0);
    sluice_rtmp_handshake_free(server);
    sluice_chain_free(chain);
}

static int failing(const void *key, size_t key_size, const struct iovec *pieces, size_t count,
                   uint8_t ret_digest[SLUICE_RTMP_DIGEST_SIZE], void *user) {
    (void)key, (void)key_size, (void)pieces, (void)count;
    int *left = user;
    memset(ret_digest, 0, SLUICE_RTMP_DIGEST_SIZE);
    return (*left)-- > 0 ? 0 : -EIO;
}

static void a_digest_that_cannot_be_computed(void **state) {
    int left = 0;
    sluice_rtmp_handshake *hs = NULL;
    sluice_rtmp_handshake_options options = {
        .size = sizeof options, .random = random_bytes[0], .hmac = failing, .user = &left, .schema = SLUICE_RTMP_EARLY};
    assert_int_equal(sluice_rtmp_handshake_new(SLUICE_RTMP_CLIENT, &options, &hs), -EIO);
    for (int works = 0; works < 2; works++) {
        uint8_t first[1 + BLOCK] = {3};
        memset(first + 5, 1, BLOCK - 4);
        sluice_chain *chain = http_feed_chain(*state);
        left = works;
        assert_int_equal(sluice_rtmp_handshake_new(SLUICE_RTMP_SERVER, &options, &hs), 0);
        feed(chain, *state, first, sizeof first, 0);
        assert_int_equal(sluice_rtmp_handshake_next(hs, chain), -EIO);
        assert_int_equal(sluice_rtmp_handshake_next(hs, chain), -EIO);
        sluice_rtmp_handshake_free(hs);
        sluice_chain_free(chain);
    }
}

static void settings_are_checked(void **state) {
    (void)state;
    sluice_rtmp_handshake *hs = NULL;
    const sluice_rtmp_handshake_options wrong[] = {
        {.size = 1, .random = random_bytes[0]},
        {.size = sizeof *wrong},
        {.size = sizeof *wrong, .random = random_bytes[0], .schema = SLUICE_RTMP_LATE},
        {.size = sizeof *wrong, .random = random_bytes[0], .hmac = hmac, .schema = (sluice_rtmp_schema)3},
    };
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(sluice_rtmp_handshake_new(SLUICE_RTMP_CLIENT, &wrong[i], &hs), -EINVAL);
    const sluice_rtmp_handshake_options good = {.size = sizeof good, .random = random_bytes[0]};
    assert_int_equal(sluice_rtmp_handshake_new((sluice_rtmp_role)2, &good, &hs), -EINVAL);
    assert_int_equal(sluice_rtmp_handshake_new(SLUICE_RTMP_SERVER, NULL, &hs), -EINVAL);
    sluice_rtmp_handshake_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(both_ends_agree, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_simple_answer_is_an_echo, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_digest_may_be_anywhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_protocols_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_follows_stays_in_the_chain, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_digest_that_cannot_be_computed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(settings_are_checked, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
