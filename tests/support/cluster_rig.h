/*
 * A cluster in one process: servers of several workers that listen at ports of their own, an engine
 * that is the test's, and peers that publish and play by HTTP. All loops are run by the test, on
 * its thread; nothing goes on by itself, and no time passes but that of the turns: a test is linked
 * with --wrap=clock_gettime (support/clock.h).
 */
#ifndef SLUICE_TESTS_SUPPORT_CLUSTER_RIG_H
#define SLUICE_TESTS_SUPPORT_CLUSTER_RIG_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/backup/backup.h"
#include "daemon/base/log.h"
#include "daemon/config/command_line.h"
#include "daemon/config/options_load.h"
#include "daemon/edge/edge.h"
#include "daemon/pull/pull.h"
#include "daemon/relay/player_list.h"
#include "daemon/server/server.h"
#include "support/clock.h"
#include "support/sockets.h"

enum {
    RIG_GUARD = 60,
    RIG_NODES = 4,
    RIG_STREAMS = 16,
    RIG_WORKERS = 2,
    RIG_WORDS = 32,
    RIG_PEER = 1 << 20, /* bytes that a peer reads */
    RIG_FRAMES = 4096,
    RIG_TURN_MS = 1,
};

struct cluster_rig;

struct rig_node {
    struct cluster_rig *rig;
    struct cluster_self self;
    const struct options *options;
    struct server *server; /* NULL: it has been stopped */
    char address[ADDRESS_TEXT];
    unsigned asked, granted, refused, released; /* claims */
    unsigned located, forgotten, asserted;
    unsigned connects;        /* by its pulls */
    bool is_cut_off;          /* connections of its pulls are never made */
    bool has_left;            /* has no lease */
    struct cluster_job *held; /* while the engine answers nothing */
};

struct rig_stream {
    char name[STREAM_NAME + 1];
    struct rig_node *node; /* NULL: no node has it */
    uint64_t epoch;
    uint64_t since;  /* the first epoch that its node has it with */
    unsigned claims; /* of its node */
};

struct cluster_rig {
    struct rig_node nodes[RIG_NODES];
    size_t count;
    struct rig_stream streams[RIG_STREAMS];
    uint64_t epochs;
    bool is_down;   /* refuses claims, and knows nothing */
    bool is_silent; /* answers nothing before rig_answer_all() */
    bool is_mute;   /* reports no changes */
};

/* The engine */

static inline struct rig_stream *rig_stream(struct cluster_rig *rig, const char *name) {
    struct rig_stream *stream = rig->streams;
    while (*stream->name && strcmp(stream->name, name) != 0)
        stream++;
    assert_true(stream < rig->streams + RIG_STREAMS);
    snprintf(stream->name, sizeof stream->name, "%s", name);
    return stream;
}

static inline struct cluster_location rig_location(const struct rig_stream *stream) {
    struct cluster_location location = {.epoch = stream->epoch};
    if (!stream->node)
        return (struct cluster_location){0};
    memcpy(location.node, stream->node->self.node, sizeof location.node);
    memcpy(location.address, stream->node->address, sizeof stream->node->address);
    location.incarnation = 1;
    return location;
}

/* @except: a node that is not told; or NULL */
static inline void rig_tell(struct cluster_rig *rig, const struct rig_stream *stream, const struct rig_node *except) {
    const struct cluster_location location = rig_location(stream);
    for (size_t i = 0; i < rig->count && !rig->is_mute; i++)
        if (&rig->nodes[i] != except && rig->nodes[i].server)
            assert_int_equal(edge_post_change(rig->nodes[i].server, stream->name,
                                              stream->node ? CLUSTER_MOVED : CLUSTER_GONE, &location),
                             0);
}

static inline void rig_supersede(struct cluster_rig *rig, struct rig_stream *stream, struct rig_node *by) {
    struct rig_node *before = stream->node;
    stream->node = by;
    stream->epoch = stream->since = ++rig->epochs;
    stream->claims = 0;
    const struct cluster_location location = rig_location(stream);
    if (before && before->server && !rig->is_mute)
        assert_int_equal(edge_post_change(before->server, stream->name, CLUSTER_SUPERSEDED, &location), 0);
}

static inline void rig_claim(struct rig_node *node, struct cluster_job *job) {
    struct cluster_rig *rig = node->rig;
    struct rig_stream *stream = rig_stream(rig, job->stream);
    bool is_taken = stream->node && stream->node != node && !stream->node->has_left;
    node->asked++;
    job->error = rig->is_down ? -EHOSTDOWN : is_taken && job->same_name != SAME_NAME_TAKE_OVER ? -EEXIST : 0;
    node->refused += job->error != 0;
    if (job->error)
        return;
    if (rig->epochs < job->epoch)
        rig->epochs = job->epoch;
    if (stream->node != node)
        rig_supersede(rig, stream, node);
    /* Above all that is known, also of a stream that the node has. */
    if (stream->epoch <= job->epoch)
        stream->epoch = ++rig->epochs;
    stream->claims++;
    node->granted++;
    job->location.epoch = stream->epoch;
    rig_tell(rig, stream, node);
}

static inline void rig_release(struct rig_node *node, const struct cluster_job *job) {
    struct rig_stream *stream = rig_stream(node->rig, job->stream);
    node->released++;
    assert_true(job->epoch > 0);
    if (stream->node != node || job->epoch < stream->since || stream->claims == 0 || --stream->claims > 0)
        return;
    stream->node = NULL;
    rig_tell(node->rig, stream, NULL);
}

static inline void rig_assert(struct rig_node *node, struct cluster_job *job) {
    struct rig_stream *stream = rig_stream(node->rig, job->stream);
    node->asserted++;
    job->error = stream->node == node ? 0 : -ESTALE;
    if (job->error)
        return;
    if (node->rig->epochs < job->epoch)
        node->rig->epochs = job->epoch;
    stream->epoch = ++node->rig->epochs;
    job->location = rig_location(stream);
}

static inline void rig_find(const struct rig_node *node, struct cluster_job *job) {
    job->error = -ENOENT;
    for (size_t i = 0; i < node->rig->count; i++) {
        const struct rig_node *other = &node->rig->nodes[i];
        if (strcmp(other->self.node, job->location.node) != 0 || other->has_left)
            continue;
        memcpy(job->location.address, other->address, sizeof other->address);
        job->error = 0;
    }
}

static inline void rig_done(void *user) {
    struct cluster_job *job = user;
    job->done(job);
}

static inline void rig_answer(struct rig_node *node, struct cluster_job *job) {
    job->error = 0;
    switch (job->question) {
    case CLUSTER_CLAIM:
        rig_claim(node, job);
        break;
    case CLUSTER_RELEASE:
        rig_release(node, job);
        break;
    case CLUSTER_ASSERT:
        rig_assert(node, job);
        break;
    case CLUSTER_LOCATE:
    case CLUSTER_LOOK:
        node->located++;
        job->error = node->rig->is_down ? -EHOSTDOWN : 0;
        job->location = rig_location(rig_stream(node->rig, job->stream));
        break;
    case CLUSTER_FORGET:
        node->forgotten++;
        break;
    case CLUSTER_FIND_NODE:
        rig_find(node, job);
        break;
    case CLUSTER_TELL_KICK:
    case CLUSTER_TELL_BAN:
    case CLUSTER_TELL_UNBAN:
        break;
    }
    sluice_loop_post_call(job->loop, &job->call, rig_done, job);
}

static inline void rig_ask(void *cluster, struct cluster_job *job) {
    struct rig_node *node = cluster;
    if (!node->rig->is_silent) {
        rig_answer(node, job);
        return;
    }
    struct cluster_job **end = &node->held;
    while (*end)
        end = &(*end)->next;
    job->next = NULL;
    *end = job;
}

static inline void rig_answer_all(struct cluster_rig *rig) {
    rig->is_silent = false;
    for (size_t i = 0; i < rig->count; i++)
        while (rig->nodes[i].held) {
            struct cluster_job *job = rig->nodes[i].held;
            rig->nodes[i].held = job->next;
            rig_answer(&rig->nodes[i], job);
        }
}

/* Nodes */

static inline void rig_connected(void *user) {
    struct connect_job *job = user;
    job->done(job);
}

/* To a port of this host: at once, or not at all. */
static inline void rig_connect(void *connector, struct connect_job *job) {
    struct rig_node *node = connector;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(job->port)};
    node->connects++;
    if (node->is_cut_off)
        return;
    job->context = NULL;
    job->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(inet_pton(AF_INET, job->host, &address.sin_addr), 1);
    job->error = connect(job->fd, (struct sockaddr *)&address, sizeof address) == 0 ? 0 : -errno;
    memcpy(&job->address, &address, sizeof address);
    if (job->error) {
        close(job->fd);
        job->fd = -1;
    }
    assert_int_equal(sluice_loop_post(job->loop, rig_connected, job), 0);
}

static inline const struct options *rig_options(const char *const more[]) {
    const char *backend = getenv("SLUICE_TEST_BACKEND");
    const char *words[RIG_WORDS] = {"sluiced",  "--http",      "127.0.0.1:0", "--workers", "2",
                                    "--memory", "64M",         "--backend",   "auto",      "--log-level",
                                    "error",    "--same-name", "refuse",      "--linger",  "1"};
    int count = 15;
    if (backend)
        words[8] = backend;
    for (; more && *more; more++)
        words[count++] = *more;
    struct config_errors errors = {0};
    struct command_line line;
    assert_true(command_line_parse(count, (char **)words, &errors, &line));
    const struct options *options = options_load(&line, NULL, NULL, NULL, &errors);
    assert_non_null(options);
    command_line_clear(&line);
    return options;
}

/* @more: options, to NULL; or NULL. @secret: empty: pulls are not signed */
static inline struct rig_node *rig_add(struct cluster_rig *rig, const char *name, const char *secret,
                                       const char *const more[]) {
    assert_true(rig->count < RIG_NODES);
    struct rig_node *node = &rig->nodes[rig->count++];
    char addresses[OPTIONS_MAX_LISTENERS][ADDRESS_TEXT];
    *node = (struct rig_node){.rig = rig};
    snprintf(node->self.node, sizeof node->self.node, "%s", name);
    node->self.secret_size = strlen(secret);
    memcpy(node->self.secret, secret, strlen(secret));
    atomic_store(&node->self.engine_offset_ms, 1000000);
    node->options = rig_options(more);
    assert_int_equal(server_new(node->options, &node->server), 0);
    assert_int_equal(pulls_register(node->server, rig_connect, node), 0);
    assert_int_equal(edges_register(node->server), 0);
    assert_int_equal(backups_register(node->server), 0);
    server_set_cluster(node->server, rig_ask, node, &node->self);
    listeners_addresses(server_worker(node->server, 0)->listeners, node->options, addresses);
    memcpy(node->address, addresses[0], sizeof node->address);
    return node;
}

static inline void rig_open(struct cluster_rig *rig) {
    hang_guard(RIG_GUARD);
    clock_stop();
    log_set_level(LOG_ERROR);
    *rig = (struct cluster_rig){.epochs = 1000};
}

/* As if it were killed: its connections end, and it releases nothing. */
static inline void rig_stop(struct rig_node *node) {
    if (!node->server)
        return;
    server_set_cluster(node->server, NULL, NULL, &node->self);
    while (node->held) {
        struct cluster_job *job = node->held;
        node->held = job->next;
        job->error = -ESHUTDOWN;
        sluice_loop_post_call(job->loop, &job->call, rig_done, job);
    }
    server_free(node->server);
    options_unref(node->options);
    node->server = NULL;
}

static inline void rig_close(struct cluster_rig *rig) {
    for (size_t i = 0; i < rig->count; i++)
        rig_stop(&rig->nodes[i]);
    clock_go_on();
    hang_guard(0);
}

/* One turn of each loop. The kernel may have work of its own between two of them. */
static inline void rig_turn(struct cluster_rig *rig) {
    for (size_t i = 0; i < rig->count; i++)
        for (uint32_t w = 0; rig->nodes[i].server && w < RIG_WORKERS; w++)
            assert_int_equal(sluice_loop_turn(server_worker(rig->nodes[i].server, w)->loop, 0), 0);
    clock_forward(RIG_TURN_MS);
    usleep(20);
}

static inline void rig_wait(struct cluster_rig *rig, uint64_t ms) {
    const uint64_t end = clock_now() + ms;
    while (clock_now() < end)
        rig_turn(rig);
}

/* Turns until that holds. */
#define RIG_UNTIL(rig, condition)                                                                                      \
    do {                                                                                                               \
        const uint64_t rig_deadline = clock_now() + 20000;                                                             \
        while (!(condition)) {                                                                                         \
            rig_turn(rig);                                                                                             \
            if (clock_now() > rig_deadline)                                                                            \
                fail_msg("never: %s", #condition);                                                                     \
        }                                                                                                              \
    } while (0)

static inline struct worker *rig_owner(const struct rig_node *node, const char *stream) {
    return server_owner(node->server, stream, strlen(stream));
}

/* NULL: there is none. */
static inline struct stream *rig_find_stream(const struct rig_node *node, const char *stream) {
    return registry_find(rig_owner(node, stream)->registry, stream);
}

static inline bool rig_is_live(const struct rig_node *node, const char *name, bool is_remote) {
    const struct stream *stream = rig_find_stream(node, name);
    return stream && stream->live && stream->source.is_remote == is_remote;
}

static inline uint32_t rig_players(const struct rig_node *node, const char *name) {
    const struct stream *stream = rig_find_stream(node, name);
    return stream ? stream_player_count(stream) : 0;
}

/* Peers */

struct rig_peer {
    int fd;
    uint8_t *data;
    size_t size;
    bool has_ended;
};

static inline struct rig_peer rig_connect_peer(const struct rig_node *node) {
    const char *colon = strrchr(node->address, ':');
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(colon + 1)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct rig_peer peer = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .data = malloc(RIG_PEER)};
    assert_non_null(peer.data);
    assert_int_equal(connect(peer.fd, (struct sockaddr *)&address, sizeof address), 0);
    return peer;
}

static inline void rig_say(const struct rig_peer *peer, const char *text) {
    assert_int_equal(send(peer->fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* What has come, up to the peer's end. */
static inline void rig_read(struct rig_peer *peer) {
    ssize_t n = 0;
    while (!peer->has_ended &&
           (n = recv(peer->fd, peer->data + peer->size, RIG_PEER - 1 - peer->size, MSG_DONTWAIT)) > 0)
        peer->size += (size_t)n;
    peer->has_ended |= n == 0 || (n < 0 && errno != EAGAIN);
    peer->data[peer->size] = '\0';
    assert_true(peer->size < RIG_PEER - 1);
}

static inline void rig_hang_up(struct rig_peer *peer) {
    if (peer->fd >= 0)
        close(peer->fd);
    free(peer->data);
    *peer = (struct rig_peer){.fd = -1};
}

/* The status of the response; 0: none has come. */
static inline unsigned rig_status(struct rig_peer *peer) {
    rig_read(peer);
    return peer->size > 12 ? (unsigned)atoi((const char *)peer->data + strlen("HTTP/1.1 ")) : 0;
}

static inline bool rig_says(struct rig_peer *peer, const char *text) {
    rig_read(peer);
    return memmem(peer->data, peer->size, text, strlen(text));
}

/* A request with more fields, each with its end. */
static inline struct rig_peer rig_request(const struct rig_node *node, const char *method, const char *stream,
                                          const char *fields) {
    struct rig_peer peer = rig_connect_peer(node);
    char text[4096];
    assert_in_range(snprintf(text, sizeof text, "%s /%s.flv HTTP/1.1\r\nHost: a\r\n%s\r\n", method, stream, fields), 1,
                    sizeof text - 1);
    rig_say(&peer, text);
    return peer;
}

static inline struct rig_peer rig_play(const struct rig_node *node, const char *stream) {
    return rig_request(node, "GET", stream, "");
}

static inline struct rig_peer rig_publish(const struct rig_node *node, const char *stream) {
    static const uint8_t header[] = {'F', 'L', 'V', 1, 1, 0, 0, 0, 9, 0, 0, 0, 0};
    struct rig_peer peer = rig_request(node, "POST", stream, "");
    assert_int_equal(send(peer.fd, header, sizeof header, MSG_NOSIGNAL), sizeof header);
    return peer;
}

/* One key frame, which says who has sent it. */
static inline void rig_send(const struct rig_peer *peer, uint32_t time, char source, unsigned number) {
    uint8_t tag[64] = {9, 0, 0, 0, (uint8_t)(time >> 16), (uint8_t)(time >> 8), (uint8_t)time, (uint8_t)(time >> 24)};
    tag[11] = 0x17;
    tag[12] = 1;
    const int length = 5 + snprintf((char *)tag + 16, 32, "<%c:%06u>", source, number);
    tag[3] = (uint8_t)length;
    tag[11 + length] = tag[12 + length] = tag[13 + length] = 0;
    tag[14 + length] = (uint8_t)(11 + length);
    assert_int_equal(send(peer->fd, tag, (size_t)length + 15, MSG_NOSIGNAL), length + 15);
}

struct rig_frame {
    uint32_t time;
    char source;
    unsigned number;
};

struct rig_frames {
    struct rig_frame list[RIG_FRAMES];
    size_t count;
};

/* The body without chunk lines. */
static inline size_t rig_unchunk(const struct rig_peer *peer, uint8_t *body) {
    const uint8_t *at = memmem(peer->data, peer->size, "\r\n\r\n", 4), *end = peer->data + peer->size;
    size_t size = 0;
    for (at = at ? at + 4 : end; at < end;) {
        const uint8_t *line = memmem(at, (size_t)(end - at), "\r\n", 2);
        const size_t chunk = line ? strtoul((const char *)at, NULL, 16) : 0;
        if (chunk == 0 || (size_t)(end - line) < 2 + chunk + 2)
            break;
        memcpy(body + size, line + 2, chunk);
        size += chunk;
        at = line + 2 + chunk + 2;
    }
    return size;
}

/* The frames that a player has got. */
static inline void rig_get_frames(struct rig_peer *peer, struct rig_frames *ret_frames) {
    uint8_t *body = malloc(RIG_PEER);
    assert_non_null(body);
    rig_read(peer);
    const size_t size = rig_unchunk(peer, body);
    ret_frames->count = 0;
    for (size_t at = 13; at + 11 <= size;) {
        const uint8_t *tag = body + at;
        const size_t length = (size_t)tag[1] << 16 | (size_t)tag[2] << 8 | tag[3];
        if (at + 15 + length > size)
            break;
        struct rig_frame *frame = &ret_frames->list[ret_frames->count];
        if (tag[0] == 9 && length > 13 && tag[16] == '<') {
            frame->time = (uint32_t)tag[4] << 16 | (uint32_t)tag[5] << 8 | tag[6] | (uint32_t)tag[7] << 24;
            frame->source = (char)tag[17];
            frame->number = (unsigned)strtoul((const char *)tag + 19, NULL, 10);
            assert_true(++ret_frames->count < RIG_FRAMES);
        }
        at += 15 + length;
    }
    free(body);
}

static inline bool rig_has(struct rig_peer *peer, char source, unsigned number) {
    char text[32];
    snprintf(text, sizeof text, "<%c:%06u>", source, number);
    return rig_says(peer, text);
}

/*
 * Times rise, and what a source has sent comes in order and behind what others had sent before, by
 * the order of @sources. The last group may come again, by another way. How many frames.
 */
static inline size_t rig_check_order(struct rig_peer *peer, const char *sources) {
    static struct rig_frames frames;
    rig_get_frames(peer, &frames);
    for (size_t i = 1; i < frames.count; i++) {
        const struct rig_frame *frame = &frames.list[i], *before = frame - 1;
        assert_true(frame->time > before->time);
        assert_true(strchr(sources, frame->source) && strchr(sources, before->source) &&
                    strchr(sources, frame->source) >= strchr(sources, before->source));
        assert_true(frame->source != before->source || frame->number >= before->number);
    }
    return frames.count;
}

#endif
