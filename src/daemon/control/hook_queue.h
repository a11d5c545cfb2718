/*
 * Hook queries that wait to be sent. Each client address (IPv6: each /64 network) has a share of
 * the queue: addresses are served in turn, an address without a pending query does not wait for the
 * answers to others, and no address can fill the queue. Any thread.
 */
#ifndef SLUICED_HOOK_QUEUE_H
#define SLUICED_HOOK_QUEUE_H

#include "daemon/base/cidr.h"

enum {
    HOOK_ASKED = 64, /* questions that are asked at the same time, */
    HOOK_FIRST = 64, /* and so many beyond these, the first ones of their addresses */
    /* that wait for that. An address may have as many as are left for others */
    HOOK_WAITING = 4096,
};

struct hook_query;
struct hook_queue;

/* 0, -ENOMEM */
int hook_queue_new(struct hook_queue **ret_queue);

/* The queue must be empty, without pending queries. NULL is allowed. */
void hook_queue_free(struct hook_queue *queue);

/* The job waits in its host's share. 0; -EUSERS (the share is full), -ENOMEM */
int hook_queue_add(struct hook_queue *queue, struct hook_query *job);

/* The next one that may be asked now: counted as asked until hook_queue_done(); NULL: none may. */
struct hook_query *hook_queue_take(struct hook_queue *queue);

/* The question of that host has an answer. */
void hook_queue_done(struct hook_queue *queue, const struct cidr_address *host);

/* One that waits, however many are asked; not counted as asked. NULL: none does. */
struct hook_query *hook_queue_remove(struct hook_queue *queue);

#endif
