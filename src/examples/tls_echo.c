/*
 * example: TLS for a server
 *
 * tls_echo CERTIFICATE KEY [PORT] sends back what its clients send. The stage decrypts into blocks,
 * and what is sent is taken from those. A client that does not read is not read from either.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <sluice/sluice.h>
#include <sluice/tls.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static sluice_tls_context *context;
static sluice_loop *loop;

/* What has been decrypted goes back, record by record, as far as there is room for it. */
static int echo(sluice_conn *conn, sluice_tls *tls) {
    sluice_chain *chain = sluice_tls_chain(tls);
    int error = 0;
    while (!error && sluice_chain_length(chain) > 0) {
        size_t n = sluice_chain_length(chain) < SLUICE_TLS_RECORD ? sluice_chain_length(chain) : SLUICE_TLS_RECORD;
        sluice_slice slice;
        if (sluice_tls_room(tls) < n) {
            sluice_conn_pause(conn); /* on_sent continues */
            return 0;
        }
        error = sluice_chain_take(chain, n, &slice);
        if (!error)
            error = sluice_tls_send_slice(tls, &slice, 0, NULL);
        sluice_slice_release(&slice);
    }
    sluice_conn_resume(conn);
    return error;
}

static void on_data(sluice_conn *conn, void *user) {
    sluice_tls *tls = user;
    sluice_tls_info info = {.size = sizeof info};
    bool open = sluice_tls_get_state(tls) == SLUICE_TLS_OPEN;
    int result = sluice_tls_receive(tls);
    if (!open && sluice_tls_get_info(tls, &info) == 0)
        fprintf(stderr, "%s\n", info.cipher);
    int error = echo(conn, tls);
    if (result == -ENODATA) /* the client has finished: so does the server, after the last byte */
        result = sluice_tls_finish(tls);
    if (result < 0)
        fprintf(stderr, "%s\n", sluice_tls_reason(tls));
    if (result < 0 || error < 0)
        sluice_conn_close(conn);
}
static void on_end(sluice_conn *conn, int error, void *user) {
    sluice_conn_close(conn);
}
static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    return sluice_tls_gather(user, iov, max);
}
static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    sluice_tls *tls = user;
    sluice_tls_sent(tls, bytes);
    if (sluice_tls_get_state(tls) == SLUICE_TLS_OPEN && echo(conn, tls) < 0)
        sluice_conn_close(conn);
}
static void on_closed(sluice_conn *conn, void *user) {
    sluice_tls_free(user);
}
static const sluice_conn_events events = {.size = sizeof events,
                                          .on_data = on_data,
                                          .on_end = on_end,
                                          .on_gather = on_gather,
                                          .on_sent = on_sent,
                                          .on_closed = on_closed};

static void on_accepted(sluice_listener *listener, int fd, void *user) {
    sluice_conn *conn;
    sluice_tls *tls;
    if (sluice_conn_new(loop, fd, &events, NULL, &conn) < 0)
        close(fd);
    else if (sluice_tls_new(context, conn, NULL, &tls) < 0)
        sluice_conn_close(conn);
    else
        sluice_conn_set_events(conn, &events, tls); /* now with the stage as their user */
}

int main(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)(argc > 3 ? atoi(argv[3]) : 8443))};
    struct sockaddr_storage bound;
    sluice_pool *pool;
    sluice_listener *listener;
    if (argc < 3) {
        fprintf(stderr, "Usage: tls_echo CERTIFICATE KEY [PORT]\n");
        return 2;
    }
    const sluice_tls_certificate certificate = {.size = sizeof certificate, .chain_path = argv[1], .key_path = argv[2]};
    if (sluice_tls_context_new(NULL, &context) < 0 || sluice_tls_context_add_certificate(context, &certificate) < 0) {
        fprintf(stderr, "tls_echo: the certificate or the key cannot be used\n");
        return EXIT_FAILURE;
    }
    if (sluice_pool_new(NULL, &pool) < 0 || sluice_loop_new(pool, NULL, &loop) < 0 ||
        sluice_listener_new(loop, (struct sockaddr *)&address, sizeof address, on_accepted, NULL, &listener) < 0 ||
        sluice_listener_address(listener, &bound) < 0)
        return EXIT_FAILURE;
    printf("listening on 127.0.0.1:%u\n", ntohs(((struct sockaddr_in *)&bound)->sin_port));
    fflush(stdout);
    return sluice_loop_run(loop) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
