#include "daemon/control/tls_pipe.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sluice/chain.h>
#include <sluice/conn.h>
#include <sluice/slice.h>
#include <sluice/writer.h>

enum { QUEUED = 256 << 10 }; /* bytes on the way to the client, beyond which the server waits */

struct tls_pipe {
    sluice_conn *server, *client; /* NULL: gone */
    sluice_tls *tls;
    sluice_writer *writer; /* to the client */
    tls_pipe_failed_fn *failed;
    void *user;
    bool is_ending, is_freed;
};

static void discard(struct tls_pipe *pipe) {
    if (pipe->is_freed && !pipe->server && !pipe->client)
        free(pipe);
}

/* Both ends; one may be gone. */
static void end(struct tls_pipe *pipe) {
    pipe->is_ending = true;
    sluice_conn_close(pipe->server);
    sluice_conn_close(pipe->client);
}

static void fail(struct tls_pipe *pipe, const char *reason) {
    if (pipe->is_ending)
        return;
    end(pipe);
    if (!pipe->is_freed)
        pipe->failed(reason, pipe->user);
}

static void fail_tls(struct tls_pipe *pipe) {
    char reason[TLS_PIPE_REASON];
    snprintf(reason, sizeof reason, "TLS: %s", sluice_tls_reason(pipe->tls));
    fail(pipe, reason);
}

/* What the client has written, as far as there is room for it. */
static void encrypt(struct tls_pipe *pipe) {
    sluice_chain *chain = pipe->client ? sluice_conn_chain(pipe->client) : NULL;
    sluice_slice slice;
    int error = 0;
    if (pipe->is_ending || !chain || sluice_tls_get_state(pipe->tls) != SLUICE_TLS_OPEN)
        return;
    while (!error && sluice_chain_length(chain) > 0) {
        const size_t length = sluice_chain_length(chain), room = sluice_tls_room(pipe->tls);
        size_t done = 0;
        if (room == 0 || sluice_chain_take(chain, length < room ? length : room, &slice) < 0)
            return;
        error = sluice_tls_send_slice(pipe->tls, &slice, 0, &done);
        const bool is_whole = done == sluice_slice_length(&slice);
        sluice_slice_release(&slice);
        if (!is_whole && (!error || error == -EAGAIN || error == -ENOBUFS))
            error = -ENOMEM;
    }
    if (error == -ENOMEM)
        fail(pipe, "out of memory");
    else if (error)
        fail_tls(pipe);
}

/* What the server has sent. False: the pipe has failed. */
static bool decrypt(struct tls_pipe *pipe) {
    int result = sluice_tls_receive(pipe->tls);
    sluice_chain *chain = sluice_tls_chain(pipe->tls);
    sluice_slice slice;
    while (sluice_chain_length(chain) > 0) {
        int error = sluice_chain_take(chain, sluice_chain_length(chain), &slice);
        if (!error) {
            error = sluice_writer_slice(pipe->writer, &slice);
            sluice_slice_release(&slice);
        }
        if (error) {
            fail(pipe, error == -EPIPE ? "closed" : "out of memory");
            return false;
        }
    }
    if (result < 0 && result != -ENODATA) {
        fail_tls(pipe);
        return false;
    }
    if (sluice_writer_queued(pipe->writer) > QUEUED)
        sluice_conn_pause(pipe->server);
    return true;
}

static void on_server_data(sluice_conn *conn, void *user) {
    struct tls_pipe *pipe = user;
    (void)conn;
    if (!pipe->is_ending && decrypt(pipe))
        encrypt(pipe);
}

/* The client reads what has come to its end. */
static void on_server_end(sluice_conn *conn, int error, void *user) {
    struct tls_pipe *pipe = user;
    (void)conn;
    if (error)
        fail(pipe, strerror(-error));
    else if (sluice_tls_get_state(pipe->tls) == SLUICE_TLS_HANDSHAKE)
        fail(pipe, "TLS: the server has ended the connection");
    else if (sluice_tls_end(pipe->tls) == -ECONNRESET)
        fail_tls(pipe);
    else
        fail(pipe, "the server has ended the connection");
}

static size_t on_server_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    const struct tls_pipe *pipe = user;
    (void)conn;
    return sluice_tls_gather(pipe->tls, iov, max);
}

static void on_server_sent(sluice_conn *conn, size_t bytes, void *user) {
    struct tls_pipe *pipe = user;
    (void)conn;
    sluice_tls_sent(pipe->tls, bytes);
    encrypt(pipe);
}

static void on_server_closed(sluice_conn *conn, void *user) {
    struct tls_pipe *pipe = user;
    (void)conn;
    sluice_tls_free(pipe->tls);
    pipe->tls = NULL;
    pipe->server = NULL;
    end(pipe);
    discard(pipe);
}

static void on_client_data(sluice_conn *conn, void *user) {
    (void)conn;
    encrypt(user);
}

/* The client closes when it has nothing to say any more. */
static void on_client_end(sluice_conn *conn, int error, void *user) {
    (void)conn, (void)error;
    end(user);
}

static size_t on_client_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    const struct tls_pipe *pipe = user;
    (void)conn;
    return sluice_writer_gather(pipe->writer, iov, max);
}

static void on_client_sent(sluice_conn *conn, size_t bytes, void *user) {
    struct tls_pipe *pipe = user;
    (void)conn;
    sluice_writer_sent(pipe->writer, bytes);
    if (!pipe->is_ending && sluice_writer_queued(pipe->writer) <= QUEUED)
        sluice_conn_resume(pipe->server);
}

static void on_client_closed(sluice_conn *conn, void *user) {
    struct tls_pipe *pipe = user;
    (void)conn;
    sluice_writer_free(pipe->writer);
    pipe->writer = NULL;
    pipe->client = NULL;
    end(pipe);
    discard(pipe);
}

static const sluice_conn_events server_events = {
    .size = sizeof server_events,
    .on_data = on_server_data,
    .on_end = on_server_end,
    .on_gather = on_server_gather,
    .on_sent = on_server_sent,
    .on_closed = on_server_closed,
};

static const sluice_conn_events client_events = {
    .size = sizeof client_events,
    .on_data = on_client_data,
    .on_end = on_client_end,
    .on_gather = on_client_gather,
    .on_sent = on_client_sent,
    .on_closed = on_client_closed,
};

/* Descriptors are the connections' as soon as there are these. */
static int connect_ends(struct tls_pipe *pipe, sluice_loop *loop, int fd, int end) {
    int error = sluice_conn_new(loop, fd, &server_events, pipe, &pipe->server);
    if (error) {
        close(fd);
        close(end);
        return error;
    }
    error = sluice_conn_new(loop, end, &client_events, pipe, &pipe->client);
    if (error)
        close(end);
    return error;
}

int tls_pipe_new(sluice_loop *loop, int fd, sluice_tls_context *context, const char *host, tls_pipe_failed_fn *failed,
                 void *user, struct tls_pipe **ret_pipe, int *ret_fd) {
    int ends[2];
    struct tls_pipe *pipe = calloc(1, sizeof *pipe);
    int error = pipe ? 0 : -ENOMEM;
    if (!error && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        error = -errno;
    if (error) {
        close(fd);
        free(pipe);
        return error;
    }
    pipe->failed = failed;
    pipe->user = user;
    error = connect_ends(pipe, loop, fd, ends[0]);
    if (!error)
        error = sluice_writer_new(pipe->client, SIZE_MAX, &pipe->writer);
    if (!error)
        error = sluice_tls_new(context, pipe->server, host, &pipe->tls);
    if (error) {
        close(ends[1]);
        end(pipe);
        tls_pipe_free(pipe);
        return error;
    }
    *ret_pipe = pipe;
    *ret_fd = ends[1];
    return 0;
}

void tls_pipe_free(struct tls_pipe *pipe) {
    if (!pipe)
        return;
    pipe->is_freed = true;
    discard(pipe);
}
