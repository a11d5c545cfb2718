/*
 * Which streams are recorded, and where: the rules, the directories, and the repair of unfinished
 * recordings. It is made before the data plane runs and does not change then, so any thread may
 * read it.
 */
#ifndef SLUICED_RECORD_STORE_H
#define SLUICED_RECORD_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/recording/recovery.h"

enum { RECORD_STORE_MOST_RULES = 256 };

/*
 * Streams with names that match the pattern (stream_pattern_fits()) are recorded to the directory.
 */
struct record_rule {
    char *text; /* PATTERN=DIRECTORY */
    size_t pattern_length;
    const char *directory; /* in the text */
};

struct record_options {
    struct record_rule rules[RECORD_STORE_MOST_RULES];
    size_t rule_count;
    uint64_t segment_ms;    /* 0: as long as the stream lasts */
    uint64_t segment_bytes; /* 0: as large as it gets */
};

struct record_store {
    const struct record_options *options;
    char *patterns[RECORD_STORE_MOST_RULES];
    size_t roots_by_rule[RECORD_STORE_MOST_RULES];
    struct record_root roots[RECORD_STORE_MOST_RULES];
    size_t root_count;
    struct recovery *repairs;
    record_done_fn *done;
    void *done_user;
};

/* PATTERN=DIRECTORY. NULL, or what was expected. */
const char *record_options_add(struct record_options *options, const char *text);

/* Forgets the rules. */
void record_options_clear(struct record_options *options);

/*
 * Opens the directories. Says on the log what is wrong. @options must outlive it. 0 or -errno.
 * Without rules, *ret_records is NULL.
 */
int record_store_new(const struct record_options *options, struct record_store **ret_records);
void record_store_free(struct record_store *records);

/*
 * Begins to repair what was left in the directories. @done: of each recording that is whole, on any
 * thread. 0, -ENOMEM
 */
int record_store_begin(struct record_store *records, record_done_fn *done, void *user);

/*
 * Again, after a process has ended that may have written there. Behind record_store_begin(), any
 * thread. 0, -ENOMEM
 */
int record_store_repair(struct record_store *records);

/* Where a stream is recorded to by the first rule that matches, or NULL. */
const struct record_root *record_store_find(const struct record_store *records, const char *stream);

/* Where a stream is recorded to that no rule matches. */
const struct record_root *record_store_default(const struct record_store *records);

#endif
