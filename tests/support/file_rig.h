/* Blocks of each size, for tests of files. */
#ifndef SLUICE_TESTS_SUPPORT_FILE_RIG_H
#define SLUICE_TESTS_SUPPORT_FILE_RIG_H

#include <sluice/pool.h>

static const sluice_pool_options sizes[] = {
    {.size = sizeof(sluice_pool_options), .block_size = 512, .no_huge_pages = true},
    {.size = sizeof(sluice_pool_options), .block_size = 4096, .no_huge_pages = true},
    {.size = sizeof(sluice_pool_options),
     .block_size = 65536,
     .slab_blocks = 64,
     .max_blocks = 256,
     .no_huge_pages = true},
};

enum { SIZES = sizeof sizes / sizeof *sizes };

#endif
