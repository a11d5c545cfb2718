#include "daemon/control/hook_post.h"

#include <errno.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include <sluice/conn.h>
#include <sluice/http.h>
#include <sluice/loop.h>
#include <sluice/tls.h>

#include "daemon/base/node_name.h"
#include "daemon/control/connector.h"
#include "daemon/control/control_loop.h"

enum {
    HEAD_MOST = HOOK_PATH + HOOK_HOST + 256, /* bytes of a request's head */
    BODY_MOST = 4096,                        /* of an answer's body */
    MEMBER_MOST = NODE_NAME + 16,
    INTERIM_MOST = 8, /* 1xx answers before the answer */
    /* calls with the connector, also of those that have been given up: names may take long to be
     * looked up, and each has a thread for it */
    CONNECTING_MOST = 256,
};

struct hook_post {
    LIST_ENTRY(hook_post) link;
    struct hook_poster *poster;
    struct event *end; /* the deadline of all of it; or the report of its end */
    hook_posted_fn *done;
    void *user;
    unsigned status;
    char reason[HOOK_POST_REASON];
    bool is_done, is_freed; /* it has an end, or nobody waits for one */

    struct connect_job job;
    bool is_connecting; /* the job is the connector's */
    sluice_conn *conn;
    sluice_tls *tls; /* NULL: in plaintext */
    sluice_http *http;
    sluice_http_body body;
    sluice_chain *dropped; /* what has come of the body */
    bool has_head;
    unsigned head_status, interim;
    char *request; /* it may have a password; the kernel may read it while there is a connection */
    size_t size, sent;
};

struct hook_poster {
    struct event_base *base;
    struct control_loop *shared;
    struct connector *connector;
    const char *node;  /* NULL: there is no cluster */
    sluice_loop *loop; /* NULL before the first call */
    LIST_HEAD(, hook_post) calls;
    unsigned connecting;
};

/* ---- Its end ---- */

static void destroy(struct hook_post *call) {
    LIST_REMOVE(call, link);
    if (call->end)
        event_free(call->end);
    sluice_http_free(call->http);
    sluice_chain_free(call->dropped);
    if (call->request)
        explicit_bzero(call->request, call->size);
    free(call->request);
    free(call);
}

void hook_post_free(struct hook_post *call) {
    if (!call)
        return;
    call->is_freed = true;
    event_del(call->end);
    sluice_conn_close(call->conn);
    if (!call->conn && !call->is_connecting)
        destroy(call);
}

/* The end is reported, and the call freed, in an event of its own. */
static void finish(struct hook_post *call, unsigned status, const char *reason) {
    if (call->is_done || call->is_freed)
        return;
    call->is_done = true;
    call->status = status;
    snprintf(call->reason, sizeof call->reason, "%s", reason);
    sluice_conn_close(call->conn);
    event_active(call->end, EV_TIMEOUT, 1);
}

static void on_report(evutil_socket_t fd, short what, void *user) {
    struct hook_post *call = user;
    hook_posted_fn *done = call->done;
    const unsigned status = call->status;
    char reason[HOOK_POST_REASON];
    void *its_user = call->user;
    (void)fd;
    (void)what;
    snprintf(reason, sizeof reason, "%s", call->is_done ? call->reason : "timeout");
    hook_post_free(call);
    done(status, reason, its_user);
}

static void fail_tls(struct hook_post *call) {
    char reason[HOOK_POST_REASON];
    snprintf(reason, sizeof reason, "TLS: %s", sluice_tls_reason(call->tls));
    finish(call, 0, reason);
}

/* ---- The answer ---- */

static void read_body(struct hook_post *call, sluice_chain *chain) {
    int result = sluice_http_body_next(&call->body, chain, call->dropped);
    (void)sluice_chain_skip(call->dropped, sluice_chain_length(call->dropped));
    if (result < 0)
        finish(call, 0, "malformed HTTP");
    else if (call->body.total > BODY_MOST)
        finish(call, 0, "the answer is too long");
    else if (result > 0)
        finish(call, call->head_status, "");
}

static void read_answer(struct hook_post *call, sluice_chain *chain) {
    sluice_http_response response;
    int result = 1;
    while (!call->has_head && result > 0) {
        result = sluice_http_next_response(call->http, chain, "POST", &response);
        if (result < 0 || (result > 0 && response.interim && ++call->interim > INTERIM_MOST)) {
            finish(call, 0, result == -EMSGSIZE || result > 0 ? "the answer is too long" : "malformed HTTP");
            return;
        }
        if (result > 0 && !response.interim) {
            call->has_head = true;
            call->head_status = response.status;
            sluice_http_body_begin_response(&call->body, &response);
            sluice_http_release(call->http);
        }
    }
    if (call->has_head)
        read_body(call, chain);
}

/* ---- The connection ---- */

static void on_end(sluice_conn *conn, int error, void *user) {
    struct hook_post *call = user;
    (void)conn;
    if (error)
        finish(call, 0, strerror(-error));
    else if (call->tls && sluice_tls_end(call->tls) < 0)
        fail_tls(call);
    else if (call->has_head && sluice_http_body_end(&call->body) == 0)
        finish(call, call->head_status, "");
    else
        finish(call, 0, "the server has ended the connection");
}

static void on_data(sluice_conn *conn, void *user) {
    struct hook_post *call = user;
    const int result = call->tls ? sluice_tls_receive(call->tls) : 0;
    if (result < 0 && result != -ENODATA) {
        fail_tls(call);
        return;
    }
    if (call->tls && call->sent == 0 && sluice_tls_get_state(call->tls) == SLUICE_TLS_OPEN) {
        /* The server is the right one. */
        const struct iovec piece = {call->request, call->size};
        int error = sluice_tls_send(call->tls, &piece, 1, &call->sent);
        if (error && error != -EAGAIN) {
            finish(call, 0, "out of memory");
            return;
        }
    }
    read_answer(call, call->tls ? sluice_tls_chain(call->tls) : sluice_conn_chain(conn));
    if (result == -ENODATA)
        on_end(conn, 0, call);
}

static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    const struct hook_post *call = user;
    (void)conn;
    if (call->tls)
        return sluice_tls_gather(call->tls, iov, max);
    if (max == 0 || call->sent == call->size || call->job.is_secure)
        return 0;
    *iov = (struct iovec){call->request + call->sent, call->size - call->sent};
    return 1;
}

static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    struct hook_post *call = user;
    (void)conn;
    if (call->tls)
        sluice_tls_sent(call->tls, bytes);
    else
        call->sent += bytes;
}

static void on_closed(sluice_conn *conn, void *user) {
    struct hook_post *call = user;
    (void)conn;
    sluice_tls_free(call->tls);
    call->tls = NULL;
    call->conn = NULL;
    if (call->is_freed)
        destroy(call);
    else
        finish(call, 0, "server shutting down");
}

static const sluice_conn_events events = {
    .size = sizeof events,
    .on_data = on_data,
    .on_end = on_end,
    .on_gather = on_gather,
    .on_sent = on_sent,
    .on_closed = on_closed,
};

static void begin(struct hook_post *call, int fd, sluice_tls_context *context) {
    int error = sluice_conn_new(call->poster->loop, fd, &events, call, &call->conn);
    if (error)
        close(fd);
    else if (call->job.is_secure)
        error = sluice_tls_new(context, call->conn, call->job.host, &call->tls);
    if (error)
        finish(call, 0, strerror(-error));
    else if (!call->tls)
        sluice_conn_want_send(call->conn);
}

/* The job is back. */
static void connected(struct connect_job *job) {
    struct hook_post *call = job->user;
    const int fd = job->fd;
    sluice_tls_context *context = job->context;
    job->fd = -1;
    job->context = NULL;
    call->is_connecting = false;
    call->poster->connecting--;
    if (fd >= 0 && !call->is_freed && !call->is_done)
        begin(call, fd, context);
    else if (fd >= 0)
        close(fd);
    else
        finish(call, 0, job->error == -ENOENT ? "no such host" : strerror(-job->error));
    sluice_tls_context_unref(context);
    if (call->is_freed && !call->conn)
        destroy(call);
}

/* ---- Calls ---- */

/* The beginning of the body, in the place of its first bracket. A node's name needs no escapes. */
static size_t write_member(const struct hook_poster *poster, char member[MEMBER_MOST]) {
    if (!poster->node)
        return (size_t)snprintf(member, MEMBER_MOST, "{");
    return (size_t)snprintf(member, MEMBER_MOST, "{\"node\":\"%s\",", poster->node);
}

static int write_request(struct hook_post *call, const struct hook_url *url, const char *body, size_t length) {
    const bool is_v6 = strchr(url->host, ':');
    char member[MEMBER_MOST];
    const size_t added = write_member(call->poster, member);
    call->request = malloc(HEAD_MOST + added + length);
    if (!call->request)
        return -ENOMEM;
    int size = snprintf(call->request, HEAD_MOST,
                        "POST %s HTTP/1.1\r\nHost: %s%s%s:%u\r\nConnection: close\r\nContent-Type: application/json\r\n"
                        "Content-Length: %zu\r\n\r\n",
                        url->path, is_v6 ? "[" : "", url->host, is_v6 ? "]" : "", url->port, added + length - 1);
    memcpy(call->request + size, member, added);
    memcpy(call->request + size + added, body + 1, length - 1);
    call->size = (size_t)size + added + length - 1;
    return 0;
}

static int prepare(struct hook_post *call, const struct hook_url *url, const char *body, size_t length) {
    call->end = evtimer_new(call->poster->base, on_report, call);
    int error = call->end ? write_request(call, url, body, length) : -ENOMEM;
    if (!error)
        error = sluice_http_new(&call->http);
    return error ? error : sluice_chain_new(sluice_loop_pool(call->poster->loop), &call->dropped);
}

static void connect_to(struct hook_post *call, const struct hook_url *url) {
    _Static_assert(sizeof call->job.host >= sizeof url->host, "a hook's host is one that can be connected to");
    call->job = (struct connect_job){.port = url->port,
                                     .is_secure = url->is_secure,
                                     .alpn = "http/1.1",
                                     .loop = call->poster->loop,
                                     .done = connected,
                                     .user = call,
                                     .fd = -1};
    memcpy(call->job.host, url->host, sizeof url->host);
    if (call->poster->connecting == CONNECTING_MOST) {
        finish(call, 0, "too many connections under way");
        return;
    }
    call->is_connecting = true;
    call->poster->connecting++;
    connector_take(call->poster->connector, &call->job);
}

int hook_post_start(struct hook_poster *poster, const struct hook_url *url, uint64_t timeout_ms, const char *body,
                    size_t length, hook_posted_fn *done, void *user, struct hook_post **ret_call) {
    const struct timeval timeout = {.tv_sec = (time_t)(timeout_ms / 1000),
                                    .tv_usec = (suseconds_t)(timeout_ms % 1000 * 1000)};
    int error = control_loop_open(poster->shared, &poster->loop);
    if (error)
        return error;
    struct hook_post *call = calloc(1, sizeof *call);
    if (!call)
        return -ENOMEM;
    *call = (struct hook_post){.poster = poster, .done = done, .user = user};
    LIST_INSERT_HEAD(&poster->calls, call, link);
    error = prepare(call, url, body, length);
    if (!error && evtimer_add(call->end, &timeout) < 0)
        error = -ENOMEM;
    if (error) {
        destroy(call);
        return error;
    }
    *ret_call = call;
    connect_to(call, url);
    return 0;
}

int hook_poster_new(struct event_base *base, struct control_loop *loop, struct connector *connector, const char *node,
                    struct hook_poster **ret_poster) {
    struct hook_poster *poster = calloc(1, sizeof *poster);
    if (!poster)
        return -ENOMEM;
    poster->base = base;
    poster->shared = loop;
    poster->connector = connector;
    poster->node = node;
    *ret_poster = poster;
    return 0;
}

void hook_poster_free(struct hook_poster *poster) {
    if (!poster)
        return;
    /* Jobs that were back, and connections, have ended with the loop. */
    while (!LIST_EMPTY(&poster->calls))
        destroy(LIST_FIRST(&poster->calls));
    free(poster);
}
