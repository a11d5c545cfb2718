/* Sends hook queries by HTTP. The control plane's thread, except hook_client_take(). */
#ifndef SLUICED_HOOK_CLIENT_H
#define SLUICED_HOOK_CLIENT_H

#include "daemon/server/hook_query.h"

struct event_base;
struct hook_client;
struct hook_poster;

/* @poster: outlives it. 0, -ENOMEM, -EMFILE */
int hook_client_new(struct event_base *base, struct hook_poster *poster, struct hook_client **ret_asker);

/* Questions that are under way come back, refused. NULL is allowed. */
void hook_client_free(struct hook_client *worker_query);

/* A hook_query_fn. */
void hook_client_take(void *worker_query, struct hook_query *job);

#endif
