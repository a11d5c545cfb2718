/*
 * An endpoint that sends back every WebSocket message, for tests against other implementations:
 *
 *     websocket_echo serve [OPTIONS]              listens on loopback, says "port N" first
 *     websocket_echo connect PORT TARGET [OPTIONS]    ends with the connection
 *
 * Payloads are sent from the blocks in which they were received. The target says what it does
 * besides, once the connection is open: "/ping" pings and, when the pong has come, says so;
 * "/close/CODE" closes with that code.
 *
 * --pieces     relay messages in pieces, as they come
 * --limit N    longest message, bytes
 *
 * Writes a line for each connection: "closed" and the close code that the peer has sent, or the
 * error that it has made. Ends with standard input, and with "pool", and whether all blocks came
 * back and nothing was copied.
 *
 * Environment: SLUICE_TEST_BACKEND, the loop's backend: uring or epoll.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sluice/sluice.h>

enum {
    HEAD_SIZE = 512, /* of a handshake; more than a control frame */
    MOST_QUEUED = 4 << 20,
};

/* What is to be sent: a head, then a payload by reference. */
struct output {
    struct output *next;
    uint8_t head[HEAD_SIZE];
    size_t head_size;
    sluice_slice payload;
    size_t sent;
};

static struct {
    sluice_websocket_role role;
    sluice_websocket_options options;
    const char *port, *target; /* of the client */
    sluice_loop *loop;
    char accept[SLUICE_WEBSOCKET_ACCEPT_SIZE]; /* that the client expects */
    /* in handshakes, bytes: text of lines that straddle blocks */
    uint64_t copied;
} program;

struct session {
    sluice_conn *conn;
    sluice_http *http;
    sluice_reader *reader;
    sluice_websocket *ws;
    struct output *first, *last;
    size_t queued;
    bool switched; /* client: the status was 101 */
    bool accepted; /* client: the answer belongs to the request */
    bool pinged;   /* and no pong has come */
    bool paused;
    bool closing; /* nothing more is to be written */
    bool ended;   /* nothing more will come */
    int code;     /* of the peer's close frame, or an error of its making */
};

static void check(int error, const char *what) {
    if (error < 0) {
        fprintf(stderr, "websocket_echo: %s: %s\n", what, strerror(-error));
        exit(1);
    }
}

/* ---- Sending ---- */

static struct output *queue(struct session *session) {
    struct output *output = calloc(1, sizeof *output);
    if (!output)
        check(-ENOMEM, "output");
    if (session->last)
        session->last->next = output;
    else
        session->first = output;
    session->last = output;
    sluice_conn_want_send(session->conn);
    return output;
}

static size_t output_size(const struct output *output) {
    return output->head_size + sluice_slice_length(&output->payload);
}

static void pop(struct session *session) {
    struct output *output = session->first;
    session->first = output->next;
    if (!session->first)
        session->last = NULL;
    sluice_slice_release(&output->payload);
    free(output);
}

static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    struct session *session = user;
    size_t count = 0;
    (void)conn;
    for (struct output *output = session->first; output && count < max; output = output->next) {
        size_t payload_sent = 0;
        if (output->sent < output->head_size)
            iov[count++] = (struct iovec){output->head + output->sent, output->head_size - output->sent};
        else
            payload_sent = output->sent - output->head_size;
        size_t pieces = sluice_slice_iov(&output->payload, payload_sent, iov + count, max - count);
        count += pieces < max - count ? pieces : max - count;
    }
    return count;
}

/* A key for the client's next frame. */
static const uint8_t *new_mask(uint8_t mask[SLUICE_WEBSOCKET_MASK_SIZE]) {
    if (program.role == SLUICE_WEBSOCKET_SERVER)
        return NULL;
    if (getrandom(mask, SLUICE_WEBSOCKET_MASK_SIZE, 0) != SLUICE_WEBSOCKET_MASK_SIZE)
        check(-EIO, "getrandom");
    return mask;
}

/* The slice is this side's alone: masked where it lies. */
static void mask_slice(const sluice_slice *slice, const uint8_t *mask) {
    struct iovec iov[16];
    for (size_t done = 0; done < sluice_slice_length(slice);) {
        size_t count = sluice_slice_iov(slice, done, iov, 16);
        for (size_t i = 0; i < count && i < 16; i++) {
            sluice_websocket_mask(iov[i].iov_base, iov[i].iov_len, mask, done);
            done += iov[i].iov_len;
        }
    }
}

static void send_close(struct session *session, uint16_t code, const char *reason) {
    uint8_t key[SLUICE_WEBSOCKET_MASK_SIZE];
    struct output *output = queue(session);
    int size = sluice_websocket_write_close(output->head, code, reason, new_mask(key));
    check(size, "close frame");
    output->head_size = (size_t)size;
    session->closing = true;
}

static void send_ping(struct session *session, const char *text) {
    session->pinged = true;
    uint8_t key[SLUICE_WEBSOCKET_MASK_SIZE];
    struct output *output = queue(session);
    output->head_size = (size_t)sluice_websocket_write_ping(output->head, text, strlen(text), new_mask(key));
}

static void send_pong(struct session *session, const sluice_websocket_message *ping) {
    uint8_t key[SLUICE_WEBSOCKET_MASK_SIZE];
    struct output *output = queue(session);
    output->head_size = (size_t)sluice_websocket_write_pong(output->head, ping, new_mask(key));
}

static void send_text(struct session *session, const char *text) {
    uint8_t key[SLUICE_WEBSOCKET_MASK_SIZE];
    const uint8_t *mask = new_mask(key);
    struct output *output = queue(session);
    size_t length = strlen(text);
    int size = sluice_websocket_write_header(output->head, SLUICE_WEBSOCKET_TEXT, true, length, mask);
    memcpy(output->head + size, text, length);
    if (mask)
        sluice_websocket_mask(output->head + size, length, mask, 0);
    output->head_size = (size_t)size + length;
}

static void send_data(struct session *session, sluice_websocket_message *message) {
    uint8_t key[SLUICE_WEBSOCKET_MASK_SIZE];
    const uint8_t *mask = new_mask(key);
    struct output *output = queue(session);
    sluice_websocket_opcode opcode = message->first ? message->opcode : SLUICE_WEBSOCKET_CONTINUATION;
    check(sluice_slice_take(&message->payload, &output->payload), "keep");
    size_t length = sluice_slice_length(&output->payload);
    output->head_size = (size_t)sluice_websocket_write_header(output->head, opcode, message->last, length, mask);
    if (mask)
        mask_slice(&output->payload, mask);
    session->queued += output_size(output);
}

/* ---- Messages ---- */

static void open_messages(struct session *session, const char *target) {
    unsigned code;
    check(sluice_websocket_new(program.role, &program.options, &session->ws), "framer");
    if (strcmp(target, "/ping") == 0)
        send_ping(session, "from sluice");
    else if (sscanf(target, "/close/%u", &code) == 1)
        send_close(session, (uint16_t)code, code == SLUICE_WEBSOCKET_NO_STATUS ? NULL : "as asked");
}

static void on_message(struct session *session, sluice_websocket_message *message) {
    switch (message->opcode) {
    case SLUICE_WEBSOCKET_CLOSE:
        session->code = message->close_code;
        if (!session->closing)
            send_close(session, message->close_code, NULL);
        break;
    case SLUICE_WEBSOCKET_PING:
        if (!session->closing)
            send_pong(session, message);
        break;
    case SLUICE_WEBSOCKET_PONG:
        if (!session->closing && session->pinged)
            send_text(session, "the pong has come");
        session->pinged = false;
        break;
    default:
        if (!session->closing)
            send_data(session, message);
    }
}

static void read_messages(struct session *session) {
    sluice_chain *chain = sluice_conn_chain(session->conn);
    sluice_websocket_message *message;
    int result = 0;
    while (session->queued <= MOST_QUEUED && (result = sluice_websocket_next(session->ws, chain, &message)) == 1)
        on_message(session, message);
    if (result < 0) {
        session->code = result;
        if (!session->closing)
            send_close(session, sluice_websocket_close_code(session->ws), NULL);
        /* What still comes has to be read, or the peer may lose what it was told. */
        sluice_chain_skip(chain, sluice_chain_length(chain));
        sluice_conn_set_need(session->conn, 1);
        return;
    }
    sluice_conn_set_need(session->conn, sluice_websocket_need(session->ws));
    bool full = session->queued > MOST_QUEUED;
    if (full != session->paused) {
        session->paused = full;
        if (full)
            sluice_conn_pause(session->conn);
        else
            sluice_conn_resume(session->conn);
    }
}

/* ---- The handshake ---- */

static void answer_request(struct session *session, const sluice_http_request *request) {
    static const char *const offered[] = {"echo", "sluice"};
    struct output *output = queue(session);
    char accept[SLUICE_WEBSOCKET_ACCEPT_SIZE];
    char *head = (char *)output->head;
    char target[64];
    int error = sluice_websocket_upgrade(request, accept);
    if (error) {
        output->head_size = (size_t)snprintf(
            head, HEAD_SIZE,
            "HTTP/1.1 %u Refused\r\nUpgrade: websocket\r\nConnection: close, upgrade\r\n"
            "Sec-WebSocket-Version: 13\r\nContent-Length: 0\r\n\r\n",
            sluice_websocket_error_status(error));
        session->closing = true;
        session->code = error;
        return;
    }
    const char *protocol = sluice_websocket_select_protocol(request, offered, 2);
    output->head_size = (size_t)snprintf(
        head, HEAD_SIZE,
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Accept: %.*s\r\n%s%s%s\r\n",
        SLUICE_WEBSOCKET_ACCEPT_SIZE, accept, protocol ? "Sec-WebSocket-Protocol: " : "", protocol ? protocol : "",
        protocol ? "\r\n" : "");
    snprintf(target, sizeof target, "%.*s", (int)request->path.length, request->path.text);
    sluice_http_release(session->http);
    open_messages(session, target);
}

static void read_request(struct session *session) {
    sluice_http_request request;
    int result = sluice_http_next(session->http, sluice_conn_chain(session->conn), &request);
    if (result < 0) {
        session->code = result;
        sluice_conn_close(session->conn);
    } else if (result == 1) {
        answer_request(session, &request);
    }
}

static void send_request(struct session *session) {
    uint8_t nonce[SLUICE_WEBSOCKET_NONCE_SIZE];
    char key[SLUICE_WEBSOCKET_KEY_SIZE];
    struct output *output = queue(session);
    if (getrandom(nonce, sizeof nonce, 0) != sizeof nonce)
        check(-EIO, "getrandom");
    sluice_websocket_make_key(nonce, key);
    sluice_websocket_accept_key(key, program.accept);
    output->head_size = (size_t)snprintf((char *)output->head, HEAD_SIZE,
                                         "GET %s HTTP/1.1\r\nHost: localhost:%s\r\nUpgrade: websocket\r\n"
                                         "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                                         "Sec-WebSocket-Key: %.*s\r\n\r\n",
                                         program.target, program.port, SLUICE_WEBSOCKET_KEY_SIZE, key);
}

static void read_response(struct session *session) {
    static const char status[] = "HTTP/1.1 101 ", accept[] = "Sec-WebSocket-Accept: ";
    char scratch[HEAD_SIZE];
    const char *line;
    size_t length;
    int result;
    while ((result = sluice_reader_line(session->reader, scratch, sizeof scratch, &line, &length)) == 0 && length > 0) {
        if (!session->switched && (length < sizeof status || memcmp(line, status, sizeof status - 1) != 0))
            break;
        session->switched = true;
        if (length == sizeof accept - 1 + sizeof program.accept && strncasecmp(line, accept, sizeof accept - 1) == 0)
            session->accepted = memcmp(line + sizeof accept - 1, program.accept, sizeof program.accept) == 0;
    }
    if (result == -EAGAIN)
        return;
    if (result == 0 && session->accepted && length == 0) {
        sluice_pool_stats stats = {.size = sizeof stats};
        sluice_pool_get_stats(sluice_loop_pool(program.loop), &stats);
        program.copied = stats.bytes_copied;
        open_messages(session, program.target);
    } else {
        session->code = -EPROTO;
        sluice_conn_close(session->conn);
    }
}

/* ---- Connections ---- */

static void on_data(sluice_conn *conn, void *user) {
    struct session *session = user;
    if (!session->ws && !session->closing) {
        if (program.role == SLUICE_WEBSOCKET_SERVER)
            read_request(session);
        else
            read_response(session);
    }
    if (session->ws)
        read_messages(session);
    else if (session->closing)
        sluice_chain_skip(sluice_conn_chain(conn), sluice_chain_length(sluice_conn_chain(conn)));
}

static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    struct session *session = user;
    while (bytes > 0) {
        struct output *output = session->first;
        size_t left = output_size(output) - output->sent;
        size_t here = bytes < left ? bytes : left;
        output->sent += here;
        bytes -= here;
        if (here < left)
            break;
        if (sluice_slice_length(&output->payload) > 0)
            session->queued -= output_size(output);
        pop(session);
    }
    /* The server closes first; what was written before still arrives. */
    if (!session->first && session->ended) {
        sluice_conn_close(conn);
    } else if (!session->first && session->closing) {
        if (sluice_conn_finish(conn) < 0)
            sluice_conn_close(conn);
    } else if (session->paused && session->ws) {
        read_messages(session);
    }
}

static void on_end(sluice_conn *conn, int error, void *user) {
    struct session *session = user;
    session->ended = true;
    if (error || !session->first)
        sluice_conn_close(conn);
}

static void on_closed(sluice_conn *conn, void *user) {
    struct session *session = user;
    (void)conn;
    while (session->first)
        pop(session);
    if (session->code < 0)
        printf("closed %s\n", strerrorname_np(-session->code));
    else
        printf("closed %d\n", session->code);
    fflush(stdout);
    sluice_websocket_free(session->ws);
    sluice_reader_free(session->reader);
    sluice_http_free(session->http);
    free(session);
    if (program.role == SLUICE_WEBSOCKET_CLIENT)
        sluice_loop_stop(program.loop);
}

static const sluice_conn_events events = {.size = sizeof events,
                                          .on_data = on_data,
                                          .on_end = on_end,
                                          .on_gather = on_gather,
                                          .on_sent = on_sent,
                                          .on_closed = on_closed};

static struct session *open_session(int fd) {
    const int on = 1;
    struct session *session = calloc(1, sizeof *session);
    if (!session)
        check(-ENOMEM, "session");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    check(sluice_conn_new(program.loop, fd, &events, session, &session->conn), "connection");
    check(sluice_http_new(&session->http), "HTTP framer");
    check(sluice_reader_new(sluice_conn_chain(session->conn), &session->reader), "reader");
    return session;
}

static void on_accepted(sluice_listener *listener, int fd, void *user) {
    (void)listener;
    (void)user;
    open_session(fd);
}

static sluice_listener *serve(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_storage bound;
    sluice_listener *listener;
    check(sluice_listener_new(program.loop, (struct sockaddr *)&address, sizeof address, on_accepted, NULL, &listener),
          "listen");
    check(sluice_listener_address(listener, &bound), "address");
    memcpy(&address, &bound, sizeof address);
    printf("port %d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

static void connect_to_server(void) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)atoi(program.port))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        check(-errno, "connect");
    send_request(open_session(fd));
}

static void *wait_for_input_end(void *user) {
    char bytes[64];
    (void)user;
    while (read(STDIN_FILENO, bytes, sizeof bytes) > 0)
        continue;
    sluice_loop_stop(program.loop);
    return NULL;
}

static sluice_backend_choice backend(void) {
    const char *name = getenv("SLUICE_TEST_BACKEND");
    if (!name || !*name)
        return SLUICE_BACKEND_AUTO;
    return strcmp(name, "epoll") == 0 ? SLUICE_BACKEND_EPOLL : SLUICE_BACKEND_URING;
}

static int usage(void) {
    fprintf(stderr, "Usage: websocket_echo serve|connect PORT TARGET [--pieces] [--limit N]\n");
    return 2;
}

int main(int argc, char **argv) {
    sluice_pool *pool;
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_listener *listener = NULL;
    pthread_t thread;
    bool is_server = argc > 1 && strcmp(argv[1], "serve") == 0;
    int option = is_server ? 2 : 4;
    if (argc < option || (!is_server && strcmp(argv[1], "connect") != 0))
        return usage();
    program.options.size = sizeof program.options;
    for (; option < argc; option++) {
        if (strcmp(argv[option], "--pieces") == 0)
            program.options.pieces = true;
        else if (strcmp(argv[option], "--limit") == 0 && option + 1 < argc)
            program.options.max_message = strtoull(argv[++option], NULL, 10);
        else
            return usage();
    }
    check(sluice_pool_new(&(sluice_pool_options){.size = sizeof(sluice_pool_options), .max_blocks = 65536}, &pool),
          "pool");
    check(sluice_loop_new(pool, &(sluice_loop_options){.size = sizeof(sluice_loop_options), .backend = backend()},
                          &program.loop),
          "loop");
    program.role = is_server ? SLUICE_WEBSOCKET_SERVER : SLUICE_WEBSOCKET_CLIENT;
    if (is_server) {
        listener = serve();
        check(-pthread_create(&thread, NULL, wait_for_input_end, NULL), "thread");
    } else {
        program.port = argv[2];
        program.target = argv[3];
        connect_to_server();
    }
    check(sluice_loop_run(program.loop), "run");
    if (is_server)
        pthread_join(thread, NULL);
    sluice_listener_free(listener);
    sluice_loop_free(program.loop);
    sluice_pool_get_stats(pool, &stats);
    stats.bytes_copied -= program.copied;
    bool clean = stats.held == 0 && stats.views == 0 && stats.kernel == 0 && stats.bytes_copied == 0;
    printf("pool %s: held %u, views %u, copied %" PRIu64 "\n", clean ? "clean" : "unclean", stats.held, stats.views,
           stats.bytes_copied);
    sluice_pool_free(pool);
    return clean ? 0 : 1;
}
