/*
 * An RTMP client's connection: the dialogue (shared/rtmp_client.h) with its socket. Where a server
 * asks for a login, it connects to the same address again, up to twice.
 */
#ifndef TOOLS_RTMP_SESSION_H
#define TOOLS_RTMP_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/conn.h>

#include "shared/rtmp_client.h"
#include "tools/target.h"

struct rtmp_session;

struct rtmp_session_events {
    void (*running)(void *user);
    /* Of a player: its payload may be taken. */
    void (*tag)(sluice_flv_tag *tag, void *user);
    /* Of a publisher: the kernel has taken something. */
    void (*sent)(void *user);
    /* Exactly once. @error is 0 when the end was asked for, or is the server's own. */
    void (*ended)(int error, const char *reason, void *user);
    /* The last call, behind ended(): the session is gone. */
    void (*closed)(void *user);
};

/*
 * @conn: to the target; the session's, or on failure still the caller's. @timeout_ms: what nothing
 * may come for while it plays. @queue: most bytes that wait to be sent. 0, -ENOMEM, -EPROTO (no
 * RTMP URL), -EMSGSIZE, -EIO
 */
int rtmp_session_new(sluice_conn *conn, const struct target *target, enum rtmp_client_mode mode, uint32_t timeout_ms,
                     size_t queue, const struct rtmp_session_events *events, void *user,
                     struct rtmp_session **ret_session);

/* As rtmp_client_send(); also -EPIPE when it has ended. */
int rtmp_session_send(struct rtmp_session *session, sluice_flv_type type, uint32_t timestamp,
                      const sluice_slice *payload);

/* Sends what is queued, and the end; ended() follows when the server has closed the connection. */
void rtmp_session_finish(struct rtmp_session *session);

/* Ends it at once: ended() is called from in here. */
void rtmp_session_end(struct rtmp_session *session, int error, const char *reason);

/* Reads nothing more. */
void rtmp_session_stall(struct rtmp_session *session);

/* To be called each second. */
void rtmp_session_tick(struct rtmp_session *session, uint64_t now);

/* Bytes received, and sent. */
uint64_t rtmp_session_received(const struct rtmp_session *session);
uint64_t rtmp_session_sent(const struct rtmp_session *session);

/* Bytes that wait to be sent. */
size_t rtmp_session_queued(const struct rtmp_session *session);

#endif
