/*
 * Tells the servers of hooks what has happened (hook_event.h), by HTTP: few at a time, and beside
 * those that are asked (hook_client.h), so that a server that does not answer holds nobody up. What
 * fails is tried again for a while. In the control plane's thread, but for hook_delivery_take().
 */
#ifndef SLUICED_HOOK_DELIVERY_H
#define SLUICED_HOOK_DELIVERY_H

#include "daemon/server/hook_event.h"

struct event_base;
struct hook_delivery;
struct reload;

/* @reload: whose options say where, at the time of telling; outlives the notifier. 0, -ENOMEM */
int hook_delivery_new(struct event_base *base, const struct reload *reload, struct hook_delivery **ret_notifier);

/* What is under way is lost. NULL is allowed. */
void hook_delivery_free(struct hook_delivery *hook_delivery);

/* A hook_event_fn. */
void hook_delivery_take(void *hook_delivery, struct hook_event *notice);

/*
 * The server has stopped: @done is called when everything has been told, or after a few seconds
 * what could be, never before this has returned.
 */
void hook_delivery_finish(struct hook_delivery *hook_delivery, void (*done)(void *user), void *user);

void hook_delivery_get_counts(struct hook_delivery *hook_delivery, struct hook_event_counts ret_counts[HOOK_KINDS],
                              uint64_t *ret_waiting);

#endif
