#include "daemon/control/hook_queue.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "daemon/server/hook_query.h"

enum { BUCKETS = 1024 };

/* In one of these as long as something of it waits. */
TAILQ_HEAD(share_list, share);

/* The share of an address with waiting or pending queries. */
struct share {
    struct cidr_address host;
    struct share *in_bucket;
    TAILQ_ENTRY(share) link;
    struct share_list *list;
    struct hook_query *first, **end;
    uint32_t waiting, asked;
};

struct hook_queue {
    pthread_mutex_t lock;
    struct share *buckets[BUCKETS];
    struct share_list idle; /* nothing of them is being asked */
    struct share_list busy;
    uint32_t waiting, asked;
};

int hook_queue_new(struct hook_queue **ret_queue) {
    struct hook_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return -ENOMEM;
    TAILQ_INIT(&queue->idle);
    TAILQ_INIT(&queue->busy);
    pthread_mutex_init(&queue->lock, NULL);
    *ret_queue = queue;
    return 0;
}

void hook_queue_free(struct hook_queue *queue) {
    if (!queue)
        return;
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

/* To the end of the list where it belongs; or of none. */
static void enter_list(struct hook_queue *queue, struct share *share) {
    if (share->list)
        TAILQ_REMOVE(share->list, share, link);
    share->list = share->waiting == 0 ? NULL : share->asked > 0 ? &queue->busy : &queue->idle;
    if (share->list)
        TAILQ_INSERT_TAIL(share->list, share, link);
}

/* The link to the host's share, or to the end of its bucket. */
static struct share **find(struct hook_queue *queue, const struct cidr_address *host) {
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < sizeof host->bytes; i++)
        hash = (hash ^ host->bytes[i]) * 16777619u;
    struct share **link = &queue->buckets[hash % BUCKETS];
    while (*link && memcmp((*link)->host.bytes, host->bytes, sizeof host->bytes) != 0)
        link = &(*link)->in_bucket;
    return link;
}

static void drop_if_empty(struct share **link) {
    struct share *share = *link;
    if (share->waiting > 0 || share->asked > 0)
        return;
    *link = share->in_bucket;
    free(share);
}

static int add(struct hook_queue *queue, struct hook_query *job) {
    struct share **link = find(queue, &job->host), *share = *link;
    if ((share ? share->waiting : 0) + queue->waiting >= HOOK_WAITING)
        return -EUSERS;
    if (!share) {
        share = *link = malloc(sizeof *share);
        if (!share)
            return -ENOMEM;
        *share = (struct share){.host = job->host, .end = &share->first};
    }
    job->next = NULL;
    *share->end = job;
    share->end = &job->next;
    queue->waiting++;
    if (share->waiting++ == 0)
        enter_list(queue, share);
    return 0;
}

int hook_queue_add(struct hook_queue *queue, struct hook_query *job) {
    pthread_mutex_lock(&queue->lock);
    int error = add(queue, job);
    pthread_mutex_unlock(&queue->lock);
    return error;
}

/* The share's oldest; the share then belongs behind the others. */
static struct hook_query *take(struct hook_queue *queue, struct share *share, bool is_asked) {
    struct hook_query *job = share->first;
    share->first = job->next;
    if (!share->first)
        share->end = &share->first;
    share->waiting--;
    queue->waiting--;
    share->asked += is_asked;
    queue->asked += is_asked;
    enter_list(queue, share);
    return job;
}

struct hook_query *hook_queue_take(struct hook_queue *queue) {
    struct hook_query *job = NULL;
    pthread_mutex_lock(&queue->lock);
    if (TAILQ_FIRST(&queue->idle) && queue->asked < HOOK_ASKED + HOOK_FIRST)
        job = take(queue, TAILQ_FIRST(&queue->idle), true);
    else if (TAILQ_FIRST(&queue->busy) && queue->asked < HOOK_ASKED)
        job = take(queue, TAILQ_FIRST(&queue->busy), true);
    pthread_mutex_unlock(&queue->lock);
    return job;
}

void hook_queue_done(struct hook_queue *queue, const struct cidr_address *host) {
    pthread_mutex_lock(&queue->lock);
    struct share **link = find(queue, host), *share = *link;
    queue->asked--;
    if (--share->asked == 0)
        enter_list(queue, share);
    drop_if_empty(link);
    pthread_mutex_unlock(&queue->lock);
}

struct hook_query *hook_queue_remove(struct hook_queue *queue) {
    struct hook_query *job = NULL;
    pthread_mutex_lock(&queue->lock);
    struct share *share = TAILQ_FIRST(&queue->idle) ? TAILQ_FIRST(&queue->idle) : TAILQ_FIRST(&queue->busy);
    if (share) {
        const struct cidr_address host = share->host;
        job = take(queue, share, false);
        drop_if_empty(find(queue, &host));
    }
    pthread_mutex_unlock(&queue->lock);
    return job;
}
