/*
 * Lines of text that several threads add, up to a number of bytes. Lines beyond that are left out,
 * and counted.
 */
#ifndef SLUICED_STATE_LINES_H
#define SLUICED_STATE_LINES_H

#include <pthread.h>
#include <stddef.h>

struct state_lines {
    pthread_mutex_t lock; /* of the fields below */
    char *text;
    size_t size, capacity, most;
    unsigned dropped; /* lines: there was no room, or no memory */
};

/* @most: bytes */
void state_lines_init(struct state_lines *lines, size_t most);

/* A line, with its "\n" at the end of the format. Any thread. */
__attribute__((format(printf, 2, 3))) void state_lines_add(struct state_lines *lines, const char *format, ...);

/* Keeps as many of the lines, from the first on, as that many bytes have room for. */
void state_lines_cut(struct state_lines *lines, size_t most);

/* No lines are left, nor what they said. */
void state_lines_empty(struct state_lines *lines);

/* Frees what it has. */
void state_lines_clear(struct state_lines *lines);

#endif
