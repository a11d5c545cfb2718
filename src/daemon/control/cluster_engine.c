#include "daemon/control/cluster_engine.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/base/log.h"
#include "daemon/cluster/cluster_node.h"
#include "daemon/cluster/cluster_script.h"
#include "daemon/control/control_loop.h"
#include "shared/clock.h"

enum { NEXT_HOST_MS = 20 };

/* A command under way. */
struct pending {
    struct pending *next; /* that is free */
    struct cluster_engine *engine;
    uint64_t tag, connection, sent_ns;
    enum cluster_verb verb;
    size_t count;
};

struct cluster_engine {
    struct control_loop *loop;
    const struct cluster_options *options;
    const struct cluster_engine_calls *calls;
    void *user;
    enum cluster_engine_state state;
    uint64_t since, changed_at; /* of the state; of its being ready, or not */
    struct cluster_links links;
    struct cluster_link *link; /* of this attempt */
    struct event *timer;       /* of the next attempt */
    struct cluster_script *script;

    size_t host;         /* that is asked, of the options' */
    size_t failed_hosts; /* in this round */
    unsigned rounds;     /* that have failed */
    unsigned hops;       /* from the host to the place */
    struct cluster_place place;
    size_t loaded; /* scripts */
    /* number of the attempt: replies of others are none */
    uint64_t connection;
    /* of each host, since the last connection */
    char logged[CLUSTER_OPTION_HOSTS][CLUSTER_LINK_REASON];
    int logged_error; /* of commands; 0: none since the lease was renewed */

    struct cluster_greeting server;
    char reason[CLUSTER_LINK_REASON]; /* of the last failure */
    uint64_t failed_at;
    uint64_t connections, failures, invalid;
    uint64_t commands[CLUSTER_VERBS][CLUSTER_COMMAND_RESULTS];
    struct latency latency;
    /* pushes that are no events: since when, and how many since */
    uint64_t useless_since, useless;
    uint32_t waiting;
    struct pending *free; /* of those below */
    struct pending pending[CLUSTER_COMMANDS_MAX];
};

const char *cluster_engine_state_name(enum cluster_engine_state state) {
    static const char *const names[] = {[CLUSTER_ENGINE_OFF] = "off",
                                        [CLUSTER_ENGINE_CONNECTING] = "connecting",
                                        [CLUSTER_ENGINE_LOADING] = "loading",
                                        [CLUSTER_ENGINE_READY] = "ready",
                                        [CLUSTER_ENGINE_WAITING] = "waiting"};
    return names[state];
}

static void set_state(struct cluster_engine *engine, enum cluster_engine_state state) {
    const bool was_ready = engine->state == CLUSTER_ENGINE_READY;
    engine->state = state;
    engine->since = clock_ms();
    if (was_ready != (state == CLUSTER_ENGINE_READY) || !engine->changed_at)
        engine->changed_at = engine->since;
}

static void note_failure(struct cluster_engine *engine, const char *reason) {
    snprintf(engine->reason, sizeof engine->reason, "%s", reason);
    engine->failed_at = clock_ms();
}

/* ---- Attempts ---- */

/* Half to all of it, so that nodes do not come at the same moment. */
static uint64_t jittered(uint64_t ms) {
    uint32_t random = 0;
    (void)!getrandom(&random, sizeof random, GRND_NONBLOCK);
    return ms / 2 + random % (ms / 2 + 1);
}

static void wait_for(struct cluster_engine *engine, uint64_t ms) {
    const struct timeval time = {.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000)};
    set_state(engine, CLUSTER_ENGINE_WAITING);
    (void)evtimer_add(engine->timer, &time);
}

static uint64_t backoff(const struct cluster_engine *engine) {
    uint64_t ms = CLUSTER_ENGINE_BACKOFF_MS;
    for (unsigned i = 1; i < engine->rounds && ms < CLUSTER_ENGINE_BACKOFF_MOST_MS; i++)
        ms *= 2;
    return ms < CLUSTER_ENGINE_BACKOFF_MOST_MS ? ms : CLUSTER_ENGINE_BACKOFF_MOST_MS;
}

/* When the next host is asked, or all of them again. */
static void schedule(struct cluster_engine *engine, bool was_ready) {
    const size_t hosts = engine->options->engine.host_count;
    if (was_ready) {
        /* The same one knows best, be it a Sentinel. */
        engine->rounds = clock_ms() - engine->since >= CLUSTER_ENGINE_STABLE_MS ? 1 : engine->rounds + 1;
        engine->failed_hosts = 0;
        wait_for(engine, jittered(backoff(engine)));
        return;
    }
    engine->host = (engine->host + 1) % hosts;
    if (++engine->failed_hosts < hosts) {
        wait_for(engine, NEXT_HOST_MS);
        return;
    }
    engine->failed_hosts = 0;
    engine->rounds++;
    wait_for(engine, jittered(backoff(engine)));
}

/* Once for each host and reason, until there is a connection. */
static void log_failure(struct cluster_engine *engine, bool was_ready, const char *reason) {
    char place[HOOK_HOST + 16], *logged = engine->logged[engine->host];
    cluster_place_format(&engine->place, place, sizeof place);
    if (!was_ready && strcmp(logged, reason) == 0)
        return;
    snprintf(logged, sizeof engine->logged[0], "%s", reason);
    LOG(LOG_WARNING, was_ready ? "cluster engine lost" : "cluster engine unavailable", {"address", place},
        {"reason", reason});
}

/* The connection, or the attempt, is over. */
static void drop(struct cluster_engine *engine, const char *reason) {
    const bool was_ready = engine->state == CLUSTER_ENGINE_READY;
    note_failure(engine, reason); /* which may be the connection's */
    cluster_link_free(engine->link);
    engine->link = NULL;
    engine->connection++;
    engine->failures++;
    engine->useless = 0;
    log_failure(engine, was_ready, engine->reason);
    schedule(engine, was_ready);
    engine->calls->lost(engine->user);
}

static void on_failed(void *user, const char *reason) {
    drop(user, reason);
}

static const struct cluster_link_calls link_calls;

static void try_place(struct cluster_engine *engine, const struct cluster_place *place) {
    engine->place = *place;
    set_state(engine, CLUSTER_ENGINE_CONNECTING);
    int error = cluster_link_new(&engine->links, &engine->place, &link_calls, engine, &engine->link);
    if (error)
        drop(engine, error == -EMFILE ? "no connection in time" : strerror(-error));
}

static void on_elsewhere(void *user, const struct cluster_place *master) {
    struct cluster_engine *engine = user;
    const struct cluster_place place = *master;
    if (++engine->hops > CLUSTER_ENGINE_HOPS) {
        drop(engine, "no master was found: each server names another one");
        return;
    }
    cluster_link_free(engine->link);
    engine->link = NULL;
    try_place(engine, &place);
}

static void on_time(evutil_socket_t fd, short what, void *user) {
    struct cluster_engine *engine = user;
    (void)fd, (void)what;
    engine->hops = 0;
    try_place(engine, &engine->options->engine.hosts[engine->host]);
}

/* ---- Scripts and events ---- */

static void be_ready(struct cluster_engine *engine) {
    char place[HOOK_HOST + 16];
    cluster_place_format(&engine->place, place, sizeof place);
    set_state(engine, CLUSTER_ENGINE_READY);
    engine->connections++;
    engine->failed_hosts = 0;
    engine->logged_error = 0;
    memset(engine->logged, 0, sizeof engine->logged);
    LOG(LOG_INFO, "cluster engine connected", {"address", place}, {"server", engine->server.server},
        {"version", engine->server.version});
    engine->calls->ready(engine->user);
}

static const char *reason_of(int error) {
    switch (error) {
    case -EPROTO:
        return "malformed reply";
    case -EROFS:
        return "the server is not a master any more, or not ready";
    case -EACCES:
        return "the user lacks a right";
    case -EOPNOTSUPP:
        return "the server lacks a command: Redis 7 or Valkey is needed";
    case -ENOSPC:
        return "the server's memory or disk is full";
    case -ENOMEM:
        return "out of memory";
    case -EEXIST:
        return "a key with the prefix is not the cluster's: choose another prefix";
    case -ENOEXEC:
        return "the server has lost the scripts";
    default:
        return "the server has reported an error";
    }
}

/* A reply to what is sent at the beginning. False: it is of another connection, or the end of this
 * one says more. */
static bool is_of_link(const struct cluster_engine *engine, const sluice_resp_client *client, int error) {
    return !error && engine->link && engine->state == CLUSTER_ENGINE_LOADING && cluster_link_has(engine->link, client);
}

static void on_subscribed(sluice_resp_client *client, int error, sluice_resp_reply *reply, void *user) {
    struct cluster_engine *engine = user;
    if (!is_of_link(engine, client, error))
        return;
    if (reply->value.type == SLUICE_RESP_ERROR || reply->value.type == SLUICE_RESP_BULK_ERROR)
        drop(engine, "the user lacks the right to subscribe to the channel");
}

static void on_loaded(sluice_resp_client *client, int error, sluice_resp_reply *reply, void *user) {
    struct cluster_engine *engine = user;
    if (!is_of_link(engine, client, error))
        return;
    error = cluster_script_loaded(engine->script, engine->loaded, reply);
    if (error)
        drop(engine, reason_of(error));
    else if (++engine->loaded == cluster_script_count())
        be_ready(engine);
}

static void on_opened(void *user, const struct cluster_greeting *greeting) {
    struct cluster_engine *engine = user;
    size_t count;
    engine->server = *greeting;
    engine->loaded = 0;
    set_state(engine, CLUSTER_ENGINE_LOADING);
    int error = cluster_link_subscribe(engine->link, cluster_script_channel(engine->script), on_subscribed, engine);
    for (size_t i = 0; !error && i < cluster_script_count(); i++) {
        const sluice_resp_client_arg *args = cluster_script_load(engine->script, i, &count);
        error = cluster_link_command(engine->link, args, count, on_loaded, engine);
    }
    if (error)
        drop(engine, reason_of(error));
}

/* A connection that brings many of them costs more than it is worth. */
static void note_useless(struct cluster_engine *engine) {
    const uint64_t now = clock_ms();
    if (now - engine->useless_since >= CLUSTER_ENGINE_USELESS_MS) {
        engine->useless_since = now;
        engine->useless = 0;
    }
    if (++engine->useless > CLUSTER_ENGINE_USELESS_MOST)
        drop(engine, "too many messages that are no events");
}

static void on_pushed(void *user, const sluice_resp_reply *push) {
    struct cluster_engine *engine = user;
    struct cluster_event event;
    int error = cluster_script_read_push(engine->script, push, &event);
    engine->invalid += error == -EPROTO;
    if (error)
        note_useless(engine);
    else if (engine->state == CLUSTER_ENGINE_READY)
        engine->calls->heard(engine->user, &event);
}

static const struct cluster_link_calls link_calls = {
    .opened = on_opened, .elsewhere = on_elsewhere, .failed = on_failed, .pushed = on_pushed};

/* ---- Commands ---- */

/*
 * After which the server is no engine. One that is full among them: the leases end, and what it
 * says of streams is that no node has them.
 */
static bool is_fatal(int error) {
    return error == -ENOEXEC || error == -EROFS || error == -EPROTO || error == -ENOSPC;
}

/* Of errors of one kind, once, until the lease is renewed. */
static void note_error(struct cluster_engine *engine, enum cluster_verb verb, int error) {
    if (error)
        note_failure(engine, reason_of(error));
    if (error && error != engine->logged_error && !is_fatal(error))
        LOG(LOG_WARNING, "cluster engine rejects commands", {"reason", reason_of(error)});
    if (error || verb == CLUSTER_RENEW)
        engine->logged_error = error;
}

static void take_reply(struct cluster_engine *engine, const struct pending *command, const sluice_resp_reply *resp) {
    struct cluster_reply reply = {0};
    int error = cluster_script_read(command->verb, command->count, resp, &reply);
    note_error(engine, command->verb, error);
    engine->commands[command->verb][error ? CLUSTER_COMMAND_ERROR : CLUSTER_COMMAND_OK]++;
    latency_add(&engine->latency, clock_ns() - command->sent_ns);
    if (is_fatal(error)) {
        drop(engine, reason_of(error));
        return;
    }
    reply.error = error ? error : reply.error;
    engine->calls->replied(engine->user, command->tag, &reply);
    cluster_reply_clear(&reply);
}

static void on_reply(sluice_resp_client *client, int error, sluice_resp_reply *resp, void *user) {
    struct pending *pending = user, command = *pending;
    struct cluster_engine *engine = pending->engine;
    (void)client;
    pending->next = engine->free;
    engine->free = pending;
    engine->waiting--;
    if (!error && command.connection == engine->connection && engine->state == CLUSTER_ENGINE_READY)
        take_reply(engine, &command, resp);
    else
        engine->commands[command.verb][CLUSTER_COMMAND_UNANSWERED]++;
}

bool cluster_engine_send(struct cluster_engine *engine, const struct cluster_command *command) {
    const sluice_resp_client_arg *args;
    size_t count;
    struct pending *pending = engine->free;
    if (engine->state != CLUSTER_ENGINE_READY || !pending ||
        cluster_script_write(engine->script, command, &args, &count) < 0)
        return false;
    *pending = (struct pending){.next = pending->next,
                                .engine = engine,
                                .tag = command->tag,
                                .connection = engine->connection,
                                .sent_ns = clock_ns(),
                                .verb = command->verb,
                                .count = command->count};
    if (cluster_link_command(engine->link, args, count, on_reply, pending) < 0)
        return false;
    engine->free = pending->next;
    engine->waiting++;
    return true;
}

/* ---- The whole ---- */

void cluster_engine_start(struct cluster_engine *engine) {
    int error = control_loop_open(engine->loop, &engine->links.loop);
    if (error)
        LOG(LOG_ERROR, "no cluster engine", {"reason", strerror(-error)});
    else if (engine->state == CLUSTER_ENGINE_OFF)
        wait_for(engine, 0);
}

void cluster_engine_stop(struct cluster_engine *engine) {
    evtimer_del(engine->timer);
    cluster_link_free(engine->link);
    engine->link = NULL;
    engine->connection++;
    set_state(engine, CLUSTER_ENGINE_OFF);
}

int cluster_engine_new(struct event_base *base, struct control_loop *loop, struct connector *connector,
                       const struct cluster_options *options, const struct cluster_engine_calls *calls, void *user,
                       struct cluster_engine **ret_engine) {
    struct cluster_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return -ENOMEM;
    engine->loop = loop;
    engine->options = options;
    engine->calls = calls;
    engine->user = user;
    engine->links = (struct cluster_links){.base = base, .connector = connector, .options = options};
    LIST_INIT(&engine->links.all);
    for (size_t i = 0; i < CLUSTER_COMMANDS_MAX; i++) {
        engine->pending[i].next = engine->free;
        engine->free = &engine->pending[i];
    }
    set_state(engine, CLUSTER_ENGINE_OFF);
    engine->timer = evtimer_new(base, on_time, engine);
    int error = engine->timer ? cluster_script_new(options->engine.prefix, &engine->script) : -ENOMEM;
    if (error) {
        cluster_engine_free(engine);
        return error;
    }
    *ret_engine = engine;
    return 0;
}

void cluster_engine_free(struct cluster_engine *engine) {
    if (!engine)
        return;
    if (engine->timer) {
        cluster_engine_stop(engine);
        event_free(engine->timer);
    }
    cluster_links_clear(&engine->links);
    cluster_script_free(engine->script);
    free(engine);
}

bool cluster_engine_is_ready(const struct cluster_engine *engine) {
    return engine->state == CLUSTER_ENGINE_READY;
}

void cluster_engine_get_status(const struct cluster_engine *engine, struct cluster_engine_status *ret_status) {
    *ret_status = (struct cluster_engine_status){.state = engine->state,
                                                 .since = engine->changed_at,
                                                 .server = engine->server,
                                                 .failed_at = engine->failed_at,
                                                 .connections = engine->connections,
                                                 .failures = engine->failures,
                                                 .invalid = engine->invalid,
                                                 .waiting = engine->waiting,
                                                 .latency = engine->latency};
    memcpy(ret_status->commands, engine->commands, sizeof ret_status->commands);
    if (*engine->place.host)
        cluster_place_format(&engine->place, ret_status->place, sizeof ret_status->place);
    memcpy(ret_status->reason, engine->reason, sizeof ret_status->reason);
}
