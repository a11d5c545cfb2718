/* A player by HTTP: GET, the answer's head, and an FLV stream as its body. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/conn.h>
#include <sluice/http.h>

#include "tools/play.h"
#include "tools/transport.h"

enum { REQUEST_MOST = 2 * TARGET_PATH };

struct http_play {
    struct play base;
    struct transport transport;
    sluice_http *http; /* until the head has come */
    sluice_http_body delimiter;
    sluice_chain *body; /* without chunk lines */
    sluice_flv *flv;
    bool begun, stalled;
    size_t request_size, request_sent;
    char request[REQUEST_MOST];
};

static struct http_play *of(struct play *base) {
    return (struct http_play *)base;
}

static void end(struct http_play *play, int error, const char *reason) {
    play_ended(&play->base, error, reason);
    transport_close(&play->transport);
}

static int take_tags(struct http_play *play) {
    sluice_flv_tag *tag;
    int result;
    if (play->base.events->body) {
        play->base.events->body(play->body, play->base.user);
        return 0;
    }
    while ((result = sluice_flv_next(play->flv, play->body, &tag)) > 0) {
        play->base.events->tag(tag, play->base.user);
        if (play->base.ended)
            return 0;
    }
    return result;
}

/* The head, once it is there. 1 (there is a body), 0 (more is needed, or it has ended) */
static int take_head(struct http_play *play) {
    char reason[128];
    sluice_http_response response;
    int result;
    do
        result = sluice_http_next_response(play->http, transport_chain(&play->transport), "GET", &response);
    while (result > 0 && response.interim);
    if (result < 0) {
        end(play, result, "what answers is no HTTP server");
        return 0;
    }
    if (result == 0)
        return 0;
    if (response.status != 200) {
        snprintf(reason, sizeof reason, "the server answered %u %.*s", response.status, (int)response.reason.length,
                 response.reason.text);
        end(play, response.status == 404 ? -ENOENT : -ECONNREFUSED, reason);
        return 0;
    }
    sluice_http_body_begin_response(&play->delimiter, &response);
    sluice_http_free(play->http);
    play->http = NULL;
    play->begun = true;
    play->base.events->begun(play->base.user);
    return !play->base.ended;
}

static void take(struct http_play *play) {
    if (play->stalled || (!play->begun && !take_head(play)))
        return;
    int result = sluice_http_body_next(&play->delimiter, transport_chain(&play->transport), play->body);
    int flv = result < 0 ? 0 : take_tags(play);
    if (play->base.ended)
        return;
    if (result < 0)
        end(play, result, "malformed chunks");
    else if (flv < 0)
        end(play, flv, "what comes is not FLV, or not any more");
    else if (result > 0)
        end(play, sluice_chain_length(play->body) > 0 ? -ECONNRESET : 0,
            sluice_chain_length(play->body) > 0 ? "the stream ends within a tag" : "the server has ended the stream");
}

static void on_data(sluice_conn *conn, void *user) {
    (void)conn;
    take(user);
}

static void on_end(sluice_conn *conn, int error, void *user) {
    struct http_play *play = user;
    char text[TRANSPORT_REASON];
    (void)conn;
    if (error == -ETIMEDOUT) {
        end(play, error, "nothing has come from the server for too long");
        return;
    }
    if (error) {
        end(play, error, transport_reason(&play->transport, error, text));
        return;
    }
    if (!play->begun || sluice_http_body_end(&play->delimiter) < 0)
        end(play, -ECONNRESET, "the server has ended the connection");
    else
        end(play, sluice_chain_length(play->body) > 0 ? -ECONNRESET : 0, "the server has ended the stream");
}

static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    struct http_play *play = user;
    (void)conn;
    if (max == 0 || play->request_sent == play->request_size)
        return 0;
    *iov = (struct iovec){play->request + play->request_sent, play->request_size - play->request_sent};
    return 1;
}

static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    struct http_play *play = user;
    (void)conn;
    play->request_sent += bytes;
}

static void on_closed(sluice_conn *conn, void *user) {
    struct http_play *play = user;
    (void)conn;
    play_ended(&play->base, -ECANCELED, "stopped");
    sluice_flv_free(play->flv);
    sluice_http_free(play->http);
    sluice_chain_free(play->body);
    explicit_bzero(play->request, sizeof play->request);
    free(play);
}

static const sluice_conn_events events = {
    .size = sizeof events,
    .on_data = on_data,
    .on_end = on_end,
    .on_gather = on_gather,
    .on_sent = on_sent,
    .on_closed = on_closed,
};

static int create(sluice_conn *conn, const struct target *target, uint32_t timeout_ms, struct play **ret_play) {
    struct http_play *play = calloc(1, sizeof *play);
    if (!play)
        return -ENOMEM;
    play->base.type = &play_http;
    int length = target_http_head(target, "GET", "Accept: */*\r\nConnection: close\r\n", play->request,
                                  sizeof play->request);
    int error = length < 0 ? length : 0;
    play->request_size = error ? 0 : (size_t)length;
    if (!error)
        error = sluice_flv_new(SLUICE_FLV_MAX_PAYLOAD, &play->flv);
    if (!error)
        error = sluice_chain_new(sluice_loop_pool(sluice_conn_loop(conn)), &play->body);
    if (!error)
        error = sluice_http_new(&play->http);
    if (!error)
        error = transport_begin(&play->transport, conn, target, &events, play);
    if (error) {
        sluice_http_free(play->http);
        sluice_chain_free(play->body);
        sluice_flv_free(play->flv);
        free(play);
        return error;
    }
    (void)sluice_conn_set_timeout(conn, timeout_ms);
    sluice_conn_want_send(conn);
    *ret_play = &play->base;
    return 0;
}

static void stop(struct play *base) {
    end(of(base), 0, "stopped");
}

static void stall(struct play *base) {
    of(base)->stalled = true;
    sluice_conn_pause(of(base)->transport.conn);
}

static void get_counts(const struct play *base, struct play_counts *ret_counts) {
    const struct http_play *play = (const struct http_play *)base;
    ret_counts->bytes = transport_received(&play->transport);
}

const struct play_type play_http = {
    .create = create,
    .stop = stop,
    .stall = stall,
    .get_counts = get_counts,
};
