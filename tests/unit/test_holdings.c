/*
 * What a worker charges its sessions with, and which of them it evicts: at each bound, and one step beyond. Sessions,
 * the pool and the loop are the test's own.
 */
#include "daemon/holdings.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/denials.h"
#include "daemon/server.h"
#include "daemon/session.h"
#include "daemon/shed.h"
#include "daemon/worker.h"

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
    size_t chain, besides;
    bool is_publisher;
    unsigned evicted;
} fake;

static struct {
    struct worker worker;
    fake fakes[COUNT];
    uint64_t footprint, now;
    uint32_t available;
    unsigned refused, denied, looks, sheds;
    bool can_shed;
    uint32_t watched;
    sluice_loop_fn *shortage;
} rig;

/* The linker puts these in the place of the calls (--wrap). A chain, and a connection, is the fake itself. */
sluice_chain *__wrap_sluice_conn_chain(sluice_conn *conn);
size_t __wrap_sluice_chain_footprint(const sluice_chain *chain);
size_t __wrap_sluice_chain_skip(sluice_chain *chain, size_t n);
void __wrap_server_count_refusal(struct server *server, enum refusal refusal);
void __wrap_denials_log_reason(struct denials *denials, uint64_t now, const char *protocol, const char *peer,
                               const struct cidr_address *address, unsigned status, const char *reason);
uint64_t __wrap_sluice_loop_now(const sluice_loop *loop);
void __wrap_sluice_loop_get_stats(const sluice_loop *loop, sluice_loop_stats *ret_stats);
void __wrap_sluice_pool_get_stats(sluice_pool *pool, sluice_pool_stats *ret_stats);
uint32_t __wrap_sluice_pool_available(sluice_pool *pool);
void __wrap_sluice_loop_on_shortage(sluice_loop *loop, uint32_t blocks, sluice_loop_fn *call, void *user);
bool __wrap_shed(struct registry *registry, enum shed_for what);

sluice_chain *__wrap_sluice_conn_chain(sluice_conn *conn) {
    return (sluice_chain *)conn;
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

void __wrap_server_count_refusal(struct server *server, enum refusal refusal) {
    (void)server;
    assert_int_equal(refusal, REFUSED_MEMORY);
    rig.refused++;
}

void __wrap_denials_log_reason(struct denials *denials, uint64_t now, const char *protocol, const char *peer,
                               const struct cidr_address *address, unsigned status, const char *reason) {
    (void)now, (void)protocol, (void)peer, (void)address, (void)reason;
    assert_ptr_equal(denials, &rig.worker.denials);
    assert_int_equal(status, 503);
    rig.denied++;
}

uint64_t __wrap_sluice_loop_now(const sluice_loop *loop) {
    (void)loop;
    return rig.now;
}

void __wrap_sluice_loop_get_stats(const sluice_loop *loop, sluice_loop_stats *ret_stats) {
    (void)loop;
    *ret_stats = (sluice_loop_stats){.footprint = rig.footprint};
}

void __wrap_sluice_pool_get_stats(sluice_pool *pool, sluice_pool_stats *ret_stats) {
    (void)pool;
    *ret_stats = (sluice_pool_stats){.reserve = RESERVE};
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

bool __wrap_shed(struct registry *registry, enum shed_for what) {
    (void)registry;
    assert_int_equal(what, SHED_FOR_BLOCKS);
    rig.sheds++;
    return rig.can_shed;
}

static bool publishes(const struct session *session) {
    return ((const fake *)session)->is_publisher;
}

static size_t held(const struct session *session) {
    return ((const fake *)session)->besides;
}

static void evict(struct session *session) {
    fake *f = (fake *)session;
    f->evicted++;
    f->besides = 0;
    session->closing = true;
}

static void kick(struct session *session, int error) {
    assert_int_equal(error, -ENOBUFS);
    evict(session);
}

static const struct session_type type = {
    .protocol = "test", .publishes = publishes, .held = held, .evict = evict, .kick = kick};
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

/* Exactly the quota is allowed; one byte more evicts the largest, and what it held is not charged any more. */
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
    /* Two are in the last list: of that the largest, wherever it is. */
    assert_int_equal(rig.fakes[1].evicted, 1);
    assert_int_equal(rig.fakes[1].chain, 0);
    assert_int_equal(rig.denied, 1);
    assert_int_equal(rig.worker.holdings.extra, 0);
    assert_int_equal(rig.worker.holdings.charged, QUOTA + 1 - 500 * KIB);
    hold(3, 500 * KIB + 1, 0);
    assert_int_equal(rig.fakes[3].evicted, 1);
    assert_int_equal(rig.worker.holdings.charged, QUOTA - 500 * KIB);
}

/* What is charged is what was held at the last look: nobody is evicted for what it does not hold any more. */
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

/* Publishers have no quota, and neither what is closing; what publishers hold besides is known all the same. */
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
    assert_int_equal(rig.worker.holdings.sizes, 0);
    rig.fakes[2].session.closing = true;
    hold(2, 2 * QUOTA, 50);
    rig.fakes[3].session.conn = NULL;
    hold(3, 0, 50);
    assert_int_equal(rig.worker.holdings.extra, 30);
    assert_int_equal(rig.worker.holdings.charged, 0);
    assert_int_equal(evicted(), 0);
}

/* What is charged, and which list each is in, however sizes change; at random, by a seed. */
static void lists_are_what_is_held(void **state) {
    struct holdings *holdings = &rig.worker.holdings;
    uint32_t random = 1;
    (void)state;
    for (int round = 0; round < 20000; round++) {
        random = random * 1664525 + 1013904223;
        fake *f = &rig.fakes[random >> 8 & 15];
        size_t size = (random >> 12 & 3) == 0 ? 0 : (random >> 14) % (QUOTA / 16);
        hold((unsigned)(f - rig.fakes), size, 0);
        size_t sum = 0, most = 0, count = 0;
        for (size_t i = 0; i < 16; i++) {
            sum += rig.fakes[i].chain;
            most = rig.fakes[i].chain > most ? rig.fakes[i].chain : most;
        }
        assert_int_equal(holdings->charged, sum);
        for (size_t size_class = 0; size_class < HOLDINGS_SIZES; size_class++) {
            const struct session *before = NULL;
            for (struct session *at = holdings->first[size_class]; at; before = at, at = at->holding.next, count++) {
                size_t expected = at->holding.charged / UNIT;
                assert_int_equal(size_class, expected < HOLDINGS_SIZES ? expected : HOLDINGS_SIZES - 1);
                assert_ptr_equal(at->holding.prev, before);
            }
            assert_ptr_equal(holdings->last[size_class], before);
            assert_int_equal(holdings->sizes >> size_class & 1, before != NULL);
        }
        for (size_t i = 0; i < 16; i++)
            count -= rig.fakes[i].chain > 0;
        assert_int_equal(count, 0);
    }
    assert_int_equal(evicted(), 0);
}

/* Those of one size go in the order in which they came to it; a change within the size changes nothing. */
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

/* Publishers, charged or not, beyond half of the blocks: the largest goes first, and no more than so many at once. */
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
    /* What is held besides counts, though the loop does not know of it; what the loop says must be true. */
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_largest_beyond_the_quota_goes, begin),
        cmocka_unit_test_setup(a_stale_charge_evicts_nobody, begin),
        cmocka_unit_test_setup(a_tiny_pool_has_a_least_quota, begin),
        cmocka_unit_test_setup(publishers_are_free, begin),
        cmocka_unit_test_setup(lists_are_what_is_held, begin),
        cmocka_unit_test_setup(equals_go_in_turn, begin),
        cmocka_unit_test_setup(unfinished_messages_give_way, begin),
        cmocka_unit_test_setup(without_blocks_somebody_gives_way, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
