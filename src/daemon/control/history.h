/*
 * The load of the last hour: a sample every ten seconds, in memory that is allocated at the start.
 * The control plane's thread.
 */
#ifndef SLUICED_HISTORY_H
#define SLUICED_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/control/snapshot.h"

enum { HISTORY_SAMPLES = 360, HISTORY_SECONDS = 10 };

/* Not all workers have answered: a part of the sums would look like a fall. */
struct history_sample {
    bool is_whole; /* if so: */
    double received_bits_per_second, sent_bits_per_second;
    uint64_t dropped; /* frames that players were not sent, since the sample before */
    uint64_t lost;    /* frames of publishers that found no memory, likewise */
};

struct history;

/* 0, -ENOMEM */
int history_new(size_t workers, struct history **ret_history);

/* NULL is allowed. */
void history_free(struct history *history);

/*
 * Adds a sample, of the time since the snapshots before; the first ones are where that begins. The
 * oldest sample is dropped where there are HISTORY_SAMPLES. Their lists may be empty.
 */
void history_add(struct history *history, const struct snapshots *snapshots);

/* @at: 0 is the oldest. */
size_t history_count(const struct history *history);
const struct history_sample *history_at(const struct history *history, size_t at);

size_t history_workers(const struct history *history);

/* The share of a processor that the worker's thread has used; negative: unknown. */
double history_cpu(const struct history *history, size_t at, size_t worker);

#endif
