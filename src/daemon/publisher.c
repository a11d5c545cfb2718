#include "daemon/publisher.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/hook_notice.h"
#include "daemon/log.h"
#include "daemon/session.h"

struct publisher {
    struct stream *stream;
    struct stream_source source;
    sluice_flv *flv;
    uint64_t frame_limit; /* bytes of a tag, as it was when the publisher came */
    struct claim claim;
    publisher_claimed_fn *claimed;
    sluice_flv_tag *first; /* that has come before the stream was its own: the framer's; or NULL */
    bool attached;
    bool has_tags;   /* at least one has come */
    bool has_frames; /* likewise, with media */
    uint64_t since;  /* loop time since which the first one is waited for */
};

static void decided(struct claim *claim, int error);

int publisher_new(struct stream *stream, const struct stream_source *source, publisher_claimed_fn *claimed,
                  struct publisher **ret_publisher) {
    struct publisher *publisher = calloc(1, sizeof *publisher);
    if (!publisher)
        return -ENOMEM;
    int error = sluice_flv_new((uint32_t)stream->policy.frame_limit, &publisher->flv);
    if (error) {
        free(publisher);
        return error;
    }
    publisher->stream = stream;
    publisher->source = *source;
    publisher->since = source->since;
    publisher->frame_limit = stream->policy.frame_limit;
    publisher->claim.decided = decided;
    publisher->claimed = claimed;
    *ret_publisher = publisher;
    return 0;
}

static void begin(struct publisher *publisher) {
    publisher->attached = true;
    publisher->since = sluice_loop_now(registry_claims(publisher->stream->registry)->loop);
    LOG(LOG_INFO, "publisher started", {"stream", publisher->stream->name}, {"proto", publisher->source.protocol},
        {"peer", publisher->source.peer});
}

int publisher_attach(struct publisher *publisher) {
    int result = claim_stream(&publisher->claim, publisher->stream, &publisher->source);
    if (result == 0)
        begin(publisher);
    return result;
}

bool publisher_is_attached(const struct publisher *publisher) {
    return publisher->attached;
}

bool publisher_is_waiting(const struct publisher *publisher) {
    return publisher->claim.stream;
}

int publisher_publish(struct publisher *publisher, sluice_flv_tag *tag, uint8_t flags) {
    /* The name is another's still. */
    if (!publisher->attached)
        return 0;
    if (tag->size > publisher->frame_limit)
        return -EMSGSIZE;
    publisher->has_tags = true;
    publisher->has_frames |= tag->view.packet == SLUICE_FLV_FRAME;
    budget_charge(&publisher->source.session->budget);
    /* A tag that finds no memory is lost and counted; the stream goes on. */
    (void)stream_publish(publisher->stream, tag, flags);
    return 0;
}

void publisher_lose(struct publisher *publisher) {
    if (publisher->attached)
        stream_lose(publisher->stream);
}

/* The name is its own, or never will be. */
static void decided(struct claim *claim, int error) {
    struct publisher *publisher = (struct publisher *)((char *)claim - offsetof(struct publisher, claim));
    if (!error)
        begin(publisher);
    if (!publisher->source.session->closing)
        publisher->claimed(publisher->source.session, error);
}

/* A tag that has to wait for the stream stays with the framer, which is not called before it has been published. */
int publisher_feed(struct publisher *publisher, struct sluice_chain *chain) {
    sluice_flv_tag *tag = publisher->first;
    int result = 1;
    if (publisher_is_waiting(publisher))
        return 0;
    publisher->first = NULL;
    while (tag || (result = sluice_flv_next(publisher->flv, chain, &tag)) > 0) {
        int error = publisher->attached ? 0 : publisher_attach(publisher);
        if (error > 0)
            publisher->first = tag;
        if (!error)
            error = publisher_publish(publisher, tag, sluice_flv_flags(publisher->flv));
        if (error)
            return error > 0 ? 0 : error;
        tag = NULL;
        if (budget_is_spent(&publisher->source.session->budget))
            return 0;
    }
    return result;
}

void publisher_expect(struct publisher *publisher, uint64_t now) {
    publisher->since = now;
}

bool publisher_is_late(const struct publisher *publisher, uint64_t now) {
    return !publisher->has_frames && !publisher_is_waiting(publisher) &&
           now - publisher->since >= publisher->stream->policy.first_data_ms;
}

uint64_t publisher_idle_ms(const struct publisher *publisher) {
    return publisher->stream->policy.idle_ms;
}

size_t publisher_held(const struct publisher *publisher) {
    if (!publisher)
        return 0;
    size_t first = publisher->first ? sluice_slice_length(&publisher->first->payload) : 0;
    return first + (publisher->attached ? stream_pinned(publisher->stream) : 0);
}

size_t publisher_need(const struct publisher *publisher) {
    return sluice_flv_need(publisher->flv);
}

const char *publisher_stream_name(const struct publisher *publisher) {
    return publisher->stream->name;
}

struct session *publisher_session(const struct publisher *publisher) {
    return publisher->source.session;
}

const char *publisher_peer(const struct publisher *publisher) {
    return publisher->source.peer;
}

const char *publisher_error_text(int error) {
    switch (error) {
    case 0:
        return "end of stream";
    case -EPROTO:
        return "not FLV";
    case -EBADMSG:
        return "malformed RTSP";
    case -EOPNOTSUPP:
        return "no media that can be taken";
    case -EPROTONOSUPPORT:
        return "not FLV version 1";
    case -EMSGSIZE:
        return "a tag is larger than the limit";
    case -EPERM:
        return "no right to publish";
    case -EACCES:
        return "encrypted tags are not supported";
    case -EPIPE:
        return "the stream ends inside a tag";
    case -ENODATA:
        return "no FLV tag received";
    case -EEXIST:
        return "the stream has a publisher";
    case -ENOBUFS:
        return "out of blocks";
    case -ETIMEDOUT:
        return "nothing received for too long";
    case -ETIME:
        return "no frame received in time";
    case -EINPROGRESS:
        return "a frame came too slowly";
    case -ECONNRESET:
        return "connection lost";
    case -ESHUTDOWN:
        return "the server stops";
    case -EBUSY:
        return "the stream is kept for its publisher";
    case -ESTALE:
        return "another publisher has taken the stream";
    case -ECANCELED:
        return "kicked";
    case -EUSERS:
        return "as many streams as there may be";
    case -EKEYREJECTED:
        return "the publisher is banned for a while";
    default:
        return strerror(-error);
    }
}

static void log_end(const struct publisher *publisher, int error) {
    const struct stream *stream = publisher->stream;
    const char *reason = publisher_error_text(error);
    bool regular = error == 0 || error == -ESHUTDOWN;
    /* That has been logged, at a limited rate. */
    if (!publisher->attached && error == -EPERM)
        return;
    if (!publisher->attached) {
        LOG(LOG_WARNING, "publish refused", {"stream", stream->name}, {"proto", publisher->source.protocol},
            {"peer", publisher->source.peer}, {"reason", reason});
        return;
    }
    LOG(regular ? LOG_INFO : LOG_WARNING, "publisher ended", {"stream", stream->name},
        {"proto", publisher->source.protocol}, {"peer", publisher->source.peer}, {"reason", reason},
        {"bytes", log_unsigned(stream->bytes).text}, {"video_frames", log_unsigned(stream->video_frames).text},
        {"audio_frames", log_unsigned(stream->audio_frames).text},
        {"frames_dropped", log_unsigned(stream->frames_dropped).text});
}

/* Whoever is told of publishers' ends. */
static void tell_end(const struct publisher *publisher, uint64_t now, int error) {
    if (publisher->attached)
        hook_tell_unpublish(publisher->stream, now, publisher_error_text(error));
}

int publisher_end(struct publisher *publisher, int error, size_t left, uint64_t now) {
    if (!publisher)
        return error;
    if (error == 0 && left > 0)
        error = -EPIPE;
    else if (error == 0 && !publisher->has_tags)
        error = -ENODATA;
    log_end(publisher, error);
    claim_withdraw(&publisher->claim);
    tell_end(publisher, now, error);
    sluice_flv_free(publisher->flv);
    if (publisher->attached) {
        publisher->stream->left_why = publisher_error_text(error);
        claim_keep(publisher->stream, error, now);
        stream_detach(publisher->stream, now);
    }
    stream_unref(publisher->stream);
    free(publisher);
    return error;
}
