/*
 * A relay in its steady state allocates nothing and copies nothing: FLV from one connection, each
 * tag's payload kept and sent to another in place, released when the kernel has taken it.
 */
#include <sluice/conn.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/flv.h>
#include <sluice/loop.h>
#include <sluice/slice.h>

#include "support/allocations.h"
#include "support/sockets.h"

enum {
    GUARD = 60,
    KINDS = 7,        /* tags that the stream repeats */
    WARM_UP = 500,    /* tags */
    MEASURED = 10000, /* tags */
    QUEUE = 64,       /* tags kept and not yet sent */
};

static const uint32_t sizes[KINDS] = {1, 700, 4096, 30, 9000, 4081, 200};

/* The FLV stream that the writer sends: the tags of one round, and their payloads as the reader is
 * to get them. */
typedef struct stream {
    uint8_t header[SLUICE_FLV_HEADER_SIZE];
    uint8_t *tags, *payloads;
    size_t tags_size, payloads_size;
    int fd;
    unsigned rounds;
} stream;

static void stream_make(stream *s) {
    size_t total = 0;
    for (int i = 0; i < KINDS; i++)
        total += sizes[i];
    s->payloads_size = total;
    s->tags_size = total + KINDS * (SLUICE_FLV_TAG_HEADER_SIZE + SLUICE_FLV_TRAILER_SIZE);
    s->payloads = malloc(s->payloads_size);
    s->tags = malloc(s->tags_size);
    assert_non_null(s->payloads);
    assert_non_null(s->tags);
    pattern_fill(1, 0, s->payloads, s->payloads_size);
    uint8_t *to = s->tags;
    const uint8_t *payload = s->payloads;
    for (uint32_t i = 0; i < KINDS; i++) {
        sluice_flv_write_tag_header(to, i % 2 ? SLUICE_FLV_VIDEO : SLUICE_FLV_AUDIO, sizes[i], i);
        memcpy(to + SLUICE_FLV_TAG_HEADER_SIZE, payload, sizes[i]);
        sluice_flv_write_trailer(to + SLUICE_FLV_TAG_HEADER_SIZE + sizes[i], sizes[i]);
        to += SLUICE_FLV_TAG_HEADER_SIZE + sizes[i] + SLUICE_FLV_TRAILER_SIZE;
        payload += sizes[i];
    }
    sluice_flv_write_header(s->header, SLUICE_FLV_HAS_VIDEO | SLUICE_FLV_HAS_AUDIO);
    s->rounds = (WARM_UP + MEASURED) / KINDS + 2;
}

static bool send_all(int fd, const uint8_t *bytes, size_t n) {
    while (n > 0) {
        ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        n -= (size_t)sent;
    }
    return true;
}

static void *write_stream(void *user) {
    stream *s = user;
    bool well = send_all(s->fd, s->header, sizeof s->header);
    for (unsigned i = 0; i < s->rounds && well; i++)
        well = send_all(s->fd, s->tags, s->tags_size);
    shutdown(s->fd, SHUT_WR);
    return NULL;
}

typedef struct reading {
    const stream *expected;
    int fd;
    uint64_t total;
    bool differs;
} reading;

static void *read_payloads(void *user) {
    reading *r = user;
    const stream *e = r->expected;
    uint8_t bytes[16384];
    ssize_t got;
    while ((got = recv(r->fd, bytes, sizeof bytes, 0)) > 0)
        for (ssize_t i = 0; i < got; i++, r->total++)
            r->differs |= bytes[i] != e->payloads[r->total % e->payloads_size];
    r->differs |= got < 0;
    return NULL;
}

typedef struct relay {
    sluice_conn *in, *out;
    sluice_flv *flv;
    sluice_slice queue[QUEUE]; /* a ring: kept and not yet wholly sent */
    size_t first, count;
    size_t sent; /* bytes of the first */
    uint64_t tags;
    unsigned long before, after; /* allocations when the measured tags begin and end */
    int error;
    bool paused, in_ended, out_ended, finished;
} relay;

static void relay_count(relay *r) {
    if (r->tags == WARM_UP)
        r->before = allocations;
    if (r->tags == WARM_UP + MEASURED)
        r->after = allocations;
}

static void relay_read(relay *r) {
    sluice_chain *chain = sluice_conn_chain(r->in);
    sluice_flv_tag *tag;
    int result = 1;
    while (r->count < QUEUE && (result = sluice_flv_next(r->flv, chain, &tag)) > 0) {
        int error = sluice_slice_take(&tag->payload, &r->queue[(r->first + r->count) % QUEUE]);
        if (error)
            r->error = error;
        else
            r->count++;
        r->tags++;
        relay_count(r);
    }
    if (result < 0)
        r->error = result;
    sluice_conn_set_need(r->in, sluice_flv_need(r->flv));
    if (r->count > 0)
        sluice_conn_want_send(r->out);
    bool full = r->count == QUEUE;
    if (full && !r->paused)
        sluice_conn_pause(r->in);
    if (!full && r->paused)
        sluice_conn_resume(r->in);
    r->paused = full;
}

static void in_data(sluice_conn *conn, void *user) {
    (void)conn;
    relay_read(user);
}

/* All has come, and all has been sent: whichever is seen last. */
static void relay_finish(relay *r) {
    if (r->in_ended && r->count == 0 && !r->finished)
        r->finished = sluice_conn_finish(r->out) == 0;
}

static void in_end(sluice_conn *conn, int error, void *user) {
    relay *r = user;
    (void)conn;
    r->in_ended = true;
    r->error = error ? error : r->error;
    relay_finish(r);
}

static size_t out_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    relay *r = user;
    size_t count = 0;
    (void)conn;
    for (size_t i = 0; i < r->count && count < max; i++) {
        size_t pieces = sluice_slice_iov(&r->queue[(r->first + i) % QUEUE], i == 0 ? r->sent : 0, iov + count,
                                         max - count);
        count += pieces < max - count ? pieces : max - count;
    }
    return count;
}

static void out_sent(sluice_conn *conn, size_t bytes, void *user) {
    relay *r = user;
    r->sent += bytes;
    while (r->count > 0 && r->sent >= sluice_slice_length(&r->queue[r->first])) {
        r->sent -= sluice_slice_length(&r->queue[r->first]);
        sluice_slice_release(&r->queue[r->first]);
        r->first = (r->first + 1) % QUEUE;
        r->count--;
    }
    (void)conn;
    relay_read(r);
    relay_finish(r);
}

static void out_end(sluice_conn *conn, int error, void *user) {
    relay *r = user;
    (void)conn;
    r->out_ended = true;
    r->error = error ? error : r->error;
}

static const sluice_conn_events in_events = {.size = sizeof in_events, .on_data = in_data, .on_end = in_end};
static const sluice_conn_events out_events = {
    .size = sizeof out_events, .on_gather = out_gather, .on_sent = out_sent, .on_end = out_end};

static void relay_stream(void) {
    loop_rig rig;
    stream s = {0};
    reading reader = {.expected = &s};
    relay r = {0};
    pthread_t writing, reading_thread;
    int in[2], out[2];
    loop_rig_open(&rig, NULL, NULL, GUARD);
    stream_make(&s);
    sockets_tcp_pair(in);
    sockets_tcp_pair(out);
    s.fd = in[1];
    reader.fd = out[1];
    assert_int_equal(sluice_flv_new(0, &r.flv), 0);
    assert_int_equal(sluice_conn_new(rig.loop, in[0], &in_events, &r, &r.in), 0);
    assert_int_equal(sluice_conn_new(rig.loop, out[0], &out_events, &r, &r.out), 0);
    assert_int_equal(pthread_create(&writing, NULL, write_stream, &s), 0);
    assert_int_equal(pthread_create(&reading_thread, NULL, read_payloads, &reader), 0);
    while (!r.finished && !r.error && !r.out_ended)
        turn(rig.loop);
    assert_int_equal(pthread_join(writing, NULL), 0);
    assert_int_equal(pthread_join(reading_thread, NULL), 0);
    assert_int_equal(r.error, 0);
    assert_int_equal(r.tags, s.rounds * KINDS);
    assert_false(reader.differs);
    assert_int_equal(reader.total, s.rounds * s.payloads_size);
    assert_int_equal(r.after, r.before);
    sluice_flv_free(r.flv);
    close(in[1]);
    close(out[1]);
    loop_rig_close(&rig);
    free(s.tags);
    free(s.payloads);
}

static void a_relay_in_its_steady_state_allocates_nothing(void **state) {
    (void)state;
#ifdef COUNTS_ALLOCATIONS
    /* The count counts. */
    unsigned long before = allocations;
    void *volatile memory = malloc(1);
    assert_int_equal(allocations, before + 1);
    free(memory);
    before = allocations;
    sluice_pool *pool;
    assert_int_equal(sluice_pool_new(NULL, &pool), 0);
    assert_true(allocations > before);
    sluice_pool_free(pool);
    relay_stream();
#else
    print_message("skipped: the sanitizers have an allocator of their own\n");
    skip();
#endif
}

#ifndef COUNTS_ALLOCATIONS
/* What can be seen without the count: that everything arrives, that nothing is copied, that all
 * blocks come back. */
static void a_relay_copies_nothing(void **state) {
    (void)state;
    relay_stream();
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_relay_in_its_steady_state_allocates_nothing),
#ifndef COUNTS_ALLOCATIONS
        cmocka_unit_test(a_relay_copies_nothing),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
