/*
 * Settings of single streams: for settings that take STREAM=VALUE, the values that apply to a
 * stream.
 */
#ifndef SLUICED_STREAM_POLICY_H
#define SLUICED_STREAM_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STREAM_EXCEPTIONS_MOST = 1024 };

struct stream_policy {
    uint64_t jump_ms;  /* 0: jumps of timestamps are left as they are */
    uint64_t gop_size; /* bytes; at most player_buffer */
    int same_name;     /* enum same_name */
    uint64_t resume_ms;
    uint64_t first_data_ms;
    uint64_t player_buffer; /* bytes */
    uint64_t frame_limit;   /* bytes; at most player_buffer */
    uint64_t max_players;   /* 0: no limit */
    /* of the streams that have none of their own, listeners' go before it */
    uint64_t merge_window_ms;
    uint64_t wait_ms;
    uint64_t idle_ms;
    uint64_t stall_ms;
    uint64_t behind_ms;   /* 0: no limit */
    uint64_t catch_up_ms; /* 0: never */
};

/* A value for the streams with names that match a pattern. */
struct stream_exception {
    char *pattern; /* "*" stands for any characters */
    size_t field;  /* in struct stream_policy, of this size */
    size_t size;
    union {
        uint64_t number;
        int choice;
    } value;
};

/* All zero but for what holds for all streams. */
struct stream_policies {
    struct stream_policy all;
    struct stream_exception *list;
    size_t count;
};

/*
 * One more exception. Of a field, the first one holds whose pattern fits; given again with the same
 * pattern, it has the other value. @pattern: of so many characters, as stream_pattern_is_valid()
 * has it; @value: of @size bytes, which the field has. 0, -ENOSPC (there are
 * STREAM_EXCEPTIONS_MOST), -ENOMEM
 */
int stream_policies_add(struct stream_policies *policies, const char *pattern, size_t length, size_t field,
                        const void *value, size_t size);
void stream_policies_clear(struct stream_policies *policies);

/* What holds for that stream. */
void stream_policies_find(const struct stream_policies *policies, const char *stream, struct stream_policy *ret_policy);

/* The exception that holds for a field of that stream; NULL: none does. */
const struct stream_exception *stream_policies_exception(const struct stream_policies *policies, const char *stream,
                                                         size_t field);

#endif
