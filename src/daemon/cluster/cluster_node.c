#include "daemon/cluster/cluster_node.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster_state.h"

int cluster_node_new(const struct cluster_node_options *options, const struct cluster_node_calls *calls, void *user,
                     struct cluster_node **ret_node) {
    struct cluster_node *node = calloc(1, sizeof *node);
    if (!node)
        return -ENOMEM;
    strncpy(node->name, options->name, sizeof node->name - 1);
    strncpy(node->address, options->address, sizeof node->address - 1);
    node->is_secure = options->is_secure;
    node->refuses_when_down = options->refuses_when_down;
    node->random = options->random;
    node->calls = *calls;
    node->user = user;
    node->state = CLUSTER_NODE_OFFLINE;
    node->clock_offset_ms = options->clock_offset_ms;
    node->engine_offset_ms = INT64_MIN;
    TAILQ_INIT(&node->own);
    TAILQ_INIT(&node->finds);
    TAILQ_INIT(&node->drops);
    TAILQ_INIT(&node->waiting);
    cluster_peers_init(&node->peers);
    cluster_commands_init(&node->commands);
    int error = cluster_streams_init(&node->streams, options->most_streams);
    if (error)
        free(node);
    else
        *ret_node = node;
    return error;
}

void cluster_node_free(struct cluster_node *node) {
    struct cluster_record *record;
    if (!node)
        return;
    while ((record = cluster_commands_take_any(&node->commands)))
        free(record);
    cluster_streams_clear(&node->streams);
    cluster_peers_clear(&node->peers);
    free(node);
}

/* ---- For its parts ---- */

bool cluster_node_can_ask(const struct cluster_node *node) {
    return node->is_connected && node->state != CLUSTER_NODE_JOINING;
}

bool cluster_node_can_claim(const struct cluster_node *node) {
    return node->state == CLUSTER_NODE_ONLINE && node->has_lease;
}

static void set_now(struct cluster_node *node, uint64_t now) {
    if (!node->started_at)
        node->started_at = now;
    if (now > node->now)
        node->now = now;
}

static void set_state(struct cluster_node *node, enum cluster_node_state state) {
    node->state = state;
    node->calls.state_changed(node->user, state);
}

void cluster_node_answer(struct cluster_node *node, struct cluster_job *job, int error) {
    job->error = error;
    node->calls.answer(node->user, job);
}

struct cluster_stream *cluster_node_stream(struct cluster_node *node, const char *name) {
    struct cluster_stream *stream = cluster_streams_find(&node->streams, name), *excess;
    if (stream)
        return stream;
    excess = cluster_streams_excess(&node->streams);
    if (excess) {
        cluster_claim_forget(node, excess);
        cluster_location_clear(node, excess);
        cluster_streams_remove(&node->streams, excess);
    }
    return cluster_streams_add(&node->streams, name);
}

void cluster_node_settle(struct cluster_node *node, struct cluster_stream *stream) {
    bool waits = stream->wait_count || (stream->locates.first && !stream->is_finding);
    if (waits && !stream->is_in_waiting)
        TAILQ_INSERT_TAIL(&node->waiting, stream, of_waiting);
    else if (!waits && stream->is_in_waiting)
        TAILQ_REMOVE(&node->waiting, stream, of_waiting);
    stream->is_in_waiting = waits;
    cluster_streams_settle(&node->streams, stream);
}

bool cluster_node_send(struct cluster_node *node, struct cluster_record *record, struct cluster_command *command) {
    command->tag = record->tag;
    command->node = node->name;
    command->address = node->address;
    command->is_secure = node->is_secure;
    command->incarnation = command->verb == CLUSTER_RENEW && node->joins_anew ? 0 : node->incarnation;
    record->sent_at = node->now;
    if (node->calls.send(node->user, command))
        return true;
    free(cluster_commands_take(&node->commands, record->tag));
    return false;
}

void cluster_node_seen(struct cluster_node *node, struct cluster_stream *stream, uint64_t epoch) {
    if (epoch > stream->highest)
        stream->highest = epoch;
    if (epoch > node->highest)
        node->highest = epoch;
}

void cluster_node_peer_changed(struct cluster_node *node, struct cluster_peer_entry *entry) {
    struct cluster_stream *stream;
    LIST_FOREACH(stream, &entry->streams, of_peer) {
        cluster_location_report(node, stream);
    }
}

/* ---- The queue of what waits, which changes meanwhile ---- */

static void each_waiting(struct cluster_node *node,
                         void (*call)(struct cluster_node *node, struct cluster_stream *stream)) {
    struct cluster_stream *last = TAILQ_LAST(&node->waiting, cluster_stream_queue), *stream, *next;
    /* None is freed meanwhile; and none that comes later is looked at. */
    for (stream = TAILQ_FIRST(&node->waiting); stream; stream = stream == last ? NULL : next) {
        next = TAILQ_NEXT(stream, of_waiting);
        call(node, stream);
    }
}

static void decide(struct cluster_node *node, struct cluster_stream *stream) {
    cluster_claim_decide(node, stream);
    cluster_location_decide(node, stream);
}

static void try_again(struct cluster_node *node, struct cluster_stream *stream) {
    cluster_claim_try(node, stream);
    cluster_location_tick(node, stream);
    cluster_node_settle(node, stream);
}

static void tick_one(struct cluster_node *node, struct cluster_stream *stream) {
    cluster_claim_tick(node, stream);
    cluster_location_tick(node, stream);
    cluster_node_settle(node, stream);
}

static void refuse_claims(struct cluster_node *node, struct cluster_stream *stream) {
    cluster_claim_refuse(node, stream, -ESHUTDOWN);
}

static void pump(struct cluster_node *node) {
    cluster_claim_pump(node);
    cluster_location_pump(node);
}

/* ---- Bans ---- */

static void list_bans(struct cluster_node *node) {
    if (!node->wants_bans || !cluster_node_can_ask(node) || node->now < node->bans_at ||
        node->commands.of[CLUSTER_FOR_BANS] > 0)
        return;
    struct cluster_record *record = cluster_commands_add(&node->commands, CLUSTER_FOR_BANS, 0);
    node->bans_at = node->now + CLUSTER_RENEW_MS;
    if (record)
        cluster_node_send(node, record, &(struct cluster_command){.verb = CLUSTER_LIST_BANS});
}

static void listed_bans(struct cluster_node *node, const struct cluster_reply *reply) {
    /* An engine that has forgotten its bans says nothing of those that this node knows. */
    const bool is_truth = reply->bans_since == node->bans_since;
    bool is_whole = true;
    if (reply->error)
        return;
    node->wants_bans = false;
    node->bans_since = reply->bans_since;
    if (is_truth)
        node->calls.bans_step(node->user, CLUSTER_BANS_DOUBT);
    for (size_t i = 0; i < reply->ban_count; i++) {
        const struct cluster_ban *ban = &reply->bans[i];
        struct cluster_event event = {.verb = CLUSTER_EVENT_BAN, .host = ban->host, .ms = ban->ms};
        strcpy(event.stream, ban->stream);
        is_whole &= node->calls.told(node->user, &event);
    }
    if (is_truth && is_whole)
        node->calls.bans_step(node->user, CLUSTER_BANS_END);
}

/* ---- The lease ---- */

static void renew(struct cluster_node *node) {
    if (node->commands.of[CLUSTER_FOR_RENEWAL] > 0)
        return;
    struct cluster_record *record = cluster_commands_add(&node->commands, CLUSTER_FOR_RENEWAL, 0);
    node->renew_at = node->now + CLUSTER_RENEW_MS;
    if (!record)
        return;
    record->beat = ++node->beat;
    cluster_node_send(node, record,
                      &(struct cluster_command){
                          .verb = CLUSTER_RENEW, .random = node->random, .beat = node->beat, .load = node->load});
}

static void list(struct cluster_node *node, uint64_t cursor) {
    struct cluster_record *record = cluster_commands_add(&node->commands, CLUSTER_FOR_LIST, 0);
    if (record)
        cluster_node_send(node, record, &(struct cluster_command){.verb = CLUSTER_LIST, .cursor = cursor});
}

static void begin_list(struct cluster_node *node) {
    node->list_at = node->now + CLUSTER_RENEW_MS;
    if (node->commands.of[CLUSTER_FOR_LIST] > 0)
        return;
    node->list_round++;
    node->list_pages = 0;
    list(node, 0);
}

static void be_replaced(struct cluster_node *node) {
    if (node->state == CLUSTER_NODE_REPLACED || node->state == CLUSTER_NODE_LEFT)
        return;
    set_state(node, CLUSTER_NODE_REPLACED);
    node->has_lease = false;
    each_waiting(node, refuse_claims);
    while (!TAILQ_EMPTY(&node->drops))
        cluster_claim_forget(node, TAILQ_FIRST(&node->drops));
    for (size_t i = 0; i < node->streams.bucket_count; i++) {
        struct cluster_stream *stream;
        LIST_FOREACH(stream, &node->streams.buckets[i], of_bucket) {
            if (stream->hold != CLUSTER_HOLD_NONE)
                cluster_claim_lose(node, stream, NULL);
        }
    }
}

void cluster_node_lost_lease(struct cluster_node *node) {
    if (!node->has_lease)
        return;
    node->has_lease = false;
    if (node->state == CLUSTER_NODE_ONLINE)
        renew(node);
}

/* The engine's clock, as of the middle between question and answer. Whether it has jumped. */
static bool note_time(struct cluster_node *node, uint64_t sent_at, uint64_t engine_us) {
    int64_t before = node->engine_offset_ms;
    node->engine_offset_ms = (int64_t)(engine_us / 1000) - (int64_t)(sent_at + (node->now - sent_at) / 2);
    int64_t change = node->engine_offset_ms - before;
    return before != INT64_MIN && (change > CLUSTER_CLOCK_JUMP_MS || change < -CLUSTER_CLOCK_JUMP_MS);
}

/*
 * A newer incarnation has the lease. If it lives, this one has been replaced; but it may also have
 * died before what it had sent has arrived. Then its lease ends; or, if the engine's clock has gone
 * back, it does not, and this node joins anew, above it.
 */
static void meet_rival(struct cluster_node *node, const struct cluster_reply *reply) {
    bool is_known = reply->incarnation == node->rival_incarnation;
    bool lives = is_known && reply->last_beat != node->rival_beat;
    node->has_lease = false;
    node->rival_incarnation = reply->incarnation;
    node->rival_beat = reply->last_beat;
    if (!is_known)
        node->rival_since = node->now;
    if (lives)
        be_replaced(node);
    else if (node->now - node->rival_since >= CLUSTER_LEASE_MS)
        node->joins_anew = true;
}

/* The lease is there. */
static void have_lease(struct cluster_node *node, const struct cluster_record *record,
                       const struct cluster_reply *reply, bool has_jumped) {
    /* What the engine has forgotten of the lease, it may have forgotten of streams. */
    bool has_lost = has_jumped || reply->last_beat < node->acknowledged_beat;
    node->incarnation = reply->incarnation;
    node->joins_anew = false;
    node->acknowledged_beat = record->beat;
    node->has_lease = true;
    if (node->state == CLUSTER_NODE_JOINING)
        set_state(node, CLUSTER_NODE_ONLINE);
    else if (has_lost)
        node->generation++;
    node->wants_bans |= has_lost;
    list_bans(node);
    each_waiting(node, try_again);
}

static void renewed(struct cluster_node *node, struct cluster_record *record, const struct cluster_reply *reply) {
    if (node->state != CLUSTER_NODE_JOINING && node->state != CLUSTER_NODE_ONLINE)
        return;
    bool is_ours = !reply->error && reply->lease == CLUSTER_LEASE_OURS && reply->incarnation &&
                   (!node->incarnation || node->joins_anew || reply->incarnation == node->incarnation);
    bool has_jumped = !reply->error && reply->engine_us && note_time(node, record->sent_at, reply->engine_us);
    if (is_ours)
        have_lease(node, record, reply, has_jumped);
    else if (!reply->error && reply->lease == CLUSTER_LEASE_ANOTHER)
        meet_rival(node, reply);
    begin_list(node);
}

/* ---- The other nodes ---- */

/* A list may be older than what a lookup or an event has said of a node that lives. */
static bool is_late(const struct cluster_peer *peer, const struct cluster_node_reply *listed) {
    return peer->is_alive && (listed->incarnation < peer->incarnation ||
                              (listed->incarnation == peer->incarnation && listed->beat < peer->beat));
}

static void list_peer(struct cluster_node *node, const struct cluster_node_reply *listed) {
    struct cluster_peer_entry *entry = cluster_peers_get(&node->peers, listed->name);
    if (!entry || is_late(&entry->peer, listed))
        return;
    strcpy(entry->peer.address, listed->address);
    entry->peer.is_secure = listed->is_secure;
    entry->peer.load = listed->load;
    entry->is_listed = true;
    entry->round = node->list_round;
    if (cluster_peer_seen(entry, listed->incarnation, listed->beat, node->now))
        cluster_node_peer_changed(node, entry);
}

/* Those that were in no part have no lease. They are dead when their beat has not changed for long
 * enough, too: the engine's clock may have jumped. */
static void end_list(struct cluster_node *node) {
    struct cluster_peer_entry *entry = TAILQ_FIRST(&node->peers.all), *next;
    node->listed_at = node->now;
    for (; entry; entry = next) {
        next = TAILQ_NEXT(entry, of_all);
        if (entry->round != node->list_round)
            entry->is_listed = false;
        cluster_peers_settle(&node->peers, entry);
    }
}

static void listed(struct cluster_node *node, const struct cluster_reply *reply) {
    if (reply->error)
        return;
    for (size_t i = 0; i < reply->node_count; i++)
        list_peer(node, &reply->nodes[i]);
    if (reply->cursor == 0)
        end_list(node);
    else if (++node->list_pages < CLUSTER_LIST_PAGES)
        list(node, reply->cursor);
}

static void expire_peers(struct cluster_node *node) {
    struct cluster_peer_entry *entry = TAILQ_FIRST(&node->peers.all), *next;
    for (; entry; entry = next) {
        next = TAILQ_NEXT(entry, of_all);
        if (cluster_peer_expire(entry, node->now, node->listed_at))
            cluster_node_peer_changed(node, entry);
        cluster_peers_settle(&node->peers, entry);
    }
}

/* ---- The connection ---- */

void cluster_node_connected(struct cluster_node *node, uint64_t now) {
    struct cluster_peer_entry *entry;
    set_now(node, now);
    node->is_connected = node->is_settled = true;
    node->wants_bans = true;
    node->bans_at = 0;
    node->generation++;
    /* While there was no engine, no beat could change. */
    TAILQ_FOREACH(entry, &node->peers.all, of_all) {
        entry->peer.changed_at = node->now;
    }
    if (node->state == CLUSTER_NODE_OFFLINE) {
        set_state(node, CLUSTER_NODE_JOINING);
        renew(node);
        return;
    }
    begin_list(node);
    each_waiting(node, try_again);
    pump(node);
}

static void undo(struct cluster_node *node, struct cluster_record *record) {
    switch (record->purpose) {
    case CLUSTER_FOR_CLAIM:
    case CLUSTER_FOR_CHECKS:
    case CLUSTER_FOR_DROPS:
        cluster_claim_undo(node, record);
        break;
    case CLUSTER_FOR_LOCATE:
    case CLUSTER_FOR_FINDS:
        cluster_location_undo(node, record);
        break;
    case CLUSTER_FOR_LEAVE:
        node->is_leaving = true;
        break;
    case CLUSTER_FOR_RENEWAL:
    case CLUSTER_FOR_LIST:
    case CLUSTER_FOR_EVENT:
    case CLUSTER_FOR_BANS:
    case CLUSTER_PURPOSES:
        break;
    }
}

void cluster_node_disconnected(struct cluster_node *node, uint64_t now) {
    struct cluster_record *record;
    set_now(node, now);
    node->is_connected = node->has_lease = false;
    node->is_settled = true;
    while ((record = cluster_commands_take_any(&node->commands))) {
        undo(node, record);
        free(record);
    }
    if (node->state == CLUSTER_NODE_JOINING || node->state == CLUSTER_NODE_ONLINE)
        set_state(node, CLUSTER_NODE_OFFLINE);
    cluster_claim_end_asserts(node);
    each_waiting(node, decide);
}

void cluster_node_replied(struct cluster_node *node, uint64_t tag, const struct cluster_reply *reply, uint64_t now) {
    struct cluster_record *record = cluster_commands_take(&node->commands, tag);
    set_now(node, now);
    if (!record)
        return;
    switch (record->purpose) {
    case CLUSTER_FOR_RENEWAL:
        renewed(node, record, reply);
        break;
    case CLUSTER_FOR_CLAIM:
        cluster_claim_replied(node, record, reply);
        break;
    case CLUSTER_FOR_CHECKS:
        cluster_claim_checked(node, record, reply);
        break;
    case CLUSTER_FOR_DROPS:
        cluster_claim_dropped(node, record);
        break;
    case CLUSTER_FOR_LOCATE:
    case CLUSTER_FOR_FINDS:
        cluster_location_replied(node, record, reply);
        break;
    case CLUSTER_FOR_LIST:
        listed(node, reply);
        break;
    case CLUSTER_FOR_BANS:
        listed_bans(node, reply);
        break;
    case CLUSTER_FOR_LEAVE:
    case CLUSTER_FOR_EVENT:
    case CLUSTER_PURPOSES:
        break;
    }
    free(record);
    pump(node);
}

/* ---- Events ---- */

static bool is_self(const struct cluster_node *node, const struct cluster_location *location) {
    return location->incarnation == node->incarnation && strcmp(location->node, node->name) == 0;
}

/* Another node has claimed the stream. */
static void heard_claim(struct cluster_node *node, struct cluster_stream *stream,
                        const struct cluster_location *location) {
    struct cluster_peer_entry *entry;
    bool is_above = cluster_location_is_above(location, stream->epoch, node->incarnation);
    cluster_node_seen(node, stream, location->epoch);
    if (stream->hold != CLUSTER_HOLD_NONE && !is_above) {
        cluster_claim_check(node, stream); /* the engine has forgotten that */
        return;
    }
    entry = cluster_peers_get(&node->peers, location->node);
    if (entry && (!entry->peer.is_alive || location->incarnation > entry->peer.incarnation) &&
        cluster_peer_seen(entry, location->incarnation, 0, node->now))
        cluster_node_peer_changed(node, entry);
    if (stream->hold != CLUSTER_HOLD_NONE) {
        cluster_claim_lose(node, stream, location);
        return;
    }
    stream->had_last = false;
    stream->has_heard = true;
    if (stream->known == CLUSTER_UNKNOWN ||
        !cluster_location_is_above(&stream->location, location->epoch, location->incarnation))
        cluster_location_set(node, stream, location);
    else
        cluster_location_check(node, stream, false); /* the engine has forgotten it */
    cluster_location_report(node, stream);
}

static void heard_release(struct cluster_node *node, struct cluster_stream *stream,
                          const struct cluster_location *location) {
    cluster_node_seen(node, stream, location->epoch);
    if (stream->hold == CLUSTER_HOLD_NONE && strcmp(stream->location.node, location->node) == 0 &&
        stream->location.incarnation == location->incarnation && stream->location.epoch <= location->epoch) {
        cluster_location_set(node, stream, &(struct cluster_location){.epoch = location->epoch});
        stream->has_heard = true;
        cluster_location_report(node, stream);
    }
    cluster_claim_try(node, stream);
}

static void heard_leave(struct cluster_node *node, const struct cluster_location *location) {
    struct cluster_peer_entry *entry = cluster_peers_find(&node->peers, location->node);
    if (!entry)
        return;
    if (cluster_peer_left(entry, location->incarnation))
        cluster_node_peer_changed(node, entry);
    each_waiting(node, try_again);
}

/* The engine says that this node has it, and somebody doubts that. */
static void heard_ask(struct cluster_node *node, const struct cluster_event *event) {
    struct cluster_stream *stream = cluster_node_stream(node, event->stream);
    if (!stream || stream->hold != CLUSTER_HOLD_NONE || stream->wait_count || stream->is_claiming)
        return;
    cluster_claim_drop(node, stream, event->location.epoch);
    cluster_node_settle(node, stream);
}

static void heard_of_stream(struct cluster_node *node, const struct cluster_event *event) {
    struct cluster_stream *stream = cluster_streams_find(&node->streams, event->stream);
    if (!stream)
        return;
    if (event->verb == CLUSTER_EVENT_CLAIM)
        heard_claim(node, stream, &event->location);
    else
        heard_release(node, stream, &event->location);
    cluster_node_settle(node, stream);
}

static void heard_ban(struct cluster_node *node, const struct cluster_event *event, bool is_own) {
    struct cluster_event told = *event;
    told.is_own = is_own;
    (void)node->calls.told(node->user, &told);
}

void cluster_node_heard(struct cluster_node *node, const struct cluster_event *event, uint64_t now) {
    bool is_own = is_self(node, &event->location);
    set_now(node, now);
    if (!node->is_connected)
        return;
    switch (event->verb) {
    case CLUSTER_EVENT_CLAIM:
    case CLUSTER_EVENT_RELEASE:
        if (!is_own)
            heard_of_stream(node, event);
        break;
    case CLUSTER_EVENT_LEAVE:
        if (!is_own)
            heard_leave(node, &event->location);
        break;
    case CLUSTER_EVENT_ASK:
        if (is_own && cluster_node_can_ask(node))
            heard_ask(node, event);
        break;
    case CLUSTER_EVENT_BAN:
        heard_ban(node, event, is_own);
        break;
    case CLUSTER_EVENT_KICK:
    case CLUSTER_EVENT_UNBAN:
        if (!is_own)
            (void)node->calls.told(node->user, event);
        break;
    case CLUSTER_EVENTS:
        break;
    }
    pump(node);
}

bool cluster_node_tell(struct cluster_node *node, const struct cluster_event *event) {
    struct cluster_event sent = *event;
    if (!cluster_node_can_ask(node) || !node->incarnation)
        return false;
    strcpy(sent.location.node, node->name);
    sent.location.incarnation = node->incarnation;
    struct cluster_record *record = cluster_commands_add(&node->commands, CLUSTER_FOR_EVENT, 0);
    const enum cluster_verb verb = event->verb == CLUSTER_EVENT_KICK ? CLUSTER_NOTIFY : CLUSTER_BAN;
    return record && cluster_node_send(node, record, &(struct cluster_command){.verb = verb, .event = &sent});
}

/* ---- Questions ---- */

static void tell(struct cluster_node *node, struct cluster_job *job) {
    struct cluster_event event = {.verb = job->question == CLUSTER_TELL_KICK  ? CLUSTER_EVENT_KICK
                                          : job->question == CLUSTER_TELL_BAN ? CLUSTER_EVENT_BAN
                                                                              : CLUSTER_EVENT_UNBAN,
                                  .host = job->host,
                                  .ms = job->keep_ms,
                                  .is_whole = job->is_whole};
    strcpy(event.stream, job->stream);
    cluster_node_answer(node, job, cluster_node_tell(node, &event) ? 0 : -EHOSTDOWN);
}

void cluster_node_ask(struct cluster_node *node, struct cluster_job *job, uint64_t now) {
    set_now(node, now);
    switch (job->question) {
    case CLUSTER_CLAIM:
        cluster_claim_ask(node, job);
        break;
    case CLUSTER_RELEASE:
        cluster_claim_release(node, job);
        break;
    case CLUSTER_ASSERT:
        cluster_claim_assert(node, job);
        break;
    case CLUSTER_LOCATE:
    case CLUSTER_LOOK:
        cluster_location_ask(node, job);
        break;
    case CLUSTER_FORGET:
        cluster_location_forget(node, job);
        break;
    case CLUSTER_FIND_NODE:
        cluster_location_find_node(node, job);
        break;
    case CLUSTER_TELL_KICK:
    case CLUSTER_TELL_BAN:
    case CLUSTER_TELL_UNBAN:
        tell(node, job);
        break;
    }
    pump(node);
}

void cluster_node_abandon(struct cluster_node *node) {
    for (size_t i = 0; i < node->streams.bucket_count; i++) {
        struct cluster_stream *stream;
        LIST_FOREACH(stream, &node->streams.buckets[i], of_bucket) {
            cluster_claim_refuse(node, stream, -ESHUTDOWN);
            cluster_location_refuse(node, stream, -ESHUTDOWN);
        }
    }
}

/* ---- Time ---- */

static void send_leave(struct cluster_node *node) {
    if (!node->is_leaving || !node->is_connected || !node->incarnation)
        return;
    struct cluster_record *record = cluster_commands_add(&node->commands, CLUSTER_FOR_LEAVE, 0);
    if (record && cluster_node_send(node, record, &(struct cluster_command){.verb = CLUSTER_LEAVE}))
        node->is_leaving = false;
}

void cluster_node_tick(struct cluster_node *node, uint64_t now) {
    set_now(node, now);
    bool renews = node->state == CLUSTER_NODE_JOINING || node->state == CLUSTER_NODE_ONLINE;
    if (!node->is_settled && node->now - node->started_at >= CLUSTER_FIRST_MS)
        node->is_settled = true;
    if (renews && node->now >= node->renew_at)
        renew(node);
    if (!renews && node->is_connected && node->now >= node->list_at)
        begin_list(node);
    if (cluster_node_can_ask(node))
        expire_peers(node);
    list_bans(node);
    send_leave(node);
    each_waiting(node, tick_one);
    pump(node);
}

void cluster_node_set_load(struct cluster_node *node, const struct cluster_load *load) {
    node->load = *load;
}

void cluster_node_leave(struct cluster_node *node, uint64_t now) {
    set_now(node, now);
    if (node->state == CLUSTER_NODE_LEFT || node->state == CLUSTER_NODE_REPLACED)
        return;
    set_state(node, CLUSTER_NODE_LEFT);
    node->has_lease = false;
    node->is_leaving = true;
    each_waiting(node, refuse_claims);
    while (!TAILQ_EMPTY(&node->drops))
        cluster_claim_forget(node, TAILQ_FIRST(&node->drops));
    send_leave(node);
}

/* ---- What it shows ---- */

const char *cluster_node_state_name(enum cluster_node_state state) {
    static const char *const names[] = {
        [CLUSTER_NODE_OFFLINE] = "offline",   [CLUSTER_NODE_JOINING] = "joining", [CLUSTER_NODE_ONLINE] = "online",
        [CLUSTER_NODE_REPLACED] = "replaced", [CLUSTER_NODE_LEFT] = "left",
    };
    return names[state];
}

const char *cluster_node_name(const struct cluster_node *node) {
    return node->name;
}

const char *cluster_node_address(const struct cluster_node *node, bool *ret_is_secure) {
    *ret_is_secure = node->is_secure;
    return node->address;
}

enum cluster_node_state cluster_node_get_state(const struct cluster_node *node) {
    return node->state;
}

uint64_t cluster_node_incarnation(const struct cluster_node *node) {
    return node->incarnation;
}

int64_t cluster_node_engine_offset_ms(const struct cluster_node *node) {
    return node->engine_offset_ms;
}

bool cluster_node_is_alive(const struct cluster_node *node, const char *name, uint64_t now) {
    const struct cluster_peer_entry *entry = cluster_peers_find(&node->peers, name);
    if (!entry || !entry->peer.is_alive)
        return false;
    /* Without the engine, what was known last is all there is. */
    return !node->is_connected || now - entry->peer.changed_at < CLUSTER_LEASE_MS;
}

static int by_name(const void *a, const void *b) {
    const struct cluster_peer *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

void cluster_node_each_peer(const struct cluster_node *node, void (*call)(const struct cluster_peer *peer, void *user),
                            void *user) {
    const struct cluster_peer *sorted[CLUSTER_PEERS_MAX];
    const struct cluster_peer_entry *entry;
    size_t count = 0;
    TAILQ_FOREACH(entry, &node->peers.all, of_all) {
        if (entry->is_listed || entry->peer.is_alive)
            sorted[count++] = &entry->peer;
    }
    qsort(sorted, count, sizeof sorted[0], by_name);
    for (size_t i = 0; i < count; i++)
        call(sorted[i], user);
}

void cluster_node_each_stream(const struct cluster_node *node,
                              void (*call)(const char *stream, bool is_own, const struct cluster_location *location,
                                           void *user),
                              void *user) {
    for (size_t i = 0; i < node->streams.bucket_count; i++) {
        const struct cluster_stream *stream;
        struct cluster_location location;
        LIST_FOREACH(stream, &node->streams.buckets[i], of_bucket) {
            if (cluster_location_get(node, stream, &location))
                call(stream->name, stream->hold != CLUSTER_HOLD_NONE, &location, user);
        }
    }
}
