/* What sluice-push says: a line each second, and the totals. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/foreign_text.h"
#include "shared/json.h"
#include "tools/push/push.h"
#include "tools/say.h"

void push_note_time(struct push_times *times, uint64_t ms) {
    times->count++;
    times->sum += ms;
    if (ms > times->most)
        times->most = ms;
    times->each[ms < PUSH_LATENCIES ? ms : PUSH_LATENCIES]++;
}

void push_note_failure(struct push *push, const char *format, ...) {
    if (push->failure_count++ >= PUSH_FAILURES)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(push->failures[push->failure_count - 1].text, sizeof push->failures->text, format, arguments);
    va_end(arguments);
}

/* All publishers, or all players, together. */
struct sums {
    uint32_t active, served, failed, begun;
    uint64_t reconnects, failures, frames, late, bytes, lost, unmatched, back, rtp_lost;
};

static void add_senders(const struct push *push, struct sums *sums) {
    for (uint32_t i = 0; i < push->options->publishers; i++) {
        const struct sender *sender = &push->senders[i];
        sums->active += sender->state == SENDER_SENDING || sender->state == SENDER_FINISHING;
        sums->served += sender->state == SENDER_DONE && sender->failures == 0;
        sums->failed += sender->state == SENDER_FAILED;
        sums->reconnects += sender->reconnects;
        sums->failures += sender->failures;
        sums->frames += sender->tags;
        sums->late += sender->late;
        sums->bytes += sender_bytes(sender);
    }
}

static void add_watchers(const struct push *push, bool stalled, struct sums *sums) {
    for (uint32_t i = 0; i < push->watcher_count; i++) {
        const struct watcher *watcher = &push->watchers[i];
        if (watcher->stalled != stalled)
            continue;
        sums->active += watcher->state == WATCHER_PLAYING;
        sums->begun += watcher->has_begun;
        sums->served += watcher->state == WATCHER_DONE && watcher->started && watcher->failures == 0 &&
                        watcher->follow.lost == 0 && watcher->rtp_lost == 0 && watcher->back == 0;
        sums->failed += watcher->state == WATCHER_FAILED;
        sums->reconnects += watcher->reconnects;
        sums->failures += watcher->failures;
        sums->frames += watcher->frames;
        sums->lost += watcher->follow.lost;
        sums->unmatched += watcher->follow.unmatched;
        sums->back += watcher->back;
        sums->rtp_lost += watcher->rtp_lost;
        sums->bytes += watcher_bytes(watcher);
    }
}

/* In at most so many milliseconds were so many percent of them. */
static uint64_t percentile(const struct push_times *times, unsigned percent) {
    uint64_t seen = 0;
    for (uint64_t ms = 0; ms < PUSH_LATENCIES; ms++) {
        seen += times->each[ms];
        if (seen * 100 >= times->count * percent)
            return ms;
    }
    return times->most;
}

static double mean(const struct push_times *times) {
    return times->count ? (double)times->sum / (double)times->count : 0;
}

static double mbit(uint64_t bytes, uint64_t ms) {
    return ms ? (double)bytes * 8 / 1000 / (double)ms : 0;
}

static void print_json(struct json *json) {
    if (json->failed)
        say("out of memory");
    else
        printf("%.*s\n", (int)json->length, json->text);
    fflush(stdout);
    free(json->text);
}

void push_report_second(struct push *push) {
    struct sums sent = {0}, played = {0}, stalled = {0};
    uint64_t now = sluice_loop_now(push->loop), ms = now - push->reported_at;
    add_senders(push, &sent);
    add_watchers(push, false, &played);
    add_watchers(push, true, &stalled);
    double out = mbit(sent.bytes - push->last_sent, ms), in = mbit(played.bytes - push->last_received, ms);
    push->last_sent = sent.bytes;
    push->last_received = played.bytes;
    push->reported_at = now;
    if (push->options->quiet)
        return;
    if (push->options->json) {
        struct json json = {0};
        json_open(&json, NULL, '{');
        json_put_string(&json, "type", "second");
        json_put_real(&json, "seconds", (double)(now - push->begun_at) / 1000);
        json_put_unsigned(&json, "publishing", sent.active);
        json_put_real(&json, "sent_mbit_per_s", out);
        json_put_unsigned(&json, "late", sent.late);
        json_put_unsigned(&json, "playing", played.active);
        json_put_real(&json, "received_mbit_per_s", in);
        json_put_unsigned(&json, "lost", played.lost + played.rtp_lost);
        json_put_unsigned(&json, "stalled", stalled.active);
        json_put_unsigned(&json, "failures", sent.failures + played.failures);
        json_close(&json, '}');
        print_json(&json);
        return;
    }
    printf("%6.1f s", (double)(now - push->begun_at) / 1000);
    if (push->options->publishers > 0)
        printf("  %" PRIu32 " publishing, %.1f Mbit/s, %" PRIu64 " late", sent.active, out, sent.late);
    if (push->options->players > 0)
        printf("  %" PRIu32 " playing, %.1f Mbit/s, %" PRIu64 " lost", played.active, in,
               played.lost + played.rtp_lost);
    if (push->options->stalled > 0)
        printf("  %" PRIu32 " stalled", stalled.active);
    if (sent.failures + played.failures > 0)
        printf("  %" PRIu64 " failures", sent.failures + played.failures);
    putchar('\n');
    fflush(stdout);
}

static void put_times(struct json *json, const char *name, const struct push_times *times) {
    json_open(json, name, '{');
    json_put_unsigned(json, "samples", times->count);
    if (times->count > 0) {
        json_put_real(json, "mean", mean(times));
        json_put_unsigned(json, "p50", percentile(times, 50));
        json_put_unsigned(json, "p99", percentile(times, 99));
        json_put_unsigned(json, "most", times->most);
    }
    json_close(json, '}');
}

static void put_senders(struct json *json, const struct push *push, const struct sums *sums, uint64_t ms) {
    json_open(json, "publishers", '{');
    json_put_unsigned(json, "count", push->options->publishers);
    json_put_unsigned(json, "served", sums->served);
    json_put_unsigned(json, "failed", sums->failed);
    json_put_unsigned(json, "reconnects", sums->reconnects);
    json_put_unsigned(json, "failures", sums->failures);
    json_put_unsigned(json, "tags", sums->frames);
    json_put_unsigned(json, "late", sums->late);
    json_put_unsigned(json, "bytes", sums->bytes);
    json_put_real(json, "mbit_per_s", mbit(sums->bytes, ms));
    json_close(json, '}');
}

static void put_watchers(struct json *json, const struct push *push, const struct sums *sums, uint64_t ms) {
    json_open(json, "players", '{');
    json_put_unsigned(json, "count", push->options->players);
    json_put_unsigned(json, "served", sums->served);
    json_put_unsigned(json, "failed", sums->failed);
    json_put_unsigned(json, "reconnects", sums->reconnects);
    json_put_unsigned(json, "failures", sums->failures);
    json_put_unsigned(json, "frames", sums->frames);
    json_put_unsigned(json, "lost", sums->lost);
    json_put_unsigned(json, "rtp_lost", sums->rtp_lost);
    json_put_unsigned(json, "unmatched", sums->unmatched);
    json_put_unsigned(json, "timestamps_back", sums->back);
    json_put_unsigned(json, "bytes", sums->bytes);
    json_put_real(json, "mbit_per_s", mbit(sums->bytes, ms));
    put_times(json, "startup_ms", &push->startup);
    put_times(json, "latency_ms", &push->latency);
    json_close(json, '}');
}

/* Payload bytes copied while sending; should be 0. */
static uint64_t copied(const struct push *push) {
    sluice_pool_stats stats = {.size = sizeof stats};
    if (push->media)
        sluice_pool_get_stats(push->media->pool, &stats);
    return stats.bytes_copied;
}

static void print_total_json(const struct push *push, const struct sums *sent, const struct sums *played,
                             const struct sums *stalled, bool served) {
    struct json json = {0};
    uint64_t ms = push->ended_at - push->begun_at;
    json_open(&json, NULL, '{');
    json_put_string(&json, "type", "total");
    json_put_real(&json, "seconds", (double)ms / 1000);
    json_put_bool(&json, "served", served);
    put_senders(&json, push, sent, ms);
    put_watchers(&json, push, played, ms);
    json_open(&json, "stalled", '{');
    json_put_unsigned(&json, "count", push->options->stalled);
    json_put_unsigned(&json, "begun", stalled->begun);
    json_close(&json, '}');
    json_put_unsigned(&json, "payload_bytes_copied", copied(push));
    json_open(&json, "failures", '[');
    for (uint32_t i = 0; i < push->failure_count && i < PUSH_FAILURES; i++)
        json_put_string(&json, NULL, push->failures[i].text);
    json_close(&json, ']');
    json_close(&json, '}');
    print_json(&json);
}

static void print_times(const char *name, const struct push_times *times) {
    if (times->count > 0)
        printf("  %s: mean %.1f ms, median %" PRIu64 ", 99 %% within %" PRIu64 ", most %" PRIu64 "\n", name,
               mean(times), percentile(times, 50), percentile(times, 99), times->most);
}

static void print_total(const struct push *push, const struct sums *sent, const struct sums *played,
                        const struct sums *stalled) {
    uint64_t ms = push->ended_at - push->begun_at;
    printf("total, %.1f s\n", (double)ms / 1000);
    if (push->options->publishers > 0)
        printf("  publishers: %" PRIu32 " of %" PRIu32 " served; %" PRIu64 " tags, %" PRIu64
               " bytes, %.1f Mbit/s, %" PRIu64 " late, %" PRIu64 " reconnects, %" PRIu64 " failures\n",
               sent->served, push->options->publishers, sent->frames, sent->bytes, mbit(sent->bytes, ms), sent->late,
               sent->reconnects, sent->failures);
    if (push->options->players > 0)
        printf("  players: %" PRIu32 " of %" PRIu32 " served; %" PRIu64 " frames, %" PRIu64
               " bytes, %.1f Mbit/s, %" PRIu64 " lost, %" PRIu64 " unknown, %" PRIu64 " timestamps back, %" PRIu64
               " reconnects, %" PRIu64 " failures\n",
               played->served, push->options->players, played->frames, played->bytes, mbit(played->bytes, ms),
               played->lost + played->rtp_lost, played->unmatched, played->back, played->reconnects, played->failures);
    print_times("start", &push->startup);
    print_times("latency", &push->latency);
    if (push->options->stalled > 0)
        printf("  stalled: %" PRIu32 " of %" PRIu32 " had begun\n", stalled->begun, push->options->stalled);
    for (uint32_t i = 0; i < push->failure_count && i < PUSH_FAILURES; i++) {
        fputs("  ", stdout);
        foreign_print(stdout, push->failures[i].text);
        putchar('\n');
    }
    if (push->failure_count > PUSH_FAILURES)
        printf("  and %" PRIu32 " failures more\n", push->failure_count - PUSH_FAILURES);
}

bool push_report_total(struct push *push) {
    struct sums sent = {0}, played = {0}, stalled = {0};
    add_senders(push, &sent);
    add_watchers(push, false, &played);
    add_watchers(push, true, &stalled);
    bool served = sent.served == push->options->publishers && played.served == push->options->players &&
                  stalled.begun == push->options->stalled;
    if (push->options->json)
        print_total_json(push, &sent, &played, &stalled, served);
    else
        print_total(push, &sent, &played, &stalled);
    return served;
}
