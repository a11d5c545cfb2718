/*
 * What a peer can make a TLS stage do is bounded: handshakes, records, key updates, answers that it
 * does not read. Keys are replaced in time. A pool without blocks delays and loses nothing.
 */
#include <sluice/tls.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <openssl/err.h>

#include <sluice/loop.h>

#include "support/tls/peer.h"
#include "support/tls/rig.h"

enum { GUARD = 120, SEED = 77, RECORDS = 50 };

/* A server's stage and OpenSSL as its client. */
typedef struct guarded {
    loop_rig rig;
    tls_pki pki;
    tls_end end;
    tls_peer peer;
} guarded;

static void guarded_begin_at(guarded *g, const sluice_tls_context_options *options, int version,
                             void pair(int fds[2])) {
    int fds[2];
    tls_pki_open(&g->pki, options, NULL);
    pair(fds);
    g->end.seed = SEED;
    tls_end_open(&g->end, g->rig.loop, fds[0], g->pki.server, NULL);
    tls_peer_open(&g->peer, g->rig.loop, fds[1], false);
    SSL_set_max_proto_version(g->peer.ssl, version);
}

static void guarded_begin(guarded *g, const sluice_tls_context_options *options, int version) {
    guarded_begin_at(g, options, version, sockets_tcp_pair);
}

static void guarded_open(guarded *g, const sluice_tls_context_options *options, int version) {
    *g = (guarded){0};
    loop_rig_open(&g->rig, NULL, NULL, GUARD);
    guarded_begin(g, options, version);
    assert_int_equal(tls_peer_handshake(&g->peer), 1);
    tls_end_until_open(&g->end, g->rig.loop);
}

static void guarded_close(guarded *g) {
    tls_end_close(&g->end, g->rig.loop);
    close(g->peer.fd);
    tls_peer_close(&g->peer);
    tls_pki_close(&g->pki);
    loop_rig_close(&g->rig);
}

/* A record of one byte to the peer. */
static int send_byte(guarded *g) {
    uint8_t byte;
    pattern_fill(SEED, g->end.sent, &byte, 1);
    int error = sluice_tls_send(g->end.tls, &(struct iovec){&byte, 1}, 1, NULL);
    g->end.sent += error == 0;
    return error;
}

/* A record of one byte from it. */
static void write_byte(guarded *g, uint64_t place) {
    uint8_t byte;
    pattern_fill(SEED, place, &byte, 1);
    assert_int_equal(SSL_write(g->peer.ssl, &byte, 1), 1);
}

static void sent_keys_are_replaced(void **state) {
    (void)state;
    const sluice_tls_context_options options = {.size = sizeof options, .rekey_records = RECORDS};
    uint8_t bytes[20 * RECORDS];
    guarded g;
    guarded_open(&g, &options, TLS1_3_VERSION);
    for (size_t i = 0; i < sizeof bytes; i++)
        assert_int_equal(send_byte(&g), 0);
    tls_peer_read(&g.peer, bytes, sizeof bytes);
    assert_true(pattern_matches(SEED, 0, bytes, sizeof bytes));
    guarded_close(&g);
    /* One after each fifty records, the update itself among them. */
    assert_true(g.end.stats.key_updates_out >= 19 && g.end.stats.key_updates_out <= 21);
    assert_int_equal(g.end.stats.key_updates_in, 0);
}

static void received_keys_are_replaced(void **state) {
    (void)state;
    const sluice_tls_context_options options = {.size = sizeof options, .rekey_records = RECORDS};
    guarded g;
    guarded_open(&g, &options, TLS1_3_VERSION);
    for (uint64_t place = 0; place < 1000; place++) {
        write_byte(&g, place);
        tls_peer_flush(&g.peer);
        uint8_t none;
        tls_peer_fill(&g.peer); /* a request may be among it */
        assert_int_equal(SSL_read(g.peer.ssl, &none, 1), -1);
    }
    tls_end_until_received(&g.end, g.rig.loop, 1000);
    guarded_close(&g);
    assert_int_equal(g.end.error, 0);
    assert_true(g.end.stats.key_updates_in >= 15);
}

/* A peer that does not answer the request is cut off. */
static void received_keys_have_an_end(void **state) {
    (void)state;
    for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
        const sluice_tls_context_options options = {.size = sizeof options, .rekey_records = RECORDS};
        guarded g;
        guarded_open(&g, &options, version);
        uint64_t place = 0;
        while (!g.end.closed && place < 1000) {
            write_byte(&g, place++);
            tls_peer_flush(&g.peer);
        }
        assert_int_equal(g.end.error, -EKEYEXPIRED);
        assert_int_equal(g.end.detail, SLUICE_TLS_DETAIL_KEY_LIMIT);
        assert_true(g.end.received >= RECORDS - 1 && g.end.received < 4 * RECORDS);
        guarded_close(&g);
    }
}

/* TLS 1.2 has no new keys. */
static void sent_keys_have_an_end(void **state) {
    (void)state;
    const sluice_tls_context_options options = {.size = sizeof options, .rekey_records = RECORDS};
    guarded g;
    int error = 0;
    guarded_open(&g, &options, TLS1_2_VERSION);
    while (!error && g.end.sent < 1000)
        error = send_byte(&g);
    assert_int_equal(error, -EKEYEXPIRED);
    assert_int_equal(g.end.sent, RECORDS);
    assert_int_equal(sluice_tls_get_detail(g.end.tls), SLUICE_TLS_DETAIL_KEY_LIMIT);
    assert_int_equal(send_byte(&g), -EKEYEXPIRED);
    assert_int_equal(sluice_tls_receive(g.end.tls), -EKEYEXPIRED);
    /* What was sent before arrives. */
    uint8_t bytes[RECORDS];
    tls_peer_read(&g.peer, bytes, RECORDS);
    assert_true(pattern_matches(SEED, 0, bytes, RECORDS));
    guarded_close(&g);
}

static void the_peer_may_replace_keys(void **state) {
    (void)state;
    guarded g;
    uint8_t byte;
    guarded_open(&g, NULL, TLS1_3_VERSION);
    for (uint64_t place = 0; place < 100; place++) {
        int type = place % 2 ? SSL_KEY_UPDATE_REQUESTED : SSL_KEY_UPDATE_NOT_REQUESTED;
        assert_int_equal(SSL_key_update(g.peer.ssl, type), 1);
        write_byte(&g, place);
        tls_peer_flush(&g.peer);
        tls_end_until_received(&g.end, g.rig.loop, place + 1);
        assert_int_equal(send_byte(&g), 0);
        tls_peer_read(&g.peer, &byte, 1);
        assert_true(pattern_matches(SEED, place, &byte, 1));
    }
    guarded_close(&g);
    assert_int_equal(g.end.stats.key_updates_in, 100);
    assert_int_equal(g.end.stats.key_updates_out, 50);
}

static void a_flood_of_key_updates_ends(void **state) {
    (void)state;
    guarded g;
    unsigned updates = 0;
    guarded_open(&g, NULL, TLS1_3_VERSION);
    while (!g.end.closed && updates < 1000) {
        assert_int_equal(SSL_key_update(g.peer.ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
        assert_int_equal(SSL_do_handshake(g.peer.ssl), 1);
        tls_peer_flush(&g.peer);
        updates++;
    }
    assert_int_equal(g.end.error, -EPROTO);
    assert_int_equal(g.end.detail, SLUICE_TLS_DETAIL_FLOOD);
    assert_true(updates >= 60 && updates < 80);
    guarded_close(&g);
}

/* Requests for new keys, each with data, so that they are no flood; the answers are not read. */
static void answers_that_are_not_read_are_bounded(void **state) {
    (void)state;
    const sluice_tls_context_options options = {.size = sizeof options, .queue_limit = SLUICE_TLS_QUEUE_MIN};
    guarded g = {0};
    uint64_t place = 0;
    size_t most = 0;
    int little = 8192;
    loop_rig_open(&g.rig, NULL, NULL, GUARD);
    guarded_begin_at(&g, &options, TLS1_3_VERSION, sockets_unix_pair);
    setsockopt(sluice_conn_fd(g.end.conn), SOL_SOCKET, SO_SNDBUF, &little, sizeof little);
    assert_int_equal(tls_peer_handshake(&g.peer), 1);
    tls_end_until_open(&g.end, g.rig.loop);
    while (!g.end.closed && place < 100000) {
        for (int i = 0; i < 20; i++) {
            assert_int_equal(SSL_key_update(g.peer.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
            write_byte(&g, place++);
        }
        tls_peer_flush(&g.peer);
        if (g.end.tls && sluice_tls_queued(g.end.tls) > most)
            most = sluice_tls_queued(g.end.tls);
    }
    assert_int_equal(g.end.detail, SLUICE_TLS_DETAIL_FLOOD);
    assert_true(most > SLUICE_TLS_QUEUE_MIN && most < SLUICE_TLS_QUEUE_MIN + (80 << 10));
    guarded_close(&g);
}

/* The alert that OpenSSL's peer has received. */
static int alert_of_error(void) {
    return ERR_GET_REASON(ERR_peek_error()) - SSL_AD_REASON_OFFSET;
}

static void a_handshake_has_a_limit(void **state) {
    (void)state;
    const sluice_tls_context_options options = {.size = sizeof options, .handshake_limit = 200};
    guarded g = {0};
    loop_rig_open(&g.rig, NULL, NULL, GUARD);
    guarded_begin(&g, &options, TLS1_3_VERSION);
    assert_int_equal(tls_peer_handshake(&g.peer), -SSL_ERROR_SSL);
    assert_int_equal(alert_of_error(), SSL_AD_DECODE_ERROR);
    turn_until(g.rig.loop, &g.end.closed);
    assert_int_equal(g.end.error, -EMSGSIZE);
    assert_int_equal(g.end.detail, SLUICE_TLS_DETAIL_HANDSHAKE);
    guarded_close(&g);
}

/* Bytes of a client's handshake. */
static size_t handshake_size(int version) {
    sluice_tls_stats stats = {.size = sizeof stats};
    guarded g;
    guarded_open(&g, NULL, version);
    sluice_tls_get_stats(g.end.tls, &stats);
    guarded_close(&g);
    return stats.sealed_in;
}

/* A client that has sent its last message: with TLS 1.3 the handshake is complete for it, and the
 * alert is encrypted. */
static void the_alert_of_a_large_handshake_is_encrypted(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        const int version = i / 2 ? TLS1_3_VERSION : TLS1_2_VERSION;
        const sluice_tls_context_options options = {.size = sizeof options,
                                                    .handshake_limit = handshake_size(version) - (size_t)(i % 2)};
        guarded g = {0};
        uint8_t byte;
        loop_rig_open(&g.rig, NULL, NULL, GUARD);
        guarded_begin(&g, &options, version);
        int result = tls_peer_handshake(&g.peer);
        if (i % 2 == 0) {
            assert_int_equal(result, 1);
            tls_end_until_open(&g.end, g.rig.loop);
            guarded_close(&g);
            continue;
        }
        turn_until(g.rig.loop, &g.end.closed);
        if (version == TLS1_3_VERSION) {
            assert_int_equal(result, 1);
            (void)tls_peer_fill(&g.peer);
            assert_int_equal(SSL_get_error(g.peer.ssl, SSL_read(g.peer.ssl, &byte, 1)), SSL_ERROR_SSL);
        } else {
            assert_int_equal(result, -SSL_ERROR_SSL);
        }
        assert_int_equal(alert_of_error(), SSL_AD_DECODE_ERROR);
        assert_int_equal(g.end.detail, SLUICE_TLS_DETAIL_HANDSHAKE);
        guarded_close(&g);
    }
}

/* The first record of a client is one byte too long (RFC 8446, 5.1), at any limit. */
static void an_overlong_record_is_answered(void **state) {
    static const size_t limits[] = {0, SLUICE_TLS_RECORD, 200};
    static const uint8_t header[] = {22, 3, 1, (SLUICE_TLS_RECORD + 1) >> 8, (SLUICE_TLS_RECORD + 1) & 0xff};
    static uint8_t record[sizeof header + SLUICE_TLS_RECORD + 1];
    static const uint8_t alert[] = {21, 3, 3, 0, 2, 2, 22};
    (void)state;
    memcpy(record, header, sizeof header);
    record[sizeof header] = 1;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        const sluice_tls_context_options options = {.size = sizeof options, .handshake_limit = limits[i]};
        guarded g = {0};
        uint8_t answer[sizeof alert + 1];
        loop_rig_open(&g.rig, NULL, NULL, GUARD);
        guarded_begin(&g, &options, TLS1_3_VERSION);
        assert_int_equal(send(g.peer.fd, record, sizeof record, MSG_NOSIGNAL), sizeof record);
        turn_until(g.rig.loop, &g.end.closed);
        assert_int_equal(recv(g.peer.fd, answer, sizeof answer, 0), sizeof alert);
        assert_memory_equal(answer, alert, sizeof alert);
        assert_int_equal(g.end.error, -EPROTO);
        assert_int_equal(g.end.detail, SLUICE_TLS_DETAIL_PROTOCOL);
        guarded_close(&g);
    }
}

/* One call handles so many records, and the connection's turn ends. */
static void a_call_has_a_budget(void **state) {
    (void)state;
    enum { BYTES = 6400, LARGE = 4 << 20 };
    static uint8_t bytes[LARGE];
    guarded g;
    guarded_open(&g, NULL, TLS1_3_VERSION);
    unsigned before = g.end.calls;
    for (uint64_t place = 0; place < BYTES; place++)
        write_byte(&g, place);
    tls_peer_flush(&g.peer);
    tls_end_until_received(&g.end, g.rig.loop, BYTES);
    assert_true(g.end.calls - before >= BYTES / 64);
    sluice_tls_stats stats = {.size = sizeof stats};
    sluice_tls_get_stats(g.end.tls, &stats);
    assert_true(stats.records_in >= BYTES);
    before = g.end.calls;
    pattern_fill(SEED, BYTES, bytes, LARGE);
    for (size_t done = 0; done < LARGE; done += 1 << 20)
        tls_peer_write(&g.peer, bytes + done, 1 << 20);
    tls_end_until_received(&g.end, g.rig.loop, BYTES + LARGE);
    assert_true(g.end.calls - before >= LARGE / (256 << 10));
    guarded_close(&g);
}

/* Records without data: OpenSSL takes 32 in a row. */
static void empty_records_end(void **state) {
    (void)state;
    guarded g;
    unsigned sent = 0;
    guarded_open(&g, NULL, TLS1_2_VERSION);
    /* As the sender of a connection of ours, without data: OpenSSL's peer does not write them. */
    while (!g.end.closed && sent < 100) {
        static const uint8_t empty[] = {23, 3, 3, 0, 0};
        sockets_write(g.peer.fd, empty, sizeof empty);
        turn_through(g.rig.loop, 3);
        sent++;
    }
    assert_int_equal(g.end.error, -EPROTO);
    assert_true(sent < 40);
    guarded_close(&g);
}

static void renegotiation_is_refused(void **state) {
    (void)state;
    guarded g;
    guarded_open(&g, NULL, TLS1_2_VERSION);
    assert_int_equal(SSL_renegotiate(g.peer.ssl), 1);
    for (int i = 0; i < 20; i++) {
        if (SSL_do_handshake(g.peer.ssl) == 1 && i > 10)
            break;
        tls_peer_flush(&g.peer);
        turn_through(g.rig.loop, 3);
        tls_peer_fill(&g.peer);
    }
    assert_int_equal(SSL_total_renegotiations(g.peer.ssl) > 0 && SSL_is_init_finished(g.peer.ssl), 0);
    guarded_close(&g);
}

/* Takes all blocks of a pool that are free. */
typedef struct hoard {
    sluice_pool *pool;
    sluice_block *blocks[512];
    unsigned count;
} hoard;

static void hoard_all(void *user) {
    hoard *h = user;
    while (h->count < sizeof h->blocks / sizeof *h->blocks && sluice_block_get(h->pool, &h->blocks[h->count]) == 0)
        h->count++;
}

static void let_go(hoard *h) {
    while (h->count > 0)
        sluice_block_release(h->blocks[--h->count]);
}

/* All blocks are in use when records have arrived: they are decrypted when there are some again. */
static void a_dry_pool_delays(void **state) {
    (void)state;
    enum { BLOCKS = 512, LENGTH = 300, COUNT = 10 };
    static hoard taken;
    uint8_t bytes[LENGTH * COUNT];
    guarded g = {0};
    loop_rig_open_small(&g.rig, 4096, BLOCKS, 1, GUARD);
    guarded_begin(&g, NULL, TLS1_3_VERSION);
    assert_int_equal(tls_peer_handshake(&g.peer), 1);
    tls_end_until_open(&g.end, g.rig.loop);
    taken = (hoard){.pool = g.rig.pool};
    g.end.before = hoard_all;
    g.end.user = &taken;
    pattern_fill(SEED, 0, bytes, sizeof bytes);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(SSL_write(g.peer.ssl, bytes + i * LENGTH, LENGTH), LENGTH);
    tls_peer_flush(&g.peer);
    sluice_tls_stats stats = {.size = sizeof stats};
    for (sluice_tls_get_stats(g.end.tls, &stats); stats.starved < 3; sluice_tls_get_stats(g.end.tls, &stats))
        turn(g.rig.loop);
    assert_int_equal(g.end.received, 0);
    hoard_all(&taken);
    assert_int_equal(send_byte(&g), -ENOBUFS);
    g.end.before = NULL;
    let_go(&taken);
    tls_end_until_received(&g.end, g.rig.loop, sizeof bytes);
    assert_int_equal(send_byte(&g), 0);
    tls_peer_read(&g.peer, bytes, 1);
    guarded_close(&g);
    assert_int_equal(g.end.error, 0);
}

/* The peer has ended its side, and there is no block for our close_notify: it is sent later. */
static void an_answered_end_waits_for_blocks(void **state) {
    (void)state;
    static hoard taken;
    guarded g = {0};
    loop_rig_open_small(&g.rig, 4096, 512, 1, GUARD);
    guarded_begin(&g, NULL, TLS1_3_VERSION);
    assert_int_equal(tls_peer_handshake(&g.peer), 1);
    tls_end_until_open(&g.end, g.rig.loop);
    g.end.stays = true;
    SSL_shutdown(g.peer.ssl);
    tls_peer_flush(&g.peer);
    turn_until(g.rig.loop, &g.end.notified);
    turn_through(g.rig.loop, 3);
    taken = (hoard){.pool = g.rig.pool};
    hoard_all(&taken);
    assert_int_equal(sluice_tls_finish(g.end.tls), 0);
    assert_int_equal(sluice_tls_queued(g.end.tls), 0);
    let_go(&taken);
    assert_true(tls_peer_read_end(&g.peer));
    guarded_close(&g);
}

/* A client that asks for records of 512 bytes (RFC 6066, 4): a piece becomes many of them, for all
 * of which there are blocks, or for none. */
static void small_fragments_fit_or_wait(void **state) {
    (void)state;
    enum { LEFT = 600, FEW = 4 };
    static hoard taken;
    static uint8_t bytes[SLUICE_TLS_RECORD];
    guarded g = {0};
    loop_rig_open_small(&g.rig, 4096, 512, 1, GUARD);
    guarded_begin(&g, NULL, TLS1_3_VERSION);
    assert_int_equal(SSL_set_tlsext_max_fragment_length(g.peer.ssl, TLSEXT_max_fragment_length_512), 1);
    assert_int_equal(tls_peer_handshake(&g.peer), 1);
    tls_end_until_open(&g.end, g.rig.loop);
    /* The ticket comes with the first data. */
    assert_int_equal(sluice_tls_send(g.end.tls, &(struct iovec){bytes, 1}, 1, NULL), 0);
    tls_peer_read(&g.peer, bytes, 1);
    turn_through(g.rig.loop, 5);
    /* Seven records leave so much of a block. */
    const size_t first = 4096 - LEFT - 7 * 22;
    pattern_fill(SEED, 0, bytes, first);
    assert_int_equal(sluice_tls_send(g.end.tls, &(struct iovec){bytes, first}, 1, NULL), 0);
    assert_int_equal(sluice_tls_queued(g.end.tls), 4096 - LEFT);
    taken = (hoard){.pool = g.rig.pool};
    hoard_all(&taken);
    for (int i = 0; i < FEW; i++)
        sluice_block_release(taken.blocks[--taken.count]);
    pattern_fill(SEED, first, bytes, sizeof bytes);
    assert_int_equal(sluice_tls_send(g.end.tls, &(struct iovec){bytes, sizeof bytes}, 1, NULL), -ENOBUFS);
    let_go(&taken);
    assert_int_equal(sluice_tls_send(g.end.tls, &(struct iovec){bytes, sizeof bytes}, 1, NULL), 0);
    uint8_t heard[SLUICE_TLS_RECORD];
    tls_peer_read(&g.peer, heard, first);
    tls_peer_read(&g.peer, heard, sizeof heard);
    assert_memory_equal(heard, bytes, sizeof heard);
    guarded_close(&g);
    assert_int_equal(g.end.error, 0);
}

/* Large records fill a small pool: their own blocks are released before plaintext needs some. */
static void a_small_pool_suffices(void **state) {
    (void)state;
    enum { BLOCKS = 128, TOTAL = 4 << 20 };
    static uint8_t bytes[1 << 20];
    guarded g = {0};
    loop_rig_open_small(&g.rig, 4096, BLOCKS, 1, GUARD);
    guarded_begin(&g, NULL, TLS1_3_VERSION);
    assert_int_equal(tls_peer_handshake(&g.peer), 1);
    tls_end_until_open(&g.end, g.rig.loop);
    for (uint64_t place = 0; place < TOTAL; place += sizeof bytes) {
        pattern_fill(SEED, place, bytes, sizeof bytes);
        tls_peer_write(&g.peer, bytes, sizeof bytes);
    }
    tls_end_until_received(&g.end, g.rig.loop, TOTAL);
    guarded_close(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sent_keys_are_replaced),
        cmocka_unit_test(received_keys_are_replaced),
        cmocka_unit_test(received_keys_have_an_end),
        cmocka_unit_test(sent_keys_have_an_end),
        cmocka_unit_test(the_peer_may_replace_keys),
        cmocka_unit_test(a_flood_of_key_updates_ends),
        cmocka_unit_test(answers_that_are_not_read_are_bounded),
        cmocka_unit_test(a_handshake_has_a_limit),
        cmocka_unit_test(the_alert_of_a_large_handshake_is_encrypted),
        cmocka_unit_test(an_overlong_record_is_answered),
        cmocka_unit_test(a_call_has_a_budget),
        cmocka_unit_test(empty_records_end),
        cmocka_unit_test(renegotiation_is_refused),
        cmocka_unit_test(a_dry_pool_delays),
        cmocka_unit_test(an_answered_end_waits_for_blocks),
        cmocka_unit_test(small_fragments_fit_or_wait),
        cmocka_unit_test(a_small_pool_suffices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
