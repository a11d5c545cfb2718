#include "daemon/relay/unwatched.h"

#include "daemon/relay/stream.h"

enum { SILENT_TICKS = 5 }; /* in a row without a byte: it is silent */

bool unwatched_is_watcher(enum stream_sink_rank rank) {
    switch (rank) {
    case SINK_REPLICA:
    case SINK_SEARCH:
    case SINK_STAND_IN:
        return true;
    /* Players are counted; packets are made for them. */
    case SINK_PLAYERS:
    case SINK_PACKETIZER:
    case SINK_RECORDER:
        return false;
    }
    return true;
}

static bool is_watched(const struct stream *stream) {
    if (stream->player_count > 0)
        return true;
    for (const struct stream_sink *sink = stream->sinks; sink; sink = sink->next)
        if (unwatched_is_watcher(sink->type->rank))
            return true;
    return false;
}

static void set_interval(struct stream *stream, uint32_t ms) {
    if (!stream->source.session)
        return;
    stream->source.interval_ms = ms;
    stream->source.calls->set_interval(stream->source.session, ms);
}

void unwatched_tick(struct stream *stream, bool flows) {
    if (!stream->live || is_watched(stream))
        return;
    struct stream_source *source = &stream->source;
    /* A publisher that has just come may still have to do with its protocol, and one that sends
     * nothing would be read for nothing. On a full core its reads are late: for some seconds that
     * looks the same. */
    if (flows) {
        source->silent_ticks = 0;
        set_interval(stream, stream->registry->limits.unwatched_ms);
    } else if (source->silent_ticks < SILENT_TICKS && ++source->silent_ticks == SILENT_TICKS) {
        set_interval(stream, 0);
    }
}

void unwatched_end(struct stream *stream) {
    if (stream->live)
        set_interval(stream, 0);
}
