/*
 * Tells the servers of hooks what has happened (hook_notice.h), by HTTP: few at a time, and beside those that are asked
 * (control_hook.h), so that a server that does not answer holds nobody up. What fails is tried again for a while.
 * In the control plane's thread, but for notifier_take().
 */
#ifndef SLUICED_CONTROL_NOTICE_H
#define SLUICED_CONTROL_NOTICE_H

#include "daemon/hook_notice.h"

struct event_base;
struct notifier;
struct reload;

/* @reload: whose options say where, at the time of telling; outlives the notifier. 0, -ENOMEM */
int notifier_new(struct event_base *base, const struct reload *reload, struct notifier **ret_notifier);

/* What is under way is lost. NULL is allowed. */
void notifier_free(struct notifier *notifier);

/* A notify_fn. */
void notifier_take(void *notifier, struct hook_notice *notice);

/*
 * The server has stopped: @done is called when everything has been told, or after a few seconds what could be, never
 * before this has returned.
 */
void notifier_finish(struct notifier *notifier, void (*done)(void *user), void *user);

void notifier_get_counts(struct notifier *notifier, struct notice_counts ret_counts[HOOK_EVENTS],
                         uint64_t *ret_waiting);

#endif
