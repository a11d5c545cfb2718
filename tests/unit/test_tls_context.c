/*
 * Contexts: certificates by name and key type, application protocols, session tickets, and which
 * certificates of the other side are accepted.
 */
#include <sluice/tls.h>

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <openssl/err.h>
#include <openssl/pem.h>

#include <sluice/loop.h>

#include "support/tls/peer.h"
#include "support/tls/rig.h"

enum { GUARD = 60, SEED = 5, VALID_S = 5 };

/* A connection between a stage and OpenSSL, or between two stages. */
typedef struct two_sides {
    sluice_loop *loop;
    tls_end server, client;
    tls_peer peer;
} two_sides;

static void link_ends(two_sides *l, sluice_loop *loop, sluice_tls_context *server, sluice_tls_context *client,
                      const char *name) {
    int fds[2];
    *l = (two_sides){.loop = loop, .peer.fd = -1};
    sockets_tcp_pair(fds);
    tls_end_open(&l->server, loop, fds[0], server, NULL);
    if (client)
        tls_end_open(&l->client, loop, fds[1], client, name);
    else
        tls_peer_open(&l->peer, loop, fds[1], false);
}

static void link_close(two_sides *l) {
    if (l->client.conn || l->client.closed)
        tls_end_close(&l->client, l->loop);
    tls_end_close(&l->server, l->loop);
    if (l->peer.ssl) {
        close(l->peer.fd);
        tls_peer_close(&l->peer);
    }
}

/* Until both ends are open, or one has failed. */
static bool link_opens(two_sides *l) {
    while (!l->client.closed && !l->server.closed) {
        if (sluice_tls_get_state(l->client.tls) == SLUICE_TLS_OPEN &&
            sluice_tls_get_state(l->server.tls) == SLUICE_TLS_OPEN)
            return true;
        turn(l->loop);
    }
    tls_end_close(&l->client, l->loop);
    tls_end_close(&l->server, l->loop);
    return false;
}

static sluice_tls_context *server_of(const sluice_tls_context_options *options, const made_certificate *certificate) {
    sluice_tls_context *context;
    assert_int_equal(sluice_tls_context_new(options, &context), 0);
    sluice_tls_certificate option = certificate_option(certificate, NULL);
    assert_int_equal(sluice_tls_context_add_certificate(context, &option), 0);
    return context;
}

static int add(sluice_tls_context *context, const made_certificate *certificate, const char *name) {
    sluice_tls_certificate option = certificate_option(certificate, name);
    return sluice_tls_context_add_certificate(context, &option);
}

static made_certificate make(const char *name, bool rsa) {
    return certificate_make(&(certificate_form){.name = name, .rsa = rsa});
}

/* ---- Certificates ---- */

static void certificates_are_checked(void **state) {
    (void)state;
    made_certificate a = make("a", false), b = make("b", false), rsa = make("a", true);
    sluice_tls_context *context;
    assert_int_equal(sluice_tls_context_new(NULL, &context), 0);
    sluice_tls_certificate mixed = certificate_option(&a, NULL);
    mixed.key = b.key_pem;
    mixed.key_length = strlen(b.key_pem);
    assert_int_equal(sluice_tls_context_add_certificate(context, &mixed), -EKEYREJECTED);
    sluice_tls_certificate broken = certificate_option(&a, NULL);
    broken.chain_length /= 2;
    assert_int_equal(sluice_tls_context_add_certificate(context, &broken), -EPROTO);
    broken = certificate_option(&a, NULL);
    broken.key = a.chain_pem;
    broken.key_length = strlen(a.chain_pem);
    assert_int_equal(sluice_tls_context_add_certificate(context, &broken), -EPROTO);
    broken.key = NULL;
    assert_int_equal(sluice_tls_context_add_certificate(context, &broken), -EINVAL);
    broken.key_path = "/nowhere/at/all";
    assert_int_equal(sluice_tls_context_add_certificate(context, &broken), -ENOENT);
    broken.key_path = "/tmp";
    assert_true(sluice_tls_context_add_certificate(context, &broken) < 0);
    broken.size = 0;
    assert_int_equal(sluice_tls_context_add_certificate(context, &broken), -EINVAL);
    sluice_tls_certificate_info info = {.size = sizeof info};
    assert_int_equal(sluice_tls_context_get_certificate(context, 0, &info), -ENOENT);
    /* One of each type for a name; those without one have their own. */
    assert_int_equal(add(context, &a, "a.example"), 0);
    assert_int_equal(add(context, &b, "A.EXAMPLE"), -EEXIST);
    assert_int_equal(add(context, &rsa, "a.example"), 0);
    assert_int_equal(add(context, &b, NULL), 0);
    assert_int_equal(add(context, &a, NULL), 0);
    assert_int_equal(sluice_tls_context_get_certificate(context, 2, &info), 0);
    assert_null(info.name);
    assert_string_equal(info.subject, "CN=b");
    uint8_t hash[SLUICE_TLS_HASH];
    certificate_hash(&b, hash);
    assert_memory_equal(info.hash, hash, sizeof hash);
    assert_true(info.expires > time(NULL) + 80000 && info.expires < time(NULL) + 90000);
    assert_int_equal(sluice_tls_context_get_certificate(context, 1, &info), 0);
    assert_string_equal(info.name, "a.example");
    assert_int_equal(sluice_tls_context_get_certificate(context, 4, &info), -ENOENT);
    sluice_tls_context_unref(context);
    certificate_free(&a);
    certificate_free(&b);
    certificate_free(&rsa);
}

static void a_key_with_a_password_is_refused(void **state) {
    (void)state;
    made_certificate a = make("a", false);
    BIO *bio = BIO_new(BIO_s_mem());
    char *bytes;
    assert_int_equal(
        PEM_write_bio_PrivateKey(bio, a.key, EVP_aes_128_cbc(), (const unsigned char *)"secret", 6, NULL, NULL), 1);
    sluice_tls_certificate option = certificate_option(&a, NULL);
    option.key_length = (size_t)BIO_get_mem_data(bio, &bytes);
    option.key = bytes;
    sluice_tls_context *context;
    assert_int_equal(sluice_tls_context_new(NULL, &context), 0);
    assert_int_equal(sluice_tls_context_add_certificate(context, &option), -EACCES);
    sluice_tls_context_unref(context);
    BIO_free(bio);
    certificate_free(&a);
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static void files_are_read(void **state) {
    (void)state;
    char folder[] = "/tmp/sluice-tls-XXXXXX", chain[64], key[64], ca[64];
    assert_non_null(mkdtemp(folder));
    snprintf(chain, sizeof chain, "%s/chain", folder);
    snprintf(key, sizeof key, "%s/key", folder);
    snprintf(ca, sizeof ca, "%s/ca", folder);
    made_certificate root = certificate_make(&(certificate_form){.name = "root", .is_ca = true});
    made_certificate middle = certificate_make(&(certificate_form){.name = "middle", .is_ca = true, .issuer = &root});
    made_certificate leaf = certificate_make(
        &(certificate_form){.name = "leaf", .alternatives = "DNS:leaf", .issuer = &middle});
    char both[8192];
    snprintf(both, sizeof both, "%s%s", leaf.chain_pem, middle.chain_pem);
    write_file(chain, both);
    write_file(key, leaf.key_pem);
    write_file(ca, root.chain_pem);
    loop_rig rig;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    sluice_tls_context *server, *client;
    sluice_tls_context_options options = {.size = sizeof options, .role = SLUICE_TLS_CLIENT, .ca_path = ca};
    assert_int_equal(sluice_tls_context_new(NULL, &server), 0);
    assert_int_equal(sluice_tls_context_new(&options, &client), 0);
    sluice_tls_certificate option = {.size = sizeof option, .chain_path = chain, .key_path = key};
    assert_int_equal(sluice_tls_context_add_certificate(server, &option), 0);
    two_sides l;
    link_ends(&l, rig.loop, server, client, "leaf");
    assert_true(link_opens(&l));
    link_close(&l);
    options.ca_path = key; /* no certificate in it */
    sluice_tls_context *none = NULL;
    assert_int_equal(sluice_tls_context_new(&options, &none), -EPROTO);
    options.ca_path = "/nowhere/at/all";
    assert_int_equal(sluice_tls_context_new(&options, &none), -ENOENT);
    assert_null(none);
    sluice_tls_context_unref(server);
    sluice_tls_context_unref(client);
    loop_rig_close(&rig);
    unlink(chain), unlink(key), unlink(ca), rmdir(folder);
    certificate_free(&root);
    certificate_free(&middle);
    certificate_free(&leaf);
}

/* The common name of what a client with this server name is sent. */
static void expect_choice(sluice_loop *loop, sluice_tls_context *server, const char *name, bool rsa_only,
                          const char *expected) {
    two_sides l;
    char got[64];
    link_ends(&l, loop, server, NULL, NULL);
    if (name)
        SSL_set_tlsext_host_name(l.peer.ssl, name);
    if (rsa_only) {
        SSL_set_max_proto_version(l.peer.ssl, TLS1_2_VERSION);
        SSL_set_cipher_list(l.peer.ssl, "ECDHE-RSA-AES128-GCM-SHA256");
    }
    assert_int_equal(tls_peer_handshake(&l.peer), 1);
    X509 *certificate = SSL_get0_peer_certificate(l.peer.ssl);
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, got, sizeof got);
    assert_string_equal(got, expected);
    sluice_tls_info info = {.size = sizeof info};
    tls_end_until_open(&l.server, loop);
    assert_int_equal(sluice_tls_get_info(l.server.tls, &info), 0);
    if (name)
        assert_string_equal(info.server_name, name);
    else
        assert_null(info.server_name);
    link_close(&l);
}

static void names_choose_certificates(void **state) {
    (void)state;
    loop_rig rig;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    made_certificate first = make("first", false), fallback = make("fallback", false), star = make("star", false),
                     exact = make("exact", false), exact_rsa = make("exact-rsa", true);
    made_certificate own = certificate_make(
        &(certificate_form){.name = "own", .alternatives = "DNS:own.example,DNS:*.own.example"});
    sluice_tls_context *server;
    assert_int_equal(sluice_tls_context_new(NULL, &server), 0);
    assert_int_equal(add(server, &first, "first.example"), 0);
    expect_choice(rig.loop, server, "other.example", false, "first");
    sluice_tls_context_unref(server);
    assert_int_equal(sluice_tls_context_new(NULL, &server), 0);
    assert_int_equal(add(server, &first, "first.example"), 0);
    assert_int_equal(add(server, &fallback, NULL), 0);
    assert_int_equal(add(server, &star, "*.example.org"), 0);
    assert_int_equal(add(server, &exact, "exact.example.org"), 0);
    assert_int_equal(add(server, &exact_rsa, "exact.example.org"), 0);
    assert_int_equal(add(server, &own, NULL), 0);
    expect_choice(rig.loop, server, NULL, false, "fallback");
    expect_choice(rig.loop, server, "unknown", false, "fallback");
    expect_choice(rig.loop, server, "first.example", false, "first");
    expect_choice(rig.loop, server, "FIRST.example", false, "first");
    expect_choice(rig.loop, server, "a.example.org", false, "star");
    expect_choice(rig.loop, server, "a.b.example.org", false, "fallback");
    expect_choice(rig.loop, server, "example.org", false, "fallback");
    expect_choice(rig.loop, server, "exact.example.org", false, "exact");
    expect_choice(rig.loop, server, "exact.example.org", true, "exact-rsa");
    expect_choice(rig.loop, server, "own.example", false, "own");
    expect_choice(rig.loop, server, "a.own.example", false, "own");
    assert_int_equal(add(server, &first, "late.example"), -EBUSY);
    sluice_tls_context_unref(server);
    certificate_free(&first), certificate_free(&fallback), certificate_free(&star);
    certificate_free(&exact), certificate_free(&exact_rsa), certificate_free(&own);
    loop_rig_close(&rig);
}

static void a_server_needs_a_certificate(void **state) {
    (void)state;
    loop_rig rig;
    two_sides l;
    sluice_tls_context *server;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    assert_int_equal(sluice_tls_context_new(NULL, &server), 0);
    link_ends(&l, rig.loop, server, NULL, NULL);
    assert_true(tls_peer_handshake(&l.peer) < 0);
    turn_until(rig.loop, &l.server.closed);
    assert_int_equal(l.server.error, -ENOENT);
    assert_int_equal(l.server.detail, SLUICE_TLS_DETAIL_NO_CERTIFICATE);
    link_close(&l);
    sluice_tls_context_unref(server);
    loop_rig_close(&rig);
}

/* ---- Versions and protocols ---- */

static void options_are_checked(void **state) {
    (void)state;
    const uint8_t pin[SLUICE_TLS_HASH] = {0};
    const sluice_tls_context_options wrong[] = {
        {.size = 0},
        {.size = sizeof *wrong, .role = 2},
        {.size = sizeof *wrong, .verify = 4},
        {.size = sizeof *wrong, .min_version = SLUICE_TLS_1_3, .max_version = SLUICE_TLS_1_2},
        {.size = sizeof *wrong, .min_version = 0x0302},
        {.size = sizeof *wrong, .max_version = 0x0305},
        {.size = sizeof *wrong, .verify = SLUICE_TLS_VERIFY_REQUIRED},
        {.size = sizeof *wrong, .verify = SLUICE_TLS_VERIFY_OPTIONAL},
        {.size = sizeof *wrong, .ca = pin, .ca_path = "a", .ca_length = 1},
        {.size = sizeof *wrong, .verify = SLUICE_TLS_VERIFY_REQUIRED, .ca_path = "/dev/null", .ca_system = true},
        {.size = sizeof *wrong, .pin_count = 1},
        {.size = sizeof *wrong, .pins = pin, .pin_count = SLUICE_TLS_PINS_MAX + 1},
        {.size = sizeof *wrong, .alpn = ""},
        {.size = sizeof *wrong, .alpn = "a,,b"},
        {.size = sizeof *wrong, .alpn = "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q"},
        {.size = sizeof *wrong, .ticket_seconds = 604801},
        {.size = sizeof *wrong, .queue_limit = SLUICE_TLS_QUEUE_MIN - 1},
        {.size = sizeof *wrong, .rekey_records = (1 << 24) + 1},
        {.size = sizeof *wrong, .sessions = 1},
        {.size = sizeof *wrong, .role = SLUICE_TLS_CLIENT, .sessions = SLUICE_TLS_SESSIONS_MAX + 1},
    };
    sluice_tls_context *context = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(sluice_tls_context_new(&wrong[i], &context), -EINVAL);
    assert_null(context);
    const sluice_tls_context_options right = {.size = sizeof right,
                                              .alpn = "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p",
                                              .ticket_seconds = 604800,
                                              .queue_limit = SLUICE_TLS_QUEUE_MIN,
                                              .rekey_records = 1 << 24};
    assert_int_equal(sluice_tls_context_new(&right, &context), 0);
    assert_int_equal(sluice_tls_context_rotate_tickets(context), 0);
    sluice_tls_context_unref(context);
    const sluice_tls_context_options most = {
        .size = sizeof most, .role = SLUICE_TLS_CLIENT, .sessions = SLUICE_TLS_SESSIONS_MAX};
    assert_int_equal(sluice_tls_context_new(&most, &context), 0);
    assert_int_equal(sluice_tls_context_rotate_tickets(context), 0);
    sluice_tls_context_unref(context);
}

static void versions_have_to_meet(void **state) {
    (void)state;
    loop_rig rig;
    two_sides l;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    made_certificate leaf = make("leaf", false);
    const sluice_tls_context_options newest = {.size = sizeof newest, .min_version = SLUICE_TLS_1_3};
    sluice_tls_context *server = server_of(&newest, &leaf);
    link_ends(&l, rig.loop, server, NULL, NULL);
    SSL_set_max_proto_version(l.peer.ssl, TLS1_2_VERSION);
    assert_int_equal(tls_peer_handshake(&l.peer), -SSL_ERROR_SSL);
    turn_until(rig.loop, &l.server.closed);
    assert_int_equal(l.server.error, -EPROTONOSUPPORT);
    assert_int_equal(l.server.detail, SLUICE_TLS_DETAIL_VERSION);
    link_close(&l);
    sluice_tls_context_unref(server);
    /* TLS 1.1 and ciphers without forward secrecy or AEAD are not spoken. */
    server = server_of(NULL, &leaf);
    static const char *const weak[] = {"ECDHE-ECDSA-AES128-SHA256", "AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-SHA"};
    for (size_t i = 0; i < sizeof weak / sizeof *weak; i++) {
        link_ends(&l, rig.loop, server, NULL, NULL);
        SSL_set_max_proto_version(l.peer.ssl, TLS1_2_VERSION);
        assert_int_equal(SSL_set_cipher_list(l.peer.ssl, weak[i]), 1);
        assert_int_equal(tls_peer_handshake(&l.peer), -SSL_ERROR_SSL);
        turn_until(rig.loop, &l.server.closed);
        assert_int_equal(l.server.detail, SLUICE_TLS_DETAIL_NO_SHARED);
        link_close(&l);
    }
    link_ends(&l, rig.loop, server, NULL, NULL);
    SSL_set_security_level(l.peer.ssl, 0);
    SSL_set_min_proto_version(l.peer.ssl, TLS1_VERSION);
    SSL_set_max_proto_version(l.peer.ssl, TLS1_1_VERSION);
    SSL_set_cipher_list(l.peer.ssl, "ALL:@SECLEVEL=0");
    assert_int_equal(tls_peer_handshake(&l.peer), -SSL_ERROR_SSL);
    turn_until(rig.loop, &l.server.closed);
    assert_int_equal(l.server.error, -EPROTONOSUPPORT);
    link_close(&l);
    /* Groups: one that we do not use. */
    link_ends(&l, rig.loop, server, NULL, NULL);
    assert_int_equal(SSL_set1_groups_list(l.peer.ssl, "P-521"), 1);
    assert_int_equal(tls_peer_handshake(&l.peer), -SSL_ERROR_SSL);
    turn_until(rig.loop, &l.server.closed);
    assert_int_equal(l.server.detail, SLUICE_TLS_DETAIL_NO_SHARED);
    link_close(&l);
    sluice_tls_context_unref(server);
    certificate_free(&leaf);
    loop_rig_close(&rig);
}

static void expect_alpn(sluice_loop *loop, const tls_pki *pki, const char *server_list, const char *client_list,
                        const char *expected) {
    sluice_tls_context_options ours = {.size = sizeof ours, .alpn = server_list};
    sluice_tls_context_options theirs = tls_client_options(&pki->ca);
    theirs.alpn = client_list;
    sluice_tls_context *server = server_of(&ours, &pki->leaf), *client;
    assert_int_equal(sluice_tls_context_new(&theirs, &client), 0);
    two_sides l;
    sluice_tls_info info = {.size = sizeof info};
    link_ends(&l, loop, server, client, "localhost");
    bool opens = link_opens(&l);
    assert_int_equal(opens, strcmp(expected, "refused") != 0);
    if (opens) {
        const tls_end *ends[] = {&l.server, &l.client};
        for (int i = 0; i < 2; i++) {
            assert_int_equal(sluice_tls_get_info(ends[i]->tls, &info), 0);
            assert_string_equal(info.alpn ? info.alpn : "none", expected);
        }
    } else {
        assert_int_equal(l.server.detail, SLUICE_TLS_DETAIL_ALPN);
        assert_int_equal(l.client.detail, SLUICE_TLS_DETAIL_ALERT);
        assert_int_equal(l.client.alert, SSL_AD_NO_APPLICATION_PROTOCOL);
    }
    link_close(&l);
    sluice_tls_context_unref(server);
    sluice_tls_context_unref(client);
}

static void protocols_are_chosen(void **state) {
    (void)state;
    loop_rig rig;
    tls_pki pki;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    tls_pki_open(&pki, NULL, NULL);
    expect_alpn(rig.loop, &pki, "h2,http/1.1", "http/1.1", "http/1.1");
    expect_alpn(rig.loop, &pki, "h2,http/1.1", "http/1.1,h2", "h2");
    expect_alpn(rig.loop, &pki, "h2,http/1.1", NULL, "none");
    expect_alpn(rig.loop, &pki, NULL, "h2", "none");
    expect_alpn(rig.loop, &pki, "h2", "http/1.1", "refused");
    tls_pki_close(&pki);
    loop_rig_close(&rig);
}

/* ---- Tickets ---- */

/* A handshake, with a session to resume or none; what the client has afterwards. */
static SSL_SESSION *visit(sluice_loop *loop, sluice_tls_context *server, int version, SSL_SESSION *session,
                          bool expect_resumed) {
    two_sides l;
    uint8_t bytes[16] = {0};
    link_ends(&l, loop, server, NULL, NULL);
    SSL_set_max_proto_version(l.peer.ssl, version);
    SSL_set_tlsext_host_name(l.peer.ssl, "leaf");
    if (session) {
        assert_int_equal(SSL_set_session(l.peer.ssl, session), 1);
        SSL_SESSION_free(session);
    }
    assert_int_equal(tls_peer_handshake(&l.peer), 1);
    tls_end_until_open(&l.server, loop);
    assert_int_equal(SSL_session_reused(l.peer.ssl), expect_resumed);
    sluice_tls_info info = {.size = sizeof info};
    assert_int_equal(sluice_tls_get_info(l.server.tls, &info), 0);
    assert_int_equal(info.resumed, expect_resumed);
    /* The tickets of TLS 1.3 come before data. */
    assert_int_equal(sluice_tls_send(l.server.tls, &(struct iovec){bytes, sizeof bytes}, 1, NULL), 0);
    tls_peer_read(&l.peer, bytes, sizeof bytes);
    SSL_SESSION *next = SSL_get1_session(l.peer.ssl);
    SSL_shutdown(l.peer.ssl);
    link_close(&l);
    return next;
}

static bool is_same_ticket(const SSL_SESSION *a, const SSL_SESSION *b) {
    const unsigned char *ticket[2];
    size_t length[2];
    SSL_SESSION_get0_ticket(a, &ticket[0], &length[0]);
    SSL_SESSION_get0_ticket(b, &ticket[1], &length[1]);
    return length[0] == length[1] && memcmp(ticket[0], ticket[1], length[0]) == 0;
}

/* Early data could be replayed, and the length of what is compressed tells about it. */
static void neither_early_data_nor_compression(void **state) {
    (void)state;
    loop_rig rig;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    made_certificate leaf = make("leaf", false);
    sluice_tls_context *server = server_of(NULL, &leaf);
    for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
        SSL_SESSION *session = visit(rig.loop, server, version, NULL, false);
        for (int i = 0; i < 2; i++) {
            assert_true(SSL_SESSION_has_ticket(session));
            assert_int_equal(SSL_SESSION_get_max_early_data(session), 0);
            assert_int_equal(SSL_SESSION_get_compress_id(session), 0);
            session = visit(rig.loop, server, version, session, true);
        }
        SSL_SESSION_free(session);
    }
    /* So OpenSSL's clients do not even send it. */
    SSL_SESSION *session = visit(rig.loop, server, TLS1_3_VERSION, NULL, false);
    two_sides l;
    size_t written;
    link_ends(&l, rig.loop, server, NULL, NULL);
    SSL_set_tlsext_host_name(l.peer.ssl, "leaf");
    assert_int_equal(SSL_set_session(l.peer.ssl, session), 1);
    assert_int_equal(SSL_write_early_data(l.peer.ssl, "early", 5, &written), 0);
    link_close(&l);
    SSL_SESSION_free(session);
    sluice_tls_context_unref(server);
    certificate_free(&leaf);
    loop_rig_close(&rig);
}

/* In TLS 1.3 each connection brings another ticket, as each is used once. */
static void tickets_are_renewed(void **state) {
    (void)state;
    loop_rig rig;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    made_certificate leaf = make("leaf", false);
    for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
        sluice_tls_context *server = server_of(NULL, &leaf);
        SSL_SESSION *session = visit(rig.loop, server, version, NULL, false);
        for (int i = 0; i < 3; i++) {
            SSL_SESSION *before = session;
            SSL_SESSION_up_ref(before);
            session = visit(rig.loop, server, version, session, true);
            assert_int_equal(is_same_ticket(before, session), version == TLS1_2_VERSION);
            SSL_SESSION_free(before);
        }
        SSL_SESSION_free(session);
        sluice_tls_context_unref(server);
    }
    certificate_free(&leaf);
    loop_rig_close(&rig);
}

static void tickets_resume_and_rotate(void **state) {
    (void)state;
    loop_rig rig;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    made_certificate leaf = make("leaf", false);
    for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
        sluice_tls_context *server = server_of(NULL, &leaf);
        SSL_SESSION *session = visit(rig.loop, server, version, NULL, false);
        session = visit(rig.loop, server, version, session, true);
        /* The previous key still opens tickets, and the client gets one of the new key. */
        assert_int_equal(sluice_tls_context_rotate_tickets(server), 0);
        session = visit(rig.loop, server, version, session, true);
        assert_int_equal(sluice_tls_context_rotate_tickets(server), 0);
        session = visit(rig.loop, server, version, session, true);
        /* The one before does not. */
        assert_int_equal(sluice_tls_context_rotate_tickets(server), 0);
        assert_int_equal(sluice_tls_context_rotate_tickets(server), 0);
        session = visit(rig.loop, server, version, session, false);
        /* A context that replaces this one continues its keys, another one does not. */
        sluice_tls_context_options options = {.size = sizeof options, .ticket_source = server};
        sluice_tls_context *next = server_of(&options, &leaf), *other = server_of(NULL, &leaf);
        sluice_tls_context_unref(server);
        session = visit(rig.loop, next, version, session, true);
        session = visit(rig.loop, other, version, session, false);
        sluice_tls_context_unref(next);
        sluice_tls_context_unref(other);
        options = (sluice_tls_context_options){.size = sizeof options, .no_tickets = true};
        server = server_of(&options, &leaf);
        SSL_SESSION_free(session);
        session = visit(rig.loop, server, version, NULL, false);
        assert_false(SSL_SESSION_has_ticket(session));
        SSL_SESSION_free(session);
        sluice_tls_context_unref(server);
    }
    certificate_free(&leaf);
    loop_rig_close(&rig);
}

/* ---- Verification ---- */

static void expect_server(sluice_loop *loop, const made_certificate *leaf, const sluice_tls_context_options *rules,
                          const char *name, sluice_tls_detail expected) {
    sluice_tls_context *server = server_of(NULL, leaf), *client;
    two_sides l;
    assert_int_equal(sluice_tls_context_new(rules, &client), 0);
    link_ends(&l, loop, server, client, name);
    bool opens = link_opens(&l);
    assert_int_equal(opens, expected == SLUICE_TLS_DETAIL_NONE);
    if (!opens) {
        assert_int_equal(l.client.error, -EKEYREJECTED);
        assert_int_equal(l.client.detail, expected);
        assert_int_equal(l.server.error, -EPROTO);
        assert_int_equal(l.server.detail, SLUICE_TLS_DETAIL_ALERT);
        assert_true(l.server.alert > 0 && strlen(l.client.reason) > 5);
    }
    link_close(&l);
    sluice_tls_context_unref(server);
    sluice_tls_context_unref(client);
}

static void clients_verify_servers(void **state) {
    (void)state;
    loop_rig rig;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    made_certificate ca = certificate_make(&(certificate_form){.name = "CA", .is_ca = true});
    made_certificate other = certificate_make(&(certificate_form){.name = "Other CA", .is_ca = true});
    made_certificate good = certificate_make(&(certificate_form){
        .name = "good", .alternatives = "DNS:good.example,DNS:*.good.example,IP:127.0.0.1,IP:::1", .issuer = &ca});
    made_certificate old = certificate_make(&(certificate_form){
        .name = "old", .alternatives = "DNS:good.example", .issuer = &ca, .from = -7200, .to = -3600});
    made_certificate early = certificate_make(&(certificate_form){
        .name = "early", .alternatives = "DNS:good.example", .issuer = &ca, .from = 3600, .to = 7200});
    made_certificate alone = certificate_make(&(certificate_form){.name = "alone", .alternatives = "DNS:good.example"});
    sluice_tls_context_options trust = tls_client_options(&ca), wrong = tls_client_options(&other);
    expect_server(rig.loop, &good, &trust, "good.example", SLUICE_TLS_DETAIL_NONE);
    expect_server(rig.loop, &good, &trust, "GOOD.example", SLUICE_TLS_DETAIL_NONE);
    expect_server(rig.loop, &good, &trust, "a.good.example", SLUICE_TLS_DETAIL_NONE);
    expect_server(rig.loop, &good, &trust, "127.0.0.1", SLUICE_TLS_DETAIL_NONE);
    expect_server(rig.loop, &good, &trust, "::1", SLUICE_TLS_DETAIL_NONE);
    expect_server(rig.loop, &good, &trust, "a.b.good.example", SLUICE_TLS_DETAIL_NAME);
    expect_server(rig.loop, &good, &trust, "bad.example", SLUICE_TLS_DETAIL_NAME);
    expect_server(rig.loop, &good, &trust, "good", SLUICE_TLS_DETAIL_NAME); /* its common name */
    expect_server(rig.loop, &good, &trust, "127.0.0.2", SLUICE_TLS_DETAIL_NAME);
    expect_server(rig.loop, &good, &wrong, "good.example", SLUICE_TLS_DETAIL_UNTRUSTED);
    expect_server(rig.loop, &old, &trust, "good.example", SLUICE_TLS_DETAIL_EXPIRED);
    expect_server(rig.loop, &early, &trust, "good.example", SLUICE_TLS_DETAIL_EXPIRED);
    expect_server(rig.loop, &alone, &trust, "good.example", SLUICE_TLS_DETAIL_UNTRUSTED);
    /* The system's store knows none of them. */
    const sluice_tls_context_options system = {.size = sizeof system, .role = SLUICE_TLS_CLIENT};
    expect_server(rig.loop, &good, &system, "good.example", SLUICE_TLS_DETAIL_UNTRUSTED);
    /* A certificate that is trusted as it is, by name or by its hash. */
    const sluice_tls_context_options itself = tls_client_options(&alone);
    expect_server(rig.loop, &alone, &itself, "good.example", SLUICE_TLS_DETAIL_NONE);
    expect_server(rig.loop, &alone, &itself, "bad.example", SLUICE_TLS_DETAIL_NAME);
    uint8_t pins[2 * SLUICE_TLS_HASH] = {0};
    certificate_hash(&old, pins + SLUICE_TLS_HASH);
    const sluice_tls_context_options pinned = {
        .size = sizeof pinned, .role = SLUICE_TLS_CLIENT, .pins = pins, .pin_count = 2};
    expect_server(rig.loop, &old, &pinned, NULL, SLUICE_TLS_DETAIL_NONE);
    expect_server(rig.loop, &old, &pinned, "whatever", SLUICE_TLS_DETAIL_NONE);
    expect_server(rig.loop, &good, &pinned, "good.example", SLUICE_TLS_DETAIL_PIN);
    const sluice_tls_context_options none = {
        .size = sizeof none, .role = SLUICE_TLS_CLIENT, .verify = SLUICE_TLS_VERIFY_NONE};
    expect_server(rig.loop, &old, &none, NULL, SLUICE_TLS_DETAIL_NONE);
    certificate_free(&ca), certificate_free(&other), certificate_free(&good);
    certificate_free(&old), certificate_free(&early), certificate_free(&alone);
    loop_rig_close(&rig);
}

/* A server that verifies clients: what it makes of one with a certificate, or without. */
static void expect_client(sluice_loop *loop, sluice_tls_context *server, const tls_pki *pki,
                          const made_certificate *certificate, sluice_tls_detail expected) {
    sluice_tls_context_options rules = tls_client_options(&pki->ca);
    sluice_tls_context *client;
    two_sides l;
    assert_int_equal(sluice_tls_context_new(&rules, &client), 0);
    if (certificate)
        assert_int_equal(add(client, certificate, NULL), 0);
    link_ends(&l, loop, server, client, "localhost");
    l.client.stays = true;
    while (!l.server.closed && sluice_tls_get_state(l.server.tls) != SLUICE_TLS_OPEN)
        turn(loop);
    assert_int_equal(l.server.closed, expected != SLUICE_TLS_DETAIL_NONE);
    if (l.server.closed) {
        assert_int_equal(l.server.error, -EKEYREJECTED);
        assert_int_equal(l.server.detail, expected);
    } else {
        sluice_tls_info info = {.size = sizeof info};
        assert_int_equal(sluice_tls_get_info(l.server.tls, &info), 0);
        assert_int_equal(info.peer_verified, certificate != NULL);
        if (certificate) {
            uint8_t hash[SLUICE_TLS_HASH];
            certificate_hash(certificate, hash);
            assert_string_equal(info.peer_name, "camera 7");
            assert_memory_equal(info.peer_hash, hash, sizeof hash);
        } else {
            assert_null(info.peer_name);
        }
    }
    link_close(&l);
    sluice_tls_context_unref(client);
}

static void servers_verify_clients(void **state) {
    (void)state;
    loop_rig rig;
    tls_pki pki;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    tls_pki_open(&pki, NULL, NULL);
    made_certificate known = certificate_make(&(certificate_form){.name = "camera 7", .issuer = &pki.ca});
    made_certificate unknown = make("camera 7", false);
    made_certificate old = certificate_make(
        &(certificate_form){.name = "camera 7", .issuer = &pki.ca, .from = -7200, .to = -3600});
    sluice_tls_context_options rules = {.size = sizeof rules,
                                        .verify = SLUICE_TLS_VERIFY_REQUIRED,
                                        .ca = pki.ca.chain_pem,
                                        .ca_length = strlen(pki.ca.chain_pem)};
    for (sluice_tls_version version = SLUICE_TLS_1_2; version <= SLUICE_TLS_1_3; version++) {
        rules.max_version = version;
        rules.verify = SLUICE_TLS_VERIFY_REQUIRED;
        sluice_tls_context *strict = server_of(&rules, &pki.leaf);
        rules.verify = SLUICE_TLS_VERIFY_OPTIONAL;
        sluice_tls_context *lenient = server_of(&rules, &pki.leaf);
        expect_client(rig.loop, strict, &pki, &known, SLUICE_TLS_DETAIL_NONE);
        expect_client(rig.loop, strict, &pki, NULL, SLUICE_TLS_DETAIL_NO_PEER);
        expect_client(rig.loop, strict, &pki, &unknown, SLUICE_TLS_DETAIL_UNTRUSTED);
        expect_client(rig.loop, strict, &pki, &old, SLUICE_TLS_DETAIL_EXPIRED);
        expect_client(rig.loop, lenient, &pki, &known, SLUICE_TLS_DETAIL_NONE);
        expect_client(rig.loop, lenient, &pki, NULL, SLUICE_TLS_DETAIL_NONE);
        expect_client(rig.loop, lenient, &pki, &unknown, SLUICE_TLS_DETAIL_UNTRUSTED);
        sluice_tls_context_unref(strict);
        sluice_tls_context_unref(lenient);
    }
    certificate_free(&known), certificate_free(&unknown), certificate_free(&old);
    tls_pki_close(&pki);
    loop_rig_close(&rig);
}

/* A ticket from under other rules is none: a client without a certificate stays outside. */
static void tickets_do_not_evade_rules(void **state) {
    (void)state;
    loop_rig rig;
    tls_pki pki;
    loop_rig_open(&rig, NULL, NULL, GUARD);
    tls_pki_open(&pki, NULL, NULL);
    sluice_tls_context *open = server_of(NULL, &pki.leaf);
    sluice_tls_context_options rules = {.size = sizeof rules,
                                        .verify = SLUICE_TLS_VERIFY_REQUIRED,
                                        .ca = pki.ca.chain_pem,
                                        .ca_length = strlen(pki.ca.chain_pem),
                                        .ticket_source = open};
    sluice_tls_context *strict = server_of(&rules, &pki.leaf);
    for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
        SSL_SESSION *session = visit(rig.loop, open, version, NULL, false);
        two_sides l;
        link_ends(&l, rig.loop, strict, NULL, NULL);
        SSL_set_max_proto_version(l.peer.ssl, version);
        SSL_set_tlsext_host_name(l.peer.ssl, "leaf");
        assert_int_equal(SSL_set_session(l.peer.ssl, session), 1);
        tls_peer_handshake(&l.peer);
        turn_until(rig.loop, &l.server.closed);
        assert_int_equal(l.server.detail, SLUICE_TLS_DETAIL_NO_PEER);
        link_close(&l);
        SSL_SESSION_free(session);
    }
    sluice_tls_context_unref(open);
    sluice_tls_context_unref(strict);
    tls_pki_close(&pki);
    loop_rig_close(&rig);
}

/* The same with a certificate. NULL: it is rejected, as expired. */
static SSL_SESSION *visit_as(sluice_loop *loop, sluice_tls_context *server, int version,
                             const made_certificate *certificate, SSL_SESSION *session, bool expect_open) {
    two_sides l;
    uint8_t bytes[16] = {0};
    SSL_SESSION *next = NULL;
    bool resumes = session;
    link_ends(&l, loop, server, NULL, NULL);
    SSL_set_max_proto_version(l.peer.ssl, version);
    assert_int_equal(SSL_use_certificate(l.peer.ssl, certificate->x509), 1);
    assert_int_equal(SSL_use_PrivateKey(l.peer.ssl, certificate->key), 1);
    if (session) {
        assert_int_equal(SSL_set_session(l.peer.ssl, session), 1);
        SSL_SESSION_free(session);
    }
    tls_peer_handshake(&l.peer);
    while (!l.server.closed && sluice_tls_get_state(l.server.tls) == SLUICE_TLS_HANDSHAKE)
        turn(loop);
    if (expect_open) {
        assert_int_equal(sluice_tls_get_state(l.server.tls), SLUICE_TLS_OPEN);
        sluice_tls_info info = {.size = sizeof info};
        assert_int_equal(sluice_tls_get_info(l.server.tls, &info), 0);
        assert_int_equal(info.resumed, resumes);
        assert_true(info.peer_verified);
        assert_string_equal(info.peer_name, "camera 7");
        assert_int_equal(sluice_tls_send(l.server.tls, &(struct iovec){bytes, sizeof bytes}, 1, NULL), 0);
        tls_peer_read(&l.peer, bytes, sizeof bytes);
        next = SSL_get1_session(l.peer.ssl);
        SSL_shutdown(l.peer.ssl);
    } else {
        turn_until(loop, &l.server.closed);
        assert_int_equal(l.server.detail, SLUICE_TLS_DETAIL_EXPIRED);
    }
    link_close(&l);
    return next;
}

/* A ticket, and those that follow it, are no good once a certificate of the client's chain has
 * expired: its own, or its issuer's. */
static void tickets_expire_with_the_chain(void **state) {
    (void)state;
    loop_rig rig;
    tls_pki pki;
    char trusted[16384];
    loop_rig_open(&rig, NULL, NULL, GUARD);
    tls_pki_open(&pki, NULL, NULL);
    made_certificate ca = certificate_make(
        &(certificate_form){.name = "Brief CA", .is_ca = true, .from = -60, .to = VALID_S});
    made_certificate clients[] = {
        certificate_make(&(certificate_form){.name = "camera 7", .issuer = &ca}),
        certificate_make(&(certificate_form){.name = "camera 7", .issuer = &pki.ca, .from = -60, .to = VALID_S}),
    };
    int length = snprintf(trusted, sizeof trusted, "%s%s", pki.ca.chain_pem, ca.chain_pem);
    assert_true(length < (int)sizeof trusted);
    sluice_tls_context_options rules = {
        .size = sizeof rules, .verify = SLUICE_TLS_VERIFY_REQUIRED, .ca = trusted, .ca_length = (size_t)length};
    sluice_tls_context *server = server_of(&rules, &pki.leaf);
    SSL_SESSION *sessions[4];
    for (int i = 0; i < 4; i++) {
        sessions[i] = visit_as(rig.loop, server, TLS1_2_VERSION + i % 2, &clients[i / 2], NULL, true);
        sessions[i] = visit_as(rig.loop, server, TLS1_2_VERSION + i % 2, &clients[i / 2], sessions[i], true);
    }
    while (X509_cmp_current_time(X509_get0_notAfter(clients[1].x509)) > 0)
        usleep(50000);
    for (int i = 0; i < 4; i++)
        assert_null(visit_as(rig.loop, server, TLS1_2_VERSION + i % 2, &clients[i / 2], sessions[i], false));
    sluice_tls_context_unref(server);
    certificate_free(&ca);
    certificate_free(&clients[0]);
    certificate_free(&clients[1]);
    tls_pki_close(&pki);
    loop_rig_close(&rig);
}

/* ---- Threads ---- */

/*
 * liburing unmaps its rings by its own system call, which the thread sanitizer does not see: to it,
 * a ring that another thread maps at the same address is memory that both use. So one loop at a
 * time is made or freed; the context is used by all at once.
 */
static pthread_mutex_t rings = PTHREAD_MUTEX_INITIALIZER;

static void *connect_there(void *user) {
    const tls_pki *pki = user;
    loop_rig rig;
    pthread_mutex_lock(&rings);
    loop_rig_open(&rig, NULL, NULL, GUARD);
    pthread_mutex_unlock(&rings);
    for (int i = 0; i < 20; i++) {
        two_sides l;
        link_ends(&l, rig.loop, pki->server, pki->client, "localhost");
        if (!link_opens(&l))
            abort();
        link_close(&l);
        sluice_tls_context_rotate_tickets(pki->server);
    }
    pthread_mutex_lock(&rings);
    loop_rig_close(&rig);
    pthread_mutex_unlock(&rings);
    return NULL;
}

static void threads_share_a_context(void **state) {
    (void)state;
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    tls_pki pki;
    /* Tickets of TLS 1.2 come within the handshake. */
    const sluice_tls_context_options client = {
        .size = sizeof client, .max_version = SLUICE_TLS_1_2, .sessions = THREADS};
    tls_pki_open(&pki, NULL, &client);
    sluice_tls_context *server = sluice_tls_context_ref(pki.server);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, connect_there, &pki), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    tls_pki_close(&pki);
    sluice_tls_context_unref(server);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(certificates_are_checked),
        cmocka_unit_test(a_key_with_a_password_is_refused),
        cmocka_unit_test(files_are_read),
        cmocka_unit_test(names_choose_certificates),
        cmocka_unit_test(a_server_needs_a_certificate),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(versions_have_to_meet),
        cmocka_unit_test(protocols_are_chosen),
        cmocka_unit_test(tickets_resume_and_rotate),
        cmocka_unit_test(tickets_are_renewed),
        cmocka_unit_test(neither_early_data_nor_compression),
        cmocka_unit_test(clients_verify_servers),
        cmocka_unit_test(servers_verify_clients),
        cmocka_unit_test(tickets_do_not_evade_rules),
        cmocka_unit_test(tickets_expire_with_the_chain),
        cmocka_unit_test(threads_share_a_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
