/*
 * What a worker charges its sessions with, and which of them it evicts: at each bound, and one step
 * beyond. Sessions, the pool and the loop are the test's own.
 */
#include "daemon/server/holdings.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/base/auth_log.h"
#include "daemon/relay/reclaim.h"
#include "daemon/server/server.h"
#include "daemon/server/session.h"
#include "daemon/server/worker.h"

enum {
    COUNT = 80,
    KIB = 1024,
    BYTES = 8 * 1024 * KIB, /* of the worker's blocks */
    QUOTA = BYTES / 8,
    LEAST = 256 * KIB, /* the quota of a tiny pool */
    UNIT = 4 * KIB,
    RESERVE = 16,
    STEPS = 8,
    QUIET_MS = 10,
};

typedef struct fake {
    struct session session;
    size_t chain, besides, reads, owed;
    bool is_publisher;
    bool was_queued; /* what it owes, in this turn: the kernel has not been offered it */
    unsigned evicted;
} fake;

static struct {
    struct worker worker;
    fake fakes[COUNT];
    uint64_t footprint, now;
    uint32_t available;
    unsigned refused, denied, looks, sheds;
    bool can_shed, has_no_memory;
    uint32_t watched;
    sluice_loop_fn *shortage;
    registry_shortage_fn *give_way;
    uint64_t queued; /* bytes, for the player that is the next to give way */
} rig;

/* The linker puts these in the place of the calls (--wrap). A chain, and a connection, is the fake
 * itself. */
sluice_chain *__wrap_sluice_conn_chain(sluice_conn *conn);
bool __wrap_sluice_conn_is_sending(const sluice_conn *conn);
size_t __wrap_sluice_chain_footprint(const sluice_chain *chain);
size_t __wrap_sluice_chain_skip(sluice_chain *chain, size_t n);
void __wrap_server_count_reject(struct server *server, enum reject_cause refusal);
void __wrap_auth_log_write(struct auth_log *auth_log, uint64_t now, const char *protocol, const char *peer,
                           const struct cidr_address *address, unsigned status, const char *reason);
uint64_t __wrap_sluice_loop_now(const sluice_loop *loop);
int __wrap_sluice_loop_get_stats(const sluice_loop *loop, sluice_loop_stats *ret_stats);
int __wrap_sluice_pool_get_stats(sluice_pool *pool, sluice_pool_stats *ret_stats);
uint32_t __wrap_sluice_pool_available(sluice_pool *pool);
void __wrap_sluice_loop_on_shortage(sluice_loop *loop, uint32_t blocks, sluice_loop_fn *call, void *user);
void __wrap_registry_on_shortage(struct registry *registry, registry_shortage_fn *call, void *user);
bool __wrap_reclaim(struct registry *registry, enum reclaim_for what);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size) {
    return rig.has_no_memory ? NULL : __real_malloc(size);
}

sluice_chain *__wrap_sluice_conn_chain(sluice_conn *conn) {
    return (sluice_chain *)conn;
}

bool __wrap_sluice_conn_is_sending(const sluice_conn *conn) {
    return !((const fake *)(const void *)conn)->was_queued;
}

size_t __wrap_sluice_chain_footprint(const sluice_chain *chain) {
    return ((const fake *)(const void *)chain)->chain;
}

size_t __wrap_sluice_chain_skip(sluice_chain *chain, size_t n) {
    fake *f = (fake *)(void *)chain;
    assert_true(n >= f->chain);
    rig.footprint -= rig.footprint < f->chain ? rig.footprint : f->chain;
    f->chain = 0;
    return 0;
}

void __wrap_server_count_reject(struct server *server, enum reject_cause refusal) {
    (void)server;
    assert_int_equal(refusal, REJECT_MEMORY);
    rig.refused++;
}

void __wrap_auth_log_write(struct auth_log *auth_log, uint64_t now, const char *protocol, const char *peer,
                           const struct cidr_address *address, unsigned status, const char *reason) {
    (void)now, (void)protocol, (void)peer, (void)address, (void)reason;
    assert_ptr_equal(auth_log, &rig.worker.auth_log);
    assert_int_equal(status, 503);
    rig.denied++;
}

uint64_t __wrap_sluice_loop_now(const sluice_loop *loop) {
    (void)loop;
    return rig.now;
}

int __wrap_sluice_loop_get_stats(const sluice_loop *loop, sluice_loop_stats *ret_stats) {
    (void)loop;
    *ret_stats = (sluice_loop_stats){.size = sizeof(sluice_loop_stats), .footprint = rig.footprint};
    return 0;
}

int __wrap_sluice_pool_get_stats(sluice_pool *pool, sluice_pool_stats *ret_stats) {
    (void)pool;
    *ret_stats = (sluice_pool_stats){.size = sizeof(sluice_pool_stats), .reserve = RESERVE};
    return 0;
}

uint32_t __wrap_sluice_pool_available(sluice_pool *pool) {
    (void)pool;
    rig.looks++;
    return rig.available;
}

void __wrap_sluice_loop_on_shortage(sluice_loop *loop, uint32_t blocks, sluice_loop_fn *call, void *user) {
    (void)loop;
    assert_ptr_equal(user, &rig.worker);
    rig.watched = blocks;
    rig.shortage = call;
}

bool __wrap_reclaim(struct registry *registry, enum reclaim_for what) {
    (void)registry;
    assert_int_equal(what, RECLAIM_FOR_BLOCKS);
    rig.sheds++;
    return rig.can_shed || rig.give_way(rig.queued, &rig.worker);
}

void __wrap_registry_on_shortage(struct registry *registry, registry_shortage_fn *call, void *user) {
    (void)registry;
    assert_ptr_equal(user, &rig.worker);
    rig.give_way = call;
}

static bool publishes(const struct session *session) {
    return ((const fake *)session)->is_publisher;
}

static size_t held(const struct session *session) {
    return ((const fake *)session)->besides;
}

static size_t reads(const struct session *session) {
    return ((const fake *)session)->reads;
}

static size_t owes(const struct session *session) {
    return ((const fake *)session)->owed;
}

/* Its end finds no memory either: nobody else goes for it. */
static void evict(struct session *session) {
    fake *f = (fake *)session;
    if (rig.give_way)
        assert_false(rig.give_way(0, &rig.worker));
    f->evicted++;
    f->besides = f->reads = 0;
    session->closing = true;
}

static void kick(struct session *session, int error) {
    assert_int_equal(error, -ENOBUFS);
    evict(session);
}

static const struct session_type type = {.protocol = "test",
                                         .publishes = publishes,
                                         .held = held,
                                         .reads = reads,
                                         .owes = owes,
                                         .evict = evict,
                                         .kick = kick};
static const struct session_type kicked_type = {.protocol = "test", .kick = kick};

static int begin(void **state) {
    (void)state;
    memset(&rig, 0, sizeof rig);
    holdings_init(&rig.worker.holdings, BYTES);
    for (size_t i = COUNT; i-- > 0;) {
        struct session *session = &rig.fakes[i].session;
        session->type = &type;
        session->worker = &rig.worker;
        session->conn = (sluice_conn *)(void *)&rig.fakes[i];
        session->next = rig.worker.sessions;
        rig.worker.sessions = session;
    }
    rig.now = 1000;
    return 0;
}

/* Sessions go, and with the last one of an address that goes. */
static int end(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT; i++)
        session_uncharge(&rig.fakes[i].session);
    return rig.worker.holdings.tree != NULL;
}

static void hold(unsigned number, size_t chain, size_t besides) {
    fake *f = &rig.fakes[number];
    f->chain = chain;
    f->besides = besides;
    session_account(&f->session);
}

static unsigned evicted(void) {
    unsigned count = 0;
    for (size_t i = 0; i < COUNT; i++)
        count += rig.fakes[i].evicted;
    assert_int_equal(count, rig.refused);
    return count;
}

/* Exactly the quota is allowed; one byte more evicts the largest, and what it held is not charged
 * any more. */
static void the_largest_beyond_the_quota_goes(void **state) {
    (void)state;
    hold(0, 300 * KIB, 0);
    hold(1, 200 * KIB, 300 * KIB);
    hold(2, QUOTA - 800 * KIB, 0);
    assert_int_equal(rig.worker.holdings.charged, QUOTA);
    assert_int_equal(rig.worker.holdings.extra, 300 * KIB);
    assert_int_equal(evicted(), 0);
    hold(3, 1, 0);
    assert_int_equal(evicted(), 1);
    assert_int_equal(rig.fakes[1].evicted, 1);
    assert_int_equal(rig.fakes[1].chain, 0);
    assert_int_equal(rig.denied, 1);
    assert_int_equal(rig.worker.holdings.extra, 0);
    assert_int_equal(rig.worker.holdings.charged, QUOTA + 1 - 500 * KIB);
    hold(3, 500 * KIB + 1, 0);
    assert_int_equal(rig.fakes[3].evicted, 1);
    assert_int_equal(rig.worker.holdings.charged, QUOTA - 500 * KIB);
}

/* What is charged is what was held at the last look: nobody is evicted for what it does not hold
 * any more. */
static void a_stale_charge_evicts_nobody(void **state) {
    (void)state;
    hold(0, QUOTA / 2, 0);
    hold(1, QUOTA / 2, 0);
    rig.fakes[0].is_publisher = true;
    hold(2, 1, 0);
    assert_int_equal(evicted(), 0);
    assert_int_equal(rig.worker.holdings.charged, QUOTA / 2 + 1);
    rig.fakes[1].chain = 10;
    hold(3, QUOTA / 2, 0);
    assert_int_equal(evicted(), 0);
    assert_int_equal(rig.worker.holdings.charged, QUOTA / 2 + 11);
    /* One that holds more than it was charged with goes all the same. */
    rig.fakes[3].chain = QUOTA;
    hold(1, QUOTA / 2, 0);
    assert_int_equal(rig.fakes[3].evicted, 1);
    assert_int_equal(evicted(), 1);
}

static void a_tiny_pool_has_a_least_quota(void **state) {
    (void)state;
    holdings_init(&rig.worker.holdings, 8);
    hold(0, LEAST, 0);
    assert_int_equal(evicted(), 0);
    hold(1, 1, 0);
    assert_int_equal(rig.fakes[0].evicted, 1);
    assert_int_equal(rig.fakes[1].evicted, 0);
    /* The one that asks for too much may be the largest. */
    rig.fakes[2].session.type = &kicked_type;
    hold(2, LEAST + 1, 0);
    assert_int_equal(rig.fakes[2].evicted, 1);
    assert_int_equal(rig.worker.holdings.charged, 1);
}

/* Publishers have no quota, and neither what is closing; what publishers hold besides is known all
 * the same. */
static void publishers_are_free(void **state) {
    (void)state;
    rig.fakes[0].is_publisher = true;
    hold(0, 2 * QUOTA, 100);
    assert_int_equal(rig.worker.holdings.charged, 0);
    assert_int_equal(rig.worker.holdings.extra, 100);
    hold(0, 2 * QUOTA, 30);
    hold(1, 5, 7);
    assert_int_equal(rig.worker.holdings.extra, 37);
    assert_int_equal(rig.worker.holdings.charged, 12);
    session_uncharge(&rig.fakes[1].session);
    assert_int_equal(rig.worker.holdings.extra, 30);
    assert_int_equal(rig.worker.holdings.charged, 0);
    assert_null(rig.worker.holdings.tree);
    assert_null(rig.worker.holdings.hosts.first);
    rig.fakes[2].session.closing = true;
    hold(2, 2 * QUOTA, 50);
    rig.fakes[3].session.conn = NULL;
    hold(3, 0, 50);
    assert_int_equal(rig.worker.holdings.extra, 30);
    assert_int_equal(rig.worker.holdings.charged, 0);
    assert_int_equal(evicted(), 0);
}

/* Answers that the kernel does not take are charged to a client that has shown no right, beside
 * what it has sent; they are no blocks. */
static void answers_are_charged_to_the_unauthorized(void **state) {
    const struct holdings *holdings = &rig.worker.holdings;
    (void)state;
    for (unsigned i = 0; i < 4; i++)
        rig.fakes[i].owed = QUOTA;
    rig.fakes[0].session.is_authorized = true;
    hold(0, 10, 0);
    rig.fakes[1].is_publisher = true;
    hold(1, 10, 0);
    rig.fakes[2].session.closing = true;
    hold(2, 10, 0);
    assert_int_equal(holdings->charged, 10);
    hold(3, 1, 2);
    assert_int_equal(rig.fakes[3].evicted, 1);
    assert_int_equal(evicted(), 1);
    assert_int_equal(holdings->charged, 10);
    rig.fakes[4].owed = 100;
    hold(4, 1, 2);
    assert_int_equal(holdings->charged, 113);
    assert_int_equal(holdings->extra, 2);
    rig.fakes[5].owed = QUOTA;
    rig.fakes[5].was_queued = true;
    hold(5, 1, 0);
    assert_int_equal(holdings->charged, 114);
    assert_int_equal(evicted(), 1);
}

/* Of what is held besides, the files' part is known alone: what publishers hold is no
 * download's. */
static void downloads_are_counted_alone(void **state) {
    const struct holdings *holdings = &rig.worker.holdings;
    (void)state;
    rig.fakes[0].is_publisher = rig.fakes[1].is_publisher = true;
    hold(0, 0, 2 * QUOTA);
    assert_int_equal(holdings->reads, 0);
    rig.fakes[1].reads = 300;
    hold(1, 0, 200);
    rig.fakes[2].reads = 50;
    hold(2, 0, 50);
    assert_int_equal(holdings->reads, 350);
    assert_int_equal(holdings->extra, 2 * QUOTA + 250);
    rig.fakes[1].reads = 100;
    hold(1, 0, 100);
    assert_int_equal(holdings->reads, 150);
    session_uncharge(&rig.fakes[1].session);
    assert_int_equal(holdings->reads, 50);
    session_evict(&rig.fakes[2].session);
    assert_int_equal(holdings->reads, 0);
    assert_int_equal(holdings->extra, 2 * QUOTA);
    rig.fakes[3].session.closing = true;
    rig.fakes[3].reads = 10;
    hold(3, 0, 10);
    assert_int_equal(holdings->reads, 0);
}

/* Which address a session comes from; 0 is that of all others. */
static void set_address(unsigned number, uint8_t network, uint8_t host) {
    uint8_t *bytes = rig.fakes[number].session.peer_address.bytes;
    bytes[0] = 0x20;
    bytes[7] = network;
    bytes[15] = host;
}

/*
 * What is charged, and to which address, however sizes change; at random, by a seed. The first to
 * go is the largest of its address.
 */
static void heaps_are_what_is_held(void **state) {
    enum { ADDRESSES = 4, SESSIONS = 16 };
    struct holdings *holdings = &rig.worker.holdings;
    uint32_t random = 1;
    (void)state;
    for (unsigned i = 0; i < SESSIONS; i++)
        set_address(i, (uint8_t)(i % ADDRESSES), (uint8_t)i);
    for (int round = 0; round < 20000; round++) {
        random = random * 1664525 + 1013904223;
        fake *f = &rig.fakes[random >> 8 & (SESSIONS - 1)];
        size_t size = (random >> 12 & 3) == 0 ? 0 : (random >> 14) % (QUOTA / SESSIONS);
        hold((unsigned)(f - rig.fakes), size, 0);
        size_t sums[ADDRESSES] = {0}, most[ADDRESSES] = {0}, sum = 0, largest = 0;
        for (size_t i = 0; i < SESSIONS; i++) {
            sum += rig.fakes[i].chain;
            sums[i % ADDRESSES] += rig.fakes[i].chain;
            if (rig.fakes[i].chain > most[i % ADDRESSES])
                most[i % ADDRESSES] = rig.fakes[i].chain;
        }
        assert_int_equal(holdings->charged, sum);
        for (size_t i = 0; i < ADDRESSES; i++)
            largest = sums[i] > largest ? sums[i] : largest;
        assert_int_equal(holdings->hosts.first == NULL, sum == 0);
        for (size_t i = 0; i < SESSIONS; i++) {
            const struct holding *holding = &rig.fakes[i].session.holding;
            assert_int_equal(holding->charged, rig.fakes[i].chain);
            if (holding->charged == 0)
                continue;
            assert_int_equal(holding->host->charged, sums[i % ADDRESSES]);
            if (holding->host->sessions.first == &holding->node)
                assert_int_equal(holding->charged / UNIT, most[i % ADDRESSES] / UNIT);
            if (&holding->host->node == holdings->hosts.first)
                assert_int_equal(sums[i % ADDRESSES] / UNIT, largest / UNIT);
        }
    }
    assert_int_equal(evicted(), 0);
    for (unsigned i = 0; i < SESSIONS; i++)
        hold(i, 0, 0);
    assert_null(holdings->tree);
}

/* Many with little each do not keep others out: not the largest goes, but one of the address that
 * holds the most. */
static void the_address_that_holds_most_gives_way(void **state) {
    enum { HOSTILE = 64, HONEST = 70 };
    (void)state;
    holdings_init(&rig.worker.holdings, 8);
    for (unsigned i = 0; i < HOSTILE; i++) {
        set_address(i, 1, (uint8_t)i);
        hold(i, UNIT, 0);
    }
    assert_int_equal(rig.worker.holdings.charged, LEAST);
    assert_int_equal(evicted(), 0);
    set_address(HONEST, 2, 1);
    hold(HONEST, 2 * UNIT, 0);
    assert_int_equal(rig.fakes[HONEST].evicted, 0);
    assert_int_equal(evicted(), 2);
    assert_int_equal(rig.fakes[0].evicted, 1);
    assert_int_equal(rig.fakes[1].evicted, 1);
    /* Of that address the largest, however late it came. */
    hold(63, 2 * UNIT, 0);
    assert_int_equal(rig.fakes[63].evicted, 1);
    /* Until another address holds more. */
    hold(HONEST, LEAST / 2, 0);
    assert_int_equal(rig.fakes[HONEST].evicted, 0);
    hold(HONEST, LEAST, 0);
    assert_int_equal(rig.fakes[HONEST].evicted, 1);
}

/* Addresses for which there is no memory are one; none goes uncharged. */
static void without_memory_addresses_share(void **state) {
    (void)state;
    set_address(0, 1, 1);
    set_address(1, 2, 1);
    set_address(2, 3, 1);
    hold(0, QUOTA / 2, 0);
    rig.has_no_memory = true;
    hold(1, QUOTA / 4, 0);
    hold(2, QUOTA / 4, 0);
    assert_int_equal(rig.worker.holdings.charged, QUOTA);
    assert_ptr_equal(rig.fakes[1].session.holding.host, &rig.worker.holdings.unknown);
    assert_ptr_equal(rig.fakes[2].session.holding.host, &rig.worker.holdings.unknown);
    hold(2, QUOTA / 4 + UNIT, 0);
    assert_int_equal(evicted(), 1);
    assert_int_equal(rig.fakes[2].evicted, 1);
    rig.has_no_memory = false;
    hold(0, 0, 0);
    hold(1, 0, 0);
    assert_int_equal(rig.worker.holdings.charged, 0);
    assert_null(rig.worker.holdings.tree);
    assert_null(rig.worker.holdings.hosts.first);
}

/* Those of one size go in the order in which they came to it; a change within the size changes
 * nothing. */
static void equals_go_in_turn(void **state) {
    (void)state;
    for (unsigned i = 0; i < 64; i++)
        hold(i, 16 * KIB, 0);
    hold(0, 16 * KIB + 1, 0);
    hold(1, 1, 0);
    hold(1, 16 * KIB, 0);
    assert_int_equal(evicted(), 1);
    assert_int_equal(rig.fakes[0].evicted, 1);
    hold(64, 16 * KIB, 0);
    assert_int_equal(evicted(), 1);
    hold(65, 1, 0);
    assert_int_equal(rig.fakes[2].evicted, 1);
    assert_int_equal(evicted(), 2);
}

static void short_of(uint32_t available) {
    rig.now += QUIET_MS;
    rig.available = available;
    rig.looks = rig.sheds = 0;
    rig.shortage(&rig.worker);
}

/* Publishers, charged or not, beyond half of the blocks: the largest goes first, and no more than
 * so many at once. */
static void unfinished_messages_give_way(void **state) {
    (void)state;
    holdings_watch(&rig.worker);
    assert_int_equal(rig.watched, 2 * RESERVE);
    for (unsigned i = 0; i < COUNT; i++) {
        rig.fakes[i].is_publisher = true;
        hold(i, 100 * KIB + i, 0);
    }
    /* Blocks are not short, or the messages are not the reason. */
    rig.footprint = BYTES / 2 + 1;
    short_of(2 * RESERVE);
    assert_int_equal(rig.looks, 1);
    rig.footprint = BYTES / 2;
    short_of(2 * RESERVE - 1);
    assert_int_equal(rig.looks, 1);
    assert_int_equal(evicted(), 0);
    rig.footprint = BYTES;
    short_of(2 * RESERVE - 1);
    assert_int_equal(evicted(), STEPS);
    for (unsigned i = COUNT - STEPS; i < COUNT; i++)
        assert_int_equal(rig.fakes[i].evicted, 1);
    /* A publisher's end is not a refused request. */
    assert_int_equal(rig.denied, 0);
    assert_int_equal(rig.sheds, 0);
    /* What is held besides counts, though the loop does not know of it; what the loop says must be
     * true. */
    hold(0, 0, BYTES / 2 + 1);
    rig.footprint = 0;
    short_of(2 * RESERVE - 1);
    assert_int_equal(rig.fakes[0].evicted, 1);
}

/* With hardly a block left, caches go first, and then the largest, however little it is. */
static void without_blocks_somebody_gives_way(void **state) {
    (void)state;
    holdings_watch(&rig.worker);
    hold(3, 2, 0);
    hold(4, 1, 0);
    short_of(RESERVE / 2);
    assert_int_equal(rig.sheds, 0);
    rig.can_shed = true;
    short_of(RESERVE / 2 - 1);
    assert_int_equal(rig.sheds, STEPS);
    assert_int_equal(evicted(), 0);
    rig.can_shed = false;
    short_of(RESERVE / 2 - 1);
    assert_int_equal(rig.fakes[3].evicted, 1);
    assert_int_equal(rig.fakes[4].evicted, 1);
    assert_int_equal(evicted(), 2);
    /* Nobody is left: it is not looked for again at once. */
    uint64_t looked = rig.now;
    rig.looks = 0;
    rig.now = looked + QUIET_MS - 1;
    rig.shortage(&rig.worker);
    assert_int_equal(rig.looks, 0);
    rig.now = looked + QUIET_MS;
    rig.shortage(&rig.worker);
    assert_int_equal(rig.looks, 1);
}

/* A player that keeps up loses nothing while a message holds more, but for the one of the session
 * that publishes. */
static void the_larger_gives_way(void **state) {
    struct holdings *holdings = &rig.worker.holdings;
    (void)state;
    holdings_watch(&rig.worker);
    hold(3, 2 * KIB, 0);
    hold(4, KIB, KIB + 1);
    rig.queued = 2 * KIB + 1;
    struct holdings_call outer = holdings_enter(holdings, &rig.fakes[5].session, true);
    assert_false(rig.give_way(rig.queued, &rig.worker));
    holdings_leave(holdings, outer);
    assert_int_equal(evicted(), 0);
    outer = holdings_enter(holdings, &rig.fakes[4].session, true);
    assert_true(rig.give_way(2 * KIB - 1, &rig.worker));
    assert_int_equal(rig.fakes[3].evicted, 1);
    assert_false(rig.give_way(0, &rig.worker));
    holdings_leave(holdings, outer);
    /* At a turn's end nothing is. */
    short_of(RESERVE / 2 - 1);
    assert_int_equal(rig.fakes[4].evicted, 0);
    rig.now += QUIET_MS;
    rig.queued = 2 * KIB;
    rig.shortage(&rig.worker);
    assert_int_equal(rig.fakes[4].evicted, 1);
}

/* Only where it is known which session is being called: not for a frame that none publishes, nor
 * for one that is published inside another session's call. */
static void nobody_gives_way_that_may_be_in_a_call(void **state) {
    struct holdings *holdings = &rig.worker.holdings;
    (void)state;
    holdings_watch(&rig.worker);
    hold(3, 2 * KIB, 0);
    hold(4, KIB, 0);
    assert_false(rig.give_way(0, &rig.worker));
    struct holdings_call nothing = holdings_enter(holdings, &rig.fakes[4].session, false);
    assert_false(rig.give_way(0, &rig.worker));
    struct holdings_call outer = holdings_enter(holdings, &rig.fakes[5].session, true);
    assert_false(rig.give_way(0, &rig.worker));
    holdings_leave(holdings, outer);
    assert_false(rig.give_way(0, &rig.worker));
    holdings_leave(holdings, nothing);
    assert_false(rig.give_way(0, &rig.worker));
    nothing = holdings_enter(holdings, &rig.fakes[4].session, true);
    outer = holdings_enter(holdings, &rig.fakes[5].session, true);
    assert_false(rig.give_way(0, &rig.worker));
    assert_int_equal(evicted(), 0);
    /* The outer one may again, and its own session stays. */
    holdings_leave(holdings, outer);
    assert_true(rig.give_way(0, &rig.worker));
    assert_false(rig.give_way(0, &rig.worker));
    holdings_leave(holdings, nothing);
    assert_int_equal(rig.fakes[3].evicted, 1);
    assert_int_equal(evicted(), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_largest_beyond_the_quota_goes, begin, end),
        cmocka_unit_test_setup_teardown(nobody_gives_way_that_may_be_in_a_call, begin, end),
        cmocka_unit_test_setup_teardown(the_larger_gives_way, begin, end),
        cmocka_unit_test_setup_teardown(a_stale_charge_evicts_nobody, begin, end),
        cmocka_unit_test_setup_teardown(a_tiny_pool_has_a_least_quota, begin, end),
        cmocka_unit_test_setup_teardown(publishers_are_free, begin, end),
        cmocka_unit_test_setup_teardown(answers_are_charged_to_the_unauthorized, begin, end),
        cmocka_unit_test_setup_teardown(downloads_are_counted_alone, begin, end),
        cmocka_unit_test_setup_teardown(heaps_are_what_is_held, begin, end),
        cmocka_unit_test_setup_teardown(without_memory_addresses_share, begin, end),
        cmocka_unit_test_setup_teardown(the_address_that_holds_most_gives_way, begin, end),
        cmocka_unit_test_setup_teardown(equals_go_in_turn, begin, end),
        cmocka_unit_test_setup_teardown(unfinished_messages_give_way, begin, end),
        cmocka_unit_test_setup_teardown(without_blocks_somebody_gives_way, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
