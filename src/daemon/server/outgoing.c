#include "daemon/server/outgoing.h"

#include <errno.h>
#include <string.h>

const char *outgoing_state_name(enum outgoing_state state) {
    static const char *const names[] = {
        [OUTGOING_IDLE] = "idle",
        [OUTGOING_BACKOFF] = "waiting",
        [OUTGOING_CONNECTING] = "connecting",
        [OUTGOING_NEGOTIATING] = "negotiating",
        [OUTGOING_ACTIVE] = "playing",
        [OUTGOING_STOPPED] = "stopped",
    };
    return names[state];
}

static void enter(struct outgoing *machine, enum outgoing_state state, uint64_t now) {
    machine->state = state;
    machine->since = now;
}

void outgoing_init(struct outgoing *machine, bool on_demand, uint64_t now) {
    *machine = (struct outgoing){.state = OUTGOING_IDLE, .on_demand = on_demand, .since = now, .wanted_at = now};
}

static enum outgoing_order begin(struct outgoing *machine, uint64_t now) {
    machine->redirects = 0;
    enter(machine, OUTGOING_CONNECTING, now);
    return OUTGOING_CONNECT;
}

static enum outgoing_order tick_active(struct outgoing *machine, uint64_t now) {
    if (now - machine->media_at >= OUTGOING_SILENCE_MS)
        return OUTGOING_GIVE_UP;
    if (machine->keep_alive_ms == OUTGOING_NO_KEEP_ALIVE || now - machine->asked_at < machine->keep_alive_ms)
        return OUTGOING_NOTHING;
    machine->asked_at = now;
    return OUTGOING_KEEP_ALIVE;
}

enum outgoing_order outgoing_tick(struct outgoing *machine, uint64_t now, bool wanted) {
    if (wanted || !machine->on_demand)
        machine->wanted_at = now;
    bool unwanted = now - machine->wanted_at >= OUTGOING_LINGER_MS;
    switch (machine->state) {
    case OUTGOING_STOPPED:
        return OUTGOING_NOTHING;
    case OUTGOING_IDLE:
        return wanted || !machine->on_demand ? begin(machine, now) : OUTGOING_NOTHING;
    default:
        break;
    }
    if (unwanted) {
        machine->failures = 0;
        enter(machine, OUTGOING_IDLE, now);
        return OUTGOING_LEAVE;
    }
    if (machine->state == OUTGOING_BACKOFF)
        return now >= machine->retry_at ? begin(machine, now) : OUTGOING_NOTHING;
    if (machine->state == OUTGOING_ACTIVE)
        return tick_active(machine, now);
    return now - machine->since >= OUTGOING_STEP_MS ? OUTGOING_GIVE_UP : OUTGOING_NOTHING;
}

void outgoing_log(const struct outgoing *machine, const struct outgoing_words *words) {
    const enum outgoing_state state = machine->state;
    const char *name = state == OUTGOING_ACTIVE ? words->active : outgoing_state_name(state);
    const char *stream = words->stream, *place = words->place, *direction = words->direction;
    const enum log_level level = state == OUTGOING_ACTIVE ? LOG_INFO
                                 : state == OUTGOING_IDLE ? words->waiting
                                                          : LOG_DEBUG;
    if (state == OUTGOING_NEGOTIATING)
        LOG(level, words->event, {"stream", stream}, {direction, place}, {"state", name},
            {"step", words->step ? words->step : "-"});
    else if (state != OUTGOING_BACKOFF)
        LOG(level, words->event, {"stream", stream}, {direction, place}, {"state", name});
    else
        LOG(LOG_WARNING, words->event, {"stream", stream}, {direction, place}, {"state", name},
            {"reason", words->reason}, {"failures", log_unsigned(machine->failures).text},
            {"retry_ms", log_unsigned(machine->retry_at - machine->since).text});
}

enum outgoing_order outgoing_wanted(struct outgoing *machine, uint64_t now) {
    machine->wanted_at = now;
    return machine->state == OUTGOING_IDLE ? begin(machine, now) : OUTGOING_NOTHING;
}

void outgoing_connected(struct outgoing *machine, uint64_t now) {
    machine->keep_alive_ms = OUTGOING_NO_KEEP_ALIVE;
    enter(machine, OUTGOING_NEGOTIATING, now);
}

void outgoing_step_begun(struct outgoing *machine, uint64_t now) {
    if (machine->state == OUTGOING_NEGOTIATING)
        machine->since = now;
}

void outgoing_started(struct outgoing *machine, uint64_t now) {
    machine->media_at = machine->asked_at = now;
    enter(machine, OUTGOING_ACTIVE, now);
}

void outgoing_set_timeout(struct outgoing *machine, uint32_t timeout_s) {
    /* Half of it: one request may be lost with its connection's time, and the next still comes in
     * time. */
    machine->keep_alive_ms = timeout_s > 86400 ? 86400 * 500 : timeout_s < 2 ? 1000 : timeout_s * 500;
}

void outgoing_media(struct outgoing *machine, uint64_t now) {
    machine->media_at = now;
}

int outgoing_redirected(struct outgoing *machine, uint64_t now) {
    if (machine->redirects == OUTGOING_REDIRECTS)
        return -ELOOP;
    machine->redirects++;
    enter(machine, OUTGOING_CONNECTING, now);
    return 0;
}

void outgoing_failed(struct outgoing *machine, uint64_t now, uint32_t random) {
    if (machine->state == OUTGOING_ACTIVE && now - machine->since >= OUTGOING_STABLE_MS)
        machine->failures = 0;
    uint32_t wait = OUTGOING_BACKOFF_MS;
    for (unsigned i = 0; i < machine->failures && wait < OUTGOING_BACKOFF_MOST_MS; i++)
        wait *= 2;
    if (wait > OUTGOING_BACKOFF_MOST_MS)
        wait = OUTGOING_BACKOFF_MOST_MS;
    if (machine->failures < UINT32_MAX)
        machine->failures++;
    machine->retry_at = now + wait + random % (wait / 4 + 1);
    enter(machine, OUTGOING_BACKOFF, now);
}

void outgoing_stop(struct outgoing *machine, uint64_t now) {
    enter(machine, OUTGOING_STOPPED, now);
}

void outgoing_resume(struct outgoing *machine, uint64_t now) {
    if (machine->state == OUTGOING_STOPPED)
        outgoing_init(machine, machine->on_demand, now);
}
