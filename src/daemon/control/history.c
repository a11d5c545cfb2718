#include "daemon/control/history.h"

#include <errno.h>
#include <stdlib.h>

enum { CPU_UNKNOWN = UINT16_MAX, CPU_ONE = 1000 };

/* The last values of a worker, which only go up. */
struct history_mark {
    bool is_set;
    uint64_t uptime_ms, received, sent, dropped, lost, cpu_ns;
};

struct history {
    size_t workers, count, next; /* next: the place of the next sample */
    bool begun;
    struct history_mark *marks; /* of each worker */
    uint16_t *cpu;              /* thousandths of a processor: of each sample, for each worker */
    struct history_sample samples[HISTORY_SAMPLES];
};

int history_new(size_t workers, struct history **ret_history) {
    struct history *history = calloc(1, sizeof *history);
    if (!history)
        return -ENOMEM;
    history->workers = workers;
    history->marks = calloc(workers, sizeof *history->marks);
    history->cpu = calloc(workers * HISTORY_SAMPLES, sizeof *history->cpu);
    if (!history->marks || !history->cpu) {
        history_free(history);
        return -ENOMEM;
    }
    *ret_history = history;
    return 0;
}

void history_free(struct history *history) {
    if (!history)
        return;
    free(history->marks);
    free(history->cpu);
    free(history);
}

static struct history_mark mark_of(const struct snapshot *snapshot) {
    struct history_mark mark = {
        .is_set = true,
        .uptime_ms = snapshot->uptime_ms,
        .received = snapshot->totals.bytes_received,
        .sent = snapshot->totals.bytes_sent,
        .lost = snapshot->totals.frames_lost,
        .cpu_ns = snapshot->cpu_ns,
    };
    for (size_t cause = 0; cause < DROP_CAUSES; cause++)
        mark.dropped += snapshot->totals.dropped[cause];
    return mark;
}

static uint64_t since(uint64_t now, uint64_t before) {
    return now > before ? now - before : 0;
}

/* Adds what one worker has done since its mark: its CPU in thousandths of a processor. */
static uint16_t add_worker(struct history_sample *sample, const struct history_mark *before,
                           const struct history_mark *now) {
    const uint64_t ms = since(now->uptime_ms, before->uptime_ms);
    if (!before->is_set || ms == 0) {
        sample->is_whole = false;
        return CPU_UNKNOWN;
    }
    sample->received_bits_per_second += (double)since(now->received, before->received) * 8000 / (double)ms;
    sample->sent_bits_per_second += (double)since(now->sent, before->sent) * 8000 / (double)ms;
    sample->dropped += since(now->dropped, before->dropped);
    sample->lost += since(now->lost, before->lost);
    const uint64_t cpu = since(now->cpu_ns, before->cpu_ns) * CPU_ONE / (ms * 1000000);
    return (uint16_t)(cpu < CPU_UNKNOWN ? cpu : CPU_UNKNOWN - 1);
}

void history_add(struct history *history, const struct snapshots *snapshots) {
    struct history_sample sample = {.is_whole = true};
    uint16_t *cpu = &history->cpu[history->next * history->workers];
    for (size_t i = 0; i < history->workers; i++) {
        if (!snapshots->list[i]) {
            sample.is_whole = false;
            cpu[i] = CPU_UNKNOWN;
            continue;
        }
        const struct history_mark now = mark_of(snapshots->list[i]);
        cpu[i] = add_worker(&sample, &history->marks[i], &now);
        history->marks[i] = now;
    }
    if (!history->begun) {
        history->begun = true;
        return;
    }
    history->samples[history->next] = sample;
    history->next = (history->next + 1) % HISTORY_SAMPLES;
    history->count += history->count < HISTORY_SAMPLES;
}

static size_t place_of(const struct history *history, size_t at) {
    return (history->next + HISTORY_SAMPLES - history->count + at) % HISTORY_SAMPLES;
}

size_t history_count(const struct history *history) {
    return history->count;
}

const struct history_sample *history_at(const struct history *history, size_t at) {
    return &history->samples[place_of(history, at)];
}

size_t history_workers(const struct history *history) {
    return history->workers;
}

double history_cpu(const struct history *history, size_t at, size_t worker) {
    const uint16_t cpu = history->cpu[place_of(history, at) * history->workers + worker];
    return cpu == CPU_UNKNOWN ? -1 : (double)cpu / CPU_ONE;
}
