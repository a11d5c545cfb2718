/*
 * Questions of the control plane to the workers: each worker's part is filled by a posted call on its own thread, and
 * comes back by one descriptor. A worker that does not answer in time is left out, as it is of further questions until
 * it has; what it answers later is dropped. So nobody waits for anybody. Ends with the control plane; calls that are
 * then still out find that nobody wants them.
 */
#ifndef SLUICED_CONTROL_ASK_H
#define SLUICED_CONTROL_ASK_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/command.h"
#include "daemon/snapshot.h"

/*
 * For the workers to answer. It is looked so often whether they have: time in which the whole process stands still, as
 * that of a machine that is suspended, is one look.
 */
enum { ASK_MS = 2000, ASK_LOOKS = 8 };

struct asker;
struct event_base;
struct server;

/* What has come of a question. Valid during the call. */
struct answer {
    struct snapshots snapshots;
    size_t answered; /* workers */
    int error;       /* of a command: 0 when one of the workers had its object, or else -ENOENT, -ENOMEM */
};

/*
 * Whether all workers have told what they have, and none of them nothing for want of memory: what is not among that is
 * not there.
 */
bool answer_is_whole(const struct answer *answer);

/* Exactly once, on the control plane's thread, and never before the asking call has returned. */
typedef void answer_fn(const struct answer *answer, void *user);

/* @server: must outlive the asker. 0, -ENOMEM, -errno */
int asker_new(struct event_base *base, struct server *server, struct asker **ret_asker);

/* Answers what is out with what there is. NULL is allowed. */
void asker_free(struct asker *asker);

/* @parts: of enum snapshot_part. 0, -EAGAIN (too many questions are out), -ENOMEM */
int asker_snapshot(struct asker *asker, unsigned parts, answer_fn *done, void *user);
int asker_command(struct asker *asker, const struct command *command, answer_fn *done, void *user);

#endif
