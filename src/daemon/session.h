/* What the server knows of each of its connections, whatever it speaks. */
#ifndef SLUICED_SESSION_H
#define SLUICED_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/conn.h>

#include "daemon/address.h"
#include "daemon/cidr.h"

struct hook_job;
struct server;
struct session;

struct session_type {
    /* Twice a second: deadlines. May close the connection. */
    void (*tick)(struct session *session, uint64_t now);

    /* The server stops: finish what is under way, soon. */
    void (*drain)(struct session *session);

    /* An operator sends it away: end now. */
    void (*kick)(struct session *session);
};

struct session {
    const struct session_type *type;
    uint64_t id; /* given by server_add() */
    struct server *server;
    sluice_conn *conn;
    struct session *next, *prev; /* in the server's list */
    char peer[ADDRESS_TEXT];
    uint16_t peer_port;
    struct cidr_address peer_address;
    uint16_t merge_window_ms; /* of the listener by which it came, or OPTIONS_MERGE_UNSET */
    bool closing;
    struct hook_job *hook; /* the answer that it waits for; or NULL */
};

#endif
