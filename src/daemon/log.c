#include "daemon/log.h"

#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 1024, STATUS = 256 };

static const char *const level_names[] = {"error", "warning", "info", "debug"};

/* The process has one log. */
static struct {
    pthread_mutex_t lock;
    atomic_int level; /* a reload changes it */
    char status[STATUS];
} the_log = {.lock = PTHREAD_MUTEX_INITIALIZER, .level = LOG_INFO};

typedef struct line {
    char text[LINE];
    size_t length;
} line;

void log_set_level(enum log_level level) {
    atomic_store_explicit(&the_log.level, (int)level, memory_order_relaxed);
}

int log_level_of(const char *name) {
    for (size_t i = 0; i < sizeof level_names / sizeof *level_names; i++)
        if (strcmp(name, level_names[i]) == 0)
            return (int)i;
    return -1;
}

log_number log_unsigned(uint64_t value) {
    log_number number;
    snprintf(number.text, sizeof number.text, "%llu", (unsigned long long)value);
    return number;
}

/* Keeps room for the end of the line: an overlong one is cut. */
static void add(line *out, char byte) {
    if (out->length < LINE - 2)
        out->text[out->length++] = byte;
}

static void add_text(line *out, const char *text) {
    while (*text)
        add(out, *text++);
}

static bool is_plain(const char *value) {
    if (!*value)
        return false;
    for (; *value; value++)
        if (!isalnum((unsigned char)*value) && !strchr("._-:/[]+@,%", *value))
            return false;
    return true;
}

static void add_value(line *out, const char *value) {
    static const char hex[] = "0123456789abcdef";
    if (is_plain(value)) {
        add_text(out, value);
        return;
    }
    add(out, '"');
    for (; *value; value++) {
        unsigned char byte = (unsigned char)*value;
        if (byte == '"' || byte == '\\') {
            add(out, '\\');
            add(out, (char)byte);
        } else if (byte < 0x20 || byte >= 0x7f) {
            add_text(out, "\\x");
            add(out, hex[byte >> 4]);
            add(out, hex[byte & 15]);
        } else {
            add(out, (char)byte);
        }
    }
    add(out, '"');
}

static void add_time(line *out) {
    struct timespec now;
    struct tm parts;
    char text[40];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t length = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + length, sizeof text - length, ".%03ldZ ", now.tv_nsec / 1000000);
    add_text(out, text);
}

static void write_all(const char *text, size_t length) {
    while (length > 0) {
        ssize_t written = write(STDERR_FILENO, text, length);
        if (written <= 0)
            return;
        text += written;
        length -= (size_t)written;
    }
}

static void show_status(void) {
    char text[STATUS + 8];
    int length = snprintf(text, sizeof text, "\r\033[K%s", the_log.status);
    write_all(text, (size_t)length);
}

void log_write(enum log_level level, const char *message, const log_field *fields, size_t count) {
    line out = {.length = 0};
    if ((int)level > atomic_load_explicit(&the_log.level, memory_order_relaxed))
        return;
    add_time(&out);
    add_text(&out, level_names[level]);
    for (size_t pad = strlen(level_names[level]); pad < 8; pad++)
        add(&out, ' ');
    add_text(&out, message);
    for (size_t i = 0; i < count; i++) {
        add(&out, ' ');
        add_text(&out, fields[i].key);
        add(&out, '=');
        add_value(&out, fields[i].value);
    }
    out.text[out.length++] = '\n';

    pthread_mutex_lock(&the_log.lock);
    if (the_log.status[0])
        write_all("\r\033[K", 4);
    write_all(out.text, out.length);
    if (the_log.status[0])
        show_status();
    pthread_mutex_unlock(&the_log.lock);
}

void log_status(const char *text) {
    pthread_mutex_lock(&the_log.lock);
    if (isatty(STDERR_FILENO)) {
        snprintf(the_log.status, sizeof the_log.status, "%s", text);
        show_status();
    } else {
        write_all(text, strlen(text));
        write_all("\n", 1);
    }
    pthread_mutex_unlock(&the_log.lock);
}

void log_status_end(void) {
    pthread_mutex_lock(&the_log.lock);
    if (the_log.status[0])
        write_all("\n", 1);
    the_log.status[0] = '\0';
    pthread_mutex_unlock(&the_log.lock);
}
