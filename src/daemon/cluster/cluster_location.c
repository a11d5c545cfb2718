#include <errno.h>
#include <string.h>

#include "daemon/cluster/cluster_state.h"

bool cluster_location_is_above(const struct cluster_location *location, uint64_t epoch, uint64_t incarnation) {
    return location->epoch > epoch || (location->epoch == epoch && location->incarnation > incarnation);
}

static bool is_self(const struct cluster_node *node, const struct cluster_location *location) {
    return location->incarnation == node->incarnation && strcmp(location->node, node->name) == 0;
}

bool cluster_location_get(const struct cluster_node *node, const struct cluster_stream *stream,
                          struct cluster_location *ret_location) {
    *ret_location = (struct cluster_location){0};
    if (stream->hold != CLUSTER_HOLD_NONE) {
        strcpy(ret_location->node, node->name);
        strcpy(ret_location->address, node->address);
        ret_location->is_secure = node->is_secure;
        ret_location->incarnation = node->incarnation;
        ret_location->epoch = stream->epoch;
        return true;
    }
    const struct cluster_peer *peer = stream->at ? &stream->at->peer : NULL;
    if (stream->known != CLUSTER_AT || !peer || !peer->is_alive || peer->incarnation != stream->location.incarnation)
        return false;
    *ret_location = stream->location;
    return true;
}

void cluster_location_set(struct cluster_node *node, struct cluster_stream *stream,
                          const struct cluster_location *location) {
    bool is_somewhere = location->node[0] && !is_self(node, location);
    stream->known = is_somewhere ? CLUSTER_AT : CLUSTER_ABSENT;
    stream->known_at = node->now;
    stream->known_in = node->generation;
    stream->location = *location;
    cluster_peer_attach(&node->peers, is_somewhere ? cluster_peers_get(&node->peers, location->node) : NULL, stream);
}

void cluster_location_clear(struct cluster_node *node, struct cluster_stream *stream) {
    stream->known = CLUSTER_UNKNOWN;
    stream->location = (struct cluster_location){0};
    cluster_peer_attach(&node->peers, NULL, stream);
}

void cluster_location_report(struct cluster_node *node, struct cluster_stream *stream) {
    struct cluster_location location;
    if (stream->hold != CLUSTER_HOLD_NONE || !stream->is_wanted)
        return;
    bool is_somewhere = cluster_location_get(node, stream, &location);
    if (location.incarnation == stream->told_incarnation && location.epoch == stream->told_epoch)
        return;
    stream->told_incarnation = location.incarnation;
    stream->told_epoch = location.epoch;
    node->calls.changed(node->user, stream->name, is_somewhere ? CLUSTER_MOVED : CLUSTER_GONE, &location);
}

static void answer_all(struct cluster_node *node, struct cluster_stream *stream) {
    struct cluster_location location;
    struct cluster_job *job;
    cluster_location_get(node, stream, &location);
    while ((job = cluster_jobs_take(&stream->locates))) {
        job->location = location;
        /* This node's own is no change that is reported; and an operator is not the worker. */
        if (stream->hold == CLUSTER_HOLD_NONE && job->question == CLUSTER_LOCATE) {
            stream->told_incarnation = location.incarnation;
            stream->told_epoch = location.epoch;
        }
        cluster_node_answer(node, job, 0);
    }
}

void cluster_location_refuse(struct cluster_node *node, struct cluster_stream *stream, int error) {
    struct cluster_job *job;
    while ((job = cluster_jobs_take(&stream->locates)))
        cluster_node_answer(node, job, error);
    cluster_node_settle(node, stream);
}

void cluster_location_decide(struct cluster_node *node, struct cluster_stream *stream) {
    if (stream->hold == CLUSTER_HOLD_NONE && stream->known == CLUSTER_UNKNOWN) {
        cluster_location_refuse(node, stream, -EHOSTDOWN);
        return;
    }
    answer_all(node, stream);
    cluster_node_settle(node, stream);
}

/* ---- Lookups ---- */

static void leave_queue(struct cluster_node *node, struct cluster_stream *stream) {
    if (stream->is_in_finds)
        TAILQ_REMOVE(&node->finds, stream, of_finds);
    stream->is_in_finds = false;
}

static void enter_queue(struct cluster_node *node, struct cluster_stream *stream, bool is_next) {
    leave_queue(node, stream);
    if (stream->is_finding || (!stream->is_wanted && !stream->is_doubtful))
        return;
    stream->is_in_finds = true;
    if (is_next)
        TAILQ_INSERT_HEAD(&node->finds, stream, of_finds);
    else
        TAILQ_INSERT_TAIL(&node->finds, stream, of_finds);
}

void cluster_location_check(struct cluster_node *node, struct cluster_stream *stream, bool once) {
    stream->is_doubtful |= once;
    stream->must_find = true;
    enter_queue(node, stream, true);
    cluster_node_settle(node, stream);
}

static bool is_due(const struct cluster_node *node, const struct cluster_stream *stream) {
    return stream->must_find || stream->found_in != node->generation ||
           node->now - stream->found_at >= CLUSTER_REFRESH_MS;
}

static void note_found(struct cluster_node *node, struct cluster_stream *stream) {
    stream->found_at = node->now;
    stream->found_in = node->generation;
    stream->must_find = false;
}

/* Of a record with its streams. */
static bool send_finds(struct cluster_node *node, struct cluster_record *record) {
    struct cluster_item items[CLUSTER_BATCH];
    struct cluster_stream *streams[CLUSTER_BATCH];
    size_t count = record->count;
    memset(items, 0, count * sizeof items[0]);
    for (size_t i = 0; i < count; i++) {
        streams[i] = record->items[i].stream;
        items[i].stream = streams[i]->name;
    }
    if (!cluster_node_send(node, record,
                           &(struct cluster_command){.verb = CLUSTER_FIND, .items = items, .count = count}))
        return false;
    for (size_t i = 0; i < count; i++) {
        leave_queue(node, streams[i]);
        streams[i]->is_finding = true;
        streams[i]->has_heard = false;
        streams[i]->must_find = false;
        streams[i]->in_flight++;
        cluster_node_settle(node, streams[i]);
    }
    return true;
}

static bool send_one(struct cluster_node *node, struct cluster_stream *stream) {
    struct cluster_record *record = cluster_commands_add(&node->commands, CLUSTER_FOR_LOCATE, 1);
    if (!record)
        return false;
    record->items[0].stream = stream;
    return send_finds(node, record);
}

/* The next ones that are due; what this node has needs no lookup. */
static size_t collect(struct cluster_node *node, struct cluster_stream *streams[CLUSTER_BATCH]) {
    struct cluster_stream *stream = TAILQ_FIRST(&node->finds), *next;
    size_t count = 0;
    for (; stream && count < CLUSTER_BATCH && is_due(node, stream); stream = next) {
        next = TAILQ_NEXT(stream, of_finds);
        if (stream->hold == CLUSTER_HOLD_NONE || stream->is_doubtful) {
            streams[count++] = stream;
            continue;
        }
        note_found(node, stream);
        enter_queue(node, stream, false);
    }
    return count;
}

void cluster_location_pump(struct cluster_node *node) {
    while (cluster_node_can_ask(node) && node->commands.of[CLUSTER_FOR_FINDS] < CLUSTER_BATCHES) {
        struct cluster_stream *streams[CLUSTER_BATCH];
        size_t count = collect(node, streams);
        struct cluster_record *record = count ? cluster_commands_add(&node->commands, CLUSTER_FOR_FINDS, count) : NULL;
        if (!record)
            return;
        for (size_t i = 0; i < count; i++)
            record->items[i].stream = streams[i];
        if (!send_finds(node, record))
            return;
    }
}

/* ---- Questions ---- */

/* Whether what is known is an answer: the engine's own, of a moment ago; or the best there is. */
static bool is_known(const struct cluster_node *node, const struct cluster_stream *stream, uint64_t epoch) {
    struct cluster_location location;
    if (stream->hold != CLUSTER_HOLD_NONE)
        return true;
    if (stream->known == CLUSTER_UNKNOWN || stream->known_in != node->generation ||
        node->now - stream->known_at >= CLUSTER_NEGATIVE_MS)
        return false;
    return !cluster_location_get(node, stream, &location) || location.epoch >= epoch;
}

void cluster_location_ask(struct cluster_node *node, struct cluster_job *job) {
    struct cluster_stream *stream = cluster_node_stream(node, job->stream);
    if (!stream) {
        cluster_node_answer(node, job, -EHOSTDOWN);
        return;
    }
    if (!stream->is_wanted && job->question == CLUSTER_LOCATE) {
        /* It has never been looked up, or events have kept it right: is_known() decides. */
        stream->is_wanted = true;
        note_found(node, stream);
        stream->told_incarnation = stream->told_epoch = 0;
        enter_queue(node, stream, false);
    }
    if (!stream->locates.first)
        stream->locate_since = node->now;
    cluster_jobs_add(&stream->locates, job);
    bool is_down = node->is_settled && !node->is_connected;
    if (is_known(node, stream, job->epoch))
        answer_all(node, stream);
    else if (is_down || (cluster_node_can_ask(node) && !stream->is_finding && !send_one(node, stream)))
        cluster_location_decide(node, stream);
    cluster_node_settle(node, stream);
}

void cluster_location_forget(struct cluster_node *node, struct cluster_job *job) {
    struct cluster_stream *stream = cluster_streams_find(&node->streams, job->stream);
    if (stream) {
        stream->is_wanted = false;
        enter_queue(node, stream, stream->must_find);
        cluster_node_settle(node, stream);
    }
    cluster_node_answer(node, job, 0);
}

void cluster_location_find_node(struct cluster_node *node, struct cluster_job *job) {
    const struct cluster_peer_entry *entry = cluster_peers_find(&node->peers, job->location.node);
    /* Streams alone have no address of their node. */
    bool is_there = entry && entry->peer.is_alive && entry->peer.address[0];
    if (is_there) {
        strcpy(job->location.address, entry->peer.address);
        job->location.is_secure = entry->peer.is_secure;
        job->location.incarnation = entry->peer.incarnation;
    }
    cluster_node_answer(node, job, is_there ? 0 : -ENOENT);
}

void cluster_location_tick(struct cluster_node *node, struct cluster_stream *stream) {
    if (!stream->locates.first || stream->is_finding)
        return;
    if (cluster_node_can_ask(node) && send_one(node, stream))
        return;
    if (node->now - stream->locate_since >= CLUSTER_FIRST_MS)
        cluster_location_decide(node, stream);
}

/* ---- Replies ---- */

/* What the engine says of a stream, and of its node's lease. */
static void found(struct cluster_node *node, struct cluster_stream *stream, const struct cluster_item_reply *item) {
    const struct cluster_location *location = &item->location;
    bool has_heard = stream->has_heard;
    stream->is_doubtful = false;
    cluster_node_seen(node, stream, location->epoch);
    if (is_self(node, location)) {
        if (stream->hold == CLUSTER_HOLD_NONE && !stream->wait_count)
            cluster_claim_drop(node, stream, location->epoch);
    } else if (stream->hold != CLUSTER_HOLD_NONE) {
        cluster_claim_check(node, stream);
    }
    if (stream->hold != CLUSTER_HOLD_NONE)
        return;
    /* An event that has come since the question knows better, unless the engine has gone back. */
    if (!has_heard || cluster_location_is_above(location, stream->location.epoch, stream->location.incarnation))
        cluster_location_set(node, stream, location);
    if (stream->at && item->lease_incarnation && strcmp(stream->location.node, location->node) == 0 &&
        cluster_peer_seen(stream->at, item->lease_incarnation, item->lease_beat, node->now))
        cluster_node_peer_changed(node, stream->at);
}

void cluster_location_replied(struct cluster_node *node, struct cluster_record *record,
                              const struct cluster_reply *reply) {
    bool is_answer = !reply->error && reply->count == record->count;
    for (size_t i = 0; i < record->count; i++) {
        struct cluster_stream *stream = record->items[i].stream;
        stream->in_flight--;
        stream->is_finding = false;
        note_found(node, stream);
        if (is_answer) {
            found(node, stream, &reply->items[i]);
            answer_all(node, stream);
        } else {
            stream->found_at -= CLUSTER_REFRESH_MS - CLUSTER_AGAIN_MS;
            cluster_location_decide(node, stream);
        }
        cluster_location_report(node, stream);
        enter_queue(node, stream, !is_answer);
        cluster_node_settle(node, stream);
    }
}

void cluster_location_undo(struct cluster_node *node, struct cluster_record *record) {
    for (size_t i = 0; i < record->count; i++) {
        struct cluster_stream *stream = record->items[i].stream;
        stream->in_flight--;
        stream->is_finding = false;
        stream->must_find = true;
        enter_queue(node, stream, true);
        cluster_node_settle(node, stream);
    }
}
