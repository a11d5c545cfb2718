/* Publishers in FLV: raw on the connection, or as the body of a POST, a chunk for each tag. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/conn.h>
#include <sluice/flv.h>
#include <sluice/http.h>
#include <sluice/writer.h>

#include "shared/writer_text.h"
#include "tools/publish.h"
#include "tools/transport.h"

enum { HEAD_MOST = 2 * TARGET_PATH, FRAMING = 64 };

struct flv_publish {
    struct publish base;
    struct transport transport;
    sluice_writer *writer;
    sluice_http *http; /* NULL: raw on the connection */
    bool finishing, finished;
};

static struct flv_publish *of(struct publish *base) {
    return (struct flv_publish *)base;
}

static void end(struct flv_publish *publish, int error, const char *reason) {
    publish_ended(&publish->base, error, reason);
    transport_close(&publish->transport);
}

static void on_data(sluice_conn *conn, void *user) {
    struct flv_publish *publish = user;
    char reason[128];
    (void)conn;
    if (!publish->http) {
        sluice_chain_skip(transport_chain(&publish->transport), SIZE_MAX);
        return;
    }
    sluice_http_response response;
    int result;
    do
        result = sluice_http_next_response(publish->http, transport_chain(&publish->transport), "POST", &response);
    while (result > 0 && response.interim);
    if (result == 0)
        return;
    if (result < 0) {
        end(publish, result, "what answers is no HTTP server");
        return;
    }
    snprintf(reason, sizeof reason, "the server answered %u %.*s", response.status, (int)response.reason.length,
             response.reason.text);
    if (response.status >= 300)
        end(publish, -ECONNREFUSED, reason);
    else
        end(publish, publish->finished ? 0 : -ECONNRESET, publish->finished ? reason : "answered before the end");
}

static void on_end(sluice_conn *conn, int error, void *user) {
    struct flv_publish *publish = user;
    char text[TRANSPORT_REASON];
    (void)conn;
    if (error == -ETIMEDOUT)
        end(publish, error, "the server does not answer to the end");
    else if (error)
        end(publish, error, transport_reason(&publish->transport, error, text));
    else if (publish->finished && !publish->http)
        end(publish, 0, "ended");
    else
        end(publish, -ECONNRESET, "the server has ended the connection");
}

static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    const struct flv_publish *publish = user;
    (void)conn;
    return sluice_writer_gather(publish->writer, iov, max);
}

static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    struct flv_publish *publish = user;
    sluice_writer_sent(publish->writer, bytes);
    if (publish->base.ended)
        return;
    if (publish->finishing && !publish->finished && sluice_writer_queued(publish->writer) == 0) {
        publish->finished = true;
        (void)sluice_conn_set_timeout(conn, PUBLISH_ANSWER_MS);
        /* HTTP has marked the end of its body, and waits for the answer. */
        if (!publish->http && transport_finish(&publish->transport) < 0)
            end(publish, 0, "ended");
        return;
    }
    publish->base.events->room(publish->base.user);
}

static void on_closed(sluice_conn *conn, void *user) {
    struct flv_publish *publish = user;
    (void)conn;
    publish_ended(&publish->base, -ECANCELED, "stopped");
    sluice_writer_free(publish->writer);
    sluice_http_free(publish->http);
    free(publish);
}

static const sluice_conn_events events = {
    .size = sizeof events,
    .on_data = on_data,
    .on_end = on_end,
    .on_gather = on_gather,
    .on_sent = on_sent,
    .on_closed = on_closed,
};

static int begin(struct flv_publish *publish, const struct target *target, const struct media *media) {
    char head[HEAD_MOST];
    uint8_t header[SLUICE_FLV_HEADER_SIZE];
    static const char headers[] = "Content-Type: video/x-flv\r\nTransfer-Encoding: chunked\r\n";
    int length = publish->http ? target_http_head(target, "POST", headers, head, sizeof head) : 0;
    int error = length < 0 ? length : writer_text(publish->writer, head, (size_t)length);
    sluice_flv_write_header(header, (uint8_t)((media->has[MEDIA_VIDEO] ? SLUICE_FLV_HAS_VIDEO : 0) |
                                              (media->has[MEDIA_AUDIO] ? SLUICE_FLV_HAS_AUDIO : 0)));
    if (!error && publish->http)
        error = writer_text(publish->writer, "d\r\n", 3);
    if (!error)
        error = writer_text(publish->writer, (const char *)header, sizeof header);
    if (!error && publish->http)
        error = writer_text(publish->writer, "\r\n", 2);
    explicit_bzero(head, sizeof head);
    return error;
}

static int create(sluice_conn *conn, const struct target *target, const struct media *media,
                  struct publish **ret_publish, bool *ret_ready) {
    struct flv_publish *publish = calloc(1, sizeof *publish);
    if (!publish)
        return -ENOMEM;
    publish->base.type = &publish_flv;
    int error = transport_begin(&publish->transport, conn, target, &events, publish);
    if (error) {
        free(publish);
        return error;
    }
    /* From here on the connection owns it; a failure is reported as an end. */
    error = sluice_writer_new(conn, PUBLISH_QUEUE + SLUICE_FLV_MAX_PAYLOAD, &publish->writer);
    if (!error && target->kind == TARGET_HTTP)
        error = sluice_http_new(&publish->http);
    if (!error)
        error = begin(publish, target, media);
    *ret_publish = &publish->base;
    *ret_ready = !error;
    if (error)
        sluice_conn_close(conn);
    return 0;
}

static int send_tag(struct publish *base, const struct media_tag *tag, uint32_t timestamp) {
    struct flv_publish *publish = of(base);
    char framing[FRAMING];
    uint8_t trailer[SLUICE_FLV_TRAILER_SIZE + 2];
    uint32_t size = (uint32_t)sluice_slice_length(&tag->payload);
    if (base->ended)
        return -EPIPE;
    size_t queued = sluice_writer_queued(publish->writer);
    if (queued > 0 && queued + size > PUBLISH_QUEUE)
        return -EAGAIN;
    int length = publish->http ? snprintf(framing, sizeof framing, "%x\r\n",
                                          size + SLUICE_FLV_TAG_HEADER_SIZE + SLUICE_FLV_TRAILER_SIZE)
                               : 0;
    sluice_flv_write_tag_header((uint8_t *)framing + length, tag->type, size, timestamp);
    sluice_flv_write_trailer(trailer, size);
    trailer[SLUICE_FLV_TRAILER_SIZE] = '\r';
    trailer[SLUICE_FLV_TRAILER_SIZE + 1] = '\n';
    int error = sluice_writer_copy(publish->writer, framing, (size_t)length + SLUICE_FLV_TAG_HEADER_SIZE);
    if (!error)
        error = sluice_writer_slice(publish->writer, &tag->payload);
    if (!error)
        error = sluice_writer_copy(publish->writer, trailer, SLUICE_FLV_TRAILER_SIZE + (publish->http ? 2 : 0));
    /* Half a tag cannot be taken back. */
    if (error)
        end(publish, error, strerror(-error));
    return error;
}

static void finish(struct publish *base) {
    struct flv_publish *publish = of(base);
    publish->finishing = true;
    int error = publish->http ? sluice_writer_copy(publish->writer, "0\r\n\r\n", 5) : 0;
    if (error) {
        end(publish, error, strerror(-error));
    } else if (sluice_writer_queued(publish->writer) == 0) {
        publish->finished = true;
        (void)sluice_conn_set_timeout(publish->transport.conn, PUBLISH_ANSWER_MS);
        if (transport_finish(&publish->transport) < 0)
            end(publish, 0, "ended");
    }
}

static void stop(struct publish *base) {
    end(of(base), -ECANCELED, "stopped");
}

static uint64_t bytes(const struct publish *base) {
    const struct flv_publish *publish = (const struct flv_publish *)base;
    sluice_writer_stats stats = {.size = sizeof stats};
    if (publish->writer)
        sluice_writer_get_stats(publish->writer, &stats);
    return stats.sent_bytes;
}

const struct publish_type publish_flv = {
    .create = create,
    .tag = send_tag,
    .finish = finish,
    .abort = stop,
    .bytes = bytes,
};
