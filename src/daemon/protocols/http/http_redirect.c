/* A node that drains sends clients that ask for a stream to another one. */
#include <stdio.h>
#include <stdlib.h>

#include "daemon/protocols/http/http_route.h"
#include "daemon/protocols/http/http_session_internal.h"
#include "daemon/server/refuge.h"
#include "daemon/server/server.h"

/* What other nodes still fetch goes on until it ends. */
static bool is_for_stream(const struct http_session *session, const sluice_http_request *request) {
    return session->route->handle == http_stream_handle && !sluice_http_find(request, "Sluice-Cluster");
}

bool http_redirect(struct http_session *session, const sluice_http_request *request) {
    const struct worker *worker = session->base.worker;
    const struct cluster_self *self = server_cluster_self(worker->server);
    struct http_reply reply = {.status = 307, .reason = "this node is drained"};
    struct refuge_place place;
    char *location = NULL;
    if (!worker->evacuates || !self || !is_for_stream(session, request))
        return false;
    if (self->refuge && refuge_next(self->refuge, session->base.tls, &place) &&
        asprintf(&location, "%s://%s%.*s%s%.*s", place.is_secure ? "https" : "http", place.address,
                 (int)request->path.length, request->path.text, request->query.length > 0 ? "?" : "",
                 (int)request->query.length, request->query.text) >= 0) {
        reply.location = location;
    } else {
        reply.status = 503;
        reply.retry_after = 1;
    }
    http_refuse_with(session, &reply);
    free(location);
    return true;
}
