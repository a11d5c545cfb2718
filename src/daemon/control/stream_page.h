/*
 * A page of the streams: those whose name or publisher's address contains a text, in an order. Each
 * worker copies as many of its own as the page may need, and the reader takes the page out of all.
 */
#ifndef SLUICED_STREAM_PAGE_H
#define SLUICED_STREAM_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct registry;
struct snapshot_stream;
struct snapshots;
struct stream;

enum stream_sort {
    STREAM_BY_NAME,
    STREAM_BY_STATE, /* live, then waiting */
    STREAM_BY_PUBLISHER,
    STREAM_BY_MEDIA, /* the number of pixels */
    STREAM_BY_RECORDING,
    STREAM_BY_RATE,
    STREAM_BY_PLAYERS,
    STREAM_BY_LOST,
    STREAM_BY_UPTIME,
    STREAM_SORTS
};

enum {
    STREAM_SEARCH = 64, /* bytes of the text */
    STREAM_PAGE_MOST = 500,
    STREAM_PAGE_MOST_OFFSET = 1000000,
};

struct stream_page {
    char search[STREAM_SEARCH + 1]; /* the case does not matter; empty: all */
    enum stream_sort sort;          /* those that are alike: by name */
    bool descending;
    uint32_t offset, limit;
};

const char *stream_sort_name(enum stream_sort sort);

/*
 * The streams that this worker's part of the page may need; replicas are not among them. On the
 * worker's thread. @ret_matching: how many match in all. 0, -ENOMEM; the caller frees the list.
 */
int stream_page_select(const struct stream_page *page, struct registry *registry, struct stream ***ret_list,
                       size_t *ret_count, size_t *ret_matching);

/* The page's streams out of all workers' parts. 0, -ENOMEM; the caller frees the list. */
int stream_page_merge(const struct stream_page *page, const struct snapshots *snapshots,
                      const struct snapshot_stream ***ret_list, size_t *ret_count);

#endif
