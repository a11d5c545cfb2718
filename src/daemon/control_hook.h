/* Asks the servers of hooks, by HTTP. In the control plane's thread, but for asker_take(). */
#ifndef SLUICED_CONTROL_HOOK_H
#define SLUICED_CONTROL_HOOK_H

#include "daemon/hook.h"

struct event_base;
struct asker;

/* 0, -ENOMEM, -EMFILE */
int asker_new(struct event_base *base, struct asker **ret_asker);

/* Questions that are under way come back, refused. NULL is allowed. */
void asker_free(struct asker *asker);

/* A hook_fn. */
void asker_take(void *asker, struct hook_job *job);

#endif
