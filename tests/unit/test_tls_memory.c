/*
 * Memory: each allocation fails in turn, OpenSSL's as well, and the stage fails in an orderly
 * way or not at all; and what an idle connection occupies.
 */
#include <sluice/tls.h>

#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <openssl/crypto.h>

#include <sluice/loop.h>

#include "support/tls/peer.h"
#include "support/tls/rig.h"

enum {
    GUARD = 280,
    SEED = 41,
    BYTES = 40000,
    TURNS = 2000,
    POINTS = 400,          /* of those that there are, in the short form */
    IDLE_BYTES = 20 << 10, /* of an idle connection, in all */
    IDLE = 32,
};

/* The allocations of the library and of OpenSSL. */
static struct {
    bool counts;
    unsigned long number, fail_at;
    long live; /* bytes */
} heap;

static bool fails(void) {
    return heap.counts && ++heap.number == heap.fail_at;
}

static void *noted(void *memory) {
    heap.live += memory ? (long)malloc_usable_size(memory) : 0;
    return memory;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_reallocarray(void *memory, size_t count, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t n);
void __real_free(void *memory);

void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size) {
    return fails() ? NULL : noted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size) {
    return fails() ? NULL : noted(__real_calloc(count, size));
}

void *__wrap_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size) {
    if (fails())
        return NULL;
    heap.live -= memory ? (long)malloc_usable_size(memory) : 0;
    return noted(__real_realloc(memory, size));
}

void *__wrap_reallocarray(void *memory, size_t count, size_t size);
void *__wrap_reallocarray(void *memory, size_t count, size_t size) {
    return __wrap_realloc(memory, count * size);
}

char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text) {
    return fails() ? NULL : noted(__real_strdup(text));
}

char *__wrap_strndup(const char *text, size_t n);
char *__wrap_strndup(const char *text, size_t n) {
    return fails() ? NULL : noted(__real_strndup(text, n));
}

void __wrap_free(void *memory);
void __wrap_free(void *memory) {
    heap.live -= memory ? (long)malloc_usable_size(memory) : 0;
    __real_free(memory);
}

static void *ssl_malloc(size_t size, const char *file, int line) {
    (void)file, (void)line;
    return size > 0 ? __wrap_malloc(size) : NULL;
}

static void *ssl_realloc(void *memory, size_t size, const char *file, int line) {
    (void)file, (void)line;
    return __wrap_realloc(memory, size);
}

static void ssl_free(void *memory, const char *file, int line) {
    (void)file, (void)line;
    __wrap_free(memory);
}

/* Whether the run met the failure. */
static bool met(void) {
    bool result = heap.number >= heap.fail_at;
    heap.counts = false;
    return result;
}

static void fail_at(unsigned long number) {
    heap.number = 0;
    heap.fail_at = number;
    heap.counts = true;
}

/* ---- Contexts ---- */

static int make_contexts(const tls_pki *pki) {
    sluice_tls_context_options server = {.size = sizeof server,
                                         .alpn = "h2,http/1.1",
                                         .verify = SLUICE_TLS_VERIFY_OPTIONAL,
                                         .ca = pki->ca.chain_pem,
                                         .ca_length = strlen(pki->ca.chain_pem)};
    sluice_tls_context_options client = tls_client_options(&pki->ca);
    sluice_tls_certificate option = certificate_option(&pki->leaf, "a.example");
    sluice_tls_context *context = NULL, *other = NULL;
    client.alpn = "h2";
    int error = sluice_tls_context_new(&server, &context);
    if (!error)
        error = sluice_tls_context_add_certificate(context, &option);
    if (!error)
        error = sluice_tls_context_new(&client, &other);
    sluice_tls_context_unref(context);
    sluice_tls_context_unref(other);
    return error;
}

static void contexts_bear_each_failure(void **state) {
    (void)state;
    tls_pki pki;
    tls_pki_open(&pki, NULL, NULL);
    assert_int_equal(make_contexts(&pki), 0); /* what OpenSSL makes once */
    unsigned long step = 1, failed = 0;
    fail_at(0);
    assert_int_equal(make_contexts(&pki), 0);
    heap.counts = false;
    if (!getenv("SLUICE_TEST_LONG"))
        step = 1 + heap.number / POINTS;
    for (unsigned long at = 1;; at += step) {
        long live = heap.live;
        fail_at(at);
        int error = make_contexts(&pki);
        if (!met())
            break;
        failed += error != 0;
        assert_true(error <= 0);
        /* OpenSSL may keep something that it needs again, but no more and more. */
        assert_true(heap.live - live < 65536);
    }
    assert_true(failed > 0);
    tls_pki_close(&pki);
}

/* ---- Connections ---- */

/* A connection with a stage, as far as memory allows. */
static bool try_end(tls_end *end, sluice_loop *loop, int fd, sluice_tls_context *context, const char *name) {
    end->seed = SEED;
    end->total = BYTES;
    if (sluice_conn_new(loop, fd, &tls_end_events, end, &end->conn) < 0) {
        close(fd);
        return false;
    }
    if (sluice_tls_new(context, end->conn, name, &end->tls) == 0)
        return true;
    static const sluice_conn_events none = {.size = sizeof none};
    sluice_conn_set_events(end->conn, &none, NULL);
    sluice_conn_close(end->conn);
    end->conn = NULL;
    return false;
}

/* Two stages talk; true: all arrived. */
static bool talk(sluice_loop *loop, const tls_pki *pki) {
    int fds[2];
    tls_end server = {0}, client = {0};
    sockets_tcp_pair(fds);
    bool made = try_end(&server, loop, fds[0], pki->server, NULL);
    if (!made)
        close(fds[1]);
    else
        made = try_end(&client, loop, fds[1], pki->client, "localhost");
    bool done = false;
    for (unsigned i = 0; made && !done && !server.closed && !client.closed; i++) {
        assert_true(i < TURNS);
        turn(loop);
        done = server.received == BYTES && client.received == BYTES;
    }
    heap.counts = false;
    assert_false(server.differs || client.differs);
    tls_end *ends[] = {&server, &client};
    for (int i = 0; i < 2; i++)
        if (ends[i]->conn || ends[i]->closed)
            tls_end_close(ends[i], loop);
    turn_through(loop, 3);
    return done;
}

static void connections_bear_each_failure(void **state) {
    (void)state;
    loop_rig rig;
    tls_pki pki;
    sluice_tls_context_options options = {.size = sizeof options, .rekey_records = 3};
    loop_rig_open(&rig, NULL, NULL, GUARD);
    tls_pki_open(&pki, &options, NULL);
    assert_true(talk(rig.loop, &pki));
    fail_at(0);
    assert_true(talk(rig.loop, &pki));
    unsigned long step = getenv("SLUICE_TEST_LONG") ? 1 : 1 + heap.number / POINTS, failed = 0;
    for (unsigned long at = 1;; at += step) {
        fail_at(at);
        bool done = talk(rig.loop, &pki);
        if (!met())
            break;
        failed += !done;
        sluice_pool_stats stats = {.size = sizeof stats};
        sluice_pool_get_stats(rig.pool, &stats);
        assert_int_equal(stats.held, 0);
    }
    assert_true(failed > 0);
    tls_pki_close(&pki);
    loop_rig_close(&rig);
}

/* Also behind messages besides data, whose buffers OpenSSL does not free: new keys, if the rules
 * say so. */
static void check_idle(const sluice_tls_context_options *options) {
    loop_rig rig;
    tls_pki pki;
    tls_end ends[IDLE] = {0};
    loop_rig_open(&rig, NULL, NULL, GUARD);
    tls_pki_open(&pki, options, NULL);
    assert_true(talk(rig.loop, &pki));
    long before = heap.live;
    for (int i = 0; i < IDLE; i += 2) {
        int fds[2];
        sockets_tcp_pair(fds);
        assert_true(try_end(&ends[i], rig.loop, fds[0], pki.server, NULL));
        assert_true(try_end(&ends[i + 1], rig.loop, fds[1], pki.client, "localhost"));
        tls_end_until_received(&ends[i], rig.loop, BYTES);
        tls_end_until_received(&ends[i + 1], rig.loop, BYTES);
    }
    turn_through(rig.loop, 5);
    long each = (heap.live - before) / IDLE;
    print_message("an idle connection has %ld bytes\n", each);
    assert_true(each < IDLE_BYTES);
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(rig.pool, &stats);
    assert_int_equal(stats.held, 0);
    for (int i = 0; i < IDLE; i++)
        tls_end_close(&ends[i], rig.loop);
    tls_pki_close(&pki);
    loop_rig_close(&rig);
}

static void an_idle_connection_is_small(void **state) {
    (void)state;
    /* Such a limit makes the last record's message one of keys. */
    const sluice_tls_context_options options = {.size = sizeof options, .rekey_records = 3};
    check_idle(NULL);
    check_idle(&options);
}

/* OpenSSL keeps the lists of a hello as long as the connection: handshake_limit bounds them. */
static void a_long_hello_costs_what_is_allowed(void **state) {
    (void)state;
    enum { CONNECTIONS = 8, NAME = 255, LIMIT = 16384 };
    static const struct {
        size_t limit; /* 0: the default */
        unsigned names;
    } cases[] = {{LIMIT, 1}, {LIMIT, 60}, {0, 250}};
    static uint8_t list[256 * (NAME + 1)];
    loop_rig rig;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    memset(list, NAME, sizeof list);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sluice_tls_context_options options = {.size = sizeof options, .handshake_limit = cases[i].limit};
        tls_end ends[CONNECTIONS] = {0};
        int fds[CONNECTIONS][2];
        tls_pki pki;
        tls_pki_open(&pki, &options, NULL);
        assert_true(talk(rig.loop, &pki));
        long before = heap.live;
        for (int j = 0; j < CONNECTIONS; j++) {
            tls_peer peer;
            sockets_tcp_pair(fds[j]);
            tls_end_open(&ends[j], rig.loop, fds[j][0], pki.server, NULL);
            tls_peer_open(&peer, rig.loop, fds[j][1], false);
            assert_int_equal(SSL_set_alpn_protos(peer.ssl, list, cases[i].names * (NAME + 1)), 0);
            assert_int_equal(tls_peer_handshake(&peer), 1);
            tls_end_until_open(&ends[j], rig.loop);
            turn_through(rig.loop, 3);
            tls_peer_close(&peer);
        }
        long each = (heap.live - before) / CONNECTIONS;
        print_message("%u bytes of names in a hello: %ld bytes\n", cases[i].names * (NAME + 1), each);
        assert_true(each < IDLE_BYTES + (long)(cases[i].limit ? cases[i].limit : 65536));
        for (int j = 0; j < CONNECTIONS; j++) {
            tls_end_close(&ends[j], rig.loop);
            close(fds[j][1]);
        }
        tls_pki_close(&pki);
    }
    loop_rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_bear_each_failure),
        cmocka_unit_test(connections_bear_each_failure),
        cmocka_unit_test(an_idle_connection_is_small),
        cmocka_unit_test(a_long_hello_costs_what_is_allowed),
    };
    if (CRYPTO_set_mem_functions(ssl_malloc, ssl_realloc, ssl_free) != 1)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
