#include "daemon/control/hook_post.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_HEADERS = 8192, /* bytes of an answer */
    MOST_BODY = 4096,
};

struct hook_post {
    struct evhttp_connection *connection;
    /* the deadline of all of it, since libevent's own begins anew with each byte */
    struct event *end;
    unsigned status;
    bool is_done;
    hook_posted_fn *done;
    void *user;
};

/*
 * libevent still uses the connection: the end is reported, and the call freed, in an event of its
 * own.
 */
static void answered(struct evhttp_request *request, void *user) {
    struct hook_post *call = user;
    if (call->is_done)
        return;
    call->is_done = true;
    int status = request ? evhttp_request_get_response_code(request) : 0;
    call->status = status > 0 ? (unsigned)status : 0;
    event_active(call->end, EV_TIMEOUT, 1);
}

static void on_end(evutil_socket_t fd, short what, void *user) {
    struct hook_post *call = user;
    hook_posted_fn *done = call->done;
    unsigned status = call->status;
    void *its_user = call->user;
    (void)fd;
    (void)what;
    hook_post_free(call);
    done(status, its_user);
}

void hook_post_free(struct hook_post *call) {
    if (!call)
        return;
    /* answered() reports the end of the connection, and must not be called again for it. */
    call->is_done = true;
    if (call->connection)
        evhttp_connection_free(call->connection);
    if (call->end)
        event_free(call->end);
    free(call);
}

static struct evhttp_request *new_request(struct hook_post *call, const struct hook_url *url, const char *body,
                                          size_t length) {
    char host[HOOK_HOST + 16];
    struct evhttp_request *request = evhttp_request_new(answered, call);
    if (!request)
        return NULL;
    struct evkeyvalq *headers = evhttp_request_get_output_headers(request);
    snprintf(host, sizeof host, strchr(url->host, ':') ? "[%s]:%u" : "%s:%u", url->host, url->port);
    if (evbuffer_add(evhttp_request_get_output_buffer(request), body, length) == 0 &&
        evhttp_add_header(headers, "Host", host) == 0 && evhttp_add_header(headers, "Connection", "close") == 0 &&
        evhttp_add_header(headers, "Content-Type", "application/json") == 0)
        return request;
    evhttp_request_free(request);
    return NULL;
}

int hook_post_start(struct event_base *base, const struct hook_url *url, uint64_t timeout_ms, const char *body,
                    size_t length, hook_posted_fn *done, void *user, struct hook_post **ret_call) {
    const struct timeval timeout = {.tv_sec = (time_t)(timeout_ms / 1000),
                                    .tv_usec = (suseconds_t)(timeout_ms % 1000 * 1000)};
    struct hook_post *call = calloc(1, sizeof *call);
    if (!call)
        return -ENOMEM;
    *call = (struct hook_post){.done = done, .user = user};
    /* The address is numeric: no name is looked up. */
    call->connection = evhttp_connection_base_new(base, NULL, url->host, url->port);
    call->end = evtimer_new(base, on_end, call);
    struct evhttp_request *request = call->connection && call->end ? new_request(call, url, body, length) : NULL;
    if (!request || evtimer_add(call->end, &timeout) < 0) {
        if (request)
            evhttp_request_free(request);
        hook_post_free(call);
        return -ENOMEM;
    }
    evhttp_connection_set_max_headers_size(call->connection, MOST_HEADERS);
    evhttp_connection_set_max_body_size(call->connection, MOST_BODY);
    /* From here on the request is the connection's. */
    if (evhttp_make_request(call->connection, request, EVHTTP_REQ_POST, url->path) < 0) {
        hook_post_free(call);
        return -ENOMEM;
    }
    *ret_call = call;
    return 0;
}
