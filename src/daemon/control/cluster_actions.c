#include "daemon/control/cluster_actions.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/control/worker_command.h"
#include "daemon/server/server.h"

struct message {
    sluice_call call;
    struct cluster_actions *actions;
    struct worker *worker;
    struct worker_command command;
};

/* With the end of its loop the actions may have gone. */
static void deliver(void *user) {
    struct message *message = user;
    if (!server_is_over(message->worker->server)) {
        (void)worker_command_run(message->worker, &message->command);
        atomic_fetch_sub(&message->actions->waiting, 1);
    }
    free(message);
}

static int post(struct cluster_actions *actions, struct worker *worker, const struct worker_command *command) {
    struct message *message;
    if (atomic_load(&actions->waiting) >= CLUSTER_ACTIONS_MOST)
        return -ENOBUFS;
    message = calloc(1, sizeof *message);
    if (!message)
        return -ENOMEM;
    message->actions = actions;
    message->worker = worker;
    message->command = *command;
    atomic_fetch_add(&actions->waiting, 1);
    sluice_loop_post_call(worker->loop, &message->call, deliver, message);
    return 0;
}

/* As address_format() writes a peer, without a port. */
static void write_host(const struct cidr_address *host, char text[ADDRESS_TEXT]) {
    struct sockaddr_storage address = {0};
    if (cidr_is_v4(host)) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)&address;
        v4->sin_family = AF_INET;
        memcpy(&v4->sin_addr, host->bytes + 12, sizeof v4->sin_addr);
    } else {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&address;
        v6->sin6_family = AF_INET6;
        memcpy(&v6->sin6_addr, host->bytes, sizeof v6->sin6_addr);
    }
    address_format(&address, text);
}

/* Players of a stream may be on all workers. */
static int post_all(struct cluster_actions *actions, const struct worker_command *command) {
    int error = 0;
    for (uint32_t i = 0; !error && i < server_worker_count(actions->server); i++)
        error = post(actions, server_worker(actions->server, i), command);
    return error;
}

int cluster_actions_take(struct cluster_actions *actions, const struct cluster_event *event) {
    struct worker_command command = {.kind = event->verb == CLUSTER_EVENT_KICK  ? COMMAND_KICK_STREAM
                                             : event->verb == CLUSTER_EVENT_BAN ? COMMAND_BAN
                                                                                : COMMAND_UNBAN,
                                     .ban_ms = event->ms,
                                     .is_told = true,
                                     .is_own = event->is_own,
                                     .spares_players = !event->is_whole};
    snprintf(command.stream, sizeof command.stream, "%s", event->stream);
    snprintf(command.node, sizeof command.node, "%s", event->location.node);
    if (event->verb == CLUSTER_EVENT_KICK)
        return post_all(actions, &command);
    if (event->verb == CLUSTER_EVENT_BAN)
        write_host(&event->host, command.host);
    return post(actions, server_owner(actions->server, command.stream, strlen(command.stream)), &command);
}

int cluster_actions_take_step(struct cluster_actions *actions, enum cluster_bans_step step) {
    const struct worker_command command = {
        .kind = step == CLUSTER_BANS_DOUBT ? COMMAND_DOUBT_BANS : COMMAND_END_DOUBTED_BANS, .is_told = true};
    return post_all(actions, &command);
}
