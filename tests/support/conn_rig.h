/* A connection that receives pattern bytes, for tests of connections. */
#ifndef SLUICE_TESTS_SUPPORT_CONN_RIG_H
#define SLUICE_TESTS_SUPPORT_CONN_RIG_H

#include <sluice/conn.h>

#include <unistd.h>

#include <sluice/loop.h>

#include "loop/loop.h"
#include "memory/chain.h"
#include "support/sockets.h"

enum {
    GUARD = 60,
    SEED = 11,
};

/* A connection that receives pattern bytes, and what it was told. */
typedef struct receiver {
    sluice_conn *conn;
    uint32_t seed;
    uint64_t place; /* consumed */
    bool leaves;    /* the bytes stay in the chain */
    bool differs;   /* from the pattern */
    bool late;      /* called after its close */
    bool told_end, closes_on_end;
    unsigned data, ends, closed;
    int error; /* of the last end */
} receiver;

static inline void receiver_data(sluice_conn *conn, void *user) {
    receiver *r = user;
    sluice_chain *chain = sluice_conn_chain(conn);
    r->late |= r->closed > 0;
    r->data++;
    if (!r->leaves && !pattern_consume(chain, sluice_chain_length(chain), r->seed, &r->place))
        r->differs = true;
}

static inline void receiver_end(sluice_conn *conn, int error, void *user) {
    receiver *r = user;
    r->late |= r->closed > 0;
    r->told_end = true;
    r->error = error;
    r->ends++;
    if (r->closes_on_end)
        sluice_conn_close(conn);
}

static inline void receiver_closed(sluice_conn *conn, void *user) {
    receiver *r = user;
    (void)conn;
    r->closed++;
}

static const sluice_conn_events receiver_events = {
    .size = sizeof receiver_events, .on_data = receiver_data, .on_end = receiver_end, .on_closed = receiver_closed};

/* Makes a connection of a new pair; the peer's descriptor comes back. */
static inline int receiver_open(receiver *r, const loop_rig *rig, void pair(int fds[2])) {
    int fds[2];
    pair(fds);
    assert_int_equal(sluice_conn_new(rig->loop, fds[0], &receiver_events, r, &r->conn), 0);
    return fds[1];
}

static inline sluice_loop_stats stats_of(const sluice_loop *loop) {
    sluice_loop_stats stats = {.size = sizeof stats};
    sluice_loop_get_stats(loop, &stats);
    return stats;
}

/*
 * Everything at random, on a seed: what arrives is what was written, what is told is allowed, and
 * in the end every block is back.
 */
enum { ACTORS = 24, HOARD = 40 };

typedef struct actor {
    struct stage *stage;
    sluice_conn *conn; /* NULL when closed */
    int peer;          /* -1 when closed */
    uint32_t seed;
    uint64_t written, place; /* of what the peer writes: by the peer; consumed */
    uint64_t sent, read;     /* of what the connection sends: accounted for; by the peer */
    size_t gathered;
    bool closing, finished, failed, peer_finished;
} actor;

typedef struct stage {
    loop_rig rig;
    uint64_t random;
    bool wrong;
    const char *what;
    uint8_t bytes[1 << 16]; /* sent cyclically */
    actor actors[ACTORS];
    sluice_block *hoard[HOARD]; /* blocks taken out, for pressure */
    unsigned hoarded;
    uint32_t most_hoarded;
    unsigned born;
} stage;

static inline void wrong(stage *s, bool is_wrong, const char *what) {
    if (is_wrong && !s->wrong) {
        s->wrong = true;
        s->what = what;
    }
}

#endif
