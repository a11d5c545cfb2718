/* Log lines on standard error: time, level, message, key=value. Any thread. */
#ifndef SLUICED_LOG_H
#define SLUICED_LOG_H

#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

typedef struct log_field {
    const char *key;
    const char *value;
} log_field;

void log_set_level(enum log_level level);

const char *log_level_name(enum log_level level);

/* -1 when there is no level of that name. */
int log_level_of(const char *name);

/* Values are quoted where they hold anything but plain characters; control bytes are escaped. */
void log_write(enum log_level level, const char *message, const log_field *fields, size_t count);

#define LOG(level, message, ...)                                                                                       \
    log_write(level, message, (const log_field[]){__VA_ARGS__},                                                        \
              sizeof((const log_field[]){__VA_ARGS__}) / sizeof(log_field))

/* A number as a field's value. */
typedef struct log_number {
    char text[24];
} log_number;
log_number log_unsigned(uint64_t value);

/* The status line: rewritten in place on a terminal, below the log lines; a line of its own each time elsewhere. */
void log_status(const char *text);

/* Leaves the last status line where it is; the next line begins below it. */
void log_status_end(void);

#endif
