#include "daemon/session.h"

#include "daemon/worker.h"

void session_init(struct session *session, const struct session_type *type, struct worker *worker,
                  const struct sockaddr_storage *peer) {
    *session = (struct session){
        .type = type,
        .worker = worker,
        .peer_address = cidr_address(peer),
        .peer_port = address_port(peer),
        .authorized_at = worker_now(worker),
    };
    address_format(peer, session->peer);
}

void session_authorize(struct session *session) {
    session->is_authorized = true;
    session->authorized_at = worker_now(session->worker);
}

bool session_is_overdue(const struct session *session) {
    return worker_now(session->worker) - session->authorized_at >= SESSION_UNAUTHORIZED_MS;
}
