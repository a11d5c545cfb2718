/*
 * The default of --memory: a quarter of what this process may use, which is the machine's memory
 * or the limit of its control groups, whichever is less. The kernel's socket buffers, sessions,
 * TLS and other programs have the rest.
 */
#ifndef SLUICED_MEMORY_DEFAULT_H
#define SLUICED_MEMORY_DEFAULT_H

#include <stdint.h>

enum { MEMORY_SHARE = 4, MEMORY_MOST_SHARE = 2 };

#define MEMORY_USUAL (256ull << 20)
#define MEMORY_USUAL_OF_WORKER (64ull << 20)
#define MEMORY_MOST (64ull << 30) /* of the setting, too */

/* The machine's in bytes; UINT64_MAX where it is not known. */
uint64_t memory_of_machine(void);

/*
 * Whole MiB in bytes. Not less than 256 MiB and than 64 MiB for each worker, as far as half of what
 * there is allows; at least the 4 MiB, and the MiB of each worker, without which it does not start.
 *
 * @param machine, groups bytes; UINT64_MAX: not known, no limit
 */
uint64_t memory_default(uint64_t machine, uint64_t groups, uint64_t workers);

#endif
