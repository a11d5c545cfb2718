#include "daemon/server/publisher.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/server/hook_event.h"
#include "daemon/server/publish_claim.h"
#include "daemon/server/server.h"
#include "daemon/server/session.h"

struct publisher {
    struct stream *stream;
    struct stream_source source;
    uint64_t frame_limit; /* bytes of a tag, as it was when the publisher came */
    struct publish_waiter waiter;
    publisher_claimed_fn *claimed;
    struct publish_claim *claim; /* NULL: there is no cluster, or another node has the stream */
    bool is_claiming;            /* the cluster is asked */
    bool attached;
    bool is_leaving; /* publisher_leave() */
    bool has_tags;   /* at least one has come */
    bool has_frames; /* likewise, with media */
    uint64_t since;  /* loop time since which the first one is waited for */
};

static void decided(struct publish_waiter *waiter, int error);

static struct cidr_address host_of(const struct session *session) {
    return cidr_host(&session->peer_address);
}

static bool is_pull(const struct session *session) {
    return session->type->pulls;
}

static bool is_closing(const struct session *session) {
    return session->closing;
}

static bool is_ending(const struct session *session) {
    if (!session->conn || session->closing)
        return session->conn;
    struct pollfd socket = {.fd = sluice_conn_fd(session->conn), .events = POLLRDHUP};
    return poll(&socket, 1, 0) > 0 && socket.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

static void kick(struct session *session, int error) {
    session->type->kick(session, error);
}

static void set_interval(struct session *session, uint32_t ms) {
    if (session->conn && !session->closing)
        (void)sluice_conn_set_receive_interval(session->conn, ms);
}

const struct publish_calls publisher_calls = {.host = host_of,
                                              .is_pull = is_pull,
                                              .is_closing = is_closing,
                                              .is_ending = is_ending,
                                              .kick = kick,
                                              .set_interval = set_interval};

int publisher_new(struct stream *stream, const struct stream_source *source, publisher_claimed_fn *claimed,
                  struct publisher **ret_publisher) {
    struct publisher *publisher = calloc(1, sizeof *publisher);
    if (!publisher)
        return -ENOMEM;
    publisher->stream = stream;
    publisher->source = *source;
    publisher->source.calls = &publisher_calls;
    publisher->since = source->since;
    publisher->frame_limit = stream->policy.frame_limit;
    publisher->waiter.decided = decided;
    publisher->claimed = claimed;
    *ret_publisher = publisher;
    return 0;
}

static void begin(struct publisher *publisher) {
    publisher->attached = true;
    publisher->since = sluice_loop_now(publisher->stream->registry->loop);
    publish_claim_begin(publisher->claim);
    LOG(LOG_INFO, "publisher started", {"stream", publisher->stream->name}, {"proto", publisher->source.protocol},
        {"peer", publisher->source.peer});
}

/* What comes from another node does not wait for a name: it is this node's, or not. */
static int take_remote(struct publisher *publisher) {
    struct stream *stream = publisher->stream;
    if (stream->cluster.claims || stream->locks.first)
        return -EEXIST;
    return stream_attach(stream, &publisher->source);
}

/* The name on this node. What another node sends gives way: the cluster has decided. */
static int take(struct publisher *publisher) {
    struct stream *stream = publisher->stream;
    const struct stream_source *holder = &stream->source;
    if (publisher->claim && stream->live && holder->is_remote && holder->session)
        holder->calls->kick(holder->session, -ESTALE);
    int result = publisher->source.is_remote ? take_remote(publisher)
                                             : publish_lock_acquire(&publisher->waiter, stream, &publisher->source);
    if (result == 0)
        begin(publisher);
    return result;
}

/* The cluster has decided; or what it has granted is lost. */
static void on_cluster(void *user, int error) {
    struct publisher *publisher = user;
    struct session *session = publisher->source.session;
    publisher->is_claiming = false;
    if (publisher->attached) {
        if (!session->closing)
            session->type->kick(session, error);
        return;
    }
    publish_lock_cancel(&publisher->waiter);
    int result = error ? error : session->closing ? -ECONNRESET : take(publisher);
    if (result <= 0 && !session->closing)
        publisher->claimed(session, result);
}

int publisher_attach(struct publisher *publisher) {
    struct worker *worker = publisher->source.session->worker;
    if (publisher->source.is_remote || !server_cluster_self(worker->server))
        return take(publisher);
    const struct cidr_address host = host_of(publisher->source.session);
    /* As on one node: a pull and a publisher would displace each other for ever. */
    int result = publish_claim_new(worker, publisher->stream, &host, !is_pull(publisher->source.session), on_cluster,
                                   publisher, &publisher->claim);
    publisher->is_claiming = result > 0;
    return result ? result : take(publisher);
}

bool publisher_is_attached(const struct publisher *publisher) {
    return publisher->attached;
}

bool publisher_is_waiting(const struct publisher *publisher) {
    return publisher->waiter.stream || publisher->is_claiming;
}

int publisher_publish(struct publisher *publisher, sluice_flv_tag *tag, uint8_t flags) {
    struct session *session = publisher->source.session;
    struct holdings *holdings = &session->worker->holdings;
    /* The name is another's still. */
    if (!publisher->attached)
        return 0;
    if (tag->size > publisher->frame_limit)
        return -EMSGSIZE;
    publisher->has_tags = true;
    publisher->has_frames |= tag->view.packet == SLUICE_FLV_FRAME;
    /* What is no frame is read, digested, compared with what there was, and kept. */
    if (tag->view.packet == SLUICE_FLV_FRAME)
        budget_charge(&session->budget);
    else
        budget_charge_request(&session->budget);
    struct holdings_call outer = holdings_enter(holdings, session, !publisher->is_leaving);
    /* A tag that finds no memory is lost and counted; the stream goes on, if it can be decoded. */
    int error = stream_publish(publisher->stream, tag, flags);
    holdings_leave(holdings, outer);
    return error == -ENOTRECOVERABLE ? -ENOBUFS : 0;
}

void publisher_leave(struct publisher *publisher) {
    publisher->is_leaving = true;
}

void publisher_lose(struct publisher *publisher) {
    if (publisher->attached)
        stream_lose(publisher->stream);
}

/* The name is its own, or never will be. */
static void decided(struct publish_waiter *waiter, int error) {
    struct publisher *publisher = (struct publisher *)((char *)waiter - offsetof(struct publisher, waiter));
    if (!error)
        begin(publisher);
    if (!publisher->source.session->closing)
        publisher->claimed(publisher->source.session, error);
}

void publisher_expect(struct publisher *publisher, uint64_t now) {
    publisher->since = now;
}

bool publisher_is_late(const struct publisher *publisher, uint64_t now) {
    return !publisher->has_frames && !publisher_is_waiting(publisher) &&
           now >= publisher->since + publisher->stream->policy.first_data_ms;
}

uint64_t publisher_idle_ms(const struct publisher *publisher) {
    return publisher->stream->policy.idle_ms;
}

size_t publisher_held(const struct publisher *publisher) {
    return publisher && publisher->attached ? stream_pinned(publisher->stream) : 0;
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
    case -EILSEQ:
        return "malformed RTMP";
    case -EOPNOTSUPP:
        return "no supported media";
    case -EPROTONOSUPPORT:
        return "not FLV version 1";
    case -EMSGSIZE:
        return "tag too large";
    case -EPERM:
        return "not authorized";
    case -EACCES:
        return "encrypted tags";
    case -EPIPE:
        return "truncated tag";
    case -ENODATA:
        return "no FLV tag received";
    case -EEXIST:
        return "name in use";
    case -ENOBUFS:
        return "out of memory";
    case -ETIMEDOUT:
        return "receive timeout";
    case -ETIME:
        return "frame timeout";
    case -EINPROGRESS:
        return "a frame came too slowly";
    case -ECONNRESET:
        return "connection lost";
    case -ESHUTDOWN:
        return "server shutting down";
    case -EBUSY:
        return "name reserved";
    case -ESTALE:
        return "replaced by another publisher";
    case -ECANCELED:
        return "kicked";
    case -EUSERS:
        return "too many streams";
    case -EKEYREJECTED:
        return "banned";
    case -EREMOTE:
        return "published on another node";
    case -EHOSTDOWN:
        return "cluster engine unavailable";
    default:
        return strerror(-error);
    }
}

/* What has failed under TLS has no FLV, RTMP or RTSP to be wrong. */
static const char *end_reason(const struct publisher *publisher, int error) {
    const struct session *session = publisher->source.session;
    const char *reason = error == -EPROTO && session ? session_tls_reason(session) : NULL;
    return reason ? reason : publisher_error_text(error);
}

static void log_end(const struct publisher *publisher, int error) {
    const struct stream *stream = publisher->stream;
    const char *reason = end_reason(publisher, error);
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

/* Reports the end of a publisher. */
static void tell_end(const struct publisher *publisher, uint64_t now, int error) {
    if (publisher->attached && !publisher->source.is_remote)
        hook_event_unpublish(publisher->stream, now, end_reason(publisher, error));
}

int publisher_end(struct publisher *publisher, int error, uint64_t now) {
    if (!publisher)
        return error;
    if (error == 0 && !publisher->has_tags)
        error = -ENODATA;
    log_end(publisher, error);
    publish_lock_cancel(&publisher->waiter);
    tell_end(publisher, now, error);
    if (publisher->attached) {
        publisher->stream->left_why = end_reason(publisher, error);
        publish_lock_reserve(publisher->stream, error, now);
    }
    /* First, so that whoever is told that the stream has no publisher does not find it here. */
    publish_claim_end(publisher->claim);
    if (publisher->attached)
        stream_detach(publisher->stream, now);
    stream_unref(publisher->stream);
    free(publisher);
    return error;
}
