/* The upgrade to WebSocket: which requests are one, and what is answered. */
#include <sluice/websocket.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sluice/chain.h>
#include <sluice/http.h>
#include <sluice/pool.h>

#include "support/feed.h"

/* The request of RFC 6455, section 1.2. */
#define START "GET /chat HTTP/1.1\r\nHost: server.example.com\r\n"
#define UPGRADE "Upgrade: websocket\r\n"
#define CONNECTION "Connection: Upgrade\r\n"
#define KEY "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define VERSION "Sec-WebSocket-Version: 13\r\n"
#define END "\r\n"

static const char accept_of_key[] = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/* A request as the HTTP framer reads it. */
struct head {
    sluice_pool *pool;
    sluice_chain *chain;
    sluice_http *http;
    sluice_http_request request;
};

static void read_head(struct head *head, const char *text) {
    assert_int_equal(sluice_pool_new(&(sluice_pool_options){.size = sizeof(sluice_pool_options), .no_huge_pages = true},
                                     &head->pool),
                     0);
    assert_int_equal(sluice_chain_new(head->pool, &head->chain), 0);
    assert_int_equal(sluice_http_new(&head->http), 0);
    feed(head->chain, head->pool, text, strlen(text), 0);
    int result = sluice_http_next(head->http, head->chain, &head->request);
    if (result != 1)
        fail_msg("no request, %d: %s", result, text);
}

static void free_head(struct head *head) {
    sluice_http_free(head->http);
    sluice_chain_free(head->chain);
    feed_assert_returned(head->pool);
    sluice_pool_free(head->pool);
}

static int upgrade(const char *text, char ret_accept[SLUICE_WEBSOCKET_ACCEPT_SIZE]) {
    struct head head;
    read_head(&head, text);
    int result = sluice_websocket_upgrade(&head.request, ret_accept);
    free_head(&head);
    return result;
}

static void test_accepted(void **state) {
    const char *const requests[] = {
        START UPGRADE CONNECTION KEY VERSION END,
        START "Origin: http://example.com\r\nSec-WebSocket-Protocol: chat\r\n" VERSION KEY CONNECTION UPGRADE END,
        /* Names and these tokens have no case. */
        START "UPGRADE: WebSocket\r\nconnection: uPGRADE\r\nsec-websocket-key:dGhlIHNhbXBsZSBub25jZQ==\r\n"
              "SEC-WEBSOCKET-VERSION:13\r\n" END,
        /* Lists, in one header and in several. Firefox sends the first of these. */
        START UPGRADE "Connection: keep-alive, Upgrade\r\n" KEY VERSION END,
        START "Upgrade: h2c ,\twebsocket\r\nConnection: ,, upgrade ,\r\n" KEY VERSION END,
        START "Upgrade: h2c\r\nUpgrade: websocket\r\nConnection: keep-alive\r\nConnection: Upgrade\r\n" KEY VERSION END,
        START UPGRADE CONNECTION KEY VERSION "Content-Length: 0\r\n" END,
        "GET http://server.example.com/chat?x HTTP/1.1\r\nHost:\r\n" UPGRADE CONNECTION KEY VERSION END,
    };
    (void)state;
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        char accept[SLUICE_WEBSOCKET_ACCEPT_SIZE] = {0};
        int result = upgrade(requests[i], accept);
        if (result != 0)
            fail_msg("%d: %s", result, requests[i]);
        assert_memory_equal(accept, accept_of_key, sizeof accept);
    }
}

static void test_refused(void **state) {
    const struct {
        const char *text;
        int error;
        unsigned status;
    } cases[] = {
        /* Ordinary requests. */
        {START END, -ENOENT, 426},
        {START CONNECTION KEY VERSION END, -ENOENT, 426},
        {START "Upgrade: h2c\r\n" CONNECTION KEY VERSION END, -ENOENT, 426},
        {START "Upgrade: websocket2\r\n" CONNECTION KEY VERSION END, -ENOENT, 426},
        {START "Upgrade: web socket\r\n" CONNECTION KEY VERSION END, -ENOENT, 426},
        {START "Upgrade:\r\n" CONNECTION KEY VERSION END, -ENOENT, 426},
        {"GET / HTTP/1.0\r\nHost: a\r\n" UPGRADE CONNECTION KEY VERSION END, -ENOENT, 426},
        /* Upgrades that are not as they must be. */
        {"POST /chat HTTP/1.1\r\nHost: a\r\n" UPGRADE CONNECTION KEY VERSION END, -EPROTO, 400},
        {"get /chat HTTP/1.1\r\nHost: a\r\n" UPGRADE CONNECTION KEY VERSION END, -EPROTO, 400},
        {START UPGRADE KEY VERSION END, -EPROTO, 400},
        {START UPGRADE "Connection: close\r\n" KEY VERSION END, -EPROTO, 400},
        {START UPGRADE "Connection: Upgraded\r\n" KEY VERSION END, -EPROTO, 400},
        {START UPGRADE CONNECTION KEY VERSION "Content-Length: 1\r\n" END "x", -EPROTO, 400},
        {START UPGRADE CONNECTION KEY VERSION "Transfer-Encoding: chunked\r\n" END "0\r\n\r\n", -EPROTO, 400},
        {START UPGRADE CONNECTION VERSION END, -EPROTO, 400},
        {START UPGRADE CONNECTION KEY KEY VERSION END, -EPROTO, 400},
        {START UPGRADE CONNECTION VERSION "Sec-WebSocket-Key:\r\n" END, -EPROTO, 400},
        {START UPGRADE CONNECTION VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=\r\n" END, -EPROTO, 400},
        {START UPGRADE CONNECTION VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ===\r\n" END, -EPROTO, 400},
        {START UPGRADE CONNECTION VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=A\r\n" END, -EPROTO, 400},
        {START UPGRADE CONNECTION VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQA=\r\n" END, -EPROTO, 400},
        {START UPGRADE CONNECTION VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZ-==\r\n" END, -EPROTO, 400},
        {START UPGRADE CONNECTION VERSION "Sec-WebSocket-Key: dGhl HNhbXBsZSBub25jZQ==\r\n" END, -EPROTO, 400},
        {START UPGRADE CONNECTION VERSION "Sec-WebSocket-Key: =Ghl=HNhbXBsZSBub25jZQ==\r\n" END, -EPROTO, 400},
        {START UPGRADE CONNECTION KEY END, -EPROTO, 400},
        {START UPGRADE CONNECTION KEY VERSION VERSION END, -EPROTO, 400},
        /* Other versions. */
        {START UPGRADE CONNECTION KEY "Sec-WebSocket-Version: 8\r\n" END, -EPROTONOSUPPORT, 426},
        {START UPGRADE CONNECTION KEY "Sec-WebSocket-Version: 13, 8\r\n" END, -EPROTONOSUPPORT, 426},
        {START UPGRADE CONNECTION KEY "Sec-WebSocket-Version: 013\r\n" END, -EPROTONOSUPPORT, 426},
        {START UPGRADE CONNECTION KEY "Sec-WebSocket-Version:\r\n" END, -EPROTONOSUPPORT, 426},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char accept[SLUICE_WEBSOCKET_ACCEPT_SIZE], before[SLUICE_WEBSOCKET_ACCEPT_SIZE];
        memset(accept, '?', sizeof accept);
        memset(before, '?', sizeof before);
        int result = upgrade(cases[i].text, accept);
        if (result != cases[i].error)
            fail_msg("%d: %s", result, cases[i].text);
        assert_memory_equal(accept, before, sizeof accept);
        assert_int_equal(sluice_websocket_error_status(result), cases[i].status);
    }
}

static void test_accept_key(void **state) {
    const struct {
        const char *key, *accept;
    } cases[] = {
        {"dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="},
        {"x3JJHMbDL1EzLkh9GBhXDw==", "HSmrc0sMlYUkAGmm5OPpG2HaGWk="},
        {"AAAAAAAAAAAAAAAAAAAAAA==", "ICX+Yqv66kxgM0FcWaLWlFLwTAI="},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char accept[SLUICE_WEBSOCKET_ACCEPT_SIZE];
        sluice_websocket_accept_key(cases[i].key, accept);
        assert_memory_equal(accept, cases[i].accept, sizeof accept);
    }
}

/* Bits beyond the 16 bytes. */
static void test_loose_key(void **state) {
    char accept[SLUICE_WEBSOCKET_ACCEPT_SIZE];
    (void)state;
    const char *request = START UPGRADE CONNECTION VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZf==\r\n" END;
    assert_int_equal(upgrade(request, accept), 0);
    assert_memory_equal(accept, "X6f47m0G5NixFYe1pmdqfXnTIjI=", sizeof accept);
}

/* What we make is what we accept. */
static void test_make_key(void **state) {
    uint8_t nonce[SLUICE_WEBSOCKET_NONCE_SIZE];
    char key[SLUICE_WEBSOCKET_KEY_SIZE], accept[SLUICE_WEBSOCKET_ACCEPT_SIZE], request[512];
    (void)state;
    sluice_websocket_make_key((const uint8_t *)"the sample nonce", key);
    assert_memory_equal(key, "dGhlIHNhbXBsZSBub25jZQ==", sizeof key);
    for (int round = 0; round < 64; round++) {
        for (size_t i = 0; i < sizeof nonce; i++)
            nonce[i] = (uint8_t)(round * 71 + (int)i * 53);
        nonce[0] = (uint8_t)(round * 4);
        sluice_websocket_make_key(nonce, key);
        snprintf(request, sizeof request, START UPGRADE CONNECTION VERSION "Sec-WebSocket-Key: %.24s\r\n" END, key);
        assert_int_equal(upgrade(request, accept), 0);
    }
}

static const char *select_among(const char *headers) {
    static const char *const offered[] = {"flv", "mqtt", "v2.chat"};
    struct head head;
    char text[512];
    snprintf(text, sizeof text, START UPGRADE CONNECTION KEY VERSION "%s" END, headers);
    read_head(&head, text);
    const char *selected = sluice_websocket_select_protocol(&head.request, offered, 3);
    assert_null(sluice_websocket_select_protocol(&head.request, NULL, 0));
    free_head(&head);
    return selected;
}

/* The client's order counts; case does; what we do not offer is passed over. */
static void test_select_protocol(void **state) {
    (void)state;
    assert_null(select_among(""));
    assert_null(select_among("Sec-WebSocket-Protocol:\r\n"));
    assert_null(select_among("Sec-WebSocket-Protocol: soap, wamp\r\n"));
    assert_null(select_among("Sec-WebSocket-Protocol: FLV, fl, flvs\r\n"));
    assert_string_equal(select_among("Sec-WebSocket-Protocol: flv\r\n"), "flv");
    assert_string_equal(select_among("sec-websocket-protocol: soap,v2.chat , flv\r\n"), "v2.chat");
    assert_string_equal(select_among("Sec-WebSocket-Protocol: soap\r\nSec-WebSocket-Protocol: mqtt, flv\r\n"), "mqtt");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepted),   cmocka_unit_test(test_refused),  cmocka_unit_test(test_loose_key),
        cmocka_unit_test(test_accept_key), cmocka_unit_test(test_make_key), cmocka_unit_test(test_select_protocol),
    };
    return cmocka_run_group_tests_name("websocket_handshake", tests, NULL, NULL);
}
