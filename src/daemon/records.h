/*
 * What is recorded, and where to: the rules, the directories, and who repairs what was left behind. Made before the
 * data plane runs and not changed then, so any thread may read it.
 */
#ifndef SLUICED_RECORDS_H
#define SLUICED_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/record_repair.h"

enum { RECORDS_MOST_RULES = 256 };

/* Streams whose names fit the pattern, as stream_pattern_fits() has it, are recorded to the directory. */
struct record_rule {
    char *text; /* PATTERN=DIRECTORY */
    size_t pattern_length;
    const char *directory; /* in the text */
};

struct record_options {
    struct record_rule rules[RECORDS_MOST_RULES];
    size_t rule_count;
    uint64_t segment_ms;    /* 0: as long as the stream lasts */
    uint64_t segment_bytes; /* 0: as large as it gets */
};

struct records {
    const struct record_options *options;
    char *patterns[RECORDS_MOST_RULES];
    size_t roots_by_rule[RECORDS_MOST_RULES];
    struct record_root roots[RECORDS_MOST_RULES];
    size_t root_count;
    struct record_repairs *repairs;
    record_done_fn *done;
    void *done_user;
};

/* PATTERN=DIRECTORY. NULL, or what was expected. */
const char *record_options_add(struct record_options *options, const char *text);

/* Forgets the rules. */
void record_options_clear(struct record_options *options);

/*
 * Opens the directories. Says on the log what is wrong. @options must outlive it. 0 or -errno. Without rules,
 * *ret_records is NULL.
 */
int records_new(const struct record_options *options, struct records **ret_records);
void records_free(struct records *records);

/*
 * Begins to repair what was left in the directories. @done: of each recording that is whole, on any thread.
 * 0, -ENOMEM
 */
int records_begin(struct records *records, record_done_fn *done, void *user);

/* Where a stream is recorded to by the first rule that matches, or NULL. */
const struct record_root *records_find(const struct records *records, const char *stream);

/* Where a stream is recorded to that no rule matches. */
const struct record_root *records_default(const struct records *records);

#endif
