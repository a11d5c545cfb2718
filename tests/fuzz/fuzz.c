#include "fuzz/fuzz.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "memory/chain.h"
#include "memory/poison.h"

/* FNV-1a. */
static const uint64_t HASH_START = 0xCBF29CE484222325, HASH_PRIME = 0x100000001B3;

enum {
    TRACED = 400, /* bytes of what is shown */
    /* in which an input goes besides the whole one, while libFuzzer looks for others */
    WAYS = 3,
    TICK_MS = 250,  /* of the process's time */
    MOST_TICKS = 4, /* for an input, or for so many of its runs */
};

unsigned fuzz_ways = WAYS;

/* Of the input under way: whether what is shown is written to stderr as well. */
static bool tracing;

/* Counts up when an input begins, and when it ends: odd while one is under way. */
static atomic_uint begun_or_ended;

_Noreturn void fuzz_fail(const char *text, const char *file, int line) {
    fprintf(stderr, "%s:%d: not as it must be: %s\n", file, line, text);
    abort();
}

#ifdef SLUICE_POISONS
/* Once for all of the bytes, and not for each: most of what the harness does is to look at
 * bytes. */
static void check_readable(const void *bytes, size_t n) {
    const volatile uint8_t *trap = __asan_region_is_poisoned((void *)bytes, n);
    if (trap)
        (void)*trap;
}
#define CHECKED __attribute__((no_sanitize("address")))
#else
static void check_readable(const void *bytes, size_t n) {
    (void)bytes;
    (void)n;
}
#define CHECKED
#endif

CHECKED static uint64_t hash_checked(uint64_t hash, const uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ bytes[i]) * HASH_PRIME;
    return hash;
}

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n) {
    check_readable(bytes, n);
    return hash_checked(hash, bytes, n);
}

uint32_t fuzz_random(fuzz_run *run, uint32_t n) {
    uint64_t x = run->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    run->random = x;
    return (uint32_t)((x >> 32) * n >> 32);
}

/* ---- What goes in ---- */

static void free_memory(const void *memory, size_t n, void *user) {
    (void)n;
    (void)user;
    free((void *)memory);
}

static void append_memory(sluice_chain *chain, const uint8_t *bytes, size_t n) {
    uint8_t *copy = malloc(n);
    FUZZ_CHECK(copy);
    memcpy(copy, bytes, n);
    FUZZ_CHECK(sluice_chain_append_memory(chain, copy, n, free_memory, NULL) == 0);
}

static void append_blocks(fuzz_run *run, sluice_chain *chain, const uint8_t *bytes, size_t n) {
    while (n > 0) {
        sluice_block *block;
        FUZZ_CHECK(sluice_block_get(run->pool, &block) == 0);
        size_t room = sluice_block_capacity(block), here = n < room ? n : room;
        memcpy(sluice_block_data(block), bytes, here);
        poison_memory(sluice_block_data(block) + here, room - here);
        FUZZ_CHECK(sluice_block_set_length(block, (uint32_t)here) == 0);
        sluice_chain_append(chain, block);
        bytes += here;
        n -= here;
    }
}

size_t fuzz_piece(fuzz_run *run, size_t n) {
    if (run->mean == 0)
        return n;
    /* Mostly short ones, now and then one that is much longer. */
    size_t most = run->mean * (fuzz_random(run, 8) == 0 ? 16 : 2);
    size_t length = 1 + fuzz_random(run, (uint32_t)most);
    return length < n ? length : n;
}

static void append_piece(fuzz_run *run, sluice_chain *chain, const uint8_t *bytes, size_t n) {
    if (run->whole || fuzz_random(run, 2))
        append_memory(chain, bytes, n);
    else
        append_blocks(run, chain, bytes, n);
}

bool fuzz_feed(fuzz_run *run, sluice_chain *chain) {
    size_t left = run->size - run->done;
    if (left == 0)
        return false;
    size_t n = fuzz_piece(run, left);
    append_piece(run, chain, run->bytes + run->done, n);
    run->done += n;
    return true;
}

void fuzz_append(fuzz_run *run, sluice_chain *chain, const void *bytes, size_t n) {
    const uint8_t *at = bytes;
    while (n > 0) {
        size_t here = fuzz_piece(run, n);
        append_piece(run, chain, at, here);
        at += here;
        n -= here;
    }
}

sluice_slice fuzz_slice(fuzz_run *run, const void *bytes, size_t n) {
    sluice_slice slice = {0};
    sluice_chain *chain;
    FUZZ_CHECK(sluice_chain_new(run->pool, &chain) == 0);
    fuzz_append(run, chain, bytes, n);
    FUZZ_CHECK(sluice_chain_take(chain, n, &slice) == 0);
    sluice_chain_free(chain);
    return slice;
}

char *fuzz_copy(const void *bytes, size_t n) {
    char *copy = calloc(1, n ? n : 1);
    FUZZ_CHECK(copy);
    if (n > 0)
        memcpy(copy, bytes, n);
    else
        poison_memory(copy, 1);
    return copy;
}

bool fuzz_record(fuzz_run *run, uint8_t *ret_kind, const uint8_t **ret_bytes, size_t *ret_size) {
    const uint8_t *at = run->bytes + run->done;
    size_t left = run->size - run->done;
    if (left < 3)
        return false;
    size_t size = (size_t)at[1] << 8 | at[2];
    if (size > left - 3)
        size = left - 3;
    *ret_kind = at[0];
    *ret_bytes = at + 3;
    *ret_size = size;
    run->done += 3 + size;
    return true;
}

/* ---- What comes out ---- */

static void trace(const char *what, const void *bytes, size_t n) {
    if (!tracing)
        return;
    fprintf(stderr, "  %s:", what);
    for (size_t i = 0; i < n && i < TRACED; i++) {
        uint8_t byte = ((const uint8_t *)bytes)[i];
        fprintf(stderr, byte > ' ' && byte < 0x7F ? "%c" : "\\%02x", byte);
    }
    fprintf(stderr, " (%zu)\n", n);
}

void fuzz_show(fuzz_run *run, const char *what, int64_t value) {
    run->digest = hash_bytes(run->digest, what, strlen(what) + 1);
    run->digest = hash_bytes(run->digest, &value, sizeof value);
    if (tracing)
        fprintf(stderr, "  %s: %lld\n", what, (long long)value);
}

void fuzz_show_bytes(fuzz_run *run, const char *what, const void *bytes, size_t n) {
    run->digest = hash_bytes(run->digest, what, strlen(what) + 1);
    run->digest = hash_bytes(run->digest, &n, sizeof n);
    run->digest = hash_bytes(run->digest, bytes, n);
    trace(what, bytes, n);
}

void fuzz_show_text(fuzz_run *run, const char *what, sluice_http_text text) {
    fuzz_show_bytes(run, what, text.text, text.length);
}

static uint64_t hash_slice(uint64_t hash, const sluice_slice *slice) {
    struct iovec pieces[16];
    size_t seen = 0;
    while (seen < sluice_slice_length(slice)) {
        size_t count = sluice_slice_iov(slice, seen, pieces, 16);
        FUZZ_CHECK(count > 0);
        for (size_t i = 0; i < count && i < 16; i++) {
            FUZZ_CHECK(pieces[i].iov_len > 0);
            hash = hash_bytes(hash, pieces[i].iov_base, pieces[i].iov_len);
            seen += pieces[i].iov_len;
        }
    }
    FUZZ_CHECK(seen == sluice_slice_length(slice));
    return hash;
}

uint64_t fuzz_hash(const sluice_slice *slice) {
    return hash_slice(HASH_START, slice);
}

static void trace_slice(const char *what, const sluice_slice *slice) {
    if (!tracing)
        return;
    uint8_t bytes[TRACED];
    size_t n = sluice_slice_copy(slice, 0, bytes, sizeof bytes);
    trace(what, bytes, n);
    fprintf(stderr, "    of %zu\n", sluice_slice_length(slice));
}

void fuzz_show_slice(fuzz_run *run, const char *what, const sluice_slice *slice) {
    size_t n = sluice_slice_length(slice);
    run->digest = hash_bytes(run->digest, what, strlen(what) + 1);
    run->digest = hash_bytes(run->digest, &n, sizeof n);
    run->digest = hash_slice(run->digest, slice);
    trace_slice(what, slice);
}

void fuzz_gather(fuzz_run *run, const sluice_slice *slice) {
    run->gathered = hash_slice(run->gathered, slice);
    run->gathered_at += sluice_slice_length(slice);
    trace_slice("piece", slice);
}

void fuzz_show_gathered(fuzz_run *run, const char *what) {
    fuzz_show(run, what, (int64_t)run->gathered_at);
    run->digest = hash_bytes(run->digest, &run->gathered, sizeof run->gathered);
    run->gathered = HASH_START;
    run->gathered_at = 0;
}

static void let_go(fuzz_held *held) {
    if (sluice_slice_length(&held->slice) > 0)
        FUZZ_CHECK(fuzz_hash(&held->slice) == held->hash);
    sluice_slice_release(&held->slice);
}

void fuzz_keep(fuzz_run *run, sluice_slice *slice) {
    if (fuzz_random(run, 256) >= run->keep)
        return;
    fuzz_held *held = &run->held[fuzz_random(run, FUZZ_HELD)];
    uint64_t hash = fuzz_hash(slice);
    let_go(held);
    if (sluice_slice_take(slice, &held->slice) == 0) {
        held->hash = hash;
        FUZZ_CHECK(sluice_slice_length(slice) == 0);
    }
}

/* ---- Framers ---- */

void fuzz_drive(fuzz_run *run, const fuzz_framer *framer, void *state) {
    sluice_chain *chain;
    size_t need = 1;
    int result = 0;
    FUZZ_CHECK(sluice_chain_new(run->pool, &chain) == 0);
    while (result == 0 && fuzz_feed(run, chain)) {
        size_t length = sluice_chain_length(chain);
        if (run->lazy && length < need && run->done < run->size)
            continue;
        result = framer->next(state, chain, run);
        FUZZ_CHECK(result == 0 || length >= need);
        while (result == 1)
            result = framer->next(state, chain, run);
        FUZZ_CHECK(chain_is_sound(chain));
        if (result == 0 && framer->need) {
            need = framer->need(state);
            FUZZ_CHECK(need > sluice_chain_length(chain));
        }
    }
    fuzz_show(run, "result", result);
    if (result == 0)
        fuzz_show(run, "left", (int64_t)sluice_chain_length(chain));
    else
        FUZZ_CHECK(framer->next(state, chain, run) == result);
    sluice_chain_free(chain);
}

/* ---- The runs of an input ---- */

enum { POOLS = 3, SLAB = 1 << 17, MOST_SLABS = 1024 };
static const uint32_t block_sizes[POOLS] = {512, 2048, 16384};

/* Pools go from run to run, as long as they are as they were when they were new: to make one takes
 * as long as a run. */
static sluice_pool *pools[POOLS];

static sluice_pool *take_pool(unsigned which) {
    const sluice_pool_options options = {.size = sizeof options,
                                         .block_size = block_sizes[which],
                                         .slab_blocks = SLAB / block_sizes[which],
                                         .max_blocks = MOST_SLABS * (SLAB / block_sizes[which]),
                                         .reserve_blocks = 8,
                                         .no_huge_pages = true};
    sluice_pool *pool = pools[which];
    pools[which] = NULL;
    if (!pool)
        FUZZ_CHECK(sluice_pool_new(&options, &pool) == 0);
    return pool;
}

/* Everything must have come back. */
static void put_pool(sluice_pool *pool) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(pool, &stats);
    FUZZ_CHECK(stats.held == 0);
    FUZZ_CHECK(stats.views == 0);
    FUZZ_CHECK(stats.foreign == 0);
    FUZZ_CHECK(stats.bytes_held == 0);
    FUZZ_CHECK(stats.free == stats.total);
    unsigned which = 0;
    while (block_sizes[which] != stats.block_size)
        which++;
    if (stats.bytes_mapped == SLAB)
        pools[which] = pool;
    else
        sluice_pool_free(pool);
}

static void open_run(fuzz_run *run, const uint8_t *data, size_t size, unsigned way) {
    *run = (fuzz_run){.digest = HASH_START, .gathered = HASH_START, .random = hash_bytes(HASH_START, data, size) + way};
    if (run->random == 0)
        run->random = 1;
    size_t settings = size < FUZZ_SETTINGS ? size : FUZZ_SETTINGS;
    if (settings > 0)
        memcpy(run->settings, data, settings);
    run->bytes = data + settings;
    run->size = size - settings;
    run->whole = way == 0;
    for (unsigned i = 0; i < 4; i++)
        fuzz_random(run, 1);
    if (!run->whole) {
        static const unsigned means[] = {2, 12, 60, 400};
        run->lazy = way % 2;
        run->keep = fuzz_random(run, 2) ? 128 : 32;
        run->mean = means[fuzz_random(run, 4)];
        if (run->mean < run->size / 1024)
            run->mean = (unsigned)(run->size / 1024); /* the number of pieces has a limit */
    }
    run->pool = take_pool(run->whole ? POOLS - 1 : fuzz_random(run, POOLS));
}

static void close_run(fuzz_run *run) {
    for (size_t i = 0; i < FUZZ_HELD; i++)
        let_go(&run->held[i]);
    put_pool(run->pool);
}

static uint64_t run_input(const uint8_t *data, size_t size, unsigned way) {
    fuzz_run run;
    open_run(&run, data, size, way);
    fuzz_target(&run);
    close_run(&run);
    return run.digest;
}

/* ---- Time: of the process, so that a machine with much else to do does not count ---- */

static void tick(int number) {
    static const char text[] = "more than a second for one input\n";
    static unsigned seen, ticks;
    (void)number;
    if (seen != begun_or_ended || seen % 2 == 0) {
        seen = begun_or_ended;
        ticks = 0;
    } else if (++ticks > MOST_TICKS) {
        (void)!write(STDERR_FILENO, text, sizeof text - 1);
        abort();
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    const char *ways = getenv("FUZZ_WAYS");
    if (ways)
        fuzz_ways = (unsigned)strtoul(ways, NULL, 10);
    const struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    const struct timeval every = {.tv_usec = TICK_MS * 1000};
    FUZZ_CHECK(sigaction(SIGPROF, &action, NULL) == 0);
    FUZZ_CHECK(setitimer(ITIMER_PROF, &(struct itimerval){every, every}, NULL) == 0);
    return 0;
}

static void run_ways(const uint8_t *data, size_t size) {
    uint64_t digest = run_input(data, size, 0);
    for (unsigned way = 1; way <= fuzz_ways; way++) {
        if (way % (WAYS + 1) == 0)
            begun_or_ended += 2;
        if (run_input(data, size, way) == digest)
            continue;
        tracing = true;
        fprintf(stderr, "in one piece:\n");
        run_input(data, size, 0);
        fprintf(stderr, "cut, way %u:\n", way);
        run_input(data, size, way);
        fuzz_fail("the same frames, however the input is cut", __FILE__, __LINE__);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    begun_or_ended++;
    run_ways(data, size);
    begun_or_ended++;
    return 0;
}
