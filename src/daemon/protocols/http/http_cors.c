/* What pages of other origins may do, as the rules of browsers have it: headers of responses, and
 * refusals. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/protocols/http/http_session_internal.h"

static sluice_http_text value_of(const sluice_http_request *request, const char *name) {
    const sluice_http_header *header = sluice_http_find(request, name);
    return header ? header->value : (sluice_http_text){"", 0};
}

void http_cors_read(struct http_session *session, const sluice_http_request *request) {
    const sluice_http_text origin = value_of(request, "Origin");
    free(session->origin);
    session->origin = NULL;
    session->grant = cors_judge(&session->base.worker->options->origins, origin, value_of(request, "Host"));
    if (session->grant == CORS_OWN_HOST || session->grant == CORS_NAMED)
        session->origin = strndup(origin.text, origin.length);
}

bool http_cors_forbids(struct http_session *session, const sluice_http_request *request, bool publish) {
    char accept[SLUICE_WEBSOCKET_ACCEPT_SIZE];
    if (session->grant != CORS_OTHER)
        return false;
    /* What a page only reads, its browser keeps from it; these it would not. */
    if (!publish && sluice_websocket_upgrade(request, accept) == -ENOENT)
        return false;
    http_refuse(session, 403, "origin not allowed: see --allow-origin");
    return true;
}

int http_cors_write(const struct http_session *session, char *buffer, size_t size) {
    if (session->grant == CORS_ANY)
        return snprintf(buffer, size, "Access-Control-Allow-Origin: *\r\n");
    if (!session->origin)
        return snprintf(buffer, size, "Vary: Origin\r\n");
    /* Passwords and the like that the browser stores for this host, only for named origins. */
    return snprintf(buffer, size, "Access-Control-Allow-Origin: %s\r\n%sVary: Origin\r\n", session->origin,
                    session->grant == CORS_NAMED ? "Access-Control-Allow-Credentials: true\r\n" : "");
}

bool http_cors_is_granted(const struct http_session *session) {
    return session->grant == CORS_ANY || session->origin;
}
