/* The tools' view of an HTTP response's head: the same at every cut, and what is no response is refused. */
#include "tools/http_response.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/http_feed.h"

/* Feeds a text in two pieces. What the head comes to, and what then lies in the chain. */
static int read_cut(const char *text, size_t cut, struct http_response *ret_response, size_t *ret_left) {
    sluice_pool *pool = http_feed_pool(4096, 64);
    sluice_chain *chain = http_feed_chain(pool);
    struct http_response response;
    assert_int_equal(http_response_init(&response, chain), 0);
    http_feed_bytes(pool, chain, text, cut);
    int result = http_response_next(&response);
    if (result == 0) {
        http_feed_bytes(pool, chain, text + cut, strlen(text) - cut);
        result = http_response_next(&response);
    } else {
        http_feed_bytes(pool, chain, text + cut, strlen(text) - cut);
    }
    *ret_response = response;
    *ret_left = sluice_chain_length(chain);
    http_response_clear(&response);
    sluice_chain_free(chain);
    sluice_pool_stats stats;
    sluice_pool_get_stats(pool, &stats);
    assert_int_equal(stats.held, 0);
    sluice_pool_free(pool);
    return result;
}

static void heads(void **state) {
    (void)state;
    static const struct {
        const char *text;
        unsigned status;
        const char *reason;
        sluice_http_body_kind body;
        uint64_t left;
        size_t behind;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\n", 200, "OK", SLUICE_HTTP_BODY_CHUNKED, 0, 3},
        {"HTTP/1.0 404 Not Found\r\ncontent-length: 17\r\n\r\n", 404, "Not Found", SLUICE_HTTP_BODY_LENGTH, 17, 0},
        {"HTTP/1.1 200\r\n\r\nFLV", 200, "", SLUICE_HTTP_BODY_UNTIL_CLOSE, 0, 3},
        /* The status counts, whatever is behind it; who shows that sees to the terminal. */
        {"HTTP/1.1 404 \x1b]0;\xff\x07\r\n\r\n", 404, "\x1b]0;\xff\x07", SLUICE_HTTP_BODY_UNTIL_CLOSE, 0, 0},
        {"HTTP/1.1 200 \r\nA: b\r\n\r\n", 200, "", SLUICE_HTTP_BODY_UNTIL_CLOSE, 0, 0},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nA: b\r\n\r\nHTTP/1.1 409 Conflict\r\n\r\n", 409,
         "Conflict", SLUICE_HTTP_BODY_UNTIL_CLOSE, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t cut = 0; cut <= strlen(rows[i].text); cut++) {
            struct http_response response;
            size_t behind;
            assert_int_equal(read_cut(rows[i].text, cut, &response, &behind), 1);
            assert_int_equal(response.status, rows[i].status);
            assert_string_equal(response.reason, rows[i].reason);
            assert_int_equal(response.body.kind, rows[i].body);
            if (rows[i].body == SLUICE_HTTP_BODY_LENGTH)
                assert_int_equal(response.body.left, rows[i].left);
            assert_int_equal(behind, rows[i].behind);
        }
}

static void what_is_no_response(void **state) {
    (void)state;
    static const char *const texts[] = {
        "SMTP ready\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 2x0 OK\r\n\r\n",
        "HTTP/1.1 20\r\n\r\n",
        "HTTP/1.1200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n",
        "\r\nHTTP/1.1 200 OK\r\n\r\n",
    };
    struct http_response response;
    size_t behind;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (size_t cut = 0; cut <= strlen(texts[i]); cut++)
            assert_int_equal(read_cut(texts[i], cut, &response, &behind), -EPROTO);
}

static void over_the_limit(void **state) {
    (void)state;
    static char text[20000];
    struct http_response response;
    size_t behind;
    memset(text, 'a', sizeof text - 1);
    assert_int_equal(read_cut(text, 3000, &response, &behind), -EMSGSIZE);
    memcpy(text, "HTTP/1.1 200 OK\r\nb: ", 20);
    assert_int_equal(read_cut(text, 10000, &response, &behind), -EMSGSIZE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads),
        cmocka_unit_test(what_is_no_response),
        cmocka_unit_test(over_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
