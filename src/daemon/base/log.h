/*
 * Log lines on standard error: time, level, message, key=value; or JSON, an object a line. Any
 * thread. Parts of the logged text come from peers: values are escaped, lines are bounded in
 * length, and lines with the same message are limited per second; a later line has the number of
 * lines left out. After log_start() no call waits for standard error: see log_writer.h. A crash
 * loses the lines queued at that moment.
 */
#ifndef SLUICED_LOG_H
#define SLUICED_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_TEXT, LOG_JSON };

typedef struct log_field {
    const char *key;
    const char *value;
} log_field;

void log_set_level(enum log_level level);

/* Where standard error is systemd's journal, text has the level in a form that it knows, and leaves
 * the time to it. */
void log_set_format(enum log_format format);

/* Most lines of the same message in a second; 0: no limit. */
void log_set_rate(uint32_t lines);

/*
 * A thread writes from now on. Before another thread logs, and when format and rate are set. 0, or
 * -errno: lines are written by the thread that logs them, as before.
 */
int log_start(void);

/* Waits until all has been written, a second at most, and ends that thread. At the end of the
 * process. */
void log_stop(void);

/* Lines that could not be written: standard error is not read, or fails. */
uint64_t log_lost(void);

/* @message is a literal; a field's key is a word, of text values that are quoted where they are not
 * plain. */
void log_write(enum log_level level, const char *message, const log_field *fields, size_t count);

/* The same, without the limit per second: for lines whose number the caller limits. They take no
 * part of what other lines with the same message may have, and these none of theirs. */
void log_write_uncounted(enum log_level level, const char *message, const log_field *fields, size_t count);

#define LOG(level, message, ...)                                                                                       \
    log_write(level, message, (const log_field[]){__VA_ARGS__},                                                        \
              sizeof((const log_field[]){__VA_ARGS__}) / sizeof(log_field))

/* A number as a field's value. */
typedef struct log_number {
    char text[24];
} log_number;
log_number log_unsigned(uint64_t value);

/* Whether there has been a line of an error. */
bool log_has_error(void);

/* Says what the limit has left out so far: at the end, since otherwise the next line does. */
void log_flush(void);

/*
 * The status line: rewritten in place on a terminal, below the log lines; a line of its own each
 * time elsewhere, and with LOG_JSON an object as all other lines.
 */
void log_status(const char *text);

/* Leaves the last status line where it is; the next line begins below it. */
void log_status_end(void);

#endif
