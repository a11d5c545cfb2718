#include "daemon/backup/backup.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/relay/stand_in.h"
#include "daemon/server/server.h"
#include "daemon/server/worker.h"

enum backup_state {
    BACKUP_IDLE,    /* nothing is needed, or to be had; set by let_go() */
    BACKUP_ASKING,  /* the other stream's worker is asked for a replica; set by ask() */
    BACKUP_FEEDING, /* set by begin() */
    BACKUP_ENDED,   /* it does not feed any more, and has the streams still; set by ended() */
};

struct backup {
    struct backup *next;
    atomic_uint references; /* the list's, and that of the question that is out */
    struct backups *backups;
    struct backup_option option;
    bool is_removed;
    enum backup_state state;
    struct stand_in stand_in;
    struct stream *source, *target; /* references; NULL: none */

    struct worker *other; /* of the source; it is on this one or not */

    /* While it feeds from another worker, that one is told that the source is needed still: */
    bool is_telling;
    uint64_t told_at;
    sluice_call tell;

    /* Of the other worker while it is asked: */
    sluice_call call;
    struct replica *seat; /* in its stream; or NULL */
    char peer[ADDRESS_TEXT];
};

struct backups {
    struct worker *worker;
    struct backup *list;
    bool is_stopped;
    bool is_posted;
    sluice_call call;
};

static void unref(struct backup *backup) {
    if (atomic_fetch_sub(&backup->references, 1) == 1)
        free(backup);
}

static void look(void *user);

/* In a later turn: what calls is a stream that has to stay as it is. */
static void look_soon(struct backups *backups) {
    if (backups->is_posted)
        return;
    backups->is_posted = true;
    sluice_loop_post_call(backups->worker->loop, &backups->call, look, backups);
}

static void let_go(struct backup *backup) {
    stream_unref(backup->source);
    stream_unref(backup->target);
    replica_unreserve(backup->seat);
    backup->source = backup->target = NULL;
    backup->seat = NULL;
    backup->state = BACKUP_IDLE;
}

static void log_end(const struct backup *backup, const char *reason) {
    LOG(LOG_INFO, "backup ended", {"stream", backup->option.name}, {"from", backup->option.other}, {"reason", reason});
}

static void ended(struct stand_in *stand_in, bool by_source) {
    struct backup *backup = (struct backup *)((char *)stand_in - offsetof(struct backup, stand_in));
    log_end(backup, by_source ? "its publisher has left" : "a publisher has come");
    backup->state = BACKUP_ENDED;
    look_soon(backup->backups);
}

/* Whether another node may have it, and send it soon. */
static bool is_coming(const struct stream *target) {
    return target->cluster.search == STREAM_SEARCH_ASKS || target->cluster.search == STREAM_SEARCH_COMES;
}

/* Whether its stream has players and no publisher. */
static bool is_wanted(const struct backup *backup, const struct stream *target) {
    const struct worker *worker = backup->backups->worker;
    return target && !target->live && !is_coming(target) && stream_player_count(target) > 0 && !backup->is_removed &&
           !backup->backups->is_stopped && !worker->draining && !worker->leaving;
}

static struct stream *find_target(const struct backup *backup) {
    return registry_find(backup->backups->worker->registry, backup->option.name);
}

/* @source: the reference becomes the backup's. */
static void begin(struct backup *backup, struct stream *source) {
    backup->source = source;
    backup->target = find_target(backup);
    if (backup->target)
        backup->target->references++;
    backup->stand_in.ended = ended;
    backup->state = BACKUP_FEEDING;
    if (!source || !is_wanted(backup, backup->target) ||
        stand_in_begin(&backup->stand_in, source, backup->target, backup->peer) < 0) {
        let_go(backup);
        return;
    }
    LOG(LOG_INFO, "backup started", {"stream", backup->option.name}, {"from", backup->option.other},
        {"peer", backup->peer});
}

static void end(struct backup *backup, const char *reason) {
    if (backup->state == BACKUP_FEEDING) {
        stand_in_end(&backup->stand_in);
        log_end(backup, reason);
        backup->state = BACKUP_ENDED;
    }
    if (backup->state == BACKUP_ENDED)
        let_go(backup);
}

/* Here: the other worker has answered. */
static void take_answer(void *user) {
    struct backup *backup = user;
    struct stream *source = backup->seat ? replica_stream(backup->seat) : NULL;
    begin(backup, source);
    unref(backup);
}

/* A stream that can stand in: with a publisher of its own, and known tracks. */
static bool is_of_use(const struct stream *stream) {
    return stream && stream_is_known(stream) && !stream->stand_in;
}

static void told(void *user) {
    struct backup *backup = user;
    backup->is_telling = false;
    unref(backup);
}

/* There. */
static void hear(void *user) {
    struct backup *backup = user;
    if (server_is_over(backup->other->server)) {
        unref(backup);
        return;
    }
    components_needed(&backup->other->components, backup->option.other);
    sluice_loop_post_call(backup->backups->worker->loop, &backup->tell, told, backup);
}

/* An on-demand pull goes on while its stream stands in, though it may have no players. */
static void keep_source(struct backup *backup) {
    const struct worker *own = backup->backups->worker;
    const uint64_t now = worker_now(own);
    if (backup->is_telling || now - backup->told_at < COMPONENT_NEEDED_MS)
        return;
    backup->told_at = now;
    if (backup->other == own) {
        components_needed(&own->components, backup->option.other);
        return;
    }
    backup->is_telling = true;
    atomic_fetch_add(&backup->references, 1);
    sluice_loop_post_call(backup->other->loop, &backup->tell, hear, backup);
}

/* There. The streams of both workers are gone when no loop runs any more. */
static void answer(void *user) {
    struct backup *backup = user;
    struct worker *other = backup->other;
    if (server_is_over(other->server)) {
        unref(backup);
        return;
    }
    struct worker *own = backup->backups->worker;
    components_needed(&other->components, backup->option.other);
    struct stream *stream = registry_find(other->registry, backup->option.other);
    if (is_of_use(stream) && !other->draining && !other->leaving) {
        struct replica *feed = replica_find(stream, &own->site);
        if (!feed)
            feed = replica_open(stream, &other->site, &own->site);
        if (feed && replica_is_of_use(feed))
            backup->seat = replica_reserve(feed);
        memcpy(backup->peer, stream->source.peer, sizeof backup->peer);
    }
    sluice_loop_post_call(own->loop, &backup->call, take_answer, backup);
}

static void ask(struct backup *backup) {
    backup->state = BACKUP_ASKING;
    atomic_fetch_add(&backup->references, 1);
    sluice_loop_post_call(backup->other->loop, &backup->call, answer, backup);
}

static void start(struct backup *backup) {
    struct worker *worker = backup->backups->worker;
    const char *name = backup->option.other;
    backup->other = server_owner(worker->server, name, strlen(name));
    if (backup->other != worker) {
        ask(backup);
        return;
    }
    components_needed(&worker->components, name);
    struct stream *source = registry_find(worker->registry, name);
    if (!is_of_use(source))
        return;
    memcpy(backup->peer, source->source.peer, sizeof backup->peer);
    source->references++;
    begin(backup, source);
}

static void look_at(struct backup *backup) {
    switch (backup->state) {
    case BACKUP_ASKING:
        return;
    case BACKUP_FEEDING:
        if (stream_player_count(backup->target) > 0) {
            keep_source(backup);
            return;
        }
        end(backup, "no players");
        break;
    case BACKUP_ENDED:
        let_go(backup);
        break;
    case BACKUP_IDLE:
        break;
    }
    if (is_wanted(backup, find_target(backup)))
        start(backup);
}

static void look(void *user) {
    struct backups *backups = user;
    backups->is_posted = false;
    for (struct backup *backup = backups->list; backup; backup = backup->next)
        look_at(backup);
}

/* The component. */

static void discard(void *prepared) {
    for (struct backup *backup = prepared, *next; backup; backup = next) {
        next = backup->next;
        unref(backup);
    }
}

static int open_backups(struct worker *worker, void *user, void **ret_component) {
    struct backups *backups = calloc(1, sizeof *backups);
    (void)user;
    if (!backups)
        return -ENOMEM;
    backups->worker = worker;
    *ret_component = backups;
    return 0;
}

static void close_backups(void *component) {
    struct backups *backups = component;
    discard(backups->list);
    free(backups);
}

static bool is_same(const struct backup_option *a, const struct backup_option *b) {
    return strcmp(a->name, b->name) == 0 && strcmp(a->other, b->other) == 0;
}

static bool has(const struct backups *backups, const struct backup_option *option) {
    const struct backup *backup = backups->list;
    while (backup && !is_same(&backup->option, option))
        backup = backup->next;
    return backup;
}

static int prepare(void *component, const struct options *options, void **ret_prepared) {
    struct backups *backups = component;
    struct worker *worker = backups->worker;
    struct backup *made = NULL;
    for (size_t i = 0; i < options->backups.count; i++) {
        const struct backup_option *option = &options->backups.list[i];
        if (server_owner(worker->server, option->name, strlen(option->name)) != worker || has(backups, option))
            continue;
        struct backup *backup = calloc(1, sizeof *backup);
        if (!backup) {
            discard(made);
            return -ENOMEM;
        }
        atomic_init(&backup->references, 1);
        backup->backups = backups;
        backup->option = *option;
        backup->next = made;
        made = backup;
    }
    *ret_prepared = made;
    return 0;
}

static bool keeps(const struct options *options, const struct backup *backup) {
    for (size_t i = 0; i < options->backups.count; i++)
        if (is_same(&options->backups.list[i], &backup->option))
            return true;
    return false;
}

/* The answer to a question that is out finds it removed, and lets go. */
static void commit(void *component, const struct options *options, void *prepared) {
    struct backups *backups = component;
    struct backup **link = &backups->list;
    while (*link) {
        struct backup *backup = *link;
        if (keeps(options, backup)) {
            link = &backup->next;
            continue;
        }
        *link = backup->next;
        backup->is_removed = true;
        end(backup, "the configuration is without it");
        unref(backup);
    }
    *link = prepared;
    look_soon(backups);
}

static void wanted(void *component, const struct stream *stream) {
    struct backups *backups = component;
    for (const struct backup *backup = backups->list; backup; backup = backup->next)
        if (strcmp(backup->option.name, stream->name) == 0)
            look_soon(backups);
}

static void tick(void *component, uint64_t now) {
    (void)now;
    if (!((struct backups *)component)->is_posted)
        look(component);
}

static void stop(void *component) {
    struct backups *backups = component;
    backups->is_stopped = true;
    for (struct backup *backup = backups->list; backup; backup = backup->next)
        end(backup, "the server stops, or another process takes over");
}

static void resume(void *component) {
    ((struct backups *)component)->is_stopped = false;
}

static const struct component_type type = {
    .open = open_backups,
    .prepare = prepare,
    .commit = commit,
    .discard = discard,
    .wanted = wanted,
    .left = wanted,
    .tick = tick,
    .stop = stop,
    .resume = resume,
    .close = close_backups,
};

int backups_register(struct server *server) {
    return server_add_component(server, &type, NULL);
}
