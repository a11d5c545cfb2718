/*
 * Connects to servers without waiting: a loop of the library takes sockets that are connected. Names are looked up
 * once, at the beginning, when a tool has nothing else to do; thousands of connections then go to the same addresses.
 *
 * It is the host that runs the loop (see sluice_loop_fd()) while connections are under way, so nothing of a tool needs
 * a second thread.
 */
#ifndef TOOLS_CONNECTOR_H
#define TOOLS_CONNECTOR_H

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>

#include <sluice/loop.h>

#include "tools/target.h"

enum { CONNECTOR_MS = 10000 }; /* for all addresses together */

struct connector;

/* A connection to be made; its owner's memory, which must stay until it is done or cancelled. */
struct connector_job {
    const struct addrinfo *addresses;
    /* Exactly once, unless it is cancelled: @fd is the callee's, or -1 for the error of the last address. */
    void (*done)(struct connector_job *job, int fd, int error);
    void *user;

    /* The connector's own: */
    const struct addrinfo *at;
    struct connector_job *previous, *next;
    int fd, error;
    bool running;
    uint64_t deadline;
};

/* Looks the target's host up. 0, or an error of getaddrinfo(3); @ret_addresses is to be freed with freeaddrinfo(). */
int connector_look_up(const struct target *target, struct addrinfo **ret_addresses);

/* 0, -EMFILE, -ENFILE, -ENOMEM */
int connector_new(sluice_loop *loop, struct connector **ret_connector);

/* Jobs that are under way do not come back. */
void connector_free(struct connector *connector);

/* Begins to connect; done() is called from connector_turn(), never from in here. */
void connector_start(struct connector *connector, struct connector_job *job);

/* Nothing comes of it any more. A job that does not run may be given. */
void connector_cancel(struct connector *connector, struct connector_job *job);

/* One turn of the loop and of the connections. 0, or what sluice_loop_turn() says. */
int connector_turn(struct connector *connector);

#endif
