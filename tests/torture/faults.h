/*
 * Makes calls fail: the Nth allocation or system call of the code under test, once or from then on.
 * That code is linked with faults.c in the place of what it calls (the build renames what its
 * objects ask for: see faults.syms), so that nobody else's calls fail: not those of libevent, of
 * OpenSSL, of libc, nor the test's own.
 *
 * The state can be in memory that another process maps: see faults_open().
 */
#ifndef SLUICE_TESTS_TORTURE_FAULTS_H
#define SLUICE_TESTS_TORTURE_FAULTS_H

#include <stdatomic.h>
#include <stdint.h>

enum {
    /* malloc() and its relatives, threads, and what libraries answer where they have no memory */
    FAULTS_ALLOCATIONS = 1,
    /* system calls, by their wrappers in libc and liburing, with errors that each may give */
    FAULTS_SYSTEM = 2,
};

enum { FAULTS_FRAMES = 16 };

/* torture.py knows this as well: each member is 8 bytes long, the name 32. */
struct faults {
    _Atomic uint64_t kinds;   /* of calls that are counted; 0: none, and none fails */
    _Atomic uint64_t fail_at; /* number of the call, from 1 on; 0: none */
    _Atomic uint64_t forever; /* all later ones fail as well */
    _Atomic uint64_t variant; /* where a call may give several errors: which */
    _Atomic uint64_t calls;   /* so far */
    _Atomic uint64_t failed;  /* of them */
    _Atomic uint64_t live;    /* allocations that are not freed; modulo 2^64 */
    /* Of the first that failed: */
    uint64_t error;
    char name[32];
    uint64_t base; /* where the program lies */
    uint64_t frames[FAULTS_FRAMES];
};

extern struct faults *faults;

#endif
