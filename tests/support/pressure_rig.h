/* Receivers and a pool of which a test takes the blocks. */
#ifndef SLUICE_TESTS_SUPPORT_PRESSURE_RIG_H
#define SLUICE_TESTS_SUPPORT_PRESSURE_RIG_H

#include <sluice/conn.h>

#include <sluice/loop.h>

#include "memory/chain.h"
#include "support/clock.h"
#include "support/sockets.h"

enum {
    GUARD = 100,
    BLOCK = 4096,
    SMALL = 64,         /* blocks of a small pool */
    HOARD = 40,         /* so many of them out is pressure, and leaves some */
    LAST_RESORT = 5000, /* milliseconds without a block for anyone, and one gives way */
};

static const sluice_pool_options small_pool = {.size = sizeof small_pool,
                                               .block_size = BLOCK,
                                               .slab_blocks = 8,
                                               .max_blocks = SMALL,
                                               .reserve_blocks = 4,
                                               .no_huge_pages = true};
/* What the kernel holds back puts no pressure on the pool. */
static const sluice_loop_options every_piece = {.size = sizeof every_piece, .no_low_water = true};
static const sluice_loop_options small_stock = {.size = sizeof small_stock, .stock_bytes = 8 * BLOCK};

static inline sluice_loop_stats stats_of(const loop_rig *rig) {
    sluice_loop_stats stats = {.size = sizeof stats};
    sluice_loop_get_stats(rig->loop, &stats);
    return stats;
}

/* Takes blocks out of the pool and puts them back: pressure at will. */
typedef struct hoard {
    sluice_block *blocks[SMALL];
    unsigned count;
} hoard;

/* Every block that the kernel does not have. */
static inline void hoard_take_all(hoard *h, sluice_pool *pool) {
    while (sluice_block_get(pool, &h->blocks[h->count]) == 0)
        h->count++;
}

static inline void hoard_release(hoard *h) {
    while (h->count > 0)
        sluice_block_release(h->blocks[--h->count]);
}

typedef struct receiver {
    sluice_conn *conn;
    uint32_t seed;
    uint64_t place; /* consumed */
    bool leaves;    /* the bytes stay in the chain */
    bool differs, told_end;
    unsigned data, closed;
    int error;
} receiver;

static inline void receiver_data(sluice_conn *conn, void *user) {
    receiver *r = user;
    sluice_chain *chain = sluice_conn_chain(conn);
    r->data++;
    if (!r->leaves)
        r->differs |= !pattern_consume(chain, sluice_chain_length(chain), r->seed, &r->place);
}

static inline void receiver_end(sluice_conn *conn, int error, void *user) {
    receiver *r = user;
    (void)conn;
    r->told_end = true;
    r->error = error;
}

static inline void receiver_closed(sluice_conn *conn, void *user) {
    receiver *r = user;
    (void)conn;
    r->closed++;
}

static const sluice_conn_events receiver_events = {
    .size = sizeof receiver_events, .on_data = receiver_data, .on_end = receiver_end, .on_closed = receiver_closed};

static inline int receiver_open(receiver *r, const loop_rig *rig) {
    int fds[2];
    sockets_tcp_pair(fds);
    assert_int_equal(sluice_conn_new(rig->loop, fds[0], &receiver_events, r, &r->conn), 0);
    return fds[1];
}

/* Turns until a connection waits for a block: its peer has written, and there is none. */
static inline void turn_until_starved(const loop_rig *rig) {
    while (stats_of(rig).waiting == 0 || sluice_pool_available(rig->pool) > 0)
        turn_through(rig->loop, 1);
}

/* Nobody gives way here because the machine is slow: time stands still. */
static inline void patient_rig_open(loop_rig *rig, const sluice_pool_options *pool, const sluice_loop_options *loop) {
    loop_rig_open(rig, pool, loop, GUARD);
    clock_stop();
}

static inline void patient_rig_close(loop_rig *rig) {
    loop_rig_close(rig);
    clock_go_on();
}

/* A starving connection: every block is out. */
static inline int starve(receiver *r, loop_rig *rig, hoard *h) {
    patient_rig_open(rig, &small_pool, &small_stock);
    int peer = receiver_open(r, rig);
    /* The kernel's stock goes too: the bytes stay in the chain. */
    r->leaves = true;
    /* It holds something: one that holds nothing gives way to nobody. */
    pattern_write(peer, r->seed, 0, 1);
    turn_until_buffered(rig->loop, r->conn, 1);
    turn_through(rig->loop, 3);
    hoard_take_all(h, rig->pool);
    pattern_write(peer, r->seed, 1, 2 * SMALL * BLOCK - 1);
    turn_until_starved(rig);
    return peer;
}

#endif
