/* sluice-push: publishers of a file, and players, as many as are asked for. */
#include "tools/push/push.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "tools/interrupt.h"
#include "tools/say.h"
#include "tools/trust.h"

enum {
    EXIT_NOT_SERVED = 1,
    EXIT_USAGE = 2,
    EXIT_NOT_HAD = 3,
    LOOK_MS = 50,
    SECOND_MS = 1000,
    /* for players to get what was sent last; time that stands still is one */
    THROUGH_LOOKS = 5 * SECOND_MS / LOOK_MS,
    LEAVE_MS = 2000, /* for RTSP servers to answer TEARDOWN */
    OTHER_DESCRIPTORS = 64,
    SLAB = 1024,
    BLOCKS_PER_PLAYER = 64, /* of 4096 bytes, and no fewer than LEAST_BLOCKS */
    LEAST_BLOCKS = 16384,
    MOST_BLOCKS = 262144,
};

static struct push_options options;
static struct push push = {.options = &options};

/* Where in the ramp the @number-th of so many begins. */
static uint64_t stagger(uint32_t number, uint32_t count) {
    return count > 1 ? (uint64_t)options.ramp_ms * number / count : 0;
}

void push_sender_ready(struct push *of, const struct sender *sender, bool again) {
    uint32_t first = (uint32_t)(sender - of->senders);
    for (uint32_t i = first; i < of->watcher_count; i += options.streams) {
        /* Streams begin one after the other already: their players spread over what is left of a
         * round. */
        if (again)
            watcher_restarted(&of->watchers[i]);
        else
            watcher_start(&of->watchers[i], stagger(i / options.streams, of->watcher_count / options.streams + 1));
    }
}

static void finish_senders(void) {
    for (uint32_t i = 0; i < options.publishers; i++)
        sender_finish(&push.senders[i]);
}

static bool senders_are_over(void) {
    for (uint32_t i = 0; i < options.publishers; i++)
        if (!sender_is_over(&push.senders[i]))
            return false;
    return options.publishers > 0;
}

static bool watchers_are_through(void) {
    for (uint32_t i = 0; i < push.watcher_count; i++)
        if (!watcher_is_through(&push.watchers[i]))
            return false;
    return true;
}

static bool watchers_are_over(void) {
    for (uint32_t i = 0; i < push.watcher_count; i++)
        if (push.watchers[i].state != WATCHER_DONE && push.watchers[i].state != WATCHER_FAILED)
            return false;
    return true;
}

static bool anybody_is_connected(void) {
    for (uint32_t i = 0; i < options.publishers; i++)
        if (push.senders[i].publish)
            return true;
    for (uint32_t i = 0; i < push.watcher_count; i++)
        if (push.watchers[i].play && !push.watchers[i].stalled)
            return true;
    return false;
}

/* From sending to the players' last frames to the end. */
static void look_at_the_end(uint64_t now) {
    bool wanted = interrupt_seen() || (options.duration_ms && now - push.begun_at >= options.duration_ms);
    if (!push.ending && wanted) {
        push.ending = true;
        finish_senders();
    }
    if (!push.ending && options.publishers == 0 && watchers_are_over())
        push.ending = true;
    if (push.ended_at == 0 && (senders_are_over() || (push.ending && options.publishers == 0))) {
        push.ending = true;
        push.ended_at = now;
    }
    if (push.ended_at > 0 && !push.over && (watchers_are_through() || ++push.looks_at_end >= THROUGH_LOOKS)) {
        push.over = true;
        for (uint32_t i = 0; i < push.watcher_count; i++)
            watcher_stop(&push.watchers[i]);
    }
}

static void on_tick(sluice_timer *timer, void *user) {
    uint64_t now = sluice_loop_now(push.loop);
    (void)user;
    sluice_timer_start(timer, LOOK_MS);
    if (now - push.reported_at >= SECOND_MS && !push.over) {
        push_report_second(&push);
        for (uint32_t i = 0; i < options.publishers; i++)
            sender_tick(&push.senders[i], now);
        for (uint32_t i = 0; i < push.watcher_count; i++)
            watcher_tick(&push.watchers[i], now);
    }
    look_at_the_end(now);
}

/* As many descriptors as connections need. */
static int allow_descriptors(void) {
    rlim_t need = (rlim_t)options.publishers + options.players + options.stalled + OTHER_DESCRIPTORS;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return -errno;
    if (limit.rlim_cur >= need)
        return 0;
    if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < need)
        limit.rlim_max = need;
    limit.rlim_cur = need;
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0)
        return 0;
    say("%llu open files are needed, and not allowed: raise the limit (ulimit -n)", (unsigned long long)need);
    return -EMFILE;
}

static int look_up(const struct target *target, struct addrinfo **ret_addresses) {
    int error = connector_look_up(target, ret_addresses);
    if (!error)
        return 0;
    say("%s: %s", target->host, gai_strerror(error));
    return -ENOENT;
}

static int read_media(void) {
    if (!options.file)
        return 0;
    int error = media_read(options.file, &push.media);
    if (error == -EPROTO)
        say("%s: not FLV, or damaged: sluice-probe says where", options.file);
    else if (error)
        say("%s: %s", options.file, error == -ENODATA ? "there are no frames in it" : strerror(-error));
    return error;
}

static int make_loop(void) {
    uint64_t blocks = (uint64_t)(options.players + options.publishers) * BLOCKS_PER_PLAYER;
    const sluice_pool_options pool = {
        .size = sizeof pool,
        .slab_blocks = SLAB,
        .max_blocks = blocks < LEAST_BLOCKS  ? LEAST_BLOCKS
                      : blocks > MOST_BLOCKS ? MOST_BLOCKS
                                             : (uint32_t)blocks,
    };
    const sluice_loop_options loop = {.size = sizeof loop, .backend = options.backend};
    int error = sluice_pool_new(&pool, &push.pool);
    if (!error)
        error = sluice_loop_new(push.pool, &loop, &push.loop);
    if (!error)
        error = sluice_timer_new(push.loop, on_tick, NULL, &push.ticker);
    if (error)
        say("%s", strerror(-error));
    return error;
}

static int make_all(void) {
    int error = 0;
    push.watcher_count = options.players + options.stalled;
    push.senders = calloc(options.publishers + 1, sizeof *push.senders);
    push.watchers = calloc(push.watcher_count + 1, sizeof *push.watchers);
    if (!push.senders || !push.watchers)
        error = -ENOMEM;
    for (uint32_t i = 0; i < options.publishers && !error; i++)
        error = sender_init(&push.senders[i], &push, i + 1);
    for (uint32_t i = 0; i < push.watcher_count && !error; i++)
        error = watcher_init(&push.watchers[i], &push, i + 1, i >= options.players);
    if (error)
        say("%s", error == -EMSGSIZE ? "the name is too long" : strerror(-error));
    return error;
}

static int run(void) {
    int error = 0;
    /* The clock of the loop is that of a turn. */
    error = sluice_loop_turn(push.loop, 0);
    push.begun_at = push.reported_at = sluice_loop_now(push.loop);
    sluice_timer_start(push.ticker, LOOK_MS);
    for (uint32_t i = 0; i < options.publishers; i++)
        sender_start(&push.senders[i], stagger(i, options.publishers));
    for (uint32_t i = 0; i < push.watcher_count && options.publishers == 0; i++)
        watcher_start(&push.watchers[i], stagger(i, push.watcher_count));
    while (!error && !push.over)
        error = sluice_loop_turn(push.loop, -1);
    uint64_t leaving = sluice_loop_now(push.loop);
    while (!error && anybody_is_connected() && sluice_loop_now(push.loop) - leaving < LEAVE_MS)
        error = sluice_loop_turn(push.loop, -1);
    if (error)
        say("%s", strerror(-error));
    return error;
}

static void free_all(void) {
    for (uint32_t i = 0; push.senders && i < options.publishers; i++)
        sender_free(&push.senders[i]);
    for (uint32_t i = 0; push.watchers && i < push.watcher_count; i++)
        watcher_free(&push.watchers[i]);
    sluice_timer_free(push.ticker);
    sluice_pool_free(push.pool);
    media_free(push.media);
    free(push.senders);
    free(push.watchers);
    if (push.publish_addresses)
        freeaddrinfo(push.publish_addresses);
    if (push.play_addresses)
        freeaddrinfo(push.play_addresses);
    trust_release(&options.target);
    trust_release(&options.play);
}

int main(int argc, char **argv) {
    switch (push_options_parse(argc, argv, &options)) {
    case PUSH_DONE:
        return EXIT_SUCCESS;
    case PUSH_WRONG:
        return EXIT_USAGE;
    case PUSH_RUN:
        break;
    }
    interrupt_watch();
    int error = allow_descriptors();
    if (!error)
        error = read_media();
    if (!error)
        error = look_up(&options.target, &push.publish_addresses);
    if (!error)
        error = look_up(&options.play, &push.play_addresses);
    if (!error && (!trust_prepare(&options.trust, &options.target) || !trust_prepare(&options.trust, &options.play)))
        error = -EINVAL;
    if (!error)
        error = make_loop();
    if (!error)
        error = make_all();
    if (!error)
        error = run();
    bool begun = push.begun_at > 0;
    if (begun && push.ended_at == 0)
        push.ended_at = sluice_loop_now(push.loop);
    bool served = begun && push_report_total(&push);
    /* Timers go before their loop, and with the loop the connections that are left. */
    for (uint32_t i = 0; push.senders && i < options.publishers; i++)
        sender_free(&push.senders[i]);
    for (uint32_t i = 0; push.watchers && i < push.watcher_count; i++)
        watcher_free(&push.watchers[i]);
    sluice_timer_free(push.ticker);
    push.ticker = NULL;
    sluice_loop_free(push.loop);
    free_all();
    return !begun ? EXIT_NOT_HAD : error || !served ? EXIT_NOT_SERVED : EXIT_SUCCESS;
}
