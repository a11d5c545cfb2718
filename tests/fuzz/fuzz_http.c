/* HTTP: request heads and bodies, one behind the other, and the request to become a WebSocket. */
#include <string.h>

#include <sluice/http.h>
#include <sluice/websocket.h>

#include "fuzz/fuzz.h"

/* A connection. */
typedef struct connection {
    sluice_http *http;
    sluice_chain *to; /* where bodies go */
    sluice_http_body body;
    bool in_body;
    /* the last request's body goes on until the peer closes, or it does not keep the connection */
    bool ended;
} connection;

static void show_upgrade(fuzz_run *run, const sluice_http_request *request) {
    static const char *const offered[] = {"chat", "superchat"};
    char accept[SLUICE_WEBSOCKET_ACCEPT_SIZE];
    int result = sluice_websocket_upgrade(request, accept);
    fuzz_show(run, "upgrade", result);
    if (result == 0)
        fuzz_show_bytes(run, "accept", accept, sizeof accept);
    else
        fuzz_show(run, "refused", sluice_websocket_error_status(result));
    const char *protocol = sluice_websocket_select_protocol(request, offered, 2);
    fuzz_show(run, "protocol", protocol ? *protocol : 0);
}

static void show_request(fuzz_run *run, const sluice_http_request *request) {
    fuzz_show_text(run, "method", request->method);
    fuzz_show_text(run, "target", request->target);
    fuzz_show_text(run, "path", request->path);
    fuzz_show_text(run, "query", request->query);
    fuzz_show(run, "version", request->minor_version);
    fuzz_show(run, "flags", request->keep_alive << 1 | request->expect_continue);
    fuzz_show(run, "body", request->body);
    fuzz_show(run, "length", (int64_t)request->content_length);
    for (size_t i = 0; i < request->header_count; i++) {
        fuzz_show_text(run, "name", request->headers[i].name);
        fuzz_show_text(run, "value", request->headers[i].value);
    }
    const sluice_http_header *host = sluice_http_find(request, "host");
    fuzz_show(run, "host", host ? host - request->headers : -1);
    show_upgrade(run, request);
}

static int next_head(connection *c, sluice_chain *chain, fuzz_run *run) {
    sluice_http_request request;
    int result = sluice_http_next(c->http, chain, &request);
    if (result < 0)
        fuzz_show(run, "answer", sluice_http_error_status(result));
    if (result != 1)
        return result;
    show_request(run, &request);
    sluice_http_body_begin(&c->body, &request, run->settings[0] % 2);
    c->ended = !request.keep_alive;
    c->in_body = true;
    if (run->settings[0] & 2)
        sluice_http_release(c->http);
    return 1;
}

static int next_body(connection *c, sluice_chain *chain, fuzz_run *run) {
    sluice_slice slice;
    int result = sluice_http_body_next(&c->body, chain, c->to);
    size_t length = sluice_chain_length(c->to);
    FUZZ_CHECK(sluice_chain_take(c->to, length, &slice) == 0);
    fuzz_gather(run, &slice);
    fuzz_keep(run, &slice);
    sluice_slice_release(&slice);
    if (result == 0)
        return 0;
    fuzz_show_gathered(run, "body");
    fuzz_show(run, "body ends", result);
    if (result < 0)
        fuzz_show(run, "answer", sluice_http_body_error_status(&c->body));
    fuzz_show(run, "total", (int64_t)c->body.total);
    c->in_body = false;
    return result;
}

static int next(void *state, sluice_chain *chain, fuzz_run *run) {
    connection *c = state;
    if (c->in_body)
        return next_body(c, chain, run);
    if (c->ended) { /* what follows is nobody's */
        sluice_chain_skip(chain, sluice_chain_length(chain));
        return 0;
    }
    return next_head(c, chain, run);
}

/* Once more after an error of a body: it stays. */
static int next_or_same(void *state, sluice_chain *chain, fuzz_run *run) {
    connection *c = state;
    if (c->body.error)
        return sluice_http_body_next(&c->body, chain, c->to);
    return next(state, chain, run);
}

void fuzz_target(fuzz_run *run) {
    connection c = {0};
    FUZZ_CHECK(sluice_http_new(&c.http) == 0);
    FUZZ_CHECK(sluice_chain_new(run->pool, &c.to) == 0);
    fuzz_drive(run, &(fuzz_framer){next_or_same, NULL}, &c);
    if (c.in_body) {
        fuzz_show_gathered(run, "body");
        fuzz_show(run, "at the close", sluice_http_body_end(&c.body));
    }
    sluice_chain_free(c.to);
    sluice_http_free(c.http);
}
