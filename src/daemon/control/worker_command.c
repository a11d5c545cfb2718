#include "daemon/control/worker_command.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/server/server.h"

struct search {
    uint64_t id;
    struct stream *published; /* by the publisher of that id */
    struct player *player;
};

static bool has_publisher(const struct stream *stream) {
    return stream->live && !stream->fed_by && !stream->stand_in;
}

static void look(struct stream *stream, void *user) {
    struct search *search = user;
    if (has_publisher(stream) && stream->publisher_id == search->id)
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

/* A question without an answer that matters. */
static void on_told(struct cluster_job *job) {
    if (job->error)
        LOG(LOG_WARNING, "cluster not told", {"stream", job->stream}, {"reason", "cluster engine unavailable"});
    free(job);
}

/* Whether there are other nodes, which hear of it. */
static bool tell(const struct worker *worker, enum cluster_question question, const char *stream,
                 const struct worker_command *command, const struct session *banned) {
    struct cluster_job *job = server_cluster_self(worker->server) && !command->is_told ? calloc(1, sizeof *job) : NULL;
    if (!job)
        return false;
    job->question = question;
    snprintf(job->stream, sizeof job->stream, "%s", stream);
    job->keep_ms = command->ban_ms;
    job->is_whole = !command->spares_players;
    if (banned)
        job->host = cidr_host(&banned->peer_address);
    job->loop = worker->loop;
    job->done = on_told;
    if (server_ask_cluster(worker->server, job))
        return true;
    free(job);
    return false;
}

/* The node that has the publisher tells the others of the ban, whoever has asked for it. */
static int ban_publisher(struct worker *worker, const struct stream *stream, uint64_t ban_ms) {
    const struct worker_command ban = {.ban_ms = ban_ms};
    const struct cluster_self *self = server_cluster_self(worker->server);
    const struct ban_origin origin = {.node = self ? self->node : NULL};
    (void)tell(worker, CLUSTER_TELL_BAN, stream->name, &ban, stream->source.session);
    return bans_add(&worker->registry->bans, stream->name, stream->source.peer, worker_now(worker), ban_ms, &origin);
}

static int kick_publisher(struct worker *worker, struct stream *stream, const struct worker_command *command) {
    int error = 0;
    if (command->ban_ms > 0)
        error = ban_publisher(worker, stream, command->ban_ms);
    LOG(LOG_INFO, "publisher kicked", {"stream", stream->name}, {"peer", stream->source.peer},
        {"ban_ms", log_unsigned(command->ban_ms).text}, {"to", command->to});
    kick(stream->source.session, command->to);
    return error;
}

/* One that another node has is kicked there. */
static int kick_by_id(struct worker *worker, struct stream *stream, const struct worker_command *command) {
    const struct worker_command alone = {.ban_ms = command->ban_ms, .spares_players = true};
    if (!stream->source.is_remote)
        return kick_publisher(worker, stream, command);
    return tell(worker, CLUSTER_TELL_KICK, stream->name, &alone, NULL) ? 0 : -ENOMEM;
}

static int kick_here(struct worker *worker, struct stream *stream, const struct worker_command *command) {
    /* Without players, the stream goes with its publisher; and not before the last player's
     * connection. A player that is asked to connect elsewhere stays in the list. */
    uint32_t players = command->spares_players ? 0 : stream->player_count;
    int error = 0;
    if (has_publisher(stream) && !stream->source.is_remote)
        error = kick_publisher(worker, stream, command);
    struct player *player = players > 0 ? stream->players : NULL;
    for (struct player *next; players > 0; players--, player = next) {
        next = player->next;
        kick(player->user, command->to);
    }
    return error;
}

static bool is_owner(const struct worker *worker, const struct worker_command *command) {
    return server_owner(worker->server, command->stream, strlen(command->stream)) == worker;
}

/* Other nodes may have the stream whether or not this one has. */
static int kick_stream(struct worker *worker, const struct worker_command *command) {
    struct stream *stream = registry_find(worker->registry, command->stream);
    const bool is_passed_on = is_owner(worker, command) &&
                              tell(worker, CLUSTER_TELL_KICK, command->stream, command, NULL);
    if (stream)
        return kick_here(worker, stream, command);
    return is_passed_on ? 0 : -ENOENT;
}

static int ban(struct worker *worker, const struct worker_command *command) {
    struct bans *bans = &worker->registry->bans;
    const struct ban_origin origin = {
        .node = *command->node ? command->node : NULL, .is_shared = true, .is_listed = !*command->node};
    if (!is_owner(worker, command))
        return -ENOENT;
    if (!command->is_own)
        return bans_add(bans, command->stream, command->host, worker_now(worker), command->ban_ms, &origin);
    bans_share(bans, command->stream, command->host, worker_now(worker));
    return 0;
}

static int unban(struct worker *worker, const struct worker_command *command) {
    if (!is_owner(worker, command))
        return -ENOENT;
    const bool was_banned = bans_lift(&worker->registry->bans, command->stream, worker_now(worker));
    const bool is_passed_on = tell(worker, CLUSTER_TELL_UNBAN, command->stream, command, NULL);
    if (was_banned)
        LOG(LOG_INFO, "bans lifted", {"stream", command->stream});
    return was_banned || is_passed_on ? 0 : -ENOENT;
}

/* The engine's list of bans is what counts. */
static int list_bans(struct worker *worker, const struct worker_command *command) {
    struct bans *bans = &worker->registry->bans;
    if (command->kind == COMMAND_DOUBT_BANS) {
        bans_doubt(bans);
        return 0;
    }
    const size_t ended = bans_end_doubted(bans);
    if (ended > 0)
        LOG(LOG_INFO, "bans lifted", {"bans", log_unsigned(ended).text}, {"reason", "lifted in the cluster"});
    return 0;
}

static int record(struct worker *worker, const struct worker_command *command) {
    if (!is_owner(worker, command))
        return -ENOENT;
    int error = recorders_wish(&worker->recorders, worker->registry, command->stream, command->record);
    if (!error)
        LOG(LOG_INFO, "recording switched", {"stream", command->stream}, {"to", record_override_name(command->record)});
    return error;
}

static int add_pull(struct worker *worker, struct worker_command *command) {
    /* Another worker may be taking the pull at this moment: what is read of it does not change. */
    if (!is_owner(worker, command))
        return -ENOENT;
    int error = pulls_add(worker, command->pull);
    if (!error)
        command->pull = NULL;
    return error;
}

/* It would change what the process that takes over has been given already. */
static bool is_too_late(const struct worker *worker, const struct worker_command *command) {
    const bool is_kept = command->kind == COMMAND_RECORD || command->kind == COMMAND_UNBAN || command->ban_ms > 0;
    return worker->leaving && is_kept && command->kind != COMMAND_BAN && !command->is_told;
}

int worker_command_run(struct worker *worker, struct worker_command *command) {
    if (is_too_late(worker, command))
        return -ESHUTDOWN;
    if (command->kind == COMMAND_RECORD)
        return record(worker, command);
    if (command->kind == COMMAND_PULL_ADD)
        return add_pull(worker, command);
    if (command->kind == COMMAND_PULL_REMOVE)
        return pulls_remove(worker, command->id);
    if (command->kind == COMMAND_KICK_STREAM)
        return kick_stream(worker, command);
    if (command->kind == COMMAND_BAN)
        return ban(worker, command);
    if (command->kind == COMMAND_UNBAN)
        return unban(worker, command);
    if (command->kind == COMMAND_DOUBT_BANS || command->kind == COMMAND_END_DOUBTED_BANS)
        return list_bans(worker, command);
    struct search search = {.id = command->id};
    registry_each(worker->registry, look, &search);
    if (command->kind == COMMAND_KICK_PUBLISHER)
        return search.published ? kick_by_id(worker, search.published, command) : -ENOENT;
    if (!search.player)
        return -ENOENT;
    kick(search.player->user, command->to);
    return 0;
}
