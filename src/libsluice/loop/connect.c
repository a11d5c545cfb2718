#include <sluice/connect.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi/sized.h"
#include "loop/loop.h"

/*
 * All ends take the same way: finish() cancels the io, and the result is reported when that is
 * idle.
 */
struct sluice_connector {
    sluice_io io; /* first: the backend's events name it */
    sluice_loop *loop;
    loop_list link; /* in the loop's lists of those to be started, or of all others */
    const sluice_conn_events *events;
    sluice_connected_fn *connected; /* NULL: cancelled */
    void *user;
    sluice_timer *timer; /* NULL: without a limit */
    bool finished;
    int error;
    socklen_t length;
    struct sockaddr_storage address;
};

static void finish(sluice_connector *connector, int error) {
    if (connector->finished)
        return;
    connector->finished = true;
    connector->error = error;
    sluice_timer_free(connector->timer);
    connector->timer = NULL;
    loop_list_add(&connector->loop->connectors.open, &connector->link);
    connector->loop->backend->operations->cancel(connector->loop->backend, &connector->io);
    loop_touched(connector->loop);
}

static void io_connected(sluice_io *io, int error) {
    finish((sluice_connector *)io, error);
}

static void io_idle(sluice_io *io) {
    sluice_connector *connector = (sluice_connector *)io;
    sluice_conn *conn = NULL;
    int error = connector->error;
    loop_list_remove(&connector->link);
    if (!error && connector->connected)
        error = sluice_conn_new(connector->loop, io->fd, connector->events, connector->user, &conn);
    if (!conn)
        close(io->fd);
    /* As with what is accepted: the connection begins now, and not at the time of the turn
     * before. */
    connector->loop->now = loop_clock();
    if (connector->connected)
        connector->connected(conn, error, connector->user);
    free(connector);
}

static const struct io_events connector_io_events = {.connected = io_connected, .idle = io_idle};

static void out_of_time(sluice_timer *timer, void *user) {
    (void)timer;
    finish(user, -ETIMEDOUT);
}

static bool is_address(const struct sockaddr *address, socklen_t length) {
    return address && length >= sizeof address->sa_family && length <= sizeof(struct sockaddr_storage);
}

static int open_socket(const sluice_connect_options *options) {
    const int on = 1;
    int family = options->address->sa_family;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (!options->local)
        return fd;
    /* Many connections from one address may then share a port, as they do without one. */
    if (family == AF_INET || family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    if (bind(fd, options->local, options->local_length) < 0) {
        int error = -errno;
        close(fd);
        return error;
    }
    return fd;
}

static int make(sluice_loop *loop, int fd, const sluice_connect_options *options, sluice_connector **ret_connector) {
    sluice_connector *connector = calloc(1, sizeof *connector);
    if (!connector)
        return -ENOMEM;
    connector->io = (sluice_io){.fd = fd, .events = &connector_io_events};
    connector->loop = loop;
    connector->length = options->length;
    memcpy(&connector->address, options->address, options->length);
    if (options->timeout_ms > 0) {
        int error = sluice_timer_new(loop, out_of_time, connector, &connector->timer);
        if (error) {
            free(connector);
            return error;
        }
        sluice_timer_start(connector->timer, options->timeout_ms);
    }
    *ret_connector = connector;
    return 0;
}

int sluice_connect(sluice_loop *loop, const sluice_connect_options *options, const sluice_conn_events *events,
                   sluice_connected_fn *connected, void *user, sluice_connector **ret_connector) {
    sluice_connect_options o;
    if (SIZED_READ(&o, options) < 0 || !events || SIZED_CHECK(events) < 0 || !connected)
        return -EINVAL;
    if (!is_address(o.address, o.length) || (o.local && !is_address(o.local, o.local_length)))
        return -EINVAL;
    int fd = open_socket(&o);
    if (fd < 0)
        return fd;
    sluice_connector *connector;
    int error = make(loop, fd, &o, &connector);
    if (error) {
        close(fd);
        return error;
    }
    connector->events = events;
    connector->connected = connected;
    connector->user = user;
    loop_list_add(&loop->connectors.due, &connector->link);
    loop_touched(loop);
    if (ret_connector)
        *ret_connector = connector;
    return 0;
}

void sluice_connect_cancel(sluice_connector *connector) {
    if (!connector)
        return;
    connector->connected = NULL;
    finish(connector, -ECANCELED);
}

/*
 * A Unix socket is connected at once or not at all. Where its backlog is full the kernel would have
 * a thread of its own block for each that io_uring connects.
 */
static int connect_unix(const sluice_connector *connector) {
    int fd = connector->io.fd, flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return -errno;
    if (connect(fd, (const struct sockaddr *)&connector->address, connector->length) < 0)
        return -errno;
    return fcntl(fd, F_SETFL, flags) < 0 ? -errno : 0;
}

void connectors_prepare(sluice_loop *loop) {
    const struct backend_operations *operations = loop->backend->operations;
    while (!loop_list_is_empty(&loop->connectors.due)) {
        sluice_connector *connector = LIST_ITEM(loop->connectors.due.next, sluice_connector, link);
        const struct sockaddr *address = (const struct sockaddr *)&connector->address;
        if (address->sa_family == AF_UNIX) {
            finish(connector, connect_unix(connector));
            continue;
        }
        if (!operations->connect(loop->backend, &connector->io, address, connector->length))
            return;
        loop_list_add(&loop->connectors.open, &connector->link);
    }
}

void connectors_close_all(sluice_loop *loop) {
    loop_list_join(&loop->connectors.open, &loop->connectors.due);
    loop_list *next;
    for (loop_list *link = loop->connectors.open.next; link != &loop->connectors.open; link = next) {
        /* What is finished goes to the end, and is met there once more. */
        next = link->next;
        finish(LIST_ITEM(link, sluice_connector, link), -ECANCELED);
    }
}
