#include "daemon/record_wish.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct record_wished *find(const struct record_wishes *wishes, const char *stream) {
    for (size_t i = 0; i < wishes->count; i++)
        if (strcmp(wishes->list[i].stream, stream) == 0)
            return &wishes->list[i];
    return NULL;
}

enum record_wish record_wishes_find(const struct record_wishes *wishes, const char *stream) {
    const struct record_wished *wished = find(wishes, stream);
    return wished ? wished->wish : RECORD_BY_RULE;
}

static int grow(struct record_wishes *wishes) {
    if (wishes->count < wishes->capacity)
        return 0;
    if (wishes->count == RECORD_WISHES_MOST)
        return -ENOSPC;
    size_t capacity = wishes->capacity ? 2 * wishes->capacity : 16;
    struct record_wished *list = realloc(wishes->list, capacity * sizeof *list);
    if (!list)
        return -ENOMEM;
    wishes->list = list;
    wishes->capacity = capacity;
    return 0;
}

int record_wishes_set(struct record_wishes *wishes, const char *stream, enum record_wish wish) {
    struct record_wished *wished = find(wishes, stream);
    if (wish == RECORD_BY_RULE) {
        if (wished)
            *wished = wishes->list[--wishes->count];
        return 0;
    }
    if (!wished) {
        int error = grow(wishes);
        if (error)
            return error;
        wished = &wishes->list[wishes->count++];
        snprintf(wished->stream, sizeof wished->stream, "%s", stream);
    }
    wished->wish = wish;
    return 0;
}

void record_wishes_clear(struct record_wishes *wishes) {
    free(wishes->list);
    *wishes = (struct record_wishes){0};
}

const char *record_wish_name(enum record_wish wish) {
    static const char *const names[] = {[RECORD_BY_RULE] = "rule", [RECORD_ON] = "on", [RECORD_OFF] = "off"};
    return names[wish];
}
