#include "daemon/server/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/base/log.h"
#include "daemon/config/protocol.h"
#include "daemon/relay/player.h"
#include "daemon/server/handover.h"
#include "daemon/server/linger.h"
#include "daemon/server/server.h"
#include "daemon/server/worker.h"
#include "daemon/tls/tls_peer.h"
#include "shared/tls_link.h"

int session_adopt(struct session *session, struct handover *handover) {
    struct worker *worker = session->worker;
    const sluice_conn_events *events = session->tls ? &tls_link_events : session->type->events;
    void *user = session->tls ? (void *)session->tls : session;
    int error = sluice_conn_adopt(worker->loop, &handover->connection, events, user, &session->conn);
    if (error)
        return error;
    if (handover->tls)
        tls_link_attach(session->tls, session->conn, handover->tls);
    handover->tls = NULL;
    worker_add(worker, session);
    return 0;
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

static int start(const struct session_type *type, struct worker *worker, struct handover *handover,
                 const struct session_secure *secure, struct session **ret_session) {
    struct session *session = make(type, worker, handover);
    if (!session)
        return -ENOMEM;
    int error = type->prepare ? type->prepare(session, handover) : 0;
    if (!error && (secure || handover->tls))
        error = tls_link_new(type->events, session, &session->tls);
    if (!error)
        error = session_adopt(session, handover);
    if (error) {
        session_discard(session);
        return error;
    }
    if (secure)
        tls_link_begin(session->tls, session->conn, secure->context, secure->name);
    if (type->begin)
        type->begin(session);
    if (ret_session)
        *ret_session = session;
    return 0;
}

int session_start(const struct session_type *type, struct worker *worker, struct handover *handover,
                  struct session **ret_session) {
    return start(type, worker, handover, NULL, ret_session);
}

int session_start_outgoing(const struct session_type *type, struct worker *worker, int fd,
                           const struct sockaddr_storage *peer, const struct session_secure *secure,
                           struct session **ret_session) {
    struct handover handover = {
        .connection = {.fd = fd, .told = true}, .peer = *peer, .listener.merge_window_ms = OPTIONS_MERGE_UNSET};
    int error = start(type, worker, &handover, secure, ret_session);
    if (!error)
        server_add_connection(worker->server);
    return error;
}

void session_discard(struct session *session) {
    struct tls_link *tls = session->tls;
    session->type->discard(session);
    tls_link_free(tls);
}

sluice_chain *session_chain(const struct session *session) {
    return session->tls ? tls_link_chain(session->tls) : sluice_conn_chain(session->conn);
}

void session_set_need(struct session *session, size_t bytes) {
    if (session->tls)
        tls_link_set_need(session->tls, bytes);
    else
        sluice_conn_set_need(session->conn, bytes);
}

void session_again(struct session *session) {
    if (session->tls)
        tls_link_again(session->tls);
    else
        sluice_conn_again(session->conn);
}

int session_finish(struct session *session) {
    return session->tls ? tls_link_finish(session->tls) : sluice_conn_finish(session->conn);
}

/* Whether it is of a client, which may still send, and has been sent an alert that it should
 * read. */
static bool has_alerted_client(const struct session *session) {
    return tls_link_has_alerted(session->tls) && !session->is_uncounted && !sluice_conn_is_closing(session->conn);
}

void session_close(struct session *session) {
    session->closing = true;
    if (session->tls && has_alerted_client(session))
        (void)linger_begin(session, false);
    if (session->tls)
        tls_link_close(session->tls);
    else
        sluice_conn_close(session->conn);
}

bool session_is_flushing(const struct session *session) {
    return session->tls && tls_link_is_flushing(session->tls);
}

static size_t encrypted_for(const struct player *player) {
    const struct session *session = player->user;
    return tls_link_queued(session->tls);
}

void session_take_player(struct session *session, struct player *player) {
    player->conn = session->conn;
    player->user = session;
    player->encrypted = session->tls ? encrypted_for : NULL;
}

bool session_is_sending(const struct session *session) {
    return session->tls ? tls_link_passes(session->tls) : sluice_conn_is_sending(session->conn);
}

/* The clearest words: of the protocol, which make a client say that this is no TLS; or an alert
 * (RFC 8446, 6): unexpected_message. */
static void answer_tls(const struct session *session) {
    static const char alert[] = {21, 3, 1, 0, 2, 2, 10};
    const struct protocol *protocol = protocol_find(session->type->protocol);
    char text[512];
    int length = 0;
    if (protocol && protocol->reject)
        length = protocol->reject(text, sizeof text, 400, reject_reason(REJECT_TLS_HELLO));
    const void *answer = length > 0 ? text : alert;
    (void)send(sluice_conn_fd(session->conn), answer, length > 0 ? (size_t)length : sizeof alert,
               MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool session_refuses_tls(struct session *session) {
    if (session->has_begun)
        return false;
    int result = session->tls ? -EPROTO : reject_is_hello(sluice_conn_chain(session->conn));
    session->has_begun = result != 0;
    if (result <= 0)
        return false;
    server_count_reject(session->worker->server, REJECT_TLS_HELLO);
    session_log_refusal(session, 400, reject_reason(REJECT_TLS_HELLO));
    answer_tls(session);
    (void)linger_begin(session, false);
    return true;
}

const char *session_tls_reason(const struct session *session) {
    return session->tls ? tls_link_reason(session->tls) : NULL;
}

bool session_kernel_sends(const struct session *session) {
    return session->tls && tls_link_kernel_sends(session->tls);
}

bool session_is_shaking(const struct session *session) {
    const sluice_tls *tls = session->tls ? tls_link_stage(session->tls) : NULL;
    return tls && sluice_tls_get_state(tls) == SLUICE_TLS_HANDSHAKE;
}

void session_explain(const struct session *session, int error, char ret_text[SESSION_FAILURE]) {
    const char *reason = session_tls_reason(session);
    snprintf(ret_text, SESSION_FAILURE, "%s%s", reason ? "TLS: " : "", reason ? reason : strerror(-error));
}

const char *session_peer_certificate(const struct session *session) {
    return session->tls ? tls_peer_name(tls_link_stage(session->tls)) : NULL;
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

void session_log_failed(const struct session *session, int error) {
    if (error != -EPIPE)
        LOG(LOG_ERROR, "connection refused", {"proto", session->type->protocol}, {"peer", session->peer},
            {"reason", strerror(-error)});
}

bool session_is_overdue(const struct session *session) {
    return worker_now(session->worker) - session->authorized_at >= SESSION_UNAUTHORIZED_MS;
}
