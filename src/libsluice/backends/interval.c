#include "backends/interval.h"

#include "memory/clock.h"

static uint64_t slot_now(void) {
    return clock_ns() / 1000 / INTERVAL_SLOT_US;
}

static io_queue *queue_of(interval_wheel *wheel, const sluice_io *io) {
    return io->slot == INTERVAL_DUE ? &wheel->due : &wheel->slots[io->slot];
}

/* Becomes due in so many slots; 0: in the next turn. */
static void add(interval_wheel *wheel, sluice_io *io, uint32_t slots) {
    uint64_t now = slot_now();
    /* An empty wheel has not been looked at for a while. */
    if (wheel->count == 0)
        wheel->passed = now;
    io->slot = slots > 0 ? (uint8_t)((now + slots) % INTERVAL_SLOTS) : INTERVAL_DUE;
    io_queue_push(queue_of(wheel, io), io);
    wheel->count++;
}

void interval_add_behind(interval_wheel *wheel, sluice_io *io, size_t n, bool full) {
    uint32_t slots = io->interval;
    if (full)
        slots = 0;
    else if (n >= INTERVAL_MUCH)
        slots = 1;
    else if (!io->spread)
        slots = 1 + wheel->begun++ % slots;
    io->spread |= !full;
    add(wheel, io, slots);
}

void interval_remove(interval_wheel *wheel, sluice_io *io) {
    io_queue_remove(queue_of(wheel, io), io);
    wheel->count--;
}

uint32_t interval_look(interval_wheel *wheel) {
    if (wheel->count == 0)
        return 0;
    uint64_t now = slot_now();
    /* After a long turn, or a stop of the process, each is due once. */
    if (now - wheel->passed > INTERVAL_SLOTS)
        wheel->passed = now - INTERVAL_SLOTS;
    while (wheel->passed < now) {
        io_queue *slot = &wheel->slots[++wheel->passed % INTERVAL_SLOTS];
        for (sluice_io *io; (io = slot->first); io_queue_push(&wheel->due, io)) {
            io_queue_remove(slot, io);
            io->slot = INTERVAL_DUE;
        }
    }
    return wheel->due.count < INTERVAL_TURN ? wheel->due.count : INTERVAL_TURN;
}

static void prefetch(const sluice_io *io) {
    enum { LINE = 64 };
    for (size_t at = 0; io && at < sizeof *io; at += LINE)
        __builtin_prefetch((const char *)io + at, 1);
}

sluice_io *interval_take(interval_wheel *wheel) {
    sluice_io *io = wheel->due.first;
    if (!io)
        return NULL;
    interval_remove(wheel, io);
    /* They have been left alone for an interval. */
    if (wheel->due.first)
        prefetch(wheel->due.first->queue_next);
    return io;
}

int64_t interval_left(const interval_wheel *wheel) {
    if (wheel->count == 0)
        return -1;
    if (wheel->due.count > 0)
        return 0;
    uint64_t next = wheel->passed + 1;
    while (!wheel->slots[next % INTERVAL_SLOTS].first)
        next++;
    uint64_t now = clock_ns() / 1000, due = next * INTERVAL_SLOT_US;
    return due > now ? (int64_t)(due - now) : 0;
}
