#include "daemon/server/publish_claim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/relay/registry.h"
#include "daemon/server/server.h"

enum claim_state {
    /* the cluster is asked; set by publish_claim_new() and begin_assert() */
    CLAIM_ASKING,
    /* nobody wants the answer any more; set by publish_claim_end() */
    CLAIM_ABANDONED,
    /* it is among the stream's claims; set by enter() */
    CLAIM_HELD,
    /* it was refused, or another node has the stream now; set by answer() and
     * publish_claims_lose() */
    CLAIM_LOST,
    /* the cluster is told that it has ended; set by release(). It is freed then */
    CLAIM_RELEASING,
};

struct publish_claim {
    struct cluster_job job;
    enum claim_state state;
    /* the cluster has granted it, and is to be told of its end. Others share one that is */
    bool is_granted;
    uint64_t epoch;
    struct worker *worker;
    struct stream *stream;             /* NULL: its publisher has gone */
    struct publish_claim *next, *prev; /* among the stream's, where it is held */
    publish_claimed_fn *claimed;
    void *user;
    struct publish_assert_waiter *waiters; /* of CLUSTER_ASSERT */
};

static void come_back(struct cluster_job *job);

static struct publish_claim *make(struct worker *worker, struct stream *stream) {
    struct publish_claim *claim = calloc(1, sizeof *claim);
    if (!claim)
        return NULL;
    claim->worker = worker;
    claim->stream = stream;
    claim->job.loop = worker->loop;
    claim->job.done = come_back;
    claim->job.user = claim;
    strcpy(claim->job.stream, stream->name);
    return claim;
}

static bool ask(struct publish_claim *claim, enum cluster_question question, uint64_t epoch) {
    claim->job.question = question;
    claim->job.epoch = epoch;
    return server_ask_cluster(claim->worker->server, &claim->job);
}

static void enter(struct publish_claim *claim) {
    struct stream_cluster *cluster = &claim->stream->cluster;
    claim->state = CLAIM_HELD;
    claim->prev = NULL;
    claim->next = cluster->claims;
    if (claim->next)
        claim->next->prev = claim;
    cluster->claims = claim;
}

static void leave(struct publish_claim *claim) {
    struct stream_cluster *cluster = &claim->stream->cluster;
    if (claim->prev)
        claim->prev->next = claim->next;
    else
        cluster->claims = claim->next;
    if (claim->next)
        claim->next->prev = claim->prev;
    claim->next = claim->prev = NULL;
}

/* It goes, when the cluster has heard of it. */
static void release(struct publish_claim *claim) {
    claim->state = CLAIM_RELEASING;
    claim->stream = NULL;
    if (!ask(claim, CLUSTER_RELEASE, claim->epoch))
        free(claim);
}

void publish_claims_raise(struct stream *stream, uint64_t epoch) {
    struct stream_cluster *cluster = &stream->cluster;
    if (!cluster->claims || epoch <= cluster->epoch)
        return;
    cluster->epoch = epoch;
    if (cluster->seen < epoch)
        cluster->seen = epoch;
    /* What is cached is of an epoch before, and there may have been another one in between. */
    if (stream->live && !stream->source.is_remote)
        gop_drop(&stream->gop);
    for (struct publish_claim *claim = cluster->claims; claim; claim = claim->next)
        claim->epoch = epoch;
}

/* Any of them may go with the call. */
static void wake(struct publish_claim *claim) {
    while (claim->waiters) {
        struct publish_assert_waiter *waiter = claim->waiters;
        publish_assert_cancel(waiter);
        waiter->asserted(waiter);
    }
}

static void finish_assert(struct publish_claim *claim) {
    struct stream *stream = claim->stream;
    const struct cluster_job *job = &claim->job;
    stream->cluster.asserting = NULL;
    if (!job->error)
        publish_claims_raise(stream, job->location.epoch);
    else if (job->error == -ESTALE)
        (void)publish_claims_lose(stream, 0);
    wake(claim);
    free(claim);
    stream_unref(stream);
}

static void finish_abandoned(struct publish_claim *claim) {
    struct stream *stream = registry_find(claim->worker->registry, claim->job.stream);
    claim->epoch = claim->job.location.epoch;
    if (claim->job.error) {
        free(claim);
        return;
    }
    if (stream)
        publish_claims_raise(stream, claim->epoch);
    release(claim);
}

/*
 * Whether a pull has shown an epoch that is not below what is granted, since it was asked for: an
 * engine that has forgotten it does not know. Edges would not listen to this node.
 */
static bool is_too_low(const struct publish_claim *claim) {
    const struct stream_cluster *cluster = &claim->stream->cluster;
    return !cluster->claims && claim->epoch <= cluster->epoch;
}

/* It is asked for once more, before what has been granted is released. 0, -ENOMEM, -ESHUTDOWN */
static int ask_again(struct publish_claim *claim) {
    struct publish_claim *first = make(claim->worker, claim->stream);
    if (!first)
        return -ENOMEM;
    first->epoch = claim->epoch;
    if (!ask(claim, CLUSTER_CLAIM, claim->stream->cluster.seen)) {
        free(first);
        return -ESHUTDOWN;
    }
    claim->state = CLAIM_ASKING;
    claim->is_granted = false;
    release(first);
    return 0;
}

static void answer(struct publish_claim *claim) {
    int error = claim->job.error == -EEXIST ? -EREMOTE : claim->job.error;
    claim->state = CLAIM_LOST;
    if (!error) {
        claim->is_granted = true;
        claim->epoch = claim->job.location.epoch;
        if (is_too_low(claim)) {
            error = ask_again(claim);
            if (!error)
                return;
        }
    }
    if (!error) {
        enter(claim);
        publish_claims_raise(claim->stream, claim->job.location.epoch);
    }
    claim->claimed(claim->user, error);
}

static void come_back(struct cluster_job *job) {
    struct publish_claim *claim = job->user;
    if (claim->state == CLAIM_RELEASING)
        free(claim);
    else if (job->question == CLUSTER_ASSERT)
        finish_assert(claim);
    else if (claim->state == CLAIM_ABANDONED)
        finish_abandoned(claim);
    else
        answer(claim);
}

int publish_claim_new(struct worker *worker, struct stream *stream, const struct cidr_address *host, bool displaces,
                      publish_claimed_fn *claimed, void *user, struct publish_claim **ret_claim) {
    struct publish_claim *claim = make(worker, stream);
    if (!claim)
        return -ENOMEM;
    claim->job.same_name = displaces ? (enum same_name)stream->policy.same_name : SAME_NAME_REFUSE;
    claim->job.host = *host;
    claim->claimed = claimed;
    claim->user = user;
    if (stream->cluster.claims) {
        claim->epoch = stream->cluster.epoch;
        enter(claim);
    } else if (!ask(claim, CLUSTER_CLAIM, stream->cluster.seen)) {
        free(claim);
        return -ESHUTDOWN;
    }
    *ret_claim = claim;
    return claim->state == CLAIM_ASKING;
}

void publish_claim_begin(const struct publish_claim *claim) {
    if (claim)
        claim->stream->cluster.host = claim->job.host;
}

/* What is granted goes to one of the others, where one has nothing of its own. */
static bool pass_on(struct publish_claim *claim) {
    struct publish_claim *other = claim->stream->cluster.claims;
    while (other && other->is_granted)
        other = other->next;
    if (!other)
        return false;
    other->is_granted = true;
    return true;
}

/* As the stream's last publisher here has left it. */
static void reserve(struct publish_claim *claim) {
    const struct stream *stream = claim->stream;
    const uint64_t now = worker_now(claim->worker);
    claim->job.host = stream->cluster.host;
    claim->job.keep_ms = publish_lock_is_reserved(stream, now) ? stream->kept_until - now : 0;
}

void publish_claim_end(struct publish_claim *claim) {
    if (!claim)
        return;
    if (claim->state == CLAIM_ASKING) {
        claim->state = CLAIM_ABANDONED;
        claim->stream = NULL;
        return;
    }
    if (claim->state == CLAIM_HELD)
        leave(claim);
    if (!claim->is_granted || (claim->state == CLAIM_HELD && pass_on(claim))) {
        free(claim);
        return;
    }
    struct stream *stream = claim->state == CLAIM_HELD && !claim->stream->cluster.claims ? claim->stream : NULL;
    if (stream)
        reserve(claim);
    release(claim);
    /* Its players wait for a publisher on any node from now on. */
    if (stream && stream->players)
        stream_want(stream);
}

bool publish_claims_lose(struct stream *stream, uint64_t epoch) {
    struct stream_cluster *cluster = &stream->cluster;
    if (!cluster->claims || (epoch > 0 && epoch <= cluster->epoch))
        return false;
    stream_ref(stream);
    /* The one that is live is the first to have come, so the last here: with its end the next one
     * would get the name. */
    while (cluster->claims) {
        struct publish_claim *claim = cluster->claims;
        leave(claim);
        claim->state = CLAIM_LOST;
        stream->registry->gone.superseded++;
        claim->claimed(claim->user, -EREMOTE);
    }
    stream_unref(stream);
    return true;
}

/* 0, -ENOMEM, -ESHUTDOWN */
static int begin_assert(struct worker *worker, struct stream *stream, uint64_t floor) {
    struct publish_claim *claim = make(worker, stream);
    if (!claim)
        return -ENOMEM;
    if (!ask(claim, CLUSTER_ASSERT, floor)) {
        free(claim);
        return -ESHUTDOWN;
    }
    stream->cluster.asserting = claim;
    stream_ref(stream);
    return 0;
}

int publish_claims_assert(struct worker *worker, struct stream *stream, uint64_t floor,
                          struct publish_assert_waiter *waiter) {
    struct stream_cluster *cluster = &stream->cluster;
    int error = cluster->asserting ? 0 : begin_assert(worker, stream, floor);
    if (error)
        return error;
    struct publish_claim *claim = cluster->asserting;
    waiter->claim = claim;
    waiter->prev = NULL;
    waiter->next = claim->waiters;
    if (waiter->next)
        waiter->next->prev = waiter;
    claim->waiters = waiter;
    return 0;
}

void publish_assert_cancel(struct publish_assert_waiter *waiter) {
    struct publish_claim *claim = waiter->claim;
    if (!claim)
        return;
    if (waiter->prev)
        waiter->prev->next = waiter->next;
    else
        claim->waiters = waiter->next;
    if (waiter->next)
        waiter->next->prev = waiter->prev;
    waiter->claim = NULL;
}
