/* sluice-probe: what a stream or a file contains. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sluice/file.h>

#include "shared/clock.h"
#include "tools/connector.h"
#include "tools/interrupt.h"
#include "tools/play.h"
#include "tools/probe/flv_scan.h"
#include "tools/probe/probe_output.h"
#include "tools/say.h"
#include "tools/trust.h"

enum {
    EXIT_FAULTY = 1,
    EXIT_USAGE = 2,
    EXIT_NOT_HAD = 3,
    BLOCK = 16384,
    BLOCKS = 8192,
    SLAB = 256,
    LOOK_MS = 100,
    LEAVE_MS = 1000
};

static struct probe_options options;
static struct stats stats;

struct probe {
    sluice_pool *pool;
    sluice_loop *loop;
    struct flv_scan *scan;
    int64_t first_time; /* of the first frame; -1 before */
    uint64_t frames;
    bool done;        /* what was asked for is there, or all of it */
    int error;        /* why it cannot go on */
    char reason[160]; /* the same in words */
    int64_t size;
    bool begun;        /* the server has agreed */
    struct play *play; /* while it is there */
};

/* False when it was the last one that is wanted. */
static bool take(struct probe *probe, const sluice_flv_tag *tag, int64_t offset) {
    bool frame = tag->type != SLUICE_FLV_SCRIPT && tag->view.packet == SLUICE_FLV_FRAME;
    if (frame && probe->first_time < 0)
        probe->first_time = tag->timestamp;
    if (frame && options.duration_ms && tag->timestamp - probe->first_time >= options.duration_ms)
        return false;
    stats_take(&stats, tag, offset);
    if (options.frames)
        probe_print_tag(&options, tag, offset);
    probe->frames += frame;
    return options.count == 0 || probe->frames < options.count;
}

static void note_fault(const struct flv_scan_step *step) {
    int64_t at = (int64_t)step->offset;
    unsigned long long bytes = step->bytes;
    switch (step->fault) {
    case FLV_SCAN_NO_HEADER:
        stats_add(&stats, true, "signature", at, "no FLV file header");
        break;
    case FLV_SCAN_DAMAGE:
        stats_add(&stats, true, "damage", at, "%llu bytes that belong to no tag", bytes);
        break;
    case FLV_SCAN_WRONG_TRAILER:
        stats_add(&stats, false, "trailer", at, "wrong PreviousTagSize behind the tag");
        break;
    case FLV_SCAN_UNKNOWN_TAG:
        stats_add(&stats, false, "unknown", at, "a tag that is empty or encrypted, %llu bytes", bytes);
        break;
    case FLV_SCAN_TRUNCATED:
        stats_add(&stats, true, "truncated", at, "the end comes within a tag, behind %llu bytes of it", bytes);
        break;
    }
}

/* All steps that the input is good for. */
static int scan_all(struct probe *probe, bool ended) {
    struct flv_scan_step step;
    int result = 0;
    while (!probe->done && (result = flv_scan_next(probe->scan, ended, &step)) > 0) {
        if (step.has_fault)
            note_fault(&step);
        if (step.tag && !take(probe, step.tag, (int64_t)step.offset))
            probe->done = true;
    }
    return result < 0 ? result : 0;
}

/*
 * The reader of the output is gone: with a live stream the program would run until the stream ends.
 */
static bool is_told(void) {
    return !ferror(stdout);
}

/* Whether more is wanted. */
static bool goes_on(const struct probe *probe) {
    return !probe->done && !interrupt_seen() && is_told();
}

static void fail(struct probe *probe, int error, const char *reason) {
    probe->error = error;
    probe->done = true;
    snprintf(probe->reason, sizeof probe->reason, "%s", reason);
}

static void read_file(struct probe *probe) {
    sluice_file *file;
    int fd = open(options.input, O_RDONLY | O_CLOEXEC);
    int error = fd < 0 ? -errno : sluice_file_new(probe->loop, fd, NULL, NULL, NULL, &file);
    if (error) {
        if (fd >= 0)
            close(fd);
        fail(probe, error, strerror(-error));
        return;
    }
    sluice_chain *chain = sluice_file_chain(file);
    error = flv_scan_new(probe->pool, chain, &probe->scan);
    while (!error && goes_on(probe)) {
        int result = sluice_file_fill(file, sluice_chain_length(chain) + 1, UINT64_MAX);
        error = scan_all(probe, result < 0);
        if (result < 0 && result != -ENODATA)
            error = result;
        if (result < 0)
            break;
    }
    if (error)
        fail(probe, error, strerror(-error));
    probe->size = (int64_t)(sluice_chain_consumed(chain) + sluice_chain_length(chain));
    flv_scan_free(probe->scan);
    sluice_file_close(file);
}

/* What comes on standard input; waits for it. 1, 0 (the end), or -errno */
static int read_some(sluice_chain *chain) {
    struct iovec room;
    int count = sluice_chain_reserve(chain, BLOCK, &room, 1);
    if (count < 0)
        return count;
    ssize_t n = read(STDIN_FILENO, room.iov_base, room.iov_len);
    int error = n < 0 ? -errno : 0;
    int committed = sluice_chain_commit(chain, n > 0 ? (size_t)n : 0);
    if (error == -EINTR)
        return 1;
    return error ? error : committed ? committed : n > 0;
}

static void read_input(struct probe *probe) {
    sluice_chain *chain;
    int error = sluice_chain_new(probe->pool, &chain), result = 1;
    if (!error)
        error = flv_scan_new(probe->pool, chain, &probe->scan);
    while (!error && result > 0 && goes_on(probe)) {
        result = read_some(chain);
        error = result < 0 ? result : scan_all(probe, result == 0);
    }
    if (error)
        fail(probe, error, strerror(-error));
    else
        probe->size = (int64_t)(sluice_chain_consumed(chain) + sluice_chain_length(chain));
    flv_scan_free(probe->scan);
    sluice_chain_free(chain);
}

/* Servers. */

static void on_begun(void *user) {
    struct probe *probe = user;
    probe->begun = true;
}

static void on_tag(sluice_flv_tag *tag, void *user) {
    struct probe *probe = user;
    if (probe->done || take(probe, tag, STATS_NO_OFFSET))
        return;
    probe->done = true;
}

static void on_body(sluice_chain *body, void *user) {
    struct probe *probe = user;
    int error = probe->scan ? 0 : flv_scan_new(probe->pool, body, &probe->scan);
    if (!error)
        error = scan_all(probe, false);
    if (error)
        fail(probe, error, strerror(-error));
}

static void note_losses(const struct play_counts *counts) {
    if (counts->lost > 0)
        stats_add(&stats, true, "lost", STATS_NO_OFFSET, "%llu RTP packets are lost", (unsigned long long)counts->lost);
    if (counts->malformed > 0)
        stats_add(&stats, true, "malformed", STATS_NO_OFFSET, "%llu malformed RTP packets",
                  (unsigned long long)counts->malformed);
}

static void on_ended(int error, const char *reason, void *user) {
    struct probe *probe = user;
    struct play_counts counts;
    /* What the stream ended within; unless we have ended it. */
    if (probe->scan && !probe->done && !interrupt_seen())
        (void)scan_all(probe, true);
    play_get_counts(probe->play, &counts);
    note_losses(&counts);
    probe->size = (int64_t)counts.bytes;
    flv_scan_free(probe->scan);
    probe->scan = NULL;
    probe->play = NULL;
    snprintf(probe->reason, sizeof probe->reason, "%s", reason);
    probe->error = error;
    probe->done = true;
}

static const struct play_events http_events = {.begun = on_begun, .tag = on_tag, .body = on_body, .ended = on_ended};
static const struct play_events tag_events = {.begun = on_begun, .tag = on_tag, .ended = on_ended};

static void on_connected(struct connector_job *job, sluice_conn *conn, int error) {
    struct probe *probe = job->user;
    if (!error)
        error = play_new(conn, &options.target, options.timeout_ms,
                         options.target.kind == TARGET_HTTP ? &http_events : &tag_events, probe, &probe->play);
    if (!error)
        return;
    sluice_conn_close(conn);
    fail(probe, error, strerror(-error));
}

/* Turns need not wait for long: an interrupt is looked for, and what RTSP and RTMP need each
 * second. */
static void on_tick(sluice_timer *timer, void *user) {
    struct probe *probe = user;
    sluice_timer_start(timer, LOOK_MS);
    if (probe->play)
        play_tick(probe->play, sluice_loop_now(probe->loop));
}

/* The server is notified of the end, and has a moment to answer; media may still come meanwhile. */
static int leave(struct probe *probe) {
    const uint64_t began = clock_ms();
    uint64_t passed = 0;
    int error = 0;
    play_stop(probe->play);
    while (!error && probe->play && passed < LEAVE_MS) {
        error = sluice_loop_turn(probe->loop, (int)(LEAVE_MS - passed));
        passed = clock_ms() - began;
    }
    return error;
}

static void read_server(struct probe *probe) {
    struct addrinfo *addresses;
    sluice_timer *ticker = NULL;
    int looked_up = connector_look_up(&options.target, &addresses);
    if (looked_up) {
        fail(probe, -ENOENT, gai_strerror(looked_up));
        return;
    }
    struct connector_job job = {.addresses = addresses, .done = on_connected, .user = probe};
    int error = sluice_timer_new(probe->loop, on_tick, probe, &ticker);
    if (!error) {
        sluice_timer_start(ticker, LOOK_MS);
        error = connector_start(&job, probe->loop);
    }
    while (!error && goes_on(probe))
        error = sluice_loop_turn(probe->loop, -1);
    if (probe->play && !error)
        error = leave(probe);
    if (error)
        fail(probe, error, strerror(-error));
    sluice_timer_free(ticker);
    connector_cancel(&job);
    freeaddrinfo(addresses);
}

static int run(struct probe *probe) {
    static const char *const containers[] = {"FLV", "FLV", "FLV", "HTTP-FLV", "RTSP", "RTMP"};
    struct probe_end end = {.container = containers[options.target.kind]};
    bool remote = options.target.kind != TARGET_FILE && options.target.kind != TARGET_INPUT;
    /* For a live stream, each tag is shown when it arrives. */
    if (remote && options.frames)
        setvbuf(stdout, NULL, _IOLBF, 0);
    probe_print_head(&options);
    if (remote)
        read_server(probe);
    else if (options.target.kind == TARGET_FILE)
        read_file(probe);
    else
        read_input(probe);
    sluice_loop_free(probe->loop);
    probe->loop = NULL;
    if (stats.tags == 0) {
        /* Of a server that has sent something, the end says nothing. */
        bool came = probe->begun && options.target.kind == TARGET_HTTP && probe->error != -ETIMEDOUT;
        say("%s: %s", remote ? options.target.host : options.input,
            !came && *probe->reason ? probe->reason : "this is not FLV, or it is empty");
        return EXIT_NOT_HAD;
    }
    if (probe->error)
        stats_add(&stats, true, "input", STATS_NO_OFFSET, "%s", probe->reason);
    end.size = probe->size;
    if (remote && *probe->reason)
        end.reason = probe->reason;
    probe_print_summary(&options, &stats, &end);
    if (fflush(stdout) < 0 || !is_told()) {
        say("standard output cannot be written to");
        return EXIT_NOT_HAD;
    }
    return stats.errors > 0 ? EXIT_FAULTY : EXIT_SUCCESS;
}

int main(int argc, char **argv) {
    switch (probe_options_parse(argc, argv, &options)) {
    case PROBE_DONE:
        return EXIT_SUCCESS;
    case PROBE_WRONG:
        return EXIT_USAGE;
    case PROBE_RUN:
        break;
    }
    interrupt_watch();
    if (!trust_prepare(&options.trust, &options.target))
        return EXIT_NOT_HAD;
    struct probe probe = {.first_time = -1, .size = -1};
    const sluice_pool_options pool = {
        .size = sizeof pool, .block_size = BLOCK, .slab_blocks = SLAB, .max_blocks = BLOCKS};
    const sluice_loop_options loop = {.size = sizeof loop, .backend = options.backend};
    int error = sluice_pool_new(&pool, &probe.pool);
    if (!error)
        error = sluice_loop_new(probe.pool, &loop, &probe.loop);
    if (error) {
        say("%s", strerror(-error));
        sluice_pool_free(probe.pool);
        trust_release(&options.target);
        return EXIT_NOT_HAD;
    }
    int status = run(&probe);
    sluice_pool_free(probe.pool);
    trust_release(&options.target);
    return status;
}
