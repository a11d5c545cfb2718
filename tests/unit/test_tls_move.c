/*
 * A TLS stage moves to another loop with its connection, at any point: in the handshake, within a
 * record, with plaintext that is not consumed and framers in the middle of a message. And a loop
 * with stages runs inside libevent.
 */
#include <sluice/tls.h>

#include <errno.h>
#include <event2/event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/http.h>
#include <sluice/libevent.h>
#include <sluice/loop.h>

#include "support/tls/peer.h"
#include "support/tls/rig.h"

enum { GUARD = 60, SEED = 3 };

/* Two loops, and a stage that goes back and forth. */
typedef struct journey {
    loop_rig rigs[2];
    int at;
    tls_pki pki;
    tls_end end;
    tls_peer peer;
    sluice_conn_handover handover;
    bool left;
} journey;

static void journey_open(journey *j) {
    int fds[2];
    *j = (journey){.end.seed = SEED};
    for (int i = 0; i < 2; i++)
        loop_rig_open(&j->rigs[i], NULL, NULL, GUARD);
    tls_pki_open(&j->pki, NULL, NULL);
    sockets_tcp_pair(fds);
    tls_end_open(&j->end, j->rigs[0].loop, fds[0], j->pki.server, NULL);
    tls_peer_open(&j->peer, j->rigs[0].loop, fds[1], false);
}

static void journey_close(journey *j) {
    tls_end_close(&j->end, j->rigs[j->at].loop);
    close(j->peer.fd);
    tls_peer_close(&j->peer);
    tls_pki_close(&j->pki);
    for (int i = 1; i >= 0; i--)
        loop_rig_close(&j->rigs[i]);
}

static void detached(const sluice_conn_handover *handover, void *user) {
    journey *j = user;
    j->handover = *handover;
    assert_int_equal(sluice_tls_detach(j->end.tls), 0);
    j->left = true;
}

static void move(journey *j) {
    sluice_loop *from = j->rigs[j->at].loop;
    while (sluice_tls_queued(j->end.tls) > 0)
        turn(from);
    while (sluice_conn_detach(j->end.conn, detached, j) == -EBUSY)
        turn(from);
    turn_until(from, &j->left);
    j->left = false;
    assert_int_equal(sluice_tls_receive(j->end.tls), -EPIPE);
    assert_int_equal(sluice_tls_flush(j->end.tls), -EPIPE);
    j->at = !j->at;
    j->peer.loop = j->rigs[j->at].loop;
    assert_int_equal(sluice_conn_adopt(j->peer.loop, &j->handover, &tls_end_events, &j->end, &j->end.conn), 0);
    assert_int_equal(sluice_tls_attach(j->end.tls, j->end.conn), 0);
    assert_int_equal(sluice_tls_attach(j->end.tls, j->end.conn), -EINVAL);
}

/* The peer's bytes in pieces, and a move behind each. */
static void flush_and_move(journey *j, size_t piece) {
    uint8_t bytes[4096];
    int n;
    while ((n = BIO_read(j->peer.out, bytes, (int)piece)) > 0) {
        sockets_write(j->peer.fd, bytes, (size_t)n);
        turn_through(j->peer.loop, 2);
        move(j);
    }
}

static void moves_at_any_byte(void **state) {
    (void)state;
    for (size_t piece = 20; piece < 500; piece += 97) {
        journey j;
        uint8_t bytes[3000], back[3000];
        journey_open(&j);
        while (SSL_do_handshake(j.peer.ssl) != 1) {
            flush_and_move(&j, piece);
            turn_through(j.peer.loop, 2);
            tls_peer_fill(&j.peer);
        }
        pattern_fill(SEED, 0, bytes, sizeof bytes);
        assert_int_equal(SSL_write(j.peer.ssl, bytes, 1000), 1000);
        assert_int_equal(SSL_write(j.peer.ssl, bytes + 1000, 2000), 2000);
        flush_and_move(&j, piece);
        tls_end_until_received(&j.end, j.peer.loop, sizeof bytes);
        j.end.total = sizeof bytes;
        tls_end_pump(&j.end);
        tls_peer_read(&j.peer, back, sizeof back);
        assert_memory_equal(bytes, back, sizeof bytes);
        journey_close(&j);
        assert_int_equal(j.end.error, 0);
    }
}

/* Plaintext moves by reference, and the framer that has seen a part of a message continues. */
static void framers_continue(void **state) {
    (void)state;
    static const char request[] = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
    for (size_t cut = 1; cut < sizeof request - 1; cut++) {
        journey j;
        sluice_http *http;
        sluice_http_request message;
        journey_open(&j);
        j.end.holds = true;
        assert_int_equal(sluice_http_new(&http), 0);
        assert_int_equal(tls_peer_handshake(&j.peer), 1);
        tls_end_until_open(&j.end, j.peer.loop);
        tls_peer_write(&j.peer, request, cut);
        while (sluice_chain_length(sluice_tls_chain(j.end.tls)) < cut)
            turn(j.peer.loop);
        int result = sluice_http_next(http, sluice_tls_chain(j.end.tls), &message);
        uint64_t consumed = sluice_chain_consumed(sluice_tls_chain(j.end.tls));
        move(&j);
        assert_int_equal(sluice_chain_consumed(sluice_tls_chain(j.end.tls)), consumed);
        tls_peer_write(&j.peer, request + cut, sizeof request - 1 - cut);
        while (sluice_chain_length(sluice_tls_chain(j.end.tls)) + consumed < sizeof request - 1)
            turn(j.peer.loop);
        if (result == 0)
            result = sluice_http_next(http, sluice_tls_chain(j.end.tls), &message);
        assert_int_equal(result, 1);
        assert_int_equal(sluice_chain_length(sluice_tls_chain(j.end.tls)), 5);
        sluice_http_free(http);
        journey_close(&j);
    }
}

static void bytes_that_are_queued_hold_it_back(void **state) {
    (void)state;
    journey j;
    journey_open(&j);
    assert_int_equal(tls_peer_handshake(&j.peer), 1);
    tls_end_until_open(&j.end, j.peer.loop);
    assert_int_equal(sluice_tls_send(j.end.tls, &(struct iovec){"x", 1}, 1, NULL), 0);
    assert_int_equal(sluice_tls_detach(j.end.tls), -EBUSY);
    uint8_t byte;
    tls_peer_read(&j.peer, &byte, 1);
    journey_close(&j);
}

/* A stage that is detached can be freed. */
static void a_detached_stage_can_be_freed(void **state) {
    (void)state;
    journey j;
    journey_open(&j);
    j.end.holds = true;
    assert_int_equal(tls_peer_handshake(&j.peer), 1);
    tls_end_until_open(&j.end, j.peer.loop);
    tls_peer_write(&j.peer, "abc", 3);
    while (sluice_chain_length(sluice_tls_chain(j.end.tls)) < 3)
        turn(j.peer.loop);
    while (sluice_conn_detach(j.end.conn, detached, &j) == -EBUSY)
        turn(j.peer.loop);
    turn_until(j.peer.loop, &j.left);
    sluice_tls_free(j.end.tls);
    sluice_conn_handover_discard(&j.handover);
    j.end.conn = NULL;
    j.end.closed = true;
    journey_close(&j);
}

static void note_end(sluice_conn *conn, int error, void *user) {
    journey *j = user;
    (void)conn;
    j->end.end = error;
    j->end.ended = true;
}

/* Its user has seen a connection fail and leaves it to another, with what has arrived before. */
static void a_failed_connection_is_decrypted_elsewhere(void **state) {
    static const sluice_conn_events waiting = {.size = sizeof waiting, .on_end = note_end};
    (void)state;
    journey j;
    uint8_t bytes[200];
    journey_open(&j);
    j.end.stays = true;
    assert_int_equal(tls_peer_handshake(&j.peer), 1);
    tls_end_until_open(&j.end, j.peer.loop);
    while (sluice_tls_queued(j.end.tls) > 0) /* the tickets */
        turn(j.peer.loop);
    assert_int_equal(sluice_conn_set_events(j.end.conn, &waiting, &j), 0);
    pattern_fill(SEED, 0, bytes, 3);
    assert_int_equal(sluice_tls_send(j.end.tls, &(struct iovec){"x", 1}, 1, NULL), 0);
    assert_int_equal(SSL_write(j.peer.ssl, bytes, 3), 3);
    int n = BIO_read(j.peer.out, bytes, sizeof bytes);
    sockets_write(j.peer.fd, bytes, (size_t)n);
    sockets_wait_delivered(j.peer.fd);
    sockets_reset_on_close(j.peer.fd);
    close(j.peer.fd);
    j.peer.fd = dup(STDERR_FILENO);
    turn_until(j.peer.loop, &j.end.ended);
    assert_int_equal(j.end.end, -ECONNRESET);
    assert_true(sluice_tls_queued(j.end.tls) > 0);

    assert_int_equal(sluice_tls_detach(j.end.tls), 0);
    assert_int_equal(sluice_tls_queued(j.end.tls), 0);
    move(&j);
    assert_int_equal(sluice_tls_send(j.end.tls, &(struct iovec){"x", 1}, 1, NULL), -EPIPE);
    assert_int_equal(sluice_tls_room(j.end.tls), 0);
    assert_int_equal(sluice_tls_finish(j.end.tls), -EPIPE);
    assert_int_equal(sluice_tls_flush(j.end.tls), -EPIPE);
    tls_end_until_received(&j.end, j.peer.loop, 3);
    move(&j);                                                 /* of a stage without a writer */
    assert_int_equal(sluice_tls_end(j.end.tls), -ECONNRESET); /* without an alert */
    journey_close(&j);
}

static void it_runs_inside_libevent(void **state) {
    (void)state;
    enum { TOTAL = 1 << 20 };
    int fds[2];
    loop_rig rig;
    tls_pki pki;
    tls_end server = {.seed = SEED, .total = TOTAL}, client = {.seed = SEED, .total = TOTAL};
    sluice_libevent *place;
    struct event_base *base = event_base_new();
    loop_rig_open(&rig, NULL, NULL, GUARD);
    assert_int_equal(sluice_libevent_attach(rig.loop, base, &place), 0);
    tls_pki_open(&pki, NULL, NULL);
    sockets_tcp_pair(fds);
    tls_end_open(&server, rig.loop, fds[0], pki.server, NULL);
    tls_end_open(&client, rig.loop, fds[1], pki.client, "localhost");
    while (server.received < TOTAL || client.received < TOTAL)
        assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
    assert_false(server.differs || client.differs);
    sluice_libevent_free(place);
    tls_end_close(&client, rig.loop);
    tls_end_close(&server, rig.loop);
    tls_pki_close(&pki);
    loop_rig_close(&rig);
    event_base_free(base);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_at_any_byte),
        cmocka_unit_test(framers_continue),
        cmocka_unit_test(bytes_that_are_queued_hold_it_back),
        cmocka_unit_test(a_detached_stage_can_be_freed),
        cmocka_unit_test(a_failed_connection_is_decrypted_elsewhere),
        cmocka_unit_test(it_runs_inside_libevent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
