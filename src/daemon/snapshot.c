#include "daemon/snapshot.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One question: the workers' parts, and a message to each of them. */
struct question {
    struct server *server;
    unsigned what;
    struct worker *home;
    snapshot_fn *call;
    void *user;
    struct snapshot snapshot;
    atomic_uint left; /* workers that have not answered */
    atomic_bool failed;
    sluice_call answer;
    struct ask {
        sluice_call call;
        struct question *question;
        struct worker *worker;
    } asks[];
};

static const char *player_state_text(const struct player *player) {
    switch (player->state) {
    case PLAYER_PAUSED:
        return "paused";
    case PLAYER_ASKING:
    case PLAYER_WAITING:
        return "waiting";
    case PLAYER_PLAYING:
        return "playing";
    case PLAYER_BEHIND:
        return "dropping";
    case PLAYER_ENDING:
        return "ending";
    }
    return "";
}

/* A worker's part while it is filled. */
struct filling {
    const struct worker *worker;
    unsigned what;
    struct worker_snapshot *part;
};

static void add_player(struct worker_snapshot *part, const struct player *player) {
    const struct session *session = player->user;
    struct player_snapshot *to = &part->players[part->player_count++];
    *to = (struct player_snapshot){
        .stream = part->stream_count,
        .protocol = session->type->protocol,
        .state = player_state_text(player),
        .bytes_sent = player->bytes_sent,
        .frames_sent = player->packets_sent,
        .sends = player->sends,
        .frames_dropped = player->packets_dropped,
        .queued_bytes = player->queued_bytes,
        .merge_window_ms = player->merge_window_ms,
    };
    memcpy(to->peer, session->peer, sizeof to->peer);
}

static void fill_stream(const struct worker *worker, const struct stream *stream, struct stream_snapshot *to) {
    *to = (struct stream_snapshot){
        .live = stream->live,
        .source = stream->source,
        .state_ms = worker_now(worker) - (stream->live ? stream->source.since : stream->left_at),
        .tracks = stream->seen,
        .video_codec = stream->video_codec,
        .audio_codec = stream->audio_codec,
        .metadata = stream->metadata,
        .bytes = stream->bytes,
        .video_frames = stream->video_frames,
        .audio_frames = stream->audio_frames,
        .frames_dropped = stream->frames_dropped,
        .bits_per_second = stream->bits_per_second,
        .players = stream->player_count,
        .merge_window_ms = options_merge_window(worker->options, stream->name, NULL),
        .sends = stream->sends,
        .blocks_held = stream->blocks_held,
        .gop_bytes = stream->gop.bytes,
        .gop_frames = stream->gop.count,
    };
    memcpy(to->name, stream->name, sizeof to->name);
}

static void add_stream(struct stream *stream, void *user) {
    const struct filling *filling = user;
    struct worker_snapshot *part = filling->part;
    part->live += stream->live;
    part->bits_per_second += stream->bits_per_second;
    part->frames += stream->live ? stream->video_frames + stream->audio_frames : 0;
    for (const struct player *player = stream->players; part->players && player; player = player->next)
        add_player(part, player);
    if (part->streams)
        fill_stream(filling->worker, stream, &part->streams[part->stream_count]);
    part->stream_count++;
}

static void add_pull(const struct pull *pull, void *user) {
    const struct filling *filling = user;
    const struct pull_machine *machine = &pull->machine;
    uint64_t now = worker_now(filling->worker);
    struct pull_snapshot *to = &filling->part->pulls[filling->part->pull_count++];
    *to = (struct pull_snapshot){
        .state = pull_state_name(machine->state),
        .on_demand = machine->on_demand,
        .waits = machine->state == PULL_BACKOFF,
        .state_ms = now - machine->since,
        .retry_ms = machine->retry_at > now ? machine->retry_at - now : 0,
        .failures = machine->failures,
    };
    snprintf(to->name, sizeof to->name, "%s", pull->option->name);
    snprintf(to->from, sizeof to->from, "%s", pull->target.place);
    snprintf(to->reason, sizeof to->reason, "%s", pull->reason);
}

static void count_players(struct stream *stream, void *user) {
    size_t *count = user;
    *count += stream->player_count;
}

static void count_pull(const struct pull *pull, void *user) {
    size_t *count = user;
    (void)pull;
    ++*count;
}

/* Room for a list, where it is wanted; at least for one, so that NULL means that it is not. */
static void *make_list(struct filling *filling, unsigned which, size_t count, size_t size, bool *failed) {
    void *list = filling->what & which ? calloc(count + 1, size) : NULL;
    *failed |= filling->what & which && !list;
    return list;
}

/* On the worker's thread. False where memory is short. */
static bool fill(struct worker *worker, unsigned what, struct worker_snapshot *part) {
    struct filling filling = {worker, what, part};
    size_t players = 0, pulls = 0;
    bool failed = false;
    registry_each(worker->registry, count_players, &players);
    pulls_each(worker->pulls, count_pull, &pulls);
    *part = (struct worker_snapshot){.connections = worker->session_count};
    part->streams = make_list(&filling, SNAPSHOT_STREAMS, registry_count(worker->registry), sizeof *part->streams,
                              &failed);
    part->players = make_list(&filling, SNAPSHOT_PLAYERS, players, sizeof *part->players, &failed);
    part->pulls = make_list(&filling, SNAPSHOT_PULLS, pulls, sizeof *part->pulls, &failed);
    sluice_pool_get_stats(worker->pool, &part->pool);
    sluice_loop_get_stats(worker->loop, &part->loop);
    snprintf(part->features, sizeof part->features, "%s", part->loop.features);
    registry_each(worker->registry, add_stream, &filling);
    part->player_count = players;
    if (part->pulls)
        pulls_each(worker->pulls, add_pull, &filling);
    return !failed;
}

static void free_question(struct question *question) {
    for (uint32_t i = 0; i < question->snapshot.worker_count && question->snapshot.workers; i++) {
        free(question->snapshot.workers[i].streams);
        free(question->snapshot.workers[i].players);
        free(question->snapshot.workers[i].pulls);
    }
    free(question->snapshot.workers);
    free(question);
}

static void answer(void *user) {
    struct question *question = user;
    struct server *server = question->server;
    question->call(atomic_load(&question->failed) ? NULL : &question->snapshot, question->user);
    free_question(question);
    server_release(server);
}

static void ask(void *user) {
    const struct ask *one = user;
    struct question *question = one->question;
    struct worker *worker = one->worker;
    if (!fill(worker, question->what, &question->snapshot.workers[worker->index]))
        atomic_store(&question->failed, true);
    if (atomic_fetch_sub(&question->left, 1) > 1)
        return;
    if (server_is_over(question->server)) {
        /* Nobody is there to be told. */
        free_question(question);
        return;
    }
    question->snapshot.uptime_ms = worker_now(worker) - server_started_at(question->server);
    if (!question->home || question->home == worker)
        answer(question);
    else
        sluice_loop_post_call(question->home->loop, &question->answer, answer, question);
}

static struct question *make_question(struct server *server) {
    uint32_t count = server_worker_count(server);
    struct question *question = calloc(1, sizeof *question + count * sizeof *question->asks);
    if (!question)
        return NULL;
    question->server = server;
    question->snapshot.worker_count = count;
    question->snapshot.workers = calloc(count, sizeof *question->snapshot.workers);
    atomic_init(&question->left, count);
    if (!question->snapshot.workers) {
        free_question(question);
        return NULL;
    }
    return question;
}

int server_snapshot(struct server *server, unsigned what, struct worker *home, snapshot_fn *call, void *user) {
    struct question *question = make_question(server);
    if (!question)
        return -ENOMEM;
    if (!server_hold(server)) {
        free_question(question);
        return -ESHUTDOWN;
    }
    question->what = what;
    question->home = home;
    question->call = call;
    question->user = user;
    uint32_t count = question->snapshot.worker_count;
    for (uint32_t i = 0; i < count; i++) {
        struct worker *worker = server_worker(server, i);
        question->asks[i] = (struct ask){.question = question, .worker = worker};
    }
    /* The own part last: with it the question may be gone. */
    for (uint32_t i = 0; i < count; i++)
        if (question->asks[i].worker != home)
            sluice_loop_post_call(question->asks[i].worker->loop, &question->asks[i].call, ask, &question->asks[i]);
    if (home)
        ask(&question->asks[home->index]);
    return 0;
}
