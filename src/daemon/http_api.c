/* The API's requests: all workers are asked, and the response comes when all have answered. */
#include <stdlib.h>

#include "daemon/api.h"
#include "daemon/http_session_internal.h"

enum { ANSWER_MS = 10000 }; /* for the workers to answer */

/* Lives until the answer, which a session that has gone does not get. */
struct api_question {
    struct http_session *session; /* NULL when it has gone */
    bool keep_alive, head_only;
};

static void take_answer(const struct snapshot *snapshot, void *user) {
    struct api_question *question = user;
    struct http_session *session = question->session;
    struct http_reply reply = {.status = 200,
                               .type = "application/json",
                               .keep_alive = question->keep_alive,
                               .head_only = question->head_only};
    free(question);
    if (!session)
        return;
    session->asked = NULL;
    struct json json = {0};
    if (snapshot)
        api_streams(snapshot, &json);
    if (!snapshot || json.failed) {
        free(json.text);
        http_refuse(session, 503, "out of memory");
        return;
    }
    reply.body = json.text;
    reply.body_size = json.length;
    /* The server has begun to stop meanwhile. */
    reply.keep_alive = reply.keep_alive && !session->base.worker->draining;
    http_respond(session, &reply);
}

void http_api_leave(struct http_session *session) {
    if (session->asked)
        session->asked->session = NULL;
    session->asked = NULL;
}

void http_api_start(struct http_session *session, const sluice_http_request *request, bool keep_alive) {
    bool head_only = http_text_is(&request->method, "HEAD");
    if (!head_only && !http_text_is(&request->method, "GET")) {
        const struct http_reply reply = {.status = 405,
                                         .reason = "only GET, HEAD and OPTIONS here",
                                         .allow = "GET, HEAD, OPTIONS",
                                         .keep_alive = keep_alive};
        http_refuse_with(session, &reply);
        return;
    }
    struct api_question *question = malloc(sizeof *question);
    if (!question) {
        http_refuse(session, 503, "out of memory");
        return;
    }
    *question = (struct api_question){.session = session, .keep_alive = keep_alive, .head_only = head_only};
    session->asked = question;
    session->state = HTTP_ASKING;
    session->deadline = worker_now(session->base.worker) + ANSWER_MS;
    /* So that the counts do not name the block of the request that asks for them. */
    sluice_http_release(session->http);
    struct worker *worker = session->base.worker;
    int error = server_snapshot(worker->server, SNAPSHOT_ALL, worker, take_answer, question);
    if (error) {
        session->asked = NULL;
        free(question);
        http_refuse(session, 503, "out of memory");
    }
}
