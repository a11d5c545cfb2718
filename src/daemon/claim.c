#include "daemon/claim.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>

#include "daemon/address.h"
#include "daemon/address_counts.h"
#include "daemon/session.h"
#include "daemon/stream.h"

enum {
    DECIDED = 32, /* claims in one turn: each has an answer, and a line in the log */
    LOOKED = 256, /* and streams: each may cost a system call */
};

int claims_init(struct claims *claims, sluice_loop *loop) {
    *claims = (struct claims){.loop = loop};
    return address_counts_new(&claims->hosts);
}

void claims_clear(struct claims *claims) {
    address_counts_free(claims->hosts);
    claims->hosts = NULL;
}

static void list_add(struct claim_streams *list, struct stream *stream) {
    struct claim_queue *queue = &stream->claims;
    queue->list = list;
    queue->next = NULL;
    queue->prev = list->last;
    if (list->last)
        list->last->claims.next = stream;
    else
        list->first = stream;
    list->last = stream;
}

static void list_remove(struct stream *stream) {
    struct claim_queue *queue = &stream->claims;
    if (queue->prev)
        queue->prev->claims.next = queue->next;
    else
        queue->list->first = queue->next;
    if (queue->next)
        queue->next->claims.prev = queue->prev;
    else
        queue->list->last = queue->prev;
    queue->list = NULL;
}

/* The stream is looked at in a later turn. */
static void make_due(struct claims *claims, struct stream *stream) {
    if (stream->claims.list != &claims->due) {
        if (stream->claims.list)
            list_remove(stream);
        list_add(&claims->due, stream);
    }
}

/* Whether we close it, or its peer has finished or is gone, as the kernel knows it, read or not. */
static bool is_ending(const struct session *session) {
    if (!session || !session->conn)
        return false;
    if (session->closing)
        return true;
    struct pollfd socket = {.fd = sluice_conn_fd(session->conn), .events = POLLRDHUP};
    return poll(&socket, 1, 0) > 0 && socket.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

bool claim_is_held(const struct stream *stream) {
    return stream->live && !is_ending(stream->source.session);
}

/* Takes a place among those that wait: 0, -EEXIST (there is none), -ENOMEM */
static int enter(struct claims *claims, struct claim *claim, struct stream *stream,
                 const struct stream_source *source) {
    unsigned of_host = 0;
    claim->host = source->session ? cidr_host(&source->session->peer_address) : (struct cidr_address){{0}};
    for (const struct claim *other = stream->claims.first; other; other = other->next)
        of_host += memcmp(other->host.bytes, claim->host.bytes, sizeof claim->host.bytes) == 0;
    if (stream->claims.count >= CLAIMS_OF_STREAM || of_host >= CLAIMS_OF_HOST)
        return -EEXIST;
    int error = address_counts_add(claims->hosts, &claim->host, CLAIMS_OF_HOST_IN_ALL);
    return error == -EUSERS ? -EEXIST : error;
}

int claim_stream(struct claim *claim, struct stream *stream, const struct stream_source *source) {
    struct claims *claims = registry_claims(stream->registry);
    struct claim_queue *queue = &stream->claims;
    /* The first to come is the first to get it. */
    if (!stream->live && !queue->first)
        return stream_attach(stream, source);
    int error = enter(claims, claim, stream, source);
    if (error)
        return error;
    claim->stream = stream;
    claim->source = source;
    claim->since = sluice_loop_now(claims->loop);
    claim->is_ending = false;
    claim->next = NULL;
    claim->prev = queue->last;
    if (queue->last)
        queue->last->next = claim;
    else
        queue->first = claim;
    queue->last = claim;
    queue->count++;
    /* It may take over; but not at once: the one that has the stream may be what is read now. */
    claims_left(stream);
    return 1;
}

void claim_withdraw(struct claim *claim) {
    struct stream *stream = claim->stream;
    if (!stream)
        return;
    struct claim_queue *queue = &stream->claims;
    if (claim->prev)
        claim->prev->next = claim->next;
    else
        queue->first = claim->next;
    if (claim->next)
        claim->next->prev = claim->prev;
    else
        queue->last = claim->prev;
    claim->stream = NULL;
    address_counts_remove(registry_claims(stream->registry)->hosts, &claim->host);
    if (--queue->count == 0)
        list_remove(stream);
}

/* The kernel is asked last, and about each claimant once at most. */
static bool is_leaving(struct claim *claim) {
    claim->is_ending |= is_ending(claim->source->session);
    return claim->is_ending;
}

/*
 * Whether the publisher that has the stream is to go. It is not for one that is going itself: that has been late, and
 * there is another after it. Nor for a pull, or it and a publisher would displace each other for ever. One that we
 * close goes already, and is waited for.
 */
static bool displaces(struct claim *claim, uint64_t now) {
    const struct stream *stream = claim->stream;
    const struct stream_source *holder = &stream->source, *source = claim->source;
    bool wants = false;
    if (!holder->session || holder->session->closing || !source->session || source->session->type->pulls ||
        claim->is_ending)
        return false;
    switch ((enum same_name)stream->policy.same_name) {
    case SAME_NAME_REFUSE:
        break;
    case SAME_NAME_TAKE_OVER:
        wants = true;
        break;
    case SAME_NAME_RESUME:
        /* It has lost its connection without a word, and this is the next one. */
        wants = now - claim->since >= CLAIM_MS && stream->received_at <= claim->since &&
                address_is_same_host(holder->peer, source->peer);
        break;
    }
    return wants && !bans_hold(registry_bans(stream->registry), stream->name, source->peer, now) && !is_leaving(claim);
}

/* Whether the stream's publisher stays; asked once for all that wait. */
enum holder { HOLDER_UNKNOWN, HOLDER_STAYS, HOLDER_LEAVES };

/* What is to become of it now: 0: it gets the stream, if that can be; an error; or 1: it goes on waiting. */
static int judge(struct claim *claim, uint64_t now, enum holder *holder) {
    const struct stream *stream = claim->stream;
    const struct session *session = claim->source->session;
    uint64_t waited = now - claim->since;
    /* It would be a publisher for no time at all, and keep others from the name. */
    if (session && session->closing)
        return -ECONNRESET;
    if (!stream->live || displaces(claim, now))
        return 0;
    if (waited < CLAIM_MS || waited >= CLAIM_ENDING_MS)
        return waited < CLAIM_MS ? 1 : -EEXIST;
    if (*holder == HOLDER_UNKNOWN)
        *holder = claim_is_held(stream) ? HOLDER_STAYS : HOLDER_LEAVES;
    return *holder == HOLDER_STAYS ? -EEXIST : 1;
}

static int take(struct stream *stream, const struct stream_source *source) {
    struct session *holder = stream->live ? stream->source.session : NULL;
    if (holder) {
        registry_count_displaced(stream->registry);
        holder->type->kick(holder, -ESTALE);
    }
    return stream_attach(stream, source);
}

/* The first one that has not to wait any longer, and what it is told; NULL where all have. */
static struct claim *find_decidable(const struct stream *stream, uint64_t now, int *ret_verdict) {
    enum holder holder = HOLDER_UNKNOWN;
    for (struct claim *claim = stream->claims.first; claim; claim = claim->next) {
        int verdict = judge(claim, now, &holder);
        if (verdict > 0)
            continue;
        *ret_verdict = verdict;
        return claim;
    }
    return NULL;
}

/* Decides what can be decided of a stream, and no more than @most. How many. */
static uint32_t decide(struct stream *stream, uint32_t most) {
    struct claims *claims = registry_claims(stream->registry);
    struct claim *claim;
    uint32_t decided = 0;
    int verdict = 0;
    /* A claimant may do anything, withdraw other claims and let go of the stream among it. */
    stream->references++;
    while (decided < most && (claim = find_decidable(stream, sluice_loop_now(claims->loop), &verdict))) {
        claim_withdraw(claim);
        claim->decided(claim, verdict ? verdict : take(stream, claim->source));
        decided++;
    }
    if (decided == most && stream->claims.first)
        make_due(claims, stream);
    stream_unref(stream);
    return decided;
}

static void called(void *user);

static void post(struct claims *claims) {
    if (!claims->due.first || claims->posted)
        return;
    claims->posted = true;
    sluice_loop_post_call(claims->loop, &claims->call, called, claims);
}

/* A part of what is due; the rest in the next turn. */
static void decide_due(struct claims *claims) {
    uint32_t decided = 0;
    for (uint32_t looks = 0; claims->due.first && looks < LOOKED && decided < DECIDED; looks++) {
        struct stream *stream = claims->due.first;
        list_remove(stream);
        list_add(&claims->waiting, stream);
        decided += decide(stream, DECIDED - decided);
    }
    post(claims);
}

static void called(void *user) {
    struct claims *claims = user;
    claims->posted = false;
    decide_due(claims);
}

void claims_decide(struct claims *claims) {
    while (claims->waiting.first)
        make_due(claims, claims->waiting.first);
    decide_due(claims);
}

void claims_left(struct stream *stream) {
    struct claims *claims = registry_claims(stream->registry);
    if (!stream->claims.first)
        return;
    make_due(claims, stream);
    post(claims);
}

void claim_keep(struct stream *stream, int error, uint64_t now) {
    const struct stream_policy *policy = &stream->policy;
    bool sent_away = error == -ECANCELED || error == -ESTALE || error == -ESHUTDOWN;
    if (policy->same_name != SAME_NAME_RESUME || policy->resume_ms == 0 || sent_away)
        return;
    if (stream->kept_until == 0)
        stream->references++;
    stream->kept_until = now + policy->resume_ms;
}

bool claim_is_kept(const struct stream *stream, uint64_t now) {
    return now < stream->kept_until;
}

void claim_let_go(struct stream *stream) {
    if (stream->kept_until == 0)
        return;
    stream->kept_until = 0;
    stream_unref(stream);
}
