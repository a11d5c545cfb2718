/*
 * The connections of the administration, which libevent's server neither counts nor ends while a byte comes now and
 * then: at most so many, and a deadline for a request and for taking its answer, each as a whole. The control plane's
 * thread.
 */
#ifndef SLUICED_CONTROL_ADMIN_PEERS_H
#define SLUICED_CONTROL_ADMIN_PEERS_H

struct admin_peers;
struct event_base;
struct evhttp;
struct evhttp_request;

/* 0, -ENOMEM */
int admin_peers_new(struct event_base *base, struct admin_peers **ret_peers);

/* After the servers that it has been given. NULL is allowed. */
void admin_peers_free(struct admin_peers *peers);

/* Looks after the connections to come of a server. */
void admin_peers_watch(struct admin_peers *peers, struct evhttp *http);

/* A request has come as a whole: its peer waits for us now. To be told of each, before it is answered. */
void admin_peers_asked(struct admin_peers *peers, struct evhttp_request *request);

#endif
