#include "support/tls/peer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "support/sockets.h"

void tls_peer_open(tls_peer *peer, sluice_loop *loop, int fd, bool is_server) {
    *peer = (tls_peer){
        .fd = fd, .loop = loop, .context = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method())};
    assert_non_null(peer->context);
    peer->ssl = SSL_new(peer->context);
    peer->in = BIO_new(BIO_s_mem());
    peer->out = BIO_new(BIO_s_mem());
    assert_true(peer->ssl && peer->in && peer->out);
    BIO_set_mem_eof_return(peer->in, -1);
    SSL_set_bio(peer->ssl, peer->in, peer->out);
    if (is_server)
        SSL_set_accept_state(peer->ssl);
    else
        SSL_set_connect_state(peer->ssl);
}

void tls_peer_close(tls_peer *peer) {
    SSL_free(peer->ssl);
    SSL_CTX_free(peer->context);
    *peer = (tls_peer){.fd = -1};
}

void tls_peer_flush(tls_peer *peer) {
    uint8_t bytes[32768];
    int n;
    while ((n = BIO_read(peer->out, bytes,
                         peer->piece > 0 && peer->piece < sizeof bytes ? (int)peer->piece : (int)sizeof bytes)) > 0)
        for (int done = 0; done < n;) {
            ssize_t sent = send(peer->fd, bytes + done, (size_t)(n - done), MSG_DONTWAIT | MSG_NOSIGNAL);
            if (sent < 0 && errno != EAGAIN)
                return; /* the stage's side is closed */
            done += sent > 0 ? (int)sent : 0;
            turn_through(peer->loop, 1);
        }
}

bool tls_peer_fill(tls_peer *peer) {
    uint8_t bytes[16384];
    for (;;) {
        ssize_t n = recv(peer->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return false;
        if (n < 0)
            return true;
        assert_int_equal(BIO_write(peer->in, bytes, (int)n), n);
    }
}

int tls_peer_handshake(tls_peer *peer) {
    for (;;) {
        int result = SSL_do_handshake(peer->ssl), error = SSL_get_error(peer->ssl, result);
        tls_peer_flush(peer);
        if (result == 1)
            return 1;
        if (error != SSL_ERROR_WANT_READ)
            return -error;
        turn_through(peer->loop, 2);
        if (!tls_peer_fill(peer) && BIO_ctrl_pending(peer->in) == 0)
            return -SSL_ERROR_SYSCALL;
    }
}

void tls_peer_write(tls_peer *peer, const void *bytes, size_t n) {
    assert_int_equal(SSL_write(peer->ssl, bytes, (int)n), n);
    tls_peer_flush(peer);
}

void tls_peer_read(tls_peer *peer, void *bytes, size_t n) {
    for (size_t done = 0; done < n;) {
        int got = SSL_read(peer->ssl, (uint8_t *)bytes + done, (int)(n - done));
        if (got > 0) {
            done += (size_t)got;
            continue;
        }
        assert_int_equal(SSL_get_error(peer->ssl, got), SSL_ERROR_WANT_READ);
        tls_peer_flush(peer);
        turn_through(peer->loop, 2);
        bool open = tls_peer_fill(peer);
        assert_true(open || BIO_ctrl_pending(peer->in) > 0);
    }
}

bool tls_peer_read_end(tls_peer *peer) {
    for (;;) {
        uint8_t byte;
        int got = SSL_read(peer->ssl, &byte, 1), error = SSL_get_error(peer->ssl, got);
        if (got > 0)
            continue;
        if (error != SSL_ERROR_WANT_READ)
            return error == SSL_ERROR_ZERO_RETURN;
        turn_through(peer->loop, 2);
        if (!tls_peer_fill(peer) && BIO_ctrl_pending(peer->in) == 0)
            return false;
    }
}
