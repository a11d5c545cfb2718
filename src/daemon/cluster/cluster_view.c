#include "daemon/cluster/cluster_view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster_state.h"

/* The node that has it, as cluster_location_get(); NULL: none is known. */
static const char *holder_of(const struct cluster_node *node, const struct cluster_stream *stream) {
    const struct cluster_peer *peer = stream->at ? &stream->at->peer : NULL;
    if (stream->hold != CLUSTER_HOLD_NONE)
        return node->name;
    if (stream->known != CLUSTER_AT || !peer || !peer->is_alive || peer->incarnation != stream->location.incarnation)
        return NULL;
    return peer->name;
}

static void fill(const struct cluster_node *node, const struct cluster_stream *stream, uint64_t now,
                 struct cluster_stream_view *view) {
    const bool is_own = stream->hold != CLUSTER_HOLD_NONE;
    const uint64_t since = is_own ? stream->checked_at : stream->known_at;
    const bool is_current = (is_own ? stream->checked_in : stream->known_in) == node->generation;
    *view = (struct cluster_stream_view){
        .name = stream->name,
        .is_own = is_own,
        .is_confirmed = node->is_connected && is_current && stream->hold != CLUSTER_HOLD_WORD,
        .age_ms = now > since ? now - since : 0,
    };
    cluster_location_get(node, stream, &view->location);
}

bool cluster_view_find(const struct cluster_node *node, const char *name, uint64_t now,
                       struct cluster_stream_view *ret_view) {
    const struct cluster_stream *stream = cluster_streams_find(&node->streams, name);
    if (!stream || !holder_of(node, stream))
        return false;
    fill(node, stream, now, ret_view);
    return true;
}

/* ---- A page: the first names of all that match, in a heap with the last one at its top ---- */

struct first {
    const struct cluster_stream **list;
    size_t count, room;
};

static bool is_behind(const struct cluster_stream *a, const struct cluster_stream *b) {
    return strcmp(a->name, b->name) > 0;
}

static void sink(struct first *first) {
    const struct cluster_stream **list = first->list, *moved = list[0];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < first->count) {
        if (child + 1 < first->count && is_behind(list[child + 1], list[child]))
            child++;
        if (!is_behind(list[child], moved))
            break;
        list[at] = list[child];
        at = child;
    }
    list[at] = moved;
}

static void rise(struct first *first, size_t at) {
    const struct cluster_stream **list = first->list, *moved = list[at];
    for (; at > 0 && is_behind(moved, list[(at - 1) / 2]); at = (at - 1) / 2)
        list[at] = list[(at - 1) / 2];
    list[at] = moved;
}

static void keep(struct first *first, const struct cluster_stream *stream) {
    if (first->count < first->room) {
        first->list[first->count] = stream;
        rise(first, first->count++);
    } else if (first->room > 0 && is_behind(first->list[0], stream)) {
        first->list[0] = stream;
        sink(first);
    }
}

static int by_name(const void *a, const void *b) {
    const struct cluster_stream *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

static bool matches(const struct cluster_stream_page *page, const struct cluster_stream *stream, const char *holder) {
    return holder && (!*page->node || strcmp(page->node, holder) == 0) &&
           (!*page->search || strcasestr(stream->name, page->search));
}

static size_t collect(const struct cluster_node *node, const struct cluster_stream_page *page, struct first *first) {
    size_t matching = 0;
    for (size_t i = 0; i < node->streams.bucket_count; i++) {
        const struct cluster_stream *stream;
        LIST_FOREACH(stream, &node->streams.buckets[i], of_bucket) {
            if (!matches(page, stream, holder_of(node, stream)))
                continue;
            matching++;
            keep(first, stream);
        }
    }
    return matching;
}

int cluster_view_page(const struct cluster_node *node, const struct cluster_stream_page *page, uint64_t now,
                      struct cluster_stream_view *list, size_t *ret_count, size_t *ret_matching) {
    const size_t end = (size_t)page->offset + page->limit;
    struct first first = {.room = end < node->streams.count ? end : node->streams.count};
    size_t count = 0;
    first.list = malloc((first.room ? first.room : 1) * sizeof *first.list);
    if (!first.list)
        return -ENOMEM;
    *ret_matching = collect(node, page, &first);
    qsort(first.list, first.count, sizeof *first.list, by_name);
    for (size_t i = page->offset; i < first.count; i++)
        fill(node, first.list[i], now, &list[count++]);
    free(first.list);
    *ret_count = count;
    return 0;
}

/* ---- Counts ---- */

struct cluster_stream_counts cluster_view_count(const struct cluster_node *node) {
    struct cluster_stream_counts counts = {0};
    for (size_t i = 0; i < node->streams.bucket_count; i++) {
        const struct cluster_stream *stream;
        LIST_FOREACH(stream, &node->streams.buckets[i], of_bucket) {
            counts.own += stream->hold != CLUSTER_HOLD_NONE;
            counts.remote += stream->hold == CLUSTER_HOLD_NONE && holder_of(node, stream);
        }
    }
    return counts;
}

struct cluster_node_counts cluster_view_count_nodes(const struct cluster_node *node, uint64_t now) {
    struct cluster_node_counts counts = {0};
    const struct cluster_peer_entry *entry;
    TAILQ_FOREACH(entry, &node->peers.all, of_all) {
        const bool is_alive = cluster_node_is_alive(node, entry->peer.name, now);
        counts.alive += is_alive;
        counts.dead += !is_alive && entry->is_listed;
    }
    return counts;
}
