/*
 * TLS: a server's stage, whose peer is the input itself or a client's stage with the input in
 * between, which cuts, drops and changes bytes of both directions. Nothing that arrives may differ
 * from what was sent, and everything has to come back to the pool.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sluice/conn.h>
#include <sluice/loop.h>
#include <sluice/tls.h>

#include "fuzz/fuzz.h"
#include "fuzz/tls_identity.h"

enum {
    TURNS = 4,
    MOST_TURNS = 400,
    SENT = 3000, /* bytes in each direction */
    PIECE = 700,
};

/* One end of a connection. */
typedef struct end {
    fuzz_run *run;
    sluice_conn *conn;
    sluice_tls *tls;
    bool talks; /* sends bytes that the other end knows */
    size_t sent, received;
    bool closed;
} end;

static uint8_t byte_at(size_t place) {
    return (uint8_t)(place * 7 + place / 251);
}

static void send_more(end *e) {
    uint8_t bytes[PIECE];
    while (e->talks && e->sent < SENT) {
        size_t done, first = e->sent % 300;
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = byte_at(e->sent + i);
        size_t n = SENT - e->sent < sizeof bytes ? SENT - e->sent : sizeof bytes;
        first = first < n ? first : n;
        const struct iovec pieces[] = {{bytes, first}, {bytes + first, n - first}};
        if (sluice_tls_send(e->tls, pieces, 2, &done) < 0)
            return;
        FUZZ_CHECK(done == n);
        e->sent += done;
    }
    if (e->talks && e->sent == SENT)
        FUZZ_CHECK(sluice_tls_finish(e->tls) <= 0);
}

static void on_data(sluice_conn *conn, void *user) {
    end *e = user;
    sluice_slice slice;
    struct iovec piece;
    int result = sluice_tls_receive(e->tls);
    sluice_chain *chain = sluice_tls_chain(e->tls);
    size_t n = sluice_chain_length(chain);
    FUZZ_CHECK(sluice_chain_take(chain, n, &slice) == 0);
    for (size_t done = 0; done < n; done += piece.iov_len) {
        FUZZ_CHECK(sluice_slice_iov(&slice, done, &piece, 1) > 0);
        for (size_t i = 0; i < piece.iov_len; i++)
            FUZZ_CHECK(((const uint8_t *)piece.iov_base)[i] == byte_at(e->received + done + i));
    }
    sluice_slice_release(&slice);
    e->received += n;
    FUZZ_CHECK(e->received <= SENT);
    if (result < 0 && result != -ENODATA)
        sluice_conn_close(conn);
    else
        send_more(e);
}

static void on_end(sluice_conn *conn, int error, void *user) {
    end *e = user;
    /* An end that is trusted is the end of all. */
    if (error == 0 && sluice_tls_end(e->tls) == 0)
        FUZZ_CHECK(e->received == SENT);
    sluice_conn_close(conn);
}

static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    end *e = user;
    (void)conn;
    return sluice_tls_gather(e->tls, iov, max);
}

static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    end *e = user;
    (void)conn;
    sluice_tls_sent(e->tls, bytes);
}

static void on_closed(sluice_conn *conn, void *user) {
    end *e = user;
    (void)conn;
    sluice_tls_free(e->tls);
    e->closed = true;
}

static const sluice_conn_events events = {.size = sizeof events,
                                          .on_data = on_data,
                                          .on_end = on_end,
                                          .on_gather = on_gather,
                                          .on_sent = on_sent,
                                          .on_closed = on_closed};

static void open_end(end *e, fuzz_run *run, sluice_loop *loop, int fd, sluice_tls_context *context) {
    *e = (end){.run = run, .talks = true};
    FUZZ_CHECK(sluice_conn_new(loop, fd, &events, e, &e->conn) == 0);
    FUZZ_CHECK(sluice_tls_new(context, e->conn, NULL, &e->tls) == 0);
}

static void turns(sluice_loop *loop, unsigned count) {
    while (count-- > 0)
        FUZZ_CHECK(sluice_loop_turn(loop, 0) == 0);
}

/* What one side has sent goes to the other, and each byte of the input decides about a piece of it:
 * its length, and whether it is passed on as it is. False: nothing came. */
static bool pass(fuzz_run *run, int from, int to) {
    uint8_t bytes[512];
    uint8_t rule = run->done < run->size ? run->bytes[run->done++] : 0xFF;
    size_t most = rule == 0xFF ? sizeof bytes : 1 + (rule & 0x3F) * 8u;
    ssize_t n = recv(from, bytes, most, MSG_DONTWAIT);
    if (n <= 0)
        return false;
    if (rule != 0xFF && rule >= 0xC0 && run->done < run->size) {
        uint8_t change = run->bytes[run->done++];
        bytes[change % (size_t)n] ^= (uint8_t)(change | 1);
    }
    if (rule != 0xFF && (rule & 0xC0) == 0x80 && n > 1) /* a byte is lost */
        n--;
    return send(to, bytes, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
}

static void between(fuzz_run *run, sluice_loop *loop, sluice_tls_context *server, sluice_tls_context *client) {
    int fds[2][2];
    end ends[2];
    for (int i = 0; i < 2; i++)
        FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds[i]) == 0);
    open_end(&ends[0], run, loop, fds[0][0], server);
    open_end(&ends[1], run, loop, fds[1][0], client);
    unsigned quiet = 0;
    for (unsigned i = 0; i < MOST_TURNS && quiet < 3; i++) {
        turns(loop, 1);
        bool some = pass(run, fds[0][1], fds[1][1]);
        some |= pass(run, fds[1][1], fds[0][1]);
        quiet = some ? 0 : quiet + 1;
    }
    for (int i = 0; i < 2; i++)
        shutdown(fds[i][1], SHUT_RDWR);
    for (unsigned i = 0; i < MOST_TURNS && !(ends[0].closed && ends[1].closed); i++)
        turns(loop, 1);
    FUZZ_CHECK(ends[0].closed && ends[1].closed);
    /* Nothing was in between. */
    if (run->size == 0)
        FUZZ_CHECK(ends[0].received == SENT && ends[1].received == SENT);
    for (int i = 0; i < 2; i++)
        close(fds[i][1]);
}

/* The input is what the other side sends. */
static void alone(fuzz_run *run, sluice_loop *loop, sluice_tls_context *context) {
    int fds[2];
    end e;
    uint8_t nothing[4096];
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    open_end(&e, run, loop, fds[0], context);
    while (run->done < run->size && !e.closed) {
        size_t n = run->size - run->done;
        if (run->mean > 0 && n > run->mean)
            n = 1 + fuzz_random(run, run->mean * 2);
        n = n < run->size - run->done ? n : run->size - run->done;
        ssize_t sent = send(fds[1], run->bytes + run->done, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        run->done += sent > 0 ? (size_t)sent : 0;
        turns(loop, TURNS);
        while (recv(fds[1], nothing, sizeof nothing, MSG_DONTWAIT) > 0)
            ;
    }
    shutdown(fds[1], SHUT_RDWR);
    for (unsigned i = 0; i < MOST_TURNS && !e.closed; i++)
        turns(loop, 1);
    FUZZ_CHECK(e.closed && e.received == 0);
    close(fds[1]);
}

void fuzz_target(fuzz_run *run) {
    static sluice_tls_context *contexts[2][2]; /* by role and version; the same for all inputs */
    sluice_loop *loop;
    int version = run->settings[0] & 1;
    for (int i = 0; i < 2; i++)
        for (int role = 0; role < 2; role++)
            if (!contexts[role][i])
                contexts[role][i] = tls_identity_context(role, i ? SLUICE_TLS_1_3 : SLUICE_TLS_1_2);
    FUZZ_CHECK(
        sluice_loop_new(run->pool,
                        &(sluice_loop_options){.size = sizeof(sluice_loop_options), .backend = SLUICE_BACKEND_EPOLL},
                        &loop) == 0);
    if (run->settings[0] & 2)
        between(run, loop, contexts[0][version], contexts[1][version]);
    else
        alone(run, loop, contexts[run->settings[0] >> 2 & 1][version]);
    sluice_loop_free(loop);
}
