#include "daemon/cluster/cluster_peers.h"

#include <stdlib.h>
#include <string.h>

void cluster_peers_init(struct cluster_peers *peers) {
    *peers = (struct cluster_peers){0};
    TAILQ_INIT(&peers->all);
}

static void remove_entry(struct cluster_peers *peers, struct cluster_peer_entry *entry) {
    LIST_REMOVE(entry, of_bucket);
    TAILQ_REMOVE(&peers->all, entry, of_all);
    peers->count--;
    free(entry);
}

void cluster_peers_clear(struct cluster_peers *peers) {
    while (!TAILQ_EMPTY(&peers->all))
        remove_entry(peers, TAILQ_FIRST(&peers->all));
}

static size_t bucket_of(const char *name) {
    return stream_name_hash(name, strlen(name)) % CLUSTER_PEER_BUCKETS;
}

struct cluster_peer_entry *cluster_peers_find(const struct cluster_peers *peers, const char *name) {
    struct cluster_peer_entry *entry;
    LIST_FOREACH(entry, &peers->buckets[bucket_of(name)], of_bucket) {
        if (strcmp(entry->peer.name, name) == 0)
            return entry;
    }
    return NULL;
}

/* Nodes with names of their own each time leave streams that nobody asks for again. */
static void forget_dead(struct cluster_peers *peers) {
    struct cluster_peer_entry *entry = TAILQ_FIRST(&peers->all);
    while (entry && (entry->is_listed || entry->peer.is_alive))
        entry = TAILQ_NEXT(entry, of_all);
    if (!entry)
        return;
    for (struct cluster_stream *stream; (stream = LIST_FIRST(&entry->streams));) {
        LIST_REMOVE(stream, of_peer);
        stream->at = NULL;
    }
    remove_entry(peers, entry);
}

struct cluster_peer_entry *cluster_peers_get(struct cluster_peers *peers, const char *name) {
    struct cluster_peer_entry *entry = cluster_peers_find(peers, name);
    if (entry)
        return entry;
    if (peers->count >= CLUSTER_PEERS_MAX)
        forget_dead(peers);
    if (peers->count >= CLUSTER_PEERS_MAX)
        return NULL;
    entry = calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    strcpy(entry->peer.name, name);
    LIST_INIT(&entry->streams);
    LIST_INSERT_HEAD(&peers->buckets[bucket_of(name)], entry, of_bucket);
    TAILQ_INSERT_TAIL(&peers->all, entry, of_all);
    peers->count++;
    return entry;
}

void cluster_peers_settle(struct cluster_peers *peers, struct cluster_peer_entry *entry) {
    if (!entry->is_listed && !entry->peer.is_alive && LIST_EMPTY(&entry->streams))
        remove_entry(peers, entry);
}

bool cluster_peer_seen(struct cluster_peer_entry *entry, uint64_t incarnation, uint64_t beat, uint64_t now) {
    struct cluster_peer *peer = &entry->peer;
    if (incarnation == entry->left_incarnation || (incarnation == peer->incarnation && beat == peer->beat))
        return false;
    bool is_news = !peer->is_alive || incarnation != peer->incarnation;
    peer->incarnation = incarnation;
    peer->beat = beat;
    peer->changed_at = now;
    peer->is_alive = true;
    return is_news;
}

bool cluster_peer_left(struct cluster_peer_entry *entry, uint64_t incarnation) {
    bool was_alive = entry->peer.is_alive;
    entry->left_incarnation = incarnation;
    if (incarnation != entry->peer.incarnation)
        return false;
    entry->peer.is_alive = false;
    return was_alive;
}

bool cluster_peer_expire(struct cluster_peer_entry *entry, uint64_t now, uint64_t listed_at) {
    struct cluster_peer *peer = &entry->peer;
    if (!peer->is_alive || now - peer->changed_at < CLUSTER_LEASE_MS ||
        listed_at < peer->changed_at + CLUSTER_LEASE_MS - CLUSTER_RENEW_MS)
        return false;
    peer->is_alive = false;
    return true;
}

void cluster_peer_attach(struct cluster_peers *peers, struct cluster_peer_entry *entry, struct cluster_stream *stream) {
    struct cluster_peer_entry *before = stream->at;
    if (before == entry)
        return;
    if (before)
        LIST_REMOVE(stream, of_peer);
    stream->at = entry;
    if (entry)
        LIST_INSERT_HEAD(&entry->streams, stream, of_peer);
    if (before)
        cluster_peers_settle(peers, before);
}
