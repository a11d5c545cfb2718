/*
 * Repairs unfinished recordings: truncates each after its last complete tag, writes the index, and
 * renames it, on a separate thread, because reading a long recording takes time. A part that is
 * damaged elsewhere is kept under another name, and its playable part becomes a recording. Only
 * parts without any media are removed. Jobs are added by calls from any thread.
 */
#ifndef SLUICED_RECOVERY_H
#define SLUICED_RECOVERY_H

#include <stdint.h>

#include "daemon/recording/record_files.h"

struct recovery;

/* What has become of the parts, each counted since the start. */
enum recovery_result {
    RECOVERY_REPAIRED, /* recordings that can be played, salvaged ones among them */
    RECOVERY_DAMAGED,  /* parts that were kept as damaged */
    RECOVERY_EMPTY,    /* parts that were removed */
    RECOVERY_RESULTS,
};

typedef void record_done_fn(const struct record_done *done, void *user);

int recovery_new(struct recovery **ret_repairs);

/*
 * Has the file that is being repaired left as it is, and waits for that, but not for a disk that
 * hangs: then false, with a line on the log. The thread uses everything that it has been given, and
 * it cannot be freed.
 */
bool recovery_end(struct recovery *repairs);

/* Waits for the file that is being repaired to be left as it is; the others are for the next start.
 * NULL is allowed. */
void recovery_free(struct recovery *repairs);

/*
 * Sets the function that is called for each repaired recording, on the repair thread. Before the
 * first job is added.
 */
void recovery_tell(struct recovery *repairs, record_done_fn *done, void *user);

const char *recovery_result_name(enum recovery_result result);

/* On any thread. */
uint64_t recovery_count(struct recovery *repairs, enum recovery_result result);

/*
 * Adds one part, by the path of its recording; or all parts below the directory, if @path is NULL.
 * A part that is locked is tried again for some seconds, and then skipped: it is still being
 * written. @root must stay. 0, -ENOMEM
 */
int recovery_add(struct recovery *repairs, const struct record_root *root, const char *path);

#endif
