#include "daemon/control/cluster_link.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sluice/tls.h>

#include "daemon/cluster/cluster_node.h"
#include "daemon/cluster/cluster_script.h"
#include "daemon/control/connector.h"

enum { SPARE_COMMANDS = 16 }; /* besides the node's own */

enum link_state {
    LINK_CONNECTING,   /* the connector has the job; set by cluster_link_new() */
    LINK_GREETING,     /* HELLO with the login, if there is one, is sent; set by begin() */
    LINK_BARE,         /* HELLO without it, as Sentinels may have none; set by on_hello() */
    LINK_ASKING_NAME,  /* a Sentinel is asked for its masters; set by ask_sentinel() */
    LINK_ASKING_PLACE, /* and for the place of one; set by ask_place() */
    LINK_ASKING_ROLE,  /* a replica is asked for its master; set by ask_role() */
    LINK_OPEN,         /* it is a master; set by on_hello() */
    LINK_OVER,         /* its failure is, or has been, reported; set by fail() */
};

struct cluster_link {
    LIST_ENTRY(cluster_link) link;
    struct cluster_links *links;
    const struct cluster_link_calls *calls;
    void *user;
    enum link_state state;
    struct connect_job job;
    bool is_connecting; /* the job is the connector's */
    bool is_freed;
    struct event *event; /* the time for connecting; the report of a failure */
    sluice_resp_client *client;
    char reason[CLUSTER_LINK_REASON];
};

/* ---- Its end ---- */

static void destroy(struct cluster_link *link) {
    LIST_REMOVE(link, link);
    if (link->event)
        event_free(link->event);
    free(link);
}

void cluster_link_free(struct cluster_link *link) {
    if (!link || link->is_freed)
        return;
    link->is_freed = true;
    event_del(link->event);
    if (link->client)
        sluice_resp_client_free(link->client);
    else if (!link->is_connecting)
        destroy(link);
}

/* Reported by an event of its own. The first reason is the one that counts. */
static void fail(struct cluster_link *link, const char *reason) {
    if (link->state == LINK_OVER || link->is_freed)
        return;
    link->state = LINK_OVER;
    snprintf(link->reason, sizeof link->reason, "%s", reason);
    sluice_resp_client_close(link->client);
    event_active(link->event, EV_TIMEOUT, 1);
}

static void on_event(evutil_socket_t fd, short what, void *user) {
    struct cluster_link *link = user;
    (void)fd, (void)what;
    if (link->state == LINK_CONNECTING) {
        link->state = LINK_OVER;
        snprintf(link->reason, sizeof link->reason, "no connection in time");
    }
    if (link->state == LINK_OVER)
        link->calls->failed(link->user, link->reason);
}

static const char *reason_of(int error) {
    switch (error) {
    case -EPIPE:
        return "the server has ended the connection";
    case -ETIMEDOUT:
        return "no reply in time";
    case -EPROTO:
    case -EOPNOTSUPP:
        return "malformed reply";
    case -EMSGSIZE:
        return "the reply is too long";
    default:
        return strerror(-error);
    }
}

static void fail_closed(struct cluster_link *link, const sluice_tls *tls, int error) {
    char reason[CLUSTER_LINK_REASON];
    const bool is_tls = tls && sluice_tls_get_state(tls) == SLUICE_TLS_FAILED;
    snprintf(reason, sizeof reason, "%s%s", is_tls ? "TLS: " : "", is_tls ? sluice_tls_reason(tls) : reason_of(error));
    fail(link, reason);
}

/* The last callback of the client. */
static void on_closed(sluice_resp_client *client, int error, void *user) {
    struct cluster_link *link = user;
    link->client = NULL;
    if (link->is_freed) {
        destroy(link);
        return;
    }
    fail_closed(link, sluice_resp_client_stage(client), error);
    sluice_resp_client_free(client);
}

static void on_push(sluice_resp_client *client, sluice_resp_reply *push, void *user) {
    struct cluster_link *link = user;
    (void)client;
    if (link->state == LINK_OPEN && !link->is_freed)
        link->calls->pushed(link->user, push);
}

/* ---- What the server is ---- */

static void send_words(struct cluster_link *link, const char *const *words, size_t count, sluice_resp_reply_fn *fn) {
    sluice_resp_client_arg args[8] = {{0}};
    for (size_t i = 0; i < count; i++)
        args[i] = (sluice_resp_client_arg){.data = words[i], .length = strlen(words[i])};
    if (sluice_resp_client_command(link->client, args, count, fn, link) < 0)
        fail(link, "out of memory");
}

/* Whether a reply is one to be looked at: else the end of the connection says why. */
static bool is_for(const struct cluster_link *link, int error) {
    return !error && !link->is_freed && link->state != LINK_OVER;
}

static void fail_for(struct cluster_link *link, int error, const char *none) {
    fail(link, error == -ENOENT   ? none
               : error == -EPROTO ? "malformed reply"
               : error == -EPERM
                   ? "the server is in protected mode: give it a password, or set its protected-mode to no"
               : error == -EACCES          ? "wrong user or password, or they lack a right"
               : error == -EPROTONOSUPPORT ? "the server does not speak RESP 3: Redis 7 or Valkey is needed"
               : error == -EAGAIN          ? "the server is loading its data, or busy"
                                           : "the server has reported an error");
}

static void on_role(sluice_resp_client *client, int error, sluice_resp_reply *reply, void *user) {
    struct cluster_link *link = user;
    struct cluster_place master;
    (void)client;
    if (!is_for(link, error))
        return;
    error = cluster_greeting_read_role(reply, &master);
    if (error)
        fail_for(link, error, "the server is a replica without a master");
    else
        link->calls->elsewhere(link->user, &master);
}

static void ask_role(struct cluster_link *link) {
    link->state = LINK_ASKING_ROLE;
    send_words(link, (const char *const[]){"ROLE"}, 1, on_role);
}

static void on_place(sluice_resp_client *client, int error, sluice_resp_reply *reply, void *user) {
    struct cluster_link *link = user;
    struct cluster_place master;
    (void)client;
    if (!is_for(link, error))
        return;
    error = cluster_greeting_read_master(reply, &master);
    if (error)
        fail_for(link, error, "the Sentinel does not know the master (cluster-sentinel)");
    else
        link->calls->elsewhere(link->user, &master);
}

static void ask_place(struct cluster_link *link, const char *name) {
    link->state = LINK_ASKING_PLACE;
    send_words(link, (const char *const[]){"SENTINEL", "GET-MASTER-ADDR-BY-NAME", name}, 3, on_place);
}

static void on_masters(sluice_resp_client *client, int error, sluice_resp_reply *reply, void *user) {
    struct cluster_link *link = user;
    char name[CLUSTER_OPTION_SENTINEL + 1];
    (void)client;
    if (!is_for(link, error))
        return;
    error = cluster_greeting_read_masters(reply, name);
    if (error == -E2BIG)
        fail(link, "the Sentinel knows several masters: choose one by cluster-sentinel");
    else if (error)
        fail_for(link, error, "the Sentinel knows no master");
    else
        ask_place(link, name);
}

static void ask_sentinel(struct cluster_link *link) {
    const char *name = link->links->options->sentinel;
    if (*name) {
        ask_place(link, name);
        return;
    }
    link->state = LINK_ASKING_NAME;
    send_words(link, (const char *const[]){"SENTINEL", "MASTERS"}, 2, on_masters);
}

static void on_hello(sluice_resp_client *client, int error, sluice_resp_reply *reply, void *user);

static void greet(struct cluster_link *link, enum link_state state) {
    const struct cluster_engine_option *engine = &link->links->options->engine;
    const char *user = *engine->user ? engine->user : "default";
    char name[NODE_NAME + 16];
    snprintf(name, sizeof name, "sluice-%s", link->links->options->node);
    link->state = state;
    if (state == LINK_GREETING && engine->has_login)
        send_words(link, (const char *const[]){"HELLO", "3", "AUTH", user, engine->password, "SETNAME", name}, 7,
                   on_hello);
    else
        send_words(link, (const char *const[]){"HELLO", "3", "SETNAME", name}, 4, on_hello);
}

static void on_hello(sluice_resp_client *client, int error, sluice_resp_reply *reply, void *user) {
    struct cluster_link *link = user;
    struct cluster_greeting greeting;
    (void)client;
    if (!is_for(link, error))
        return;
    error = cluster_greeting_read(reply, &greeting);
    if (error == -EACCES && link->state == LINK_GREETING && link->links->options->engine.has_login) {
        greet(link, LINK_BARE);
    } else if (error || (link->state == LINK_BARE && greeting.mode != CLUSTER_SERVER_SENTINEL)) {
        fail_for(link, error ? error : -EACCES, "");
    } else if (greeting.mode == CLUSTER_SERVER_CLUSTER) {
        fail(link, "Redis Cluster is not supported: a single master is needed (cluster-enabled no)");
    } else if (greeting.mode == CLUSTER_SERVER_SENTINEL) {
        ask_sentinel(link);
    } else if (!greeting.is_master) {
        ask_role(link);
    } else {
        link->state = LINK_OPEN;
        link->calls->opened(link->user, &greeting);
    }
}

/* ---- The connection ---- */

static const sluice_resp_client_events events = {.size = sizeof events, .on_push = on_push, .on_closed = on_closed};

static void begin(struct cluster_link *link, int fd, sluice_tls_context *context) {
    const sluice_resp_limits limits = {.size = sizeof limits,
                                       .bulk = CLUSTER_REPLY_SIZE,
                                       .reply = CLUSTER_REPLY_SIZE,
                                       .elements = CLUSTER_REPLY_ELEMENTS};
    const sluice_tls_stage_options tls = {.size = sizeof tls, .context = context, .name = link->job.host};
    const sluice_resp_client_options options = {.size = sizeof options,
                                                .max_commands = CLUSTER_COMMANDS_MAX + SPARE_COMMANDS,
                                                .max_queued = CLUSTER_LINK_QUEUED,
                                                .timeout_ms = CLUSTER_LINK_MS,
                                                .limits = &limits,
                                                .stage = link->job.is_secure ? sluice_tls_conn_stage() : NULL,
                                                .stage_options = &tls};
    const int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    int error = sluice_resp_client_new(link->links->loop, fd, &options, &events, link, &link->client);
    if (error)
        fail(link, strerror(-error));
    else
        greet(link, LINK_GREETING);
}

/* The job is back. */
static void connected(struct connect_job *job) {
    struct cluster_link *link = job->user;
    const int fd = job->fd;
    sluice_tls_context *context = job->context;
    job->fd = -1;
    job->context = NULL;
    link->is_connecting = false;
    link->links->connecting--;
    event_del(link->event);
    if (fd >= 0 && !link->is_freed && link->state == LINK_CONNECTING)
        begin(link, fd, context);
    else if (fd >= 0)
        close(fd);
    else
        fail(link, job->error == -ENOENT ? "no such host" : strerror(-job->error));
    sluice_tls_context_unref(context);
    if (link->is_freed && !link->client)
        destroy(link);
}

int cluster_link_new(struct cluster_links *links, const struct cluster_place *place,
                     const struct cluster_link_calls *calls, void *user, struct cluster_link **ret_link) {
    static const struct timeval timeout = {.tv_sec = CLUSTER_LINK_MS / 1000, .tv_usec = CLUSTER_LINK_MS % 1000 * 1000};
    struct cluster_link *link = links->connecting < CLUSTER_LINK_CONNECTING_MAX ? calloc(1, sizeof *link) : NULL;
    if (!link)
        return links->connecting < CLUSTER_LINK_CONNECTING_MAX ? -ENOMEM : -EMFILE;
    *link = (struct cluster_link){.links = links, .calls = calls, .user = user, .state = LINK_CONNECTING};
    link->event = evtimer_new(links->base, on_event, link);
    if (!link->event || evtimer_add(link->event, &timeout) < 0) {
        if (link->event)
            event_free(link->event);
        free(link);
        return -ENOMEM;
    }
    _Static_assert(sizeof link->job.host >= sizeof place->host, "a server is one that can be connected to");
    link->job = (struct connect_job){.port = place->port,
                                     .is_secure = links->options->engine.is_secure,
                                     .loop = links->loop,
                                     .done = connected,
                                     .user = link,
                                     .fd = -1};
    memcpy(link->job.host, place->host, sizeof place->host);
    LIST_INSERT_HEAD(&links->all, link, link);
    link->is_connecting = true;
    links->connecting++;
    *ret_link = link;
    connector_take(links->connector, &link->job);
    return 0;
}

int cluster_link_command(struct cluster_link *link, const sluice_resp_client_arg *args, size_t count,
                         sluice_resp_reply_fn *fn, void *user) {
    return link->client ? sluice_resp_client_command(link->client, args, count, fn, user) : -EPIPE;
}

int cluster_link_subscribe(struct cluster_link *link, const char *channel, sluice_resp_reply_fn *fn, void *user) {
    const sluice_resp_client_arg args[] = {{.data = "SUBSCRIBE", .length = sizeof "SUBSCRIBE" - 1},
                                           {.data = channel, .length = strlen(channel)}};
    return link->client ? sluice_resp_client_subscribe(link->client, args, 2, fn, user) : -EPIPE;
}

bool cluster_link_has(const struct cluster_link *link, const sluice_resp_client *client) {
    return link->client == client;
}

void cluster_links_clear(struct cluster_links *links) {
    while (!LIST_EMPTY(&links->all))
        destroy(LIST_FIRST(&links->all));
}
