#include "daemon/admin/admin_reply.h"

#include <stdlib.h>

#include "daemon/admin/admin_server.h"
#include "daemon/base/http_status.h"
#include "shared/json.h"

void admin_reply_text(struct exchange *exchange, const char *type, char *text, size_t size) {
    exchange_answer(exchange, 200, type, text, size, true);
}

void admin_reply_document(struct exchange *exchange, struct json *json) {
    if (json->failed) {
        free(json->text);
        admin_reply_problem(exchange, 503, "out of memory");
        return;
    }
    admin_reply_text(exchange, "application/json", json->text, json->length);
}

void admin_reply_created(struct exchange *exchange, const char *location, char *text, size_t size) {
    exchange_header(exchange, "Location", location);
    exchange_answer(exchange, 201, "application/json", text, size, true);
}

void admin_reply_file(struct exchange *exchange, const char *type, const void *bytes, size_t size, const char *policy) {
    if (policy) {
        exchange_header(exchange, "Content-Security-Policy", policy);
        exchange_header(exchange, "X-Frame-Options", "DENY");
        exchange_header(exchange, "Referrer-Policy", "no-referrer");
    }
    exchange_answer(exchange, 200, type, bytes, size, false);
}

void admin_reply_done(struct exchange *exchange) {
    exchange_answer(exchange, 204, NULL, NULL, 0, false);
}

void admin_reply_problem(struct exchange *exchange, unsigned status, const char *detail) {
    struct json json = {0};
    if (status == 401)
        exchange_header(exchange, "WWW-Authenticate", "Bearer realm=\"sluiced\"");
    json_open(&json, NULL, '{');
    json_put_string(&json, "type", "about:blank");
    json_put_string(&json, "title", http_status_text(status));
    json_put_unsigned(&json, "status", status);
    json_put_string(&json, "detail", detail);
    json_close(&json, '}');
    if (json.failed) {
        free(json.text);
        exchange_answer(exchange, status, "text/plain", "", 0, false);
    } else {
        exchange_answer(exchange, status, "application/problem+json", json.text, json.length, true);
    }
}

void admin_reply_wrong_method(struct exchange *exchange, const char *allow) {
    exchange_header(exchange, "Allow", allow);
    admin_reply_problem(exchange, 405, "this method does not exist here; see Allow");
}
