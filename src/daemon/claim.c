#include "daemon/claim.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>

#include "daemon/address.h"
#include "daemon/session.h"
#include "daemon/stream.h"

void claims_init(struct claims *claims, sluice_loop *loop) {
    *claims = (struct claims){.loop = loop};
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

static bool is_claimed(const struct claims *claims, const struct stream *stream) {
    for (const struct claim *claim = claims->first; claim; claim = claim->next)
        if (claim->stream == stream)
            return true;
    return false;
}

int claim_stream(struct claim *claim, struct stream *stream, const struct stream_source *source) {
    struct claims *claims = registry_claims(stream->registry);
    /* Who has come before goes before. */
    if (!stream->live && !is_claimed(claims, stream))
        return stream_attach(stream, source);
    struct claim **end = &claims->first;
    while (*end)
        end = &(*end)->next;
    *end = claim;
    claim->stream = stream;
    claim->source = source;
    claim->next = NULL;
    claim->since = sluice_loop_now(claims->loop);
    /* It may take over; but not at once: the one that has the stream may be what is read now. */
    claims_left(claims);
    return 1;
}

void claim_withdraw(struct claim *claim) {
    if (!claim->stream)
        return;
    struct claim **link = &registry_claims(claim->stream->registry)->first;
    while (*link != claim)
        link = &(*link)->next;
    *link = claim->next;
    claim->stream = NULL;
}

/*
 * Whether the publisher that has the stream is to go. It is not for one that is going itself: that has been late, and
 * there is another after it. Nor for a pull, or it and a publisher would displace each other for ever. One that we
 * close goes already, and is waited for.
 */
static bool displaces(const struct claim *claim, uint64_t now) {
    const struct stream *stream = claim->stream;
    const struct stream_source *holder = &stream->source, *source = claim->source;
    if (!holder->session || holder->session->closing || !source->session || source->session->type->pulls ||
        is_ending(source->session) || bans_hold(registry_bans(stream->registry), stream->name, source->peer, now))
        return false;
    switch ((enum same_name)stream->policy.same_name) {
    case SAME_NAME_REFUSE:
        break;
    case SAME_NAME_TAKE_OVER:
        return true;
    case SAME_NAME_RESUME:
        /* It has lost its connection without a word, and this is the next one. */
        return address_is_same_host(holder->peer, source->peer) && now - claim->since >= CLAIM_MS &&
               stream->received_at <= claim->since;
    }
    return false;
}

/* What is to become of it now: 0: it gets the stream, if that can be; an error; or 1: it goes on waiting. */
static int judge(const struct claim *claim, uint64_t now) {
    const struct stream *stream = claim->stream;
    const struct session *session = claim->source->session;
    /* It would be a publisher for no time at all, and keep others from the name. */
    if (session && session->closing)
        return -ECONNRESET;
    if (!stream->live || displaces(claim, now))
        return 0;
    return now - claim->since >= (claim_is_held(stream) ? CLAIM_MS : CLAIM_ENDING_MS) ? -EEXIST : 1;
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
static struct claim *find_decidable(const struct claims *claims, uint64_t now, int *ret_verdict) {
    for (struct claim *claim = claims->first; claim; claim = claim->next) {
        int verdict = judge(claim, now);
        if (verdict > 0)
            continue;
        *ret_verdict = verdict;
        return claim;
    }
    return NULL;
}

void claims_decide(struct claims *claims) {
    struct claim *claim;
    int verdict = 0;
    /* Who is told may do anything, withdraw other claims among it: so it begins anew behind each. */
    while ((claim = find_decidable(claims, sluice_loop_now(claims->loop), &verdict))) {
        struct stream *stream = claim->stream;
        claim_withdraw(claim);
        claim->decided(claim, verdict ? verdict : take(stream, claim->source));
    }
}

static void called(void *user) {
    struct claims *claims = user;
    claims->posted = false;
    claims_decide(claims);
}

void claims_left(struct claims *claims) {
    if (!claims->first || claims->posted)
        return;
    claims->posted = true;
    sluice_loop_post_call(claims->loop, &claims->call, called, claims);
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
