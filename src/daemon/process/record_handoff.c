#include "daemon/process/record_handoff.h"

#include <errno.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/process/state_lines.h"
#include "daemon/recording/record_override.h"

void record_handoff_write(const struct worker *worker, struct state_lines *lines) {
    const struct record_overrides *overrides = &worker->recorders.overrides;
    for (size_t i = 0; i < overrides->count; i++)
        state_lines_add(lines, RECORD_HANDOFF_WORD "%s %s\n", record_override_name(overrides->list[i].override),
                        overrides->list[i].stream);
}

static enum record_override read_override(const char *text, size_t length) {
    static const enum record_override choices[] = {RECORD_ON, RECORD_OFF};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        const char *name = record_override_name(choices[i]);
        if (strlen(name) == length && strncmp(text, name, length) == 0)
            return choices[i];
    }
    return RECORD_BY_RULE;
}

void record_handoff_read(const char *text, struct server *server) {
    const size_t length = strcspn(text, " ");
    const char *stream = text[length] ? text + length + 1 : "";
    const enum record_override override = read_override(text, length);
    const char *wrong = "malformed";
    if (override != RECORD_BY_RULE && stream_name_is_valid(stream, strlen(stream))) {
        struct worker *owner = server_owner(server, stream, strlen(stream));
        int error = recorders_wish(&owner->recorders, owner->registry, stream, override);
        wrong = error == -EOPNOTSUPP ? "no recording directory"
                : error == -ENOSPC   ? "too many overrides"
                : error              ? strerror(-error)
                                     : NULL;
    }
    if (wrong)
        LOG(LOG_WARNING, "recording override not taken over", {"stream", stream}, {"reason", wrong});
}
