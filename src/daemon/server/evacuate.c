#include "daemon/server/evacuate.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/server/server.h"

struct message {
    sluice_call call;
    struct worker *worker;
};

/* Publishers of a worker. */
struct publishers {
    struct session **list;
    size_t count, room;
};

/* What ends when a publisher does may be the next stream: so they are listed first. One for which
 * there is no memory ends with the drain time. */
static void add_publisher(struct stream *stream, void *user) {
    struct publishers *publishers = user;
    struct session *session = stream->source.session;
    if (!stream->live || stream->fed_by || stream->stand_in || stream->source.is_remote || !session)
        return;
    if (publishers->count == publishers->room) {
        const size_t room = publishers->room * 2 + 16;
        struct session **list = reallocarray(publishers->list, room, sizeof *list);
        if (!list)
            return;
        publishers->list = list;
        publishers->room = room;
    }
    publishers->list[publishers->count++] = session;
}

/* Whether it has been asked to go to another node, which takes a moment. */
static bool is_asked(struct session *session) {
    return session->type->redirect && session->type->redirect(session, NULL);
}

static void evacuate(struct worker *worker) {
    struct publishers publishers = {0};
    worker->evacuates = true;
    worker_leave(worker);
    registry_each(worker->registry, add_publisher, &publishers);
    for (size_t i = 0; i < publishers.count; i++)
        if (!publishers.list[i]->closing && !is_asked(publishers.list[i]))
            publishers.list[i]->type->kick(publishers.list[i], -ESHUTDOWN);
    free(publishers.list);
    for (struct session *session = worker->sessions; session; session = session->next)
        if (!session->closing)
            (void)is_asked(session);
}

static void deliver(void *user) {
    struct message *message = user;
    if (!server_is_over(message->worker->server) && !message->worker->draining)
        evacuate(message->worker);
    free(message);
}

int evacuate_start(struct server *server) {
    const uint32_t count = server_worker_count(server);
    struct message **messages = calloc(count, sizeof(struct message *));
    int error = messages ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < count && !error; i++) {
        messages[i] = calloc(1, sizeof **messages);
        error = messages[i] ? 0 : -ENOMEM;
    }
    if (!error && server_is_over(server))
        error = -ESHUTDOWN;
    for (uint32_t i = 0; i < count && messages; i++) {
        if (error) {
            free(messages[i]);
            continue;
        }
        messages[i]->worker = server_worker(server, i);
        sluice_loop_post_call(messages[i]->worker->loop, &messages[i]->call, deliver, messages[i]);
    }
    free(messages);
    if (!error)
        server_replaced(server);
    return error;
}
