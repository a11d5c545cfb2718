#include "daemon/control_refusal.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/control_reply.h"
#include "daemon/http_status.h"

/* How evhttp_send_error() begins its page, which is the body; the head has been put before it. */
static const char page[] = "<HTML><HEAD>\n<TITLE>";

static const char *detail_of(unsigned status) {
    switch (status) {
    case 400:
        return "not an HTTP request, or one whose head is longer than any needs";
    case 413:
        return "the body is longer than any request needs, or its chunks are malformed";
    case 417:
        return "only 100-continue can be expected";
    default:
        return "the request cannot be handled";
    }
}

static bool begins_at(struct evbuffer *buffer, size_t at, const char *text, size_t length) {
    char bytes[32];
    struct evbuffer_ptr place;
    return evbuffer_ptr_set(buffer, &place, at, EVBUFFER_PTR_SET) == 0 &&
           evbuffer_copyout_from(buffer, &place, bytes, length) == (ev_ssize_t)length &&
           memcmp(bytes, text, length) == 0;
}

/* Where the answer begins: behind "100 Continue" where that has not been sent yet. And its status; 0: it is none. */
static unsigned find_answer(struct evbuffer *output, size_t *ret_at) {
    static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
    size_t at = begins_at(output, 0, interim, sizeof interim - 1) ? sizeof interim - 1 : 0;
    char line[16] = "";
    struct evbuffer_ptr place;
    unsigned status = 0;
    if (evbuffer_ptr_set(output, &place, at, EVBUFFER_PTR_SET) == 0 &&
        evbuffer_copyout_from(output, &place, line, sizeof line - 1) > 0 &&
        sscanf(line, "HTTP/1.%*u %3u", &status) == 1)
        *ret_at = at;
    return status;
}

/* Something has been put behind what is to be sent: where it is such a page, the answer becomes another. */
static void on_added(struct evbuffer *output, const struct evbuffer_cb_info *info, void *user) {
    size_t at = 0, size;
    (void)user;
    if (info->n_added < sizeof page || !begins_at(output, info->orig_size, page, sizeof page - 1))
        return;
    unsigned status = find_answer(output, &at);
    char *body = status ? reply_problem_text(status, detail_of(status), &size) : NULL;
    struct evbuffer *before = body ? evbuffer_new() : NULL;
    /* Only what sends may take from its front, otherwise; nothing of it has been sent. */
    if (before && evbuffer_unfreeze(output, 1) == 0) {
        (void)evbuffer_remove_buffer(output, before, at);
        (void)evbuffer_drain(output, evbuffer_get_length(output));
        (void)evbuffer_add_buffer(output, before);
        (void)evbuffer_add_printf(output,
                                  "HTTP/1.1 %u %s\r\nServer: sluiced\r\nCache-Control: no-store\r\n"
                                  "X-Content-Type-Options: nosniff\r\nContent-Type: application/problem+json\r\n"
                                  "Content-Length: %zu\r\nConnection: close\r\n\r\n",
                                  status, http_status_text(status), size);
        (void)evbuffer_add(output, body, size);
        (void)evbuffer_freeze(output, 1);
    }
    if (before)
        evbuffer_free(before);
    free(body);
}

struct bufferevent *refusal_bufferevent(struct event_base *base) {
    struct bufferevent *made = bufferevent_socket_new(base, -1, 0);
    if (made && !evbuffer_add_cb(bufferevent_get_output(made), on_added, NULL)) {
        bufferevent_free(made);
        return NULL;
    }
    return made;
}
