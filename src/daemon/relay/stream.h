/*
 * A stream: one publisher at most, any number of players, and what they are started with. What it
 * is sent goes to its sinks (stream_sink.h). Its worker's thread only.
 */
#ifndef SLUICED_STREAM_H
#define SLUICED_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sluice/flv.h>
#include <sluice/pool.h>

#include "daemon/access/ban.h"
#include "daemon/base/address.h"
#include "daemon/base/stream_name.h"
#include "daemon/relay/coalesce.h"
#include "daemon/relay/frame_minute.h"
#include "daemon/relay/gop.h"
#include "daemon/relay/publish_lock.h"
#include "daemon/relay/stream_policy.h"
#include "daemon/relay/stream_sink.h"
#include "daemon/relay/timeline.h"
#include "daemon/relay/track_payload.h"

struct publish_claim;
struct coalesce_group;
struct edge_stream;
struct player;
struct registry;
struct replica;
struct replica_site;
struct rtp_packetizer;
struct session;
struct stand_in;
struct stream;

/* What is set for a registry's streams. */
struct stream_limits {
    /* memory for what describes the streams' tags; of the first limits alone */
    uint64_t packet_bytes;
    uint64_t most_streams; /* 0: no limit */
    /* how many there are, in other registries, too; NULL: in this one alone */
    atomic_uint *streams;
    /* of each stream; they stay until there are other limits */
    const struct stream_policies *policies;
    /* for publishers that have gone, whatever the policies say */
    bool keeps_none;
    uint32_t merge_window_most; /* of automatic ones, milliseconds; 0: they are none */
    uint32_t unwatched_ms;      /* see unwatched.h; 0: publishers are read as bytes come */
};

/* What has gone through all streams ever. Only goes up. */
struct stream_totals {
    uint64_t bytes_received, video_frames, audio_frames, frames_lost;
    uint64_t jumps;      /* of their timestamps */
    uint64_t publishers; /* that have had a stream */
    uint64_t displaced;  /* of those, the ones that another one has taken it from */
    uint64_t superseded; /* likewise, or about to, by one of another node of the cluster */
    uint64_t players;    /* that have come */
    uint64_t bytes_sent, frames_sent, sends;
    uint64_t dropped[DROP_CAUSES];
};

enum { REGISTRY_BUCKETS = 1024 };

/* What needs the memory that is to be made free. */
enum reclaim_for {
    RECLAIM_FOR_BLOCKS,  /* this worker's */
    RECLAIM_FOR_PACKETS, /* likewise, which describe whatever blocks */
    RECLAIM_FOR_ANOTHER, /* worker's blocks, which replicas hold */
};

/* See registry_on_shortage(). */
typedef bool registry_shortage_fn(uint64_t bytes, void *user);

/* All streams of a worker, and what they share. The calls are in registry.h. */
struct registry {
    sluice_loop *loop;
    sluice_pool *pool;
    struct packet_pool *packets;
    struct track_payloads payloads;
    struct stream_limits limits;
    size_t block_size;
    struct stream *buckets[REGISTRY_BUCKETS];
    uint32_t count;
    struct bans bans;           /* of publishers that may not publish for a while */
    struct publish_locks locks; /* publishers that wait for the name of one of the streams */
    struct coalesce_site merging;
    struct stream_totals gone; /* of publishers and players that are no more */
    bool (*make_room)(struct registry *registry, enum reclaim_for what); /* reclaim() */
    /* see registry_on_wanted() */
    void (*wanted)(struct stream *stream, void *user);
    void *wanted_user;
    registry_shortage_fn *shortage; /* see registry_on_shortage(); or NULL */
    void *shortage_user;
    void (*opened)(struct stream *stream, void *user); /* see registry_on_opened() */
    void *opened_user;
    void (*left)(struct stream *stream, void *user); /* see registry_on_left() */
    void *left_user;
};

enum { STREAM_IGNORED = 96 }; /* bytes of the names of media that are not taken */

/* The publisher, as the API shows it. */
struct stream_source {
    char peer[ADDRESS_TEXT];
    const char *protocol;
    /* media of it that are not taken, "video/AV1, audio/AC3"; NULL: there are none. Its session's
     * until it leaves the stream */
    const char *ignored;
    uint64_t since;          /* loop time at which it came: it may have waited for the name */
    struct session *session; /* that has the connection; NULL: none has */
    const struct publish_calls *calls;
    uint32_t interval_ms; /* at which it is read, set by unwatched.c; 0: as its bytes come */
    uint8_t silent_ticks; /* see there */
    bool is_remote;       /* another node of the cluster has the stream, and sends it */
    uint64_t epoch;       /* with which it does */
};

/* Whether another node has a stream that has no publisher here. */
enum stream_search {
    STREAM_SEARCH_NONE,   /* nobody asks: there is no cluster, or no interest in the stream */
    STREAM_SEARCH_ASKS,   /* the cluster is asked: set by the edge, as what follows */
    STREAM_SEARCH_COMES,  /* another node has it, and is asked for it */
    STREAM_SEARCH_FAILED, /* no node has it, or it cannot be had from there */
};

/* What a stream is in a cluster. All zero without one. */
struct stream_cluster {
    uint64_t epoch; /* that it is live with; of its last publisher, here or on another node */
    uint64_t seen;  /* the highest of this stream that this node has seen; not below epoch */
    enum stream_search search;
    struct cidr_address host;        /* of its last publisher here */
    struct publish_claim *claims;    /* of this node's publishers: see server/publish_claim.h */
    struct publish_claim *asserting; /* likewise; or NULL */
    struct edge_stream *edge;        /* fetches it from another node; or NULL */
};

/*
 * The members up to the policy are what each tag needs, besides its track and its second of the
 * minute: they lie together, since with many streams they are in no cache when a tag comes. The
 * group ends with its own such members, and the policy and the tracks begin with theirs.
 */
struct stream {
    struct gop gop;
    struct registry *registry;
    struct stream_sink *sinks;      /* by rank */
    struct stream_sink_walk *walks; /* that are under way, the innermost first */
    /* of a replica, and of a stream that one stands in for: the worker that its packets' memory is
     * of; or NULL */
    struct replica_site *lender;
    uint64_t received_at; /* loop time of its last tag */
    uint64_t bytes, video_frames, audio_frames, frames_dropped;
    uint64_t blocks_held;
    uint64_t copies;       /* of headers, which hold no block */
    sluice_slice previous; /* of the last frame, if it is held: the next may share a block */

    /* Tracks, as SLUICE_FLV_HAS_ flags. */
    uint8_t seen;    /* of which something has come */
    uint8_t claimed; /* by the metadata, or else by the file header */
    bool has_metadata;
    /* all tracks that will come have come, as far as can be known: players are started */
    bool settled;
    bool opened; /* the first frame has come */
    uint32_t opened_at;
    struct timeline timeline;
    struct stream_policy policy; /* what holds for it */

    struct tracks video, audio;
    struct stream_headers headers;
    struct track_header metadata_header;
    uint32_t versions; /* of headers and metadata: the last one given */
    /* frames of this publisher's that are of more tracks than there may be: not taken */
    uint64_t beyond_tracks;
    sluice_flv_metadata metadata;
    uint64_t sends; /* to this worker's players of it, those that have gone included */
    /* bytes at the last rate tick, and what came since the one before */
    uint64_t rate_bytes, bits_per_second;
    struct frame_minute minute;

    uint64_t id;
    struct stream **bucket, *next; /* in which the registry has it */
    const char *name;              /* lies behind the stream: most are short */
    uint32_t references;

    bool live; /* has a publisher */
    struct stream_source source;
    struct publish_lock locks; /* those that wait for its name */
    uint64_t publisher_id;     /* of the last one */
    uint64_t left_at;          /* loop time since which there is no publisher */
    /* loop time; 0: it is not kept for its last publisher. A reference of its own */
    uint64_t kept_until;
    const char *left_why; /* the last publisher that has left; or NULL */
    struct stream_sink player_sink;
    struct player *players;
    uint32_t player_count;
    /* a replica of another worker's stream, for some of its players; NULL: it is none */
    struct replica *fed_by;
    uint64_t lacking;           /* if so: 1 << place of each decoder's header without memory */
    struct stand_in *stand_in;  /* that is live in place of a publisher; or NULL */
    uint32_t rtp_players;       /* of those, the ones that are sent RTP */
    struct rtp_packetizer *rtp; /* made for the first of them; or NULL */
    /* those that are sent the main tracks alone, as tags that name no track */
    uint32_t alone_players;
    struct coalesce_group *merges; /* players with a merge window, by window */
    struct stream_cluster cluster;
};

/* What a replica of a stream is to know of it, besides its tags. */
struct stream_state {
    uint64_t id;
    char name[STREAM_NAME + 1];
    bool live;
    uint64_t left_at, kept_until;
    enum stream_search search;
    uint8_t seen, claimed;
    bool has_metadata, settled, opened;
    uint32_t opened_at;
    bool has_group; /* or had, until it was too large */
    sluice_flv_metadata metadata;
    struct tracks_copy video, audio;
};

/* A tag as the stream's own worker has taken it in, for a replica. */
struct stream_tag {
    sluice_flv_tag tag; /* with the time for players; the payload is a reference */
    enum packet_role role;
    uint8_t flags;       /* of the publisher's file header */
    uint8_t track, main; /* places of its track, and of the main one of its kind */
    uint32_t version;    /* of a header */
    uint32_t blocks;
    uint64_t received_at;
    struct packet_loan loan;
};

/*
 * Sinks: one that is removed is its owner's again. Of one rank, the last that was added is called
 * first. NULL where there is none of that type.
 */
void stream_add_sink(struct stream *stream, struct stream_sink *sink);
void stream_remove_sink(struct stream *stream, struct stream_sink *sink);
struct stream_sink *stream_find_sink(const struct stream *stream, const struct stream_sink_type *type);

/* The sinks one after the other, which may be removed and added meanwhile; to the end, which is
 * NULL. */
struct stream_sink *stream_first_sink(struct stream *stream, struct stream_sink_walk *walk);
struct stream_sink *stream_next_sink(struct stream *stream, struct stream_sink_walk *walk);

static inline struct stream *stream_ref(struct stream *stream) {
    stream->references++;
    return stream;
}

void stream_unref(struct stream *stream);

/* Keeps the name and what belongs to it until then; 0: no longer than it is kept already. */
void stream_keep(struct stream *stream, uint64_t until);

/* Calls for each stream, which may let go of it. */
void registry_each(struct registry *registry, void (*call)(struct stream *stream, void *user), void *user);

/* One stream less. */
void registry_uncount(struct registry *registry);

/* Adds the counts of its publisher. */
void stream_add_totals(const struct stream *stream, struct stream_totals *totals);

/*
 * For publish_lock.h. 0, -EEXIST when it has a publisher; and now, whenever it came: -EBUSY when it
 * is kept for another one, -EKEYREJECTED when this one is banned. A remote source is neither: the
 * cluster has decided.
 */
int stream_attach(struct stream *stream, const struct stream_source *source);

/*
 * The same for another stream that stands in, until a publisher attaches: also where the stream is
 * kept for one. @lender: of the packets' memory, or NULL. @peer: of the other stream's publisher.
 * 0, -EEXIST
 */
int stream_attach_stand_in(struct stream *stream, struct stand_in *stand_in, struct replica_site *lender,
                           const char *peer);

void stream_detach(struct stream *stream, uint64_t now);

/* One more send to a player, which only player_sent() counts. */
void stream_count_send(struct stream *stream);

/* Sends to all players it has had, on whatever worker. Of a replica: on this one. */
uint64_t stream_sends(const struct stream *stream);

/*
 * Whether there has been no publisher for as long as a player waits that joined at @joined, the
 * stream is not reserved for a publisher that has left, and it does not come from another node.
 */
bool stream_is_given_up(const struct stream *stream, uint64_t joined, uint64_t wait_ms, uint64_t now);

/* The tracks of audio or video. */
static inline struct tracks *stream_tracks(struct stream *stream, sluice_flv_type type) {
    return type == SLUICE_FLV_VIDEO ? &stream->video : &stream->audio;
}

/* Whether decoding of the stream can begin with this packet. */
static inline bool stream_is_sync(const struct stream *stream, const struct packet *packet) {
    return packet_is_sync(packet, stream->seen & SLUICE_FLV_HAS_VIDEO);
}

/* Whether the packet is of a main track, or of none. */
static inline bool stream_is_main(const struct stream *stream, const struct packet *packet) {
    return packet->type == SLUICE_FLV_SCRIPT ||
           packet->track == (packet->type == SLUICE_FLV_VIDEO ? &stream->video : &stream->audio)->main;
}

/*
 * Takes one tag to everybody. One of many tracks is taken apart: each becomes a tag that names its
 * track. @flags: of the publisher's file header. 0, -ENOMEM (this tag is lost, or a part of it), or
 * -ENOTRECOVERABLE: likewise, and no frame of its track that follows can be decoded
 */
int stream_publish(struct stream *stream, sluice_flv_tag *tag, uint8_t flags);

/* Bytes of blocks that large headers and metadata hold: nothing but the publisher's end gives them
 * up. */
size_t stream_pinned(const struct stream *stream);

/* A frame is lost that was to be published: it is counted, and everybody goes on with the next key
 * frame. */
void stream_lose(struct stream *stream);

/*
 * Replicas: streams of another worker's, on this one. They are not counted as streams, nothing
 * publishes them but these calls, and they are not recorded.
 */
void stream_get_state(const struct stream *stream, struct stream_state *ret_state);

/* A publisher has come to the stream, or has left it. */
void stream_replica_begin(struct stream *replica);
void stream_replica_end(struct stream *replica, uint64_t left_at, uint64_t kept_until);

/* Takes one tag to the replica's players. What it does not take over stays the caller's, in the
 * tag. */
void stream_replica_publish(struct stream *replica, struct stream_tag *tag);

/* The same for what is in the stream's cached group, and for headers, which no player is sent
 * now. */
void stream_replica_cache(struct stream *replica, struct stream_tag *tag, bool in_group);

/*
 * Whether another node has it is known now, or asked. Players of replicas learn it, too.
 */
void stream_set_search(struct stream *stream, enum stream_search search);

/* A player has joined: calls registry_on_wanted()'s function if there is no publisher. */
void stream_want(struct stream *stream);

/* Whether its tracks are known. */
bool stream_is_known(const struct stream *stream);

#endif
