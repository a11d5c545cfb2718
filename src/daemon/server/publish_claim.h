/*
 * A publisher's claim of its stream in the cluster (cluster_query.h), before the name is claimed on
 * this node. A node has a stream as long as one of its publishers has a claim: further ones share
 * it, the last one that leaves releases it. Without a cluster there are no claims. The thread of
 * the stream's worker only.
 */
#ifndef SLUICED_PUBLISH_CLAIM_H
#define SLUICED_PUBLISH_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/cidr.h"

struct publish_claim;
struct stream;
struct worker;

/*
 * What has become of a claim: 0; -EREMOTE: another node has the stream; -EBUSY: the name is
 * reserved; -EHOSTDOWN: the engine is unavailable; -ESHUTDOWN. Called at most once, but that it may
 * be lost (-EREMOTE) after it was granted.
 */
typedef void publish_claimed_fn(void *user, int error);

/*
 * @stream: stays until the claim ends. @displaces: it may take the stream from another node's
 * publisher, as the stream's policy has it. 0: this node has the stream already; 1: the cluster is
 * asked, and @claimed will be called; -ENOMEM, -ESHUTDOWN (after the run)
 */
int publish_claim_new(struct worker *worker, struct stream *stream, const struct cidr_address *host, bool displaces,
                      publish_claimed_fn *claimed, void *user, struct publish_claim **ret_claim);

/* The publisher has the name on this node, too. NULL is allowed. */
void publish_claim_begin(const struct publish_claim *claim);

/*
 * The publisher has left, or has not got the name; what is reserved on this node is in the cluster,
 * too. No call comes any more. NULL is allowed.
 */
void publish_claim_end(struct publish_claim *claim);

/* This node has the stream still, with that epoch, which is higher. Without claims nothing
 * happens. */
void publish_claims_raise(struct stream *stream, uint64_t epoch);

/*
 * Another node has the stream, with that epoch, or 0 for an unknown one: all claims are lost, but
 * for those that have been granted with a higher one since. Whether they are.
 */
bool publish_claims_lose(struct stream *stream, uint64_t epoch);

/* Waits until a claim is asserted. All zero: it does not. */
struct publish_assert_waiter {
    struct publish_claim *claim; /* NULL: it does not wait */
    struct publish_assert_waiter *next, *prev;
    /* The stream's epoch is at least the floor now; or not, or the claims are lost. */
    void (*asserted)(struct publish_assert_waiter *waiter);
};

/*
 * Another node has seen a higher epoch of a stream of which there are claims: the cluster is asked
 * whether this node has it still. 0: the waiter waits; -ENOMEM, -ESHUTDOWN (after the run)
 */
int publish_claims_assert(struct worker *worker, struct stream *stream, uint64_t floor,
                          struct publish_assert_waiter *waiter);

/* Waits no more. One that does not wait is allowed. */
void publish_assert_cancel(struct publish_assert_waiter *waiter);

#endif
