#include "daemon/server/linger.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/server/handover.h"
#include "daemon/server/handshake_limit.h"
#include "daemon/server/server.h"
#include "daemon/server/worker.h"

struct lingering {
    struct session base;
    uint64_t deadline;
    uint64_t dropped; /* bytes */
    bool has_slot;    /* among the handshakes under way */
};

static struct lingering *of(struct session *session) {
    return (struct lingering *)session;
}

static void close_linger(struct lingering *linger) {
    if (!linger->base.closing)
        session_close(&linger->base);
}

static void on_data(sluice_conn *conn, void *user) {
    struct lingering *linger = user;
    sluice_chain *chain = sluice_conn_chain(conn);
    linger->dropped += sluice_chain_length(chain);
    sluice_chain_skip(chain, SIZE_MAX);
    if (linger->dropped > LINGER_MOST)
        close_linger(linger);
    session_account(&linger->base);
}

static void on_end(sluice_conn *conn, int error, void *user) {
    (void)conn, (void)error;
    close_linger(user);
}

static void discard(struct session *base) {
    if (of(base)->has_slot)
        handshake_limit_remove(server_handshakes(base->worker->server), &base->peer_address);
    free(base);
}

static void on_closed(sluice_conn *conn, void *user) {
    struct lingering *linger = user;
    (void)conn;
    worker_end_session(&linger->base);
    discard(&linger->base);
}

static void tick(struct session *base, uint64_t now) {
    if (now >= of(base)->deadline)
        close_linger(of(base));
}

static void drain(struct session *base) {
    close_linger(of(base));
}

static void kick(struct session *base, int error) {
    (void)error;
    close_linger(of(base));
}

static const sluice_conn_events events = {
    .size = sizeof events, .on_data = on_data, .on_end = on_end, .on_closed = on_closed};

static const struct session_type linger_type = {.protocol = "closing",
                                                .events = &events,
                                                .size = sizeof(struct lingering),
                                                .tick = tick,
                                                .drain = drain,
                                                .kick = kick,
                                                .discard = discard};

/* From now on what was counted for the one is counted for the other. */
static void move_counts(struct session *from, struct lingering *to, bool has_slot) {
    memcpy(to->base.peer, from->peer, sizeof to->base.peer);
    to->base.peer_address = from->peer_address;
    to->base.is_uncounted = from->is_uncounted;
    from->is_uncounted = true;
    to->has_slot = has_slot;
    server_add_connection(from->worker->server);
}

bool linger_begin(struct session *session, bool has_slot) {
    struct worker *worker = session->worker;
    const int fd = sluice_conn_fd(session->conn);
    struct handover handover = {.connection = {.told = true}, .listener.merge_window_ms = OPTIONS_MERGE_UNSET};
    socklen_t length = sizeof handover.peer;
    struct session *linger;
    if (worker->draining || getpeername(fd, (struct sockaddr *)&handover.peer, &length) < 0)
        return false;
    handover.connection.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (handover.connection.fd < 0)
        return false;
    if (session_start(&linger_type, worker, &handover, &linger) < 0) {
        close(handover.connection.fd);
        return false;
    }
    of(linger)->deadline = worker_now(worker) + LINGER_MS;
    move_counts(session, of(linger), has_slot);
    /* TCP may not have been given the alert yet by a kernel that encrypts: the end would cut it
     * off. */
    if (!session_kernel_sends(session))
        (void)shutdown(fd, SHUT_WR);
    return true;
}
