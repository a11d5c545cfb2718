#include "daemon/server/holdings.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/relay/reclaim.h"
#include "daemon/relay/registry.h"
#include "daemon/server/server.h"
#include "daemon/server/worker.h"
#include "shared/tls_link.h"

enum {
    /* one part in so many of the blocks is for sessions that do not publish */
    QUOTA_SHARE = 8,
    /* but at least so many bytes: some requests at once, in a pool that is tiny */
    QUOTA_LEAST = 64 * 4096,
    UNIT = 4096,        /* by which sessions and addresses are sorted */
    SHORT_RESERVES = 2, /* fewer blocks than so many times the reserve are short */
    MOST_STEPS = 8,     /* of reclaiming in one turn */
    QUIET_MS = 10,      /* between two looks that find nothing to take */
};

static struct holding *holding_of(const struct heap_node *node) {
    return (struct holding *)(void *)((char *)node - offsetof(struct holding, node));
}

static struct session *session_of(const struct heap_node *node) {
    return (struct session *)(void *)((char *)holding_of(node) - offsetof(struct session, holding));
}

static struct host_holding *host_of(const struct heap_node *node) {
    return (struct host_holding *)(void *)((char *)node - offsetof(struct host_holding, node));
}

static bool goes_before(size_t charged, uint64_t since, size_t other_charged, uint64_t other_since) {
    size_t size = charged / UNIT, other_size = other_charged / UNIT;
    return size != other_size ? size > other_size : since < other_since;
}

static bool session_before(const struct heap_node *a, const struct heap_node *b) {
    const struct holding *one = holding_of(a), *other = holding_of(b);
    return goes_before(one->charged, one->since, other->charged, other->since);
}

static bool host_before(const struct heap_node *a, const struct heap_node *b) {
    const struct host_holding *one = host_of(a), *other = host_of(b);
    return goes_before(one->charged, one->since, other->charged, other->since);
}

void holdings_init(struct holdings *holdings, uint64_t bytes) {
    uint64_t quota = bytes / QUOTA_SHARE;
    *holdings = (struct holdings){.bytes = bytes,
                                  .quota = quota > QUOTA_LEAST ? quota : QUOTA_LEAST,
                                  .hosts.before = host_before,
                                  .unknown.sessions.before = session_before};
}

static int compare_addresses(const void *a, const void *b) {
    return memcmp(a, b, sizeof(struct cidr_address));
}

/* A tree, not a table of hashes: no choice of addresses makes the search long. */
static struct host_holding *find_host(struct holdings *holdings, const struct cidr_address *address) {
    const struct cidr_address counted = cidr_host(address);
    struct host_holding *const *found = tfind(&counted, &holdings->tree, compare_addresses);
    if (found)
        return *found;
    struct host_holding *host = malloc(sizeof *host);
    if (!host)
        return &holdings->unknown;
    *host = (struct host_holding){.address = counted, .sessions.before = session_before};
    if (tsearch(host, &holdings->tree, compare_addresses))
        return host;
    free(host);
    return &holdings->unknown;
}

static void drop_host(struct holdings *holdings, struct host_holding *host) {
    if (host == &holdings->unknown)
        return;
    tdelete(host, &holdings->tree, compare_addresses);
    free(host);
}

/*
 * A session with unchanged size keeps its place: of several that are equal, the one that has held
 * it longest comes first.
 */
static bool keeps_place(size_t from, size_t to) {
    return from > 0 && to > 0 && from / UNIT == to / UNIT;
}

/* One that holds nothing any more goes. */
static void charge_host(struct holdings *holdings, struct host_holding *host, size_t from, size_t to) {
    size_t before = host->charged, after = before + to - from;
    bool stays = keeps_place(before, after);
    holdings->charged += to - from;
    if (before > 0 && !stays)
        heap_remove(&holdings->hosts, &host->node);
    host->charged = after;
    if (after > 0 && !stays) {
        host->since = ++holdings->changes;
        heap_add(&holdings->hosts, &host->node);
    }
    if (after == 0)
        drop_host(holdings, host);
}

static __attribute__((noinline)) void recharge(struct holdings *holdings, struct session *session, size_t bytes) {
    struct holding *holding = &session->holding;
    size_t before = holding->charged;
    if (before == 0)
        holding->host = find_host(holdings, &session->peer_address);
    struct host_holding *host = holding->host;
    bool stays = keeps_place(before, bytes);
    if (before > 0 && !stays)
        heap_remove(&host->sessions, &holding->node);
    holding->charged = bytes;
    if (bytes > 0 && !stays) {
        holding->since = ++holdings->changes;
        heap_add(&host->sessions, &holding->node);
    }
    charge_host(holdings, host, before, bytes);
}

/* Usually unchanged: what the frames of a publisher need is not charged. */
static inline void charge(struct holdings *holdings, struct session *session, size_t bytes) {
    if (bytes != session->holding.charged)
        recharge(holdings, session, bytes);
}

static void charge_extra(struct holdings *holdings, struct session *session, size_t bytes) {
    holdings->extra += bytes - session->holding.extra;
    session->holding.extra = bytes;
}

static void charge_reads(struct holdings *holdings, struct session *session, size_t bytes) {
    holdings->reads += bytes - session->holding.reads;
    session->holding.reads = bytes;
}

static bool is_publisher(const struct session *session) {
    return session->type->publishes && session->type->publishes(session);
}

static size_t held_besides(const struct session *session) {
    return (session->type->held ? session->type->held(session) : 0) +
           (session->tls ? tls_link_footprint(session->tls) : 0);
}

/* What waits, encrypted, for the peer to read. */
static size_t queued_for(const struct session *session) {
    return session->tls ? tls_link_queued(session->tls) : 0;
}

/* What has just been queued is not yet the peer's fault: the kernel takes it at the end of the
 * turn, where it has room. */
static size_t owed_by(const struct session *session) {
    return session->type->owes && sluice_conn_is_sending(session->conn) ? session->type->owes(session) : 0;
}

static size_t read_for(const struct session *session) {
    return session->type->reads ? session->type->reads(session) : 0;
}

static size_t chain_footprint(const struct session *session) {
    return sluice_chain_footprint(sluice_conn_chain(session->conn));
}

void session_evict(struct session *session) {
    struct holdings *holdings = &session->worker->holdings;
    struct holdings_call outer = holdings_enter(holdings, session, false);
    /* Counted and logged before it goes; a publisher's end has a line of its own. */
    server_count_reject(session->worker->server, REJECT_MEMORY);
    if (!is_publisher(session))
        session_log_refusal(session, 503, reject_reason(REJECT_MEMORY));
    if (session->type->evict)
        session->type->evict(session);
    else
        session->type->kick(session, -ENOBUFS);
    if (session->tls)
        tls_link_drop(session->tls);
    else
        sluice_chain_skip(sluice_conn_chain(session->conn), SIZE_MAX);
    session_uncharge(session);
    holdings_leave(holdings, outer);
}

/* The largest session of the address that holds the most. */
static struct session *first_to_go(const struct holdings *holdings) {
    const struct heap_node *host = holdings->hosts.first;
    return host ? session_of(host_of(host)->sessions.first) : NULL;
}

static void charge_now(struct session *session) {
    struct holdings *holdings = &session->worker->holdings;
    bool is_gone = session->closing || !session->conn;
    size_t extra = is_gone ? 0 : held_besides(session), queued = is_gone ? 0 : queued_for(session);
    bool is_free = is_gone || is_publisher(session);
    charge_extra(holdings, session, extra + queued);
    charge_reads(holdings, session, is_gone ? 0 : read_for(session));
    /* A player's network may be slow, which --stall bounds. Others must read what they ask for. */
    size_t unread = is_gone || session->is_authorized ? 0 : queued + owed_by(session);
    charge(holdings, session, is_free ? 0 : chain_footprint(session) + extra + unread);
}

/*
 * A session may hold less than it was charged with: it has become a publisher since, by a hook's
 * answer, or has processed data without receiving. No session is closed for what it held before.
 */
void session_account(struct session *session) {
    struct holdings *holdings = &session->worker->holdings;
    struct session *first;
    charge_now(session);
    while (holdings->charged > holdings->quota && (first = first_to_go(holdings))) {
        size_t before = first->holding.charged;
        charge_now(first);
        if (first->holding.charged >= before)
            session_evict(first);
    }
}

void session_uncharge(struct session *session) {
    charge(&session->worker->holdings, session, 0);
    charge_extra(&session->worker->holdings, session, 0);
    charge_reads(&session->worker->holdings, session, 0);
}

/* The session that holds the most, and how much. */
struct largest {
    struct session *session; /* NULL: nothing is held */
    size_t bytes;
};

/* The memory of all incomplete messages, and the session that holds most: at least a block. */
static uint64_t add_up(const struct worker *worker, struct largest *ret_largest) {
    uint64_t sum = 0;
    *ret_largest = (struct largest){0};
    for (struct session *session = worker->sessions; session; session = session->next) {
        bool is_safe = session->closing || session == worker->holdings.call.session;
        size_t held = is_safe ? 0 : chain_footprint(session) + held_besides(session) + queued_for(session);
        sum += held;
        if (held > ret_largest->bytes)
            *ret_largest = (struct largest){.session = session, .bytes = held};
    }
    return sum;
}

/*
 * Before a player that keeps up loses frames: the largest holder is evicted where it holds more,
 * and where none but the publisher is being called.
 */
static bool give_way(uint64_t bytes, void *user) {
    struct worker *worker = user;
    struct largest largest;
    if (!worker->holdings.call.may_evict)
        return false;
    add_up(worker, &largest);
    if (largest.bytes <= bytes)
        return false;
    session_evict(largest.session);
    return true;
}

/* One step: whether something was given up. @is_empty: there is hardly a block left to receive
 * into. */
static bool reclaim_some(struct worker *worker, bool is_empty) {
    sluice_loop_stats stats = {.size = sizeof stats};
    sluice_loop_get_stats(worker->loop, &stats);
    uint64_t half = worker->holdings.bytes / 2;
    struct largest largest;
    if (stats.footprint + worker->holdings.extra > half && add_up(worker, &largest) > half) {
        session_evict(largest.session);
        return true;
    }
    return is_empty && reclaim(worker->registry, RECLAIM_FOR_BLOCKS);
}

static void reclaim_steps(struct worker *worker) {
    sluice_pool_stats pool = {.size = sizeof pool};
    sluice_pool_get_stats(worker->pool, &pool);
    for (int step = 0; step < MOST_STEPS; step++) {
        uint32_t available = sluice_pool_available(worker->pool);
        if (available >= SHORT_RESERVES * pool.reserve)
            return;
        if (!reclaim_some(worker, available < pool.reserve / 2)) {
            worker->holdings.looked_at = worker_now(worker);
            return;
        }
    }
}

/*
 * At a turn's end: received data has been processed, so the data that connections hold is
 * incomplete. Caches give way to publishers when those keep a frame (stream.c); this is about
 * sessions that would take the last blocks from receiving. None of them is being called.
 */
static void on_shortage(void *user) {
    struct worker *worker = user;
    struct holdings *holdings = &worker->holdings;
    if (worker_now(worker) - holdings->looked_at < QUIET_MS)
        return;
    struct holdings_call outer = holdings_enter(holdings, NULL, true);
    reclaim_steps(worker);
    holdings_leave(holdings, outer);
}

void holdings_watch(struct worker *worker) {
    sluice_pool_stats pool = {.size = sizeof pool};
    sluice_pool_get_stats(worker->pool, &pool);
    registry_on_shortage(worker->registry, give_way, worker);
    sluice_loop_on_shortage(worker->loop, SHORT_RESERVES * pool.reserve, on_shortage, worker);
}
