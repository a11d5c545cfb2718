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

static void kick(struct session *session) {
    if (!session->closing)
        session->type->kick(session, -ECANCELED);
}

static int kick_publisher(struct worker *worker, struct stream *stream, uint64_t ban_ms) {
    int error = 0;
    if (ban_ms > 0)
        error = bans_add(&worker->registry->bans, stream->name, stream->source.peer, worker_now(worker), ban_ms);
    LOG(LOG_INFO, "publisher kicked", {"stream", stream->name}, {"peer", stream->source.peer},
        {"ban_ms", log_unsigned(ban_ms).text});
    kick(stream->source.session);
    return error;
}

static int kick_stream(struct worker *worker, struct stream *stream, uint64_t ban_ms) {
    /* Without players, the stream goes with its publisher; and not before the last player's
     * connection. */
    uint32_t players = stream->player_count;
    int error = stream->live && !stream->fed_by && !stream->stand_in ? kick_publisher(worker, stream, ban_ms) : 0;
    for (; players > 0; players--)
        kick(stream->players->user);
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
        return stream ? kick_stream(worker, stream, command->ban_ms) : -ENOENT;
    }
    struct search search = {.id = command->id};
    registry_each(worker->registry, look, &search);
    if (command->kind == COMMAND_KICK_PUBLISHER)
        return search.published ? kick_publisher(worker, search.published, command->ban_ms) : -ENOENT;
    if (!search.player)
        return -ENOENT;
    kick(search.player->user);
    return 0;
}
