#include "daemon/base/log.h"

#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/log_writer.h"

enum {
    LINE = 1024,
    STATUS = 256,
    PHRASE = 128, /* longest reason before its explanation */
    /* that are counted; further ones are not limited: the daemon has fewer that a peer can cause */
    MESSAGES = 64,
    RATE = 200,     /* until it is set */
    STOP_MS = 1000, /* for the last lines to be written */
};

static const char *const level_names[] = {"error", "warning", "info", "debug"};

/* How often a message came in this second. */
struct message {
    const char *text;
    enum log_level level;
    time_t second;
    uint32_t count;
};

/* The process has one log. */
static struct {
    pthread_mutex_t lock;
    /*
     * systemd reports which file is the journal, because standard error may have been redirected
     * since.
     */
    atomic_int level;
    enum log_format format;
    bool to_journal;
    atomic_bool has_error;
    uint32_t rate;
    struct message messages[MESSAGES];
    char status[STATUS];
} the_log = {.lock = PTHREAD_MUTEX_INITIALIZER, .level = LOG_INFO, .rate = RATE};

typedef struct line {
    char text[LINE];
    size_t length;
} line;

void log_set_level(enum log_level level) {
    atomic_store_explicit(&the_log.level, (int)level, memory_order_relaxed);
}

log_number log_unsigned(uint64_t value) {
    log_number number;
    snprintf(number.text, sizeof number.text, "%llu", (unsigned long long)value);
    return number;
}

/* systemd tells which file the journal is, since standard error may have been turned elsewhere
 * meanwhile. */
static bool is_journal(void) {
    const char *told = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat here;
    return told && sscanf(told, "%llu:%llu", &device, &inode) == 2 && fstat(STDERR_FILENO, &here) == 0 &&
           here.st_dev == device && here.st_ino == inode;
}

void log_set_format(enum log_format format) {
    the_log.format = format;
    the_log.to_journal = format == LOG_TEXT && is_journal();
}

void log_set_rate(uint32_t lines) {
    pthread_mutex_lock(&the_log.lock);
    the_log.rate = lines;
    pthread_mutex_unlock(&the_log.lock);
}

/* Keeps room for the end of the line: what is too long is cut. */
static void add(line *out, char byte) {
    if (out->length < LINE - 8)
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

/* A reason "PHRASE: EXPLANATION" is two fields: reason=PHRASE, detail=EXPLANATION. Returns how many
 * fields the parts are. @phrase: memory for the first. */
static size_t split(const log_field *field, char phrase[PHRASE], log_field ret_parts[2]) {
    const char *colon = strcmp(field->key, "reason") == 0 ? strstr(field->value, ": ") : NULL;
    size_t length = colon ? (size_t)(colon - field->value) : PHRASE;
    ret_parts[0] = *field;
    if (length >= PHRASE)
        return 1;
    memcpy(phrase, field->value, length);
    phrase[length] = '\0';
    ret_parts[0].value = phrase;
    ret_parts[1] = (log_field){"detail", colon + strlen(": ")};
    return 2;
}

/* In JSON the backslash of \xNN is itself escaped: both formats hold the same text. */
static void add_quoted(line *out, const char *value) {
    static const char hex[] = "0123456789abcdef";
    add(out, '"');
    for (; *value; value++) {
        unsigned char byte = (unsigned char)*value;
        if (byte == '"' || byte == '\\') {
            add(out, '\\');
            add(out, (char)byte);
        } else if (byte < 0x20 || byte >= 0x7f) {
            add_text(out, the_log.format == LOG_JSON ? "\\\\x" : "\\x");
            add(out, hex[byte >> 4]);
            add(out, hex[byte & 15]);
        } else {
            add(out, (char)byte);
        }
    }
    add(out, '"');
}

static void add_time(line *out, const struct timespec *now) {
    struct tm parts;
    char text[40];
    gmtime_r(&now->tv_sec, &parts);
    size_t length = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + length, sizeof text - length, ".%03ldZ", now->tv_nsec / 1000000);
    add_text(out, text);
}

static void add_text_line(line *out, const struct timespec *now, enum log_level level, const char *message,
                          const log_field *fields, size_t count) {
    if (the_log.to_journal) {
        static const char *const priorities[] = {"<3>", "<4>", "<6>", "<7>"};
        add_text(out, priorities[level]);
    } else {
        add_time(out, now);
        add(out, ' ');
        add_text(out, level_names[level]);
        for (size_t pad = strlen(level_names[level]); pad < 8; pad++)
            add(out, ' ');
    }
    add_text(out, message);
    for (size_t i = 0; i < count; i++) {
        char phrase[PHRASE];
        log_field parts[2];
        size_t part_count = split(&fields[i], phrase, parts);
        for (size_t part = 0; part < part_count; part++) {
            add(out, ' ');
            add_text(out, parts[part].key);
            add(out, '=');
            if (is_plain(parts[part].value))
                add_text(out, parts[part].value);
            else
                add_quoted(out, parts[part].value);
        }
    }
}

static void add_member(line *out, const char *key, const char *value) {
    add_quoted(out, key);
    add(out, ':');
    add_quoted(out, value);
}

/* A field that does not fit is left out, so that the object stays one. */
static void add_json_line(line *out, const struct timespec *now, enum log_level level, const char *message,
                          const log_field *fields, size_t count) {
    add_text(out, "{\"time\":\"");
    add_time(out, now);
    add_text(out, "\",");
    add_member(out, "level", level_names[level]);
    add(out, ',');
    add_member(out, "message", message);
    for (size_t i = 0; i < count; i++) {
        char phrase[PHRASE];
        log_field parts[2];
        size_t part_count = split(&fields[i], phrase, parts);
        for (size_t part = 0; part < part_count; part++) {
            size_t before = out->length;
            add(out, ',');
            add_member(out, parts[part].key, parts[part].value);
            if (out->length == LINE - 8)
                out->length = before;
        }
    }
    add(out, '}');
}

/* The line without its end. */
static void format(line *out, enum log_level level, const struct timespec *now, const char *message,
                   const log_field *fields, size_t count) {
    out->length = 0;
    if (the_log.format == LOG_JSON)
        add_json_line(out, now, level, message, fields, count);
    else
        add_text_line(out, now, level, message, fields, count);
}

static void show(enum log_level level, const struct timespec *now, const char *message, const log_field *fields,
                 size_t count) {
    char text[LINE + STATUS + 16];
    line out;
    format(&out, level, now, message, fields, count);
    /* In one piece: a status line stays below what is logged. */
    bool has_status = the_log.status[0];
    int length = snprintf(text, sizeof text, "%s%.*s\n%s%s", has_status ? "\r\033[K" : "", (int)out.length, out.text,
                          has_status ? "\r\033[K" : "", the_log.status);
    log_writer_put(text, (size_t)length);
}

/* Nothing here changes once the log has been started. */
static size_t format_lost(char *text, size_t size, uint64_t lines) {
    struct timespec now;
    line out;
    const log_number lost = log_unsigned(lines);
    const log_field field = {"lines", lost.text};
    clock_gettime(CLOCK_REALTIME, &now);
    format(&out, LOG_WARNING, &now, "log lines lost", &field, 1);
    return (size_t)snprintf(text, size, "%.*s\n", (int)out.length, out.text);
}

int log_start(void) {
    return log_writer_start(format_lost);
}

void log_stop(void) {
    log_flush();
    log_writer_stop(STOP_MS);
}

uint64_t log_lost(void) {
    return log_writer_lost();
}

/* Tells what was left out of the seconds that are over. */
static void tell_suppressed(const struct timespec *now, time_t until) {
    for (size_t i = 0; i < MESSAGES && the_log.messages[i].text; i++) {
        struct message *message = &the_log.messages[i];
        if (message->second >= until || the_log.rate == 0 || message->count <= the_log.rate)
            continue;
        const log_number left = log_unsigned(message->count - the_log.rate);
        const log_field fields[] = {{"suppressed", message->text}, {"lines", left.text}};
        message->count = 0;
        show(message->level, now, "log lines left out", fields, sizeof fields / sizeof *fields);
    }
}

static bool within_rate(enum log_level level, const char *text, time_t second) {
    size_t at = 0;
    while (at < MESSAGES && the_log.messages[at].text && strcmp(the_log.messages[at].text, text) != 0)
        at++;
    if (at == MESSAGES)
        return true;
    struct message *message = &the_log.messages[at];
    message->text = text;
    message->level = level;
    if (message->second != second)
        message->count = 0;
    message->second = second;
    return ++message->count <= the_log.rate || the_log.rate == 0;
}

static void write_line(enum log_level level, const char *message, const log_field *fields, size_t count,
                       bool is_counted) {
    struct timespec now;
    if ((int)level > atomic_load_explicit(&the_log.level, memory_order_relaxed))
        return;
    pthread_mutex_lock(&the_log.lock);
    clock_gettime(CLOCK_REALTIME, &now);
    tell_suppressed(&now, now.tv_sec);
    if (!is_counted || within_rate(level, message, now.tv_sec))
        show(level, &now, message, fields, count);
    if (level == LOG_ERROR)
        atomic_store_explicit(&the_log.has_error, true, memory_order_relaxed);
    pthread_mutex_unlock(&the_log.lock);
}

void log_write(enum log_level level, const char *message, const log_field *fields, size_t count) {
    write_line(level, message, fields, count, true);
}

void log_write_uncounted(enum log_level level, const char *message, const log_field *fields, size_t count) {
    write_line(level, message, fields, count, false);
}

bool log_has_error(void) {
    return atomic_load_explicit(&the_log.has_error, memory_order_relaxed);
}

void log_flush(void) {
    struct timespec now;
    pthread_mutex_lock(&the_log.lock);
    clock_gettime(CLOCK_REALTIME, &now);
    tell_suppressed(&now, now.tv_sec + 1);
    pthread_mutex_unlock(&the_log.lock);
}

void log_status(const char *text) {
    char shown[STATUS + 8];
    bool is_terminal = isatty(STDERR_FILENO);
    if (the_log.format == LOG_JSON && !is_terminal) {
        LOG(LOG_INFO, "status", {"text", text});
        return;
    }
    pthread_mutex_lock(&the_log.lock);
    if (is_terminal)
        snprintf(the_log.status, sizeof the_log.status, "%s", text);
    int length = snprintf(shown, sizeof shown, is_terminal ? "\r\033[K%.*s" : "%.*s\n", STATUS - 1, text);
    log_writer_put(shown, (size_t)length);
    pthread_mutex_unlock(&the_log.lock);
}

void log_status_end(void) {
    pthread_mutex_lock(&the_log.lock);
    if (the_log.status[0])
        log_writer_put("\n", 1);
    the_log.status[0] = '\0';
    pthread_mutex_unlock(&the_log.lock);
}
