#include "daemon/pull/pull_state.h"

#include <errno.h>
#include <string.h>

const char *pull_state_name(enum pull_state state) {
    static const char *const names[] = {
        [PULL_IDLE] = "idle",
        [PULL_BACKOFF] = "waiting",
        [PULL_CONNECTING] = "connecting",
        [PULL_NEGOTIATING] = "negotiating",
        [PULL_PLAYING] = "playing",
        [PULL_STOPPED] = "stopped",
    };
    return names[state];
}

static void enter(struct pull_machine *machine, enum pull_state state, uint64_t now) {
    machine->state = state;
    machine->since = now;
}

void pull_machine_init(struct pull_machine *machine, bool on_demand, uint64_t now) {
    *machine = (struct pull_machine){.state = PULL_IDLE, .on_demand = on_demand, .since = now, .wanted_at = now};
}

static enum pull_order begin(struct pull_machine *machine, uint64_t now) {
    machine->redirects = 0;
    enter(machine, PULL_CONNECTING, now);
    return PULL_CONNECT;
}

static enum pull_order tick_playing(struct pull_machine *machine, uint64_t now) {
    if (now - machine->media_at >= PULL_SILENCE_MS)
        return PULL_GIVE_UP;
    if (now - machine->asked_at < machine->keep_alive_ms)
        return PULL_NOTHING;
    machine->asked_at = now;
    return PULL_KEEP_ALIVE;
}

enum pull_order pull_tick(struct pull_machine *machine, uint64_t now, bool wanted) {
    if (wanted || !machine->on_demand)
        machine->wanted_at = now;
    bool unwanted = now - machine->wanted_at >= PULL_LINGER_MS;
    switch (machine->state) {
    case PULL_STOPPED:
        return PULL_NOTHING;
    case PULL_IDLE:
        return wanted || !machine->on_demand ? begin(machine, now) : PULL_NOTHING;
    default:
        break;
    }
    if (unwanted) {
        machine->failures = 0;
        enter(machine, PULL_IDLE, now);
        return PULL_LEAVE;
    }
    if (machine->state == PULL_BACKOFF)
        return now >= machine->retry_at ? begin(machine, now) : PULL_NOTHING;
    if (machine->state == PULL_PLAYING)
        return tick_playing(machine, now);
    return now - machine->since >= PULL_STEP_MS ? PULL_GIVE_UP : PULL_NOTHING;
}

enum pull_order pull_wanted(struct pull_machine *machine, uint64_t now) {
    machine->wanted_at = now;
    return machine->state == PULL_IDLE ? begin(machine, now) : PULL_NOTHING;
}

void pull_connected(struct pull_machine *machine, uint64_t now) {
    machine->keep_alive_ms = UINT32_MAX;
    enter(machine, PULL_NEGOTIATING, now);
}

void pull_step_begun(struct pull_machine *machine, uint64_t now) {
    if (machine->state == PULL_NEGOTIATING)
        machine->since = now;
}

void pull_started(struct pull_machine *machine, uint64_t now) {
    machine->media_at = machine->asked_at = now;
    enter(machine, PULL_PLAYING, now);
}

void pull_set_timeout(struct pull_machine *machine, uint32_t timeout_s) {
    /* Half of it: one request may be lost with its connection's time, and the next still comes in
     * time. */
    machine->keep_alive_ms = timeout_s > 86400 ? 86400 * 500 : timeout_s < 2 ? 1000 : timeout_s * 500;
}

void pull_media(struct pull_machine *machine, uint64_t now) {
    machine->media_at = now;
}

int pull_redirected(struct pull_machine *machine, uint64_t now) {
    if (machine->redirects == PULL_REDIRECTS)
        return -ELOOP;
    machine->redirects++;
    enter(machine, PULL_CONNECTING, now);
    return 0;
}

void pull_failed(struct pull_machine *machine, uint64_t now, uint32_t random) {
    if (machine->state == PULL_PLAYING && now - machine->since >= PULL_STABLE_MS)
        machine->failures = 0;
    uint32_t wait = PULL_BACKOFF_MS;
    for (unsigned i = 0; i < machine->failures && wait < PULL_BACKOFF_MOST_MS; i++)
        wait *= 2;
    if (wait > PULL_BACKOFF_MOST_MS)
        wait = PULL_BACKOFF_MOST_MS;
    if (machine->failures < UINT32_MAX)
        machine->failures++;
    machine->retry_at = now + wait + random % (wait / 4 + 1);
    enter(machine, PULL_BACKOFF, now);
}

void pull_stop(struct pull_machine *machine, uint64_t now) {
    enter(machine, PULL_STOPPED, now);
}

void pull_resume(struct pull_machine *machine, uint64_t now) {
    if (machine->state == PULL_STOPPED)
        pull_machine_init(machine, machine->on_demand, now);
}
