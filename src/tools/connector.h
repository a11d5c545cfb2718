/*
 * Connects to the addresses of a server, one after the other. Names are looked up once, at the
 * beginning, when a tool has nothing else to do; thousands of connections then go to the same
 * addresses.
 */
#ifndef TOOLS_CONNECTOR_H
#define TOOLS_CONNECTOR_H

#include <netdb.h>
#include <stdint.h>

#include <sluice/connect.h>

#include "tools/target.h"

enum { CONNECTOR_MS = 10000 }; /* for all addresses together */

/* A connection to be made; its owner's memory, which must stay until it is done or cancelled, or
 * the loop is freed. */
struct connector_job {
    const struct addrinfo *addresses;
    /*
     * Exactly once, unless it is cancelled or the loop is freed before: @conn is the callee's,
     * without events; NULL for the error of the last address.
     */
    void (*done)(struct connector_job *job, sluice_conn *conn, int error);
    void *user;

    /* The connector's own: */
    sluice_loop *loop;
    const struct addrinfo *next;
    sluice_connector *under_way; /* NULL: it does not run */
    uint64_t deadline;
};

/* Looks the target's host up. 0, or an error of getaddrinfo(3); @ret_addresses is to be freed with
 * freeaddrinfo(). */
int connector_look_up(const struct target *target, struct addrinfo **ret_addresses);

/* Begins to connect. 0 (done() follows, never from in here), or why none of the addresses can be
 * tried. */
int connector_start(struct connector_job *job, sluice_loop *loop);

/* Nothing comes of it any more. A job that does not run may be given. */
void connector_cancel(struct connector_job *job);

#endif
