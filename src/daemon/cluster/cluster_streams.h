/*
 * What a node remembers of streams, by name: its own claim, claims that wait, and where another
 * node has it. Names that nobody is interested in any more stay until there are too many, the
 * oldest one first. Inside of cluster_node.
 */
#ifndef SLUICED_CLUSTER_STREAMS_H
#define SLUICED_CLUSTER_STREAMS_H

#include <sys/queue.h>

#include "daemon/cluster/cluster_command.h"
#include "daemon/server/cluster_query.h"

enum cluster_hold {
    CLUSTER_HOLD_NONE,    /* set by the last release, and where the claim is lost */
    CLUSTER_HOLD_WORD,    /* on this node's word: set by a claim without the engine */
    CLUSTER_HOLD_GRANTED, /* set by the engine's reply to a claim or to an assertion */
};

enum cluster_known {
    CLUSTER_UNKNOWN, /* set for a new name, and where this node has it */
    CLUSTER_ABSENT,  /* no node has it: set by a reply or an event */
    CLUSTER_AT,      /* a node has it: set by a reply or an event */
};

/* Jobs in the order in which they have come. All zero at the beginning. */
struct cluster_jobs {
    struct cluster_job *first, *last;
};

/* A claim that waits. */
struct cluster_wait {
    TAILQ_ENTRY(cluster_wait) link;
    struct cluster_job *job;
    uint64_t since;
    uint32_t attempts;
    bool tried_by_host; /* as CLUSTER_TAKE_FROM_HOST */
    /* the holder's lease when the claim was first answered; incarnation 0: it was not */
    uint64_t incarnation, beat;
};

struct cluster_peer_entry;

struct cluster_stream {
    LIST_ENTRY(cluster_stream) of_bucket;
    TAILQ_ENTRY(cluster_stream) of_idle, of_own, of_finds, of_drops, of_waiting;
    LIST_ENTRY(cluster_stream) of_peer;
    bool is_idle, is_in_own, is_in_finds, is_in_drops, is_in_waiting;
    uint32_t in_flight; /* commands that name it */
    uint64_t highest;   /* epoch that has been seen */

    /* This node's claim. */
    enum cluster_hold hold;
    uint32_t claim;           /* counts the claims: a late reply is not for another one */
    uint64_t epoch;           /* of the claim, or of the last one */
    uint32_t users;           /* publishers that have been granted it */
    uint32_t lost;            /* publishers of lost claims, which have not released it yet, */
    uint64_t lost_epoch;      /* up to this epoch */
    bool had_last;            /* no other node has had it since */
    struct cidr_address host; /* of its publisher */
    uint64_t checked_at;
    uint32_t checked_in; /* generation in which it was asserted */
    bool is_checking, must_check;
    uint64_t floor; /* that an assertion is to exceed; 0: none */
    struct cluster_jobs asserts;

    /* Claims that wait. */
    TAILQ_HEAD(, cluster_wait) waits;
    uint32_t wait_count;
    bool is_claiming;
    struct cluster_wait *attempt; /* that is under way; NULL: none is, or it has been answered */
    uint64_t tried_at;
    /* the holder's lease, by the last reply; incarnation 0: it had none, or nothing is known */
    uint64_t holder_incarnation, holder_beat;

    /* A release to be sent. */
    uint64_t drop_epoch, drop_keep_ms;
    struct cidr_address drop_host;

    /* Where it is. */
    bool is_wanted;
    bool is_doubtful; /* it is to be located once, to see whether the engine has it here */
    enum cluster_known known;
    struct cluster_location location; /* the epoch also where no node has it */
    uint64_t known_at;
    uint32_t known_in; /* generation */
    struct cluster_peer_entry *at;
    uint64_t told_incarnation, told_epoch; /* what the worker knows; 0: that it is gone */
    bool is_finding, must_find, has_heard; /* @has_heard: an event since that question */
    uint64_t found_at;
    uint32_t found_in; /* generation */
    struct cluster_jobs locates;
    uint64_t locate_since; /* of the first of them */

    char name[];
};

LIST_HEAD(cluster_stream_list, cluster_stream);
TAILQ_HEAD(cluster_stream_queue, cluster_stream);

struct cluster_streams {
    struct cluster_stream_list *buckets;
    size_t bucket_count;              /* a power of two */
    struct cluster_stream_queue idle; /* that may be forgotten, the oldest first */
    size_t count, most;
};

/* 0, -ENOMEM */
int cluster_streams_init(struct cluster_streams *streams, size_t most);

void cluster_streams_clear(struct cluster_streams *streams);

/* NULL: it is not known. */
struct cluster_stream *cluster_streams_find(const struct cluster_streams *streams, const char *name);

/* A new one. NULL: there are too many, or no memory. */
struct cluster_stream *cluster_streams_add(struct cluster_streams *streams, const char *name);

/* The one to be forgotten if there are too many. It is in no list but the idle ones', and perhaps
 * the drops and its peer's. NULL: there is room, or none may be. */
struct cluster_stream *cluster_streams_excess(const struct cluster_streams *streams);

void cluster_streams_remove(struct cluster_streams *streams, struct cluster_stream *stream);

/* After each change: whether somebody is interested in it. */
void cluster_streams_settle(struct cluster_streams *streams, struct cluster_stream *stream);

void cluster_jobs_add(struct cluster_jobs *jobs, struct cluster_job *job);

/* NULL: there is none. */
struct cluster_job *cluster_jobs_take(struct cluster_jobs *jobs);

#endif
