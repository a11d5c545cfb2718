/* The connector, on libevent: looks up names, connects, finds the TLS context, and passes the
 * result to the data plane. */
#ifndef SLUICED_CONNECTOR_H
#define SLUICED_CONNECTOR_H

#include "daemon/server/connect.h"

struct event_base;
struct connector;
struct tls_client;

/* @tls: of secure connections; outlives it. 0, -ENOMEM, -errno. The thread that runs the base's
 * events; so is connector_free(). */
int connector_new(struct event_base *base, struct tls_client *tls, struct connector **ret_connector);

/* Drops the jobs that are under way: they do not come back. NULL is allowed. */
void connector_free(struct connector *connector);

/* A connect_fn. Any thread. */
void connector_take(void *connector, struct connect_job *job);

#endif
