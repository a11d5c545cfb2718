/* What is wrong with a configuration: a line for each thing, and all of them at once. */
#ifndef SLUICED_PROBLEMS_H
#define SLUICED_PROBLEMS_H

#include <stdbool.h>
#include <stddef.h>

enum { PROBLEMS_MOST = 100 }; /* further ones are counted, and not told */

/* All zero at the beginning. */
struct problems {
    char *text; /* lines, each with its end; NULL: none, or no memory for them */
    size_t count;
};

/* Returns false, so that whoever finds something wrong can return that. */
__attribute__((format(printf, 2, 3))) bool problems_add(struct problems *problems, const char *format, ...);

/* Calls with each line. */
void problems_each(const struct problems *problems, void (*call)(const char *line, void *user), void *user);

void problems_clear(struct problems *problems);

#endif
