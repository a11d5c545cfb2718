/* Work without sockets: see --help. */
#include "memory/work.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/process.h"
#include "common/span.h"

static const bench_work *const tables[] = {packet_work, file_work, text_work};
static uint64_t done, all_bytes, sum;

void work_begin(void) {
    span_begin();
}

void work_end(uint64_t operations, uint64_t bytes, uint64_t checksum) {
    span_end();
    done = operations;
    all_bytes = bytes;
    sum = checksum;
}

int work_check(const char *what, int result) {
    if (result < 0)
        fail(EXIT_FAILURE, "%s: %s", what, strerror(-result));
    return result;
}

void *work_allocate(size_t size) {
    void *memory = malloc(size);
    work_check("memory", memory ? 0 : -ENOMEM);
    return memory;
}

static void usage(FILE *out) {
    fprintf(out, "Usage: bench-memory --scenario NAME --variant NAME --operations N [--cpu N]\n"
                 "\n"
                 "Does so many operations and says what that has cost: \"result\" and JSON. The work:\n");
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const bench_work *work = tables[i]; work->scenario; work++)
            fprintf(out, "  --scenario %-18s --variant %s\n", work->scenario, work->variant);
}

static const bench_work *find(const char *scenario, const char *variant) {
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const bench_work *work = tables[i]; work->scenario; work++)
            if (strcmp(work->scenario, scenario) == 0 && strcmp(work->variant, variant) == 0)
                return work;
    fail(2, "no variant '%s' of '%s': see --help", variant, scenario);
}

static void print_result(void) {
    printf("result {\"operations\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"checksum\": \"%016" PRIx64 "\", ", done,
           all_bytes, sum);
    span_print();
    puts("}");
}

int main(int argc, char **argv) {
    static const struct option known[] = {
        {"scenario", required_argument, NULL, 's'},
        {"variant", required_argument, NULL, 'v'},
        {"operations", required_argument, NULL, 'n'},
        {"cpu", required_argument, NULL, 'p'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    const char *scenario = NULL, *variant = NULL;
    uint64_t operations = 0;
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (option == 's')
            scenario = optarg;
        else if (option == 'v')
            variant = optarg;
        else if (option == 'n')
            operations = parse_number("--operations", optarg, 1, UINT32_MAX);
        else if (option == 'p')
            pin_to_cpu((int)parse_number("--cpu", optarg, 0, 1023));
        else {
            usage(option == 'h' ? stdout : stderr);
            return option == 'h' ? 0 : 2;
        }
    }
    if (!scenario || !variant || !operations || optind != argc) {
        usage(stderr);
        return 2;
    }
    const bench_work *work = find(scenario, variant);
    work->run(work, operations);
    print_result();
    return 0;
}
