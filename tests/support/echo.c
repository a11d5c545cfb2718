#include "support/echo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <netinet/in.h>

#include <cmocka.h>

#include <sluice/chain.h>
#include <sluice/slice.h>

#include "support/sockets.h"

enum { MOST_PIECES = 1 << 20 }; /* bytes of one send */

typedef struct echo_conn {
    echo_server *server;
    sluice_chain *out;
    sluice_slice sending;
    size_t done; /* of it */
    bool ended;
} echo_conn;

static void finish_when_done(echo_conn *echo, sluice_conn *conn) {
    if (!echo->ended || sluice_slice_length(&echo->sending) > 0 || sluice_chain_length(echo->out) > 0)
        return;
    assert_int_equal(sluice_conn_finish(conn), 0);
    sluice_conn_close(conn);
}

static void echo_data(sluice_conn *conn, void *user) {
    echo_conn *echo = user;
    sluice_chain *chain = sluice_conn_chain(conn);
    assert_int_equal(sluice_chain_move(chain, sluice_chain_length(chain), echo->out), 0);
    sluice_conn_want_send(conn);
}

static void echo_end(sluice_conn *conn, int error, void *user) {
    echo_conn *echo = user;
    echo->ended = true;
    if (error)
        sluice_conn_close(conn);
    else
        finish_when_done(echo, conn);
}

static size_t echo_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    echo_conn *echo = user;
    size_t length = sluice_chain_length(echo->out);
    (void)conn;
    if (sluice_slice_length(&echo->sending) == 0) {
        if (length == 0)
            return 0;
        assert_int_equal(sluice_chain_take(echo->out, length < MOST_PIECES ? length : MOST_PIECES, &echo->sending), 0);
        echo->done = 0;
    }
    size_t count = sluice_slice_iov(&echo->sending, echo->done, iov, max);
    return count < max ? count : max;
}

static void echo_sent(sluice_conn *conn, size_t bytes, void *user) {
    echo_conn *echo = user;
    echo->done += bytes;
    if (echo->done == sluice_slice_length(&echo->sending))
        sluice_slice_release(&echo->sending);
    finish_when_done(echo, conn);
}

static void echo_closed(sluice_conn *conn, void *user) {
    echo_conn *echo = user;
    (void)conn;
    sluice_slice_release(&echo->sending);
    sluice_chain_free(echo->out);
    echo->server->open--;
    echo->server->served++;
    free(echo);
}

static const sluice_conn_events echo_events = {.size = sizeof echo_events,
                                               .on_data = echo_data,
                                               .on_end = echo_end,
                                               .on_gather = echo_gather,
                                               .on_sent = echo_sent,
                                               .on_closed = echo_closed};

static void accepted(sluice_listener *listener, int fd, void *user) {
    echo_server *server = user;
    (void)listener;
    sluice_conn *conn;
    echo_conn *echo = calloc(1, sizeof *echo);
    assert_non_null(echo);
    echo->server = server;
    assert_int_equal(sluice_chain_new(sluice_loop_pool(server->loop), &echo->out), 0);
    assert_int_equal(sluice_conn_new(server->loop, fd, &echo_events, echo, &conn), 0);
    server->open++;
}

void echo_server_open(echo_server *server, sluice_loop *loop) {
    const struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    *server = (echo_server){.loop = loop};
    assert_int_equal(sluice_listener_new(loop, (const struct sockaddr *)&address, sizeof address, accepted, server,
                                         &server->listener),
                     0);
}

static void client_data(sluice_conn *conn, void *user) {
    echo_client *client = user;
    sluice_chain *chain = sluice_conn_chain(conn);
    client->differs |= !pattern_consume(chain, sluice_chain_length(chain), client->seed, &client->place);
}

static void client_end(sluice_conn *conn, int error, void *user) {
    echo_client *client = user;
    client->ended = error == 0;
    sluice_conn_close(conn);
}

static size_t client_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    echo_client *client = user;
    uint64_t left = client->total - client->sent;
    (void)conn, (void)max;
    if (left == 0)
        return 0;
    size_t n = left < sizeof client->bytes ? left : sizeof client->bytes;
    pattern_fill(client->seed, client->sent, client->bytes, n);
    iov[0] = (struct iovec){client->bytes, n};
    return 1;
}

static void client_sent(sluice_conn *conn, size_t bytes, void *user) {
    echo_client *client = user;
    client->sent += bytes;
    if (client->sent == client->total)
        assert_int_equal(sluice_conn_finish(conn), 0);
}

static void client_closed(sluice_conn *conn, void *user) {
    echo_client *client = user;
    (void)conn;
    client->closed++;
}

static const sluice_conn_events client_events = {.size = sizeof client_events,
                                                 .on_data = client_data,
                                                 .on_end = client_end,
                                                 .on_gather = client_gather,
                                                 .on_sent = client_sent,
                                                 .on_closed = client_closed};

void echo_client_open(echo_client *client, const echo_server *server, uint32_t seed, uint64_t total) {
    struct sockaddr_storage address;
    client->seed = seed;
    client->total = total;
    client->sent = client->place = 0;
    client->differs = client->ended = false;
    client->closed = 0;
    assert_int_equal(sluice_listener_address(server->listener, &address), 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    /* The kernel accepts, whether or not the server has. */
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(struct sockaddr_in)), 0);
    assert_int_equal(sluice_conn_new(server->loop, fd, &client_events, client, &client->conn), 0);
    if (total > 0)
        sluice_conn_want_send(client->conn);
}

void echo_client_check(const echo_client *client) {
    assert_true(client->ended);
    assert_false(client->differs);
    assert_int_equal(client->sent, client->total);
    assert_int_equal(client->place, client->total);
    assert_int_equal(client->closed, 1);
}
