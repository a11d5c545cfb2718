#include "daemon/recording/record_override.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The place of the first name that is not less: the list is sorted. */
static size_t place_of(const struct record_overrides *overrides, const char *stream) {
    size_t from = 0, to = overrides->count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (strcmp(overrides->list[middle].stream, stream) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static bool is_at(const struct record_overrides *overrides, size_t place, const char *stream) {
    return place < overrides->count && strcmp(overrides->list[place].stream, stream) == 0;
}

enum record_override record_overrides_find(const struct record_overrides *overrides, const char *stream) {
    size_t place = place_of(overrides, stream);
    return is_at(overrides, place, stream) ? overrides->list[place].override : RECORD_BY_RULE;
}

static int grow(struct record_overrides *overrides) {
    if (overrides->count < overrides->capacity)
        return 0;
    if (overrides->count == RECORD_OVERRIDES_MOST)
        return -ENOSPC;
    size_t capacity = overrides->capacity ? 2 * overrides->capacity : 16;
    struct record_override_entry *list = realloc(overrides->list, capacity * sizeof *list);
    if (!list)
        return -ENOMEM;
    overrides->list = list;
    overrides->capacity = capacity;
    return 0;
}

int record_overrides_set(struct record_overrides *overrides, const char *stream, enum record_override override) {
    size_t place = place_of(overrides, stream);
    bool is_there = is_at(overrides, place, stream);
    int error = is_there || override == RECORD_BY_RULE ? 0 : grow(overrides);
    if (error || (!is_there && override == RECORD_BY_RULE))
        return error;
    struct record_override_entry *entry = overrides->list + place;
    size_t behind = (overrides->count - place) * sizeof *entry;
    if (override == RECORD_BY_RULE) {
        memmove(entry, entry + 1, behind - sizeof *entry);
        overrides->count--;
        return 0;
    }
    if (!is_there) {
        memmove(entry + 1, entry, behind);
        overrides->count++;
        snprintf(entry->stream, sizeof entry->stream, "%s", stream);
    }
    entry->override = override;
    return 0;
}

void record_overrides_clear(struct record_overrides *overrides) {
    free(overrides->list);
    *overrides = (struct record_overrides){0};
}

const char *record_override_name(enum record_override override) {
    static const char *const names[] = {[RECORD_BY_RULE] = "rule", [RECORD_ON] = "on", [RECORD_OFF] = "off"};
    return names[override];
}
