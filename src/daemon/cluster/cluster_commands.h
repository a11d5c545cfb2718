/*
 * Commands of a node that are under way: what each was about, by its tag. Inside of cluster_node.
 */
#ifndef SLUICED_CLUSTER_COMMANDS_H
#define SLUICED_CLUSTER_COMMANDS_H

#include "daemon/cluster/cluster_node.h"
#include "daemon/cluster/cluster_streams.h"

enum {
    CLUSTER_COMMANDS_RESERVED = 16, /* of CLUSTER_COMMANDS_MAX, not for claims and lookups */
    CLUSTER_COMMANDS_CLAIMS = 256,  /* of the others, not for lookups: players make these */
};

enum cluster_purpose {
    CLUSTER_FOR_RENEWAL,
    CLUSTER_FOR_CLAIM, /* of one stream */
    CLUSTER_FOR_CHECKS,
    CLUSTER_FOR_DROPS,
    CLUSTER_FOR_LOCATE, /* of one stream */
    CLUSTER_FOR_FINDS,
    CLUSTER_FOR_LIST,
    CLUSTER_FOR_LEAVE,
    CLUSTER_FOR_EVENT,
    CLUSTER_FOR_BANS,
    CLUSTER_PURPOSES,
};

struct cluster_record_item {
    struct cluster_stream *stream;
    uint32_t claim; /* the stream's, then */
    uint64_t floor; /* CLUSTER_FOR_CLAIM */
};

struct cluster_record {
    uint64_t tag;
    enum cluster_purpose purpose;
    uint64_t sent_at, beat;
    size_t count;
    struct cluster_record_item items[];
};

/* All zero at the beginning. */
struct cluster_commands {
    struct cluster_record *records[CLUSTER_COMMANDS_MAX];
    uint16_t free[CLUSTER_COMMANDS_MAX]; /* places */
    size_t count;
    uint64_t sequence;
    uint32_t of[CLUSTER_PURPOSES]; /* under way */
};

void cluster_commands_init(struct cluster_commands *commands);

/* NULL: too many are under way, or no memory. */
struct cluster_record *cluster_commands_add(struct cluster_commands *commands, enum cluster_purpose purpose,
                                            size_t count);

/* Not under way any more; the caller frees it. NULL: that tag is not. */
struct cluster_record *cluster_commands_take(struct cluster_commands *commands, uint64_t tag);

/* Any one. NULL: none is under way. */
struct cluster_record *cluster_commands_take_any(struct cluster_commands *commands);

#endif
