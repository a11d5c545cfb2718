/*
 * Runs the scenarios of the library again and again, while the Nth of its allocations or system
 * calls fails, once or from then on, for each N until a run has fewer. At every point: no crash; an
 * error of those that are documented, or the same result as without a failure; and afterwards
 * nothing is left, no block, view, allocation or descriptor.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "torture/faults.h"
#include "torture/scenario.h"

enum { GUARD = 60 /* seconds, for a point that hangs */ };

static struct {
    const scenario *scenario;
    sluice_backend_choice backend;
    uint64_t kind, number, variant;
    bool forever;
} point;

static const char *backend_name(void) {
    return point.backend == SLUICE_BACKEND_EPOLL ? "epoll" : "uring";
}

static void say_point(void) {
    fprintf(stderr, "torture: %s of %s on %s, call %llu%s: %s\nagain: tools/torture --library %s %s %s %s %llu %llu\n",
            point.kind == FAULTS_SYSTEM ? "system calls" : "allocations", point.scenario->name, backend_name(),
            (unsigned long long)point.number, point.forever ? " and later" : "", faults->name, point.scenario->name,
            backend_name(), point.kind == FAULTS_SYSTEM ? "system" : "allocations", point.forever ? "forever" : "once",
            (unsigned long long)point.number, (unsigned long long)point.variant);
    fflush(stderr);
}

void torture_broken(const char *text, const char *file, int line) {
    faults->kinds = 0;
    fprintf(stderr, "%s:%d: not as it must be: %s\n", file, line, text);
    say_point();
    abort();
}

static void on_end(int number) {
    signal(number, SIG_DFL);
    say_point();
    raise(number);
}

static unsigned count_descriptors(void) {
    unsigned count = 0;
    DIR *directory = opendir("/proc/self/fd");
    TORTURE_CHECK(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

/* Whether a scenario may end so: by the failing call's error, or by what the library says that it
 * has made of it. */
static bool is_told(int result) {
    static const int others[] = {ENOMEM, ENOBUFS, ECANCELED, EPIPE, ECONNRESET, EIO};
    if (result == -(int)faults->error)
        return true;
    if (point.kind == FAULTS_ALLOCATIONS)
        /* -EAGAIN: a thread's want of memory */
        return result == -ENOMEM || (point.forever && result == -EAGAIN);
    /* Of many that fail, it may be any's; what the library is to blame for is not among them. */
    if (point.forever)
        return result != -EINVAL && result != -EBADF && result != -EFAULT && result != -EBUSY;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (result == -others[i])
            return true;
    return false;
}

/* Runs the scenario once, with the point's failure; how many calls there were, and the digest where
 * all went well. */
static uint64_t run_point(const char *folder, uint64_t *ret_digest) {
    torture t = {.backend = point.backend, .folder = folder, .patient = !point.forever || point.number == 0};
    unsigned descriptors = count_descriptors();
    alarm(GUARD);
    *faults = (struct faults){.fail_at = point.number, .forever = point.forever, .variant = point.variant};
    faults->kinds = point.kind;
    int result = point.scenario->run(&t);
    faults->kinds = 0;
    uint64_t calls = faults->calls, live = faults->live;
    bool impatient = point.forever && (result == -ETIME || result == -ETIMEDOUT);
    if (result < 0 && !impatient && (faults->failed == 0 || !is_told(result))) {
        fprintf(stderr, "result %d, %s\n", result, strerror(-result));
        torture_broken("no such error", __FILE__, __LINE__);
    }
    TORTURE_CHECK(live == 0);
    TORTURE_CHECK(count_descriptors() == descriptors);
    *ret_digest = result == 0 ? t.digest : 0;
    return calls;
}

static unsigned run_scenario(const char *folder) {
    uint64_t expected, digest;
    unsigned points = 0, borne = 0;
    point.number = 0;
    run_point(folder, &expected);
    for (point.number = 1; run_point(folder, &digest) >= point.number; point.number++) {
        points++;
        borne += digest != 0;
        TORTURE_CHECK(digest == 0 || digest == expected);
        TORTURE_CHECK(points < 100000);
    }
    printf("| %s | %s | %s | %s | %u | %u |\n", point.scenario->name, backend_name(),
           point.kind == FAULTS_SYSTEM ? "system" : "allocations", point.forever ? "from then on" : "once", points,
           borne);
    fflush(stdout);
    return points;
}

static unsigned run_kinds(const char *folder) {
    unsigned points = 0;
    for (int forever = 0; forever < 2; forever++) {
        point.forever = forever;
        point.kind = FAULTS_ALLOCATIONS;
        points += run_scenario(folder);
        point.kind = FAULTS_SYSTEM;
        points += run_scenario(folder);
    }
    return points;
}

static const scenario *const lists[] = {scenarios_of_memory, scenarios_of_loop};
static const sluice_backend_choice backends[] = {SLUICE_BACKEND_URING, SLUICE_BACKEND_EPOLL};

static unsigned run_all(const char *folder, const char *name) {
    unsigned points = 0;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        for (const scenario *s = lists[i]; s->name; s++) {
            for (size_t b = 0; b < (s->uses_loop ? 2 : 1) && (!name || strcmp(name, s->name) == 0); b++) {
                point.scenario = s;
                point.backend = backends[b];
                points += run_kinds(folder);
            }
        }
    }
    return points;
}

/* NAME BACKEND KIND MANNER NUMBER VARIANT */
static unsigned run_again(const char *folder, char **words) {
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const scenario *s = lists[i]; s->name; s++)
            if (strcmp(words[0], s->name) == 0)
                point.scenario = s;
    if (!point.scenario)
        return 0;
    uint64_t digest;
    point.backend = strcmp(words[1], "epoll") == 0 ? SLUICE_BACKEND_EPOLL : SLUICE_BACKEND_URING;
    point.kind = strcmp(words[2], "system") == 0 ? FAULTS_SYSTEM : FAULTS_ALLOCATIONS;
    point.forever = strcmp(words[3], "forever") == 0;
    point.number = strtoull(words[4], NULL, 10);
    point.variant = strtoull(words[5], NULL, 10);
    printf("%llu calls\n", (unsigned long long)run_point(folder, &digest));
    return 1;
}

int main(int argc, char **argv) {
    char folder[] = "/tmp/sluice-torture-XXXXXX";
    unsigned points;
    if (argc != 1 && argc != 2 && argc != 3 && argc != 7) {
        fprintf(stderr, "Usage: torture_library [SCENARIO [VARIANT | BACKEND KIND MANNER NUMBER VARIANT]]\n");
        return 2;
    }
    TORTURE_CHECK(mkdtemp(folder));
    signal(SIGALRM, on_end);
    signal(SIGSEGV, on_end);
    signal(SIGPIPE, SIG_IGN);
    if (argc == 3)
        point.variant = strtoull(argv[2], NULL, 10);
    if (argc == 7)
        points = run_again(folder, argv + 1);
    else
        points = run_all(folder, argc > 1 && strcmp(argv[1], "all") != 0 ? argv[1] : NULL);
    rmdir(folder);
    printf("%u points\n", points);
    return points == 0;
}

/* ---- What scenarios share ---- */

void torture_show(torture *t, const void *bytes, size_t n) {
    const uint8_t *at = bytes;
    for (size_t i = 0; i < n; i++)
        t->digest = (t->digest ^ at[i]) * 0x100000001B3 + 1;
}

void torture_show_slice(torture *t, const sluice_slice *slice) {
    struct iovec pieces[64];
    for (size_t seen = 0; seen < slice->length;) {
        size_t count = sluice_slice_iov(slice, seen, pieces, 64);
        for (size_t i = 0; i < count && i < 64; seen += pieces[i++].iov_len)
            torture_show(t, pieces[i].iov_base, pieces[i].iov_len);
    }
}

int torture_pool(sluice_pool **ret_pool) {
    const sluice_pool_options options = {.size = sizeof options,
                                         .block_size = 512,
                                         .slab_blocks = 64,
                                         .max_blocks = 1024,
                                         .reserve_blocks = 8,
                                         .no_huge_pages = true};
    return sluice_pool_new(&options, ret_pool);
}

void torture_pool_done(sluice_pool *pool) {
    sluice_pool_stats stats = {.size = sizeof stats};
    if (!pool)
        return;
    sluice_pool_get_stats(pool, &stats);
    TORTURE_CHECK(stats.held == 0 && stats.views == 0 && stats.foreign == 0 && stats.kernel == 0);
    TORTURE_CHECK(stats.free == stats.total);
    sluice_pool_free(pool);
}

int torture_feed(sluice_pool *pool, sluice_chain *chain, const void *bytes, size_t n, size_t piece) {
    const uint8_t *at = bytes;
    while (n > 0) {
        sluice_block *block;
        int error = sluice_block_get(pool, &block);
        if (error)
            return error;
        size_t here = sluice_block_capacity(block);
        here = here < piece ? here : piece;
        here = here < n ? here : n;
        memcpy(sluice_block_data(block), at, here);
        (void)sluice_block_set_length(block, (uint32_t)here);
        sluice_chain_append(chain, block);
        at += here;
        n -= here;
    }
    return 0;
}

uint8_t *torture_read_file(const char *path, size_t *ret_size) {
    FILE *file = fopen(path, "rb");
    TORTURE_CHECK(file && fseek(file, 0, SEEK_END) == 0);
    long size = ftell(file);
    TORTURE_CHECK(size >= 0 && fseek(file, 0, SEEK_SET) == 0);
    uint8_t *bytes = malloc((size_t)size + 1);
    TORTURE_CHECK(bytes && fread(bytes, 1, (size_t)size, file) == (size_t)size);
    fclose(file);
    *ret_size = (size_t)size;
    return bytes;
}
