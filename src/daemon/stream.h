/*
 * A stream: one publisher at most, any number of players, and what they are started with. The registry finds streams
 * by name; a stream exists as long as it has a publisher or a player. Its worker's thread only.
 */
#ifndef SLUICED_STREAM_H
#define SLUICED_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sluice/flv.h>
#include <sluice/pool.h>

#include "daemon/address.h"
#include "daemon/ban.h"
#include "daemon/claim.h"
#include "daemon/gop.h"
#include "daemon/merge.h"
#include "daemon/player.h"
#include "daemon/recorder.h"
#include "daemon/stream_name.h"
#include "daemon/stream_policy.h"
#include "daemon/timeline.h"
#include "daemon/track_payload.h"

struct feed;
struct registry;
struct rtp_output;
struct session;
struct stream;

/* What the registry's streams share. */
struct stream_limits {
    uint64_t packet_bytes;                  /* memory for what describes the streams' tags; of the first limits alone */
    uint64_t most_streams;                  /* 0: no limit */
    atomic_uint *streams;                   /* how many there are, in other registries, too; NULL: in this one alone */
    const struct stream_policies *policies; /* of each stream; they stay until there are other limits */
    bool keeps_none;                        /* for publishers that have gone, whatever the policies say */
};

enum { STREAM_IGNORED = 96 }; /* bytes */

/* Who publishes, as the API shows it. */
struct stream_source {
    char peer[ADDRESS_TEXT];
    const char *protocol;
    char ignored[STREAM_IGNORED]; /* media of it that are not taken, "video/AV1, audio/AC3"; empty: there are none */
    uint64_t since;               /* loop time at which it came: it may have waited for the name */
    struct session *session;      /* whose connection it is */
};

struct stream {
    struct registry *registry;
    uint64_t id;
    struct stream *next; /* in its bucket */
    char name[STREAM_NAME + 1];
    uint32_t references;
    struct stream_policy policy; /* what holds for it */

    bool live; /* has a publisher */
    struct stream_source source;
    struct claim_queue claims; /* those that wait for its name */
    uint64_t publisher_id;     /* of the last one */
    uint64_t received_at;      /* loop time of its last tag */
    uint64_t left_at;          /* loop time since which there is no publisher */
    uint64_t kept_until;       /* loop time; 0: it is not kept for its last publisher. A reference of its own */
    const char *left_why;      /* the last publisher that has left; or NULL */
    struct player *players;
    uint32_t player_count;
    struct feed *feeds;     /* to other workers, where it has more players */
    struct feed *fed_by;    /* a replica of another worker's stream, for some of its players; NULL: it is none */
    uint32_t rtp_players;   /* of those, the ones that are sent RTP */
    struct rtp_output *rtp; /* made for the first of them; or NULL */
    uint32_t alone_players; /* those that are sent the main tracks alone, as tags that name no track */
    struct merge *merges;   /* players with a merge window, by window */

    enum record_wish record;   /* what an operator wants, as its recorders know it */
    struct recorder *recorder; /* while it is recorded; or NULL */

    struct stream_headers headers;
    struct gop gop;
    sluice_slice previous; /* of the last packet: what the next one may share a block with */
    uint64_t blocks_held;

    struct tracks video, audio;
    struct track_header metadata_header;
    uint32_t versions;      /* of headers and metadata: the last one given */
    uint64_t beyond_tracks; /* frames of this publisher's that are of more tracks than there may be: not taken */

    /* Tracks, as SLUICE_FLV_HAS_ flags. */
    uint8_t seen;    /* of which something has come */
    uint8_t claimed; /* by the metadata, or else by the file header */
    bool has_metadata;
    bool settled; /* all tracks that will come have come, as far as can be known: players are started */
    bool opened;  /* the first frame has come */
    uint32_t opened_at;

    struct timeline timeline;
    sluice_flv_metadata metadata;
    uint64_t bytes, video_frames, audio_frames, frames_dropped;
    uint64_t sends;                       /* to its players, those that have gone included */
    uint64_t rate_bytes, bits_per_second; /* bytes at the last rate tick, and what came since the one before */
};

/* What a replica of a stream is to know of it, besides its tags. */
struct stream_state {
    uint64_t id;
    char name[STREAM_NAME + 1];
    bool live;
    uint64_t left_at, kept_until;
    uint8_t seen, claimed;
    bool has_metadata, settled, opened;
    uint32_t opened_at;
    bool has_group; /* or had, until it was too large */
    sluice_flv_metadata metadata;
    struct tracks video, audio;
};

/* A tag as the stream's own worker has taken it in, for a replica. */
struct stream_tag {
    sluice_flv_tag tag; /* at the time that players are told; the payload is a reference */
    enum packet_role role;
    uint8_t flags;       /* of the publisher's file header */
    uint8_t track, main; /* places of its track, and of the main one of its kind */
    uint32_t version;    /* of a header */
    uint32_t blocks;
    uint64_t received_at;
    struct packet_loan loan;
};

/* What has gone through all streams ever. Only goes up. */
struct stream_totals {
    uint64_t bytes_received, video_frames, audio_frames, frames_lost;
    uint64_t jumps;      /* of their timestamps */
    uint64_t publishers; /* that have had a stream */
    uint64_t displaced;  /* of those, the ones that another one has taken it from */
    uint64_t players;    /* that have come */
    uint64_t bytes_sent, frames_sent, sends;
    uint64_t dropped[DROP_CAUSES];
};

int registry_new(sluice_loop *loop, const struct stream_limits *limits, struct registry **ret_registry);
void registry_free(struct registry *registry);

/* Other limits, for the streams and players that there are, too. */
void registry_set_limits(struct registry *registry, const struct stream_limits *limits);

/*
 * The stream of that name, made where it does not exist, with one more reference. 0, -EINVAL (the name), -EUSERS (there
 * are as many as there may be), -ENOMEM
 */
int registry_get(struct registry *registry, const char *name, size_t length, uint64_t now, struct stream **ret_stream);

/* The stream of that name, without a reference; NULL where there is none. */
struct stream *registry_find(const struct registry *registry, const char *name);

const struct stream_limits *registry_limits(const struct registry *registry);

/* Calls for each stream that a player comes to while it has no publisher. */
void registry_on_wanted(struct registry *registry, void (*call)(struct stream *stream, void *user), void *user);

/* Has streams recorded. */
void registry_record(struct registry *registry, struct recorders *recorders);

/* Calls for each stream, which may let go of it. */
void registry_each(struct registry *registry, void (*call)(struct stream *stream, void *user), void *user);

void registry_get_totals(struct registry *registry, struct stream_totals *ret_totals);

/* Of publishers that may not publish for a while. */
struct bans *registry_bans(struct registry *registry);

/* Publishers that wait for the name of one of its streams. */
struct claims *registry_claims(struct registry *registry);

/* One has taken a stream from another. */
void registry_count_displaced(struct registry *registry);

uint32_t registry_count(const struct registry *registry);

/* Whether a stream of its has players elsewhere, or one of its players a stream that is another worker's. */
bool registry_is_spread(struct registry *registry);

/* Bytes of memory that describe the streams' tags: packets, and long lists of them. */
uint64_t registry_packet_bytes(const struct registry *registry);

/* Once a second: the rates, and streams that are not kept any more. */
void registry_tick(struct registry *registry, uint64_t elapsed_ms);

void stream_unref(struct stream *stream);

/*
 * For claim.h. 0, -EEXIST when it has a publisher; and now, whenever it came: -EBUSY when it is kept for another one,
 * -EKEYREJECTED when this one is banned.
 */
int stream_attach(struct stream *stream, const struct stream_source *source);

void stream_detach(struct stream *stream, uint64_t now);

/*
 * Whether nobody publishes, and has not for as long as a player waits that has come at @joined, nor is the publisher
 * that has left waited for.
 */
bool stream_is_given_up(const struct stream *stream, uint64_t joined, uint64_t wait_ms, uint64_t now);

/* The tracks of audio or video. */
static inline struct tracks *stream_tracks(struct stream *stream, sluice_flv_type type) {
    return type == SLUICE_FLV_VIDEO ? &stream->video : &stream->audio;
}

/* Whether the packet is of a main track, or of none. */
static inline bool stream_is_main(const struct stream *stream, const struct packet *packet) {
    return packet->type == SLUICE_FLV_SCRIPT ||
           packet->track == (packet->type == SLUICE_FLV_VIDEO ? &stream->video : &stream->audio)->main;
}

/*
 * Takes one tag to everybody. One of many tracks is taken apart: each becomes a tag that names its track. @flags: of
 * the publisher's file header. 0, or -ENOMEM (this tag is lost, or a part of it)
 */
int stream_publish(struct stream *stream, sluice_flv_tag *tag, uint8_t flags);

/* Bytes of blocks that large headers and metadata hold: nothing but the publisher's end gives them up. */
size_t stream_pinned(const struct stream *stream);

/* A frame is lost that was to be published: it is counted, and everybody goes on with the next key frame. */
void stream_lose(struct stream *stream);

/*
 * Replicas: streams of another worker's, on this one. They are not counted as streams, nothing publishes them but these
 * calls, and they are not recorded. @fed_by: lives as long as the replica. 0, -ENOMEM
 */
int registry_add_replica(struct registry *registry, const struct stream_state *state, struct feed *fed_by,
                         struct stream **ret_replica);
void stream_get_state(const struct stream *stream, struct stream_state *ret_state);

/* A publisher has come to the stream, or has left it. */
void stream_replica_begin(struct stream *replica);
void stream_replica_end(struct stream *replica, uint64_t left_at, uint64_t kept_until);

/* Frames have been lost on the way, of which there is a gap from now on. */
void stream_replica_lose(struct stream *replica, bool gap, uint32_t frames);

/* Takes one tag to the replica's players. What it does not take over stays the caller's, in the tag. */
void stream_replica_publish(struct stream *replica, struct stream_tag *tag);

/* The same for what is in the stream's cached group, and for headers, which no player is sent now. */
void stream_replica_cache(struct stream *replica, struct stream_tag *tag, bool in_group);

/* Players, those that other workers serve included. */
uint32_t stream_player_count(const struct stream *stream);

/* A player has come to the stream: who has to know is told where it has no publisher. */
void stream_want(struct stream *stream);

/* Whether it may have one player more. */
bool stream_has_room(const struct stream *stream);

/* The player's own fields (conn, begin, user, form, merge_window_ms) are set. It must be removed before it goes. */
void stream_add_player(struct stream *stream, struct player *player);

/* Adds a player that asks for the tracks first: it is told when they are known, which they may be already. */
void stream_add_asking(struct stream *stream, struct player *player);
bool stream_is_known(const struct stream *stream);

/* Starts a player that has asked, or goes on after a pause: now, or with the stream's first frame. */
void stream_play(struct stream *stream, struct player *player);
void stream_remove_player(struct stream *stream, struct player *player);

/* One that has been removed, with what it holds: the kernel is done with its packets. NULL is allowed. */
void stream_free_player(struct player *player);

/* Another merge window for one of its players; what has been gathered leaves now. */
void stream_set_merge_window(struct stream *stream, struct player *player, uint32_t window_ms);

#endif
