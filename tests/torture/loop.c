/* What runs on a loop: connections, listeners, files, streams, clients. Peers are the scenario's
 * own plain sockets. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <sluice/conn.h>
#include <sluice/connect.h>
#include <sluice/file.h>
#include <sluice/file_writer.h>
#include <sluice/reader.h>
#include <sluice/resp_client.h>
#include <sluice/stream.h>
#include <sluice/writer.h>

#include "torture/scenario.h"

enum {
    PATIENT_MS = 20000, /* far beyond what is needed: its end means a failure */
    IMPATIENT_MS = 30,  /* where calls fail for good, nothing need come */
};

/* A pool with a loop. */
typedef struct rig {
    torture *t;
    sluice_pool *pool;
    sluice_loop *loop;
    uint64_t end; /* of its patience */
    bool done;    /* what was waited for has come */
    int error;    /* or this */
} rig;

static uint64_t milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int rig_open(rig *r, torture *t) {
    const sluice_loop_options options = {.size = sizeof options, .backend = t->backend};
    *r = (rig){.t = t, .end = milliseconds() + (t->patient ? PATIENT_MS : IMPATIENT_MS)};
    int error = torture_pool(&r->pool);
    return error ? error : sluice_loop_new(r->pool, &options, &r->loop);
}

static int rig_close(rig *r, int error) {
    sluice_loop_free(r->loop);
    torture_pool_done(r->pool);
    return error;
}

static void rig_done(rig *r, int error) {
    r->done = true;
    r->error = r->error ? r->error : error;
}

/* Turns until it is done; -ETIME when that does not come. */
static int rig_run(rig *r) {
    while (!r->done && !r->error) {
        int error = sluice_loop_turn(r->loop, 5);
        if (error)
            return error;
        if (milliseconds() > r->end)
            return -ETIME;
    }
    return r->error;
}

/* ---- Connections ---- */

enum { SENT = 20000 };

typedef struct pair {
    rig r;
    sluice_conn *from, *to;
    sluice_writer *writer;
    sluice_timer *timer;
    unsigned calls; /* by the timer, a post and a work */
    size_t received;
    bool detached, adopted;
    uint8_t bytes[SENT / 2];
} pair;

static void see(pair *p) {
    uint8_t bytes[512];
    sluice_chain *chain = sluice_conn_chain(p->to);
    while (sluice_chain_length(chain) > 0) {
        sluice_slice slice;
        size_t n = sluice_chain_length(chain);
        int error = sluice_chain_take(chain, n < sizeof bytes ? n : sizeof bytes, &slice);
        if (error) {
            rig_done(&p->r, error);
            return;
        }
        torture_show_slice(p->r.t, &slice);
        p->received += slice.length;
        sluice_slice_release(&slice);
    }
    if (p->received == SENT && p->calls == 3)
        rig_done(&p->r, 0);
}

static void pair_data(sluice_conn *conn, void *user) {
    pair *p = user;
    if (conn == p->to)
        see(p);
}

static void pair_end(sluice_conn *conn, int error, void *user) {
    pair *p = user;
    (void)conn;
    rig_done(&p->r, error ? error : -ECANCELED);
}

static size_t pair_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    pair *p = user;
    return conn == p->from && p->writer ? sluice_writer_gather(p->writer, iov, max) : 0;
}

static void pair_sent(sluice_conn *conn, size_t n, void *user) {
    pair *p = user;
    if (conn == p->from && p->writer)
        sluice_writer_sent(p->writer, n);
}

static void pair_closed(sluice_conn *conn, void *user) {
    pair *p = user;
    if (conn == p->from)
        p->from = NULL;
    else
        p->to = NULL;
}

static const sluice_conn_events pair_events = {.size = sizeof pair_events,
                                               .on_data = pair_data,
                                               .on_end = pair_end,
                                               .on_gather = pair_gather,
                                               .on_sent = pair_sent,
                                               .on_closed = pair_closed};

static void pair_called(void *user) {
    pair *p = user;
    if (++p->calls == 3 && p->received == SENT)
        rig_done(&p->r, 0);
}

static void pair_rings(sluice_timer *timer, void *user) {
    (void)timer;
    pair_called(user);
}

static void pair_works(void *user) {
    (void)user;
}

static int pair_open(pair *p, torture *t) {
    int fds[2];
    int error = rig_open(&p->r, t);
    if (error)
        return error;
    TORTURE_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    error = sluice_conn_new(p->r.loop, fds[0], &pair_events, p, &p->from);
    if (error) {
        close(fds[0]);
        close(fds[1]);
        return error;
    }
    error = sluice_conn_new(p->r.loop, fds[1], &pair_events, p, &p->to);
    if (error)
        close(fds[1]);
    return error;
}

/* Two halves: copied in pieces, and from where it lies. */
static int pair_send(pair *p) {
    int error = sluice_writer_new(p->from, 1 << 20, &p->writer);
    for (size_t i = 0; i < SENT / 2 && !error; i += 100)
        error = sluice_writer_copy(p->writer, p->bytes + i, 100);
    if (!error)
        error = sluice_writer_borrow(p->writer, p->bytes, SENT / 2, NULL, NULL);
    return error ? error : sluice_writer_flush(p->writer);
}

static int pair_calls(pair *p) {
    int error = sluice_timer_new(p->r.loop, pair_rings, p, &p->timer);
    if (error)
        return error;
    sluice_timer_start(p->timer, 1);
    error = sluice_loop_post(p->r.loop, pair_called, p);
    return error ? error : sluice_loop_work(p->r.loop, pair_works, pair_called, p, NULL);
}

static int pair_close(pair *p, int error) {
    sluice_writer_free(p->writer);
    p->writer = NULL;
    sluice_timer_free(p->timer);
    return rig_close(&p->r, error);
}

static int connections(torture *t) {
    pair p = {0};
    memset(p.bytes, 'c', sizeof p.bytes);
    int error = pair_open(&p, t);
    if (!error)
        error = pair_send(&p);
    if (!error)
        error = pair_calls(&p);
    return pair_close(&p, error ? error : rig_run(&p.r));
}

/* ---- From a loop to another ---- */

typedef struct handover {
    pair p;
    rig other;
    sluice_conn_handover state;
} handover;

static void handed_over(const sluice_conn_handover *state, void *user) {
    handover *h = user;
    h->state = *state;
    h->p.to = NULL;
    h->p.detached = true;
    rig_done(&h->p.r, 0);
}

static int hand_over(handover *h) {
    int error = sluice_conn_detach(h->p.to, handed_over, h);
    if (!error)
        error = rig_run(&h->p.r);
    if (!h->p.detached)
        return error ? error : -ECANCELED;
    if (!error)
        error = sluice_conn_adopt(h->other.loop, &h->state, &pair_events, &h->p, &h->p.to);
    if (error)
        sluice_conn_handover_discard(&h->state);
    return error;
}

static int moves(torture *t) {
    handover h = {.state = {.fd = -1}};
    int error = pair_open(&h.p, t), opened = rig_open(&h.other, t);
    if (!error && !opened)
        error = hand_over(&h);
    error = error ? error : opened;
    torture_show(t, &h.state.consumed, sizeof h.state.consumed);
    rig_close(&h.other, 0);
    return pair_close(&h.p, error);
}

/* ---- Listeners ---- */

static void accepted(sluice_listener *listener, int fd, void *user) {
    (void)listener;
    rig *r = user;
    close(fd);
    torture_show(r->t, "accepted", 8);
    rig_done(r, 0);
}

static int accept_one(rig *r, sluice_listener *listener) {
    struct sockaddr_storage address;
    int error = sluice_listener_address(listener, &address);
    if (error)
        return error;
    int peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    TORTURE_CHECK(peer >= 0 && connect(peer, (struct sockaddr *)&address, sizeof(struct sockaddr_in)) == 0);
    error = rig_run(r);
    close(peer);
    return error;
}

static int listeners(torture *t) {
    const struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    sluice_listener *listener = NULL;
    rig r;
    int error = rig_open(&r, t);
    if (!error)
        error = sluice_listener_new(r.loop, (const struct sockaddr *)&any, sizeof any, accepted, &r, &listener);
    if (!error)
        error = accept_one(&r, listener);
    sluice_listener_free(listener);
    return rig_close(&r, error);
}

/* ---- Streams ---- */

static int converse(torture *t, sluice_stream *stream, int peer) {
    static const char text[] = "a line\nand more of it";
    sluice_reader *reader = sluice_stream_reader(stream);
    char scratch[100];
    const char *line;
    uint8_t rest[14];
    size_t length, done;
    TORTURE_CHECK(write(peer, text, sizeof text) == sizeof text);
    int error = sluice_reader_line(reader, scratch, sizeof scratch, &line, &length);
    if (!error) {
        torture_show(t, line, length);
        error = sluice_reader_read(reader, rest, sizeof rest, &done);
    }
    if (!error) {
        torture_show(t, rest, sizeof rest);
        error = sluice_stream_write(stream, text, sizeof text, &done);
    }
    return error ? error : sluice_stream_flush(stream);
}

static int streams(torture *t) {
    const sluice_stream_options options = {.size = sizeof options,
                                           .timeout_ms = t->patient ? PATIENT_MS : IMPATIENT_MS};
    sluice_stream *stream = NULL;
    int fds[2];
    rig r;
    int error = rig_open(&r, t);
    if (error)
        return rig_close(&r, error);
    TORTURE_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    error = sluice_stream_new(r.loop, fds[0], &options, &stream);
    if (error)
        close(fds[0]);
    else
        error = converse(t, stream, fds[1]);
    sluice_stream_free(stream);
    close(fds[1]);
    return rig_close(&r, error);
}

/* ---- Files ---- */

enum { FILE_BYTES = 9000 };

static int open_file(const torture *t, const char *name, int flags) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", t->folder, name);
    int fd = open(path, flags | O_CLOEXEC, 0600);
    TORTURE_CHECK(fd >= 0);
    return fd;
}

static void remove_file(const torture *t, const char *name) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", t->folder, name);
    (void)unlink(path);
}

static void file_data(sluice_file *file, void *user) {
    rig *r = user;
    sluice_slice slice;
    size_t n = sluice_chain_length(sluice_file_chain(file));
    int error = n > 0 ? sluice_chain_take(sluice_file_chain(file), n, &slice) : 0;
    if (error || n == 0) {
        rig_done(r, error);
        return;
    }
    torture_show_slice(r->t, &slice);
    sluice_slice_release(&slice);
}

static void file_end(sluice_file *file, int error, void *user) {
    (void)file;
    rig_done(user, error);
}

static int read_file(torture *t) {
    static const sluice_file_events events = {.size = sizeof events, .on_data = file_data, .on_end = file_end};
    const sluice_file_options options = {.size = sizeof options, .read_ahead = 2048};
    uint8_t bytes[FILE_BYTES];
    sluice_file *file = NULL;
    rig r;
    int fd = open_file(t, "read", O_RDWR | O_CREAT | O_TRUNC);
    memset(bytes, 'r', sizeof bytes);
    TORTURE_CHECK(write(fd, bytes, sizeof bytes) == sizeof bytes);
    int error = rig_open(&r, t);
    if (!error)
        error = sluice_file_new(r.loop, fd, &options, &events, &r, &file);
    if (!file)
        close(fd);
    if (!error)
        error = rig_run(&r);
    if (file)
        sluice_file_close(file);
    remove_file(t, "read");
    return rig_close(&r, error);
}

static void write_failed(sluice_file_writer *writer, int error, void *user) {
    (void)writer;
    rig_done(user, error);
}

static void write_closed(sluice_file_writer *writer, int error, void *user) {
    (void)writer;
    rig_done(user, error);
}

static int work_on(int fd, void *user) {
    (void)user;
    return fd >= 0 ? 0 : -EBADF;
}

static int put_file(rig *r, sluice_file_writer *writer, int folder) {
    uint8_t bytes[FILE_BYTES];
    sluice_chain *chain = NULL;
    sluice_slice slice = {0};
    memset(bytes, 'w', sizeof bytes);
    int error = sluice_chain_new(r->pool, &chain);
    if (!error)
        error = torture_feed(r->pool, chain, bytes, sizeof bytes, 512);
    if (!error)
        error = sluice_chain_take(chain, sizeof bytes, &slice);
    if (!error)
        error = sluice_file_writer_copy(writer, "head", 4);
    if (!error)
        error = sluice_file_writer_slice(writer, &slice);
    if (!error)
        error = sluice_file_writer_seek(writer, 0);
    if (!error)
        error = sluice_file_writer_copy(writer, "HEAD", 4);
    if (!error)
        error = sluice_file_writer_sync(writer);
    if (!error)
        error = sluice_file_writer_rename(writer, folder, "part", "whole");
    if (!error)
        error = sluice_file_writer_run(writer, work_on, NULL);
    sluice_slice_release(&slice);
    sluice_chain_free(chain);
    if (!error)
        sluice_file_writer_finish(writer);
    return error;
}

static void show_file(torture *t) {
    uint8_t bytes[FILE_BYTES + 5];
    int fd = open_file(t, "whole", O_RDONLY);
    TORTURE_CHECK(read(fd, bytes, sizeof bytes) == FILE_BYTES + 4);
    torture_show(t, bytes, FILE_BYTES + 4);
    close(fd);
}

static int write_file(torture *t) {
    static const sluice_file_writer_events events = {
        .size = sizeof events, .on_error = write_failed, .on_closed = write_closed};
    sluice_file_writer *writer = NULL;
    rig r;
    int folder = open_file(t, ".", O_RDONLY | O_DIRECTORY), fd = open_file(t, "part", O_WRONLY | O_CREAT | O_TRUNC);
    int error = rig_open(&r, t);
    if (!error)
        error = sluice_file_writer_new(r.loop, fd, NULL, &events, &r, &writer);
    if (!writer)
        close(fd);
    if (!error)
        error = put_file(&r, writer, folder);
    if (!error)
        error = rig_run(&r);
    if (error && writer && !r.done)
        sluice_file_writer_close(writer);
    error = rig_close(&r, error);
    if (!error)
        show_file(t);
    close(folder);
    remove_file(t, "part");
    remove_file(t, "whole");
    return error;
}

/* ---- Clients of Redis ---- */

typedef struct asking {
    rig *r;
    char value[100];
} asking;

static void replied(sluice_resp_client *client, int error, sluice_resp_reply *reply, void *user) {
    asking *a = user;
    (void)client;
    if (error)
        rig_done(a->r, error);
    else
        torture_show_slice(a->r->t, &reply->bytes);
}

static void put_in(sluice_resp_client *client, int error, uint64_t length, sluice_resp_reply *reply, void *user) {
    asking *a = user;
    (void)client;
    (void)reply;
    if (error)
        rig_done(a->r, error);
    else
        torture_show(a->r->t, a->value, (size_t)length);
}

static int ask(asking *a, sluice_resp_client *client) {
    const sluice_resp_client_arg ping[] = {{.data = "PING", .length = 4}};
    const sluice_resp_arg key = {"key", 3}, value = {"a value that is lent", 20};
    int error = sluice_resp_client_command(client, ping, 1, replied, a);
    if (!error)
        error = sluice_resp_client_set(client, &key, &value, replied, a);
    if (!error)
        error = sluice_resp_client_get_into(client, &key, a->value, sizeof a->value, put_in, a);
    if (error)
        return error;
    error = sluice_resp_client_wait(client, a->r->t->patient ? PATIENT_MS : IMPATIENT_MS);
    return error ? error : a->r->error;
}

static int clients(torture *t) {
    static const char answers[] = "+PONG\r\n+OK\r\n$20\r\na value that is lent\r\n";
    sluice_resp_client *client = NULL;
    int fds[2];
    rig r;
    asking a = {.r = &r};
    int error = rig_open(&r, t);
    if (error)
        return rig_close(&r, error);
    TORTURE_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    TORTURE_CHECK(write(fds[1], answers, sizeof answers - 1) == sizeof answers - 1);
    error = sluice_resp_client_new(r.loop, fds[0], NULL, NULL, NULL, &client);
    if (!error)
        error = ask(&a, client);
    sluice_resp_client_free(client);
    error = rig_close(&r, error);
    close(fds[1]);
    return error;
}

/* ---- Connecting ---- */

static void connected(sluice_conn *conn, int error, void *user) {
    rig *r = user;
    TORTURE_CHECK((conn != NULL) == (error == 0));
    if (conn)
        torture_show(r->t, "connected", 9);
    rig_done(r, error);
}

static int connects(torture *t) {
    static const sluice_conn_events silent = {.size = sizeof silent};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, local = address;
    socklen_t length = sizeof address;
    rig r;
    int error = rig_open(&r, t);
    if (error)
        return rig_close(&r, error);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    TORTURE_CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, length) == 0 && listen(fd, 4) == 0);
    TORTURE_CHECK(getsockname(fd, (struct sockaddr *)&address, &length) == 0);
    const sluice_connect_options options = {
        .size = sizeof options,
        .address = (struct sockaddr *)&address,
        .length = length,
        .local = (struct sockaddr *)&local,
        .local_length = sizeof local,
        .timeout_ms = t->patient ? PATIENT_MS : IMPATIENT_MS,
    };
    error = sluice_connect(r.loop, &options, &silent, connected, &r, NULL);
    error = rig_close(&r, error ? error : rig_run(&r));
    close(fd);
    return error;
}

const scenario scenarios_of_loop[] = {
    {"connections", connections, true}, {"moves", moves, true},         {"listeners", listeners, true},
    {"streams", streams, true},         {"read_file", read_file, true}, {"write_file", write_file, true},
    {"clients", clients, true},         {"connects", connects, true},   {NULL, NULL, false},
};
