/*
 * An operator's choice to record streams or not, regardless of the rules: by stream name, so it
 * applies whether or not the stream exists, and across reconnects of its publisher. Its worker's
 * thread only.
 */
#ifndef SLUICED_RECORD_OVERRIDE_H
#define SLUICED_RECORD_OVERRIDE_H

#include <stddef.h>

#include "daemon/base/stream_name.h"

enum { RECORD_OVERRIDES_MOST = 1024 }; /* of a worker */

enum record_override { RECORD_BY_RULE, RECORD_ON, RECORD_OFF };

struct record_override_entry {
    char stream[STREAM_NAME + 1];
    enum record_override override;
};

/* All zero at the beginning. */
struct record_overrides {
    struct record_override_entry *list;
    size_t count, capacity;
};

/* RECORD_BY_RULE where nothing is wished. */
enum record_override record_overrides_find(const struct record_overrides *overrides, const char *stream);

/* RECORD_BY_RULE forgets what was wished. 0, -ENOMEM, -ENOSPC (there are as many as there may
 * be) */
int record_overrides_set(struct record_overrides *overrides, const char *stream, enum record_override override);

void record_overrides_clear(struct record_overrides *overrides);

/* "rule", "on", "off" */
const char *record_override_name(enum record_override override);

#endif
