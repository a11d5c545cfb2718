#include "daemon/control/worker_command.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/server/server.h"

struct search {
    uint64_t id;
    struct stream *published; /* by the publisher of that id */
    struct player *player;
};

static void look(struct stream *stream, void *user) {
    struct search *search = user;
    if (stream->live && !stream->fed_by && !stream->stand_in && stream->publisher_id == search->id)
        search->published = stream;
    for (struct player *player = stream->players; player; player = player->next)
        if (player->id == search->id)
            search->player = player;
}

/* @to: where it is asked to connect instead, if its protocol and the client support that; empty:
 * nowhere */
static void kick(struct session *session, const char *to) {
    if (session->closing || (*to && session->type->redirect && session->type->redirect(session, to)))
        return;
    session->type->kick(session, -ECANCELED);
}

static int kick_publisher(struct worker *worker, struct stream *stream, const struct worker_command *command) {
    int error = 0;
    uint64_t ban_ms = command->ban_ms;
    if (ban_ms > 0)
        error = bans_add(&worker->registry->bans, stream->name, stream->source.peer, worker_now(worker), ban_ms);
    LOG(LOG_INFO, "publisher kicked", {"stream", stream->name}, {"peer", stream->source.peer},
        {"ban_ms", log_unsigned(ban_ms).text}, {"to", command->to});
    kick(stream->source.session, command->to);
    return error;
}

static int kick_stream(struct worker *worker, struct stream *stream, const struct worker_command *command) {
    /* Without players, the stream goes with its publisher; and not before the last player's
     * connection. A player that is asked to connect elsewhere stays in the list. */
    uint32_t players = stream->player_count;
    int error = stream->live && !stream->fed_by && !stream->stand_in ? kick_publisher(worker, stream, command) : 0;
    struct player *player = players > 0 ? stream->players : NULL;
    for (struct player *next; players > 0; players--, player = next) {
        next = player->next;
        kick(player->user, command->to);
    }
    return error;
}

static int record(struct worker *worker, const struct worker_command *command) {
    if (server_owner(worker->server, command->stream, strlen(command->stream)) != worker)
        return -ENOENT;
    int error = recorders_wish(&worker->recorders, worker->registry, command->stream, command->record);
    if (!error)
        LOG(LOG_INFO, "recording switched", {"stream", command->stream}, {"to", record_override_name(command->record)});
    return error;
}

static int add_pull(struct worker *worker, struct worker_command *command) {
    /* Another worker may be taking the pull at this moment: what is read of it does not change. */
    if (server_owner(worker->server, command->stream, strlen(command->stream)) != worker)
        return -ENOENT;
    int error = pulls_add(worker, command->pull);
    if (!error)
        command->pull = NULL;
    return error;
}

int worker_command_run(struct worker *worker, struct worker_command *command) {
    if (command->kind == COMMAND_RECORD)
        return record(worker, command);
    if (command->kind == COMMAND_PULL_ADD)
        return add_pull(worker, command);
    if (command->kind == COMMAND_PULL_REMOVE)
        return pulls_remove(worker, command->id);
    if (command->kind == COMMAND_KICK_STREAM) {
        struct stream *stream = registry_find(worker->registry, command->stream);
        return stream ? kick_stream(worker, stream, command) : -ENOENT;
    }
    struct search search = {.id = command->id};
    registry_each(worker->registry, look, &search);
    if (command->kind == COMMAND_KICK_PUBLISHER)
        return search.published ? kick_publisher(worker, search.published, command) : -ENOENT;
    if (!search.player)
        return -ENOENT;
    kick(search.player->user, command->to);
    return 0;
}
