/*
 * Challenges of certificate authorities (ACME, RFC 8555, 8.3): GET
 * /.well-known/acme-challenge/TOKEN is the file of that name below --acme-root, where a client such
 * as certbot has put it. Any client gets it, as a challenge requires. The file is opened and read
 * on the loop's work thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/protocols/http/http_route.h"
#include "daemon/protocols/http/http_session_internal.h"

enum {
    OPEN_MS = 10000, /* for the disk to say what there is */
    TOKEN_MOST = 128,
    FILE_MOST = 1024, /* bytes: a token and a hash */
};

/* One request, while the thread is at it. */
struct http_acme {
    struct http_session *session; /* NULL when the connection has gone */
    sluice_work *work;
    bool keep_alive;
    char path[PATH_MAX];

    /* What the thread has found: */
    int error;
    size_t size;
    char text[FILE_MOST];
};

bool http_acme_is_served(const struct worker *worker) {
    return worker->options->acme_root;
}

/* On the thread */

static int read_file(struct http_acme *acme, int fd) {
    struct stat status;
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
        return -ENOENT;
    if (status.st_size > FILE_MOST)
        return -EFBIG;
    ssize_t size = read(fd, acme->text, sizeof acme->text);
    if (size < 0)
        return -errno;
    acme->size = (size_t)size;
    return 0;
}

static void look(void *user) {
    struct http_acme *acme = user;
    int fd = open(acme->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    acme->error = fd < 0 ? -errno : read_file(acme, fd);
    if (fd >= 0)
        close(fd);
}

/* On the loop's own */

static void answer(struct http_session *session, const struct http_acme *acme) {
    const struct worker *worker = session->base.worker;
    bool keep_alive = acme->keep_alive && http_may_go_on(session) && !worker->draining && !worker->leaving;
    bool missing = acme->error == -ENOENT || acme->error == -ENOTDIR || acme->error == -ELOOP;
    struct http_reply reply = {.keep_alive = keep_alive};
    if (missing) {
        reply.status = 404;
        reply.reason = "no such challenge";
    } else if (acme->error) {
        http_refuse(session, 503, strerror(-acme->error));
        return;
    } else {
        reply.status = 200;
        reply.type = "application/octet-stream";
        reply.body = malloc(acme->size + 1);
        reply.body_size = acme->size;
        if (!reply.body) {
            http_refuse(session, 503, "out of memory");
            return;
        }
        memcpy(reply.body, acme->text, acme->size);
    }
    http_respond(session, &reply);
}

static void looked(void *user) {
    struct http_acme *acme = user;
    struct http_session *session = acme->session;
    if (session) {
        session->acme = NULL;
        if (!session->base.closing)
            answer(session, acme);
    }
    free(acme);
}

/* The alphabet of base64url: nothing that has a meaning in a path. */
static bool is_token(sluice_http_text text) {
    for (size_t i = 0; i < text.length; i++) {
        char c = text.text[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !(c >= '0' && c <= '9') && c != '-' && c != '_')
            return false;
    }
    return text.length > 0 && text.length <= TOKEN_MOST;
}

void http_acme_handle(struct http_session *session, const sluice_http_request *request, sluice_http_text token) {
    struct worker *worker = session->base.worker;
    bool keep_alive = http_keeps_alive(session, request);
    if (!is_token(token)) {
        const struct http_reply reply = {.status = 404, .reason = "no such challenge", .keep_alive = keep_alive};
        http_respond(session, &reply);
        return;
    }
    struct http_acme *acme = calloc(1, sizeof *acme);
    if (!acme) {
        http_refuse(session, 503, "out of memory");
        return;
    }
    acme->session = session;
    acme->keep_alive = keep_alive;
    int length = snprintf(acme->path, sizeof acme->path, "%s/.well-known/acme-challenge/%.*s",
                          worker->options->acme_root, (int)token.length, token.text);
    int error = length < (int)sizeof acme->path ? sluice_loop_work(worker->loop, look, looked, acme, &acme->work)
                                                : -ENAMETOOLONG;
    if (error) {
        free(acme);
        http_refuse(session, 503, strerror(-error));
        return;
    }
    session->acme = acme;
    session->state = HTTP_LOOKING;
    session->deadline = worker_now(worker) + OPEN_MS;
}

/* Work that has not begun is cancelled. */
void http_acme_free(struct http_session *session) {
    struct http_acme *acme = session->acme;
    if (!acme)
        return;
    session->acme = NULL;
    acme->session = NULL;
    (void)sluice_work_cancel(acme->work);
}
