/* Asks the servers of hooks, by HTTP. In the control plane's thread, but for hook_asker_take(). */
#ifndef SLUICED_CONTROL_HOOK_H
#define SLUICED_CONTROL_HOOK_H

#include "daemon/hook.h"

struct event_base;
struct hook_asker;

/* 0, -ENOMEM, -EMFILE */
int hook_asker_new(struct event_base *base, struct hook_asker **ret_asker);

/* Questions that are under way come back, refused. NULL is allowed. */
void hook_asker_free(struct hook_asker *asker);

/* A hook_fn. */
void hook_asker_take(void *asker, struct hook_job *job);

#endif
