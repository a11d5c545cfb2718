/*
 * Sends hook events (hook_event.h) by HTTP: a few at a time, separately from queries
 * (hook_client.h), so that a server that does not answer delays nothing else. Failed deliveries are
 * retried for a limited time. The control plane's thread, except hook_delivery_take().
 */
#ifndef SLUICED_HOOK_DELIVERY_H
#define SLUICED_HOOK_DELIVERY_H

#include "daemon/server/hook_event.h"

struct event_base;
struct hook_delivery;
struct hook_poster;
struct reload;

/*
 * @reload: has the options with the URLs, read at the time of delivery. It and @poster outlive this
 * object. 0, -ENOMEM
 */
int hook_delivery_new(struct event_base *base, struct hook_poster *poster, const struct reload *reload,
                      struct hook_delivery **ret_notifier);

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
