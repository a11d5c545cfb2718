#include "daemon/base/memory_default.h"

#include <unistd.h>

#define MIB (1ull << 20)

static const uint64_t least_of_all = 4 * MIB;

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

uint64_t memory_of_machine(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_MAX;
}

uint64_t memory_default(uint64_t machine, uint64_t groups, uint64_t workers) {
    uint64_t there_is = least(machine, groups);
    uint64_t usual = most(MEMORY_USUAL, workers * MEMORY_USUAL_OF_WORKER);
    uint64_t share = there_is == UINT64_MAX ? 0 : there_is / MEMORY_SHARE;
    uint64_t wanted = least(most(usual, share), there_is / MEMORY_MOST_SHARE);
    return most(least(wanted, MEMORY_MOST) / MIB * MIB, most(least_of_all, workers * MIB));
}
