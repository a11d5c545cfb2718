#include "daemon/cluster/cluster_streams.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_BUCKETS = 64, MOST_BUCKETS = 1 << 16 };

int cluster_streams_init(struct cluster_streams *streams, size_t most) {
    *streams = (struct cluster_streams){.bucket_count = LEAST_BUCKETS, .most = most};
    while (streams->bucket_count < most && streams->bucket_count < MOST_BUCKETS)
        streams->bucket_count *= 2;
    TAILQ_INIT(&streams->idle);
    streams->buckets = calloc(streams->bucket_count, sizeof *streams->buckets);
    return streams->buckets ? 0 : -ENOMEM;
}

static struct cluster_stream_list *bucket_of(const struct cluster_streams *streams, const char *name) {
    return &streams->buckets[stream_name_hash(name, strlen(name)) & (streams->bucket_count - 1)];
}

void cluster_streams_remove(struct cluster_streams *streams, struct cluster_stream *stream) {
    if (stream->is_idle)
        TAILQ_REMOVE(&streams->idle, stream, of_idle);
    LIST_REMOVE(stream, of_bucket);
    streams->count--;
    free(stream);
}

void cluster_streams_clear(struct cluster_streams *streams) {
    for (size_t i = 0; i < streams->bucket_count && streams->buckets; i++)
        while (!LIST_EMPTY(&streams->buckets[i]))
            cluster_streams_remove(streams, LIST_FIRST(&streams->buckets[i]));
    free(streams->buckets);
    streams->buckets = NULL;
}

struct cluster_stream *cluster_streams_find(const struct cluster_streams *streams, const char *name) {
    struct cluster_stream *stream;
    LIST_FOREACH(stream, bucket_of(streams, name), of_bucket) {
        if (strcmp(stream->name, name) == 0)
            return stream;
    }
    return NULL;
}

struct cluster_stream *cluster_streams_add(struct cluster_streams *streams, const char *name) {
    size_t length = strlen(name);
    if (streams->count >= streams->most)
        return NULL;
    struct cluster_stream *stream = calloc(1, sizeof *stream + length + 1);
    if (!stream)
        return NULL;
    memcpy(stream->name, name, length + 1);
    TAILQ_INIT(&stream->waits);
    LIST_INSERT_HEAD(bucket_of(streams, name), stream, of_bucket);
    streams->count++;
    return stream;
}

struct cluster_stream *cluster_streams_excess(const struct cluster_streams *streams) {
    return streams->count >= streams->most ? TAILQ_FIRST(&streams->idle) : NULL;
}

static bool is_needed(const struct cluster_stream *stream) {
    return stream->hold != CLUSTER_HOLD_NONE || stream->users || stream->lost || stream->wait_count ||
           stream->in_flight || stream->is_wanted || stream->is_doubtful || stream->asserts.first ||
           stream->locates.first;
}

void cluster_streams_settle(struct cluster_streams *streams, struct cluster_stream *stream) {
    bool is_idle = !is_needed(stream);
    if (is_idle == stream->is_idle)
        return;
    stream->is_idle = is_idle;
    if (is_idle)
        TAILQ_INSERT_TAIL(&streams->idle, stream, of_idle);
    else
        TAILQ_REMOVE(&streams->idle, stream, of_idle);
}

void cluster_jobs_add(struct cluster_jobs *jobs, struct cluster_job *job) {
    job->next = NULL;
    if (jobs->first)
        jobs->last->next = job;
    else
        jobs->first = job;
    jobs->last = job;
}

struct cluster_job *cluster_jobs_take(struct cluster_jobs *jobs) {
    struct cluster_job *job = jobs->first;
    if (job) {
        jobs->first = job->next;
        job->next = NULL;
    }
    return job;
}
