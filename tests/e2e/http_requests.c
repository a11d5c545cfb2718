/*
 * What the HTTP framer makes of a connection's bytes, for the comparison with other parsers.
 * Standard input has connections, each as a line with a number and so many bytes behind it. For
 * each of them it writes a line for each request, "METHOD TARGET BODY", the body as hexadecimal
 * digits with "." in front, and then a line that begins with "=": "=refused STATUS", "=wants" (the
 * last request is not complete), "=closed" (it asks for the end), or "=idle".
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

enum { MOST = 1 << 20 };

static void check(int error, const char *what) {
    if (error < 0) {
        fprintf(stderr, "http_requests: %s: %s\n", what, strerror(-error));
        exit(1);
    }
}

static void print_body(sluice_chain *body) {
    sluice_slice slice;
    size_t n = sluice_chain_length(body);
    uint8_t *bytes = malloc(n + 1);
    check(bytes ? sluice_chain_take(body, n, &slice) : -ENOMEM, "body");
    sluice_slice_copy(&slice, 0, bytes, n);
    sluice_slice_release(&slice);
    putchar('.');
    for (size_t i = 0; i < n; i++)
        printf("%02x", bytes[i]);
    putchar('\n');
    free(bytes);
}

/* The next request with its body: 1, 0 (it is not complete), or an error. */
static int next_request(sluice_http *http, sluice_chain *chain, sluice_chain *to, bool *ret_keeps,
                        unsigned *ret_status) {
    sluice_http_request request;
    sluice_http_body body;
    int result = sluice_http_next(http, chain, &request);
    if (result < 0)
        *ret_status = sluice_http_error_status(result);
    if (result != 1)
        return result;
    /* Told with its body, or not at all. */
    char *line;
    if (asprintf(&line, "%.*s %.*s ", (int)request.method.length, request.method.text, (int)request.target.length,
                 request.target.text) < 0)
        check(-ENOMEM, "line");
    *ret_keeps = request.keep_alive;
    sluice_http_body_begin(&body, &request, false);
    sluice_http_release(http);
    result = sluice_http_body_next(&body, chain, to);
    if (result < 0)
        *ret_status = sluice_http_body_error_status(&body);
    if (result == 1) {
        fputs(line, stdout);
        print_body(to);
    }
    free(line);
    return result;
}

static void read_connection(sluice_pool *pool, const uint8_t *bytes, size_t n) {
    sluice_chain *chain, *to;
    sluice_http *http;
    bool keeps = true;
    unsigned status = 0;
    int result = 1;
    check(sluice_chain_new(pool, &chain), "chain");
    check(sluice_chain_new(pool, &to), "chain");
    check(sluice_http_new(&http), "framer");
    check(sluice_chain_append_memory(chain, bytes, n, NULL, NULL), "bytes");
    while (result == 1 && keeps && sluice_chain_length(chain) > 0)
        result = next_request(http, chain, to, &keeps, &status);
    if (result < 0)
        printf("=refused %u\n", status);
    else
        printf("=%s\n", result == 0 ? "wants" : keeps ? "idle" : "closed");
    sluice_http_free(http);
    sluice_chain_free(to);
    sluice_chain_free(chain);
}

int main(void) {
    static uint8_t bytes[MOST];
    static const sluice_pool_options options = {
        .size = sizeof options, .block_size = 4096, .slab_blocks = 64, .max_blocks = 1024};
    sluice_pool *pool;
    char line[32];
    check(sluice_pool_new(&options, &pool), "pool");
    while (fgets(line, sizeof line, stdin)) {
        size_t n = strtoul(line, NULL, 10);
        if (n == 0 || n > MOST || fread(bytes, 1, n, stdin) != n)
            check(-EINVAL, "input");
        read_connection(pool, bytes, n);
    }
    sluice_pool_free(pool);
    return 0;
}
