#include "daemon/server/session.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/server/handover.h"
#include "daemon/server/server.h"
#include "daemon/server/worker.h"

int session_adopt(struct session *session, struct handover *handover) {
    struct worker *worker = session->worker;
    int error = sluice_conn_adopt(worker->loop, &handover->connection, session->type->events, session, &session->conn);
    if (!error)
        worker_add(worker, session);
    return error;
}

static struct session *make(const struct session_type *type, struct worker *worker, const struct handover *handover) {
    struct session *session = calloc(1, type->size);
    if (!session)
        return NULL;
    session->type = type;
    session->worker = worker;
    address_format(&handover->peer, session->peer);
    session->peer_address = cidr_address(&handover->peer);
    session->authorized_at = worker_now(worker);
    session->merge_window_ms = handover->listener.merge_window_ms;
    return session;
}

int session_start(const struct session_type *type, struct worker *worker, struct handover *handover,
                  struct session **ret_session) {
    struct session *session = make(type, worker, handover);
    if (!session)
        return -ENOMEM;
    int error = type->prepare ? type->prepare(session, handover) : 0;
    if (!error)
        error = session_adopt(session, handover);
    if (error) {
        type->discard(session);
        return error;
    }
    if (type->begin)
        type->begin(session);
    if (ret_session)
        *ret_session = session;
    return 0;
}

int session_start_outgoing(const struct session_type *type, struct worker *worker, int fd,
                           const struct sockaddr_storage *peer, struct session **ret_session) {
    struct handover handover = {
        .connection = {.fd = fd, .told = true}, .peer = *peer, .listener.merge_window_ms = OPTIONS_MERGE_UNSET};
    int error = session_start(type, worker, &handover, ret_session);
    if (!error)
        server_add_connection(worker->server);
    return error;
}

void session_authorize(struct session *session) {
    session->is_authorized = true;
    session->authorized_at = worker_now(session->worker);
}

void session_log_refusal(const struct session *session, unsigned status, const char *reason) {
    struct worker *worker = session->worker;
    auth_log_write(&worker->auth_log, worker_now(worker), session->type->protocol, session->peer,
                   &session->peer_address, status, reason);
}

bool session_is_overdue(const struct session *session) {
    return worker_now(session->worker) - session->authorized_at >= SESSION_UNAUTHORIZED_MS;
}
