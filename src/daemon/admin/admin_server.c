#include "daemon/admin/admin_server.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <sluice/conn.h>
#include <sluice/libevent.h>
#include <sluice/loop.h>
#include <sluice/pool.h>
#include <sluice/tls.h>

#include "daemon/admin/admin_reply.h"
#include "daemon/base/address.h"
#include "daemon/base/auth_log.h"
#include "daemon/base/http_status.h"
#include "daemon/base/log.h"
#include "daemon/server/reject.h"
#include "daemon/server/server.h"
#include "shared/tls_link.h"

enum {
    PEERS_MOST = 64, /* connections; one more ends the one that has been waited for longest */
    /* for a request to come, from the answer before it, or the connection's begin */
    REQUEST_MS = 10000,
    RESPONSE_MS = 60000, /* for an answer to be taken */
    STALL_MS = 10000,    /* for any of it to be */
    LINGER_MS = 2000,    /* for the peer to close */
    TICK_MS = 500,
    BODY_MOST = 65536,     /* bytes of a request's body: none is longer than what is looked at */
    CONTENT_MOST = 16384,  /* of it that are kept: no request that is known has more */
    PIPELINE_MOST = 16384, /* of further requests that wait while one is answered */
    BLOCK_BYTES = 4096,
    SLAB_BLOCKS = 32,
    /*
     * What one peer holds at most: what it has sent, of which there may be a part of a TLS record,
     * and of which a chain of small pieces keeps four times the bytes; what one more read adds; and
     * what is encrypted for it, in records with some bytes more. It is there for all peers, so that
     * those that do not read take no memory from others. Slabs are mapped when they are needed.
     */
    PEER_INPUT = 4 * (PIPELINE_MOST + SLUICE_TLS_RECORD),
    PEER_READ = 64 << 10,
    PEER_OUTPUT = TLS_LINK_BATCH + TLS_LINK_BATCH / 8,
    BLOCKS_MOST = PEERS_MOST * (PEER_INPUT + PEER_READ + PEER_OUTPUT) / BLOCK_BYTES,
    HEADERS = 768, /* of an answer, beyond those that each has */
    HEAD = 512 + HEADERS,
};

static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";

enum peer_state {
    /* reads a request; at the start, and when an answer has gone that keeps the connection */
    PEER_HEAD,
    PEER_BODY,      /* reads its body */
    PEER_ASKED,     /* the request is under way: it waits for us */
    PEER_ANSWERING, /* sends the answer */
    /* all is sent: input is dropped until the peer closes, so that no reset overtakes the answer */
    PEER_LINGERING,
};

struct peer {
    LIST_ENTRY(peer) link;
    struct admin_socket *socket;
    sluice_conn *conn;
    struct tls_link *tls; /* between the connection and the peer; NULL: plain */
    enum peer_state state;
    uint64_t since; /* what is waited for has been so since then */
    uint64_t moved; /* the peer's host has been seen to take something then, or since */
    size_t left;    /* of what is sent to it, at that time */
    sluice_http *http;
    sluice_http_request request;
    sluice_http_body body;
    struct exchange *exchange; /* while a request is handled */
    char *content;             /* of the request: the first bytes of its body; or NULL */
    size_t content_size;       /* all of them that have come */
    bool has_begun;            /* its first bytes are no TLS, or are expected to be */
    bool head_only, keep_alive, ended, closing;

    /* What is being sent: the interim answer, the head, the body. */
    size_t interim_left, head_size, size, sent;
    char head[HEAD];
    const void *bytes;
    void *owned;
    char address[ADDRESS_TEXT];
    struct cidr_address host; /* the same; a Unix socket has none */
};

/* A request that is to be answered. It may outlive its connection. */
struct exchange {
    struct peer *peer; /* NULL: it has gone */
    bool close;
    size_t length;
    char headers[HEADERS];
};

struct admin_socket {
    struct admin_server *server;
    struct admin_socket *next;
    sluice_listener *listener; /* NULL: nothing is accepted any more */
    admin_request_fn *call;
    admin_context_fn *context; /* NULL: without TLS */
    void *user;
};

struct admin_server {
    struct server *counts; /* refusals of all listeners */
    struct auth_log refusals;
    sluice_pool *pool;
    sluice_loop *loop;
    sluice_libevent *place;
    sluice_timer *ticker;
    sluice_chain *dropped; /* what has been read of a body */
    struct admin_socket *sockets;
    LIST_HEAD(, peer) peers; /* the newest is first */
    size_t count;
};

static uint64_t now_of(const struct peer *peer) {
    return sluice_loop_now(peer->socket->server->loop);
}

static sluice_chain *chain_of(const struct peer *peer) {
    return peer->tls ? tls_link_chain(peer->tls) : sluice_conn_chain(peer->conn);
}

static int finish(const struct peer *peer) {
    return peer->tls ? tls_link_finish(peer->tls) : sluice_conn_finish(peer->conn);
}

/* Whether what has been encrypted waits for the kernel. */
static bool is_flushing(const struct peer *peer) {
    return peer->tls && tls_link_is_flushing(peer->tls);
}

static void enter(struct peer *peer, enum peer_state state) {
    peer->state = state;
    peer->since = peer->moved = now_of(peer);
}

static void close_peer(struct peer *peer) {
    if (peer->closing)
        return;
    peer->closing = true;
    if (peer->tls)
        tls_link_close(peer->tls);
    else
        sluice_conn_close(peer->conn);
}

/* All Unix sockets' peers, which have no address, are limited as one. */
static void log_refusal(const struct peer *peer, unsigned status, const char *reason) {
    auth_log_write(&peer->socket->server->refusals, now_of(peer), "admin", peer->address, &peer->host, status, reason);
}

/* Answers. */

void exchange_header(struct exchange *exchange, const char *name, const char *value) {
    const size_t room = sizeof exchange->headers - exchange->length;
    int length = snprintf(exchange->headers + exchange->length, room, "%s: %s\r\n", name, value);
    if (length > 0 && (size_t)length < room)
        exchange->length += (size_t)length;
    else
        exchange->headers[exchange->length] = '\0';
}

void exchange_log_refusal(const struct exchange *exchange, unsigned status, const char *reason) {
    const struct peer *peer = exchange->peer;
    if (peer)
        log_refusal(peer, status, reason);
}

void exchange_close(struct exchange *exchange) {
    exchange->close = true;
}

static size_t write_head(char *to, const struct exchange *exchange, unsigned status, const char *type, size_t size,
                         bool keep_alive) {
    char date[40], content[160] = "";
    struct tm parts;
    const time_t now = time(NULL);
    gmtime_r(&now, &parts);
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &parts);
    if (type)
        snprintf(content, sizeof content, "Content-Type: %s\r\nContent-Length: %zu\r\n", type, size);
    int length = snprintf(to, HEAD,
                          "HTTP/1.1 %u %s\r\nServer: sluiced\r\nDate: %s\r\nCache-Control: no-store\r\n"
                          "X-Content-Type-Options: nosniff\r\n%s%sConnection: %s\r\n\r\n",
                          status, http_status_text(status), date, content, exchange->headers,
                          keep_alive ? "keep-alive" : "close");
    return length > 0 && length < HEAD ? (size_t)length : 0;
}

void exchange_answer(struct exchange *exchange, unsigned status, const char *type, const void *body, size_t size,
                     bool owned) {
    struct peer *peer = exchange->peer;
    if (peer) {
        peer->exchange = NULL;
        peer->keep_alive = peer->keep_alive && !exchange->close && !peer->ended;
        peer->head_size = write_head(peer->head, exchange, status, type, size, peer->keep_alive);
        peer->bytes = body;
        peer->size = peer->head_only ? 0 : size;
        peer->sent = 0;
        peer->owned = owned ? (void *)body : NULL;
        enter(peer, PEER_ANSWERING);
        sluice_conn_want_send(peer->conn);
    } else if (owned) {
        free((void *)body);
    }
    free(exchange);
}

/* One for the request that the peer waits for an answer to. NULL: the connection ends. */
static struct exchange *begin_exchange(struct peer *peer) {
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange) {
        close_peer(peer);
        return NULL;
    }
    exchange->peer = peer;
    peer->exchange = exchange;
    enter(peer, PEER_ASKED);
    return exchange;
}

/* Counted and logged as by the listeners for streams. */
static void note_refusal(const struct peer *peer, enum reject_cause cause, const char *reason) {
    server_count_reject(peer->socket->server->counts, cause);
    log_refusal(peer, 400, reason);
}

/* What is wrong with the request; what is behind it cannot be told from it, so the connection
 * ends. */
static void refuse(struct peer *peer, unsigned status, const char *detail) {
    peer->keep_alive = false;
    struct exchange *exchange = begin_exchange(peer);
    if (exchange)
        admin_reply_problem(exchange, status, detail);
}

/* Requests. */

static const char *detail_of(unsigned status) {
    switch (status) {
    case 414:
    case 431:
        return "the head is longer than any request needs";
    case 413:
        return "no request needs a body of that length";
    case 501:
        return "this transfer coding is not known";
    case 505:
        return "HTTP/1.0 and HTTP/1.1 are served";
    case 503:
        return "out of memory";
    default:
        return "not an HTTP request, or a malformed one";
    }
}

/* 0: none that is known. */
static unsigned method_of(sluice_http_text name) {
    static const char *const names[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (name.length == strlen(names[i]) && memcmp(name.text, names[i], name.length) == 0)
            return 1u << i;
    return 0;
}

/* It may hold a password. */
static void forget_content(struct peer *peer) {
    if (peer->content)
        explicit_bzero(peer->content, CONTENT_MOST);
    free(peer->content);
    peer->content = NULL;
    peer->content_size = 0;
}

/* Keeps what there is room for, and drops the rest. 0, -ENOMEM */
static int take_content(struct peer *peer, sluice_chain *from) {
    const size_t size = sluice_chain_length(from);
    const size_t room = peer->content_size < CONTENT_MOST ? CONTENT_MOST - peer->content_size : 0;
    sluice_slice slice;
    if (size > 0 && !peer->content)
        peer->content = calloc(1, CONTENT_MOST);
    int error = size > 0 && !peer->content ? -ENOMEM : 0;
    if (!error && size > 0 && room > 0) {
        error = sluice_chain_take(from, size < room ? size : room, &slice);
        if (!error) {
            sluice_slice_copy(&slice, 0, peer->content + peer->content_size, slice.length);
            sluice_slice_release(&slice);
        }
    }
    peer->content_size += size;
    sluice_chain_skip(from, SIZE_MAX);
    return error;
}

static void hand_over(struct peer *peer) {
    const sluice_http_request *request = &peer->request;
    char path[SLUICE_HTTP_MAX_TARGET + 1], query[SLUICE_HTTP_MAX_TARGET + 1];
    struct exchange *exchange = begin_exchange(peer);
    if (!exchange)
        return;
    snprintf(path, sizeof path, "%.*s", (int)request->path.length, request->path.text);
    snprintf(query, sizeof query, "%.*s", (int)request->query.length, request->query.text);
    const struct admin_call call = {.method = method_of(request->method),
                                    .path = path,
                                    .query = request->query.length > 0 ? query : NULL,
                                    .request = request,
                                    .content = peer->content_size <= CONTENT_MOST ? peer->content : NULL,
                                    .content_size = peer->content_size};
    peer->socket->call(exchange, &call, peer->socket->user);
    forget_content(peer);
    sluice_http_release(peer->http);
}

static void read_body(struct peer *peer) {
    struct admin_server *server = peer->socket->server;
    int result = sluice_http_body_next(&peer->body, chain_of(peer), server->dropped);
    int error = take_content(peer, server->dropped);
    if (error) {
        refuse(peer, 503, detail_of(503));
    } else if (result < 0) {
        unsigned status = sluice_http_body_error_status(&peer->body);
        refuse(peer, status, detail_of(status));
    } else if (peer->body.total > BODY_MOST) {
        refuse(peer, 413, detail_of(413));
    } else if (result > 0) {
        hand_over(peer);
    }
}

static void begin_request(struct peer *peer) {
    const sluice_http_request *request = &peer->request;
    peer->keep_alive = request->keep_alive;
    peer->head_only = method_of(request->method) == ADMIN_HEAD;
    if (!method_of(request->method)) {
        refuse(peer, 501, "this method is not known");
    } else if (request->minor_version > 0 && !request->expect_continue && sluice_http_find(request, "Expect")) {
        refuse(peer, 417, "only 100-continue can be expected");
    } else if (request->body == SLUICE_HTTP_BODY_LENGTH && request->content_length > BODY_MOST) {
        refuse(peer, 413, detail_of(413));
    } else {
        sluice_http_body_begin(&peer->body, request, false);
        peer->state = PEER_BODY;
        if (request->expect_continue) {
            peer->interim_left = sizeof interim - 1;
            sluice_conn_want_send(peer->conn);
        }
        read_body(peer);
    }
}

/*
 * Looks at a connection's first bytes. 0: they are for the socket; -EAGAIN: more are needed;
 * -EPROTO: TLS without such a socket: refused. The answer is in plaintext, so that a client says
 * what is wrong.
 */
static int look(struct peer *peer) {
    sluice_chain *chain = chain_of(peer);
    if (peer->has_begun || sluice_chain_length(chain) == 0)
        return 0;
    int result = peer->tls ? -EPROTO : reject_is_hello(chain);
    if (result == 0)
        return -EAGAIN;
    peer->has_begun = true;
    if (result < 0)
        return 0;
    note_refusal(peer, REJECT_TLS_HELLO, reject_reason(REJECT_TLS_HELLO));
    refuse(peer, 400, reject_reason(REJECT_TLS_HELLO));
    return -EPROTO;
}

/* Goes on with what is there, up to a request that has to be answered. */
static void go_on(struct peer *peer) {
    if (peer->state == PEER_BODY) {
        read_body(peer);
        return;
    }
    peer->head_only = false;
    if (look(peer) < 0)
        return;
    int result = sluice_http_next(peer->http, chain_of(peer), &peer->request);
    if (result > 0)
        begin_request(peer);
    else if (result == -ENOMEM)
        close_peer(peer);
    else if (result < 0)
        refuse(peer, sluice_http_error_status(result), detail_of(sluice_http_error_status(result)));
}

static void on_data(sluice_conn *conn, void *user) {
    struct peer *peer = user;
    sluice_chain *chain = chain_of(peer);
    if (peer->state == PEER_HEAD || peer->state == PEER_BODY)
        go_on(peer);
    else if (peer->state == PEER_LINGERING || !peer->keep_alive)
        sluice_chain_skip(chain, SIZE_MAX);
    else if (sluice_chain_length(chain) > PIPELINE_MOST)
        sluice_conn_pause(conn);
}

/* Whether its handshake is under way, or has been its end. */
static bool is_shaking(const struct peer *peer) {
    return peer->tls && tls_link_stage(peer->tls) && !tls_link_was_open(peer->tls);
}

/* A handshake has failed. The peer may also just have gone, such as a health check does. */
static void note_failure(struct peer *peer) {
    const sluice_tls *tls = tls_link_stage(peer->tls);
    if (sluice_tls_get_detail(tls) == SLUICE_TLS_DETAIL_NONE || tls_link_was_cut(peer->tls))
        return;
    enum reject_cause cause = reject_cause_of_tls(tls);
    note_refusal(peer, cause, cause == REJECT_PLAINTEXT ? reject_reason(cause) : tls_link_reason(peer->tls));
}

/* A request without TLS where TLS is expected; the socket takes the answer, or nothing does. */
static void answer_plaintext(const struct peer *peer) {
    static const char answer[] = "HTTP/1.1 400 Bad Request\r\nServer: sluiced\r\nContent-Type: text/plain; "
                                 "charset=utf-8\r\nContent-Length: 23\r\nConnection: close\r\n\r\n"
                                 "this port requires TLS\n";
    const sluice_tls *tls = peer->tls ? tls_link_stage(peer->tls) : NULL;
    if (tls && sluice_tls_get_detail(tls) == SLUICE_TLS_DETAIL_HTTP)
        (void)send(sluice_conn_fd(peer->conn), answer, sizeof answer - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* It sends no more, and the peer is expected to close. */
static void linger(struct peer *peer) {
    int error = finish(peer);
    if (error || (peer->ended && !is_flushing(peer))) {
        close_peer(peer);
        return;
    }
    enter(peer, PEER_LINGERING);
    sluice_conn_resume(peer->conn);
    sluice_chain_skip(chain_of(peer), SIZE_MAX);
}

static void on_end(sluice_conn *conn, int error, void *user) {
    struct peer *peer = user;
    (void)conn;
    if (peer->ended) { /* it has lingered */
        close_peer(peer);
        return;
    }
    peer->ended = true;
    if (error && is_shaking(peer))
        note_failure(peer);
    if (error == -EPROTO)
        answer_plaintext(peer);
    const bool may_linger = error && peer->tls && (peer->state == PEER_HEAD || peer->state == PEER_BODY);
    if (may_linger && tls_link_linger(peer->tls) == 0) {
        enter(peer, PEER_LINGERING);
        return;
    }
    /* One that sends no more may still read. */
    if (error || (peer->state != PEER_ASKED && peer->state != PEER_ANSWERING && !is_flushing(peer)))
        close_peer(peer);
    else if (peer->state == PEER_HEAD || peer->state == PEER_BODY)
        linger(peer);
}

static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    struct peer *peer = user;
    size_t count = 0;
    (void)conn;
    (void)max;
    if (peer->interim_left > 0)
        iov[count++] = (struct iovec){(void *)(interim + sizeof interim - 1 - peer->interim_left), peer->interim_left};
    if (peer->state != PEER_ANSWERING)
        return count;
    if (peer->sent < peer->head_size)
        iov[count++] = (struct iovec){peer->head + peer->sent, peer->head_size - peer->sent};
    const size_t done = peer->sent > peer->head_size ? peer->sent - peer->head_size : 0;
    if (done < peer->size)
        iov[count++] = (struct iovec){(char *)peer->bytes + done, peer->size - done};
    return count;
}

static void drop_answer(struct peer *peer) {
    free(peer->owned);
    peer->owned = NULL;
    peer->head_size = peer->size = peer->sent = 0;
}

static void answered(struct peer *peer) {
    drop_answer(peer);
    if (peer->keep_alive) {
        enter(peer, PEER_HEAD);
        sluice_conn_resume(peer->conn);
        go_on(peer);
    } else {
        linger(peer);
    }
}

/* Now it may close. */
static void all_sent(struct peer *peer) {
    enter(peer, PEER_LINGERING);
    if (peer->ended)
        close_peer(peer);
}

static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    struct peer *peer = user;
    const size_t part = bytes < peer->interim_left ? bytes : peer->interim_left;
    (void)conn;
    peer->interim_left -= part;
    if (peer->state == PEER_LINGERING && !is_flushing(peer))
        all_sent(peer);
    if (peer->state != PEER_ANSWERING)
        return;
    peer->sent += bytes - part;
    if (peer->interim_left == 0 && peer->sent == peer->head_size + peer->size)
        answered(peer);
}

static void on_closed(sluice_conn *conn, void *user) {
    struct peer *peer = user;
    struct admin_server *server = peer->socket->server;
    (void)conn;
    if (peer->exchange)
        peer->exchange->peer = NULL;
    drop_answer(peer);
    forget_content(peer);
    sluice_http_free(peer->http);
    LIST_REMOVE(peer, link);
    server->count--;
    free(peer);
}

static const sluice_conn_events events = {.size = sizeof events,
                                          .on_data = on_data,
                                          .on_end = on_end,
                                          .on_gather = on_gather,
                                          .on_sent = on_sent,
                                          .on_closed = on_closed};

/* The server. */

/* Of those that are not waiting for us, the one that has been waited for longest. */
static void end_slowest(const struct admin_server *server) {
    struct peer *slowest = NULL;
    for (struct peer *peer = LIST_FIRST(&server->peers); peer; peer = LIST_NEXT(peer, link))
        if (!peer->closing && peer->state != PEER_ASKED && (!slowest || peer->since <= slowest->since))
            slowest = peer;
    if (slowest)
        close_peer(slowest);
}

static bool is_answering(const struct peer *peer) {
    return peer->state == PEER_ANSWERING || (peer->state == PEER_LINGERING && is_flushing(peer));
}

static uint64_t most_ms(const struct peer *peer) {
    static const uint64_t times[] = {[PEER_HEAD] = REQUEST_MS,
                                     [PEER_BODY] = REQUEST_MS,
                                     [PEER_ASKED] = UINT64_MAX,
                                     [PEER_ANSWERING] = RESPONSE_MS,
                                     [PEER_LINGERING] = LINGER_MS};
    return times[is_answering(peer) ? PEER_ANSWERING : peer->state];
}

/* Whether nothing of an answer has been taken for too long. What the peer's host acknowledges
 * counts: the kernel takes more for a slow one in large steps only. */
static bool is_stalled(struct peer *peer, uint64_t now) {
    int unacknowledged = 0;
    if (peer->closing || !is_answering(peer))
        return false;
    (void)ioctl(sluice_conn_fd(peer->conn), SIOCOUTQ, &unacknowledged);
    size_t left = peer->head_size + peer->size - peer->sent + (peer->tls ? tls_link_queued(peer->tls) : 0) +
                  (size_t)unacknowledged;
    if (left != peer->left)
        peer->moved = now;
    peer->left = left;
    return now - peer->moved >= STALL_MS;
}

static void end_overdue(struct peer *peer) {
    if (is_shaking(peer) && !peer->closing && peer->state != PEER_LINGERING)
        note_refusal(peer, REJECT_TLS_HANDSHAKE, "handshake timeout");
    close_peer(peer);
}

static void on_tick(sluice_timer *timer, void *user) {
    struct admin_server *server = user;
    const uint64_t now = sluice_loop_now(server->loop);
    sluice_timer_start(timer, TICK_MS);
    auth_log_tick(&server->refusals, now);
    /* Their memory goes in a later turn, so the list stays whole meanwhile. */
    for (struct peer *peer = LIST_FIRST(&server->peers); peer; peer = LIST_NEXT(peer, link))
        if (now - peer->since >= most_ms(peer) || is_stalled(peer, now))
            end_overdue(peer);
}

static void name_peer(int fd, struct peer *peer) {
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    if (getpeername(fd, (struct sockaddr *)&address, &length) == 0 && address.ss_family != AF_UNIX) {
        address_format(&address, peer->address);
        peer->host = cidr_address(&address);
    } else {
        strcpy(peer->address, "unix");
    }
}

/* The connection, with TLS where the socket is for that. */
static int connect_peer(struct peer *peer, int fd) {
    struct admin_socket *socket = peer->socket;
    sluice_tls_context *context = socket->context ? socket->context(socket->user) : NULL;
    if (!socket->context)
        return sluice_conn_new(socket->server->loop, fd, &events, peer, &peer->conn);
    if (!context)
        return -ENOENT;
    int error = tls_link_new(&events, peer, &peer->tls);
    if (!error)
        error = sluice_conn_new(socket->server->loop, fd, &tls_link_events, peer->tls, &peer->conn);
    if (!error)
        tls_link_begin(peer->tls, peer->conn, context, NULL);
    return error;
}

static void on_accepted(sluice_listener *listener, int fd, void *user) {
    struct admin_socket *socket = user;
    struct admin_server *server = socket->server;
    struct peer *peer = calloc(1, sizeof *peer);
    int error = peer ? sluice_http_new(&peer->http) : -ENOMEM;
    (void)listener;
    if (!error) {
        peer->socket = socket;
        name_peer(fd, peer);
        error = connect_peer(peer, fd);
    }
    if (error) {
        LOG(LOG_ERROR, "connection refused", {"proto", "admin"}, {"reason", strerror(-error)});
        if (peer) {
            sluice_http_free(peer->http);
            tls_link_free(peer->tls);
        }
        free(peer);
        close(fd);
        return;
    }
    enter(peer, PEER_HEAD);
    LIST_INSERT_HEAD(&server->peers, peer, link);
    if (++server->count > PEERS_MOST)
        end_slowest(server);
}

int admin_server_new(struct event_base *base, struct server *counts, struct admin_server **ret_server) {
    /* The other backend would lock memory and make a ring for a few requests a minute. */
    const sluice_loop_options options = {.size = sizeof options, .backend = SLUICE_BACKEND_EPOLL};
    const sluice_pool_options blocks = {
        .size = sizeof blocks, .block_size = BLOCK_BYTES, .slab_blocks = SLAB_BLOCKS, .max_blocks = BLOCKS_MOST};
    struct admin_server *server = calloc(1, sizeof *server);
    if (!server)
        return -ENOMEM;
    server->counts = counts;
    int error = sluice_pool_new(&blocks, &server->pool);
    if (!error)
        error = sluice_loop_new(server->pool, &options, &server->loop);
    if (!error)
        error = sluice_chain_new(server->pool, &server->dropped);
    if (!error)
        error = sluice_timer_new(server->loop, on_tick, server, &server->ticker);
    if (!error)
        error = sluice_libevent_attach(server->loop, base, &server->place);
    if (error) {
        admin_server_free(server);
        return error;
    }
    sluice_timer_start(server->ticker, TICK_MS);
    *ret_server = server;
    return 0;
}

void admin_server_free(struct admin_server *server) {
    if (!server)
        return;
    admin_server_leave(server);
    sluice_libevent_free(server->place);
    sluice_timer_free(server->ticker);
    sluice_chain_free(server->dropped);
    sluice_loop_free(server->loop);
    sluice_pool_free(server->pool);
    for (struct admin_socket *socket = server->sockets, *next; socket; socket = next) {
        next = socket->next;
        free(socket);
    }
    free(server);
}

int admin_server_listen(struct admin_server *server, int fd, admin_request_fn *call, admin_context_fn *context,
                        void *user, struct admin_socket **ret_socket) {
    struct admin_socket *socket = calloc(1, sizeof *socket);
    if (!socket)
        return -ENOMEM;
    *socket = (struct admin_socket){
        .server = server, .next = server->sockets, .call = call, .context = context, .user = user};
    int error = sluice_listener_adopt(server->loop, fd, on_accepted, socket, &socket->listener);
    if (error) {
        free(socket);
        return error;
    }
    server->sockets = socket;
    *ret_socket = socket;
    return 0;
}

int admin_server_fd(const struct admin_socket *socket) {
    return socket->listener ? sluice_listener_fd(socket->listener) : -1;
}

int admin_server_error(const struct admin_server *server) {
    return sluice_libevent_error(server->place);
}

void admin_server_leave(struct admin_server *server) {
    for (struct admin_socket *socket = server->sockets; socket; socket = socket->next) {
        sluice_listener_free(socket->listener);
        socket->listener = NULL;
    }
}
