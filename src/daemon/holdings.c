#include "daemon/holdings.h"

#include <errno.h>

#include "daemon/denials.h"
#include "daemon/server.h"
#include "daemon/shed.h"
#include "daemon/worker.h"

enum {
    QUOTA_SHARE = 8,         /* one part in so many of the blocks is for sessions that do not publish */
    QUOTA_LEAST = 64 * 4096, /* but at least so many bytes: some requests at once, in a pool that is tiny */
    UNIT = 4096,             /* by which holdings are sorted */
    SHORT_RESERVES = 2,      /* fewer blocks than so many times the reserve are short */
    MOST_STEPS = 8,          /* of reclaiming in one turn */
    QUIET_MS = 10,           /* between two looks that find nothing to take */
};

void holdings_init(struct holdings *holdings, uint64_t bytes) {
    uint64_t quota = bytes / QUOTA_SHARE;
    *holdings = (struct holdings){.bytes = bytes, .quota = quota > QUOTA_LEAST ? quota : QUOTA_LEAST};
}

static uint8_t size_of(size_t bytes) {
    size_t size = bytes / UNIT;
    return (uint8_t)(size < HOLDINGS_SIZES ? size : HOLDINGS_SIZES - 1);
}

static void list_remove(struct holdings *holdings, struct session *session) {
    struct holding *holding = &session->holding;
    uint8_t size = holding->size;
    if (holding->prev)
        holding->prev->holding.next = holding->next;
    else
        holdings->first[size] = holding->next;
    if (holding->next)
        holding->next->holding.prev = holding->prev;
    else
        holdings->last[size] = holding->prev;
    if (!holdings->first[size])
        holdings->sizes &= ~(UINT64_C(1) << size);
    holding->next = holding->prev = NULL;
}

static void list_add(struct holdings *holdings, struct session *session, uint8_t size) {
    struct holding *holding = &session->holding;
    holding->size = size;
    holding->prev = holdings->last[size];
    if (holding->prev)
        holding->prev->holding.next = session;
    else
        holdings->first[size] = session;
    holdings->last[size] = session;
    holdings->sizes |= UINT64_C(1) << size;
}

/* One whose size stays keeps its place: of several that are equal, the one that has held it for longest is first. */
static void charge(struct holdings *holdings, struct session *session, size_t bytes) {
    struct holding *holding = &session->holding;
    bool was_in = holding->charged > 0;
    holdings->charged += bytes - holding->charged;
    holding->charged = bytes;
    if (was_in && bytes > 0 && holding->size == size_of(bytes))
        return;
    if (was_in)
        list_remove(holdings, session);
    if (bytes > 0)
        list_add(holdings, session, size_of(bytes));
}

static void charge_extra(struct holdings *holdings, struct session *session, size_t bytes) {
    holdings->extra += bytes - session->holding.extra;
    session->holding.extra = bytes;
}

static bool is_publisher(const struct session *session) {
    return session->type->publishes && session->type->publishes(session);
}

static size_t held_besides(const struct session *session) {
    return session->type->held ? session->type->held(session) : 0;
}

static size_t chain_footprint(const struct session *session) {
    return sluice_chain_footprint(sluice_conn_chain(session->conn));
}

void session_evict(struct session *session) {
    struct worker *worker = session->worker;
    /* Counted and logged before it goes; a publisher's end has a line of its own. */
    server_count_refusal(worker->server, REFUSED_MEMORY);
    if (!is_publisher(session))
        denials_log_reason(&worker->denials, worker_now(worker), session->type->protocol, session->peer,
                           &session->peer_address, 503, refusal_reason(REFUSED_MEMORY));
    if (session->type->evict)
        session->type->evict(session);
    else
        session->type->kick(session, -ENOBUFS);
    sluice_chain_skip(sluice_conn_chain(session->conn), SIZE_MAX);
    charge(&worker->holdings, session, 0);
    charge_extra(&worker->holdings, session, 0);
}

/*
 * All of a list hold the same but those of the last one, for what is larger than its size. That is short: together
 * they hold no more than the quota.
 */
static struct session *largest_charged(const struct holdings *holdings) {
    if (holdings->sizes == 0)
        return NULL;
    int size = HOLDINGS_SIZES - 1 - __builtin_clzll(holdings->sizes);
    struct session *largest = holdings->first[size];
    if (size < HOLDINGS_SIZES - 1)
        return largest;
    for (struct session *session = largest->holding.next; session; session = session->holding.next)
        if (session->holding.charged > largest->holding.charged)
            largest = session;
    return largest;
}

static void charge_now(struct session *session) {
    struct holdings *holdings = &session->worker->holdings;
    bool is_gone = session->closing || !session->conn;
    size_t extra = is_gone ? 0 : held_besides(session);
    bool is_free = is_gone || is_publisher(session);
    charge_extra(holdings, session, extra);
    charge(holdings, session, is_free ? 0 : chain_footprint(session) + extra);
}

/*
 * What one holds may be less than it was charged with: it became a publisher since, by a hook's answer, or has gone on
 * where nothing came. Nobody is evicted for what it held once.
 */
void session_account(struct session *session) {
    struct holdings *holdings = &session->worker->holdings;
    struct session *largest;
    charge_now(session);
    while (holdings->charged > holdings->quota && (largest = largest_charged(holdings))) {
        size_t before = largest->holding.charged;
        charge_now(largest);
        if (largest->holding.charged >= before)
            session_evict(largest);
    }
}

void session_uncharge(struct session *session) {
    charge(&session->worker->holdings, session, 0);
    charge_extra(&session->worker->holdings, session, 0);
}

/* All that unfinished messages hold, and who holds the most: at least a block. */
static uint64_t add_up(const struct worker *worker, struct session **ret_largest) {
    uint64_t sum = 0;
    size_t most = 0;
    *ret_largest = NULL;
    for (struct session *session = worker->sessions; session; session = session->next) {
        size_t held = session->closing ? 0 : chain_footprint(session) + held_besides(session);
        sum += held;
        if (held > most) {
            most = held;
            *ret_largest = session;
        }
    }
    return sum;
}

/* One step: whether something was given up. @is_empty: there is hardly a block left to receive into. */
static bool reclaim_some(struct worker *worker, bool is_empty) {
    sluice_loop_stats stats;
    sluice_loop_get_stats(worker->loop, &stats);
    uint64_t half = worker->holdings.bytes / 2;
    struct session *largest;
    if (stats.footprint + worker->holdings.extra > half && add_up(worker, &largest) > half) {
        session_evict(largest);
        return true;
    }
    if (!is_empty)
        return false;
    if (shed(worker->registry, SHED_FOR_BLOCKS))
        return true;
    add_up(worker, &largest);
    if (largest)
        session_evict(largest);
    return largest;
}

/*
 * At a turn's end: what came has been handled, so what connections hold waits for more. Caches give way to publishers
 * when those keep a frame (stream.c); here it is about those who would take the last blocks from receiving.
 */
static void reclaim(void *user) {
    struct worker *worker = user;
    struct holdings *holdings = &worker->holdings;
    sluice_pool_stats pool;
    if (worker_now(worker) - holdings->looked_at < QUIET_MS)
        return;
    sluice_pool_get_stats(worker->pool, &pool);
    for (int step = 0; step < MOST_STEPS; step++) {
        uint32_t available = sluice_pool_available(worker->pool);
        if (available >= SHORT_RESERVES * pool.reserve)
            return;
        if (!reclaim_some(worker, available < pool.reserve / 2)) {
            holdings->looked_at = worker_now(worker);
            return;
        }
    }
}

void holdings_watch(struct worker *worker) {
    sluice_pool_stats pool;
    sluice_pool_get_stats(worker->pool, &pool);
    sluice_loop_on_shortage(worker->loop, SHORT_RESERVES * pool.reserve, reclaim, worker);
}
