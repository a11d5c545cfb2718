#include "daemon/process/ban_handoff.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/access/ban.h"
#include "daemon/base/log.h"
#include "daemon/process/state_lines.h"
#include "shared/clock.h"

enum { HOST = 63 }; /* characters, as the format below has them */
_Static_assert(HOST == ADDRESS_TEXT - 1 && STREAM_NAME == 259, "the format's widths");

void ban_handoff_write(struct worker *worker, struct state_lines *lines) {
    const uint64_t now = worker_now(worker);
    size_t count;
    const struct ban *bans = bans_list(&worker->registry->bans, now, &count);
    for (size_t i = 0; i < count; i++)
        if (!bans[i].is_shared)
            state_lines_add(lines, BAN_HANDOFF_WORD "%" PRIu64 " %" PRIu64 " %s %s\n", bans[i].until - now,
                            now - bans[i].since, bans[i].stream, bans[i].host);
}

/* NULL, or why it is not added. */
static const char *add(struct server *server, const char *stream, const char *host, uint64_t left_ms, uint64_t age_ms) {
    struct worker *owner = server_owner(server, stream, strlen(stream));
    struct bans *bans = &owner->registry->bans;
    const struct cluster_self *self = server_cluster_self(server);
    const struct ban_origin origin = {.node = self ? self->node : NULL, .age_ms = age_ms};
    /* The loop has not run yet: its time is that of the start. */
    const uint64_t now = clock_ms();
    char peer[ADDRESS_TEXT + sizeof ":0"];
    size_t count;
    (void)bans_list(bans, now, &count);
    /* Without this, it would take the place of another one. */
    if (count == BAN_MOST)
        return "too many bans";
    snprintf(peer, sizeof peer, "%s:0", host);
    int error = bans_add(bans, stream, peer, now, left_ms, &origin);
    return error ? strerror(-error) : NULL;
}

void ban_handoff_read(const char *text, struct server *server) {
    char stream[STREAM_NAME + 1] = "", host[HOST + 1];
    uint64_t left_ms, age_ms;
    const char *wrong = "malformed";
    if (sscanf(text, "%" SCNu64 " %" SCNu64 " %259s %63s", &left_ms, &age_ms, stream, host) == 4 &&
        stream_name_is_valid(stream, strlen(stream)) && left_ms <= UINT32_MAX)
        wrong = add(server, stream, host, left_ms, age_ms);
    if (wrong)
        LOG(LOG_WARNING, "ban not taken over", {"stream", stream}, {"reason", wrong});
}
