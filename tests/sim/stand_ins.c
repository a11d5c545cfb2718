/* What the daemon has besides its data plane, and what the disk is made of: told to the simulated world. */
#include <errno.h>
#include <stdio.h>

#include <sluice/pool.h>

#include "daemon/log.h"
#include "daemon/record_files.h"
#include "daemon/record_repair.h"
#include "sim/invariants.h"
#include "sim/kernel.h"
#include "sim/world.h"

void __wrap_log_write(enum log_level level, const char *message, const log_field *fields, size_t count);
void __wrap_log_write(enum log_level level, const char *message, const log_field *fields, size_t count) {
    (void)fields, (void)count;
    world_trace(message, level, 0, 0);
}

/* Before a pool goes, everything must have come back. */
void __real_sluice_pool_free(sluice_pool *pool);
void __wrap_sluice_pool_free(sluice_pool *pool);
void __wrap_sluice_pool_free(sluice_pool *pool) {
    if (pool)
        check_nothing_held(pool);
    __real_sluice_pool_free(pool);
}
