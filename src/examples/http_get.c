/*
 * example: HTTP GET into a buffer
 *
 * http_get HOST PORT PATH writes a resource to standard output. A body whose length is known is
 * received by the kernel straight into the buffer; others come in pieces, which are copied there.
 */
#include <errno.h>
#include <netdb.h>
#include <sluice/sluice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 << 20 };

static char buffer[MOST];

static struct get {
    sluice_loop *loop;
    const struct addrinfo *address; /* that is tried */
    char request[2048];
    size_t request_size, request_sent;
    sluice_http *http;
    sluice_http_body body;
    sluice_chain *pieces; /* of the body, where its length is not known */
    bool in_body;
    size_t size; /* in the buffer */
    int error;   /* why there is nothing to write */
} get = {.error = -ECONNABORTED};

static void finish(sluice_conn *conn, int error) {
    get.error = error;
    sluice_conn_close(conn);
    sluice_loop_stop(get.loop);
}

static void on_received(sluice_conn *conn, int error, size_t done, void *user) {
    get.size = done;
    finish(conn, error);
}

static void begin_body(sluice_conn *conn, const sluice_http_response *response) {
    get.in_body = true;
    sluice_http_body_begin_response(&get.body, response);
    if (response->body != SLUICE_HTTP_BODY_LENGTH)
        return;
    if (response->content_length > MOST) {
        finish(conn, -EFBIG);
        return;
    }
    int result = sluice_conn_receive_into(conn, buffer, (size_t)response->content_length, on_received, NULL);
    if (result != 0) /* all of it has come with the head, or there is none */
        on_received(conn, result < 0 ? result : 0, (size_t)response->content_length, NULL);
}

static void read_pieces(sluice_conn *conn) {
    sluice_slice piece;
    int result = sluice_http_body_next(&get.body, sluice_conn_chain(conn), get.pieces);
    size_t length = sluice_chain_length(get.pieces);
    if (result < 0 || length > MOST - get.size) {
        finish(conn, result < 0 ? result : -EFBIG);
        return;
    }
    sluice_chain_take(get.pieces, length, &piece);
    get.size += sluice_slice_copy(&piece, 0, buffer + get.size, length);
    sluice_slice_release(&piece);
    if (result > 0)
        finish(conn, 0);
}

static void on_data(sluice_conn *conn, void *user) {
    sluice_http_response response;
    int result = 1;
    while (!get.in_body &&
           (result = sluice_http_next_response(get.http, sluice_conn_chain(conn), "GET", &response)) > 0) {
        if (response.interim)
            continue;
        fprintf(stderr, "%u %.*s\n", response.status, (int)response.reason.length, response.reason.text);
        begin_body(conn, &response);
    }
    if (result < 0)
        finish(conn, result);
    else if (get.in_body && get.body.kind != SLUICE_HTTP_BODY_LENGTH)
        read_pieces(conn);
}
static void on_end(sluice_conn *conn, int error, void *user) {
    if (!error)
        error = get.in_body ? sluice_http_body_end(&get.body) : -ECONNRESET;
    finish(conn, error);
}
static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    iov[0] = (struct iovec){.iov_base = get.request + get.request_sent, .iov_len = get.request_size - get.request_sent};
    return iov[0].iov_len > 0;
}
static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    get.request_sent += bytes;
}
static const sluice_conn_events events = {
    .size = sizeof events, .on_data = on_data, .on_end = on_end, .on_gather = on_gather, .on_sent = on_sent};

static void on_connected(sluice_conn *conn, int error, void *user);

/* The next address of the server. */
static void dial(void) {
    for (; get.address; get.address = get.address->ai_next) {
        const sluice_connect_options options = {.size = sizeof options,
                                                .address = get.address->ai_addr,
                                                .length = get.address->ai_addrlen,
                                                .timeout_ms = 10000};
        get.error = sluice_connect(get.loop, &options, &events, on_connected, NULL, NULL);
        if (!get.error)
            return;
    }
    sluice_loop_stop(get.loop);
}
static void on_connected(sluice_conn *conn, int error, void *user) {
    get.error = error;
    if (conn) {
        sluice_conn_want_send(conn);
    } else if (error != -ECANCELED) {
        get.address = get.address->ai_next;
        dial();
    }
}

int main(int argc, char **argv) {
    sluice_pool *pool;
    struct addrinfo *found;
    if (argc != 4) {
        fprintf(stderr, "Usage: http_get HOST PORT PATH\n");
        return 2;
    }
    int size = snprintf(get.request, sizeof get.request, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
                        argv[3], argv[1]);
    get.request_size = (size_t)size;
    if (size >= (int)sizeof get.request || sluice_pool_new(NULL, &pool) < 0 ||
        sluice_loop_new(pool, NULL, &get.loop) < 0 || sluice_http_new(&get.http) < 0 ||
        sluice_chain_new(pool, &get.pieces) < 0 ||
        getaddrinfo(argv[1], argv[2], &(struct addrinfo){.ai_socktype = SOCK_STREAM}, &found) != 0)
        return EXIT_FAILURE;
    get.address = found;
    dial();
    int error = get.address ? sluice_loop_run(get.loop) : 0;
    freeaddrinfo(found);
    if (!error)
        error = get.error;
    if (error)
        fprintf(stderr, "http_get: %s\n", strerror(-error));
    else if (fwrite(buffer, 1, get.size, stdout) != get.size)
        error = -errno;
    sluice_chain_free(get.pieces);
    sluice_http_free(get.http);
    sluice_loop_free(get.loop);
    sluice_pool_free(pool);
    return error ? EXIT_FAILURE : EXIT_SUCCESS;
}
