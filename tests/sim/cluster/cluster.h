/*
 * Nodes of a cluster in a simulated world: processes with the daemon's cluster_node, one engine and
 * its older copies (the model that is compared with the scripts), encoders that publish, and edges
 * that follow locations. All the rest of a daemon is left out. One simulation at a time.
 */
#ifndef SLUICE_TESTS_SIM_CLUSTER_H
#define SLUICE_TESTS_SIM_CLUSTER_H

#include "daemon/cluster/cluster_node.h"
#include "sim/world.h"
#include "support/cluster_engine.h"

enum {
    NAMES = 4,
    PROCESSES = 200, /* in all; one after another has a name, sometimes two */
    STREAMS = 3,
    ENCODERS = 2 * STREAMS, /* two for each stream */
    SNAPSHOTS = 6,          /* a second apart */
    MOST_STREAMS = 12,      /* that a node remembers */
    SENT = 2048,            /* commands of a connection without a reply; more than a node has */
    EPOCH_MS = 1000,        /* what the nodes' clock shows at the beginning */
    TICK_MS = 250,
    ENGINE_TIMEOUT_MS = 2000,
    SILENCE_MS = 3000,
    FAULTY_MS = 30000,
    SETTLING_MS = 4000, /* before its end, publishers of one stream go for good */
    /* afterwards: for a lease, a claim and an edge's next try; lost events are not missed any more
     * after CLUSTER_REFRESH_MS */
    HEALING_MS = 20000,
};

/* What a seed may have. */
enum trouble {
    TROUBLE_KILL,
    TROUBLE_STOP,
    TROUBLE_CUT_ENGINE,  /* between a process and the engine */
    TROUBLE_CUT_NODES,   /* between processes */
    TROUBLE_FAILOVER,    /* to an older copy */
    TROUBLE_TWO_ENGINES, /* a failover while the old one goes on */
    TROUBLE_EMPTY,       /* the engine restarts without data */
    TROUBLE_ENGINE_DOWN,
    TROUBLE_CLOCK, /* of the engine, by an hour */
    TROUBLE_ALL,   /* everything restarts */
    TROUBLE_DRAIN,
    TROUBLE_SECOND, /* a second process of the same name */
    TROUBLE_ENCODERS,
    TROUBLE_PLAYERS,
    TROUBLE_NAMES, /* lookups of names that nobody publishes */
    TROUBLE_LOST_EVENTS,
    TROUBLE_LATE_EVENTS,
    TROUBLE_ERRORS,  /* the engine rejects commands */
    TROUBLE_BUSY,    /* the connection takes no command */
    TROUBLE_SLOW,    /* the engine, or the way to it */
    TROUBLE_WORKERS, /* that are slow */
    TROUBLE_DEAD,    /* one node does not come back */
    TROUBLES,
};

struct process;

enum encoder_state {
    ENCODER_IDLE,     /* set by encoder_end() */
    ENCODER_CLAIMING, /* set by its next attempt */
    ENCODER_LIVE,     /* set by the answer to its claim */
};

struct encoder {
    unsigned number, stream;
    bool is_wanted;
    const char *goes_to; /* the name of a node; NULL: any */
    enum encoder_state state;
    struct process *at;
    uint32_t attempt; /* what belongs to another one is old */
    uint64_t refusals;
};

/* What a process's worker knows of a stream that is published there. */
struct slot {
    struct encoder *publisher; /* NULL: none */
    uint64_t epoch;
};

enum pull_state {
    PULL_NONE,      /* set by edge_drop() */
    PULL_REQUESTED, /* set by edge_consider() */
    PULL_OPEN,      /* set by a response that is accepted */
};

struct edge {
    bool is_wanted, is_asking, is_retrying;
    uint64_t seen, seen_incarnation; /* the highest epoch */
    enum pull_state state;
    uint32_t pull; /* what belongs to another one is old */
    struct process *origin;
    uint64_t incarnation, epoch; /* of the location that is pulled; of the response */
    uint64_t heard_at;           /* a frame */
    uint32_t backoff_ms;
    /* What players have got last. */
    uint64_t frame_epoch, frame_incarnation, frames;
};

struct job {
    struct cluster_job job; /* the first member */
    struct job *next, *prev;
    struct process *process;
    struct encoder *encoder;
    unsigned stream; /* STREAMS: none that is published */
    uint32_t attempt;
    uint64_t asked; /* by the process's own time */
};

struct process {
    unsigned number, name;
    char node_name[16], address[32];
    struct cluster_node *node;
    bool is_running;                   /* false: killed */
    uint64_t stopped_until, cut_until; /* milliseconds; 0: is not */
    uint64_t ran;                      /* milliseconds, without those in which it was stopped */
    struct job *jobs;                  /* that are open */

    bool is_up; /* its connection to the engine */
    uint32_t link;
    unsigned engine;
    uint64_t to_at, from_at; /* microseconds: when what was sent last arrives */
    uint64_t worker_at;      /* likewise, to its worker */
    uint32_t sent, answered;
    uint64_t sent_at[SENT];
    uint32_t attempts;

    struct slot slots[STREAMS];
    struct edge edges[STREAMS];
};

struct engine {
    struct cluster_engine data;
    bool is_up;
    int64_t offset_us;
};

struct sim {
    bool has[TROUBLES];
    enum same_name same_name;
    bool refuses_when_down, loses_events;
    struct engine engines[2];
    unsigned master;
    struct cluster_engine snapshots[SNAPSHOTS];
    uint64_t snapshot_count;
    struct process *processes[PROCESSES];
    unsigned process_count;
    struct encoder encoders[ENCODERS];
    uint64_t cuts[NAMES][NAMES]; /* until when, milliseconds */
    uint64_t jumped_at;
    bool is_over;
    uint64_t frames, granted, superseded, refused, served, gone; /* what has happened */
};

extern struct sim sim;

/* What has a chance of one in @n, while there is trouble of that kind. */
bool sim_has(enum trouble trouble, uint32_t n);

uint64_t now_ms(void);
void after_ms(uint64_t ms, world_fn *call, void *user);

/* At that time: what was in order stays so. */
void at_ms(uint64_t ms, world_fn *call, void *user);

/* The event is postponed while its process is stopped. */
bool process_postpones(const struct process *process, world_fn *call, void *user);

/* ---- process.c ---- */

struct process *process_start(unsigned name);
void process_kill(struct process *process);
void process_stop(struct process *process, uint64_t ms);
void process_ask(struct process *process, struct job *job);
struct job *job_new(struct process *process, enum cluster_question question, unsigned stream);

/* The one that has the address of the name: the youngest that runs. NULL: none */
struct process *process_of(const char *node_name);
struct process *process_any(void);
bool process_runs(const struct process *process);

/* Lists, counters and bounds of its node. */
void process_check(const struct process *process);

/* Nothing is asked that needs the engine. */
void process_check_down(const struct process *process);

/* ---- hub.c ---- */

bool hub_send(struct process *process, const struct cluster_command *command);
void hub_connect(void *process);
void hub_check(struct process *process);
void hub_failover(bool keeps_old);
void hub_empty(void);
void hub_down(uint64_t ms);
void hub_snapshot(void *none);
struct cluster_engine *hub_engine(unsigned engine); /* by now */

/* ---- encoder.c ---- */

void encoder_try(void *encoder);
void encoder_end(struct encoder *encoder, uint64_t again_ms);
void encoder_leave(struct encoder *encoder);
void encoder_claimed(struct job *job);
void slot_changed(struct process *process, unsigned stream, enum cluster_change change,
                  const struct cluster_location *location);

/* ---- edge.c ---- */

void edge_want(struct process *process, unsigned stream, bool is_wanted);
void edge_located(struct job *job);
void edge_consider(struct process *process, unsigned stream, const struct cluster_location *location);
void edge_drop(struct process *process, unsigned stream);
void edge_tick(struct process *process);
void edge_frames(void *none);

/* The process's players get something of that epoch. */
void edge_accept(struct process *process, unsigned stream, uint64_t epoch, uint64_t incarnation);

/* Whether they have had that epoch from another node, or a higher one. */
bool edge_has_seen(const struct process *process, unsigned stream, uint64_t epoch);

/* All pulls of the stream at that process end, with the publisher. */
void edge_close(struct process *process, unsigned stream);

/* ---- scenario.c ---- */

void scenario(void);

#endif
