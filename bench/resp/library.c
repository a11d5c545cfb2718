/* Ours: values straight into the caller's memory, or out of it, on either backend. */
#include "resp/resp.h"

#include <sluice/loop.h>
#include <sluice/pool.h>
#include <sluice/resp_client.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/process.h"

static resp_work *the_work;
static sluice_loop *loop;

static void check(const char *what, int error) {
    if (error < 0)
        fail(error == -EPERM || error == -ENOSYS ? EXIT_REFUSED : EXIT_FAILURE, "%s: %s", what, strerror(-error));
}

static void give_get(sluice_resp_client *client);
static void give_set(sluice_resp_client *client);

static bool is_finished(void) {
    bool is_last = resp_done() == the_work->commands;
    if (is_last)
        sluice_loop_stop(loop);
    return is_last;
}

static void got(sluice_resp_client *client, int error, uint64_t length, sluice_resp_reply *reply, void *user) {
    (void)user;
    check("GET", error);
    if (reply)
        fail(EXIT_FAILURE, "GET: no string");
    resp_got(the_work, the_work->memory, length);
    if (!is_finished())
        give_get(client);
}

static void give_get(sluice_resp_client *client) {
    const char *key = resp_key(the_work, resp_done());
    const sluice_resp_arg name = {key, strlen(key)};
    check("GET", sluice_resp_client_get_into(client, &name, the_work->memory, the_work->size, got, NULL));
}

static void was_set(sluice_resp_client *client, int error, sluice_resp_reply *reply, void *user) {
    (void)user;
    check("SET", error);
    char answer[RESP_AROUND];
    size_t length = sluice_slice_copy(&reply->value.text, 0, answer, sizeof answer);
    resp_was_set(answer, length);
    if (!is_finished())
        give_set(client);
}

static void give_set(sluice_resp_client *client) {
    const char *key = resp_key(the_work, resp_done());
    const sluice_resp_arg name = {key, strlen(key)}, value = {resp_value(the_work, resp_done()), the_work->size};
    check("SET", sluice_resp_client_set(client, &name, &value, was_set, NULL));
}

static void run(resp_work *work, sluice_backend_choice backend, void (*give)(sluice_resp_client *)) {
    const sluice_loop_options options = {.size = sizeof options, .backend = backend};
    sluice_pool *pool;
    sluice_resp_client *client;
    the_work = work;
    check("pool", sluice_pool_new(NULL, &pool));
    check("loop", sluice_loop_new(pool, &options, &loop));
    check("client", sluice_resp_client_new(loop, work->fd, NULL, NULL, NULL, &client));
    give(client);
    check("loop", sluice_loop_run(loop));
}

static void get_uring(resp_work *work) {
    run(work, SLUICE_BACKEND_URING, give_get);
}

static void set_uring(resp_work *work) {
    run(work, SLUICE_BACKEND_URING, give_set);
}

static void get_epoll(resp_work *work) {
    run(work, SLUICE_BACKEND_EPOLL, give_get);
}

static void set_epoll(resp_work *work) {
    run(work, SLUICE_BACKEND_EPOLL, give_set);
}

const resp_variant resp_uring = {"uring", get_uring, set_uring};
const resp_variant resp_epoll_pool = {"epoll-pool", get_epoll, set_epoll};
