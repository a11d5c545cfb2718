/*
 * Of a test that is not in threaded_units of tests/CMakeLists.txt: those are the ones that are run
 * with the thread sanitizer. A file of its own: a test that wraps the call itself does without it.
 */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* The linker puts this in the place of the call (--wrap). */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *user);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *user) {
    (void)thread;
    (void)attributes;
    (void)run;
    (void)user;
    fputs("a thread is created: threaded_units of tests/CMakeLists.txt lacks this test\n", stderr);
    abort();
}
