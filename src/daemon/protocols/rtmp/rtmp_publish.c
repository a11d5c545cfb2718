/* Publishing: messages of audio, video and data are tags of FLV. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/protocols/rtmp/rtmp_session_internal.h"

/* The stream is its own. */
static void begin(struct rtmp_session *session) {
    struct session *base = &session->base;
    session->state = RTMP_PUBLISHING;
    session_authorize(base);
    session->received = 0;
    session->received_at = worker_now(base->worker);
    rtmp_forget_asked(session);
    rtmp_answer_event(session, SLUICE_RTMP_STREAM_BEGIN, session->stream);
    if (!base->closing)
        rtmp_answer_status(session, session->stream, "status", "NetStream.Publish.Start", "publishing");
}

static const char *code_of(int error) {
    switch (error) {
    case -EEXIST:
    case -EBUSY:
    case -ESTALE:
    case -EREMOTE:
        return "NetStream.Publish.BadName";
    case -EKEYREJECTED:
    case -ECANCELED:
    case -EPERM:
        return "NetStream.Publish.Denied";
    case 0:
        return "NetStream.Unpublish.Success";
    default:
        return "NetStream.Failed";
    }
}

void rtmp_publish_end(struct rtmp_session *session, int error, bool status) {
    struct session *base = &session->base;
    if (!session->publisher)
        return;
    struct publisher *publisher = session->publisher;
    session->publisher = NULL;
    session->aggregate = NULL;
    error = publisher_end(publisher, error, worker_now(base->worker));
    if (status && !base->closing)
        rtmp_answer_status(session, session->stream, error ? "error" : "status", code_of(error),
                           publisher_error_text(error));
}

static void end_with(struct rtmp_session *session, int error) {
    rtmp_publish_end(session, error, true);
    rtmp_end(session);
}

static void on_claimed(struct session *base, int error) {
    struct rtmp_session *session = (struct rtmp_session *)base;
    if (error)
        end_with(session, error);
    else
        begin(session);
    if (base->closing)
        return;
    sluice_conn_resume(base->conn);
    rtmp_read(session);
}

void rtmp_publish_start(struct rtmp_session *session, struct stream *stream) {
    struct worker *worker = session->base.worker;
    struct stream_source from = {.protocol = "rtmp", .since = worker_now(worker), .session = &session->base};
    memcpy(from.peer, session->base.peer, sizeof from.peer);
    if (publisher_new(stream, &from, on_claimed, &session->publisher) < 0) {
        stream_unref(stream);
        rtmp_refuse(session, "NetStream.Publish.Denied", "out of memory");
        return;
    }
    int result = publisher_attach(session->publisher);
    if (result < 0)
        end_with(session, result);
    else if (result > 0)
        session->state = RTMP_CLAIMING;
    else
        begin(session);
}

/* Data that says something to a server, or to a player of this connection, and nothing to those of
 * the stream. Of a message that is malformed the stream makes what it can. */
static bool is_private(const sluice_rtmp_message *message) {
    static const char *const names[] = {"|RtmpSampleAccess", "@clearDataFrame", "onStatus"};
    sluice_amf_reader reader;
    sluice_amf_value name;
    if (sluice_rtmp_read_values(message, NULL, &reader) < 0 || sluice_amf_next(&reader, &name) <= 0 ||
        name.type != SLUICE_AMF_STRING)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (sluice_amf_equals(&name.text, names[i]))
            return true;
    return false;
}

/* In a message of AMF 3, what is AMF 0 as in a tag begins behind a zero. False: it does not. */
static bool to_amf0(sluice_rtmp_message *message) {
    uint8_t first;
    sluice_slice whole = message->payload, rest;
    if (message->type != SLUICE_RTMP_DATA3)
        return true;
    if (sluice_slice_copy(&whole, 0, &first, 1) != 1 || first != 0 ||
        sluice_slice_sub(&whole, 1, sluice_slice_length(&whole) - 1, &rest) < 0)
        return false;
    sluice_slice_release(&whole);
    message->payload = rest;
    message->size--;
    return true;
}

/* What it does not keep stays the message's. 0, or the error that ends the publisher */
static int publish(struct rtmp_session *session, sluice_rtmp_message *message) {
    bool is_data = message->type == SLUICE_RTMP_DATA || message->type == SLUICE_RTMP_DATA3;
    if (message->type != SLUICE_RTMP_AUDIO && message->type != SLUICE_RTMP_VIDEO && !is_data)
        return 0;
    if (message->size == 0 || (is_data && (is_private(message) || !to_amf0(message))))
        return 0;
    sluice_flv_tag tag = {
        .type = is_data ? SLUICE_FLV_SCRIPT : (sluice_flv_type)message->type,
        .timestamp = message->timestamp,
        .size = message->size,
        .trailer_ok = true,
        .payload = message->payload,
    };
    sluice_flv_read_view(tag.type, &tag.payload, &tag.view);
    int error = publisher_publish(session->publisher, &tag, 0);
    message->payload = tag.payload;
    return error;
}

void rtmp_publish_go_on(struct rtmp_session *session) {
    sluice_rtmp_message part;
    int result = 1, error = 0;
    while (!budget_is_spent(&session->base.budget) && !error &&
           (result = sluice_rtmp_next_part(&session->parts, session->aggregate, &part)) > 0) {
        budget_charge(&session->base.budget);
        error = publish(session, &part);
        sluice_slice_release(&part.payload);
        if (session->state != RTMP_PUBLISHING)
            return;
    }
    if (error || result < 0)
        end_with(session, error ? error : -EILSEQ);
    else if (result == 0)
        session->aggregate = NULL;
}

void rtmp_publish_message(struct rtmp_session *session, sluice_rtmp_message *message) {
    if (message->type == SLUICE_RTMP_AGGREGATE) {
        session->aggregate = message;
        session->parts = (sluice_rtmp_parts){0};
        rtmp_publish_go_on(session);
        return;
    }
    int error = publish(session, message);
    if (error)
        end_with(session, error);
}

void rtmp_publish_tick(struct rtmp_session *session, uint64_t now) {
    struct session *base = &session->base;
    const sluice_chain *chain = session_chain(base);
    uint64_t received = sluice_chain_consumed(chain) + sluice_chain_length(chain);
    bool is_ours = budget_has_more(base) || base->held_up;
    if (received != session->received || is_ours) {
        session->received = received;
        session->received_at = now;
    }
    if (base->held_up)
        publisher_expect(session->publisher, now);
    const struct pace_look look = {
        .mark = session->messages,
        .received = received,
        .is_open = (sluice_chain_length(chain) > 0 || sluice_rtmp_footprint(session->framer) > 0) && !is_ours,
        .most_ms = publisher_idle_ms(session->publisher),
        .earns = true,
    };
    bool is_slow = pace_is_late(&base->pace, &look, now);
    if (now - session->received_at >= publisher_idle_ms(session->publisher))
        end_with(session, -ETIMEDOUT);
    else if (publisher_is_late(session->publisher, now))
        end_with(session, -ETIME);
    else if (is_slow)
        end_with(session, -EINPROGRESS);
}
