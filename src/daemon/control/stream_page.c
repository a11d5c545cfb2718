#include "daemon/control/stream_page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/control/snapshot.h"
#include "daemon/recording/recorder.h"
#include "daemon/relay/player_list.h"
#include "daemon/relay/registry.h"
#include "daemon/relay/video_size.h"

/* What decides about a stream's place: the number, then the text, then the name. */
struct key {
    double number;
    const char *text, *name;
    const void *stream;
};

struct keys {
    const struct stream_page *page;
    struct key *list;
    size_t count, room;
};

const char *stream_sort_name(enum stream_sort sort) {
    static const char *const names[STREAM_SORTS] = {
        [STREAM_BY_NAME] = "name",           [STREAM_BY_STATE] = "state",   [STREAM_BY_PUBLISHER] = "publisher",
        [STREAM_BY_MEDIA] = "media",         [STREAM_BY_RATE] = "rate",     [STREAM_BY_PLAYERS] = "players",
        [STREAM_BY_RECORDING] = "recording", [STREAM_BY_UPTIME] = "uptime", [STREAM_BY_LOST] = "lost",
    };
    return names[sort];
}

static int compare_keys(const void *left, const void *right, void *user) {
    const struct stream_page *page = user;
    const struct key *a = left, *b = right;
    int order = (a->number > b->number) - (a->number < b->number);
    if (order == 0)
        order = strcmp(a->text, b->text);
    if (order != 0)
        return page->descending ? -order : order;
    order = strcmp(a->name, b->name);
    return page->descending && page->sort == STREAM_BY_NAME ? -order : order;
}

static bool matches(const struct stream_page *page, const char *name, const char *address) {
    return !*page->search || strcasestr(name, page->search) || strcasestr(address, page->search);
}

/* Both of these functions have to agree. */
static void set_key(const struct stream *stream, enum stream_sort sort, uint64_t now, struct key *key) {
    const struct recorder *recorder;
    double width, height;
    switch (sort) {
    case STREAM_BY_STATE:
        key->number = !stream->live;
        break;
    case STREAM_BY_PUBLISHER:
        key->text = stream->live ? stream->source.peer : "";
        break;
    case STREAM_BY_MEDIA:
        if (stream->live)
            video_size(stream, &width, &height);
        key->number = stream->live ? width * height : 0;
        break;
    case STREAM_BY_RECORDING:
        recorder = recorder_of(stream);
        key->number = recorder ? (double)recorder->bytes + 1 : 0;
        break;
    case STREAM_BY_RATE:
        key->number = (double)stream->bits_per_second;
        break;
    case STREAM_BY_PLAYERS:
        key->number = stream_player_count(stream);
        break;
    case STREAM_BY_LOST:
        key->number = (double)stream->frames_dropped;
        break;
    case STREAM_BY_UPTIME:
        key->number = (double)(now - (stream->live ? stream->source.since : stream->left_at));
        break;
    default:
        break;
    }
}

static void set_snapshot_key(const struct snapshot_stream *stream, enum stream_sort sort, struct key *key) {
    switch (sort) {
    case STREAM_BY_STATE:
        key->number = !stream->live;
        break;
    case STREAM_BY_PUBLISHER:
        key->text = stream->address;
        break;
    case STREAM_BY_MEDIA:
        key->number = stream->width * stream->height;
        break;
    case STREAM_BY_RECORDING:
        key->number = stream->is_recorded ? (double)stream->record_bytes + 1 : 0;
        break;
    case STREAM_BY_RATE:
        key->number = (double)stream->bits_per_second;
        break;
    case STREAM_BY_PLAYERS:
        key->number = stream->players;
        break;
    case STREAM_BY_LOST:
        key->number = (double)stream->frames_lost;
        break;
    case STREAM_BY_UPTIME:
        key->number = (double)stream->state_ms;
        break;
    default:
        break;
    }
}

static void count_all(struct stream *stream, void *user) {
    struct keys *keys = user;
    keys->room += !stream->fed_by;
}

static void add_stream(struct stream *stream, void *user) {
    struct keys *keys = user;
    if (stream->fed_by || !matches(keys->page, stream->name, stream->live ? stream->source.peer : ""))
        return;
    struct key *key = &keys->list[keys->count++];
    *key = (struct key){.text = "", .name = stream->name, .stream = stream};
    set_key(stream, keys->page->sort, sluice_loop_now(stream->registry->loop), key);
}

/* Sorts, and has the list end behind the page. */
static void sort_keys(struct keys *keys) {
    size_t most = (size_t)keys->page->offset + keys->page->limit;
    struct stream_page page = *keys->page;
    qsort_r(keys->list, keys->count, sizeof *keys->list, compare_keys, &page);
    keys->count = keys->count < most ? keys->count : most;
}

static bool make_keys(struct keys *keys) {
    keys->list = calloc(keys->room + 1, sizeof *keys->list);
    return keys->list;
}

int stream_page_select(const struct stream_page *page, struct registry *registry, struct stream ***ret_list,
                       size_t *ret_count, size_t *ret_matching) {
    struct keys keys = {.page = page};
    registry_each(registry, count_all, &keys);
    struct stream **list = make_keys(&keys) ? calloc(keys.room + 1, sizeof(struct stream *)) : NULL;
    if (!list) {
        free(keys.list);
        return -ENOMEM;
    }
    registry_each(registry, add_stream, &keys);
    *ret_matching = keys.count;
    sort_keys(&keys);
    for (size_t i = 0; i < keys.count; i++)
        list[i] = (struct stream *)keys.list[i].stream;
    free(keys.list);
    *ret_list = list;
    *ret_count = keys.count;
    return 0;
}

int stream_page_merge(const struct stream_page *page, const struct snapshots *snapshots,
                      const struct snapshot_stream ***ret_list, size_t *ret_count) {
    struct keys keys = {.page = page};
    for (size_t at = 0; at < snapshots->count; at++)
        keys.room += snapshots->list[at] ? snapshots->list[at]->stream_count : 0;
    const struct snapshot_stream **list = make_keys(&keys)
                                              ? calloc(page->limit + 1, sizeof(const struct snapshot_stream *))
                                              : NULL;
    if (!list) {
        free(keys.list);
        return -ENOMEM;
    }
    for (size_t at = 0; at < snapshots->count; at++)
        for (size_t i = 0; snapshots->list[at] && i < snapshots->list[at]->stream_count; i++) {
            const struct snapshot_stream *stream = &snapshots->list[at]->streams[i];
            struct key *key = &keys.list[keys.count++];
            *key = (struct key){.text = "", .name = stream->name, .stream = stream};
            set_snapshot_key(stream, page->sort, key);
        }
    sort_keys(&keys);
    size_t count = 0;
    for (size_t i = page->offset; i < keys.count; i++)
        list[count++] = keys.list[i].stream;
    free(keys.list);
    *ret_list = list;
    *ret_count = count;
    return 0;
}
