/* A connection with a writer, and what it was told. */
#ifndef SLUICE_TESTS_SUPPORT_WRITER_RIG_H
#define SLUICE_TESTS_SUPPORT_WRITER_RIG_H

#include <sluice/writer.h>

#include <unistd.h>

#include <sluice/conn.h>
#include <sluice/slice.h>

#include "support/feed.h"
#include "support/sockets.h"

enum {
    GUARD = 100,
    SEED = 21,
    UNLIMITED = 1 << 30,
};

static const sluice_pool_options small_pool = {
    .size = sizeof small_pool, .block_size = 512, .slab_blocks = 64, .max_blocks = 4096, .no_huge_pages = true};

/* A connection with a writer, and what it was told. */
typedef struct session {
    sluice_conn *conn;
    sluice_writer *writer;
    int peer;
    unsigned gathers, sends, ends, closed;
    int error;
    unsigned released, released_at_close;
    size_t released_bytes;
    void (*when_sent)(struct session *session);
} session;

static inline size_t session_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    session *s = user;
    (void)conn;
    size_t count = sluice_writer_gather(s->writer, iov, max);
    s->gathers += count > 0;
    return count;
}

static inline void session_sent(sluice_conn *conn, size_t bytes, void *user) {
    session *s = user;
    (void)conn;
    s->sends++;
    sluice_writer_sent(s->writer, bytes);
    if (s->when_sent)
        s->when_sent(s);
}

static inline void session_end(sluice_conn *conn, int error, void *user) {
    session *s = user;
    (void)conn;
    s->ends++;
    s->error = error;
}

static inline void session_closed(sluice_conn *conn, void *user) {
    session *s = user;
    (void)conn;
    s->closed++;
    s->released_at_close = s->released;
}

static const sluice_conn_events session_events = {.size = sizeof session_events,
                                                  .on_end = session_end,
                                                  .on_gather = session_gather,
                                                  .on_sent = session_sent,
                                                  .on_closed = session_closed};

static inline void session_open(session *s, const loop_rig *rig, void pair(int fds[2]), size_t limit) {
    int fds[2];
    *s = (session){0};
    pair(fds);
    s->peer = fds[1];
    assert_int_equal(sluice_conn_new(rig->loop, fds[0], &session_events, s, &s->conn), 0);
    assert_int_equal(sluice_writer_new(s->conn, limit, &s->writer), 0);
}

/* Closes it and turns until that is done; the writer goes at the end. */
static inline void session_close(session *s, const loop_rig *rig) {
    sluice_conn_close(s->conn);
    turn_until_count(rig->loop, &s->closed, 1);
    assert_int_equal(sluice_writer_queued(s->writer), 0);
    sluice_writer_free(s->writer);
    close(s->peer);
}

static inline void released(const void *data, size_t size, void *user) {
    session *s = user;
    (void)data;
    s->released++;
    s->released_bytes += size;
}

static inline sluice_writer_stats stats_of(const sluice_writer *writer) {
    sluice_writer_stats stats = {.size = sizeof stats};
    sluice_writer_get_stats(writer, &stats);
    return stats;
}

static inline uint32_t held(sluice_pool *pool) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(pool, &stats);
    return stats.held;
}

/* A slice of bytes in blocks of @piece bytes. */
static inline sluice_slice slice_of(sluice_pool *pool, const void *bytes, size_t size, size_t piece) {
    sluice_chain *chain;
    sluice_slice slice;
    assert_int_equal(sluice_chain_new(pool, &chain), 0);
    feed(chain, pool, bytes, size, piece);
    assert_int_equal(sluice_chain_take(chain, size, &slice), 0);
    sluice_chain_free(chain);
    return slice;
}

/* Queues a slice of which only the writer has references afterwards. */
static inline int put_slice(sluice_writer *writer, sluice_pool *pool, const void *bytes, size_t size, size_t piece) {
    sluice_slice slice = slice_of(pool, bytes, size, piece);
    int error = sluice_writer_slice(writer, &slice);
    sluice_slice_release(&slice);
    return error;
}

#endif
