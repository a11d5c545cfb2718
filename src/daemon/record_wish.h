/*
 * What an operator wants recorded, whatever the rules say: by the streams' names, so that it holds whether a stream is
 * there or not, and however often its publisher comes anew. Its worker's thread only.
 */
#ifndef SLUICED_RECORD_WISH_H
#define SLUICED_RECORD_WISH_H

#include <stddef.h>

#include "daemon/stream_name.h"

enum { RECORD_WISHES_MOST = 1024 }; /* of a worker */

enum record_wish { RECORD_BY_RULE, RECORD_ON, RECORD_OFF };

struct record_wished {
    char stream[STREAM_NAME + 1];
    enum record_wish wish;
};

/* All zero at the beginning. */
struct record_wishes {
    struct record_wished *list;
    size_t count, capacity;
};

/* RECORD_BY_RULE where nothing is wished. */
enum record_wish record_wishes_find(const struct record_wishes *wishes, const char *stream);

/* RECORD_BY_RULE forgets what was wished. 0, -ENOMEM, -ENOSPC (there are as many as there may be) */
int record_wishes_set(struct record_wishes *wishes, const char *stream, enum record_wish wish);

void record_wishes_clear(struct record_wishes *wishes);

/* "rule", "on", "off" */
const char *record_wish_name(enum record_wish wish);

#endif
