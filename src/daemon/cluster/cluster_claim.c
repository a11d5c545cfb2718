#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster_state.h"

/* ---- What this node has ---- */

static void leave_own(struct cluster_node *node, struct cluster_stream *stream) {
    if (stream->is_in_own)
        TAILQ_REMOVE(&node->own, stream, of_own);
    stream->is_in_own = false;
}

static void enter_own(struct cluster_node *node, struct cluster_stream *stream, bool is_next) {
    leave_own(node, stream);
    if (stream->is_checking)
        return;
    stream->is_in_own = true;
    if (is_next)
        TAILQ_INSERT_HEAD(&node->own, stream, of_own);
    else
        TAILQ_INSERT_TAIL(&node->own, stream, of_own);
}

static void leave_drops(struct cluster_node *node, struct cluster_stream *stream) {
    if (stream->is_in_drops)
        TAILQ_REMOVE(&node->drops, stream, of_drops);
    stream->is_in_drops = false;
}

void cluster_claim_forget(struct cluster_node *node, struct cluster_stream *stream) {
    leave_drops(node, stream);
}

static void enter_drops(struct cluster_node *node, struct cluster_stream *stream) {
    leave_drops(node, stream);
    stream->is_in_drops = true;
    TAILQ_INSERT_TAIL(&node->drops, stream, of_drops);
}

static void note_checked(struct cluster_node *node, struct cluster_stream *stream) {
    stream->checked_at = node->now;
    stream->checked_in = node->generation;
}

/* The stream is this node's, with that epoch; publishers that it has already hear of a new one. */
static void hold(struct cluster_node *node, struct cluster_stream *stream, enum cluster_hold hold, uint64_t epoch) {
    struct cluster_location location;
    bool is_told = stream->hold != CLUSTER_HOLD_NONE && stream->users && epoch > stream->epoch;
    if (stream->hold == CLUSTER_HOLD_NONE) {
        stream->claim++;
        stream->floor = 0;
        stream->told_incarnation = stream->told_epoch = 0;
    }
    stream->hold = hold;
    stream->epoch = epoch;
    stream->had_last = true;
    stream->must_check = hold == CLUSTER_HOLD_WORD;
    note_checked(node, stream);
    cluster_node_seen(node, stream, epoch);
    cluster_location_clear(node, stream);
    leave_drops(node, stream);
    enter_own(node, stream, stream->must_check);
    if (!is_told)
        return;
    cluster_location_get(node, stream, &location);
    node->calls.changed(node->user, stream->name, CLUSTER_EPOCH, &location);
}

static void unhold(struct cluster_node *node, struct cluster_stream *stream) {
    stream->hold = CLUSTER_HOLD_NONE;
    stream->must_check = false;
    stream->floor = 0;
    leave_own(node, stream);
}

static void answer_asserts(struct cluster_node *node, struct cluster_stream *stream, int error) {
    struct cluster_job *job;
    while ((job = cluster_jobs_take(&stream->asserts))) {
        job->location.epoch = stream->epoch;
        cluster_node_answer(node, job, error);
    }
}

void cluster_claim_lose(struct cluster_node *node, struct cluster_stream *stream,
                        const struct cluster_location *location) {
    struct cluster_location visible;
    stream->lost += stream->users;
    stream->lost_epoch = stream->epoch;
    stream->users = 0;
    stream->had_last = false;
    unhold(node, stream);
    answer_asserts(node, stream, -ESTALE);
    if (location) {
        cluster_node_seen(node, stream, location->epoch);
        cluster_location_set(node, stream, location);
        stream->has_heard = true;
    }
    cluster_location_get(node, stream, &visible);
    stream->told_incarnation = visible.incarnation;
    stream->told_epoch = visible.epoch;
    node->calls.changed(node->user, stream->name, CLUSTER_SUPERSEDED, &visible);
    cluster_node_settle(node, stream);
}

void cluster_claim_check(struct cluster_node *node, struct cluster_stream *stream) {
    stream->must_check = true;
    enter_own(node, stream, true);
}

void cluster_claim_drop(struct cluster_node *node, struct cluster_stream *stream, uint64_t epoch) {
    if (node->state == CLUSTER_NODE_REPLACED || node->state == CLUSTER_NODE_LEFT)
        return;
    stream->drop_epoch = epoch;
    stream->drop_keep_ms = 0;
    enter_drops(node, stream);
}

/* The last publisher has left. */
static void give_up(struct cluster_node *node, struct cluster_stream *stream, const struct cluster_job *job) {
    unhold(node, stream);
    answer_asserts(node, stream, -ESTALE);
    cluster_location_set(node, stream, &(struct cluster_location){.epoch = stream->epoch});
    cluster_claim_drop(node, stream, stream->epoch);
    stream->drop_keep_ms = job->keep_ms;
    stream->drop_host = job->host;
}

void cluster_claim_release(struct cluster_node *node, struct cluster_job *job) {
    struct cluster_stream *stream = cluster_streams_find(&node->streams, job->stream);
    if (stream) {
        if (stream->lost > 0 && job->epoch <= stream->lost_epoch)
            stream->lost--;
        else if (stream->users > 0 && --stream->users == 0 && stream->hold != CLUSTER_HOLD_NONE)
            give_up(node, stream, job);
        cluster_node_settle(node, stream);
    }
    cluster_node_answer(node, job, 0);
}

/* ---- Claims ---- */

static void answer(struct cluster_node *node, struct cluster_stream *stream, struct cluster_wait *wait, int error) {
    struct cluster_job *job = wait->job;
    TAILQ_REMOVE(&stream->waits, wait, link);
    stream->wait_count--;
    if (stream->attempt == wait)
        stream->attempt = NULL;
    free(wait);
    if (!error) {
        stream->users++;
        stream->host = job->host;
        job->location.epoch = stream->epoch;
    }
    cluster_node_answer(node, job, error);
}

static void answer_all(struct cluster_node *node, struct cluster_stream *stream, int error) {
    while (!TAILQ_EMPTY(&stream->waits))
        answer(node, stream, TAILQ_FIRST(&stream->waits), error);
}

void cluster_claim_refuse(struct cluster_node *node, struct cluster_stream *stream, int error) {
    answer_all(node, stream, error);
    answer_asserts(node, stream, error);
    cluster_node_settle(node, stream);
}

/* The highest epoch that claims which wait have seen. */
static uint64_t most_of_waits(const struct cluster_stream *stream) {
    const struct cluster_wait *wait;
    uint64_t most = 0;
    TAILQ_FOREACH(wait, &stream->waits, link) {
        most = wait->job->epoch > most ? wait->job->epoch : most;
    }
    return most;
}

static uint64_t floor_of(const struct cluster_stream *stream) {
    uint64_t most = most_of_waits(stream);
    return most > stream->highest ? most : stream->highest;
}

/* Above all that has been seen, and about the engine's time, so that it is above what others do not
 * tell; with some digits that other nodes hardly have in the same millisecond. */
static uint64_t word_of(const struct cluster_node *node, const struct cluster_stream *stream) {
    int64_t offset = node->engine_offset_ms == INT64_MIN ? node->clock_offset_ms : node->engine_offset_ms;
    int64_t time_ms = (int64_t)node->now + offset;
    uint64_t floor = floor_of(stream);
    uint64_t epoch = (node->highest > floor ? node->highest : floor) + 1;
    /* A clock that is far ahead does not use up all epochs. */
    if (time_ms > 0 && (uint64_t)time_ms < CLUSTER_EPOCH_MAX / 2000 && epoch < (uint64_t)time_ms * 1000)
        epoch = (uint64_t)time_ms * 1000 + node->random % 1000;
    return epoch;
}

void cluster_claim_decide(struct cluster_node *node, struct cluster_stream *stream) {
    bool has = stream->hold != CLUSTER_HOLD_NONE;
    uint64_t epoch = word_of(node, stream);
    int error = 0;
    if (TAILQ_EMPTY(&stream->waits))
        return;
    if ((node->refuses_when_down && !has && !stream->had_last) || epoch > CLUSTER_EPOCH_MAX)
        error = -EHOSTDOWN;
    else if (!has || most_of_waits(stream) >= stream->epoch)
        hold(node, stream, CLUSTER_HOLD_WORD, epoch);
    answer_all(node, stream, error);
    cluster_node_settle(node, stream);
}

void cluster_claim_ask(struct cluster_node *node, struct cluster_job *job) {
    if (node->state == CLUSTER_NODE_REPLACED || node->state == CLUSTER_NODE_LEFT) {
        cluster_node_answer(node, job, -ESHUTDOWN);
        return;
    }
    struct cluster_stream *stream = cluster_node_stream(node, job->stream);
    if (stream && stream->wait_count >= CLUSTER_CLAIMS_MAX) {
        cluster_node_answer(node, job, -EEXIST);
        return;
    }
    struct cluster_wait *wait = stream ? calloc(1, sizeof *wait) : NULL;
    if (!wait) {
        cluster_node_answer(node, job, -ENOMEM);
        return;
    }
    wait->job = job;
    wait->since = node->now;
    TAILQ_INSERT_TAIL(&stream->waits, wait, link);
    stream->wait_count++;
    /* Another publisher of this node has it: which one stays is decided there. */
    if (stream->hold != CLUSTER_HOLD_NONE && job->epoch < stream->epoch)
        answer(node, stream, wait, 0);
    else if (node->is_settled && !node->is_connected)
        cluster_claim_decide(node, stream);
    else
        cluster_claim_try(node, stream);
    cluster_node_settle(node, stream);
}

static enum cluster_take way_of(const struct cluster_node *node, const struct cluster_wait *wait) {
    switch (wait->job->same_name) {
    case SAME_NAME_TAKE_OVER:
        return CLUSTER_TAKE_OVER;
    case SAME_NAME_RESUME:
        return node->now - wait->since >= PUBLISH_LOCK_MS ? CLUSTER_TAKE_FROM_HOST : CLUSTER_TAKE_FREE;
    case SAME_NAME_REFUSE:
        break;
    }
    return CLUSTER_TAKE_FREE;
}

static int rank_of(enum cluster_take way) {
    return way == CLUSTER_TAKE_OVER ? 2 : way == CLUSTER_TAKE_FROM_HOST;
}

/* The one that may most; of those, the one that has been tried least. */
static struct cluster_wait *choose(const struct cluster_node *node, const struct cluster_stream *stream) {
    struct cluster_wait *best = NULL, *wait;
    TAILQ_FOREACH(wait, &stream->waits, link) {
        int rank = rank_of(way_of(node, wait)), best_rank = best ? rank_of(way_of(node, best)) : -1;
        if (rank > best_rank || (rank == best_rank && wait->attempts < best->attempts))
            best = wait;
    }
    return best;
}

/* Whether the node that has it is dead by its beat: the lease that the engine still has does not
 * count. */
static bool holder_is_dead(const struct cluster_stream *stream) {
    const struct cluster_peer *peer = stream->at ? &stream->at->peer : NULL;
    return peer && stream->holder_incarnation && !peer->is_alive && peer->incarnation == stream->holder_incarnation &&
           peer->beat == stream->holder_beat;
}

static bool send_claim(struct cluster_node *node, struct cluster_stream *stream, struct cluster_wait *wait) {
    struct cluster_record *record = cluster_commands_add(&node->commands, CLUSTER_FOR_CLAIM, 1);
    struct cluster_item item = {
        .stream = stream->name,
        .take = way_of(node, wait),
        .host = wait->job->host,
        .epoch = stream->hold != CLUSTER_HOLD_NONE ? stream->epoch : 0,
        .floor = floor_of(stream),
        .asks = wait->attempts % 4 == 1,
    };
    if (!record)
        return false;
    if (holder_is_dead(stream)) {
        item.dead_incarnation = stream->holder_incarnation;
        item.dead_beat = stream->holder_beat;
    }
    record->items[0] = (struct cluster_record_item){.stream = stream, .claim = stream->claim, .floor = item.floor};
    if (!cluster_node_send(node, record, &(struct cluster_command){.verb = CLUSTER_TAKE, .items = &item, .count = 1}))
        return false;
    wait->attempts++;
    wait->tried_by_host |= item.take == CLUSTER_TAKE_FROM_HOST;
    stream->is_claiming = true;
    stream->attempt = wait;
    stream->tried_at = node->now;
    stream->in_flight++;
    return true;
}

static bool send_drops(struct cluster_node *node);

/* What is to be released is released before it is claimed: the engine does both in that order. */
static bool is_dropped(struct cluster_node *node, struct cluster_stream *stream) {
    if (!stream->is_in_drops)
        return true;
    leave_drops(node, stream);
    stream->is_in_drops = true;
    TAILQ_INSERT_HEAD(&node->drops, stream, of_drops);
    return send_drops(node);
}

void cluster_claim_try(struct cluster_node *node, struct cluster_stream *stream) {
    struct cluster_wait *wait = choose(node, stream);
    if (!wait || stream->is_claiming || !cluster_node_can_claim(node))
        return;
    /* If too much is under way, it waits: this node's word could take what another one has. */
    if (is_dropped(node, stream))
        (void)send_claim(node, stream, wait);
}

void cluster_claim_tick(struct cluster_node *node, struct cluster_stream *stream) {
    if (TAILQ_EMPTY(&stream->waits) || stream->is_claiming)
        return;
    const struct cluster_wait *wait = TAILQ_FIRST(&stream->waits);
    uint64_t waited = node->now - wait->since;
    if (cluster_node_can_claim(node) && (wait->attempts > 0 || waited < (uint64_t)2 * CLUSTER_LEASE_MS)) {
        if (node->now - stream->tried_at >= CLUSTER_RETRY_MS || wait->attempts == 0)
            cluster_claim_try(node, stream);
    } else if (waited >= (wait->attempts ? (uint64_t)2 * CLUSTER_LEASE_MS : (uint64_t)CLUSTER_FIRST_MS)) {
        cluster_claim_decide(node, stream);
    }
    cluster_node_settle(node, stream);
}

/* ---- Replies to claims ---- */

/* Another node has it: those are refused that have waited for its end in vain. */
static void held(struct cluster_node *node, struct cluster_stream *stream, const struct cluster_item_reply *item) {
    struct cluster_wait *wait = TAILQ_FIRST(&stream->waits), *next;
    cluster_location_set(node, stream, &item->location);
    if (stream->at && item->lease_incarnation &&
        cluster_peer_seen(stream->at, item->lease_incarnation, item->lease_beat, node->now))
        cluster_node_peer_changed(node, stream->at);
    stream->has_heard = true;
    stream->had_last = false;
    stream->holder_incarnation = item->lease_incarnation;
    stream->holder_beat = item->lease_beat;
    for (; wait; wait = next) {
        next = TAILQ_NEXT(wait, link);
        uint64_t waited = node->now - wait->since;
        if (!wait->incarnation) {
            wait->incarnation = item->lease_incarnation;
            wait->beat = item->lease_beat;
        }
        bool lives = item->lease_incarnation != wait->incarnation || item->lease_beat != wait->beat;
        bool is_late = waited >= CLUSTER_LEASE_MS + CLUSTER_RETRY_MS;
        bool has_tried = wait->job->same_name != SAME_NAME_RESUME || wait->tried_by_host;
        if (has_tried && (is_late || (lives && waited >= PUBLISH_LOCK_MS)))
            answer(node, stream, wait, -EEXIST);
    }
    cluster_location_report(node, stream);
}

static void granted(struct cluster_node *node, struct cluster_stream *stream, uint64_t epoch, uint64_t floor) {
    if (epoch <= floor) {
        cluster_claim_decide(node, stream); /* no answer to what was asked */
        return;
    }
    /* An event has come before the reply: another node has it by now, or the engine has forgotten
     * that. What is granted next is above it. */
    if (stream->highest > epoch) {
        cluster_claim_try(node, stream);
        return;
    }
    hold(node, stream, CLUSTER_HOLD_GRANTED, epoch);
    answer_all(node, stream, 0);
}

void cluster_claim_replied(struct cluster_node *node, struct cluster_record *record,
                           const struct cluster_reply *reply) {
    struct cluster_stream *stream = record->items[0].stream;
    struct cluster_wait *wait = stream->attempt;
    stream->in_flight--;
    stream->is_claiming = false;
    stream->attempt = NULL;
    if (node->state != CLUSTER_NODE_ONLINE || !wait) {
        cluster_node_settle(node, stream);
        return;
    }
    if (!reply->error && reply->lease != CLUSTER_LEASE_OURS) {
        cluster_node_lost_lease(node);
        cluster_node_settle(node, stream);
        return;
    }
    if (reply->error || reply->count != 1) {
        cluster_claim_decide(node, stream);
        cluster_node_settle(node, stream);
        return;
    }
    const struct cluster_item_reply *item = &reply->items[0];
    switch (item->result) {
    case CLUSTER_GRANTED:
        granted(node, stream, item->location.epoch, record->items[0].floor);
        break;
    case CLUSTER_HELD:
        cluster_node_seen(node, stream, item->location.epoch);
        if (stream->hold == CLUSTER_HOLD_NONE)
            held(node, stream, item);
        else
            cluster_claim_check(node, stream);
        break;
    case CLUSTER_RESERVED:
        cluster_node_seen(node, stream, item->location.epoch);
        answer(node, stream, wait, -EBUSY);
        cluster_claim_try(node, stream);
        break;
    }
    cluster_node_settle(node, stream);
}

/* ---- Assertions ---- */

void cluster_claim_assert(struct cluster_node *node, struct cluster_job *job) {
    struct cluster_stream *stream = cluster_streams_find(&node->streams, job->stream);
    if (!stream || stream->hold == CLUSTER_HOLD_NONE) {
        /* Why was it asked? The engine may have a claim of this node that is none. */
        stream = stream ? stream : cluster_node_stream(node, job->stream);
        if (stream && !stream->wait_count)
            cluster_location_check(node, stream, true);
        cluster_node_answer(node, job, -ESTALE);
        return;
    }
    if (job->epoch > stream->epoch && !cluster_node_can_claim(node)) {
        cluster_node_answer(node, job, -EHOSTDOWN);
        return;
    }
    cluster_jobs_add(&stream->asserts, job);
    if (job->epoch <= stream->epoch) {
        answer_asserts(node, stream, 0);
        return;
    }
    if (job->epoch > stream->floor)
        stream->floor = job->epoch;
    cluster_claim_check(node, stream);
}

static bool is_due(const struct cluster_node *node, const struct cluster_stream *stream) {
    return stream->must_check || stream->checked_in != node->generation ||
           node->now - stream->checked_at >= CLUSTER_REFRESH_MS;
}

static bool send_checks(struct cluster_node *node) {
    struct cluster_item items[CLUSTER_BATCH];
    struct cluster_stream *streams[CLUSTER_BATCH], *stream = TAILQ_FIRST(&node->own);
    size_t count = 0;
    for (; stream && count < CLUSTER_BATCH && is_due(node, stream); stream = TAILQ_NEXT(stream, of_own)) {
        streams[count] = stream;
        items[count++] = (struct cluster_item){
            .stream = stream->name,
            .take = CLUSTER_TAKE_ASSERT,
            .host = stream->host,
            .epoch = stream->epoch,
            .floor = stream->floor,
        };
    }
    struct cluster_record *record = count ? cluster_commands_add(&node->commands, CLUSTER_FOR_CHECKS, count) : NULL;
    if (!record)
        return false;
    for (size_t i = 0; i < count; i++)
        record->items[i] = (struct cluster_record_item){.stream = streams[i], .claim = streams[i]->claim};
    if (!cluster_node_send(node, record,
                           &(struct cluster_command){.verb = CLUSTER_TAKE, .items = items, .count = count}))
        return false;
    for (size_t i = 0; i < count; i++) {
        leave_own(node, streams[i]);
        streams[i]->is_checking = true;
        streams[i]->must_check = false;
        streams[i]->in_flight++;
    }
    return true;
}

/* It is this node's still, with that epoch. */
static void confirmed(struct cluster_node *node, struct cluster_stream *stream, uint64_t epoch) {
    struct cluster_location location;
    struct cluster_jobs pending = stream->asserts;
    struct cluster_job *job;
    bool has_more = epoch > stream->epoch;
    stream->hold = CLUSTER_HOLD_GRANTED;
    if (has_more) {
        stream->epoch = epoch;
        cluster_node_seen(node, stream, epoch);
        cluster_location_get(node, stream, &location);
        node->calls.changed(node->user, stream->name, CLUSTER_EPOCH, &location);
    }
    stream->asserts = (struct cluster_jobs){0};
    stream->floor = 0;
    while ((job = cluster_jobs_take(&pending))) {
        if (job->epoch > stream->epoch) { /* it has come since */
            cluster_jobs_add(&stream->asserts, job);
            stream->floor = job->epoch > stream->floor ? job->epoch : stream->floor;
            stream->must_check = true;
            continue;
        }
        job->location.epoch = stream->epoch;
        cluster_node_answer(node, job, 0);
    }
}

static void checked(struct cluster_node *node, struct cluster_stream *stream, const struct cluster_reply *reply,
                    size_t i, bool is_answer) {
    const struct cluster_item_reply *item = is_answer ? &reply->items[i] : NULL;
    note_checked(node, stream);
    if (item && item->result == CLUSTER_GRANTED) {
        confirmed(node, stream, item->location.epoch);
    } else if (item && item->result == CLUSTER_HELD) {
        cluster_claim_lose(node, stream, &item->location);
        return;
    } else if (!reply->error && reply->lease != CLUSTER_LEASE_OURS) {
        stream->must_check = true; /* with the next lease */
    } else {
        stream->checked_at -= CLUSTER_REFRESH_MS - CLUSTER_AGAIN_MS;
        answer_asserts(node, stream, -EHOSTDOWN);
        enter_own(node, stream, true);
        return;
    }
    enter_own(node, stream, stream->must_check);
}

void cluster_claim_checked(struct cluster_node *node, struct cluster_record *record,
                           const struct cluster_reply *reply) {
    bool is_answer = !reply->error && reply->lease == CLUSTER_LEASE_OURS && reply->count == record->count;
    for (size_t i = 0; i < record->count; i++) {
        struct cluster_stream *stream = record->items[i].stream;
        stream->in_flight--;
        stream->is_checking = false;
        /* Another claim of the same name has been asserted by its own command. */
        if (stream->hold != CLUSTER_HOLD_NONE && stream->claim == record->items[i].claim)
            checked(node, stream, reply, i, is_answer);
        else if (stream->hold != CLUSTER_HOLD_NONE)
            enter_own(node, stream, stream->must_check);
        cluster_node_settle(node, stream);
    }
    if (!reply->error && reply->lease != CLUSTER_LEASE_OURS)
        cluster_node_lost_lease(node);
}

/* ---- Releases ---- */

static bool send_drops(struct cluster_node *node) {
    struct cluster_item items[CLUSTER_BATCH];
    struct cluster_stream *streams[CLUSTER_BATCH], *stream = TAILQ_FIRST(&node->drops);
    size_t count = 0;
    for (; stream && count < CLUSTER_BATCH; stream = TAILQ_NEXT(stream, of_drops)) {
        streams[count] = stream;
        items[count++] = (struct cluster_item){
            .stream = stream->name,
            .epoch = stream->drop_epoch,
            .keep_ms = stream->drop_keep_ms,
            .host = stream->drop_host,
        };
    }
    struct cluster_record *record = count ? cluster_commands_add(&node->commands, CLUSTER_FOR_DROPS, count) : NULL;
    if (!record)
        return false;
    for (size_t i = 0; i < count; i++)
        record->items[i] = (struct cluster_record_item){.stream = streams[i], .claim = streams[i]->claim};
    if (!cluster_node_send(node, record,
                           &(struct cluster_command){.verb = CLUSTER_DROP, .items = items, .count = count}))
        return false;
    for (size_t i = 0; i < count; i++) {
        leave_drops(node, streams[i]);
        streams[i]->in_flight++;
        cluster_node_settle(node, streams[i]);
    }
    return true;
}

/* Also if the engine has rejected it: another node that wants the stream asks, and it is released
 * again. */
void cluster_claim_dropped(struct cluster_node *node, struct cluster_record *record) {
    for (size_t i = 0; i < record->count; i++) {
        struct cluster_stream *stream = record->items[i].stream;
        stream->in_flight--;
        cluster_node_settle(node, stream);
    }
}

void cluster_claim_pump(struct cluster_node *node) {
    if (node->state != CLUSTER_NODE_ONLINE)
        return;
    while (node->commands.of[CLUSTER_FOR_DROPS] < CLUSTER_BATCHES && send_drops(node))
        ;
    while (cluster_node_can_claim(node) && node->commands.of[CLUSTER_FOR_CHECKS] < CLUSTER_BATCHES && send_checks(node))
        ;
}

/* ---- Without a reply ---- */

void cluster_claim_end_asserts(struct cluster_node *node) {
    struct cluster_stream *stream;
    TAILQ_FOREACH(stream, &node->own, of_own) {
        answer_asserts(node, stream, -EHOSTDOWN);
    }
}

static void undo_claim(struct cluster_node *node, struct cluster_stream *stream) {
    stream->is_claiming = false;
    stream->attempt = NULL;
    /* The engine may have granted it. */
    if (stream->hold == CLUSTER_HOLD_NONE)
        cluster_location_check(node, stream, true);
}

static void undo_check(struct cluster_node *node, struct cluster_stream *stream) {
    stream->is_checking = false;
    answer_asserts(node, stream, -EHOSTDOWN);
    if (stream->hold == CLUSTER_HOLD_NONE)
        return;
    stream->must_check = true;
    enter_own(node, stream, true);
}

static void undo_drop(struct cluster_node *node, struct cluster_stream *stream, uint32_t claim) {
    if (stream->hold == CLUSTER_HOLD_NONE && stream->claim == claim && !stream->is_in_drops)
        enter_drops(node, stream);
}

void cluster_claim_undo(struct cluster_node *node, struct cluster_record *record) {
    for (size_t i = 0; i < record->count; i++) {
        struct cluster_stream *stream = record->items[i].stream;
        stream->in_flight--;
        if (record->purpose == CLUSTER_FOR_CLAIM)
            undo_claim(node, stream);
        else if (record->purpose == CLUSTER_FOR_CHECKS)
            undo_check(node, stream);
        else
            undo_drop(node, stream, record->items[i].claim);
        cluster_node_settle(node, stream);
    }
}
