/*
 * example: a WebSocket server that sends each message back
 *
 * websocket_echo [PORT]. A message's payload is received, unmasked and sent in the same blocks.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <sluice/sluice.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PAUSE_ABOVE = 1 << 20, MOST_QUEUED = PAUSE_ABOVE + SLUICE_WEBSOCKET_DEFAULT_LIMIT + 1024 };

struct session {
    sluice_conn *conn;
    sluice_http *http;    /* the request to become a WebSocket */
    sluice_websocket *ws; /* after it */
    sluice_writer *writer;
    bool closing; /* the last frame is queued */
};

static int upgrade(struct session *session) {
    sluice_http_request request;
    char accept[SLUICE_WEBSOCKET_ACCEPT_SIZE], head[256];
    int result = sluice_http_next(session->http, sluice_conn_chain(session->conn), &request);
    if (result <= 0)
        return result;
    int error = sluice_websocket_upgrade(&request, accept);
    if (error) {
        session->closing = true;
        int size = snprintf(head, sizeof head,
                            "HTTP/1.1 %u Refused\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                            "Connection: close, upgrade\r\nContent-Length: 0\r\n\r\n",
                            sluice_websocket_error_status(error));
        return sluice_writer_copy(session->writer, head, (size_t)size);
    }
    sluice_http_release(session->http);
    int size = snprintf(head, sizeof head,
                        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                        "Sec-WebSocket-Accept: %.*s\r\n\r\n",
                        SLUICE_WEBSOCKET_ACCEPT_SIZE, accept);
    error = sluice_writer_copy(session->writer, head, (size_t)size);
    return error ? error : sluice_websocket_new(SLUICE_WEBSOCKET_SERVER, NULL, &session->ws);
}

static int send_close(struct session *session) {
    uint8_t frame[SLUICE_WEBSOCKET_CONTROL_SIZE];
    int size = sluice_websocket_write_close(frame, sluice_websocket_close_code(session->ws), NULL, NULL);
    session->closing = true;
    return size < 0 ? size : sluice_writer_copy(session->writer, frame, (size_t)size);
}

static int answer(struct session *session, const sluice_websocket_message *message) {
    uint8_t frame[SLUICE_WEBSOCKET_CONTROL_SIZE];
    int size = 0;
    if (message->opcode == SLUICE_WEBSOCKET_PONG)
        return 0;
    if (message->opcode == SLUICE_WEBSOCKET_CLOSE)
        return send_close(session);
    if (message->opcode == SLUICE_WEBSOCKET_PING) {
        size = sluice_websocket_write_pong(frame, message, NULL);
    } else {
        size = sluice_websocket_write_header(frame, message->opcode, true, sluice_slice_length(&message->payload),
                                             NULL);
    }
    int error = size < 0 ? size : sluice_writer_copy(session->writer, frame, (size_t)size);
    if (!error && message->opcode < SLUICE_WEBSOCKET_CLOSE)
        /* The writer takes references of its own. */
        error = sluice_writer_slice(session->writer, &message->payload);
    return error;
}

static int read_messages(struct session *session) {
    sluice_websocket_message *message;
    int result = 1;
    while (result > 0 && !session->closing && sluice_writer_queued(session->writer) <= PAUSE_ABOVE) {
        result = sluice_websocket_next(session->ws, sluice_conn_chain(session->conn), &message);
        if (result > 0 && answer(session, message) < 0)
            return -EPIPE;
    }
    if (result < 0 && !session->closing) /* the peer has broken the protocol */
        return send_close(session);
    sluice_conn_set_need(session->conn, sluice_websocket_need(session->ws));
    return 0;
}

static void on_data(sluice_conn *conn, void *user) {
    struct session *session = user;
    int error = session->ws || session->closing ? 0 : upgrade(session);
    if (!error && session->ws)
        error = read_messages(session);
    if (session->closing) /* what still comes is dropped until the peer closes too */
        sluice_chain_skip(sluice_conn_chain(conn), sluice_chain_length(sluice_conn_chain(conn)));
    if (error < 0)
        sluice_conn_close(conn);
    else if (sluice_writer_queued(session->writer) > PAUSE_ABOVE)
        sluice_conn_pause(conn); /* a peer that does not read is not read */
}
static void on_end(sluice_conn *conn, int error, void *user) {
    sluice_conn_close(conn);
}
static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    struct session *session = user;
    return sluice_writer_gather(session->writer, iov, max);
}
static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    struct session *session = user;
    sluice_writer_sent(session->writer, bytes);
    if (session->closing && sluice_writer_queued(session->writer) == 0) {
        sluice_conn_finish(conn);
    } else if (session->ws && sluice_writer_queued(session->writer) <= PAUSE_ABOVE) {
        sluice_conn_resume(conn); /* where it was paused; then a message may wait in the chain */
        if (sluice_chain_length(sluice_conn_chain(conn)) >= sluice_websocket_need(session->ws))
            sluice_conn_again(conn);
    }
}
static void on_closed(sluice_conn *conn, void *user) {
    struct session *session = user;
    sluice_writer_free(session->writer);
    sluice_websocket_free(session->ws);
    sluice_http_free(session->http);
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
    if (!session || sluice_conn_new(user, fd, &events, session, &session->conn) < 0) {
        free(session);
        close(fd);
    } else if (sluice_http_new(&session->http) < 0 ||
               sluice_writer_new(session->conn, MOST_QUEUED, &session->writer) < 0) {
        sluice_conn_close(session->conn); /* on_closed frees the session */
    }
}

int main(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)(argc > 1 ? atoi(argv[1]) : 8001))};
    struct sockaddr_storage bound;
    sluice_pool *pool;
    sluice_loop *loop;
    sluice_listener *listener;
    if (sluice_pool_new(NULL, &pool) < 0 || sluice_loop_new(pool, NULL, &loop) < 0 ||
        sluice_listener_new(loop, (struct sockaddr *)&address, sizeof address, on_accepted, loop, &listener) < 0 ||
        sluice_listener_address(listener, &bound) < 0)
        return EXIT_FAILURE;
    printf("listening on 127.0.0.1:%u\n", ntohs(((struct sockaddr_in *)&bound)->sin_port));
    fflush(stdout);
    return sluice_loop_run(loop) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
