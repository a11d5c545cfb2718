#include "daemon/control_reply.h"

#include <event2/buffer.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/http_status.h"
#include "shared/json.h"

static void add_header(struct evhttp_request *request, const char *name, const char *value) {
    evhttp_add_header(evhttp_request_get_output_headers(request), name, value);
}

/* HEAD gets the head alone, but with the length that GET would have. */
static void send_reply(struct evhttp_request *request, unsigned status, const char *type, struct evbuffer *body) {
    char length[24];
    add_header(request, "Server", "sluiced");
    add_header(request, "Cache-Control", "no-store");
    add_header(request, "X-Content-Type-Options", "nosniff");
    if (status != 204) {
        snprintf(length, sizeof length, "%zu", body ? evbuffer_get_length(body) : 0);
        add_header(request, "Content-Type", type);
        add_header(request, "Content-Length", length);
    }
    evhttp_send_reply(request, (int)status, http_status_text(status), body);
}

static void free_text(const void *text, size_t size, void *user) {
    (void)text;
    (void)size;
    free(user);
}

static void send_text(struct evhttp_request *request, unsigned status, const char *type, char *text, size_t size) {
    struct evbuffer *body = evbuffer_new();
    if (!body || evbuffer_add_reference(body, text, size, free_text, text) < 0) {
        free(text);
        send_reply(request, 500, "text/plain", NULL);
    } else {
        send_reply(request, status, type, body);
    }
    if (body)
        evbuffer_free(body);
}

void reply_text(struct evhttp_request *request, const char *type, char *text, size_t size) {
    send_text(request, 200, type, text, size);
}

void reply_file(struct evhttp_request *request, const char *type, const void *bytes, size_t size, const char *policy) {
    struct evbuffer *body = evbuffer_new();
    if (policy) {
        add_header(request, "Content-Security-Policy", policy);
        add_header(request, "X-Frame-Options", "DENY");
        add_header(request, "Referrer-Policy", "no-referrer");
    }
    if (!body || evbuffer_add_reference(body, bytes, size, NULL, NULL) < 0)
        send_reply(request, 500, "text/plain", NULL);
    else
        send_reply(request, 200, type, body);
    if (body)
        evbuffer_free(body);
}

void reply_close(struct evhttp_request *request) {
    add_header(request, "Connection", "close");
}

void reply_done(struct evhttp_request *request) {
    send_reply(request, 204, NULL, NULL);
}

char *reply_problem_text(unsigned status, const char *detail, size_t *ret_size) {
    struct json json = {0};
    json_open(&json, NULL, '{');
    json_string(&json, "type", "about:blank");
    json_string(&json, "title", http_status_text(status));
    json_unsigned(&json, "status", status);
    json_string(&json, "detail", detail);
    json_close(&json, '}');
    if (json.failed) {
        free(json.text);
        return NULL;
    }
    *ret_size = json.length;
    return json.text;
}

void reply_problem(struct evhttp_request *request, unsigned status, const char *detail) {
    size_t size;
    char *text = reply_problem_text(status, detail, &size);
    if (status == 401)
        add_header(request, "WWW-Authenticate", "Bearer realm=\"sluiced\"");
    if (text)
        send_text(request, status, "application/problem+json", text, size);
    else
        send_reply(request, status, "text/plain", NULL);
}

void reply_wrong_method(struct evhttp_request *request, const char *allow) {
    add_header(request, "Allow", allow);
    reply_problem(request, 405, "this method does not exist here; see Allow");
}
