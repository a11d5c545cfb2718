/*
 * The state of a worker at one moment, as plain values, for the API, metrics and the console, which
 * run on another thread. A worker fills its own snapshot; the reader adds those of several workers
 * up. Nothing in it points into the data plane except texts that are never freed.
 */
#ifndef SLUICED_SNAPSHOT_H
#define SLUICED_SNAPSHOT_H

#include <sluice/loop.h>
#include <sluice/pool.h>

#include "daemon/config/options.h"
#include "daemon/control/stream_page.h"
#include "daemon/edge/edge.h"
#include "daemon/forward/forward.h"
#include "daemon/pull/pull.h"
#include "daemon/recording/record_override.h"
#include "daemon/relay/frame_minute.h"
#include "daemon/relay/stream.h"
#include "shared/codec_name.h"
#include "shared/tls_link.h"

/* One of a stream's tracks. */
struct snapshot_track {
    uint8_t id;
    bool is_main;
    char codec[CODEC_NAME];
    uint64_t frames, bytes;
};

struct worker;

enum snapshot_part {
    SNAPSHOT_STREAMS = 1, /* with their publishers */
    SNAPSHOT_PLAYERS = 2,
    SNAPSHOT_PULLS = 4,
    SNAPSHOT_OVERRIDES = 8, /* what is to be recorded, or not */
    SNAPSHOT_FORWARDS = 16,
    SNAPSHOT_ALL = 31,
    SNAPSHOT_BANS = 32,
    SNAPSHOT_TLS = 512, /* how many connections have it */
    /* for single documents: */
    SNAPSHOT_SUMS = 64,    /* of all streams and players, whatever else is copied */
    SNAPSHOT_FRAMES = 128, /* the last minute of the one stream */
    SNAPSHOT_EDGES = 256,  /* how many there are; and some of them, see most_edges */
};

/* What a worker copies. */
struct snapshot_request {
    unsigned parts;                 /* of enum snapshot_part */
    char stream[STREAM_NAME + 1];   /* this one and its players alone; empty: all */
    const struct stream_page *page; /* of streams; NULL: all */
    uint32_t most_players;          /* slow ones first; 0: all */
    uint32_t most_edges;            /* those that fail first; 0: none */
};

struct snapshot_stream {
    uint64_t id;
    uint32_t worker; /* that owns it */
    bool is_replica; /* of another's, for some of its players: see snapshots_fold() */
    char name[STREAM_NAME + 1];
    bool live;
    uint64_t state_ms;    /* since when it is so */
    uint64_t kept_ms;     /* for so long yet it is kept for its publisher */
    const char *left_why; /* or NULL */

    /* While it is live: */
    uint64_t publisher_id;
    char address[ADDRESS_TEXT];
    const char *protocol;
    char backup[STREAM_NAME + 1]; /* the stream that stands in for it; empty: none */
    uint64_t silent_ms;           /* since the last tag */
    uint32_t interval_ms;         /* at which the publisher is read; 0: as its bytes come */
    bool has_video, has_audio;
    char ignored[STREAM_IGNORED]; /* media that are not taken, with ", " between their names */
    char video_codec[CODEC_NAME], audio_codec[CODEC_NAME];
    double width, height, frame_rate;
    struct snapshot_track video_tracks[TRACKS_MOST], audio_tracks[TRACKS_MOST];
    unsigned video_count, audio_count;
    uint64_t beyond_tracks; /* frames of further tracks, which are not taken */

    uint64_t bytes, video_frames, audio_frames, frames_lost;
    uint64_t timestamp_jumps;
    uint64_t bits_per_second;
    uint32_t players;
    uint32_t merge_window_ms; /* now */
    bool merge_window_auto;   /* it follows the load */
    uint64_t sends;
    uint64_t blocks_held;
    uint64_t gop_frames, gop_bytes;

    enum record_override record;
    bool is_recorded; /* if so: */
    const char *record_state;
    char record_file[RECORD_PATH]; /* empty: none yet */
    uint64_t record_files, record_bytes, record_frames, record_dropped, record_queued;
    int record_error; /* a positive errno, or 0 */
};

struct snapshot_player {
    uint64_t id;
    uint32_t worker; /* that serves it */
    char stream[STREAM_NAME + 1];
    char address[ADDRESS_TEXT];
    const char *protocol;
    const char *state;
    bool slow; /* it is behind, and not for want of anything from the publisher */
    uint64_t age_ms;
    uint64_t bytes_sent, frames_sent, sends;
    uint32_t merge_window_ms; /* now */
    bool merge_window_auto;   /* it follows the load */
    uint64_t dropped[DROP_CAUSES];
    uint64_t queued_bytes;
    uint64_t encrypted_bytes; /* beside the queue, by TLS */
    bool kernel_sends;        /* what it is sent is encrypted by the kernel */
    uint32_t queued_ms;
    uint64_t behind_ms;  /* since it last had been sent everything */
    uint64_t stalled_ms; /* since it last took a byte of what is to be sent */
};

struct snapshot_pull {
    uint64_t id;
    char stream[STREAM_NAME + 1];
    char place[sizeof(((struct pull_target *)0)->place)];
    const char *type;
    enum outgoing_state state;
    const char *step; /* of the type's, while it negotiates; or NULL */
    uint64_t state_ms, retry_ms;
    bool on_demand;
    unsigned failures;
    char reason[PULL_REASON];
    enum pull_source source;
    bool expires; /* after ttl_ms */
    uint64_t ttl_ms;
};

struct snapshot_forward {
    uint64_t id;
    char stream[STREAM_NAME + 1];
    char place[sizeof(((struct pull_target *)0)->place)];
    const char *type;
    size_t position; /* of its option, from 1 */
    enum outgoing_state state;
    const char *step;   /* of the type's, while it negotiates; or NULL */
    const char *tracks; /* forward_tracks_name() */
    bool kernel_sends;  /* what is sent is encrypted by the kernel */
    uint64_t state_ms, retry_ms;
    unsigned failures;
    char reason[FORWARD_REASON];
    uint64_t bytes_sent, frames_sent, frames_dropped; /* over all its connections */
};

/* A host that may not publish a stream. */
struct snapshot_ban {
    char stream[STREAM_NAME + 1];
    char host[ADDRESS_TEXT];
    char node[NODE_NAME + 1]; /* that had the publisher; empty: not known, or no cluster */
    bool is_shared;           /* all nodes of the cluster have the ban */
    bool has_age;             /* it is known when it was made: */
    uint64_t age_ms;
    uint64_t left_ms;
};

/* A stream that another node has. */
struct snapshot_edge {
    char stream[STREAM_NAME + 1];
    char node[CLUSTER_NODE + 1]; /* that is asked for it, or was last; empty: none yet */
    char address[CLUSTER_ADDRESS + 1];
    enum edge_phase phase;
    enum cluster_mode mode;
    uint64_t epoch;
    unsigned failures; /* since it played */
    char reason[EDGE_REASON];
};

struct snapshot_edge_counts {
    uint64_t of[EDGE_PHASES];
    uint64_t failing; /* that have failed since they played */
};

/* Replicas are no streams, but their players count. */
struct snapshot_sums {
    uint64_t live, waiting, players, slow, bits_per_second;
};

struct snapshot {
    uint64_t uptime_ms;
    uint64_t cpu_ns; /* of the worker's thread, ever */
    uint32_t connections;
    /* of them, asked for by SNAPSHOT_TLS: with TLS, beyond the handshake; and where the kernel
     * encrypts what is sent */
    uint32_t tls_connections, ktls_connections;
    struct tls_bytes tls_bytes; /* likewise; ever */
    sluice_pool_stats pool;
    uint64_t lent_bytes;   /* of the pool, to other workers' players */
    uint64_t packet_bytes; /* memory besides the pool's that describes the streams' tags */
    sluice_loop_stats loop;
    struct stream_totals totals;
    struct coalesce_site merging;
    uint32_t batch_us; /* the loop's window */

    /* where those of the options listen, in their order */
    char listeners[OPTIONS_MAX_LISTENERS][ADDRESS_TEXT];

    struct snapshot_stream *streams;
    size_t stream_count;
    size_t matching; /* streams of which the page is one */
    struct snapshot_sums sums;
    struct frame_second *frames; /* FRAME_MINUTE_SECONDS; NULL: none, or not asked for */
    struct snapshot_player *players;
    size_t player_count;
    struct snapshot_pull *pulls;
    size_t pull_count;
    struct snapshot_forward *forwards;
    size_t forward_count;
    struct snapshot_edge_counts edge_counts;
    struct snapshot_edge *edges; /* those that fail first; NULL: none is asked for */
    size_t edge_count;
    struct record_override_entry *overrides;
    size_t override_count;
    struct snapshot_ban *bans; /* NULL: not asked for */
    size_t ban_count;
};

/* Of all workers, in their order; NULL where one has not answered. */
struct snapshots {
    struct snapshot *const *list;
    size_t count;
};

/* Whether there is one of each worker. */
bool snapshots_are_whole(const struct snapshots *snapshots);

/* On the worker's thread. What is not asked for is empty. 0, -ENOMEM */
int snapshot_take(struct worker *worker, const struct snapshot_request *request, struct snapshot **ret_snapshot);

/*
 * Has the players of replicas counted with their streams, as far as these are there, and takes the
 * replicas out: a stream is one, whoever serves its players. @list: some may be NULL
 */
void snapshots_fold(struct snapshot *const *list, size_t count);

/* Any thread. NULL is allowed. */
void snapshot_free(struct snapshot *snapshot);

/* The names of the causes for which frames are dropped. */
const char *snapshot_drop_name(enum player_drop cause);

#endif
