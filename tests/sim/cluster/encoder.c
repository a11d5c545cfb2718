/* Encoders, and what a worker does with their claims. */
#include "sim/cluster/cluster.h"

static uint64_t keep_ms(void) {
    return sim.same_name == SAME_NAME_RESUME ? 3000 : 0;
}

static void release(struct process *process, const struct encoder *encoder, uint64_t epoch, uint64_t ms) {
    struct job *job = job_new(process, CLUSTER_RELEASE, encoder->stream);
    job->job.epoch = epoch;
    job->job.keep_ms = ms;
    job->job.host.bytes[15] = (uint8_t)encoder->number;
    process_ask(process, job);
}

void encoder_end(struct encoder *encoder, uint64_t again_ms) {
    encoder->state = ENCODER_IDLE;
    encoder->at = NULL;
    encoder->attempt++;
    after_ms(again_ms, encoder_try, encoder);
}

static void claim(struct encoder *encoder) {
    struct process *process = encoder->at;
    struct job *job = job_new(process, CLUSTER_CLAIM, encoder->stream);
    job->encoder = encoder;
    job->attempt = encoder->attempt;
    job->job.same_name = sim.same_name;
    job->job.host.bytes[15] = (uint8_t)encoder->number;
    job->job.epoch = process->edges[encoder->stream].seen;
    world_trace("claims", process->number, encoder->number, 0);
    process_ask(process, job);
}

void encoder_try(void *user) {
    struct encoder *encoder = user;
    if (encoder->state != ENCODER_IDLE || !encoder->is_wanted || sim.is_over)
        return;
    struct process *process = encoder->goes_to ? process_of(encoder->goes_to) : process_any();
    if (!process || !process_runs(process)) {
        after_ms(300, encoder_try, encoder);
        return;
    }
    encoder->state = ENCODER_CLAIMING;
    encoder->at = process;
    encoder->attempt++;
    claim(encoder);
}

/* The publisher of a stream is ended by the daemon. */
static void end_publisher(struct process *process, unsigned stream) {
    struct slot *slot = &process->slots[stream];
    struct encoder *encoder = slot->publisher;
    if (!encoder)
        return;
    slot->publisher = NULL;
    edge_close(process, stream);
    release(process, encoder, slot->epoch, 0);
    encoder_end(encoder, world_between(200, 3000));
}

/* It goes by itself: to another node, mostly. */
void encoder_leave(struct encoder *encoder) {
    struct process *process = encoder->at;
    if (encoder->state == ENCODER_LIVE && !process_runs(process))
        return;
    if (encoder->state == ENCODER_LIVE) {
        struct slot *slot = &process->slots[encoder->stream];
        slot->publisher = NULL;
        edge_close(process, encoder->stream);
        release(process, encoder, slot->epoch, keep_ms());
    }
    if (encoder->state != ENCODER_IDLE)
        encoder_end(encoder, world_between(0, 800));
}

void encoder_claimed(struct job *job) {
    struct process *process = job->process;
    struct encoder *encoder = job->encoder;
    struct slot *slot = &process->slots[encoder->stream];
    bool is_old = encoder->attempt != job->attempt;
    uint64_t epoch = job->job.location.epoch;
    if (job->job.error) {
        sim.refused++;
        encoder->refusals += !is_old;
        if (!is_old)
            encoder_end(encoder, world_between(100, 1500));
        return;
    }
    sim.granted++;
    /* A pull has shown that or a higher one meanwhile. */
    if (!is_old && !slot->publisher && edge_has_seen(process, encoder->stream, epoch)) {
        claim(encoder);
        release(process, encoder, epoch, 0);
        return;
    }
    /* The node decides first; among its own publishers, the worker. */
    if (is_old || (slot->publisher && sim.same_name == SAME_NAME_REFUSE)) {
        release(process, encoder, epoch, 0);
        if (!is_old)
            encoder_end(encoder, world_between(500, 1500));
        return;
    }
    end_publisher(process, encoder->stream);
    *slot = (struct slot){.publisher = encoder, .epoch = epoch};
    encoder->state = ENCODER_LIVE;
    world_trace("live", process->number, encoder->number, (int64_t)epoch);
    edge_drop(process, encoder->stream);
    edge_accept(process, encoder->stream, epoch, cluster_node_incarnation(process->node));
}

void slot_changed(struct process *process, unsigned stream, enum cluster_change change,
                  const struct cluster_location *location) {
    struct slot *slot = &process->slots[stream];
    switch (change) {
    case CLUSTER_SUPERSEDED:
        sim.superseded++;
        end_publisher(process, stream);
        edge_consider(process, stream, location);
        break;
    case CLUSTER_EPOCH:
        if (slot->publisher && location->epoch > slot->epoch) {
            slot->epoch = location->epoch;
            edge_accept(process, stream, slot->epoch, cluster_node_incarnation(process->node));
        }
        break;
    case CLUSTER_MOVED:
    case CLUSTER_GONE:
        edge_consider(process, stream, location);
        break;
    }
}
