/*
 * Where clients of a node that drains are to go instead: other nodes of the cluster, in turn. The
 * control plane sets them; any thread asks.
 */
#ifndef SLUICED_REFUGE_H
#define SLUICED_REFUGE_H

#include "daemon/server/cluster_query.h"

struct session;

enum { REFUGE_MOST = 16, REFUGE_URL = CLUSTER_ADDRESS + 32 };

struct refuge_place {
    char address[CLUSTER_ADDRESS + 1]; /* that the node advertises: of its listener of HTTP */
    bool is_secure;                    /* with TLS */
};

struct refuge;

/* @own: the address that this node advertises. 0, -ENOMEM */
int refuge_new(const char *own, struct refuge **ret_refuge);

/* NULL is allowed. */
void refuge_free(struct refuge *refuge);

/* @list: copied, up to REFUGE_MOST */
void refuge_set(struct refuge *refuge, const struct refuge_place *list, size_t count);

/* Whether there is one. @needs_tls: a client that came with TLS is not sent to a port without */
bool refuge_next(struct refuge *refuge, bool needs_tls, struct refuge_place *ret_place);

/*
 * SCHEME://HOST:PORT for a session that is none of HTTP, with an "s" behind the scheme if it has
 * TLS: another node's host, and the port by which the client came to this one. False: there is
 * none on another host. @url: untouched then
 */
bool refuge_url(const struct session *session, const char *scheme, char url[REFUGE_URL]);

#endif
