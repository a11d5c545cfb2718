/*
 * A TLS stage on a connection: handshakes, data in both directions and in all sizes, the end of the
 * stream and its absence, plaintext where TLS is expected. The other side is another stage, or
 * OpenSSL by itself.
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

enum { GUARD = 60, SEED = 19, TOTAL = 1 << 20 };

/* Two stages on one loop. */
typedef struct two {
    loop_rig rig;
    tls_pki pki;
    tls_end server, client;
} two;

static void two_open(two *t, const sluice_tls_context_options *server, const sluice_tls_context_options *client) {
    int fds[2];
    *t = (two){.server.seed = SEED, .client.seed = SEED};
    loop_rig_open(&t->rig, NULL, NULL, GUARD);
    tls_pki_open(&t->pki, server, client);
    sockets_tcp_pair(fds);
    tls_end_open(&t->server, t->rig.loop, fds[0], t->pki.server, NULL);
    tls_end_open(&t->client, t->rig.loop, fds[1], t->pki.client, "localhost");
}

static void two_close(two *t) {
    tls_end_close(&t->client, t->rig.loop);
    tls_end_close(&t->server, t->rig.loop);
    tls_pki_close(&t->pki);
    loop_rig_close(&t->rig);
}

static void check_info(const tls_end *end, sluice_tls_version version, const char *server_name) {
    sluice_tls_info info = {.size = sizeof info};
    assert_int_equal(sluice_tls_get_info(end->tls, &info), 0);
    assert_int_equal(info.version, version);
    assert_false(info.resumed);
    assert_string_equal(info.server_name, server_name);
    assert_non_null(strstr(info.cipher, version == SLUICE_TLS_1_3 ? "TLS_AES_256_GCM" : "TLS_ECDHE_ECDSA_WITH_AES"));
    assert_null(info.alpn);
}

static void talks(sluice_tls_version version) {
    sluice_tls_context_options options = {.size = sizeof options, .max_version = version};
    two t;
    two_open(&t, &options, NULL);
    sluice_tls_info none = {.size = sizeof none};
    assert_int_equal(sluice_tls_get_info(t.server.tls, &none), -EAGAIN);
    assert_int_equal(sluice_tls_send(t.server.tls, &(struct iovec){"x", 1}, 1, NULL), -EAGAIN);
    assert_int_equal(sluice_tls_room(t.server.tls), 0);
    t.server.total = t.client.total = TOTAL;
    tls_end_until_open(&t.server, t.rig.loop);
    tls_end_until_open(&t.client, t.rig.loop);
    check_info(&t.server, version, "localhost");
    check_info(&t.client, version, "localhost");
    sluice_tls_info info = {.size = sizeof info};
    sluice_tls_get_info(t.client.tls, &info);
    assert_true(info.peer_verified);
    assert_string_equal(info.peer_name, "localhost");
    assert_string_equal(info.peer_subject, "CN=localhost");
    tls_end_until_received(&t.client, t.rig.loop, TOTAL);
    tls_end_until_received(&t.server, t.rig.loop, TOTAL);
    /* The client ends the stream in an orderly way, and the server answers likewise. */
    assert_int_equal(sluice_tls_finish(t.client.tls), 0);
    assert_int_equal(sluice_tls_finish(t.client.tls), 0);
    assert_int_equal(sluice_tls_send(t.client.tls, &(struct iovec){"x", 1}, 1, NULL), -EPIPE);
    turn_until(t.rig.loop, &t.server.ended);
    assert_int_equal(t.server.end, 0);
    assert_true(t.server.notified);
    two_close(&t);
    assert_int_equal(t.server.state, SLUICE_TLS_ENDED);
    assert_int_equal(t.server.stats.plain_in, TOTAL);
    assert_int_equal(t.server.stats.plain_out, TOTAL);
    /* Each of 20,000 bytes is a record, of pieces that were put together, and another. */
    assert_true(t.server.stats.gathered_out > TOTAL / 2 && t.server.stats.gathered_out <= TOTAL);
    assert_true(t.server.stats.sealed_out > TOTAL && t.server.stats.sealed_out < TOTAL + TOTAL / 50);
    assert_int_equal(t.server.stats.sealed_out, t.client.stats.sealed_in);
    assert_int_equal(t.server.stats.records_out, t.client.stats.records_in);
}

static void talks_tls_1_3(void **state) {
    (void)state;
    talks(SLUICE_TLS_1_3);
}

static void talks_tls_1_2(void **state) {
    (void)state;
    talks(SLUICE_TLS_1_2);
}

/* One stage and OpenSSL. */
typedef struct one {
    loop_rig rig;
    tls_pki pki;
    tls_end end;
    tls_peer peer;
} one;

static void one_open_with(one *o, const sluice_tls_context_options *server, const sluice_tls_context_options *client,
                          bool is_server) {
    int fds[2];
    *o = (one){.end.seed = SEED};
    loop_rig_open(&o->rig, NULL, NULL, GUARD);
    tls_pki_open(&o->pki, server, client);
    sockets_tcp_pair(fds);
    tls_end_open(&o->end, o->rig.loop, fds[0], is_server ? o->pki.server : o->pki.client,
                 is_server ? NULL : "localhost");
    tls_peer_open(&o->peer, o->rig.loop, fds[1], !is_server);
    if (!is_server) {
        assert_int_equal(SSL_use_certificate(o->peer.ssl, o->pki.leaf.x509), 1);
        assert_int_equal(SSL_use_PrivateKey(o->peer.ssl, o->pki.leaf.key), 1);
    }
}

static void one_open(one *o, const sluice_tls_context_options *server, bool is_server) {
    one_open_with(o, server, NULL, is_server);
}

static void one_close(one *o) {
    tls_end_close(&o->end, o->rig.loop);
    close(o->peer.fd);
    tls_peer_close(&o->peer);
    tls_pki_close(&o->pki);
    loop_rig_close(&o->rig);
}

/* Every byte of both sides is a write of its own. */
static void input_comes_byte_by_byte(void **state) {
    (void)state;
    for (int is_server = 0; is_server < 2; is_server++)
        for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
            one o;
            uint8_t bytes[700], back[700];
            one_open(&o, NULL, is_server);
            SSL_set_max_proto_version(o.peer.ssl, version);
            o.peer.piece = 1;
            assert_int_equal(tls_peer_handshake(&o.peer), 1);
            tls_end_until_open(&o.end, o.rig.loop);
            pattern_fill(SEED, 0, bytes, sizeof bytes);
            tls_peer_write(&o.peer, bytes, sizeof bytes);
            tls_end_until_received(&o.end, o.rig.loop, sizeof bytes);
            o.end.total = sizeof bytes;
            tls_end_pump(&o.end);
            tls_peer_read(&o.peer, back, sizeof back);
            assert_memory_equal(bytes, back, sizeof bytes);
            one_close(&o);
            assert_int_equal(o.end.error, 0);
        }
}

/* A record of the peer's, as bytes. */
static size_t make_record(one *o, uint64_t place, size_t n, uint8_t *ret_bytes, size_t room) {
    uint8_t bytes[SLUICE_TLS_RECORD];
    pattern_fill(SEED, place, bytes, n);
    assert_int_equal(SSL_write(o->peer.ssl, bytes, (int)n), n);
    int size = BIO_read(o->peer.out, ret_bytes, (int)room);
    assert_true(size > (int)n);
    return (size_t)size;
}

/* Three records in two writes, cut at each byte: within headers, bodies, and between records. */
static void records_are_cut_anywhere(void **state) {
    (void)state;
    enum { FIRST = 40, MOST = 400 };
    for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
        one o;
        uint8_t bytes[MOST];
        uint64_t place = 0;
        size_t size = 1;
        one_open(&o, NULL, true);
        SSL_set_max_proto_version(o.peer.ssl, version);
        assert_int_equal(tls_peer_handshake(&o.peer), 1);
        tls_end_until_open(&o.end, o.rig.loop);
        for (size_t cut = 0; cut <= size; cut++) {
            size = 0;
            for (size_t i = 0; i < 3; place += FIRST + i, i++)
                size += make_record(&o, place, FIRST + i, bytes + size, sizeof bytes - size);
            sockets_write(o.peer.fd, bytes, cut);
            turn_through(o.rig.loop, 3);
            sockets_write(o.peer.fd, bytes + cut, size - cut);
            tls_end_until_received(&o.end, o.rig.loop, place);
        }
        one_close(&o);
        assert_int_equal(o.end.error, 0);
        assert_false(o.end.differs);
    }
}

/* The stage is not called for a part of a header, nor for one of a body until all of it is there:
 * one byte less is not enough. */
static void a_part_of_a_record_waits(void **state) {
    (void)state;
    enum { BODY = 9000, HEADER = 5, PIECE = 1000 };
    one o;
    uint8_t bytes[BODY + 100];
    one_open(&o, NULL, true);
    assert_int_equal(tls_peer_handshake(&o.peer), 1);
    tls_end_until_open(&o.end, o.rig.loop);
    turn_through(o.rig.loop, 3);
    size_t size = make_record(&o, 0, BODY, bytes, sizeof bytes), done = 1;
    sockets_write(o.peer.fd, bytes, done);
    turn_through(o.rig.loop, 3);
    unsigned calls = o.end.calls;
    for (; done < HEADER - 1; done++) {
        sockets_write(o.peer.fd, bytes + done, 1);
        turn_through(o.rig.loop, 3);
    }
    assert_int_equal(o.end.calls, calls);
    sockets_write(o.peer.fd, bytes + done, PIECE);
    done += PIECE;
    turn_through(o.rig.loop, 3);
    assert_int_equal(o.end.calls, ++calls);
    for (size_t piece; done < size - 1; done += piece) {
        piece = size - 1 - done < PIECE ? size - 1 - done : PIECE;
        sockets_write(o.peer.fd, bytes + done, piece);
        turn_through(o.rig.loop, 3);
    }
    assert_int_equal(o.end.calls, calls);
    assert_int_equal(o.end.received, 0);
    sockets_write(o.peer.fd, bytes + done, 1);
    tls_end_until_received(&o.end, o.rig.loop, BODY);
    assert_int_equal(o.end.calls, calls + 1);
    one_close(&o);
    assert_int_equal(o.end.error, 0);
}

static void leave_an_error(void *user) {
    (void)user;
    ERR_raise(ERR_LIB_SSL, SSL_R_BAD_LENGTH);
}

/* An error that other code has left in the thread's queue is none of the stage's: not in the
 * handshake, not while it waits for bytes, not for what is sent. */
static void errors_of_others_do_not_count(void **state) {
    (void)state;
    one o;
    uint8_t bytes[300], back[300];
    one_open(&o, NULL, true);
    o.end.before = leave_an_error;
    o.peer.piece = 1;
    while (SSL_do_handshake(o.peer.ssl) != 1) {
        assert_int_equal(o.end.error, 0);
        ERR_clear_error();
        tls_peer_flush(&o.peer);
        turn_through(o.rig.loop, 2);
        tls_peer_fill(&o.peer);
    }
    tls_peer_flush(&o.peer);
    tls_end_until_open(&o.end, o.rig.loop);
    pattern_fill(SEED, 0, bytes, sizeof bytes);
    ERR_clear_error();
    tls_peer_write(&o.peer, bytes, sizeof bytes);
    tls_end_until_received(&o.end, o.rig.loop, sizeof bytes);
    leave_an_error(NULL);
    assert_int_equal(sluice_tls_send(o.end.tls, &(struct iovec){bytes, sizeof bytes}, 1, NULL), 0);
    ERR_clear_error();
    tls_peer_read(&o.peer, back, sizeof back);
    assert_memory_equal(bytes, back, sizeof bytes);
    leave_an_error(NULL);
    assert_int_equal(sluice_tls_finish(o.end.tls), 0);
    ERR_clear_error();
    assert_true(tls_peer_read_end(&o.peer));
    one_close(&o);
    assert_int_equal(o.end.error, 0);
}

/* Many records of one byte, and records as large as they get. */
/* Data, behind the ticket that a server sends with its first data. */
static void send_first(one *o) {
    uint8_t byte = 0;
    assert_int_equal(sluice_tls_send(o->end.tls, &(struct iovec){&byte, sizeof byte}, 1, NULL), 0);
    tls_peer_read(&o->peer, &byte, sizeof byte);
}

/* To a message behind the handshake, the kernel of a peer that has closed its socket would answer
 * with a reset, and drop what it still has to send. */
static void a_ticket_comes_with_the_first_data(void **state) {
    (void)state;
    for (int tickets = 0; tickets < 2; tickets++) {
        const sluice_tls_context_options options = {.size = sizeof options, .no_tickets = tickets == 0};
        one o;
        sluice_tls_stats before = {.size = sizeof before}, after = {.size = sizeof after};
        uint8_t bytes[100];
        one_open(&o, &options, true);
        assert_int_equal(tls_peer_handshake(&o.peer), 1);
        sluice_tls_get_stats(o.end.tls, &before);
        pattern_fill(SEED, 0, bytes, sizeof bytes);
        tls_peer_write(&o.peer, bytes, sizeof bytes);
        tls_end_until_received(&o.end, o.rig.loop, sizeof bytes);
        turn_through(o.rig.loop, 3);
        sluice_tls_get_stats(o.end.tls, &after);
        assert_int_equal(sluice_tls_get_state(o.end.tls), SLUICE_TLS_OPEN);
        assert_int_equal(after.records_out, before.records_out);
        for (uint64_t i = 0; i < 2; i++) {
            send_first(&o);
            sluice_tls_get_stats(o.end.tls, &after);
            assert_int_equal(after.records_out, before.records_out + (uint64_t)tickets + 1 + i);
            assert_int_equal(SSL_SESSION_is_resumable(SSL_get_session(o.peer.ssl)), tickets);
        }
        one_close(&o);
    }
}

static void records_have_all_sizes(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 2, 100, 1400, 4096, SLUICE_TLS_RECORD - 1, SLUICE_TLS_RECORD};
    uint8_t bytes[SLUICE_TLS_RECORD], back[SLUICE_TLS_RECORD];
    one o;
    uint64_t place = 0, sent = 0;
    one_open(&o, NULL, true);
    assert_int_equal(tls_peer_handshake(&o.peer), 1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (unsigned count = 0; count < 200; count++) {
            pattern_fill(SEED, place, bytes, sizes[i]);
            place += sizes[i];
            assert_int_equal(SSL_write(o.peer.ssl, bytes, (int)sizes[i]), sizes[i]);
            if (count % 50 == 49)
                tls_peer_flush(&o.peer);
        }
    tls_end_until_received(&o.end, o.rig.loop, place);
    /* Likewise out: a record for each call. */
    send_first(&o);
    sluice_tls_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    sluice_tls_get_stats(o.end.tls, &before);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        pattern_fill(SEED, sent, bytes, sizes[i]);
        size_t done = 0;
        assert_int_equal(sluice_tls_send(o.end.tls, &(struct iovec){bytes, sizes[i]}, 1, &done), 0);
        assert_int_equal(done, sizes[i]);
        sent += sizes[i];
        tls_peer_read(&o.peer, back, sizes[i]);
        assert_memory_equal(bytes, back, sizes[i]);
    }
    sluice_tls_get_stats(o.end.tls, &after);
    assert_int_equal(after.records_out - before.records_out, sizeof sizes / sizeof *sizes);
    assert_int_equal(after.gathered_out, before.gathered_out);
    one_close(&o);
}

/* Many small pieces are one record, and those of a slice, too; a piece of a record's size is not
 * copied. */
static void small_pieces_share_a_record(void **state) {
    (void)state;
    enum { PIECES = 200, SIZE = 70 };
    static uint8_t bytes[2 * SLUICE_TLS_RECORD], back[2 * SLUICE_TLS_RECORD];
    struct iovec pieces[PIECES];
    one o;
    one_open(&o, NULL, true);
    assert_int_equal(tls_peer_handshake(&o.peer), 1);
    tls_end_until_open(&o.end, o.rig.loop);
    send_first(&o);
    pattern_fill(SEED, 0, bytes, sizeof bytes);
    for (unsigned i = 0; i < PIECES; i++)
        pieces[i] = (struct iovec){bytes + i * SIZE, SIZE};
    sluice_tls_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    sluice_tls_get_stats(o.end.tls, &before);
    assert_int_equal(sluice_tls_send(o.end.tls, pieces, PIECES, NULL), 0);
    sluice_tls_get_stats(o.end.tls, &after);
    assert_int_equal(after.records_out, before.records_out + 1);
    assert_int_equal(after.gathered_out, PIECES * SIZE);
    tls_peer_read(&o.peer, back, PIECES * SIZE);
    assert_memory_equal(bytes, back, PIECES * SIZE);

    sluice_chain *chain;
    sluice_slice slice;
    assert_int_equal(sluice_chain_new(o.rig.pool, &chain), 0);
    for (size_t i = 0; i < sizeof bytes; i += 4096)
        assert_int_equal(sluice_chain_append_memory(chain, bytes + i, 4096, NULL, NULL), 0);
    assert_int_equal(sluice_chain_take(chain, sizeof bytes, &slice), 0);
    size_t done = 0;
    assert_int_equal(sluice_tls_send_slice(o.end.tls, &slice, 0, &done), 0);
    assert_int_equal(done, sizeof bytes);
    before = after;
    sluice_tls_get_stats(o.end.tls, &after);
    assert_int_equal(after.records_out, before.records_out + 2);
    assert_int_equal(after.gathered_out - before.gathered_out, sizeof bytes);
    tls_peer_read(&o.peer, back, sizeof back);
    assert_memory_equal(bytes, back, sizeof back);
    sluice_slice_release(&slice);
    sluice_chain_free(chain);

    const struct iovec large[] = {{bytes, SLUICE_TLS_RECORD}, {bytes + SLUICE_TLS_RECORD, SLUICE_TLS_RECORD}};
    before = after;
    assert_int_equal(sluice_tls_send(o.end.tls, large, 2, NULL), 0);
    sluice_tls_get_stats(o.end.tls, &after);
    assert_int_equal(after.records_out, before.records_out + 2);
    assert_int_equal(after.gathered_out, before.gathered_out);
    tls_peer_read(&o.peer, back, sizeof back);
    one_close(&o);
}

/* What a peer does not read is bounded, and the rest follows when it does. */
static void a_full_queue_refuses(void **state) {
    (void)state;
    enum { LIMIT = 100000, WANTED = 8 << 20 };
    sluice_tls_context_options options = {.size = sizeof options, .queue_limit = LIMIT};
    one o;
    static uint8_t bytes[WANTED];
    one_open(&o, &options, true);
    sockets_hold_little(sluice_conn_fd(o.end.conn), o.peer.fd);
    assert_int_equal(tls_peer_handshake(&o.peer), 1);
    tls_end_until_open(&o.end, o.rig.loop);
    o.end.total = WANTED;
    tls_end_pump(&o.end);
    assert_true(o.end.sent < LIMIT && o.end.sent > LIMIT / 2);
    turn_until_blocked(o.rig.loop, o.end.conn);
    assert_true(o.end.sent < WANTED / 2);
    assert_true(sluice_tls_queued(o.end.tls) <= LIMIT);
    assert_true(sluice_tls_room(o.end.tls) < SLUICE_TLS_RECORD);
    tls_peer_read(&o.peer, bytes, WANTED);
    assert_true(pattern_matches(SEED, 0, bytes, WANTED));
    one_close(&o);
}

/* The server has much to send when the client has finished. */
static void a_half_closed_stream_goes_on(void **state) {
    (void)state;
    two t;
    two_open(&t, NULL, NULL);
    tls_end_until_open(&t.server, t.rig.loop);
    tls_end_until_open(&t.client, t.rig.loop);
    t.server.stays = t.client.stays = true;
    assert_int_equal(sluice_tls_finish(t.client.tls), 0);
    turn_until(t.rig.loop, &t.server.ended);
    assert_int_equal(t.server.end, 0);
    t.server.total = TOTAL;
    t.server.finishes = true;
    tls_end_pump(&t.server);
    tls_end_until_received(&t.client, t.rig.loop, TOTAL);
    turn_until(t.rig.loop, &t.client.ended);
    assert_int_equal(t.client.end, 0);
    two_close(&t);
    assert_int_equal(t.client.state, SLUICE_TLS_ENDED);
}

/* A ticket that takes several records. */
static int large_ticket(SSL *ssl, void *user) {
    static const uint8_t bytes[3000];
    (void)user;
    return SSL_SESSION_set1_ticket_appdata(SSL_get_session(ssl), bytes, sizeof bytes);
}

static void write_some(one *o, size_t n) {
    uint8_t bytes[2000];
    int count = BIO_read(o->peer.out, bytes, (int)n);
    assert_int_equal(count, n);
    sockets_write(o->peer.fd, bytes, n);
    turn_through(o->rig.loop, 3);
}

/* While the peer is in the middle of a message behind the handshake, OpenSSL sends nothing: what is
 * to be sent, or close_notify, waits for the rest. */
static void a_message_in_pieces_delays_sending(void **state) {
    (void)state;
    enum { SOME = 1200 };               /* bytes: two records, and not the third */
    for (int how = 0; how < 3; how++) { /* data, then an end; the end alone; a key, then data */
        const sluice_tls_context_options client = {.size = sizeof client, .rekey_records = how == 2 ? 2 : 0};
        uint8_t byte = 0;
        one o;
        one_open_with(&o, NULL, how == 2 ? &client : NULL, false);
        SSL_CTX_set_session_ticket_cb(o.peer.context, large_ticket, NULL, NULL);
        SSL_set_max_send_fragment(o.peer.ssl, 512);
        SSL_set_num_tickets(o.peer.ssl, 1);
        while (SSL_do_handshake(o.peer.ssl) != 1) {
            tls_peer_flush(&o.peer);
            turn_through(o.rig.loop, 2);
            tls_peer_fill(&o.peer);
        }
        tls_end_until_open(&o.end, o.rig.loop);
        write_some(&o, SOME);
        pattern_fill(SEED, 0, &byte, 1);
        if (how != 1)
            assert_int_equal(sluice_tls_send(o.end.tls, &(struct iovec){&byte, 1}, 1, NULL), -EAGAIN);
        else
            assert_int_equal(sluice_tls_finish(o.end.tls), 0);
        turn_through(o.rig.loop, 3);
        assert_int_equal(sluice_tls_get_state(o.end.tls), SLUICE_TLS_OPEN);
        tls_peer_flush(&o.peer);
        if (how != 1) {
            assert_int_equal(sluice_tls_send(o.end.tls, &(struct iovec){&byte, 1}, 1, NULL), 0);
            tls_peer_read(&o.peer, &byte, 1);
            assert_true(pattern_matches(SEED, 0, &byte, 1));
            assert_int_equal(sluice_tls_finish(o.end.tls), 0);
        }
        assert_true(tls_peer_read_end(&o.peer));
        one_close(&o);
        assert_int_equal(o.end.error, 0);
    }
}

/* Behind close_notify nothing counts, and the stream has ended. */
static void data_and_end_arrive_together(void **state) {
    (void)state;
    one o;
    uint8_t bytes[3000];
    one_open(&o, NULL, true);
    o.end.stays = true;
    assert_int_equal(tls_peer_handshake(&o.peer), 1);
    tls_end_until_open(&o.end, o.rig.loop);
    pattern_fill(SEED, 0, bytes, sizeof bytes);
    assert_int_equal(SSL_write(o.peer.ssl, bytes, sizeof bytes), sizeof bytes);
    SSL_shutdown(o.peer.ssl);
    BIO_write(o.peer.out, "garbage", 7);
    tls_peer_flush(&o.peer);
    turn_until(o.rig.loop, &o.end.notified);
    assert_int_equal(o.end.received, sizeof bytes);
    assert_int_equal(o.end.error, 0);
    assert_int_equal(sluice_tls_receive(o.end.tls), -ENODATA);
    shutdown(o.peer.fd, SHUT_WR);
    turn_until(o.rig.loop, &o.end.ended);
    assert_int_equal(o.end.end, 0);
    one_close(&o);
}

static void a_cut_stream_is_not_an_end(void **state) {
    (void)state;
    for (int in_handshake = 0; in_handshake < 2; in_handshake++) {
        one o;
        one_open(&o, NULL, true);
        if (!in_handshake) {
            assert_int_equal(tls_peer_handshake(&o.peer), 1);
            tls_end_until_open(&o.end, o.rig.loop);
            uint8_t bytes[1000];
            pattern_fill(SEED, 0, bytes, sizeof bytes);
            tls_peer_write(&o.peer, bytes, sizeof bytes);
            tls_end_until_received(&o.end, o.rig.loop, sizeof bytes);
        }
        shutdown(o.peer.fd, SHUT_WR);
        turn_until(o.rig.loop, &o.end.closed);
        assert_int_equal(o.end.end, -ECONNRESET);
        assert_int_equal(o.end.detail, SLUICE_TLS_DETAIL_TRUNCATED);
        assert_int_equal(o.end.state, SLUICE_TLS_FAILED);
        one_close(&o);
    }
}

/* close_notify before the handshake is complete ends no stream: nobody has been verified. */
static void an_end_in_the_handshake_is_a_failure(void **state) {
    (void)state;
    static const uint8_t notice[] = {21, 3, 3, 0, 2, 1, 0};
    for (int is_server = 0; is_server < 2; is_server++)
        for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
            one o;
            one_open(&o, NULL, is_server);
            SSL_set_max_proto_version(o.peer.ssl, version);
            if (is_server) {
                SSL_do_handshake(o.peer.ssl);
                tls_peer_flush(&o.peer);
            }
            sockets_write(o.peer.fd, notice, sizeof notice);
            turn_until(o.rig.loop, &o.end.closed);
            assert_false(o.end.notified);
            assert_int_equal(o.end.error, -ECONNRESET);
            assert_int_equal(o.end.detail, SLUICE_TLS_DETAIL_TRUNCATED);
            assert_int_equal(o.end.state, SLUICE_TLS_FAILED);
            one_close(&o);
        }
}

/* The peer goes away at any byte of its side; nothing is left behind. */
static void the_peer_may_go_at_any_point(void **state) {
    (void)state;
    for (int is_server = 0; is_server < 2; is_server++)
        for (size_t point = 1; point < 4000; point += 37) {
            uint8_t bytes[300] = "the end";
            one o;
            one_open(&o, NULL, is_server);
            size_t sent = 0;
            for (bool open = true; open && sent < point;) {
                int result = SSL_do_handshake(o.peer.ssl);
                if (result == 1 && SSL_write(o.peer.ssl, bytes, sizeof bytes) < 0)
                    break;
                uint8_t flight[4000];
                int n = BIO_read(o.peer.out, flight,
                                 (int)(point - sent < sizeof flight ? point - sent : sizeof flight));
                if (n > 0) {
                    sockets_write(o.peer.fd, flight, (size_t)n);
                    sent += (size_t)n;
                }
                turn_through(o.rig.loop, 3);
                open = tls_peer_fill(&o.peer) && !o.end.closed;
            }
            o.end.holds = true; /* it is no pattern */
            shutdown(o.peer.fd, SHUT_RDWR);
            turn_until(o.rig.loop, &o.end.closed);
            assert_true(o.end.error != 0 || o.end.end != 0);
            one_close(&o);
        }
}

/* A byte is changed on the way: never is anything else received. */
static void a_forged_record_is_rejected(void **state) {
    (void)state;
    one o;
    uint8_t bytes[5000];
    one_open(&o, NULL, true);
    assert_int_equal(tls_peer_handshake(&o.peer), 1);
    tls_end_until_open(&o.end, o.rig.loop);
    pattern_fill(SEED, 0, bytes, 1000);
    tls_peer_write(&o.peer, bytes, 1000);
    tls_end_until_received(&o.end, o.rig.loop, 1000);
    assert_int_equal(SSL_write(o.peer.ssl, bytes, 1000), 1000);
    int n = BIO_read(o.peer.out, bytes, sizeof bytes);
    assert_true(n > 1000);
    bytes[500] ^= 1;
    sockets_write(o.peer.fd, bytes, (size_t)n);
    turn_until(o.rig.loop, &o.end.closed);
    assert_int_equal(o.end.error, -EPROTO);
    assert_int_equal(o.end.detail, SLUICE_TLS_DETAIL_PROTOCOL);
    assert_int_equal(o.end.received, 1000);
    /* The peer is told: bad_record_mac. */
    while (tls_peer_fill(&o.peer))
        turn_through(o.rig.loop, 1);
    int result = SSL_read(o.peer.ssl, bytes, 1);
    assert_int_equal(SSL_get_error(o.peer.ssl, result), SSL_ERROR_SSL);
    assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_R_SSLV3_ALERT_BAD_RECORD_MAC);
    one_close(&o);
}

static void plaintext_is_recognized(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t n;
        sluice_tls_detail detail;
    } cases[] = {
        {"GET / HTTP/1.1\r\n\r\n", 18, SLUICE_TLS_DETAIL_HTTP},
        {"OPTIONS * HTTP/1.1\r\n", 20, SLUICE_TLS_DETAIL_HTTP},
        {"OPTIONS rtsp://a RTSP/1.0\r\n", 27, SLUICE_TLS_DETAIL_RTSP},
        {"DESCRIBE rtsp://a RTSP/1.0\r\n", 28, SLUICE_TLS_DETAIL_RTSP},
        {"\3\0\0\0\0\0\0\0\0random", 15, SLUICE_TLS_DETAIL_RTMP},
        {"FLV\1\5\0\0\0\11", 9, SLUICE_TLS_DETAIL_PLAINTEXT},
        {"\0\0\0\0\0\0\0\0", 9, SLUICE_TLS_DETAIL_PLAINTEXT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int apart = 0; apart < 2; apart++) {
            one o;
            one_open(&o, NULL, true);
            o.end.stays = true;
            for (size_t done = 0; done < cases[i].n; done += apart ? 1 : cases[i].n) {
                assert_int_equal(o.end.error != 0, done >= 9);
                sockets_write(o.peer.fd, cases[i].text + done, apart ? 1 : cases[i].n);
                turn_through(o.rig.loop, 3);
            }
            assert_int_equal(o.end.error, -EPROTO);
            assert_int_equal(sluice_tls_get_detail(o.end.tls), cases[i].detail);
            assert_int_equal(sluice_tls_receive(o.end.tls), -EPROTO);
            /* Nothing was consumed, nothing was sent. */
            assert_true(sluice_chain_length(sluice_conn_chain(o.end.conn)) >= 9);
            assert_int_equal(sluice_tls_queued(o.end.tls), 0);
            one_close(&o);
        }
    /* Too short to be anything. */
    one o;
    one_open(&o, NULL, true);
    sockets_write(o.peer.fd, "GET", 3);
    shutdown(o.peer.fd, SHUT_WR);
    turn_until(o.rig.loop, &o.end.closed);
    assert_int_equal(o.end.end, -EPROTO);
    assert_int_equal(o.end.detail, SLUICE_TLS_DETAIL_PLAINTEXT);
    one_close(&o);
}

static void a_hello_is_recognized(void **state) {
    (void)state;
    int fds[2];
    loop_rig rig;
    tls_peer peer;
    uint8_t hello[64];
    loop_rig_open(&rig, NULL, NULL, GUARD);
    sockets_tcp_pair(fds);
    tls_peer_open(&peer, rig.loop, fds[1], false);
    SSL_do_handshake(peer.ssl);
    assert_int_equal(BIO_read(peer.out, hello, sizeof hello), sizeof hello);
    for (size_t n = 0; n <= sizeof hello; n++)
        assert_int_equal(sluice_tls_is_hello(hello, n), n >= SLUICE_TLS_HELLO);
    for (size_t at = 0; at < SLUICE_TLS_HELLO; at++) {
        uint8_t other[SLUICE_TLS_HELLO];
        memcpy(other, hello, sizeof other);
        other[at] ^= 0x80;
        assert_int_equal(sluice_tls_is_hello(other, sizeof other), -EPROTO + (at == 4 ? EPROTO + 1 : 0));
    }
    assert_int_equal(sluice_tls_is_hello("GET / HTTP", 10), -EPROTO);
    assert_int_equal(sluice_tls_is_hello("\3\0\0\0\0\0", 6), -EPROTO);
    tls_peer_close(&peer);
    close(fds[0]);
    close(fds[1]);
    loop_rig_close(&rig);
}

static void arguments_are_checked(void **state) {
    (void)state;
    int fds[2];
    loop_rig rig;
    tls_pki pki;
    tls_end end = {0};
    loop_rig_open(&rig, NULL, NULL, GUARD);
    tls_pki_open(&pki, NULL, NULL);
    sockets_tcp_pair(fds);
    assert_int_equal(sluice_conn_new(rig.loop, fds[0], &tls_end_events, &end, &end.conn), 0);
    sluice_tls *tls = NULL;
    assert_int_equal(sluice_tls_new(pki.server, end.conn, "localhost", &tls), -EINVAL);
    assert_int_equal(sluice_tls_new(pki.client, end.conn, NULL, &tls), -EINVAL);
    assert_int_equal(sluice_tls_new(pki.client, end.conn, "", &tls), -EINVAL);
    assert_int_equal(sluice_tls_new(NULL, end.conn, NULL, &tls), -EINVAL);
    assert_int_equal(sluice_tls_new(pki.server, NULL, NULL, &tls), -EINVAL);
    assert_null(tls);
    sluice_tls_free(NULL);
    sluice_tls_context_unref(NULL);
    assert_int_equal(sluice_tls_new(pki.server, end.conn, NULL, &end.tls), 0);
    sluice_tls_stats stats = {0};
    sluice_tls_info info = {0};
    assert_int_equal(sluice_tls_get_stats(end.tls, &stats), -EINVAL);
    assert_int_equal(sluice_tls_get_info(end.tls, &info), -EAGAIN);
    assert_int_equal(sluice_tls_attach(end.tls, end.conn), -EINVAL);
    assert_int_equal(sluice_tls_finish(end.tls), -EAGAIN);
    assert_string_equal(sluice_tls_reason(end.tls), "no error");
    assert_int_equal(sluice_tls_alert(end.tls), -1);
    tls_end_close(&end, rig.loop);
    close(fds[1]);
    tls_pki_close(&pki);
    loop_rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(talks_tls_1_3),
        cmocka_unit_test(talks_tls_1_2),
        cmocka_unit_test(input_comes_byte_by_byte),
        cmocka_unit_test(records_are_cut_anywhere),
        cmocka_unit_test(a_part_of_a_record_waits),
        cmocka_unit_test(errors_of_others_do_not_count),
        cmocka_unit_test(a_ticket_comes_with_the_first_data),
        cmocka_unit_test(records_have_all_sizes),
        cmocka_unit_test(small_pieces_share_a_record),
        cmocka_unit_test(a_full_queue_refuses),
        cmocka_unit_test(a_half_closed_stream_goes_on),
        cmocka_unit_test(a_message_in_pieces_delays_sending),
        cmocka_unit_test(data_and_end_arrive_together),
        cmocka_unit_test(a_cut_stream_is_not_an_end),
        cmocka_unit_test(an_end_in_the_handshake_is_a_failure),
        cmocka_unit_test(the_peer_may_go_at_any_point),
        cmocka_unit_test(a_forged_record_is_rejected),
        cmocka_unit_test(plaintext_is_recognized),
        cmocka_unit_test(a_hello_is_recognized),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
