/*
 * The daemon's data plane, from connections to players: a server with its workers, on a network in
 * memory. An input is a conversation: records that say which connection (three bits), what happens
 * (three bits), and the bytes that come. After each of them the loops run until they come to rest,
 * and what was sent to each peer is shown; it must not depend on how the bytes were cut.
 * Connections 0, 1 and 5 speak HTTP (publish, play, WebSocket), 2 and 3 RTSP or RTMP, 4 is raw FLV,
 * 6 a camera that is pulled from, and 7 is nobody: the operator, the hooks' server, and the clock.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/admin/admin_api.h"
#include "daemon/admin/admin_metrics.h"
#include "daemon/base/log.h"
#include "daemon/control/worker_command.h"
#include "daemon/protocols/flv/flv_session.h"
#include "daemon/protocols/http/http_session.h"
#include "daemon/protocols/rtmp/rtmp_session.h"
#include "daemon/protocols/rtsp/rtsp_session.h"
#include "daemon/pull/pull.h"
#include "daemon/server/server.h"
#include "fuzz/daemon.h"
#include "fuzz/fuzz.h"
#include "fuzz/wire.h"
#include "loop/loop.h"

enum { CONNECTIONS = 7, CAMERA = 6, NOBODY = 7, MOST_JOBS = 64, STEP_MS = 500, STEPS = 60, SCARCE_QUOTA = 3 * 4096 };

/* Of the first byte, besides the options: */
enum {
    BREAKS_OFF = 0x10, /* the server ends as after a failure */
    /* some are slow, and little is kept: what is sent depends on what there was room for */
    LOSES = 0x20,
    /* memory is: who gives way for others depends on how many blocks pieces take */
    SCARCE = 0x40,
    /* RTMP in place of RTSP: what is sent has random bytes, and answers at other times */
    RTMP = 0x80,
};

/* What a record does besides its bytes. */
enum happening { DATA = 0, DATA_TOO = 3, FINISH = 4, BREAK = 5, STALL = 6, WAIT = 7 };

/* Connection 7's. */
enum order { GRANT, REFUSE, KICK, KICK_ALL, LOOK, WAIT_LONG, DRAIN, CONNECT };

typedef struct world {
    fuzz_run *run;
    struct server *server;
    sluice_loop *loops[2];
    uint32_t workers;
    uint64_t merge_window_ms;
    wire_peer *peers[CONNECTIONS];
    bool upgraded[CONNECTIONS]; /* to WebSocket */
    struct hook_query *asked[MOST_JOBS];
    size_t asked_count;
    struct connect_job *wanted; /* the pull's connection */
    bool comparing;             /* what is sent follows from what came */
    unsigned spoke;             /* last, or NOBODY */
    bool has_stopped;           /* and asked for a pause then */
    bool draining;
} world;

/* ---- Options: the input's first byte chooses ---- */

static const char users[] = "u:p\npublish pub:secret\nplay pl:word\n";
static const char keys[] = "k:key-of-tokens\nother:another\n";

static const struct options *make_options(unsigned choice) {
    static const char *const rights[] = {
        "",
        "rule = [\"publish live/* user,secret=k\", \"play live/* user=u,token=k,secret=other\", \"all open/* allow\"];",
        "hook-publish = \"http://127.0.0.1:1/p\"; hook-play = \"http://127.0.0.1:1/q\";",
        "",
    };
    static const char *const kinds[] = {
        "workers = 1; merge-window = 0;",
        "workers = 2; spread = 1; merge-window = 0; log-format = \"json\";",
        "workers = 1; merge-window = 100; frame-limit = 2048;",
        "workers = 1; merge-window = 0; player-buffer = 65536; pull = [\"rtsp://u:p@127.0.0.1:1/x=live/a\"];",
    };
    char user_path[64], key_path[64], text[1024];
    daemon_file(users, sizeof users - 1, user_path, sizeof user_path);
    daemon_file(keys, sizeof keys - 1, key_path, sizeof key_path);
    bool has_users = choice >> 2 & 1;
    /* Enough for pieces of one byte that hold a block each, or hardly any. */
    snprintf(text, sizeof text, "%s\n%s\n%s%s%s token-keys = \"%s\"; memory = \"%s\"; %s\n", kinds[choice & 3],
             rights[choice >> 2 & 3], has_users ? "rtsp-users = \"" : "", has_users ? user_path : "",
             has_users ? "\";" : "", key_path, choice & SCARCE ? "4M" : "64M",
             choice & LOSES ? "gop-size = 3000;" : "");
    const struct options *options = daemon_options(text);
    daemon_file_close(user_path);
    daemon_file_close(key_path);
    return options;
}

static const struct options *choose_options(unsigned choice) {
    static const struct options *made[128];
    choice &= 15 | LOSES | SCARCE;
    if (!made[choice])
        made[choice] = make_options(choice);
    return made[choice];
}

/* ---- Who answers the data plane ---- */

static void come_back(void *user) {
    struct hook_query *job = user;
    job->done(job);
}

static void answer(world *w, bool granted) {
    for (size_t i = 0; i < w->asked_count; i++) {
        w->asked[i]->granted = granted;
        FUZZ_CHECK(sluice_loop_post(w->asked[i]->loop, come_back, w->asked[i]) == 0);
    }
    w->asked_count = 0;
}

static void ask(void *worker_query, struct hook_query *job) {
    world *w = worker_query;
    if (w->asked_count == MOST_JOBS)
        answer(w, false);
    w->asked[w->asked_count++] = job;
}

static void want(void *connector, struct connect_job *job) {
    world *w = connector;
    FUZZ_CHECK(!w->wanted);
    w->wanted = job;
}

static void connected(void *user) {
    struct connect_job *job = user;
    job->done(job);
}

static struct sockaddr_storage address_of(unsigned which) {
    struct sockaddr_storage address = {0};
    *(struct sockaddr_in *)&address = (struct sockaddr_in){.sin_family = AF_INET,
                                                           .sin_port = htons((uint16_t)(1000 + which)),
                                                           .sin_addr.s_addr = htonl(INADDR_LOOPBACK + which)};
    return address;
}

/* The camera takes the connection that is wanted, or refuses it. */
static void connect_camera(world *w, bool accepts) {
    struct connect_job *job = w->wanted;
    if (!job)
        return;
    wire_peer *peer = accepts ? wire_connect() : NULL;
    w->wanted = NULL;
    job->fd = peer ? wire_descriptor(peer) : -1;
    job->error = peer ? 0 : -ECONNREFUSED;
    job->address = address_of(CAMERA);
    if (peer)
        w->peers[CAMERA] = peer;
    FUZZ_CHECK(sluice_loop_post(job->loop, connected, job) == 0);
}

/* ---- Connections ---- */

/* Or RTMP. */
static bool is_rtsp(unsigned which) {
    return which == 2 || which == 3;
}

static const struct protocol *protocol_of(const world *w, unsigned which) {
    if (is_rtsp(which))
        return w->run->settings[0] & RTMP ? &rtmp_protocol : &rtsp_protocol;
    return which == 4 ? &flv_protocol : &http_protocol;
}

/* As the server does with one that it has accepted. */
static int begin(struct worker *worker, int fd, unsigned which, const struct protocol *protocol) {
    struct handover handover = {
        .connection = {.fd = fd, .told = true},
        .peer = address_of(which),
        .listener = {protocol, .stream = "live/raw", .merge_window_ms = OPTIONS_MERGE_UNSET},
    };
    return worker->draining ? -ESHUTDOWN : session_start(protocol->session, worker, &handover, NULL);
}

/* The connection's peer, connected anew where it has gone; NULL where it cannot be. */
static wire_peer *peer_of(world *w, unsigned which) {
    wire_peer *peer = w->peers[which];
    if (which == CAMERA) {
        if (w->wanted)
            connect_camera(w, true);
        return w->peers[which];
    }
    if (peer && !wire_is_closed(peer))
        return peer;
    if (w->draining || !(peer = wire_connect()))
        return NULL;
    /* A raw publisher's worker is its stream's; others come to each in turn. */
    struct worker *worker = which == 4 ? server_owner(w->server, "live/raw", 8)
                                       : server_worker(w->server, which % w->workers);
    server_add_connection(w->server);
    if (begin(worker, wire_descriptor(peer), which, protocol_of(w, which)) != 0) {
        close(wire_descriptor(peer));
        server_release_connection(w->server, &(struct cidr_address){0});
    }
    w->peers[which] = peer;
    w->upgraded[which] = false;
    return peer;
}

static void settle(world *w) {
    wire_settle(w->loops, w->workers);
}

/* When frames that wait for others to be sent with them have waited long enough: how long is a
 * matter of the cuts. */
static void rest(world *w) {
    settle(w);
    wire_wait(w->merge_window_ms);
    settle(w);
}

/* Of a frame that the server has sent by WebSocket, or as much as there is. */
static size_t frame_size(const uint8_t *at, size_t left) {
    if (left < 10)
        return left < 2 || left < 2u + at[1] ? left : 2u + at[1];
    uint64_t size = at[1] + 2u;
    if (at[1] == 126)
        size = ((uint64_t)at[2] << 8 | at[3]) + 4;
    else if (at[1] == 127)
        size = ((uint64_t)at[6] << 24 | (uint64_t)at[7] << 16 | (uint64_t)at[8] << 8 | at[9]) + 10;
    return size < left ? (size_t)size : left;
}

/* The end of the head that says that the connection is a WebSocket now; NULL where there is
 * none. */
static const uint8_t *upgrade_end(const uint8_t *bytes, size_t size) {
    static const char begin[] = "HTTP/1.1 101 ", end[] = "\r\n\r\n";
    const uint8_t *at = memmem(bytes, size, begin, sizeof begin - 1);
    at = at ? memmem(at, size - (size_t)(at - bytes), end, sizeof end - 1) : NULL;
    return at ? at + sizeof end - 1 : NULL;
}

static void show_sent(world *w, unsigned i, const uint8_t *bytes, size_t size) {
    const uint8_t *at = bytes, *end = bytes + size;
    const uint8_t *upgraded = w->upgraded[i] ? at : upgrade_end(at, size);
    w->upgraded[i] = upgraded != NULL;
    if (!upgraded)
        upgraded = end;
    if (upgraded > at) {
        fuzz_show(w->run, "to", i);
        fuzz_show_bytes(w->run, "sent", at, (size_t)(upgraded - at));
    }
    size_t n;
    for (at = upgraded; at < end; at += n) {
        n = frame_size(at, (size_t)(end - at));
        /* A pong that waits gives way to the next, and to a close: how many there are is a matter
         * of the cuts. */
        if (*at == 0x8A)
            continue;
        fuzz_show(w->run, "to", i);
        fuzz_show_bytes(w->run, "frame", at, n);
    }
}

/* Of an answer, with its body, or an interleaved frame; or as much as there is. */
static size_t message_size(const uint8_t *at, size_t left) {
    static const char end[] = "\r\n\r\n", length[] = "\r\nContent-Length: ";
    if (*at == '$')
        return left < 4 || left - 4 < ((size_t)at[2] << 8 | at[3]) ? left : 4 + ((size_t)at[2] << 8 | at[3]);
    const uint8_t *behind = memmem(at, left, end, sizeof end - 1);
    if (!behind)
        return left;
    size_t size = (size_t)(behind - at) + sizeof end - 1;
    const char *body = memmem(at, size, length, sizeof length - 1);
    size += body ? strtoul(body + sizeof length - 1, NULL, 10) : 0;
    return size < left ? size : left;
}

/*
 * Answers and media each in their order: media go on while requests come. How much has gone before
 * a request that makes an end of it depends on the cuts, where that came together with the one that
 * began it.
 */
static void show_rtsp(world *w, unsigned i, const uint8_t *bytes, size_t size) {
    bool is_over = wire_is_finished(w->peers[i]) || wire_is_closed(w->peers[i]) || w->has_stopped;
    bool skips_media = w->spoke == i && is_over;
    for (int media = 0; media < (skips_media ? 1 : 2); media++) {
        size_t n;
        for (size_t at = 0; at < size; at += n) {
            n = message_size(bytes + at, size - at);
            if ((bytes[at] == '$') != media)
                continue;
            fuzz_show(w->run, "to", i);
            fuzz_show_bytes(w->run, media ? "media" : "answer", bytes + at, n);
        }
    }
}

static void show(world *w) {
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        size_t size;
        if (!w->peers[i])
            continue;
        const uint8_t *bytes = wire_taken(w->peers[i], &size);
        /* A pull that ends says so, and does not wait until that has gone. */
        if (!w->comparing || size == 0 || (i == CAMERA && wire_is_closed(w->peers[i])))
            continue;
        if (is_rtsp(i))
            show_rtsp(w, i, bytes, size);
        else
            show_sent(w, i, bytes, size);
    }
    for (unsigned i = 0; i < CONNECTIONS && w->comparing; i++)
        if (w->peers[i])
            fuzz_show(w->run, "state", i << 2 | wire_is_finished(w->peers[i]) << 1 | wire_is_closed(w->peers[i]));
}

/* ---- The operator ---- */

static void look(world *w) {
    struct snapshot *list[2] = {0};
    const struct snapshot_request request = {.parts = SNAPSHOT_ALL};
    struct admin_view view = {
        .snapshots = {list, w->workers}, .server = w->server, .options = server_worker(w->server, 0)->options};
    for (uint32_t i = 0; i < w->workers; i++)
        FUZZ_CHECK(snapshot_take(server_worker(w->server, i), &request, &list[i]) == 0);
    snapshots_fold(list, w->workers);
    struct json json = {0};
    admin_snapshot(&view, &json);
    FUZZ_CHECK(!json.failed);
    free(json.text);
    for (uint32_t i = 0; i < w->workers; i++)
        snapshot_free(list[i]);
}

static void kick(world *w, const uint8_t *bytes, size_t size) {
    struct worker_command command = {.kind = COMMAND_KICK_STREAM, .ban_ms = size % 2 * 10000};
    size_t length = size < STREAM_NAME ? size : STREAM_NAME;
    memcpy(command.stream, bytes, length);
    for (uint32_t i = 0; i < w->workers; i++)
        (void)worker_command_run(server_worker(w->server, i), &command);
}

/* Or for want of memory. */
static void kick_all(world *w, bool evicts) {
    for (uint32_t i = 0; i < w->workers; i++)
        for (struct session *session = server_worker(w->server, i)->sessions; session; session = session->next) {
            if (session->closing)
                continue;
            if (evicts)
                session_evict(session);
            else
                session->type->kick(session, -ECANCELED);
        }
}

static void drain(world *w) {
    w->draining = true;
    server_stop(w->server);
}

static void obey(world *w, unsigned order, const uint8_t *bytes, size_t size) {
    switch (order) {
    case GRANT:
    case REFUSE:
        answer(w, order == GRANT);
        break;
    case KICK:
        kick(w, bytes, size);
        break;
    case KICK_ALL:
        kick_all(w, size % 2 == 1);
        break;
    case LOOK:
        look(w);
        break;
    case WAIT_LONG:
        wire_wait(size > 0 ? *bytes * 200u : 500);
        break;
    case DRAIN:
        drain(w);
        break;
    case CONNECT:
        connect_camera(w, size % 2 == 0);
        break;
    }
}

static void happen(world *w, uint8_t kind, const uint8_t *bytes, size_t size) {
    static const char pause[] = "PAUSE";
    unsigned which = kind & 7, what = kind >> 3 & 7;
    w->spoke = which;
    w->has_stopped = memmem(bytes, size, pause, sizeof pause - 1) != NULL;
    if (which == NOBODY) {
        obey(w, what, bytes, size);
        return;
    }
    wire_peer *peer = peer_of(w, which);
    if (!peer)
        return;
    if (what == STALL && !w->comparing) {
        wire_take(peer, size > 0 ? *bytes * 16u : SIZE_MAX);
        return;
    }
    wire_give(peer, bytes, size);
    rest(w);
    if (what == FINISH)
        wire_finish(peer, 0);
    else if (what == BREAK)
        wire_finish(peer, -ECONNRESET);
    else if (what == WAIT)
        wire_wait(100);
}

/* ---- A run ---- */

static void open_world(world *w, fuzz_run *run) {
    const struct options *options = choose_options(run->settings[0]);
    *w = (world){.run = run,
                 .workers = (uint32_t)options->workers,
                 .merge_window_ms = options->streams.all.merge_window_ms,
                 .comparing = !(run->settings[0] & (LOSES | SCARCE | RTMP))};
    log_set_format((enum log_format)options->log_format);
    wire_begin(run);
    FUZZ_CHECK(server_new(options, &w->server) == 0);
    server_set_hook_asker(w->server, ask, w);
    FUZZ_CHECK(pulls_register(w->server, want, w) == 0);
    for (uint32_t i = 0; i < w->workers; i++) {
        struct worker *worker = server_worker(w->server, i);
        w->loops[i] = worker->loop;
        /* Less than a daemon has: an input is short. */
        if (run->settings[0] & SCARCE)
            worker->holdings.quota = SCARCE_QUOTA;
    }
}

/* It stops by itself, whatever goes on; then nothing is held by anybody. */
static void stop(world *w) {
    bool stopped[2] = {false};
    drain(w);
    for (unsigned i = 0; i < STEPS && !(stopped[0] && (stopped[1] || w->workers == 1)); i++) {
        rest(w);
        for (uint32_t k = 0; k < w->workers; k++)
            stopped[k] |= loop_obey_stop(w->loops[k]);
        answer(w, false);
        connect_camera(w, false);
        wire_wait(STEP_MS);
    }
    FUZZ_CHECK(stopped[0] && (stopped[1] || w->workers == 1));
    for (uint32_t i = 0; i < w->workers; i++) {
        sluice_pool_stats stats = {.size = sizeof stats};
        sluice_pool_get_stats(server_worker(w->server, i)->pool, &stats);
        FUZZ_CHECK(stats.held == 0 && stats.views == 0);
        const struct holdings *holdings = &server_worker(w->server, i)->holdings;
        FUZZ_CHECK(holdings->charged == 0 && holdings->extra == 0 && holdings->reads == 0 && !holdings->tree);
    }
}

void fuzz_target(fuzz_run *run) {
    uint8_t kind;
    const uint8_t *bytes;
    size_t size;
    world w;
    daemon_watch_log();
    open_world(&w, run);
    while (fuzz_record(run, &kind, &bytes, &size)) {
        happen(&w, kind, bytes, size);
        rest(&w);
        show(&w);
    }
    if (run->settings[0] & BREAKS_OFF)
        answer(&w, false);
    else
        stop(&w);
    server_free(w.server);
    wire_end();
}
