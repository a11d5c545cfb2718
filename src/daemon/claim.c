#include "daemon/claim.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>

#include "daemon/session.h"
#include "daemon/stream.h"

void claims_init(struct claims *claims, sluice_loop *loop) {
    *claims = (struct claims){.loop = loop};
}

/* Whether the peer has finished or is gone, as the kernel knows it, whether that has been read or not. */
static bool is_ending(const struct session *session) {
    if (!session || !session->conn)
        return false;
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

/* What is to become of it now: 0 or an error, or 1: it goes on waiting. */
static int judge(const struct claim *claim, uint64_t now) {
    struct stream *stream = claim->stream;
    if (!stream->live)
        return stream_attach(stream, claim->source);
    return now - claim->since >= (claim_is_held(stream) ? CLAIM_MS : CLAIM_ENDING_MS) ? -EEXIST : 1;
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
        claim_withdraw(claim);
        claim->decided(claim, verdict);
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
