#include "daemon/forward/forward_http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/flv.h>
#include <sluice/http.h>

#include "daemon/forward/forward.h"
#include "daemon/forward/forward_session.h"
#include "daemon/server/worker.h"
#include "shared/http_login.h"
#include "shared/writer_text.h"

enum {
    HEAD = PULL_URL + PULL_HOST + HTTP_LOGIN_HEADER + 256, /* longest request */
    ANSWER_MOST = 64 * 1024,                               /* bytes of the target's, ever */
    CONTINUE_MS = 1000,                                    /* for an answer to "Expect"; many servers give none */
};

struct forward_http_session {
    struct forward_session base;
    sluice_http *framer;
    bool expects; /* media wait for the target's word, or for CONTINUE_MS */
    uint64_t asked_at;
    bool is_answered; /* with a final status */
    bool is_finished; /* the body has been sent */
};

static struct forward_http_session *of(struct forward_session *base) {
    return (struct forward_http_session *)base;
}

static int write_head(const struct forward_http_session *session, char *head) {
    struct forward *forward = session->base.forward;
    const char *host = strstr(forward->target.url, "://") + 3, *path = host + strcspn(host, "/?");
    char login[HTTP_LOGIN_HEADER] = "", uri[PULL_URL + 2];
    int error = 0, size = snprintf(uri, sizeof uri, "%s%.*s", *path == '/' ? "" : "/", (int)strcspn(path, "#"), path);
    if (forward->option.has_user)
        error = http_login_write(&forward->http, "POST", (sluice_http_text){uri, (size_t)size}, login);
    int length = snprintf(head, HEAD,
                          "POST %s HTTP/1.1\r\n"
                          "Host: %.*s\r\n"
                          "User-Agent: sluiced\r\n"
                          "%s"
                          "Content-Type: video/x-flv\r\n"
                          "Transfer-Encoding: chunked\r\n"
                          "%s"
                          "Connection: close\r\n"
                          "\r\n",
                          uri, (int)(path - host), host, login, session->expects ? "Expect: 100-continue\r\n" : "");
    explicit_bzero(login, sizeof login);
    return error ? error : length < HEAD ? length : -EMSGSIZE;
}

static int send_head(struct forward_http_session *session) {
    char *head = malloc(HEAD);
    if (!head)
        return -ENOMEM;
    int length = write_head(session, head);
    int error = length < 0 ? length : writer_text(session->base.writer, head, (size_t)length);
    explicit_bzero(head, HEAD);
    free(head);
    return error;
}

/* The FLV header as a chunk of its own. */
static size_t begin(struct player *player, uint8_t flags, uint8_t *buffer) {
    static const char last_chunk[] = "0\r\n\r\n";
    static const char line[] = "d\r\n", end[] = "\r\n";
    _Static_assert(SLUICE_FLV_HEADER_SIZE == 0xd, "the chunk line names the size");
    size_t at = sizeof line - 1;
    memcpy(buffer, line, at);
    sluice_flv_write_header(buffer + at, flags);
    at += SLUICE_FLV_HEADER_SIZE;
    memcpy(buffer + at, end, sizeof end - 1);
    player->tail = last_chunk;
    player->tail_size = sizeof last_chunk - 1;
    return at + sizeof end - 1;
}

/* The answer to a body that is whole, or to one that is not. */
static void done(struct forward_session *base, bool is_whole) {
    struct forward_http_session *session = of(base);
    session->is_finished = is_whole;
    if (!is_whole)
        forward_session_close(base);
    else if (session->is_answered)
        (void)session_finish(&base->base);
}

static void begin_media(struct forward_http_session *session) {
    struct forward_session *base = &session->base;
    session->expects = false;
    int error = forward_session_make_player(base, &wire_flv_chunked, begin);
    if (error) {
        forward_session_fail(base, error, "%s", strerror(-error));
        return;
    }
    base->player->alone = base->forward->option.tracks == FORWARD_TRACKS_DEFAULT;
    forward_session_play(base);
}

/* The head has been sent, to a target that is the right one. */
static void written(struct forward_session *base) {
    struct forward_http_session *session = of(base);
    if (base->forward && !session->expects && !base->joined)
        begin_media(session);
}

/* The request goes out again with credentials, on another connection. */
static void on_challenge(struct forward_http_session *session, const sluice_http_response *response) {
    struct forward *forward = session->base.forward;
    forward->http.user = forward->option.has_user ? forward->option.user : NULL;
    forward->http.password = forward->option.password;
    int error = rtsp_login_take(&forward->http, response->headers, response->header_count);
    if (error)
        forward_session_fail(&session->base, error, "POST answered 401: %s", http_login_reason(error));
    else
        forward_session_repeat(&session->base);
}

static void on_status(struct forward_http_session *session, const sluice_http_response *response) {
    struct forward *forward = session->base.forward;
    if (response->status == 401) {
        on_challenge(session, response);
    } else if (response->status == 417 && session->expects) {
        forward->is_unexpected = true;
        forward_session_repeat(&session->base);
    } else if (response->status >= 300) {
        forward_session_fail(&session->base, -ECONNREFUSED, "POST answered %u%s", response->status,
                             response->status == 409 ? ": the target has a publisher of that name" : "");
    } else if (session->expects) {
        begin_media(session);
    }
}

static void take_answer(struct forward_http_session *session, sluice_chain *chain) {
    sluice_http_response response;
    int result;
    do {
        result = sluice_http_next_response(session->framer, chain, "POST", &response);
        if (result > 0 && response.status == 100 && session->expects && session->base.forward)
            begin_media(session);
    } while (result > 0 && response.interim);
    if (result == 0)
        return;
    session->is_answered = true;
    if (session->is_finished)
        forward_session_close(&session->base);
    else if (result < 0)
        forward_session_fail(&session->base, -EPROTO, "the target does not speak HTTP");
    else if (session->base.forward)
        on_status(session, &response);
    sluice_http_release(session->framer);
}

static void tick(struct forward_session *base, uint64_t now) {
    struct forward_http_session *session = of(base);
    if (session->expects && !session_is_shaking(&base->base) && now - session->asked_at >= CONTINUE_MS)
        begin_media(session);
}

/* Some answer before the body ends. What they send behind the head is of no interest. */
static void received(struct forward_session *base, sluice_chain *chain) {
    struct forward_http_session *session = of(base);
    if (sluice_chain_consumed(chain) + sluice_chain_length(chain) > ANSWER_MOST) {
        forward_session_fail(base, -EMSGSIZE, "the target sends too much");
        forward_session_close(base);
        return;
    }
    if (!session->is_answered)
        take_answer(session, chain);
    if (session->is_answered)
        (void)sluice_chain_skip(chain, sluice_chain_length(chain));
}

static void clear(struct forward_session *base) {
    sluice_http_free(of(base)->framer);
}

static const struct forward_session_type session_type = {
    .base = FORWARD_SESSION_TYPE("http", struct forward_http_session),
    .done = done,
    .written = written,
    .received = received,
    .tick = tick,
    .clear = clear,
};

/*
 * The target is not waited for: many answer when the body has ended. One that may want a login is
 * asked first, so that nothing is sent for nothing, and its 401 is not lost with the connection.
 */
static int start(struct forward *forward, int fd) {
    struct forward_session *base;
    int error = forward_session_start(&session_type, forward, fd, HEAD, &base);
    if (error || !base->forward)
        return error;
    struct forward_http_session *session = of(base);
    session->expects = forward->option.has_user && forward->http.scheme == RTSP_LOGIN_NONE && !forward->is_unexpected;
    session->asked_at = worker_now(forward->worker);
    forward_begin_step(forward, "POST");
    error = sluice_http_new(&session->framer);
    if (!error)
        error = send_head(session);
    if (error)
        forward_session_fail(base, error, "%s", strerror(-error));
    return 0;
}

const struct forward_type forward_http = {.scheme = {"http", 80, "https", 443, "http/1.1"},
                                          .form = "http[s]://[USER:PASSWORD@]HOST[:PORT]/PATH",
                                          .start = start};
