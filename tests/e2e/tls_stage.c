/*
 * A TLS server of the library that other implementations talk to: it sends back what it receives,
 * and prints a line of key=value when a connection has ended.
 *
 * tls_stage [--certificate NAME CHAIN KEY]... [--client-ca FILE] [--alpn LIST] [--rekey RECORDS]
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sluice/sluice.h>
#include <sluice/tls.h>

static sluice_tls_context *context;
static sluice_loop *loop;

struct session {
    sluice_conn *conn;
    sluice_tls *tls;
    uint64_t bytes;
    int end; /* 0: the stream ended with close_notify */
};

static int echo(struct session *session) {
    sluice_chain *chain = sluice_tls_chain(session->tls);
    int error = 0;
    while (!error && sluice_chain_length(chain) > 0) {
        size_t n = sluice_chain_length(chain) < SLUICE_TLS_RECORD ? sluice_chain_length(chain) : SLUICE_TLS_RECORD;
        sluice_slice slice;
        if (sluice_tls_room(session->tls) < n) {
            sluice_conn_pause(session->conn);
            return 0;
        }
        error = sluice_chain_take(chain, n, &slice);
        if (!error)
            error = sluice_tls_send_slice(session->tls, &slice, 0, NULL);
        sluice_slice_release(&slice);
        session->bytes += n;
    }
    sluice_conn_resume(session->conn);
    return error;
}

static void on_data(sluice_conn *conn, void *user) {
    struct session *session = user;
    int result = sluice_tls_receive(session->tls), error = echo(session);
    if (result == -ENODATA) {
        session->end = 0;
        result = sluice_tls_finish(session->tls);
    }
    if (result < 0 || error < 0)
        sluice_conn_close(conn);
}

static void on_end(sluice_conn *conn, int error, void *user) {
    struct session *session = user;
    session->end = error ? error : sluice_tls_end(session->tls);
    sluice_conn_close(conn);
}

static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    struct session *session = user;
    (void)conn;
    return sluice_tls_gather(session->tls, iov, max);
}

static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    struct session *session = user;
    sluice_tls_sent(session->tls, bytes);
    if (sluice_tls_get_state(session->tls) == SLUICE_TLS_OPEN && echo(session) < 0)
        sluice_conn_close(conn);
}

static const char *or_none(const char *text) {
    return text ? text : "-";
}

static void on_closed(sluice_conn *conn, void *user) {
    struct session *session = user;
    sluice_tls_info info = {.size = sizeof info};
    sluice_tls_stats stats = {.size = sizeof stats};
    (void)conn;
    if (session->tls) {
        sluice_tls_get_info(session->tls, &info);
        sluice_tls_get_stats(session->tls, &stats);
        printf("closed version=%x cipher=%s alpn=%s name=%s resumed=%d peer=%s verified=%d end=%d detail=%d bytes=%llu "
               "keys_in=%llu keys_out=%llu\n",
               info.version, or_none(info.cipher), or_none(info.alpn), or_none(info.server_name), info.resumed,
               or_none(info.peer_name), info.peer_verified, session->end, sluice_tls_get_detail(session->tls),
               (unsigned long long)session->bytes, (unsigned long long)stats.key_updates_in,
               (unsigned long long)stats.key_updates_out);
        fflush(stdout);
    }
    sluice_tls_free(session->tls);
    free(session);
}

static const sluice_conn_events events = {.size = sizeof events,
                                          .on_data = on_data,
                                          .on_end = on_end,
                                          .on_gather = on_gather,
                                          .on_sent = on_sent,
                                          .on_closed = on_closed};

static void on_accepted(sluice_listener *listener, int fd, void *user) {
    struct session *session = calloc(1, sizeof *session);
    (void)listener, (void)user;
    if (!session || sluice_conn_new(loop, fd, &events, session, &session->conn) < 0) {
        free(session);
        close(fd);
        return;
    }
    session->end = -EIO;
    if (sluice_tls_new(context, session->conn, NULL, &session->tls) < 0)
        sluice_conn_close(session->conn);
}

/* The settings and, behind them, the certificates. */
static int configure(int argc, char **argv) {
    sluice_tls_context_options options = {.size = sizeof options};
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--client-ca") == 0) {
            options.verify = SLUICE_TLS_VERIFY_REQUIRED;
            options.ca_path = argv[i + 1];
        } else if (strcmp(argv[i], "--alpn") == 0) {
            options.alpn = argv[i + 1];
        } else if (strcmp(argv[i], "--rekey") == 0) {
            options.rekey_records = (uint32_t)atoi(argv[i + 1]);
        }
    }
    int error = sluice_tls_context_new(&options, &context);
    for (int i = 1; !error && i + 3 < argc; i++) {
        if (strcmp(argv[i], "--certificate") != 0)
            continue;
        const sluice_tls_certificate certificate = {.size = sizeof certificate,
                                                    .name = argv[i + 1][0] ? argv[i + 1] : NULL,
                                                    .chain_path = argv[i + 2],
                                                    .key_path = argv[i + 3]};
        error = sluice_tls_context_add_certificate(context, &certificate);
    }
    return error;
}

int main(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_storage bound;
    sluice_pool *pool;
    sluice_listener *listener;
    const char *backend = getenv("SLUICE_TEST_BACKEND");
    const sluice_loop_options loop_options = {
        .size = sizeof loop_options,
        .backend = backend && strcmp(backend, "epoll") == 0 ? SLUICE_BACKEND_EPOLL : SLUICE_BACKEND_AUTO};
    int error = configure(argc, argv);
    if (error) {
        fprintf(stderr, "tls_stage: %s\n", strerror(-error));
        return EXIT_FAILURE;
    }
    if (sluice_pool_new(NULL, &pool) < 0 || sluice_loop_new(pool, &loop_options, &loop) < 0 ||
        sluice_listener_new(loop, (struct sockaddr *)&address, sizeof address, on_accepted, NULL, &listener) < 0 ||
        sluice_listener_address(listener, &bound) < 0)
        return EXIT_FAILURE;
    printf("listening on 127.0.0.1:%u\n", ntohs(((struct sockaddr_in *)&bound)->sin_port));
    fflush(stdout);
    return sluice_loop_run(loop) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
