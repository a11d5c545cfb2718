#include "support/tls/rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { PIECE = 20000 };

static void give_up(tls_end *end, int error) {
    end->error = end->error ? end->error : error;
    if (!end->stays)
        sluice_conn_close(end->conn);
}

void tls_end_pump(tls_end *end) {
    uint8_t bytes[PIECE];
    while (end->sent < end->total) {
        size_t n = end->total - end->sent < sizeof bytes ? (size_t)(end->total - end->sent) : sizeof bytes, done;
        pattern_fill(end->seed, end->sent, bytes, n);
        size_t first = n / 3;
        const struct iovec pieces[] = {{bytes, first}, {bytes + first, 0}, {bytes + first, n - first}};
        int error = sluice_tls_send(end->tls, pieces, 3, &done);
        end->sent += done;
        if (error == -EAGAIN || error == -ENOBUFS)
            return;
        if (error) {
            give_up(end, error);
            return;
        }
    }
    if (end->finishes && sluice_tls_get_state(end->tls) != SLUICE_TLS_HANDSHAKE) {
        end->finishes = false;
        assert_int_equal(sluice_tls_finish(end->tls), 0);
    }
}

static void on_data(sluice_conn *conn, void *user) {
    tls_end *end = user;
    (void)conn;
    end->calls++;
    if (end->before)
        end->before(end->user);
    int result = sluice_tls_receive(end->tls);
    sluice_chain *chain = sluice_tls_chain(end->tls);
    if (!end->holds && !pattern_consume(chain, sluice_chain_length(chain), end->seed, &end->received))
        end->differs = true;
    if (result == -ENODATA)
        end->notified = true;
    else if (result < 0) {
        give_up(end, result);
        return;
    }
    tls_end_pump(end);
}

static void on_end(sluice_conn *conn, int error, void *user) {
    tls_end *end = user;
    end->end = error ? error : sluice_tls_end(end->tls);
    end->ended = true;
    if (!end->stays)
        sluice_conn_close(conn);
}

static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    tls_end *end = user;
    (void)conn;
    return sluice_tls_gather(end->tls, iov, max);
}

static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    tls_end *end = user;
    (void)conn;
    sluice_tls_sent(end->tls, bytes);
    if (!end->error)
        tls_end_pump(end);
}

static void on_closed(sluice_conn *conn, void *user) {
    tls_end *end = user;
    (void)conn;
    end->closed = true;
    end->state = sluice_tls_get_state(end->tls);
    end->detail = sluice_tls_get_detail(end->tls);
    end->reason = sluice_tls_reason(end->tls);
    end->alert = sluice_tls_alert(end->tls);
    end->stats.size = sizeof end->stats;
    assert_int_equal(sluice_tls_get_stats(end->tls, &end->stats), 0);
    sluice_tls_free(end->tls);
    end->tls = NULL;
    end->conn = NULL;
}

const sluice_conn_events tls_end_events = {.size = sizeof tls_end_events,
                                           .on_data = on_data,
                                           .on_end = on_end,
                                           .on_gather = on_gather,
                                           .on_sent = on_sent,
                                           .on_closed = on_closed};

void tls_end_open(tls_end *end, sluice_loop *loop, int fd, sluice_tls_context *context, const char *name) {
    assert_int_equal(sluice_conn_new(loop, fd, &tls_end_events, end, &end->conn), 0);
    assert_int_equal(sluice_tls_new(context, end->conn, name, &end->tls), 0);
}

void tls_end_until_open(tls_end *end, sluice_loop *loop) {
    while (sluice_tls_get_state(end->tls) == SLUICE_TLS_HANDSHAKE)
        turn(loop);
    assert_int_equal(sluice_tls_get_state(end->tls), SLUICE_TLS_OPEN);
}

void tls_end_until_received(tls_end *end, sluice_loop *loop, uint64_t total) {
    while (end->received < total && !end->closed)
        turn(loop);
    assert_int_equal(end->received, total);
    assert_false(end->differs);
}

void tls_end_close(tls_end *end, sluice_loop *loop) {
    if (end->conn)
        sluice_conn_close(end->conn);
    turn_until(loop, &end->closed);
}

sluice_tls_context_options tls_client_options(const made_certificate *ca) {
    return (sluice_tls_context_options){.size = sizeof(sluice_tls_context_options),
                                        .role = SLUICE_TLS_CLIENT,
                                        .ca = ca->chain_pem,
                                        .ca_length = strlen(ca->chain_pem)};
}

void tls_pki_open(tls_pki *pki, const sluice_tls_context_options *server, const sluice_tls_context_options *client) {
    *pki = (tls_pki){.ca = certificate_make(&(certificate_form){.name = "Test CA", .is_ca = true})};
    pki->leaf = certificate_make(
        &(certificate_form){.name = "localhost", .alternatives = "DNS:localhost,IP:127.0.0.1", .issuer = &pki->ca});
    sluice_tls_context_options trusting = client ? *client : (sluice_tls_context_options){.size = sizeof trusting};
    trusting.role = SLUICE_TLS_CLIENT;
    trusting.ca = pki->ca.chain_pem;
    trusting.ca_length = strlen(pki->ca.chain_pem);
    assert_int_equal(sluice_tls_context_new(server, &pki->server), 0);
    assert_int_equal(sluice_tls_context_new(&trusting, &pki->client), 0);
    sluice_tls_certificate option = certificate_option(&pki->leaf, NULL);
    assert_int_equal(sluice_tls_context_add_certificate(pki->server, &option), 0);
}

void tls_pki_close(tls_pki *pki) {
    sluice_tls_context_unref(pki->server);
    sluice_tls_context_unref(pki->client);
    certificate_free(&pki->ca);
    certificate_free(&pki->leaf);
}
