/* HTTP: response heads and bodies, one behind the other, to requests of several methods. */
#include <sluice/http.h>

#include "fuzz/fuzz.h"

/* A client's connection. */
typedef struct connection {
    sluice_http *http;
    sluice_chain *to; /* where bodies go */
    sluice_http_body body;
    unsigned answered; /* responses that were not interim */
    bool in_body;
    bool ended; /* no response can follow the last one */
} connection;

/* What was asked: two bits of the settings for each of the first four requests. */
static const char *method_of(const connection *c, const fuzz_run *run) {
    static const char *const methods[] = {"GET", "HEAD", "CONNECT", NULL};
    return methods[run->settings[0] >> 2 * (c->answered % 4) & 3];
}

static void show_response(fuzz_run *run, const sluice_http_response *response) {
    fuzz_show(run, "status", response->status);
    fuzz_show_text(run, "reason", response->reason);
    fuzz_show(run, "version", response->minor_version);
    fuzz_show(run, "flags", response->interim << 2 | response->switched << 1 | response->keep_alive);
    fuzz_show(run, "body", response->body);
    fuzz_show(run, "length", (int64_t)response->content_length);
    for (size_t i = 0; i < response->header_count; i++) {
        fuzz_show_text(run, "name", response->headers[i].name);
        fuzz_show_text(run, "value", response->headers[i].value);
    }
    const sluice_http_header *server = sluice_http_response_find(response, "server");
    fuzz_show(run, "server", server ? server - response->headers : -1);
    FUZZ_CHECK(response->status >= 100 && response->status <= 999);
    FUZZ_CHECK(!response->interim || response->body == SLUICE_HTTP_BODY_NONE);
    FUZZ_CHECK(!response->switched || (response->body == SLUICE_HTTP_BODY_NONE && !response->keep_alive));
    FUZZ_CHECK(response->body != SLUICE_HTTP_BODY_UNTIL_CLOSE || !response->keep_alive);
}

static int next_head(connection *c, sluice_chain *chain, fuzz_run *run) {
    sluice_http_response response;
    int result = sluice_http_next_response(c->http, chain, method_of(c, run), &response);
    if (result != 1)
        return result;
    show_response(run, &response);
    sluice_http_body_begin_response(&c->body, &response);
    c->ended = !response.interim && !response.keep_alive;
    c->answered += !response.interim;
    c->in_body = true;
    if (run->settings[1] & 1)
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
    fuzz_show(run, "total", (int64_t)c->body.total);
    c->in_body = false;
    return result;
}

static int next(void *state, sluice_chain *chain, fuzz_run *run) {
    connection *c = state;
    if (c->body.error) /* it stays */
        return sluice_http_body_next(&c->body, chain, c->to);
    if (c->in_body)
        return next_body(c, chain, run);
    if (c->ended) { /* what follows is nobody's */
        sluice_chain_skip(chain, sluice_chain_length(chain));
        return 0;
    }
    return next_head(c, chain, run);
}

void fuzz_target(fuzz_run *run) {
    connection c = {0};
    FUZZ_CHECK(sluice_http_new(&c.http) == 0);
    FUZZ_CHECK(sluice_chain_new(run->pool, &c.to) == 0);
    fuzz_drive(run, &(fuzz_framer){next, NULL}, &c);
    if (c.in_body) {
        fuzz_show_gathered(run, "body");
        fuzz_show(run, "at the close", sluice_http_body_end(&c.body));
    }
    sluice_chain_free(c.to);
    sluice_http_free(c.http);
}
