/*
 * A model of the cluster's engine: what the scripts of daemon/cluster do, in C, with a clock that
 * is set. test_cluster_lua compares it with the scripts in a real engine.
 */
#ifndef SLUICE_TESTS_SUPPORT_CLUSTER_ENGINE_H
#define SLUICE_TESTS_SUPPORT_CLUSTER_ENGINE_H

#include "daemon/cluster/cluster_command.h"

/* More names are a failed test. */
enum { CLUSTER_ENGINE_NODES = 16, CLUSTER_ENGINE_STREAMS = 1024 };

struct cluster_engine_node {
    struct cluster_node_reply lease; /* its name is there without a lease, too */
    bool is_named, has_lease;
    uint64_t ends_us;
};

struct cluster_engine_stream {
    char name[STREAM_NAME + 1];
    bool is_there, has_host, is_kept;
    struct cluster_location location; /* without a node: it has been released */
    struct cidr_address host;
    uint64_t since_us, until_us;
    uint64_t ends_us;
};

struct cluster_engine_ban {
    struct cluster_ban ban;
    uint64_t until_ms;
};

/* May be copied: that is a snapshot. All zero at the beginning. */
struct cluster_engine {
    uint64_t now_us;
    struct cluster_engine_node nodes[CLUSTER_ENGINE_NODES];
    size_t node_count;
    /* The list, as it is given to all for a while. */
    struct cluster_node_reply page[CLUSTER_ENGINE_NODES];
    size_t page_count;
    uint64_t page_us; /* when it was made; 0: there is none */
    struct cluster_engine_stream streams[CLUSTER_ENGINE_STREAMS];
    size_t stream_count;
    struct cluster_engine_ban bans[CLUSTER_BANS]; /* the first to end first */
    size_t ban_count;
    uint64_t bans_end_us; /* of all of them */
    uint64_t bans_since;  /* see struct cluster_reply */
};

typedef void cluster_engine_publish(const struct cluster_event *event, void *user);

/* Sets the clock, and ends what has ended by then. */
void cluster_engine_set_time(struct cluster_engine *engine, uint64_t now_us);

/* Runs a command. The reply is to be cleared. */
void cluster_engine_run(struct cluster_engine *engine, const struct cluster_command *command,
                        struct cluster_reply *ret_reply, cluster_engine_publish *publish, void *user);

/* NULL: there is none. */
const struct cluster_engine_stream *cluster_engine_find(const struct cluster_engine *engine, const char *stream);

/* Whether a node of that name and incarnation has a lease. */
bool cluster_engine_is_alive(const struct cluster_engine *engine, const char *node, uint64_t incarnation);

#endif
