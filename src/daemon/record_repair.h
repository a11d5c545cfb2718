/*
 * Repairs what a recording that was not ended has left behind: cuts it back to its last whole tag, writes the index,
 * and renames it, on a thread of its own, since a long recording takes a while to read. What is wanted of it comes by
 * calls from any thread.
 */
#ifndef SLUICED_RECORD_REPAIR_H
#define SLUICED_RECORD_REPAIR_H

#include <stdint.h>

struct record_repairs;

int record_repairs_new(struct record_repairs **ret_repairs);

/* Waits for the file that is being repaired to be left as it is; the others are for the next start. NULL is allowed. */
void record_repairs_free(struct record_repairs *repairs);

/*
 * One part, by the path that the recording is to have; or all parts below the directory, where @path is NULL. Parts
 * that somebody writes are left alone. @root must stay open. 0, -ENOMEM
 */
int record_repairs_add(struct record_repairs *repairs, int root, const char *path);

#endif
