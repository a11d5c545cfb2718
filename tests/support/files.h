/* Files under test, and who reads them. Functions that say nothing of failure fail the test. */
#ifndef SLUICE_TESTS_SUPPORT_FILES_H
#define SLUICE_TESTS_SUPPORT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/file.h>
#include <sluice/loop.h>

#include "support/sockets.h"

enum {
    FILES_GUARD = 60, /* seconds, for a test that hangs */
    FILES_SEED = 23,
};

/* A test for each backend, which is its state. */
#define FILES_ON_BOTH(test)                                                                                            \
    {#test " (io_uring)", test, NULL, NULL, (void *)&files_uring}, {                                                   \
#test " (epoll)", test, NULL, NULL, (void *)&files_epoll                                                       \
    }

extern const sluice_loop_options files_uring, files_epoll;

/* A pool and a loop on the backend of the test's state. The pool's options may be NULL. */
void files_rig_open(loop_rig *rig, const sluice_pool_options *pool, void **state);

/* Frees both: every block is back, and no byte has been copied. */
void files_rig_close(loop_rig *rig);

/* A file without a name that holds @size pattern bytes. */
int files_make(uint64_t size);

/* Reads pattern bytes, and remembers what it was told. */
typedef struct file_consumer {
    sluice_file *file;
    uint64_t place; /* in the file, of the next byte to consume */
    bool leaves;    /* the bytes stay in the chain */
    bool differs;   /* from the pattern */
    bool late;      /* called after its close */
    bool told_end;
    unsigned data, ends, closed;
    int error; /* of the last end */
} file_consumer;

extern const sluice_file_events file_consumer_events;

/* Opens the descriptor as a file that is consumed as it comes. Options may be NULL. */
void file_consumer_open(file_consumer *consumer, const loop_rig *rig, int fd, const sluice_file_options *options);

/* Consumes @n bytes of the chain, comparing. */
void file_consume(file_consumer *consumer, size_t n);

/* Bytes in the chain. */
size_t file_buffered(const file_consumer *consumer);

/* The pool's blocks that are held. */
uint32_t files_held(const loop_rig *rig);

/* Turns that do not wait, until they change nothing any more: nothing more is read ahead. */
void files_settle(const loop_rig *rig);

/* Closes, and turns until it is told. */
void file_consumer_close(file_consumer *consumer, const loop_rig *rig);

#endif
