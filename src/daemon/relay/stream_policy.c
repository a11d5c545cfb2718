#include "daemon/relay/stream_policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/stream_name.h"

static struct stream_exception *find(const struct stream_policies *policies, const char *pattern, size_t length,
                                     size_t field) {
    for (size_t i = 0; i < policies->count; i++) {
        struct stream_exception *one = &policies->list[i];
        if (one->field == field && strlen(one->pattern) == length && memcmp(one->pattern, pattern, length) == 0)
            return one;
    }
    return NULL;
}

int stream_policies_add(struct stream_policies *policies, const char *pattern, size_t length, size_t field,
                        const void *value, size_t size) {
    struct stream_exception *one = find(policies, pattern, length, field);
    if (!one && policies->count == STREAM_EXCEPTIONS_MOST)
        return -ENOSPC;
    if (!one) {
        struct stream_exception *list = reallocarray(policies->list, policies->count + 1, sizeof *list);
        if (!list)
            return -ENOMEM;
        policies->list = list;
        one = &list[policies->count];
        *one = (struct stream_exception){.pattern = strndup(pattern, length), .field = field, .size = size};
        if (!one->pattern)
            return -ENOMEM;
        policies->count++;
    }
    memcpy(&one->value, value, size);
    return 0;
}

void stream_policies_clear(struct stream_policies *policies) {
    for (size_t i = 0; i < policies->count; i++)
        free(policies->list[i].pattern);
    free(policies->list);
    *policies = (struct stream_policies){0};
}

static void lower(uint64_t *value, uint64_t most) {
    *value = *value < most ? *value : most;
}

void stream_policies_find(const struct stream_policies *policies, const char *stream,
                          struct stream_policy *ret_policy) {
    *ret_policy = policies->all;
    /* From the last one on, so that the first one holds. */
    for (size_t i = policies->count; i-- > 0;) {
        const struct stream_exception *one = &policies->list[i];
        if (stream_pattern_fits(one->pattern, stream, strlen(stream)))
            memcpy((char *)ret_policy + one->field, &one->value, one->size);
    }
    /* A player that begins with the group, or is sent a frame, has to have room for it. */
    lower(&ret_policy->gop_size, ret_policy->player_buffer);
    lower(&ret_policy->frame_limit, ret_policy->player_buffer);
}

const struct stream_exception *stream_policies_exception(const struct stream_policies *policies, const char *stream,
                                                         size_t field) {
    for (size_t i = 0; i < policies->count; i++)
        if (policies->list[i].field == field && stream_pattern_fits(policies->list[i].pattern, stream, strlen(stream)))
            return &policies->list[i];
    return NULL;
}
