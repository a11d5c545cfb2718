#include "sim/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REMEMBERED = 64 /* more would push what is played out of the cache */, SHOWN = 60 };

struct event {
    uint64_t due, number;
    world_fn *call;
    void *user;
};

struct line {
    uint64_t now;
    const char *what;
    int64_t a, b, c;
};

static struct {
    uint64_t seed, chance, now, digest;
    bool calm, traces;
    uint32_t rates[FAULTS];
    struct event *events; /* a heap, the earliest first */
    size_t count, capacity;
    uint64_t events_made;
    struct line lines[REMEMBERED];
    uint64_t lines_made;
} world;

static uint64_t happened[FAULTS];

static const char *world_command = "tools/simulate";

void world_set_command(const char *command) {
    world_command = command;
}

void *__real_malloc(size_t size);
void *__real_realloc(void *memory, size_t size);
void __real_free(void *memory);

void *world_allocate(size_t size) {
    void *memory = __real_malloc(size);
    if (!memory)
        abort();
    return memset(memory, 0, size);
}

void *world_grow(void *memory, size_t size) {
    memory = __real_realloc(memory, size);
    if (!memory)
        abort();
    return memory;
}

void world_append(uint8_t **bytes, size_t *length, size_t *room, const void *more, size_t n) {
    if (n == 0)
        return;
    if (*length + n > *room) {
        *room = 2 * (*length + n);
        *bytes = world_grow(*bytes, *room);
    }
    memcpy(*bytes + *length, more, n);
    *length += n;
}

void world_free(void *memory) {
    __real_free(memory);
}

/* splitmix64 */
static uint64_t draw(void) {
    uint64_t z = world.chance += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint32_t world_random(uint32_t below) {
    return (uint32_t)(((draw() >> 32) * below) >> 32);
}

uint32_t world_between(uint32_t least, uint32_t most) {
    return least + world_random(most - least + 1);
}

bool world_one_in(uint32_t n) {
    return world_random(n) == 0;
}

/* Some faults of many, so that each is also seen without the others; rarely or often. */
static void choose_faults(void) {
    static const uint32_t rates[] = {2, 10, 50, 200, 500};
    for (size_t i = 0; i < FAULTS; i++) {
        bool is_chosen = world_one_in(3);
        uint32_t rate = rates[world_random(sizeof rates / sizeof *rates)];
        world.rates[i] = is_chosen ? rate : 0;
    }
}

void world_begin(uint64_t seed, bool trace) {
    struct event *events = world.events;
    size_t capacity = world.capacity;
    memset(happened, 0, sizeof happened);
    world.count = 0;
    memset(&world, 0, offsetof(__typeof__(world), lines));
    world.events = events;
    world.capacity = capacity;
    world.lines_made = 0;
    world.seed = world.chance = seed;
    world.digest = UINT64_C(0xcbf29ce484222325);
    world.calm = true;
    world.traces = trace;
    choose_faults();
}

void world_end(void) {
    world.count = 0;
}

uint64_t world_seed(void) {
    return world.seed;
}

bool world_traces(void) {
    return world.traces;
}

uint64_t world_digest(void) {
    return world.digest;
}

uint64_t world_now(void) {
    return world.now;
}

uint32_t world_rate(enum fault fault) {
    return world.rates[fault];
}

void world_set_rate(enum fault fault, uint32_t rate) {
    world.rates[fault] = rate;
}

bool world_has(enum fault fault) {
    if (world.calm || world.rates[fault] == 0 || world_random(1000) >= world.rates[fault])
        return false;
    happened[fault]++;
    return true;
}

uint64_t world_count(enum fault fault) {
    return happened[fault];
}

const char *world_fault_name(enum fault fault) {
    static const char *const names[FAULTS] = {
        [FAULT_SHORT_RECEIVE] = "short receives",
        [FAULT_SHORT_SEND] = "short sends",
        [FAULT_LATE] = "late receives",
        [FAULT_LATE_COMPLETION] = "late completions",
        [FAULT_NO_BUFFERS] = "-ENOBUFS though there are some",
        [FAULT_SPURIOUS_FLAG] = "spurious buffer flags",
        [FAULT_END_WITH_BUFFER] = "ends that take a buffer",
        [FAULT_SHORT_ENTRY] = "shortened entries",
        [FAULT_MULTISHOT_ENDS] = "multishots that end",
        [FAULT_CANCEL_MISSES] = "cancels: -ENOENT",
        [FAULT_CANCEL_RUNS] = "cancels: -EALREADY",
        [FAULT_INTERRUPT] = "-EINTR",
        [FAULT_SUBMIT] = "submissions refused",
        [FAULT_ACCEPT] = "accepts refused",
        [FAULT_POLL] = "polls ready without room",
        [FAULT_MEMORY] = "memory refused",
        [FAULT_MAP] = "mappings refused",
        [FAULT_DISK_SHORT] = "short writes and reads",
        [FAULT_DISK_SLOW] = "slow disk",
        [FAULT_DISK_ERROR] = "-EIO",
        [FAULT_DISK_FULL] = "disk becomes full",
    };
    return names[fault];
}

void world_calm(bool calm) {
    world.calm = calm;
    world_trace(calm ? "calm" : "faults", 0, 0, 0);
}

bool world_is_calm(void) {
    return world.calm;
}

static bool is_before(const struct event *one, const struct event *other) {
    return one->due != other->due ? one->due < other->due : one->number < other->number;
}

void world_after(uint64_t microseconds, world_fn *call, void *user) {
    if (world.count == world.capacity) {
        world.capacity = world.capacity ? 2 * world.capacity : 256;
        world.events = world_grow(world.events, world.capacity * sizeof *world.events);
    }
    struct event event = {world.now + microseconds, world.events_made++, call, user};
    size_t place = world.count++;
    for (; place > 0 && is_before(&event, &world.events[(place - 1) / 2]); place = (place - 1) / 2)
        world.events[place] = world.events[(place - 1) / 2];
    world.events[place] = event;
}

static struct event take_event(void) {
    struct event first = world.events[0], last = world.events[--world.count];
    size_t place = 0, child;
    while ((child = 2 * place + 1) < world.count) {
        if (child + 1 < world.count && is_before(&world.events[child + 1], &world.events[child]))
            child++;
        if (!is_before(&world.events[child], &last))
            break;
        world.events[place] = world.events[child];
        place = child;
    }
    world.events[place] = last;
    return first;
}

bool world_advance(uint64_t deadline) {
    if (world.count == 0 && deadline == UINT64_MAX)
        return false;
    if (world.count == 0 || world.events[0].due > deadline) {
        if (world.now < deadline)
            world.now = deadline;
        return true;
    }
    struct event event = take_event();
    if (world.now < event.due)
        world.now = event.due;
    event.call(event.user);
    return true;
}

void world_pass(uint64_t microseconds) {
    world.now += microseconds;
}

/* Each number by a factor of its own, all of which are multiplied at a time: there are many
 * events. */
static void mix(const struct line *line) {
    uint64_t sum = line->now * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)line->a * UINT64_C(0xbf58476d1ce4e5b9) +
                   (uint64_t)line->b * UINT64_C(0x94d049bb133111eb) + (uint64_t)line->c * UINT64_C(0xd6e8feb86659fd93);
    size_t length = strlen(line->what);
    for (size_t done = 0; done < length; done += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, line->what + done, length - done < sizeof word ? length - done : sizeof word);
        sum += (word + done) * UINT64_C(0xff51afd7ed558ccd);
    }
    world.digest = (world.digest ^ sum) * UINT64_C(0x100000001b3);
    world.digest ^= world.digest >> 29;
}

static void show(FILE *out, const struct line *line) {
    fprintf(out, "%12.6f  %-28s %lld %lld %lld\n", (double)line->now / 1e6, line->what, (long long)line->a,
            (long long)line->b, (long long)line->c);
}

void world_trace(const char *what, int64_t a, int64_t b, int64_t c) {
    struct line *line = &world.lines[world.lines_made++ % REMEMBERED];
    *line = (struct line){world.now, what, a, b, c};
    mix(line);
    if (world.traces)
        show(stdout, line);
}

void world_fail(const char *format, ...) {
    va_list arguments;
    uint64_t first = world.lines_made > SHOWN ? world.lines_made - SHOWN : 0;
    fflush(stdout);
    fprintf(stderr, "\nseed %llu fails: ", (unsigned long long)world.seed);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\nat %.6f s; before that (event and its numbers, oldest first):\n", (double)world.now / 1e6);
    for (uint64_t i = first; i < world.lines_made && !world.traces; i++)
        show(stderr, &world.lines[i % REMEMBERED]);
    fprintf(stderr, "seed %llu again: %s --seed %llu --verbose\n", (unsigned long long)world.seed, world_command,
            (unsigned long long)world.seed);
    fflush(stderr);
    abort();
}
