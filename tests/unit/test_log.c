/* What the daemon's log lines look like, whatever peers have put into them, and how many there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/log.h"

/* The linker puts this in the place of the call (--wrap). */
ssize_t __real_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);

static unsigned interruptions; /* to come */

ssize_t __wrap_write(int fd, const void *bytes, size_t n) {
    if (interruptions == 0)
        return __real_write(fd, bytes, n);
    errno = EINTR;
    /* In the middle, too. */
    return interruptions-- % 2 && n > 1 ? __real_write(fd, bytes, n / 2) : -1;
}

/* Standard error goes to a file meanwhile. */
static int kept_fd, file_fd;

static void capture(void) {
    char path[] = "/tmp/sluice-log-XXXXXX";
    file_fd = mkstemp(path);
    assert_true(file_fd >= 0);
    assert_int_equal(unlink(path), 0);
    kept_fd = dup(STDERR_FILENO);
    assert_true(kept_fd >= 0);
    assert_int_equal(dup2(file_fd, STDERR_FILENO), STDERR_FILENO);
}

/* What was written; the caller frees it. */
static char *captured(void) {
    assert_int_equal(dup2(kept_fd, STDERR_FILENO), STDERR_FILENO);
    close(kept_fd);
    off_t size = lseek(file_fd, 0, SEEK_END);
    char *text = calloc(1, (size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(pread(file_fd, text, (size_t)size, 0), size);
    close(file_fd);
    return text;
}

static size_t count(const char *text, const char *what) {
    size_t found = 0;
    for (; (text = strstr(text, what)); text += strlen(what))
        found++;
    return found;
}

#define ODD "a\"b\\c\nd\x7f\xc3\xa4"

static void text_is_escaped(void **state) {
    (void)state;
    log_set_format(LOG_TEXT);
    capture();
    LOG(LOG_WARNING, "hello", {"plain", "1.2.3.4:5"}, {"odd", ODD}, {"empty", ""});
    char *text = captured();
    assert_int_equal(strlen(text) - strlen("2026-11-21T20:15:03.123Z "), strlen(strchr(text, ' ') + 1));
    assert_string_equal(strchr(text, ' ') + 1,
                        "warning hello plain=1.2.3.4:5 odd=\"a\\\"b\\\\c\\x0ad\\x7f\\xc3\\xa4\" empty=\"\"\n");
    free(text);
}

static void json_is_escaped(void **state) {
    (void)state;
    log_set_format(LOG_JSON);
    capture();
    LOG(LOG_ERROR, "hello", {"odd", ODD});
    char *text = captured();
    assert_memory_equal(text, "{\"time\":\"", 9);
    assert_string_equal(
        strstr(text, "Z\""),
        "Z\",\"level\":\"error\",\"message\":\"hello\",\"odd\":\"a\\\"b\\\\c\\\\x0ad\\\\x7f\\\\xc3\\\\xa4\"}\n");
    free(text);
}

/* A field that does not fit is left out as a whole, at whatever length that begins; the others stay. */
static void long_lines(void **state) {
    (void)state;
    static char value[2048];
    log_set_rate(0);
    for (size_t length = 0; length<sizeof value; length += length> 880 && length < 1000 ? 1 : 40) {
        memset(value, '\n', length);
        value[length] = '\0';
        log_set_format(LOG_JSON);
        capture();
        LOG(LOG_INFO, "long", {"value", value}, {"next", "here"});
        char *text = captured();
        size_t size = strlen(text);
        assert_true(size <= 1024);
        assert_string_equal(text + size - 2, "}\n");
        assert_int_equal(count(text, "\n"), 1);
        size_t members = 3 + count(text, "\"value\":") + count(text, "\"next\":");
        assert_int_equal(count(text, "\":\""), members);
        assert_int_equal(count(text, "\","), members - 1);
        free(text);

        log_set_format(LOG_TEXT);
        capture();
        LOG(LOG_INFO, "long", {"value", value});
        text = captured();
        assert_true(strlen(text) <= 1024);
        assert_int_equal(count(text, "\n"), 1);
        free(text);
    }
}

static size_t left_out(const char *text, const char *message) {
    char wanted[80];
    size_t lines = 0;
    snprintf(wanted, sizeof wanted, "suppressed=%s lines=", message);
    while ((text = strstr(text, wanted))) {
        text += strlen(wanted);
        lines += strtoul(text, NULL, 10);
    }
    return lines;
}

/* However the seconds fall: what is shown and what is said to be left out are all that there was. */
static void one_message_does_not_drown_the_others(void **state) {
    (void)state;
    log_set_format(LOG_TEXT);
    log_set_rate(10);
    capture();
    for (int i = 0; i < 1000; i++)
        LOG(LOG_INFO, "many", {"x", "y"});
    LOG(LOG_INFO, "rare", {"x", "y"});
    log_flush();
    log_flush();
    char *text = captured();
    size_t shown = count(text, " many ");
    assert_true(shown >= 10);
    assert_true(shown < 1000);
    assert_int_equal(shown + left_out(text, "many"), 1000);
    assert_int_equal(count(text, " rare "), 1);
    assert_int_equal(left_out(text, "rare"), 0);
    free(text);

    log_set_rate(0);
    capture();
    for (int i = 0; i < 1000; i++)
        LOG(LOG_INFO, "many", {"x", "y"});
    log_flush();
    text = captured();
    assert_int_equal(count(text, " many "), 1000);
    assert_int_equal(count(text, "suppressed"), 0);
    free(text);
}

static void levels(void **state) {
    (void)state;
    log_set_format(LOG_TEXT);
    log_set_level(LOG_WARNING);
    capture();
    LOG(LOG_INFO, "quiet", {"x", "y"});
    LOG(LOG_WARNING, "loud", {"x", "y"});
    char *text = captured();
    log_set_level(LOG_DEBUG);
    assert_int_equal(count(text, "quiet"), 0);
    assert_int_equal(count(text, "loud"), 1);
    free(text);
    assert_int_equal(log_level_of("debug"), LOG_DEBUG);
    assert_int_equal(log_level_of("loud"), -1);
}

/* systemd says which file its journal is; when standard error is that, its form is used. */
static void the_journal(void **state) {
    (void)state;
    struct stat there;
    char told[64];
    capture();
    assert_int_equal(fstat(file_fd, &there), 0);
    snprintf(told, sizeof told, "%llu:%llu", (unsigned long long)there.st_dev, (unsigned long long)there.st_ino);
    assert_int_equal(setenv("JOURNAL_STREAM", told, 1), 0);
    log_set_format(LOG_TEXT);
    LOG(LOG_WARNING, "hello", {"x", "y"});
    log_set_format(LOG_JSON);
    LOG(LOG_WARNING, "hello", {"x", "y"});
    char *text = captured();
    assert_memory_equal(text, "<4>hello x=y\n{", 14);
    free(text);
    log_set_format(LOG_TEXT); /* standard error is another file now */
    capture();
    LOG(LOG_WARNING, "hello", {"x", "y"});
    text = captured();
    assert_int_not_equal(text[0], '<');
    free(text);
    unsetenv("JOURNAL_STREAM");
}

static void an_interrupted_write_loses_no_line(void **state) {
    (void)state;
    log_set_format(LOG_TEXT);
    capture();
    interruptions = 4;
    LOG(LOG_WARNING, "hello", {"what", "is interrupted"});
    char *text = captured();
    assert_string_equal(strchr(text, ' ') + 1, "warning hello what=\"is interrupted\"\n");
    assert_int_equal(interruptions, 0);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_escaped),
        cmocka_unit_test(json_is_escaped),
        cmocka_unit_test(long_lines),
        cmocka_unit_test(one_message_does_not_drown_the_others),
        cmocka_unit_test(levels),
        cmocka_unit_test(the_journal),
        cmocka_unit_test(an_interrupted_write_loses_no_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
