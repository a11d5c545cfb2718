/* The errors of a configuration: all of them are collected, a line for each. */
#ifndef SLUICED_CONFIG_ERRORS_H
#define SLUICED_CONFIG_ERRORS_H

#include <stdbool.h>
#include <stddef.h>

enum { CONFIG_ERRORS_MOST = 100 }; /* further ones are counted, and not told */

/* All zero at the beginning. */
struct config_errors {
    char *text; /* lines, each with its end; NULL: none, or no memory for them */
    size_t count;
};

/* Returns false, so that a caller that finds an error can return the result. */
__attribute__((format(printf, 2, 3))) bool config_errors_add(struct config_errors *errors, const char *format, ...);

/* Calls with each line. */
void config_errors_each(const struct config_errors *errors, void (*call)(const char *line, void *user), void *user);

void config_errors_clear(struct config_errors *errors);

#endif
