/*
 * The administration's HTTP server: connections on a loop of the library that runs inside the
 * control plane's event base, and requests by the library's framer, so that what is malformed is
 * rejected as at the ports for streams. A connection has one request at a time. Connections, heads,
 * bodies, and the time for each are bounded.
 */
#ifndef SLUICED_ADMIN_SERVER_H
#define SLUICED_ADMIN_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#include <sluice/http.h>
#include <sluice/tls.h>

struct admin_server;
struct admin_socket;
struct event_base;
struct exchange;
struct server;

enum admin_method {
    ADMIN_GET = 1,
    ADMIN_HEAD = 2,
    ADMIN_POST = 4,
    ADMIN_PUT = 8,
    ADMIN_DELETE = 16,
    ADMIN_PATCH = 32,
    ADMIN_OPTIONS = 64,
    ADMIN_TRACE = 128,
};

/* A request, valid during the call. */
struct admin_call {
    enum admin_method method;
    const char *path, *query; /* query: NULL without one */
    const sluice_http_request *request;
    const char *content; /* the body; NULL: there is none, or it is longer than is kept */
    size_t content_size; /* of the body as it came */
};

/* A request has come, with its body. The exchange is answered once, now or later: admin_reply.h */
typedef void admin_request_fn(struct exchange *exchange, const struct admin_call *call, void *user);

/* @counts: counts failed handshakes with its own; outlives it. 0, -errno */
int admin_server_new(struct event_base *base, struct server *counts, struct admin_server **ret_server);

/* Closes all connections. Later answers to open exchanges are dropped. NULL is allowed. */
void admin_server_free(struct admin_server *server);

/* The context for a new connection, borrowed; NULL: there is none, and the connection is closed. */
typedef sluice_tls_context *admin_context_fn(void *user);

/* Accepts at a socket that listens, which is the server's on success. @context: NULL: without TLS.
 * 0, -errno */
int admin_server_listen(struct admin_server *server, int fd, admin_request_fn *call, admin_context_fn *context,
                        void *user, struct admin_socket **ret_socket);

/* The socket, for another process to go on with a duplicate; -1 once it is not listened at any
 * more. */
int admin_server_fd(const struct admin_socket *socket);

/* Why its loop does not run any more, which has ended the run of the event base; or 0. */
int admin_server_error(const struct admin_server *server);

/* Stops accepting. What is connected stays. */
void admin_server_leave(struct admin_server *server);

/* Logs that a call is refused, as limited in number for each address: auth_log.h. During the call,
 * before the answer. */
void exchange_log_refusal(const struct exchange *exchange, unsigned status, const char *reason);

/* Adds a header to the answer. Before it. */
void exchange_header(struct exchange *exchange, const char *name, const char *value);

/* The connection ends with the answer. Before it. */
void exchange_close(struct exchange *exchange);

/*
 * Answers. @type: of the body; NULL: there is none (204). @owned: the body is freed once it is
 * sent; otherwise it stays valid for ever. HEAD gets the head alone, with the length that GET would
 * have.
 */
void exchange_answer(struct exchange *exchange, unsigned status, const char *type, const void *body, size_t size,
                     bool owned);

#endif
