#include <sluice/stream.h>

#include <errno.h>
#include <stdlib.h>

#include "abi/sized.h"
#include "loop/loop.h"
#include "memory/chain.h"
#include "memory/clock.h"
#include "reader/reader.h"

enum {
    DEFAULT_READ_AHEAD = 256 << 10,
    LEAST_DIRECT = 32 << 10, /* bytes: fewer are cheaper to copy than to receive past the blocks */
};

struct sluice_stream {
    conn_watcher watcher; /* first: the connection names it */
    sluice_loop *loop;
    sluice_conn *conn; /* NULL when it has gone */
    sluice_chain rest; /* what it left */
    int error;         /* why it was closed */
    size_t read_ahead;
    size_t wanted; /* by a call that waits; else 0 */
    bool paused;   /* enough has been received */
    struct {
        bool pending; /* the kernel may be writing to memory of the user's */
        size_t done;  /* bytes that it has written, when it is not */
    } into;
    uint32_t timeout_ms;
    sluice_reader *reader;
    sluice_writer *writer;
};

sluice_chain *sluice_stream_chain(sluice_stream *stream) {
    return stream->conn ? sluice_conn_chain(stream->conn) : &stream->rest;
}

static void stream_data(sluice_conn *conn, void *user) {
    sluice_stream *stream = user;
    size_t enough = stream->wanted > stream->read_ahead ? stream->wanted : stream->read_ahead;
    if (chain_length(sluice_conn_chain(conn)) < enough)
        return;
    sluice_conn_pause(conn);
    stream->paused = true;
}

static size_t stream_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    sluice_stream *stream = user;
    (void)conn;
    return sluice_writer_gather(stream->writer, iov, max);
}

static void stream_sent(sluice_conn *conn, size_t bytes, void *user) {
    sluice_stream *stream = user;
    (void)conn;
    sluice_writer_sent(stream->writer, bytes);
}

static const sluice_conn_events stream_events = {
    .size = sizeof stream_events, .on_data = stream_data, .on_gather = stream_gather, .on_sent = stream_sent};

/* The connection goes. What it has received is still to be read. */
static void conn_gone(conn_watcher *watcher) {
    sluice_stream *stream = (sluice_stream *)watcher;
    sluice_chain *chain = sluice_conn_chain(stream->conn);
    stream->rest = *chain;
    chain_init(chain, chain->pool);
    reader_move(stream->reader, &stream->rest);
    stream->conn = NULL;
}

/* A call that had to wait would do so inside a turn of the loop; which may be gone, when the
 * connection is. */
static bool is_inside(const sluice_stream *stream) {
    return stream->conn && stream->loop->turning;
}

/* Why nothing more comes; -EAGAIN when more may. */
static int state(const sluice_stream *stream) {
    return stream->conn && !stream->error ? conn_read_state(stream->conn) : stream->error ? stream->error : -ECANCELED;
}

/*
 * One turn, which waits no longer than up to the deadline; 0, or why to wait no more. The turn that
 * begins behind the deadline is the last one: what is there by then is seen.
 */
static int wait_once(sluice_stream *stream, uint64_t deadline, bool *last) {
    int timeout_ms = -1;
    if (loop_obey_stop(stream->loop))
        return -EINTR;
    if (*last)
        return -ETIMEDOUT;
    if (deadline != UINT64_MAX) {
        uint64_t now = clock_ns();
        uint64_t left_ms = now < deadline ? (deadline - now + 999999) / 1000000 : 0;
        timeout_ms = left_ms < INT32_MAX ? (int)left_ms : INT32_MAX;
        *last = now >= deadline;
    }
    return sluice_loop_turn(stream->loop, timeout_ms);
}

/* When what is to happen cannot be had otherwise: for any length, or until the loop itself
 * fails. */
static void wait_anyway(sluice_stream *stream, const bool *pending) {
    while (stream->conn && (!pending || *pending) && sluice_loop_turn(stream->loop, -1) == 0)
        ;
}

static int wait_for_bytes(sluice_stream *stream, size_t need, uint64_t deadline) {
    bool last = false;
    while (chain_length(sluice_stream_chain(stream)) < need) {
        int error = state(stream);
        if (error != -EAGAIN)
            return error;
        if (is_inside(stream))
            return -EBUSY;
        if (stream->paused) {
            stream->paused = false;
            sluice_conn_resume(stream->conn);
        }
        error = wait_once(stream, deadline, &last);
        if (error)
            return error;
    }
    return 0;
}

static int stream_fill(void *user, size_t need, uint64_t deadline) {
    sluice_stream *stream = user;
    stream->wanted = need;
    int error = wait_for_bytes(stream, need, deadline);
    stream->wanted = 0;
    return error;
}

static void stream_received(sluice_conn *conn, int error, size_t done, void *user) {
    sluice_stream *stream = user;
    (void)conn, (void)error;
    stream->into.pending = false;
    stream->into.done = done;
}

static int stream_read_into(void *user, void *memory, size_t n, uint64_t deadline, size_t *ret_done) {
    sluice_stream *stream = user;
    bool last = false;
    int error = state(stream);
    if (error != -EAGAIN)
        return error;
    if (n < LEAST_DIRECT)
        return stream_fill(stream, 1, deadline);
    if (is_inside(stream))
        return -EBUSY;
    stream->into.pending = true;
    stream->into.done = 0;
    error = sluice_conn_receive_into(stream->conn, memory, n, stream_received, stream);
    if (error != 0) {
        stream->into.pending = false;
        return error;
    }
    while (stream->into.pending && !error)
        error = wait_once(stream, deadline, &last);
    if (stream->into.pending) {
        sluice_conn_receive_cancel(stream->conn);
        wait_anyway(stream, &stream->into.pending);
    }
    *ret_done = stream->into.done;
    /* All came while it was being given up, some of it into the chain: the stop is left for the
     * next call. */
    if (!stream->into.pending && stream->into.done + chain_length(sluice_stream_chain(stream)) >= n) {
        if (error == -EINTR)
            sluice_loop_stop(stream->loop);
        return 0;
    }
    return error ? error : state(stream);
}

int sluice_stream_new(sluice_loop *loop, int fd, const sluice_stream_options *options, sluice_stream **ret_stream) {
    static const sluice_reader_source source = {
        .size = sizeof source, .fill = stream_fill, .read_into = stream_read_into};
    sluice_stream_options o;
    int error = SIZED_READ(&o, options);
    if (error)
        return error;
    sluice_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return -ENOMEM;
    stream->watcher.gone = conn_gone;
    stream->loop = loop;
    stream->read_ahead = o.read_ahead ? o.read_ahead : DEFAULT_READ_AHEAD;
    chain_init(&stream->rest, loop->pool);
    error = sluice_reader_new(&stream->rest, &stream->reader);
    if (!error)
        error = sluice_conn_new(loop, fd, &stream_events, stream, &stream->conn);
    if (!error)
        error = sluice_writer_new(stream->conn, SIZE_MAX, &stream->writer);
    if (error) {
        if (stream->conn)
            conn_disown(stream->conn);
        sluice_reader_free(stream->reader);
        free(stream);
        return error;
    }
    sluice_reader_reset(stream->reader, sluice_conn_chain(stream->conn));
    (void)sluice_reader_set_source(stream->reader, &source, stream);
    sluice_stream_set_timeout(stream, o.timeout_ms);
    conn_watch(stream->conn, &stream->watcher);
    *ret_stream = stream;
    return 0;
}

void sluice_stream_free(sluice_stream *stream) {
    static const sluice_conn_events none = {.size = sizeof none};
    if (!stream)
        return;
    sluice_reader_free(stream->reader);
    if (stream->conn) {
        (void)sluice_conn_set_events(stream->conn, &none, NULL);
        conn_unwatch(stream->conn, &stream->watcher);
    }
    /* What the kernel is sending from stays until it is done, and the writer with it. */
    sluice_writer_free(stream->writer);
    sluice_conn_close(stream->conn);
    chain_clear(&stream->rest);
    free(stream);
}

sluice_reader *sluice_stream_reader(sluice_stream *stream) {
    return stream->reader;
}

sluice_conn *sluice_stream_conn(const sluice_stream *stream) {
    return stream->conn;
}

sluice_writer *sluice_stream_writer(sluice_stream *stream) {
    return stream->writer;
}

void sluice_stream_set_timeout(sluice_stream *stream, uint32_t milliseconds) {
    stream->timeout_ms = milliseconds;
    sluice_reader_set_timeout(stream->reader, milliseconds);
}

/* Why nothing more can be sent; 0 when more can be. */
static int send_state(const sluice_stream *stream) {
    if (stream->conn && conn_can_send(stream->conn))
        return 0;
    return state(stream);
}

static uint64_t sent_bytes(const sluice_stream *stream) {
    sluice_writer_stats stats = {.size = sizeof stats};
    sluice_writer_get_stats(stream->writer, &stats);
    return stats.sent_bytes;
}

/* Until the kernel has taken so many bytes, ever. At once what the socket takes at once, without a
 * turn. */
static int wait_until_sent(sluice_stream *stream, uint64_t goal) {
    uint64_t deadline = stream->timeout_ms > 0 ? clock_ns() + stream->timeout_ms * UINT64_C(1000000) : UINT64_MAX;
    bool last = false;
    if (sluice_writer_flush(stream->writer) < 0)
        return send_state(stream);
    while (sent_bytes(stream) < goal) {
        int error = send_state(stream);
        if (!error)
            error = wait_once(stream, deadline, &last);
        if (error)
            return sent_bytes(stream) < goal ? error : 0;
    }
    return 0;
}

/* Closes, and sees to it that the kernel is done with what was to be sent. */
static void close_for(sluice_stream *stream, int error) {
    stream->error = error;
    sluice_conn_close(stream->conn);
    wait_anyway(stream, NULL);
}

int sluice_stream_write(sluice_stream *stream, const void *memory, size_t n, size_t *ret_done) {
    uint64_t begin = sent_bytes(stream) + sluice_writer_queued(stream->writer);
    int error = is_inside(stream) ? -EBUSY : send_state(stream);
    if (!error)
        error = sluice_writer_borrow(stream->writer, memory, n, NULL, NULL);
    if (!error) {
        error = wait_until_sent(stream, begin + n);
        if (error)
            close_for(stream, error);
    }
    if (ret_done) {
        uint64_t end = sent_bytes(stream);
        *ret_done = end > begin ? (size_t)(end - begin) : 0;
    }
    return error;
}

int sluice_stream_flush(sluice_stream *stream) {
    size_t queued = sluice_writer_queued(stream->writer);
    int error = is_inside(stream) ? -EBUSY : send_state(stream);
    return error ? error : wait_until_sent(stream, sent_bytes(stream) + queued);
}
