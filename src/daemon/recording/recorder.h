/*
 * Records a stream: takes its packets as a player does, and writes them as FLV to one file after
 * another. Each file begins with a key frame (or, without video, with any frame) at time 0,
 * preceded by the headers that decoders need.
 *
 * The disk never delays the stream. Data that waits for the disk is bounded; beyond that, frames
 * are dropped up to a key frame, and counted. While the disk is full nothing is written, and
 * writing is retried every few seconds. Its worker's thread only.
 */
#ifndef SLUICED_RECORDER_H
#define SLUICED_RECORDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <sluice/loop.h>

#include "daemon/recording/record_files.h"
#include "daemon/recording/record_override.h"
#include "daemon/recording/record_store.h"
#include "daemon/relay/stream.h"

struct recorder;
struct recording;

/* All recordings of one loop. */
struct recorders {
    struct record_store *records;
    sluice_loop *loop;
    sluice_pool *pool;
    /* bytes that may be queued for one recording; at most the budget */
    uint64_t limit;
    uint64_t budget;                   /* and for all of them */
    uint64_t queued;                   /* bytes that are */
    LIST_HEAD(, recording) recordings; /* all that are not closed */
    uint32_t count;
    uint64_t named; /* the last name given, milliseconds since 1970 */
    struct record_overrides overrides;
};

struct recorder {
    struct stream_sink sink;
    struct recorders *owner;
    struct stream *stream;
    const struct record_root *root;
    struct recording *current; /* NULL while there is none */
    /* frames are left out up to the next key frame: there was no room for one */
    bool behind;
    /* bits of the video tracks of which frames are left out up to a key frame of theirs */
    uint32_t needs_key;
    /* recordings of this recorder that are not closed, the current one included */
    uint32_t open;
    /* that has been logged, while nothing has been written since; or 0 */
    int error;
    uint64_t hold_to;       /* loop time: no recording begins before */
    char file[RECORD_PATH]; /* the last one that was begun; or empty */
    uint64_t files, bytes, frames, frames_dropped;
};

/* @records: NULL when nothing is recorded. @limit: bytes that may be queued for one recording. */
void recorders_init(struct recorders *recorders, struct record_store *records, sluice_loop *loop, uint64_t limit);

/*
 * One recording alone gets no more than the budget of all. Otherwise one that is behind would wait
 * for half of it to be free, where the budget never has so much.
 */
void recorders_set_limit(struct recorders *recorders, uint64_t limit);

/* Forgets what was wished. When no recording is open any more. */
void recorders_clear(struct recorders *recorders);

/* Twice a second: writes received packets, and retries failed operations. */
void recorders_tick(struct recorders *recorders);

/* The server stops: those that cannot be ended now are left for the next start. */
void recorders_give_up(struct recorders *recorders);

/* The process ends while the disk does not answer for those that are left: says which they are. */
void recorders_abandon(const struct recorders *recorders);

/* The tracks of a stream are known: records it, if it is to be, until its publisher leaves. */
void recorders_opened(struct recorders *recorders, struct stream *stream);

/* The stream's, while it is recorded; or NULL. */
struct recorder *recorder_of(const struct stream *stream);

/*
 * Records a stream or does not, from now on, whatever the rules say, until RECORD_BY_RULE; whether
 * the stream is there or is yet to come. 0, -EOPNOTSUPP (there is no directory to record to),
 * -ENOMEM, -ENOSPC (too many are wished for)
 */
int recorders_wish(struct recorders *recorders, struct registry *registry, const char *stream,
                   enum record_override override);

/* Bytes that the disk is behind. */
uint64_t recorder_queued(const struct recorder *recorder);
const char *recorder_state_name(const struct recorder *recorder);

#endif
