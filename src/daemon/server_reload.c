#include "daemon/server_reload.h"

#include <errno.h>
#include <stdlib.h>

struct job {
    struct server *server;
    const struct options *options;
    server_reloaded_fn *done;
    void *user;
};

static void set_window(struct stream *stream, void *user) {
    const struct server *server = user;
    for (struct player *player = stream->players; player; player = player->next) {
        const struct session *session = player->user;
        stream_set_merge_window(stream, player,
                                options_merge_window(server->options, stream->name, session->merge_window_ms));
    }
}

/* Nothing here can fail, so a reload is in force as a whole, or not at all. */
static void put_in_force(struct server *server, const struct options *options) {
    const struct options *before = server->options;
    const struct stream_limits limits = {.gop_bytes = options->gop_size, .player_bytes = options->player_buffer};
    server->options = options_ref(options);
    registry_set_limits(server->registry, &limits);
    registry_each(server->registry, set_window, server);
    options_unref(before);
}

/* The pulls can fail for want of memory, and leave all as it is; then come the listeners, and with them it is done. */
static int apply(struct server *server, const struct options *options, char reason[LISTENERS_ERROR]) {
    struct pull *made = NULL;
    if (server->draining)
        return -ESHUTDOWN;
    int error = pulls_prepare(server->pulls, &options->pulls, &made);
    if (error)
        return error;
    error = listeners_set(server->listeners, options, reason);
    if (error) {
        pulls_forget(made);
        return error;
    }
    put_in_force(server, options);
    pulls_set(server->pulls, &options->pulls, made);
    return 0;
}

static void run_job(void *user) {
    struct job *job = user;
    char reason[LISTENERS_ERROR] = "";
    int error = apply(job->server, job->options, reason);
    job->done(error,
              *reason               ? reason
              : error == -ESHUTDOWN ? "the server stops"
              : error               ? "out of memory"
                                    : "",
              job->user);
    options_unref(job->options);
    free(job);
}

int server_reload(struct server *server, const struct options *options, server_reloaded_fn *done, void *user) {
    struct job *job = malloc(sizeof *job);
    if (!job)
        return -ENOMEM;
    *job = (struct job){server, options_ref(options), done, user};
    int error = sluice_loop_post(server->loop, run_job, job);
    if (error) {
        options_unref(job->options);
        free(job);
    }
    return error;
}
