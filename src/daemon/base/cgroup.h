/*
 * Limits of the process's control groups: the defaults of --workers and --memory respect them.
 * Versions 2 and 1, from its own group up to the root; a file that cannot be read limits nothing.
 */
#ifndef SLUICED_CGROUP_H
#define SLUICED_CGROUP_H

#include <stdint.h>

struct cgroup_limits {
    uint64_t milli_cpus; /* thousandths of a processor; UINT64_MAX: no limit */
    uint64_t memory;     /* bytes; UINT64_MAX: no limit */
};

/* @root: "" for this host's; tests have another directory that /proc and /sys lie in. */
void cgroup_read(const char *root, struct cgroup_limits *ret_limits);

#endif
