/* An RTMP client in front of a server that says anything: the input is what follows a handshake. */
#include <string.h>
#include <sys/socket.h>

#include <sluice/conn.h>
#include <sluice/loop.h>
#include <sluice/writer.h>

#include "fuzz/fuzz.h"
#include "shared/rtmp_client.h"

enum { HANDSHAKE = 1 + 2 * 1536, LIMIT = 8192, LONGEST = 4096 };

struct state {
    fuzz_run *run;
    struct rtmp_client *client;
};

static void on_running(void *user) {
    const struct state *state = user;
    fuzz_show(state->run, "running", rtmp_client_get_state(state->client));
}

/* What the user does with a tag depends on the run; what comes of them must not. */
static int on_tag(sluice_flv_tag *tag, void *user) {
    const struct state *state = user;
    fuzz_run *run = state->run;
    FUZZ_CHECK(tag->size > 0 && tag->size == sluice_slice_length(&tag->payload));
    if (!run->whole && fuzz_random(run, 4) == 0)
        return RTMP_CLIENT_AGAIN;
    fuzz_show(run, "tag", tag->type);
    fuzz_show(run, "at", tag->timestamp);
    fuzz_show_slice(run, "payload", &tag->payload);
    fuzz_keep(run, &tag->payload);
    return run->whole ? RTMP_CLIENT_GO_ON : (int)fuzz_random(run, 2);
}

static const struct rtmp_client_events client_events = {.running = on_running, .tag = on_tag};

static int next(void *framer, sluice_chain *chain, fuzz_run *run) {
    const struct state *state = framer;
    int result = rtmp_client_feed(state->client, chain, 0);
    (void)run;
    if (result < 0)
        FUZZ_CHECK(rtmp_client_get_state(state->client) == RTMP_CLIENT_ENDED && *rtmp_client_reason(state->client));
    return result;
}

static size_t need(const void *framer) {
    return rtmp_client_need(((const struct state *)framer)->client);
}

/* A connection that never sends, for the writers of all inputs. */
static sluice_conn *connection(void) {
    static const sluice_conn_events events = {.size = sizeof events};
    static const sluice_loop_options options = {.size = sizeof options, .backend = SLUICE_BACKEND_EPOLL};
    static sluice_pool *pool;
    static sluice_loop *loop;
    static sluice_conn *conn;
    int fds[2];
    if (conn)
        return conn;
    FUZZ_CHECK(sluice_pool_new(NULL, &pool) == 0 && sluice_loop_new(pool, &options, &loop) == 0);
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    FUZZ_CHECK(sluice_conn_new(loop, fds[0], &events, NULL, &conn) == 0);
    return conn;
}

void fuzz_target(fuzz_run *run) {
    static const char text[] = "rtmp://host/live/name?key=1";
    static const struct fuzz_framer framer = {.next = next, .need = need};
    static const uint8_t handshake[HANDSHAKE] = {3};
    struct state state = {.run = run};
    struct rtmp_login login = {.user = run->settings[0] & 2 ? "user" : NULL, .password = "password"};
    struct rtmp_url url;
    sluice_writer *writer;
    sluice_chain *chain;
    FUZZ_CHECK(rtmp_url_read(text, strlen(text), &url) == 0);
    FUZZ_CHECK(sluice_writer_new(connection(), LIMIT, &writer) == 0);
    FUZZ_CHECK(sluice_chain_new(run->pool, &chain) == 0);
    const struct rtmp_client_options options = {.mode = run->settings[0] & 1 ? RTMP_CLIENT_PUBLISH : RTMP_CLIENT_PLAY,
                                                .url = &url,
                                                .login = &login,
                                                .writer = writer,
                                                .max_message = run->settings[0] & 4 ? LONGEST : 0,
                                                .events = &client_events,
                                                .user = &state};
    FUZZ_CHECK(rtmp_client_new(&options, &state.client) == 0);
    fuzz_append(run, chain, handshake, sizeof handshake);
    FUZZ_CHECK(rtmp_client_feed(state.client, chain, 0) == 0);
    FUZZ_CHECK(rtmp_client_get_state(state.client) == RTMP_CLIENT_CONNECTING);
    fuzz_drive(run, &framer, &state);
    fuzz_show(run, "state", rtmp_client_get_state(state.client));
    fuzz_show(run, "queued", (int64_t)sluice_writer_queued(writer));
    fuzz_show_bytes(run, "reason", rtmp_client_reason(state.client), strlen(rtmp_client_reason(state.client)));
    FUZZ_CHECK(!strstr(rtmp_client_reason(state.client), "key=1"));
    FUZZ_CHECK(sluice_writer_queued(writer) <= LIMIT);
    rtmp_client_free(state.client);
    sluice_writer_free(writer);
    sluice_chain_free(chain);
}
