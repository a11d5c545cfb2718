/*
 * example: TLS for a client
 *
 * https_get HOST PORT PATH [CA-FILE] prints a page. The server's certificate must be for HOST, and
 * signed by an authority of the system's store, or of CA-FILE. The page is complete only if the
 * server has ended the TLS stream: otherwise somebody on the way may have cut it.
 */
#include <errno.h>
#include <netdb.h>
#include <sluice/sluice.h>
#include <sluice/tls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct session {
    sluice_loop *loop;
    sluice_tls_context *context;
    sluice_tls *tls;
    const char *host, *path;
    bool asked;
    int status; /* of the program */
} session = {.status = EXIT_FAILURE};

/* Into the terminal, or wherever the output goes. */
static void print(sluice_chain *chain) {
    struct iovec pieces[16];
    sluice_slice slice;
    size_t n = sluice_chain_length(chain);
    if (sluice_chain_take(chain, n, &slice) < 0)
        return;
    for (size_t done = 0; done < n;) {
        size_t count = sluice_slice_iov(&slice, done, pieces, 16);
        for (size_t i = 0; i < count && i < 16; i++) {
            fwrite(pieces[i].iov_base, 1, pieces[i].iov_len, stdout);
            done += pieces[i].iov_len;
        }
    }
    sluice_slice_release(&slice);
}

static int ask(void) {
    char head[1024];
    int length = snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", session.path,
                          session.host);
    session.asked = true;
    if (length < 0 || (size_t)length >= sizeof head)
        return -EMSGSIZE;
    return sluice_tls_send(session.tls, &(struct iovec){head, (size_t)length}, 1, NULL);
}

static void on_data(sluice_conn *conn, void *user) {
    int result = sluice_tls_receive(session.tls);
    print(sluice_tls_chain(session.tls));
    if (result == -ENODATA)
        session.status = EXIT_SUCCESS;
    else if (result < 0)
        fprintf(stderr, "https_get: %s\n", sluice_tls_reason(session.tls));
    else if (!session.asked && sluice_tls_get_state(session.tls) == SLUICE_TLS_OPEN)
        result = ask();
    if (result < 0)
        sluice_conn_close(conn);
}
static void on_end(sluice_conn *conn, int error, void *user) {
    if (error == 0 && sluice_tls_end(session.tls) == 0)
        session.status = EXIT_SUCCESS;
    else
        fprintf(stderr, "https_get: %s\n", error ? strerror(-error) : sluice_tls_reason(session.tls));
    sluice_conn_close(conn);
}
static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    return sluice_tls_gather(session.tls, iov, max);
}
static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    sluice_tls_sent(session.tls, bytes);
}
static void on_closed(sluice_conn *conn, void *user) {
    sluice_tls_free(session.tls);
    sluice_loop_stop(session.loop);
}
static const sluice_conn_events events = {.size = sizeof events,
                                          .on_data = on_data,
                                          .on_end = on_end,
                                          .on_gather = on_gather,
                                          .on_sent = on_sent,
                                          .on_closed = on_closed};

static void on_connected(sluice_conn *conn, int error, void *user) {
    if (error) {
        fprintf(stderr, "https_get: %s\n", strerror(-error));
        sluice_loop_stop(session.loop);
    } else if (sluice_tls_new(session.context, conn, session.host, &session.tls) < 0) {
        sluice_conn_close(conn);
    }
}

static int connect_to(const char *host, const char *port) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    if (getaddrinfo(host, port, &hints, &found) != 0) {
        fprintf(stderr, "https_get: %s is unknown\n", host);
        return -1;
    }
    const sluice_connect_options options = {
        .size = sizeof options, .address = found->ai_addr, .length = found->ai_addrlen, .timeout_ms = 10000};
    int error = sluice_connect(session.loop, &options, &events, on_connected, NULL, NULL);
    freeaddrinfo(found);
    return error;
}

int main(int argc, char **argv) {
    sluice_pool *pool;
    if (argc < 4) {
        fprintf(stderr, "Usage: https_get HOST PORT PATH [CA-FILE]\n");
        return 2;
    }
    session.host = argv[1];
    session.path = argv[3];
    const sluice_tls_context_options options = {
        .size = sizeof options, .role = SLUICE_TLS_CLIENT, .alpn = "http/1.1", .ca_path = argc > 4 ? argv[4] : NULL};
    if (sluice_tls_context_new(&options, &session.context) < 0) {
        fprintf(stderr, "https_get: the certificates of authorities cannot be read\n");
        return EXIT_FAILURE;
    }
    if (sluice_pool_new(NULL, &pool) < 0 || sluice_loop_new(pool, NULL, &session.loop) < 0)
        return EXIT_FAILURE;
    if (connect_to(argv[1], argv[2]) == 0)
        sluice_loop_run(session.loop);
    sluice_loop_free(session.loop);
    sluice_pool_free(pool);
    sluice_tls_context_unref(session.context);
    return session.status;
}
