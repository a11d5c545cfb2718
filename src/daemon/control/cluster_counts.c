#include "daemon/control/cluster_counts.h"

#include <errno.h>

#include "shared/clock.h"

const char *cluster_claim_result_name(enum cluster_claim_result result) {
    static const char *const names[] = {
        [CLUSTER_CLAIM_GRANTED] = "granted",
        [CLUSTER_CLAIM_WORD] = "granted_without_engine",
        [CLUSTER_CLAIM_HELD] = "held",
        [CLUSTER_CLAIM_RESERVED] = "reserved",
        [CLUSTER_CLAIM_UNAVAILABLE] = "unavailable",
        [CLUSTER_CLAIM_FAILED] = "failed",
    };
    return names[result];
}

const char *cluster_lookup_result_name(enum cluster_lookup_result result) {
    static const char *const names[] = {
        [CLUSTER_LOOKUP_FOUND] = "found",
        [CLUSTER_LOOKUP_ABSENT] = "absent",
        [CLUSTER_LOOKUP_UNAVAILABLE] = "unavailable",
        [CLUSTER_LOOKUP_FAILED] = "failed",
    };
    return names[result];
}

const char *cluster_command_result_name(enum cluster_command_result result) {
    static const char *const names[] = {
        [CLUSTER_COMMAND_OK] = "ok", [CLUSTER_COMMAND_ERROR] = "error", [CLUSTER_COMMAND_UNANSWERED] = "unanswered"};
    return names[result];
}

const char *cluster_verb_name(enum cluster_verb verb) {
    static const char *const names[] = {
        [CLUSTER_RENEW] = "renew",   [CLUSTER_TAKE] = "take", [CLUSTER_DROP] = "drop",
        [CLUSTER_FIND] = "find",     [CLUSTER_LIST] = "list", [CLUSTER_LEAVE] = "leave",
        [CLUSTER_NOTIFY] = "notify", [CLUSTER_BAN] = "ban",   [CLUSTER_LIST_BANS] = "list_bans",
    };
    _Static_assert(sizeof names / sizeof *names == CLUSTER_VERBS, "each verb has a name");
    return names[verb];
}

static enum cluster_claim_result claim_result(int error, bool is_down) {
    switch (error) {
    case 0:
        return is_down ? CLUSTER_CLAIM_WORD : CLUSTER_CLAIM_GRANTED;
    case -EEXIST:
        return CLUSTER_CLAIM_HELD;
    case -EBUSY:
        return CLUSTER_CLAIM_RESERVED;
    case -EHOSTDOWN:
        return CLUSTER_CLAIM_UNAVAILABLE;
    default:
        return CLUSTER_CLAIM_FAILED;
    }
}

static enum cluster_lookup_result lookup_result(const struct cluster_job *job) {
    if (!job->error)
        return *job->location.node ? CLUSTER_LOOKUP_FOUND : CLUSTER_LOOKUP_ABSENT;
    return job->error == -EHOSTDOWN ? CLUSTER_LOOKUP_UNAVAILABLE : CLUSTER_LOOKUP_FAILED;
}

void cluster_counts_add(struct cluster_counts *counts, const struct cluster_job *job, bool is_down) {
    if (job->question == CLUSTER_CLAIM) {
        counts->claims[claim_result(job->error, is_down)]++;
    } else if (job->question == CLUSTER_LOCATE || job->question == CLUSTER_LOOK) {
        counts->lookups[lookup_result(job)]++;
        latency_add(&counts->lookup, clock_ns() - job->asked_ns);
    }
}
