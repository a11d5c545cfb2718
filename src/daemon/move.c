#include "daemon/move.h"

#include <stdlib.h>
#include <string.h>

#include <errno.h>

#include "daemon/log.h"
#include "daemon/server.h"
#include "daemon/spread.h"

/* On its way. It is the session's while that may still be closed, then the message's own. */
struct session_move {
    sluice_call call;
    struct session *session;
    struct worker *to;
    sluice_conn_handover connection;
};

static void arrive(void *user) {
    struct session_move *move = user;
    struct session *session = move->session;
    struct worker *worker = move->to;
    session->worker = worker;
    budget_reset(session);
    int error = sluice_conn_adopt(worker->loop, &move->connection, session->type->events, session, &session->conn);
    if (error) {
        LOG(LOG_ERROR, "connection lost on its way to a worker", {"proto", session->type->protocol},
            {"peer", session->peer}, {"reason", strerror(-error)});
        sluice_conn_handover_discard(&move->connection);
        const struct cidr_address peer = session->peer_address;
        spread_leave(session);
        session->type->discard(session);
        server_release_connection(worker->server, &peer);
    } else {
        worker_add(worker, session);
        session->type->moved(session);
        session_account(session);
    }
    free(move);
}

static void left(const sluice_conn_handover *handover, void *user) {
    struct session *session = user;
    struct session_move *move = session->move;
    move->connection = *handover;
    session->move = NULL;
    session->conn = NULL;
    worker_remove(session->worker, session);
    sluice_loop_post_call(move->to->loop, &move->call, arrive, move);
}

int session_move(struct session *session, struct worker *to) {
    struct session_move *move = malloc(sizeof *move);
    if (!move)
        return -ENOMEM;
    *move = (struct session_move){.session = session, .to = to};
    int error = sluice_conn_detach(session->conn, left, session);
    if (error)
        free(move);
    else
        session->move = move;
    return error;
}
