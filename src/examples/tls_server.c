/*
 * example: TLS by OpenSSL, between a connection and a framer
 *
 * tls_server CERTIFICATE KEY [PORT] answers an HTTPS request per connection. OpenSSL reads and
 * writes memory BIOs. It decrypts into room that is reserved at the end of a chain, so that the
 * HTTP framer sees blocks as if they had been received; and what it encrypts goes the same way into
 * blocks, which the writer sends without another copy.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sluice/sluice.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { RECORD = 16384, MOST_QUEUED = 1 << 20 };

static SSL_CTX *context;
static sluice_pool *pool;
static sluice_loop *loop;

struct session {
    sluice_conn *conn;
    sluice_writer *writer;
    SSL *ssl;
    BIO *received, *to_send; /* the session's, by way of its SSL */
    sluice_chain *plain;     /* decrypted and not consumed */
    sluice_chain *sealed;    /* encrypted and not queued */
    sluice_http *http;
    bool answered;
};

/* What the peer has sent, into OpenSSL's BIO. */
static int feed(struct session *session) {
    sluice_chain *chain = sluice_conn_chain(session->conn);
    sluice_slice slice;
    struct iovec piece;
    int error = sluice_chain_take(chain, sluice_chain_length(chain), &slice);
    for (size_t done = 0; !error && sluice_slice_iov(&slice, done, &piece, 1) > 0; done += piece.iov_len)
        if (BIO_write(session->received, piece.iov_base, (int)piece.iov_len) != (int)piece.iov_len)
            error = -ENOMEM;
    sluice_slice_release(&slice);
    return error;
}

/* Handshake and decryption, as far as bytes have arrived. */
static int decrypt(struct session *session) {
    for (;;) {
        struct iovec room;
        int error = sluice_chain_reserve(session->plain, RECORD, &room, 1);
        if (error < 0)
            return error;
        ERR_clear_error();
        int n = SSL_read(session->ssl, room.iov_base, (int)room.iov_len);
        error = sluice_chain_commit(session->plain, n > 0 ? (size_t)n : 0);
        if (error < 0)
            return error;
        if (n <= 0) /* else the peer has ended the TLS connection, or broken the protocol */
            return SSL_get_error(session->ssl, n) == SSL_ERROR_WANT_READ ? 0 : -EPROTO;
    }
}

/* What OpenSSL wants to send: handshake, records, alerts. */
static int send_sealed(struct session *session) {
    while (BIO_ctrl_pending(session->to_send) > 0) {
        struct iovec room;
        sluice_slice slice;
        int error = sluice_chain_reserve(session->sealed, RECORD, &room, 1);
        if (error < 0)
            return error;
        int n = BIO_read(session->to_send, room.iov_base, (int)room.iov_len);
        error = sluice_chain_commit(session->sealed, (size_t)n);
        if (error < 0)
            return error;
        sluice_chain_take(session->sealed, (size_t)n, &slice);
        error = sluice_writer_slice(session->writer, &slice); /* with references of its own */
        sluice_slice_release(&slice);
        if (error < 0)
            return error;
    }
    return 0;
}

/* One response for the first request, whatever it is. */
static int answer(struct session *session) {
    sluice_http_request request;
    char text[4096];
    int result = sluice_http_next(session->http, session->plain, &request);
    if (result <= 0)
        return result;
    int size = snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%.*s by %s\n",
                        (int)request.path.length, request.path.text, SSL_get_version(session->ssl));
    if (SSL_write(session->ssl, text, size) != size)
        return -EPROTO;
    SSL_shutdown(session->ssl);
    session->answered = true;
    return 0;
}

static void on_data(sluice_conn *conn, void *user) {
    struct session *session = user;
    int error = feed(session);
    if (!error)
        error = decrypt(session);
    if (!error && !session->answered)
        error = answer(session);
    if (session->answered) /* what still comes is dropped */
        sluice_chain_skip(session->plain, sluice_chain_length(session->plain));
    int sent = send_sealed(session);
    if (error < 0 || sent < 0) {
        sluice_writer_flush(session->writer); /* an alert */
        sluice_conn_close(conn);
    }
}
static void on_end(sluice_conn *conn, int error, void *user) {
    sluice_conn_close(conn);
}
static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    return sluice_writer_gather(((struct session *)user)->writer, iov, max);
}
static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    struct session *session = user;
    sluice_writer_sent(session->writer, bytes);
    if (session->answered && sluice_writer_queued(session->writer) == 0)
        sluice_conn_finish(conn); /* on_end follows when the peer closes */
}
static void on_closed(sluice_conn *conn, void *user) {
    struct session *session = user;
    sluice_writer_free(session->writer);
    sluice_http_free(session->http);
    sluice_chain_free(session->plain);
    sluice_chain_free(session->sealed);
    SSL_free(session->ssl); /* and its BIOs */
    free(session);
}
static const sluice_conn_events events = {.size = sizeof events,
                                          .on_data = on_data,
                                          .on_end = on_end,
                                          .on_gather = on_gather,
                                          .on_sent = on_sent,
                                          .on_closed = on_closed};

static int open_session(struct session *session) {
    session->ssl = SSL_new(context);
    if (!session->ssl)
        return -ENOMEM;
    session->received = BIO_new(BIO_s_mem());
    session->to_send = BIO_new(BIO_s_mem());
    SSL_set_bio(session->ssl, session->received, session->to_send); /* which frees them */
    SSL_set_accept_state(session->ssl);
    if (!session->received || !session->to_send || sluice_chain_new(pool, &session->plain) < 0 ||
        sluice_chain_new(pool, &session->sealed) < 0 || sluice_http_new(&session->http) < 0)
        return -ENOMEM;
    return sluice_writer_new(session->conn, MOST_QUEUED, &session->writer);
}

static void on_accepted(sluice_listener *listener, int fd, void *user) {
    struct session *session = calloc(1, sizeof *session);
    if (!session || sluice_conn_new(loop, fd, &events, session, &session->conn) < 0) {
        free(session);
        close(fd);
    } else if (open_session(session) < 0) {
        sluice_conn_close(session->conn); /* on_closed frees the session */
    }
}

int main(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)(argc > 3 ? atoi(argv[3]) : 8443))};
    struct sockaddr_storage bound;
    sluice_listener *listener;
    context = SSL_CTX_new(TLS_server_method());
    if (argc < 3 || !context || SSL_CTX_use_certificate_chain_file(context, argv[1]) != 1 ||
        SSL_CTX_use_PrivateKey_file(context, argv[2], SSL_FILETYPE_PEM) != 1) {
        fprintf(stderr, "Usage: tls_server CERTIFICATE KEY [PORT]\n");
        return 2;
    }
    if (sluice_pool_new(NULL, &pool) < 0 || sluice_loop_new(pool, NULL, &loop) < 0 ||
        sluice_listener_new(loop, (struct sockaddr *)&address, sizeof address, on_accepted, NULL, &listener) < 0 ||
        sluice_listener_address(listener, &bound) < 0)
        return EXIT_FAILURE;
    printf("listening on 127.0.0.1:%u\n", ntohs(((struct sockaddr_in *)&bound)->sin_port));
    fflush(stdout);
    return sluice_loop_run(loop) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
