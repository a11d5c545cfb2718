#include "daemon/relay/stand_in.h"

#include <errno.h>
#include <string.h>

#include "daemon/relay/stream.h"

static struct stand_in *of(struct stream_sink *sink) {
    return (struct stand_in *)sink;
}

/* A frame that would end a publisher of the target is lost. */
static void pass(struct stand_in *stand_in, const struct packet *packet) {
    struct stream *target = stand_in->target;
    struct sluice_flv_tag tag = {
        .type = packet->type,
        .timestamp = packet->timestamp,
        .size = packet_size(packet),
        .trailer_ok = true,
        .view = packet_view(packet),
    };
    if (packet_size(packet) > target->policy.frame_limit) {
        stand_in->is_synced = false;
        stream_lose(target);
        return;
    }
    sluice_slice_ref(&packet->payload, &tag.payload);
    stand_in->is_lacking |= stream_publish(target, &tag, stand_in->source->seen) == -ENOTRECOVERABLE;
    sluice_slice_release(&tag.payload);
}

static void pass_headers(struct stand_in *stand_in, const struct stream_headers *headers) {
    for (size_t i = 0; i < TRACKS_HEADERS; i++) {
        const struct packet *header = stream_headers_at(headers, i);
        if (header)
            pass(stand_in, header);
    }
}

static void pass_cached(struct stand_in *stand_in) {
    const struct stream *source = stand_in->source;
    const struct gop *gop = &source->gop;
    pass_headers(stand_in, gop->count > 0 ? &gop->headers : &source->headers);
    for (size_t i = 0; i < gop->count && !stand_in->is_lacking; i++)
        pass(stand_in, gop->packets[i]);
    stand_in->is_synced = gop->count > 0;
}

/* What it lacked has come, if it lacked something. */
static bool has_headers(struct stand_in *stand_in) {
    if (!stand_in->is_lacking)
        return true;
    stand_in->is_lacking = false;
    pass_headers(stand_in, &stand_in->source->headers);
    return !stand_in->is_lacking;
}

static void take(struct stream_sink *sink, struct stream *source, struct packet *packet, uint8_t flags) {
    struct stand_in *stand_in = of(sink);
    (void)flags;
    bool waits = !stand_in->is_synced || stand_in->is_lacking;
    if (waits && packet->role >= PACKET_KEY_FRAME && (!stream_is_sync(source, packet) || !has_headers(stand_in)))
        return;
    stand_in->is_synced |= packet->role == PACKET_KEY_FRAME || packet->role == PACKET_AUDIO;
    pass(stand_in, packet);
}

static void lost(struct stream_sink *sink, struct stream *source) {
    (void)source;
    of(sink)->is_synced = false;
    stream_lose(of(sink)->target);
}

static void ended(struct stream_sink *sink, struct stream *source) {
    struct stand_in *stand_in = of(sink);
    (void)source;
    stand_in_end(stand_in);
    stand_in->ended(stand_in, true);
}

static const struct stream_sink_type sink_type = {
    .rank = SINK_STAND_IN,
    .packet = take,
    .lost = lost,
    .ended = ended,
};

int stand_in_begin(struct stand_in *stand_in, struct stream *source, struct stream *target, const char *peer) {
    if (!stream_is_known(source) || source->stand_in || source == target)
        return -ENOENT;
    int error = stream_attach_stand_in(target, stand_in, source->lender, peer);
    if (error)
        return error;
    stand_in->sink.type = &sink_type;
    stand_in->is_lacking = false;
    stand_in->source = source;
    stand_in->target = target;
    stream_add_sink(source, &stand_in->sink);
    pass_cached(stand_in);
    return 0;
}

void stand_in_end(struct stand_in *stand_in) {
    if (!stand_in->source)
        return;
    stream_remove_sink(stand_in->source, &stand_in->sink);
    stand_in->source = NULL;
    stream_detach(stand_in->target, sluice_loop_now(stand_in->target->registry->loop));
}

void stand_in_yield(struct stand_in *stand_in) {
    stand_in_end(stand_in);
    stand_in->ended(stand_in, false);
}
