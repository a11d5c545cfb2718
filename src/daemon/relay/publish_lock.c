#include "daemon/relay/publish_lock.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "daemon/access/ip_limit.h"
#include "daemon/base/address.h"
#include "daemon/relay/stream.h"

enum {
    DECIDED = 32, /* claims in one turn: each has an answer, and a line in the log */
    LOOKED = 256, /* and streams: each may cost a system call */
};

int publish_locks_init(struct publish_locks *locks, sluice_loop *loop) {
    *locks = (struct publish_locks){.loop = loop};
    return ip_limit_new(&locks->hosts);
}

void publish_locks_clear(struct publish_locks *locks) {
    ip_limit_free(locks->hosts);
    locks->hosts = NULL;
}

static void list_add(struct publish_lock_list *list, struct stream *stream) {
    struct publish_lock *queue = &stream->locks;
    queue->list = list;
    queue->next = NULL;
    queue->prev = list->last;
    if (list->last)
        list->last->locks.next = stream;
    else
        list->first = stream;
    list->last = stream;
}

static void list_remove(struct stream *stream) {
    struct publish_lock *queue = &stream->locks;
    if (queue->prev)
        queue->prev->locks.next = queue->next;
    else
        queue->list->first = queue->next;
    if (queue->next)
        queue->next->locks.prev = queue->prev;
    else
        queue->list->last = queue->prev;
    queue->list = NULL;
}

/* The stream is looked at in a later turn. */
static void make_due(struct publish_locks *locks, struct stream *stream) {
    if (stream->locks.list != &locks->due) {
        if (stream->locks.list)
            list_remove(stream);
        list_add(&locks->due, stream);
    }
}

static bool is_closing(const struct stream_source *source) {
    return source->session && source->calls->is_closing(source->session);
}

static bool is_ending(const struct stream_source *source) {
    return source->session && source->calls->is_ending(source->session);
}

bool publish_lock_is_held(const struct stream *stream) {
    return stream->live && !stream->stand_in && !is_ending(&stream->source);
}

/* Takes a place among those that wait: 0, -EEXIST (there is none), -ENOMEM */
static int enter(struct publish_locks *locks, struct publish_waiter *waiter, struct stream *stream,
                 const struct stream_source *source) {
    unsigned of_host = 0;
    waiter->host = source->session ? source->calls->host(source->session) : (struct cidr_address){{0}};
    for (const struct publish_waiter *other = stream->locks.first; other; other = other->next)
        of_host += memcmp(other->host.bytes, waiter->host.bytes, sizeof waiter->host.bytes) == 0;
    if (stream->locks.count >= PUBLISH_WAITERS_OF_STREAM || of_host >= PUBLISH_WAITERS_OF_HOST)
        return -EEXIST;
    int error = ip_limit_add(locks->hosts, &waiter->host, PUBLISH_WAITERS_OF_HOST_IN_ALL);
    return error == -EUSERS ? -EEXIST : error;
}

int publish_lock_acquire(struct publish_waiter *waiter, struct stream *stream, const struct stream_source *source) {
    struct publish_locks *locks = &stream->registry->locks;
    struct publish_lock *queue = &stream->locks;
    /* The first to come is the first to get it. */
    if (!stream->live && !queue->first)
        return stream_attach(stream, source);
    int error = enter(locks, waiter, stream, source);
    if (error)
        return error;
    waiter->stream = stream;
    waiter->source = source;
    waiter->since = sluice_loop_now(locks->loop);
    waiter->is_ending = false;
    waiter->next = NULL;
    waiter->prev = queue->last;
    if (queue->last)
        queue->last->next = waiter;
    else
        queue->first = waiter;
    queue->last = waiter;
    queue->count++;
    /* It may take over; but not at once: the one that has the stream may be what is read now. */
    publish_lock_released(stream);
    return 1;
}

void publish_lock_cancel(struct publish_waiter *waiter) {
    struct stream *stream = waiter->stream;
    if (!stream)
        return;
    struct publish_lock *queue = &stream->locks;
    if (waiter->prev)
        waiter->prev->next = waiter->next;
    else
        queue->first = waiter->next;
    if (waiter->next)
        waiter->next->prev = waiter->prev;
    else
        queue->last = waiter->prev;
    waiter->stream = NULL;
    ip_limit_remove(stream->registry->locks.hosts, &waiter->host);
    if (--queue->count == 0)
        list_remove(stream);
}

/* The kernel is asked last, and about each claimant once at most. */
static bool is_leaving(struct publish_waiter *waiter) {
    waiter->is_ending |= is_ending(waiter->source);
    return waiter->is_ending;
}

/*
 * Whether the publisher that has the stream is to go. It is not for one that is going itself: that
 * has been late, and there is another after it. Nor for a pull, or it and a publisher would
 * displace each other for ever. One that we close goes already, and is waited for.
 */
static bool displaces(struct publish_waiter *waiter, uint64_t now) {
    const struct stream *stream = waiter->stream;
    const struct stream_source *holder = &stream->source, *source = waiter->source;
    bool wants = false;
    if (!holder->session || is_closing(holder) || !source->session || source->calls->is_pull(source->session) ||
        waiter->is_ending)
        return false;
    switch ((enum same_name)stream->policy.same_name) {
    case SAME_NAME_REFUSE:
        break;
    case SAME_NAME_TAKE_OVER:
        wants = true;
        break;
    case SAME_NAME_RESUME:
        /* It has lost its connection without a word, and this is the next one. */
        wants = now - waiter->since >= PUBLISH_LOCK_MS && stream->received_at <= waiter->since &&
                address_is_same_host(holder->peer, source->peer);
        break;
    }
    return wants && !bans_hold(&stream->registry->bans, stream->name, source->peer, now) && !is_leaving(waiter);
}

/* Whether the stream's publisher stays; asked once for all that wait. */
enum holder { HOLDER_UNKNOWN, HOLDER_STAYS, HOLDER_LEAVES };

/* What is to become of it now: 0: it gets the stream, if that can be; an error; or 1: it goes on
 * waiting. */
static int judge(struct publish_waiter *waiter, uint64_t now, enum holder *holder) {
    const struct stream *stream = waiter->stream;
    uint64_t waited = now - waiter->since;
    /* It would be a publisher for no time at all, and keep others from the name. */
    if (is_closing(waiter->source))
        return -ECONNRESET;
    if (!stream->live || stream->stand_in || displaces(waiter, now))
        return 0;
    if (waited < PUBLISH_LOCK_MS || waited >= PUBLISH_LOCK_ENDING_MS)
        return waited < PUBLISH_LOCK_MS ? 1 : -EEXIST;
    if (*holder == HOLDER_UNKNOWN)
        *holder = publish_lock_is_held(stream) ? HOLDER_STAYS : HOLDER_LEAVES;
    return *holder == HOLDER_STAYS ? -EEXIST : 1;
}

static int take(struct stream *stream, const struct stream_source *source) {
    const struct stream_source *holder = &stream->source;
    if (stream->live && holder->session) {
        stream->registry->gone.displaced++;
        holder->calls->kick(holder->session, -ESTALE);
    }
    return stream_attach(stream, source);
}

/* The first one that has not to wait any longer, and what it is told; NULL where all have. */
static struct publish_waiter *find_decidable(const struct stream *stream, uint64_t now, int *ret_verdict) {
    enum holder holder = HOLDER_UNKNOWN;
    for (struct publish_waiter *waiter = stream->locks.first; waiter; waiter = waiter->next) {
        int verdict = judge(waiter, now, &holder);
        if (verdict > 0)
            continue;
        *ret_verdict = verdict;
        return waiter;
    }
    return NULL;
}

/* Decides what can be decided of a stream, and no more than @most. How many. */
static uint32_t decide(struct stream *stream, uint32_t most) {
    struct publish_locks *locks = &stream->registry->locks;
    struct publish_waiter *waiter;
    uint32_t decided = 0;
    int verdict = 0;
    /* A claimant may do anything, withdraw other claims and let go of the stream among it. */
    stream->references++;
    while (decided < most && (waiter = find_decidable(stream, sluice_loop_now(locks->loop), &verdict))) {
        publish_lock_cancel(waiter);
        waiter->decided(waiter, verdict ? verdict : take(stream, waiter->source));
        decided++;
    }
    if (decided == most && stream->locks.first)
        make_due(locks, stream);
    stream_unref(stream);
    return decided;
}

static void called(void *user);

static void post(struct publish_locks *locks) {
    if (!locks->due.first || locks->posted)
        return;
    locks->posted = true;
    sluice_loop_post_call(locks->loop, &locks->call, called, locks);
}

/* A part of what is due; the rest in the next turn. */
static void decide_due(struct publish_locks *locks) {
    uint32_t decided = 0;
    for (uint32_t looks = 0; locks->due.first && looks < LOOKED && decided < DECIDED; looks++) {
        struct stream *stream = locks->due.first;
        list_remove(stream);
        list_add(&locks->waiting, stream);
        decided += decide(stream, DECIDED - decided);
    }
    post(locks);
}

static void called(void *user) {
    struct publish_locks *locks = user;
    locks->posted = false;
    decide_due(locks);
}

void publish_locks_decide(struct publish_locks *locks) {
    while (locks->waiting.first)
        make_due(locks, locks->waiting.first);
    decide_due(locks);
}

void publish_lock_released(struct stream *stream) {
    struct publish_locks *locks = &stream->registry->locks;
    if (!stream->locks.first)
        return;
    make_due(locks, stream);
    post(locks);
}

void publish_lock_reserve(struct stream *stream, int error, uint64_t now) {
    const struct stream_policy *policy = &stream->policy;
    bool sent_away = error == -ECANCELED || error == -ESTALE || error == -ESHUTDOWN || error == -EREMOTE;
    if (policy->same_name != SAME_NAME_RESUME || policy->resume_ms == 0 || sent_away)
        return;
    stream_keep(stream, now + policy->resume_ms);
}

bool publish_lock_is_reserved(const struct stream *stream, uint64_t now) {
    return now < stream->kept_until;
}

void publish_lock_unreserve(struct stream *stream) {
    if (stream->kept_until == 0)
        return;
    stream->kept_until = 0;
    stream_unref(stream);
}
