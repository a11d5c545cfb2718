#include "daemon/server/handover.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/config/protocol.h"
#include "daemon/server/server.h"
#include "daemon/server/spread.h"
#include "shared/tls_link.h"

void handover_log_refusal(const struct handover *handover, const char *reason) {
    char peer[ADDRESS_TEXT];
    address_format(&handover->peer, peer);
    LOG(LOG_WARNING, "connection refused", {"proto", handover->listener.protocol->option.name}, {"peer", peer},
        {"reason", reason});
}

void handover_refuse(struct worker *worker, struct handover *handover, int error) {
    const struct cidr_address address = cidr_address(&handover->peer);
    /* A publisher without the right to publish has its own line in the log. */
    if (error == -EUSERS)
        handover_log_refusal(handover, reject_reason(REJECT_STREAMS));
    else if (error != -ESHUTDOWN && error != -EPERM)
        LOG(LOG_ERROR, "connection refused", {"proto", handover->listener.protocol->option.name},
            {"reason", strerror(-error)});
    handover_discard(handover);
    server_release_connection(worker->server, &address);
}

void handover_discard(struct handover *handover) {
    sluice_conn_handover_discard(&handover->connection);
    sluice_tls_free(handover->tls);
    handover->tls = NULL;
}

/* A session that has come from another worker. */
static void go_on(struct worker *worker, struct handover *handover) {
    struct session *session = handover->session;
    session->worker = worker;
    int error = session_adopt(session, handover);
    if (!error) {
        session->type->moved(session);
        session_account(session);
        return;
    }
    LOG(LOG_ERROR, "cannot migrate connection", {"proto", session->type->protocol}, {"peer", session->peer},
        {"reason", strerror(-error)});
    handover_discard(handover);
    const struct cidr_address peer = session->peer_address;
    spread_leave(session);
    session_discard(session);
    server_release_connection(worker->server, &peer);
}

void handover_begin(struct worker *worker, struct handover *handover) {
    if (handover->session) {
        go_on(worker, handover);
        return;
    }
    const struct session_type *type = handover->listener.tls && !handover->tls ? handover_tls_stage
                                                                               : handover->listener.protocol->session;
    int error = worker->draining ? -ESHUTDOWN : session_start(type, worker, handover, NULL);
    if (error)
        handover_refuse(worker, handover, error);
}

static void arrive(void *user) {
    struct handover *handover = user;
    handover_begin(handover->worker, handover);
    free(handover);
}

void handover_send(struct worker *to, struct handover *handover) {
    handover->worker = to;
    sluice_loop_post_call(to->loop, &handover->call, arrive, handover);
}

static void left(const sluice_conn_handover *connection, void *user) {
    struct session *session = user;
    struct handover *move = session->move;
    move->connection = *connection;
    move->tls = session->tls ? tls_link_take(session->tls, &session->worker->tls_bytes) : NULL;
    session->move = NULL;
    session->conn = NULL;
    worker_remove(session->worker, session);
    handover_send(move->worker, move);
}

int session_migrate(struct session *session, struct worker *to) {
    struct handover *move = calloc(1, sizeof *move);
    if (!move)
        return -ENOMEM;
    move->session = session;
    move->worker = to;
    session->move = move;
    int error = session->tls ? tls_link_leave(session->tls, left, session)
                             : sluice_conn_detach(session->conn, left, session);
    if (error) {
        session->move = NULL;
        free(move);
    }
    return error;
}
