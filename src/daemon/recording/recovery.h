/*
 * Repairs what a recording that was not ended has left behind: cuts it back to its last whole tag,
 * writes the index, and renames it, on a thread of its own, since a long recording takes a while to
 * read. A part that is damaged anywhere else is kept under another name, and what can be played of
 * it becomes a recording. Only a part without a byte of media is removed. Jobs come by calls from
 * any thread.
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

/* Waits for the file that is being repaired to be left as it is; the others are for the next start.
 * NULL is allowed. */
void recovery_free(struct recovery *repairs);

/* Who is told of each that is whole, on the thread of the repairs. Before the first is added. */
void recovery_tell(struct recovery *repairs, record_done_fn *done, void *user);

const char *recovery_result_name(enum recovery_result result);

/* On any thread. */
uint64_t recovery_count(struct recovery *repairs, enum recovery_result result);

/*
 * One part, by the path that the recording is to have; or all parts below the directory, where
 * @path is NULL. Parts that somebody writes are left alone. @root must stay. 0, -ENOMEM
 */
int recovery_add(struct recovery *repairs, const struct record_root *root, const char *path);

#endif
