/*
 * The inside of a node: its state, and what its parts call of each other. cluster_node has the
 * connection, the lease and the list of nodes, cluster_claim this node's claims, cluster_location
 * the streams of others. Not for other folders.
 */
#ifndef SLUICED_CLUSTER_STATE_H
#define SLUICED_CLUSTER_STATE_H

#include "daemon/cluster/cluster_commands.h"
#include "daemon/cluster/cluster_node.h"
#include "daemon/cluster/cluster_peers.h"
#include "daemon/cluster/cluster_streams.h"

enum {
    CLUSTER_BATCHES = 4,          /* of a kind that are under way */
    CLUSTER_AGAIN_MS = 1000,      /* after which what the engine has rejected is asked again */
    CLUSTER_CLAIMS_MAX = 64,      /* that wait for one stream; as on one node */
    CLUSTER_LIST_PAGES = 64,      /* of one list */
    CLUSTER_CLOCK_JUMP_MS = 2000, /* of the engine's clock: what it kept may be gone */
};

struct cluster_node {
    char name[CLUSTER_NODE + 1];
    char address[CLUSTER_ADDRESS + 1];
    bool is_secure, refuses_when_down;
    uint64_t random;
    struct cluster_node_calls calls;
    void *user;

    enum cluster_node_state state;
    uint64_t now;
    bool is_connected;
    bool is_settled; /* the first attempt to connect has ended, or has taken too long */
    uint64_t started_at;
    uint32_t generation; /* what was checked in an earlier one has to be checked again */

    uint64_t incarnation;
    uint64_t beat, acknowledged_beat;
    uint64_t renew_at;
    bool joins_anew; /* the next renewal asks for an incarnation */
    bool has_lease;  /* by the engine's last word on it */
    /* of a newer lease that the engine had */
    uint64_t rival_incarnation, rival_beat, rival_since;
    struct cluster_load load;
    int64_t clock_offset_ms, engine_offset_ms;
    uint64_t highest; /* epoch that has been seen */

    bool is_leaving; /* the engine has not confirmed it yet */
    uint64_t list_at;
    uint64_t list_round, listed_at; /* @listed_at: a whole one */
    unsigned list_pages;            /* of the round */
    bool wants_bans;                /* those that the engine has are to be asked for, */
    uint64_t bans_at;               /* from then on */
    uint64_t bans_since;            /* of the last list, see struct cluster_reply; 0: none yet */

    struct cluster_streams streams;
    struct cluster_peers peers;
    struct cluster_commands commands;
    /* to be asserted, located, released: the next first; with claims or lookups that wait */
    struct cluster_stream_queue own, finds, drops, waiting;
};

/* ---- cluster_node ---- */

/* Whether commands about streams can be sent; and claims. */
bool cluster_node_can_ask(const struct cluster_node *node);
bool cluster_node_can_claim(const struct cluster_node *node);

/* Found or new; a name that nobody is interested in makes room. NULL: there is none. */
struct cluster_stream *cluster_node_stream(struct cluster_node *node, const char *name);

/* After each change of a stream. */
void cluster_node_settle(struct cluster_node *node, struct cluster_stream *stream);

/* Sends the command of a record; false: not, and the record is freed. */
bool cluster_node_send(struct cluster_node *node, struct cluster_record *record, struct cluster_command *command);

/* An epoch has been seen. */
void cluster_node_seen(struct cluster_node *node, struct cluster_stream *stream, uint64_t epoch);

/* The engine has no lease of this node, or a newer one, as a reply to a claim says. */
void cluster_node_lost_lease(struct cluster_node *node);

/* Another node's lease, or its leave, changes what is to be thought of its streams. */
void cluster_node_peer_changed(struct cluster_node *node, struct cluster_peer_entry *entry);

void cluster_node_answer(struct cluster_node *node, struct cluster_job *job, int error);

/* ---- cluster_claim ---- */

void cluster_claim_ask(struct cluster_node *node, struct cluster_job *job);
void cluster_claim_release(struct cluster_node *node, struct cluster_job *job);
void cluster_claim_assert(struct cluster_node *node, struct cluster_job *job);

/* Claims of the stream that wait are sent, if they can be. */
void cluster_claim_try(struct cluster_node *node, struct cluster_stream *stream);

/* With time: repeats claims that are held, and gives up. */
void cluster_claim_tick(struct cluster_node *node, struct cluster_stream *stream);

/* Decides all claims of the stream that wait without the engine; with @error: instead. */
void cluster_claim_decide(struct cluster_node *node, struct cluster_stream *stream);
void cluster_claim_refuse(struct cluster_node *node, struct cluster_stream *stream, int error);

/* Sends assertions and releases that are due. */
void cluster_claim_pump(struct cluster_node *node);

/* What this node has is asserted soon, whatever was checked when. */
void cluster_claim_check(struct cluster_node *node, struct cluster_stream *stream);

/* The engine has a claim of this node up to that epoch, which is none. */
void cluster_claim_drop(struct cluster_node *node, struct cluster_stream *stream, uint64_t epoch);

/* The node has lost the stream. @location: to that one; NULL: nobody knows */
void cluster_claim_lose(struct cluster_node *node, struct cluster_stream *stream,
                        const struct cluster_location *location);

/* Nothing of the stream is owed to the engine any more. */
void cluster_claim_forget(struct cluster_node *node, struct cluster_stream *stream);

void cluster_claim_replied(struct cluster_node *node, struct cluster_record *record, const struct cluster_reply *reply);
void cluster_claim_checked(struct cluster_node *node, struct cluster_record *record, const struct cluster_reply *reply);
void cluster_claim_dropped(struct cluster_node *node, struct cluster_record *record);

/* Assertions that were asked for are not sent. */
void cluster_claim_end_asserts(struct cluster_node *node);

/* A command of these kinds has no reply. */
void cluster_claim_undo(struct cluster_node *node, struct cluster_record *record);

/* ---- cluster_location ---- */

void cluster_location_ask(struct cluster_node *node, struct cluster_job *job);
void cluster_location_forget(struct cluster_node *node, struct cluster_job *job);
void cluster_location_find_node(struct cluster_node *node, struct cluster_job *job);

/* Where it is by what is known. False: nowhere, or its node is dead: @ret_location is empty. */
bool cluster_location_get(const struct cluster_node *node, const struct cluster_stream *stream,
                          struct cluster_location *ret_location);

/* It is there: a node, or none if @location's is empty. */
void cluster_location_set(struct cluster_node *node, struct cluster_stream *stream,
                          const struct cluster_location *location);

/* Nothing is known any more. */
void cluster_location_clear(struct cluster_node *node, struct cluster_stream *stream);

/* The worker hears of what it does not know yet. */
void cluster_location_report(struct cluster_node *node, struct cluster_stream *stream);

/* It is located again soon. @once: also if nobody is interested */
void cluster_location_check(struct cluster_node *node, struct cluster_stream *stream, bool once);

/* With time: lookups that could not be sent. */
void cluster_location_tick(struct cluster_node *node, struct cluster_stream *stream);

/* Answers all lookups without the engine; with @error: instead. */
void cluster_location_decide(struct cluster_node *node, struct cluster_stream *stream);
void cluster_location_refuse(struct cluster_node *node, struct cluster_stream *stream, int error);

void cluster_location_pump(struct cluster_node *node);
void cluster_location_replied(struct cluster_node *node, struct cluster_record *record,
                              const struct cluster_reply *reply);
void cluster_location_undo(struct cluster_node *node, struct cluster_record *record);

/* Whether a claim with this epoch and incarnation is above that one. */
bool cluster_location_is_above(const struct cluster_location *location, uint64_t epoch, uint64_t incarnation);

#endif
