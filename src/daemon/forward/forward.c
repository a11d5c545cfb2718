#include "daemon/forward/forward.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/object_id.h"
#include "daemon/forward/forward_session.h"
#include "daemon/server/server.h"
#include "shared/codec_name.h"

enum { LOOK_AGAIN_MS = 2000 };

/* What the workers' forwards have in common. Freed with the last of them. */
struct shared {
    atomic_uint references;
    connect_fn *connect;
    void *connector;
    atomic_uint ended; /* forwards, ever: streams that were turned away may get their place */

    pthread_mutex_t lock; /* of the fields below */
    LIST_HEAD(, forward) list;
    unsigned count;
};

struct forwards {
    struct worker *worker;
    struct shared *shared;
    const struct options *options; /* a reference: those of the forwards */
    struct forward *list;
    /* some stream is not forwarded that should be, since the last look at all of them */
    bool is_incomplete;
    unsigned ended_then; /* the shared count at that look */
    uint64_t looked_at;
};

static const struct component_type type;

static void connected(struct connect_job *job);

static struct forwards *forwards_of(const struct worker *worker) {
    return components_find(&worker->components, &type);
}

static void unref(struct shared *shared) {
    if (atomic_fetch_sub(&shared->references, 1) > 1)
        return;
    pthread_mutex_destroy(&shared->lock);
    free(shared);
}

/* Enters it into the list of all. 0, -EBUSY (another stream is sent to that URL), -ENOSPC */
static int enlist(struct shared *shared, struct forward *forward) {
    int error = 0;
    pthread_mutex_lock(&shared->lock);
    const struct forward *other;
    LIST_FOREACH(other, &shared->list, link) {
        if (strcmp(other->target.url, forward->target.url) == 0)
            error = -EBUSY;
    }
    if (shared->count == FORWARDS_MAX)
        error = -ENOSPC;
    if (!error) {
        LIST_INSERT_HEAD(&shared->list, forward, link);
        shared->count++;
    }
    pthread_mutex_unlock(&shared->lock);
    return error;
}

static void delist(struct shared *shared, struct forward *forward) {
    pthread_mutex_lock(&shared->lock);
    LIST_REMOVE(forward, link);
    shared->count--;
    pthread_mutex_unlock(&shared->lock);
    atomic_fetch_add(&shared->ended, 1);
}

static void free_forward(struct forward *forward) {
    /* A job that has not come back in the run's time. */
    sluice_tls_context_unref(forward->job.context);
    explicit_bzero(forward, sizeof *forward);
    free(forward);
}

const char *forward_tracks_name(const struct forward *forward) {
    const struct player *player = forward->session ? forward->session->player : NULL;
    if (!player || forward->machine.state != OUTGOING_ACTIVE)
        return NULL;
    return player->alone || player->form.format->is_packetized ? "default" : "all";
}

bool forward_kernel_sends(const struct forward *forward) {
    return forward->session && session_kernel_sends(&forward->session->base);
}

const char *forward_state_name(enum outgoing_state state) {
    return state == OUTGOING_ACTIVE ? "sending" : outgoing_state_name(state);
}

static void log_state(const struct forward *forward) {
    const struct outgoing_words words = {.event = "forward",
                                         .direction = "to",
                                         .stream = forward->stream->name,
                                         .place = forward->target.place,
                                         .step = forward->step,
                                         .reason = forward->reason,
                                         .active = forward_state_name(OUTGOING_ACTIVE),
                                         .waiting = LOG_DEBUG};
    outgoing_log(&forward->machine, &words);
}

void forward_begin_step(struct forward *forward, const char *step) {
    const bool is_new = !forward->step || strcmp(forward->step, step) != 0;
    outgoing_step_begun(&forward->machine, worker_now(forward->worker));
    forward->step = step;
    if (is_new)
        log_state(forward);
}

void forward_begin_sending(struct forward *forward) {
    outgoing_started(&forward->machine, worker_now(forward->worker));
    forward->reason[0] = '\0';
    log_state(forward);
}

void forward_fail(struct forward *forward, const char *reason) {
    uint32_t random = 0;
    forward->session = NULL;
    (void)!getrandom(&random, sizeof random, 0);
    snprintf(forward->reason, sizeof forward->reason, "%s", reason);
    outgoing_failed(&forward->machine, worker_now(forward->worker), random);
    log_state(forward);
}

/* Whether FLV had a number for it, before FourCCs. */
static bool has_number(uint32_t codec) {
    static const uint32_t numbered[] = {
        SLUICE_CODEC_NONE, SLUICE_CODEC_H263,  SLUICE_CODEC_VP6,        SLUICE_CODEC_H264,
        SLUICE_CODEC_AAC,  SLUICE_CODEC_MP3,   SLUICE_CODEC_PCMA,       SLUICE_CODEC_PCMU,
        SLUICE_CODEC_PCM,  SLUICE_CODEC_ADPCM, SLUICE_CODEC_NELLYMOSER, SLUICE_CODEC_SPEEX,
    };
    for (size_t i = 0; i < sizeof numbered / sizeof *numbered; i++)
        if (numbered[i] == codec)
            return true;
    return false;
}

static unsigned seen(const struct tracks *tracks) {
    unsigned count = 0;
    for (unsigned i = 0; i < tracks_room(tracks); i++)
        count += tracks_get(tracks, i)->seen;
    return count;
}

void forward_check_tracks(struct forward *forward, const char *reason) {
    const struct stream *stream = forward->stream;
    if (forward->told_tracks || (seen(&stream->video) < 2 && seen(&stream->audio) < 2))
        return;
    forward->told_tracks = true;
    LOG(LOG_INFO, "forward limited", {"stream", stream->name}, {"to", forward->target.place}, {"tracks", "default"},
        {"reason", reason});
}

void forward_check_codecs(struct forward *forward, const char *reason) {
    const struct stream *stream = forward->stream;
    const struct tracks *const kinds[] = {&stream->video, &stream->audio};
    char codec[CODEC_NAME];
    for (size_t i = 0; i < 2 && !forward->told_codecs; i++) {
        const struct track *track = tracks_main(kinds[i]);
        if (!track->seen || has_number(track->codec))
            continue;
        forward->told_codecs = true;
        codec_name(track->codec, codec);
        LOG(LOG_INFO, "forward limited", {"stream", stream->name}, {"to", forward->target.place}, {"codec", codec},
            {"reason", reason});
    }
}

void forward_get_totals(const struct forward *forward, struct stream_totals *ret_totals) {
    *ret_totals = forward->totals;
    if (forward->session)
        forward_session_add_totals(forward->session, ret_totals);
}

static void begin(struct forward *forward) {
    const struct shared *shared = forwards_of(forward->worker)->shared;
    forward->step = NULL;
    log_state(forward);
    if (forward->job_is_out) {
        /* A name server that takes its time: there is one question at a time. */
        forward_fail(forward, "the last attempt is still looking the name up");
        return;
    }
    memcpy(forward->job.host, forward->target.host, sizeof forward->job.host);
    forward->job.port = forward->target.port;
    forward->job.is_secure = forward->target.is_secure;
    forward->job.alpn = forward->option.type->scheme.alpn;
    forward->job.sends_media = true;
    forward->job_is_out = true;
    shared->connect(shared->connector, &forward->job);
}

void forward_again(struct forward *forward) {
    forward->session = NULL;
    if (outgoing_redirected(&forward->machine, worker_now(forward->worker)) < 0)
        forward_fail(forward, "the target refuses the connection again and again");
    else
        begin(forward);
}

/* A login begins anew with each attempt, and lasts for its connections. */
static void begin_attempt(struct forward *forward) {
    const struct forward_option *option = &forward->option;
    explicit_bzero(&forward->login, sizeof forward->login);
    rtsp_login_begin(&forward->http);
    if (option->has_user)
        forward->login = (struct rtmp_login){.user = option->user, .password = option->password};
    begin(forward);
}

static void start_session(struct forward *forward, int fd) {
    server_tune_socket(fd);
    int error = forward->option.type->start(forward, fd);
    if (error) {
        close(fd);
        forward_fail(forward, strerror(-error));
    }
}

static void take_out(struct forward *forward) {
    struct forward **link = &forwards_of(forward->worker)->list;
    while (*link != forward)
        link = &(*link)->next;
    *link = forward->next;
    free_forward(forward);
}

/* The job is back. What it is about may be over: then the connection is of no use. */
static void connected(struct connect_job *job) {
    struct forward *forward = job->user;
    int fd = job->fd;
    forward->context = job->context;
    job->context = NULL;
    job->fd = -1;
    forward->job_is_out = false;
    bool is_current = !forward->is_removed && forward->machine.state == OUTGOING_CONNECTING &&
                      !forward->worker->draining;
    if (!is_current && fd >= 0)
        close(fd);
    if (is_current && job->error)
        forward_fail(forward, job->error == -ENOENT ? "no such host" : strerror(-job->error));
    else if (is_current)
        start_session(forward, fd);
    sluice_tls_context_unref(forward->context);
    forward->context = NULL;
    if (forward->is_removed)
        take_out(forward);
}

/* Ends what is under way. */
static void leave(struct forward *forward, int error) {
    struct forward_session *session = forward->session;
    forward->session = NULL;
    if (session)
        forward_session_leave(session, error);
}

static void give_up(struct forward *forward) {
    char reason[FORWARD_REASON] = "no connection in time";
    if (forward->machine.state == OUTGOING_NEGOTIATING)
        snprintf(reason, sizeof reason, "no answer to %s",
                 forward->session && session_is_shaking(&forward->session->base) ? "the TLS handshake"
                 : forward->step                                                 ? forward->step
                                                                                 : "the connection");
    leave(forward, -ETIMEDOUT);
    forward_fail(forward, reason);
}

static void obey(struct forward *forward, enum outgoing_order order) {
    if (order == OUTGOING_CONNECT)
        begin_attempt(forward);
    else if (order == OUTGOING_GIVE_UP)
        give_up(forward);
}

/* Its memory goes when the connector has nothing of it any more. */
static void remove_forward(struct forward *forward, const char *reason) {
    leave(forward, 0);
    LOG(LOG_INFO, "forward removed", {"stream", forward->stream->name}, {"to", forward->target.place},
        {"reason", reason});
    delist(forwards_of(forward->worker)->shared, forward);
    stream_unref(forward->stream);
    forward->stream = NULL;
    forward->is_removed = true;
    if (!forward->job_is_out)
        take_out(forward);
}

/* Which streams */

static const char *refusal(int error) {
    switch (error) {
    case -EBUSY:
        return "another stream is sent to that URL";
    case -ENOSPC:
        return "too many forwards";
    case -EMSGSIZE:
        return "the URL becomes too long";
    case -EINVAL:
        return "the text for * may not be in the URL";
    default:
        return "out of memory";
    }
}

static bool has(const struct forwards *forwards, const struct stream *stream, size_t position) {
    for (const struct forward *forward = forwards->list; forward; forward = forward->next)
        if (!forward->is_removed && forward->stream == stream && forward->position == position)
            return true;
    return false;
}

static int add(struct forwards *forwards, struct stream *stream, size_t position, const struct pull_target *target) {
    struct worker *worker = forwards->worker;
    struct forward *forward = calloc(1, sizeof *forward);
    if (!forward)
        return -ENOMEM;
    forward->option = forwards->options->forwards->list[position];
    forward->target = *target;
    int error = enlist(forwards->shared, forward);
    if (error) {
        free_forward(forward);
        return error;
    }
    forward->id = object_id_new();
    forward->position = position;
    forward->worker = worker;
    forward->stream = stream_ref(stream);
    forward->job = (struct connect_job){.loop = worker->loop, .done = connected, .user = forward, .fd = -1};
    outgoing_init(&forward->machine, false, worker_now(worker));
    forward->next = forwards->list;
    forwards->list = forward;
    obey(forward, outgoing_tick(&forward->machine, worker_now(worker), true));
    return 0;
}

/* @is_first: a stream that has just come is logged if it is turned away */
static void add_all(struct forwards *forwards, struct stream *stream, bool is_first) {
    const struct forward_options *options = forwards->options->forwards;
    for (size_t i = 0; i < forward_options_count(options); i++) {
        struct pull_target target;
        if (has(forwards, stream, i))
            continue;
        int error = forward_option_target(&options->list[i], stream->name, &target);
        if (error == -ENOENT)
            continue;
        bool may_come = !error || error == -ENOMEM;
        if (!error)
            error = add(forwards, stream, i, &target);
        forwards->is_incomplete |= error && may_come;
        /* It is looked again, whether a forward has ended or not. */
        forwards->ended_then -= error == -ENOMEM;
        if (error && is_first)
            LOG(LOG_WARNING, "stream not forwarded", {"stream", stream->name}, {"to", options->list[i].target.place},
                {"reason", refusal(error)});
    }
}

static void look(struct stream *stream, void *user) {
    if (stream_is_known(stream) && !stream->fed_by && !stream->source.is_remote)
        add_all(user, stream, false);
}

static void look_at_all(struct forwards *forwards) {
    forwards->is_incomplete = false;
    forwards->ended_then = atomic_load(&forwards->shared->ended);
    forwards->looked_at = worker_now(forwards->worker);
    registry_each(forwards->worker->registry, look, forwards);
}

/* The component */

static int open_forwards(struct worker *worker, void *user, void **ret_component) {
    struct forwards *forwards = calloc(1, sizeof *forwards);
    if (!forwards)
        return -ENOMEM;
    forwards->worker = worker;
    forwards->shared = user;
    atomic_fetch_add(&forwards->shared->references, 1);
    *ret_component = forwards;
    return 0;
}

static void close_forwards(void *component) {
    struct forwards *forwards = component;
    for (struct forward *forward = forwards->list, *next; forward; forward = next) {
        next = forward->next;
        if (!forward->is_removed) {
            delist(forwards->shared, forward);
            stream_unref(forward->stream);
        }
        free_forward(forward);
    }
    unref(forwards->shared);
    options_unref(forwards->options);
    free(forwards);
}

/* Nothing is made before a stream needs it. */
static int prepare(void *component, const struct options *options, void **ret_prepared) {
    (void)component, (void)options;
    *ret_prepared = NULL;
    return 0;
}

static void discard(void *prepared) {
    (void)prepared;
}

/* Its option's position in others; their number: they are without it. */
static size_t find(const struct forward_options *options, const struct forward *forward) {
    size_t count = forward_options_count(options), i = 0;
    while (i < count && !forward_option_equal(&options->list[i], &forward->option))
        i++;
    return i;
}

static void commit(void *component, const struct options *options, void *prepared) {
    struct forwards *forwards = component;
    const struct options *before = forwards->options;
    (void)prepared;
    forwards->options = options_ref(options);
    options_unref(before);
    for (struct forward *forward = forwards->list, *next; forward; forward = next) {
        next = forward->next;
        if (forward->is_removed)
            continue;
        forward->position = find(options->forwards, forward);
        if (forward->position == forward_options_count(options->forwards))
            remove_forward(forward, "the configuration is without it");
    }
    look_at_all(forwards);
}

/* The node that has the stream forwards it. */
static void remove_all(struct forwards *forwards, const struct stream *stream) {
    for (struct forward *forward = forwards->list, *next; forward; forward = next) {
        next = forward->next;
        if (!forward->is_removed && forward->stream == stream)
            remove_forward(forward, "published on another node");
    }
}

static void opened(void *component, struct stream *stream) {
    struct forwards *forwards = component;
    if (stream->source.is_remote)
        remove_all(forwards, stream);
    else if (!forwards->worker->draining)
        add_all(forwards, stream, true);
}

static void tick_forward(struct forward *forward, uint64_t now) {
    const struct stream *stream = forward->stream;
    struct outgoing *machine = &forward->machine;
    if (stream_is_given_up(stream, 0, worker_wait_ms(forward->worker, stream), now)) {
        remove_forward(forward, "end of stream");
        return;
    }
    /* That it takes what it is sent, its session sees. */
    if (machine->state == OUTGOING_ACTIVE)
        outgoing_media(machine, now);
    /* There is nothing to be sent before there is a publisher again. */
    if (machine->state != OUTGOING_BACKOFF || stream_is_known(stream))
        obey(forward, outgoing_tick(machine, now, true));
}

static void tick(void *component, uint64_t now) {
    struct forwards *forwards = component;
    for (struct forward *forward = forwards->list, *next; forward; forward = next) {
        next = forward->next;
        if (!forward->is_removed)
            tick_forward(forward, now);
    }
    if (forwards->is_incomplete && !forwards->worker->draining && now - forwards->looked_at >= LOOK_AGAIN_MS &&
        forwards->ended_then != atomic_load(&forwards->shared->ended))
        look_at_all(forwards);
}

/* Where another process takes over, publishers stay here until they end, and so do their
 * forwards. */
static void stop(void *component) {
    const struct forwards *forwards = component;
    if (!forwards->worker->draining)
        return;
    for (struct forward *forward = forwards->list, *next; forward; forward = next) {
        next = forward->next;
        if (!forward->is_removed)
            remove_forward(forward, "server shutting down");
    }
}

static void resume(void *component) {
    (void)component;
}

static const struct component_type type = {
    .open = open_forwards,
    .prepare = prepare,
    .commit = commit,
    .discard = discard,
    .opened = opened,
    .tick = tick,
    .stop = stop,
    .resume = resume,
    .close = close_forwards,
};

int forwards_register(struct server *server, connect_fn *connect, void *connector) {
    struct shared *shared = calloc(1, sizeof *shared);
    if (!shared)
        return -ENOMEM;
    atomic_init(&shared->references, 1);
    shared->connect = connect;
    shared->connector = connector;
    pthread_mutex_init(&shared->lock, NULL);
    int error = server_add_component(server, &type, shared);
    unref(shared);
    return error;
}

void forwards_each(const struct worker *worker, void (*call)(const struct forward *forward, void *user), void *user) {
    const struct forwards *forwards = forwards_of(worker);
    for (const struct forward *forward = forwards ? forwards->list : NULL; forward; forward = forward->next)
        if (!forward->is_removed)
            call(forward, user);
}
