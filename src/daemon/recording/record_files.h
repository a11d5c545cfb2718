/*
 * Files of recordings: DIRECTORY/STREAM/TIME.flv, and TIME.flv.part while they are written. The
 * writing process locks a part, so a part that can be locked is left from a process that has ended.
 * A damaged part is kept beside the repaired recording as TIME.flv.damaged, or TIME.flv.damaged.2
 * and so on if that exists; these files are neither listed nor played. Files and directories are
 * created with the modes below, less the process's umask.
 *
 * All of these calls may block: they are for threads that may block.
 */
#ifndef SLUICED_RECORD_FILES_H
#define SLUICED_RECORD_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/stream_name.h"

enum {
    RECORD_FILE = sizeof "2026-11-21T20-15-03.123Z.flv", /* with the terminating zero */
    RECORD_PATH = STREAM_NAME + 1 + RECORD_FILE + sizeof ".damaged.99",
    RECORD_FILE_MODE = 0640,
    RECORD_FOLDER_MODE = 0750,
};

#define RECORD_PART ".part"
/* what is being made of a damaged part; left behind, it is made anew */
#define RECORD_SALVAGE ".salvage"

/* A directory to record to. */
struct record_root {
    const char *path;
    int fd;
};

/* A recording that is whole. */
struct record_done {
    const char *directory;
    const char *path; /* below it */
    uint64_t bytes, frames;
    uint32_t duration_ms;
    bool repaired; /* it was left behind as a part */
};

/* The name of a recording that begins at this time, milliseconds since 1970. */
void record_file_name(uint64_t time_ms, char ret_name[RECORD_FILE]);

/* Whether a name is one that recordings have. */
bool record_file_name_is_valid(const char *name, size_t length);

/* The directory to record to. A descriptor, or -errno. */
int record_root_open(const char *path);

/* What lies below a directory, by a path that neither leaves it nor goes through a link. A
 * descriptor, or -errno. */
int record_open(int root, const char *path, int flags);

/*
 * Makes the part at this path, and the folders that lead to it, locked and for writing. A
 * descriptor, or -errno: -EEXIST where there is a part or a recording of that name; -EAGAIN where
 * the new part has been locked or removed by others, such as a recovery that takes it for one that
 * was left: the name is not safe from them, another one is.
 */
int record_part_create(int root, const char *path);

/* Renames a part that is done, replacing nothing. 0 or -errno. */
int record_part_keep(int root, const char *path);

/* Renames a part that is damaged, replacing nothing. @ret_path: what it is now. 0 or -errno. */
int record_part_keep_damaged(int root, const char *path, char ret_path[RECORD_PATH]);

/* The file that the salvage of a damaged part is written to, empty. A descriptor, or -errno. */
int record_salvage_create(int root, const char *path);

/* Makes it the recording, replacing nothing; or removes it. 0 or -errno. */
int record_salvage_keep(int root, const char *path);
int record_salvage_remove(int root, const char *path);

/* Calls for each part below a directory, with its path, as long as the call returns true. */
void record_parts_each(int root, bool (*call)(int root, const char *path, void *user), void *user);

/* A recording, as a list of them shows it. */
struct record_entry {
    char name[RECORD_FILE];
    size_t root; /* the directory that has it */
    uint64_t bytes;
    int64_t modified; /* seconds since 1970 */
    bool is_file;     /* its size is known */
};

enum { RECORD_PAGE = 1000 }; /* entries at most */

/* A part of a stream's recordings, in the order of their names, which is that of time. */
struct record_page {
    char after[RECORD_FILE]; /* begins behind this name; empty: with the first */
    size_t limit;            /* entries, from 1 to RECORD_PAGE */

    /* What there is: */
    struct record_entry *entries; /* to be freed */
    size_t count;
    char next[RECORD_FILE]; /* the next page begins behind it; empty: there is none */
};

/*
 * Reads a page of what all directories have of a stream, since rules may have changed, however many
 * recordings there are in no more memory than the page's. A name that several directories have is
 * the first one's. A directory that cannot be read hides no other one's recordings. 0, -ENOENT (no
 * directory has such a folder), or -errno (none could be read)
 */
int record_list(const struct record_root *roots, size_t count, const char *stream, struct record_page *page);

#endif
