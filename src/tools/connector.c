#include "tools/connector.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>

int connector_look_up(const struct target *target, struct addrinfo **ret_addresses) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    char port[8];
    snprintf(port, sizeof port, "%u", target->port);
    return getaddrinfo(target->host, port, &hints, ret_addresses);
}

static void on_connected(sluice_conn *conn, int error, void *user);

/* Begins with the next address that can be tried. @error: of those before. */
static int try_next(struct connector_job *job, int error) {
    static const sluice_conn_events none = {.size = sizeof none};
    uint64_t now = sluice_loop_now(job->loop);
    while (job->next && now < job->deadline) {
        sluice_connect_options options = {
            .size = sizeof options,
            .address = job->next->ai_addr,
            .length = job->next->ai_addrlen,
            .timeout_ms = (uint32_t)(job->deadline - now),
        };
        job->next = job->next->ai_next;
        error = sluice_connect(job->loop, &options, &none, on_connected, job, &job->under_way);
        if (!error)
            return 0;
    }
    return error;
}

static void on_connected(sluice_conn *conn, int error, void *user) {
    struct connector_job *job = user;
    const int on = 1;
    job->under_way = NULL;
    if (error == -ECANCELED)
        return; /* the loop goes */
    if (error)
        error = try_next(job, error);
    else
        (void)setsockopt(sluice_conn_fd(conn), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (conn || error)
        job->done(job, conn, error);
}

int connector_start(struct connector_job *job, sluice_loop *loop) {
    job->loop = loop;
    job->next = job->addresses;
    job->deadline = sluice_loop_now(loop) + CONNECTOR_MS;
    return try_next(job, -ENOENT);
}

void connector_cancel(struct connector_job *job) {
    sluice_connect_cancel(job->under_way);
    job->under_way = NULL;
}
