/*
 * Queries of the control plane to the workers: each worker's part is filled by a posted call on its
 * own thread, and returned through one descriptor. A worker that does not answer in time is left
 * out of this query and of further ones until it answers; a late answer is dropped. So no thread
 * waits for another one. At the end of the control plane, answers to pending calls are dropped.
 */
#ifndef SLUICED_WORKER_QUERY_H
#define SLUICED_WORKER_QUERY_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/control/snapshot.h"
#include "daemon/control/worker_command.h"

/*
 * For the workers to answer. It is looked so often whether they have: time in which the whole
 * process stands still, as that of a machine that is suspended, is one look.
 */
enum { WORKER_QUERY_MS = 2000, WORKER_QUERY_LOOKS = 8 };

struct worker_query;
struct event_base;
struct server;

/* What has come of a question. Valid during the call. */
struct worker_answer {
    struct snapshots snapshots;
    /* of each worker; of one that has not answered, as it last gave them: they only go up */
    const struct stream_totals *totals;
    size_t answered; /* workers */
    /* of a command: 0 when one of the workers had its object, or else -ENOENT, -ENOMEM */
    int error;
};

/*
 * Whether all workers have told what they have, and none of them nothing for want of memory: what
 * is not among that is not there.
 */
bool worker_answer_is_whole(const struct worker_answer *answer);

/* Exactly once, on the control plane's thread, and never before the asking call has returned. */
typedef void worker_answer_fn(const struct worker_answer *answer, void *user);

/* @server: must outlive the asker. 0, -ENOMEM, -errno */
int worker_query_new(struct event_base *base, struct server *server, struct worker_query **ret_asker);

/* Answers what is out with what there is. NULL is allowed. */
void worker_query_free(struct worker_query *worker_query);

/*
 * @parts: of enum snapshot_part. @request: copied, with its page. @command: copied; its pull is
 * taken on success. 0, -EAGAIN (too many questions are out), -ENOMEM
 */
int worker_query_snapshot(struct worker_query *worker_query, unsigned parts, worker_answer_fn *done, void *user);
int worker_query_request(struct worker_query *worker_query, const struct snapshot_request *request,
                         worker_answer_fn *done, void *user);
int worker_query_command(struct worker_query *worker_query, const struct worker_command *command,
                         worker_answer_fn *done, void *user);

#endif
