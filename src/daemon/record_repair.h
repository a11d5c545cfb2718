/*
 * Repairs what a recording that was not ended has left behind: cuts it back to its last whole tag, writes the index,
 * and renames it, on a thread of its own, since a long recording takes a while to read. A part that is damaged anywhere
 * else is kept under another name, and what can be played of it becomes a recording. Only a part without a byte of
 * media is removed. Jobs come by calls from any thread.
 */
#ifndef SLUICED_RECORD_REPAIR_H
#define SLUICED_RECORD_REPAIR_H

#include <stdint.h>

#include "daemon/record_files.h"

struct record_repairs;

/* What has become of the parts, each counted since the start. */
enum record_result {
    RECORD_REPAIRED, /* recordings that can be played, salvaged ones among them */
    RECORD_DAMAGED,  /* parts that were kept as damaged */
    RECORD_EMPTY,    /* parts that were removed */
    RECORD_RESULTS,
};

typedef void record_done_fn(const struct record_done *done, void *user);

int record_repairs_new(struct record_repairs **ret_repairs);

/* Waits for the file that is being repaired to be left as it is; the others are for the next start. NULL is allowed. */
void record_repairs_free(struct record_repairs *repairs);

/* Who is told of each that is whole, on the thread of the repairs. Before the first is added. */
void record_repairs_tell(struct record_repairs *repairs, record_done_fn *done, void *user);

const char *record_result_name(enum record_result result);

/* On any thread. */
uint64_t record_repairs_count(struct record_repairs *repairs, enum record_result result);

/*
 * One part, by the path that the recording is to have; or all parts below the directory, where @path is NULL. Parts
 * that somebody writes are left alone. @root must stay. 0, -ENOMEM
 */
int record_repairs_add(struct record_repairs *repairs, const struct record_root *root, const char *path);

#endif
