#include "daemon/protocols/rtsp/rtsp_source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"

/* However many pieces it came in. Text, so that it is not counted as copied payload. */
static void copy_text(const sluice_slice *body, char *text) {
    struct iovec pieces[16];
    const size_t most = sizeof pieces / sizeof *pieces;
    size_t at = 0;
    while (at < sluice_slice_length(body)) {
        size_t count = sluice_slice_iov(body, at, pieces, most);
        for (size_t i = 0; i < count && i < most; at += pieces[i++].iov_len)
            memcpy(text + at, pieces[i].iov_base, pieces[i].iov_len);
    }
}

static bool take_tag(sluice_flv_tag *tag, uint8_t flags, void *user) {
    struct rtsp_source *from = user;
    if (!from->error) {
        from->error = publisher_publish(from->publisher, tag, flags);
        from->refused += from->error == -EMSGSIZE;
    }
    return !budget_is_spent(&publisher_session(from->publisher)->budget);
}

static void lose_frame(void *user) {
    const struct rtsp_source *from = user;
    publisher_lose(from->publisher);
}

static void refuse_frame(void *user) {
    struct rtsp_source *from = user;
    from->error = -EMSGSIZE;
}

static const struct rtp_input_events input_events = {.tag = take_tag, .lost = lose_frame, .too_large = refuse_frame};

/* @ret_text: that the description's texts lie in, the caller's also after an error */
static int read_text(const sluice_slice *body, sluice_sdp *ret_sdp, char **ret_text) {
    size_t length = sluice_slice_length(body);
    if (length == 0)
        return -ENODATA;
    if (length > SLUICE_SDP_MAX_SIZE)
        return -EMSGSIZE;
    *ret_text = malloc(length);
    if (!*ret_text)
        return -ENOMEM;
    copy_text(body, *ret_text);
    int error = sluice_sdp_read(*ret_text, length, ret_sdp);
    if (error)
        return error == -EMSGSIZE ? -EMSGSIZE : -EPROTO;
    return ret_sdp->media_count == 0 ? -EPROTO : 0;
}

static sluice_http_text keep(sluice_http_text text, char **at) {
    sluice_http_text kept = {*at, text.length};
    if (text.length > 0)
        memcpy(*at, text.text, text.length);
    *at += text.length;
    return kept;
}

/* The description and its text would last as long as the source: only the parts needed later are
 * kept. */
static int keep_controls(struct rtsp_source *source, const sluice_sdp *sdp) {
    size_t length = sdp->control.length;
    for (size_t i = 0; i < sdp->media_count; i++)
        length += sdp->media[i].control.length;
    source->controls = malloc(sdp->media_count * sizeof *source->controls + length);
    if (!source->controls)
        return -ENOMEM;
    char *at = (char *)(source->controls + sdp->media_count);
    for (size_t i = 0; i < sdp->media_count; i++)
        source->controls[i] = keep(sdp->media[i].control, &at);
    source->control = keep(sdp->control, &at);
    source->media_count = sdp->media_count;
    return 0;
}

/* Of the stream of that name, as of a publisher that comes now; of a name that cannot be, any. */
static uint32_t frame_limit(const struct worker *worker, sluice_http_text name) {
    struct stream_policy policy;
    char text[STREAM_NAME + 1] = "";
    if (name.length <= STREAM_NAME)
        memcpy(text, name.text, name.length);
    stream_policies_find(&worker->options->streams, text, &policy);
    return (uint32_t)policy.frame_limit;
}

int rtsp_source_describe(struct rtsp_source *source, const sluice_slice *body, struct worker *worker,
                         sluice_http_text name) {
    char ignored[RTP_INPUT_NAMES] = "";
    char *text = NULL;
    sluice_sdp *sdp = malloc(sizeof *sdp);
    int error = sdp ? read_text(body, sdp, &text) : -ENOMEM;
    if (!error)
        error = rtp_input_new(worker_small_pool(worker), sdp, frame_limit(worker, name), &input_events, source,
                              &source->input, ignored);
    if (*ignored && (!error || error == -EOPNOTSUPP)) {
        source->ignored = strdup(ignored);
        error = source->ignored ? error : -ENOMEM;
    }
    if (!error)
        error = keep_controls(source, sdp);
    free(text);
    free(sdp);
    return error;
}

void rtsp_source_explain(const struct rtsp_source *source, char ret_reason[RTSP_SOURCE_REASON]) {
    const char *ignored = source->ignored ? source->ignored : "media";
    snprintf(ret_reason, RTSP_SOURCE_REASON, "%s %s not supported", ignored, strchr(ignored, ',') ? "are" : "is");
}

int rtsp_source_publish(struct rtsp_source *source, struct session *session, sluice_http_text name,
                        publisher_claimed_fn *claimed) {
    struct worker *worker = session->worker;
    struct stream_source from = {
        .protocol = "rtsp", .since = worker_now(worker), .session = session, .ignored = source->ignored};
    struct stream *stream;
    struct publisher *publisher;
    memcpy(from.peer, session->peer, sizeof from.peer);
    int error = registry_get(worker->registry, name.text, name.length, worker_now(worker), &stream);
    if (error)
        return error;
    if (source->ignored)
        LOG(LOG_INFO, "tracks ignored", {"stream", stream->name}, {"proto", "rtsp"}, {"peer", session->peer},
            {"tracks", source->ignored});
    error = publisher_new(stream, &from, claimed, &publisher);
    if (error) {
        stream_unref(stream);
        return -ENOMEM;
    }
    error = publisher_attach(publisher);
    if (error < 0)
        publisher_end(publisher, error, worker_now(worker));
    else
        source->publisher = publisher;
    return error;
}

bool rtsp_source_is_waiting(const struct rtsp_source *source) {
    return source->publisher && publisher_is_waiting(source->publisher);
}

bool rtsp_source_has_more(const struct rtsp_source *source) {
    return source->publisher && rtp_input_has_more(source->input);
}

void rtsp_source_go_on(struct rtsp_source *source) {
    rtp_input_go_on(source->input);
}

bool rtsp_source_frame(struct rtsp_source *source, const struct rtsp_channel *channels,
                       const sluice_rtsp_message *frame) {
    for (uint32_t i = 0; i < source->media_count; i++) {
        const struct rtsp_channel *channel = &channels[i];
        if (!channel->set_up)
            continue;
        if (channel->rtp == frame->channel) {
            source->heard |= 1U << i;
            source->ended &= ~(1U << i);
            rtp_input_rtp(source->input, i, &frame->payload);
            return true;
        }
        if (channel->has_rtcp && channel->rtcp == frame->channel && rtp_input_rtcp(source->input, i, &frame->payload))
            source->ended |= 1U << i;
    }
    return false;
}

bool rtsp_source_has_ended(const struct rtsp_source *source) {
    return source->ended && !(source->heard & ~source->ended);
}

/* What came of the tracks: where frames are missing, it says on which side. */
static void log_counts(const struct rtsp_source *source) {
    struct rtp_input_counts counts;
    rtp_input_get_counts(source->input, &counts);
    LOG(LOG_INFO, "packets received", {"stream", publisher_stream_name(source->publisher)}, {"proto", "rtsp"},
        {"peer", publisher_peer(source->publisher)}, {"packets", log_unsigned(counts.packets).text},
        {"lost", log_unsigned(counts.lost).text}, {"malformed", log_unsigned(counts.malformed).text},
        {"frames_dropped", log_unsigned(counts.dropped + source->refused).text});
}

void rtsp_source_end(struct rtsp_source *source, int error, uint64_t now) {
    struct publisher *publisher = source->publisher;
    bool is_evicted = error == -ENOBUFS;
    if (!publisher)
        return;
    publisher_leave(publisher);
    if (publisher_is_attached(publisher) && !is_evicted)
        rtp_input_flush(source->input);
    if (publisher_is_attached(publisher))
        log_counts(source);
    source->publisher = NULL;
    if (is_evicted) {
        rtp_input_free(source->input);
        source->input = NULL;
    }
    publisher_end(publisher, error, now);
}

void rtsp_source_clear(struct rtsp_source *source) {
    rtp_input_free(source->input);
    free(source->controls);
    free(source->ignored);
    *source = (struct rtsp_source){0};
}
