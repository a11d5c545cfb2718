/*
 * What the server is doing, by value: no thread is needed to read it, and it holds nobody up. Each worker adds its part
 * on its own thread, so a snapshot is of one moment within a worker, and of nearly one across them.
 */
#ifndef SLUICED_SNAPSHOT_H
#define SLUICED_SNAPSHOT_H

#include "daemon/server.h"

struct stream_snapshot {
    char name[STREAM_NAME + 1];
    bool live;
    struct stream_source source; /* where it is live */
    uint64_t state_ms;           /* since it is live, or since it is not */
    uint8_t tracks;              /* that have been seen: SLUICE_FLV_HAS_ flags */
    uint32_t video_codec, audio_codec;
    sluice_flv_metadata metadata;
    uint64_t bytes, video_frames, audio_frames, frames_dropped, bits_per_second;
    uint32_t players, merge_window_ms;
    uint64_t sends;
    uint64_t blocks_held, gop_bytes;
    size_t gop_frames;
};

struct player_snapshot {
    size_t stream; /* its place among the streams of the same worker */
    char peer[ADDRESS_TEXT];
    const char *protocol; /* lasts */
    const char *state;    /* lasts */
    uint64_t bytes_sent, frames_sent, sends, frames_dropped, queued_bytes;
    uint32_t merge_window_ms;
};

struct pull_snapshot {
    char name[STREAM_NAME + 1];
    char from[PULL_PLACE + 1];
    const char *state; /* lasts */
    bool on_demand, waits;
    uint64_t state_ms, retry_ms; /* the second where it waits for the next try */
    uint32_t failures;
    char reason[PULL_REASON]; /* empty: none */
};

struct worker_snapshot {
    sluice_pool_stats pool;
    sluice_loop_stats loop; /* but for features */
    char features[96];
    uint32_t connections;
    uint32_t live; /* streams with a publisher */
    uint64_t bits_per_second;
    uint64_t frames; /* received since the start of the streams that are live */

    struct stream_snapshot *streams;
    struct player_snapshot *players;
    struct pull_snapshot *pulls;
    size_t stream_count, player_count, pull_count;
};

struct snapshot {
    uint64_t uptime_ms;
    uint32_t worker_count;
    struct worker_snapshot *workers;
};

/* What is wanted: the workers' numbers always, the lists that are named. */
enum { SNAPSHOT_STREAMS = 1, SNAPSHOT_PLAYERS = 2, SNAPSHOT_PULLS = 4, SNAPSHOT_ALL = 7 };

/* @snapshot: NULL where memory is short. It goes when this returns. */
typedef void snapshot_fn(const struct snapshot *snapshot, void *user);

/*
 * Asks all workers; calls once, when the last has answered, even when the server is stopping; not, when its run has
 * failed. Any thread.
 * @home: on whose thread to call, which must be the calling one; where it is the only worker, from inside. NULL: on
 * whichever worker's thread it may be.
 * 0, or -ENOMEM, -ESHUTDOWN (the run is over): nothing is called
 */
int server_snapshot(struct server *server, unsigned what, struct worker *home, snapshot_fn *call, void *user);

#endif
