/*
 * Resumption by clients: a server's sessions are used for the same name and port alone, those of
 * TLS 1.3 once; they end with the server's certificate and with a handshake that fails; and no more
 * are kept than are allowed.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/loop.h>

#include "support/tls/certificates.h"
#include "support/tls/peer.h"
#include "support/tls/rig.h"
#include "tls/sessions.h"

enum { GUARD = 60, SEED = 3, BYTES = 100, BRIEF_S = 5 };

/* A server for a.example to e.example, and a client that trusts it. */
typedef struct rigged {
    loop_rig rig;
    made_certificate ca, leaf;
    sluice_tls_context *server, *client;
} rigged;

static sluice_tls_context *client_of(const made_certificate *ca, size_t sessions, sluice_tls_version version) {
    sluice_tls_context *context;
    sluice_tls_context_options options = tls_client_options(ca);
    options.sessions = sessions;
    options.max_version = version;
    assert_int_equal(sluice_tls_context_new(&options, &context), 0);
    return context;
}

static sluice_tls_context *server_of(const made_certificate *certificate) {
    sluice_tls_context *context;
    assert_int_equal(sluice_tls_context_new(NULL, &context), 0);
    sluice_tls_certificate option = certificate_option(certificate, NULL);
    assert_int_equal(sluice_tls_context_add_certificate(context, &option), 0);
    return context;
}

/* @ca_s, @leaf_s: for how long the certificates are valid; 0: for a day. */
static void rigged_open_for(rigged *r, size_t sessions, sluice_tls_version version, long ca_s, long leaf_s) {
    loop_rig_open(&r->rig, NULL, NULL, GUARD);
    r->ca = certificate_make(&(certificate_form){.name = "CA", .is_ca = true, .from = ca_s > 0 ? -60 : 0, .to = ca_s});
    r->leaf = certificate_make(
        &(certificate_form){.name = "leaf",
                            .alternatives = "DNS:a.example,DNS:b.example,DNS:c.example,DNS:d.example,DNS:e.example",
                            .issuer = &r->ca,
                            .from = leaf_s > 0 ? -60 : 0,
                            .to = leaf_s});
    r->server = server_of(&r->leaf);
    r->client = client_of(&r->ca, sessions, version);
}

static void rigged_open(rigged *r, size_t sessions, sluice_tls_version version) {
    rigged_open_for(r, sessions, version, 0, 0);
}

static void rigged_close(rigged *r) {
    sluice_tls_context_unref(r->server);
    sluice_tls_context_unref(r->client);
    certificate_free(&r->ca);
    certificate_free(&r->leaf);
    loop_rig_close(&r->rig);
}

/* A connection, and how it is closed. */
typedef struct visited {
    tls_end server, client;
} visited;

/* Without a port, unless @by_tcp: then with one of its own. */
static void begin(visited *v, rigged *r, sluice_tls_context *client, const char *name, bool by_tcp) {
    int fds[2];
    *v = (visited){0};
    if (by_tcp)
        sockets_tcp_pair(fds);
    else
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    tls_end_open(&v->server, r->rig.loop, fds[0], r->server, NULL);
    v->server.seed = SEED;
    v->server.total = BYTES;
    tls_end_open(&v->client, r->rig.loop, fds[1], client, name);
    v->client.seed = SEED;
}

/* Data comes behind the tickets. Whether the session was resumed: by both sides' words. */
static bool finish(visited *v, rigged *r, bool notifies) {
    sluice_tls_info ours = {.size = sizeof ours}, theirs = {.size = sizeof theirs};
    tls_end_until_open(&v->client, r->rig.loop);
    tls_end_until_open(&v->server, r->rig.loop);
    tls_end_pump(&v->server);
    tls_end_until_received(&v->client, r->rig.loop, BYTES);
    assert_int_equal(sluice_tls_get_info(v->client.tls, &ours), 0);
    assert_int_equal(sluice_tls_get_info(v->server.tls, &theirs), 0);
    assert_int_equal(ours.resumed, theirs.resumed);
    /* A resumed session has its server's certificate. */
    uint8_t hash[SLUICE_TLS_HASH];
    certificate_hash(&r->leaf, hash);
    assert_true(ours.peer_verified);
    assert_memory_equal(ours.peer_hash, hash, sizeof hash);
    assert_string_equal(ours.peer_name, "leaf");
    bool resumed = ours.resumed;
    if (notifies)
        assert_int_equal(sluice_tls_finish(v->client.tls), 0);
    turn_through(r->rig.loop, 3);
    tls_end_close(&v->client, r->rig.loop);
    tls_end_close(&v->server, r->rig.loop);
    return resumed;
}

static bool visit_by(rigged *r, sluice_tls_context *client, const char *name) {
    visited v;
    begin(&v, r, client, name, false);
    return finish(&v, r, true);
}

static bool visit(rigged *r, const char *name) {
    return visit_by(r, r->client, name);
}

static void sessions_are_resumed(void **state) {
    (void)state;
    static const sluice_tls_version versions[] = {SLUICE_TLS_1_2, SLUICE_TLS_1_3};
    for (size_t i = 0; i < 2; i++) {
        rigged r;
        rigged_open(&r, 8, versions[i]);
        assert_false(visit(&r, "a.example"));
        for (int k = 0; k < 4; k++)
            assert_true(visit(&r, k % 2 ? "A.Example" : "a.example"));
        /* One that is cut leaves its session as it is. */
        visited v;
        begin(&v, &r, r.client, "a.example", false);
        assert_true(finish(&v, &r, false));
        assert_true(visit(&r, "a.example"));
        /* A server that has lost its keys makes another session. */
        assert_int_equal(sluice_tls_context_rotate_tickets(r.server), 0);
        assert_int_equal(sluice_tls_context_rotate_tickets(r.server), 0);
        assert_false(visit(&r, "a.example"));
        assert_true(visit(&r, "a.example"));
        rigged_close(&r);
    }
}

static void of_other_servers_are_not(void **state) {
    (void)state;
    rigged r;
    rigged_open(&r, 8, SLUICE_TLS_1_3);
    assert_false(visit(&r, "a.example"));
    assert_false(visit(&r, "b.example"));
    visited v;
    begin(&v, &r, r.client, "a.example", true);
    assert_false(finish(&v, &r, true));
    /* Other contexts have other rules, or none are kept. */
    sluice_tls_context *other = client_of(&r.ca, 8, 0), *none = client_of(&r.ca, 0, 0);
    assert_false(visit_by(&r, other, "a.example"));
    assert_false(visit_by(&r, none, "a.example"));
    assert_false(visit_by(&r, none, "a.example"));
    assert_true(visit_by(&r, other, "a.example"));
    assert_true(visit(&r, "a.example"));
    assert_true(visit(&r, "b.example"));
    sluice_tls_context_unref(other);
    sluice_tls_context_unref(none);
    rigged_close(&r);
}

/* Two connections at a time: in TLS 1.3 the second one finds nothing, in TLS 1.2 the same. */
static void sessions_of_tls_1_3_are_used_once(void **state) {
    (void)state;
    for (int is_13 = 0; is_13 < 2; is_13++) {
        rigged r;
        visited one, two;
        rigged_open(&r, 8, is_13 ? SLUICE_TLS_1_3 : SLUICE_TLS_1_2);
        assert_false(visit(&r, "a.example"));
        begin(&one, &r, r.client, "a.example", false);
        begin(&two, &r, r.client, "a.example", false);
        assert_true(finish(&one, &r, true));
        assert_int_equal(finish(&two, &r, true), !is_13);
        /* Both have brought one. */
        begin(&one, &r, r.client, "a.example", false);
        begin(&two, &r, r.client, "a.example", false);
        assert_true(finish(&one, &r, true));
        assert_true(finish(&two, &r, true));
        rigged_close(&r);
    }
}

static void their_number_is_bounded(void **state) {
    (void)state;
    static const char *const names[] = {"a.example", "b.example", "c.example", "d.example"};
    rigged r;
    rigged_open(&r, 3, SLUICE_TLS_1_2);
    for (int i = 0; i < 3; i++)
        assert_false(visit(&r, names[i]));
    for (int i = 0; i < 3; i++)
        assert_true(visit(&r, names[i]));
    assert_false(visit(&r, names[3]));
    /* The oldest has gone. */
    assert_true(visit(&r, names[1]));
    assert_true(visit(&r, names[2]));
    assert_true(visit(&r, names[3]));
    assert_false(visit(&r, names[0]));
    assert_false(visit(&r, names[1]));
    rigged_close(&r);
}

/* A connection that ends in its handshake: nothing of that server is tried again. */
static void a_failed_handshake_drops_them(void **state) {
    (void)state;
    static const char plain[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    rigged r;
    rigged_open(&r, 8, SLUICE_TLS_1_2);
    assert_false(visit(&r, "a.example"));
    assert_false(visit(&r, "b.example"));
    int fds[2];
    tls_end end = {0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    tls_end_open(&end, r.rig.loop, fds[1], r.client, "a.example");
    assert_int_equal(write(fds[0], plain, sizeof plain - 1), sizeof plain - 1);
    turn_until(r.rig.loop, &end.closed);
    assert_int_equal(end.error, -EPROTO);
    close(fds[0]);
    tls_end_close(&end, r.rig.loop);
    assert_true(visit(&r, "b.example"));
    assert_false(visit(&r, "a.example"));
    assert_true(visit(&r, "a.example"));
    rigged_close(&r);
}

/* The server is verified by its certificate's hash alone. */
static void pin(rigged *r, sluice_tls_version version) {
    uint8_t hash[SLUICE_TLS_HASH];
    certificate_hash(&r->leaf, hash);
    const sluice_tls_context_options options = {.size = sizeof options,
                                                .role = SLUICE_TLS_CLIENT,
                                                .max_version = version,
                                                .pins = hash,
                                                .pin_count = 1,
                                                .sessions = 8};
    sluice_tls_context_unref(r->client);
    assert_int_equal(sluice_tls_context_new(&options, &r->client), 0);
}

static void expect_expired(rigged *r) {
    visited v;
    begin(&v, r, r->client, "a.example", false);
    turn_until(r->rig.loop, &v.client.closed);
    assert_int_equal(v.client.detail, SLUICE_TLS_DETAIL_EXPIRED);
    tls_end_close(&v.client, r->rig.loop);
    tls_end_close(&v.server, r->rig.loop);
}

/* With whichever of its certificates expires first, also those that follow from a resumed one; not
 * where only a hash is compared. */
static void they_end_with_the_chain(void **state) {
    (void)state;
    static const sluice_tls_version versions[] = {SLUICE_TLS_1_2, SLUICE_TLS_1_3};
    static const struct {
        long ca_s, leaf_s;
        bool is_pinned;
    } rows[] = {{BRIEF_S, 0, false}, {0, BRIEF_S, false}, {0, BRIEF_S, true}};
    enum { ROWS = sizeof rows / sizeof *rows };
    rigged rigs[2][ROWS];
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < ROWS; k++) {
            rigged *r = &rigs[i][k];
            rigged_open_for(r, 8, versions[i], rows[k].ca_s, rows[k].leaf_s);
            if (rows[k].is_pinned)
                pin(r, versions[i]);
            assert_false(visit(r, "a.example"));
            assert_true(visit(r, "a.example"));
        }
    while (X509_cmp_current_time(X509_get0_notAfter(rigs[1][ROWS - 1].leaf.x509)) > 0)
        usleep(50000);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < ROWS; k++) {
            if (rows[k].is_pinned)
                assert_true(visit(&rigs[i][k], "a.example"));
            else
                expect_expired(&rigs[i][k]);
            rigged_close(&rigs[i][k]);
        }
}

/* ---- The store itself ---- */

/* Of OpenSSL's connection to a server with this certificate, which it does not verify. */
static SSL_SESSION *session_of(loop_rig *rig, const made_certificate *leaf, int version) {
    sluice_tls_context *server = server_of(leaf);
    uint8_t bytes[16] = {0};
    tls_end end = {0};
    tls_peer peer;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    tls_end_open(&end, rig->loop, fds[0], server, NULL);
    tls_peer_open(&peer, rig->loop, fds[1], false);
    SSL_set_max_proto_version(peer.ssl, version);
    assert_int_equal(tls_peer_handshake(&peer), 1);
    tls_end_until_open(&end, rig->loop);
    assert_int_equal(sluice_tls_send(end.tls, &(struct iovec){bytes, sizeof bytes}, 1, NULL), 0);
    tls_peer_read(&peer, bytes, sizeof bytes);
    SSL_SESSION *session = SSL_get1_session(peer.ssl);
    SSL_shutdown(peer.ssl);
    tls_end_close(&end, rig->loop);
    close(peer.fd);
    tls_peer_close(&peer);
    sluice_tls_context_unref(server);
    return session;
}

static bool has(tls_sessions *sessions, const struct tls_session_key *key) {
    SSL_SESSION *session = tls_sessions_take(sessions, key);
    SSL_SESSION_free(session);
    return session;
}

static void they_end_with_their_time(void **state) {
    (void)state;
    const struct tls_session_key key = {.name = "a.example", .port = 443};
    loop_rig rig;
    tls_sessions *sessions;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    made_certificate leaf = certificate_make(&(certificate_form){.name = "leaf"});
    SSL_SESSION *session = session_of(&rig, &leaf, TLS1_2_VERSION);
    assert_int_equal(tls_sessions_new(4, &sessions), 0);
    long lifetime = SSL_SESSION_get_timeout(session), hint = (long)SSL_SESSION_get_ticket_lifetime_hint(session);
    if (hint > 0 && hint < lifetime)
        lifetime = hint;
    /* A minute before its end, at the end, and made in the future by a clock that was set back. */
    const struct {
        long age;
        bool valid;
    } rows[] = {{0, true}, {lifetime - 60, true}, {lifetime, false}, {-60, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        SSL_SESSION_set_time(session, (long)time(NULL) - rows[i].age);
        tls_sessions_drop(sessions, &key);
        tls_sessions_put(sessions, &key, session);
        assert_int_equal(has(sessions, &key), rows[i].valid);
        assert_int_equal(has(sessions, &key), rows[i].valid); /* it stays */
    }
    SSL_SESSION_free(session);
    tls_sessions_free(sessions);
    certificate_free(&leaf);
    loop_rig_close(&rig);
}

static void of_a_server_are_two(void **state) {
    (void)state;
    const struct tls_session_key key = {.name = "a.example", .port = 443}, other = {.name = "a.example", .port = 444},
                                 none = {.port = 443};
    loop_rig rig;
    tls_sessions *sessions;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    made_certificate leaf = certificate_make(&(certificate_form){.name = "leaf"});
    SSL_SESSION *session = session_of(&rig, &leaf, TLS1_3_VERSION);
    assert_int_equal(tls_sessions_new(3, &sessions), 0);
    tls_sessions_put(sessions, &other, session);
    for (int i = 0; i < 5; i++)
        tls_sessions_put(sessions, &key, session);
    assert_true(has(sessions, &key));
    assert_true(has(sessions, &key));
    assert_false(has(sessions, &key));
    assert_true(has(sessions, &other));
    /* Without a name there is nothing to find it by. */
    tls_sessions_put(sessions, &none, session);
    assert_false(has(sessions, &none));
    SSL_SESSION_free(session);
    tls_sessions_free(sessions);
    tls_sessions_free(NULL);
    certificate_free(&leaf);
    loop_rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions_are_resumed),
        cmocka_unit_test(of_other_servers_are_not),
        cmocka_unit_test(sessions_of_tls_1_3_are_used_once),
        cmocka_unit_test(their_number_is_bounded),
        cmocka_unit_test(a_failed_handshake_drops_them),
        cmocka_unit_test(they_end_with_the_chain),
        cmocka_unit_test(they_end_with_their_time),
        cmocka_unit_test(of_a_server_are_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
