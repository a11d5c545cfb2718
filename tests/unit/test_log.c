/* What the daemon's log lines look like, whatever peers have put into them, and how many there
 * are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/log_ring.h"

/* The linker puts this in the place of the call (--wrap). */
ssize_t __real_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);

static unsigned interruptions; /* to come */
static atomic_int write_error; /* with which all writes fail; or 0 */
static atomic_uint failures;   /* that there were */
static atomic_uint meanwhile;  /* lines to be logged while the report of lost ones is written */

static void log_meanwhile(void);

ssize_t __wrap_write(int fd, const void *bytes, size_t n) {
    if (fd == STDERR_FILENO && write_error) {
        failures++;
        errno = write_error;
        return -1;
    }
    if (fd == STDERR_FILENO && meanwhile > 0 && memmem(bytes, n, "log lines lost", strlen("log lines lost")))
        log_meanwhile();
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

/* The explanation after a reason's first ": " is a field of its own; other fields stay whole. */
static void a_reason_is_split(void **state) {
    (void)state;
    char phrase[200] = "", expected[300];
    memset(phrase, 'x', 128);
    strcat(phrase, ": y");
    log_set_format(LOG_TEXT);
    capture();
    LOG(LOG_WARNING, "end", {"reason", "disk timeout: see a: b"}, {"other", "a: b"});
    LOG(LOG_WARNING, "end", {"reason", "kicked"});
    LOG(LOG_WARNING, "end", {"reason", phrase});
    log_set_format(LOG_JSON);
    LOG(LOG_WARNING, "end", {"reason", "disk timeout: see b"});
    char *text = captured();
    assert_non_null(strstr(text, " end reason=\"disk timeout\" detail=\"see a: b\" other=\"a: b\"\n"));
    assert_non_null(strstr(text, " end reason=kicked\n"));
    snprintf(expected, sizeof expected, " end reason=\"%s\"\n", phrase);
    assert_non_null(strstr(text, expected));
    assert_non_null(strstr(text, "\"reason\":\"disk timeout\",\"detail\":\"see b\"}\n"));
    free(text);
}

/* A field that does not fit is left out as a whole, at whatever length that begins; the others
 * stay. */
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

static void the_status_is_json_too(void **state) {
    (void)state;
    log_set_format(LOG_JSON);
    capture();
    log_status("streams 1 | \"x\"");
    log_status_end();
    char *text = captured();
    assert_string_equal(strstr(text, "Z\""),
                        "Z\",\"level\":\"info\",\"message\":\"status\",\"text\":\"streams 1 | \\\"x\\\"\"}\n");
    free(text);
    log_set_format(LOG_TEXT);
    capture();
    log_status("streams 1");
    text = captured();
    assert_string_equal(text, "streams 1\n");
    free(text);
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

/* However the seconds fall: what is shown and what is said to be left out are all that there
 * was. */
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

/* Lines that their caller limits are neither hidden by others with their message, nor hide them. */
static void uncounted_lines_are_apart(void **state) {
    (void)state;
    const log_field field = {"x", "apart"};
    log_set_format(LOG_TEXT);
    log_set_rate(10);
    capture();
    for (int i = 0; i < 1000; i++) {
        LOG(LOG_INFO, "beside", {"x", "y"});
        log_write_uncounted(LOG_INFO, "beside", &field, 1);
    }
    log_flush();
    log_set_rate(0);
    char *text = captured();
    assert_int_equal(count(text, " beside x=apart"), 1000);
    size_t shown = count(text, " beside x=y");
    assert_true(shown >= 10);
    assert_int_equal(shown + left_out(text, "beside"), 1000);
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

/* What the ring holds is what was put into it, in order; at each place of it, up to the last
 * byte. */
static void the_ring_keeps_order(void **state) {
    (void)state;
    struct log_ring *ring = calloc(1, sizeof *ring);
    char text[LOG_RING_LINE], taken[2 * LOG_RING_LINE];
    size_t lines, put = 0, got = 0;
    assert_non_null(ring);
    assert_int_equal(log_ring_take(ring, taken, sizeof taken, &lines), 0);
    for (int round = 0; round < 300; round++) {
        for (;; put++) {
            size_t length = put * 7 % LOG_RING_LINE + 1;
            memset(text, (int)('a' + put % 26), length);
            if (!log_ring_put(ring, text, length))
                break;
        }
        assert_true(ring->used > LOG_RING_BYTES - LOG_RING_LINE - 2);
        assert_int_equal(ring->lines, put - got);
        for (size_t size; (size = log_ring_take(ring, taken, sizeof taken, &lines)) > 0;) {
            assert_true(lines > 0);
            for (size_t at = 0; lines > 0; lines--, got++) {
                size_t length = got * 7 % LOG_RING_LINE + 1;
                for (size_t i = 0; i < length; i++)
                    assert_int_equal(taken[at + i], 'a' + got % 26);
                at += length;
                size -= length;
            }
            assert_int_equal(size, 0);
            if (round % 2 && put - got < 20)
                break;
        }
    }
    free(ring);
}

/* A ring that is full to the last byte takes nothing more, and all of it again when it is empty. */
static void the_rings_bound(void **state) {
    (void)state;
    enum { LENGTH = 62 }; /* and the two bytes of the length */
    struct log_ring *ring = calloc(1, sizeof *ring);
    char text[LENGTH] = "line", taken[LOG_RING_LINE];
    size_t lines;
    assert_non_null(ring);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < LOG_RING_BYTES / (LENGTH + 2); i++)
            assert_true(log_ring_put(ring, text, LENGTH));
        assert_false(log_ring_put(ring, text, 1));
        while (log_ring_take(ring, taken, sizeof taken, &lines) > 0)
            continue;
        assert_int_equal(ring->used, 0);
    }
    free(ring);
}

/* Standard error is a pipe that nobody reads. The end for reading. */
static int jam(void) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, 4096) >= 4096);
    kept_fd = dup(STDERR_FILENO);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    close(ends[1]);
    return ends[0];
}

/* Reads lines until one has that text; the caller frees them. */
static char *read_until(int fd, const char *end) {
    size_t size = 0, room = 1 << 20;
    char *text = calloc(1, room);
    assert_non_null(text);
    while (!strstr(text, end)) {
        ssize_t got = read(fd, text + size, room - size - 1);
        assert_true(got > 0);
        size += (size_t)got;
    }
    return text;
}

static void unjam(int fd) {
    assert_int_equal(dup2(kept_fd, STDERR_FILENO), STDERR_FILENO);
    close(kept_fd);
    close(fd);
}

enum { JAMMED = 10000 };

static void log_numbers(int first, int count) {
    for (int i = first; i < first + count; i++)
        LOG(LOG_INFO, "number", {"i", log_unsigned((uint64_t)i).text});
}

/* The numbers that were logged are there, each in its place. How many. */
static int check_numbers(const char *text, int first) {
    int found = 0;
    for (; (text = strstr(text, "number i=")); found++)
        assert_int_equal(strtol(text += strlen("number i="), NULL, 10), first + found);
    return found;
}

/* On the thread that writes, which holds no lock. */
static void log_meanwhile(void) {
    log_numbers(JAMMED, (int)atomic_exchange(&meanwhile, 0));
}

/* What there is no room for is one gap, with its number at its place; behind it nothing is
 * missing. */
static void nobody_waits_for_a_reader(void **state) {
    (void)state;
    log_set_format(LOG_TEXT);
    log_set_rate(0);
    const uint64_t lost_before = log_lost();
    int fd = jam();
    assert_int_equal(log_start(), 0);
    log_numbers(0, JAMMED);
    const uint64_t lost = log_lost() - lost_before;
    assert_true(lost > 0 && lost < JAMMED);
    char *text = read_until(fd, "log lines lost"), wanted[80];
    snprintf(wanted, sizeof wanted, "Z warning log lines lost lines=%llu\n", (unsigned long long)lost);
    assert_non_null(strstr(text, wanted));
    assert_int_equal(count(text, "\n"), JAMMED - lost + 1);
    assert_int_equal(check_numbers(text, 0), JAMMED - lost);
    free(text);

    log_numbers(JAMMED, 10);
    log_stop();
    assert_int_equal(log_lost() - lost_before, lost);
    text = read_until(fd, "i=10009\n");
    assert_int_equal(check_numbers(text, JAMMED), 10);
    free(text);
    unjam(fd);
}

/* Threads that log all the time do not make one gap after the other. */
static void what_is_logged_beside_the_report_is_not_lost(void **state) {
    (void)state;
    enum { MEANWHILE = 100 };
    const uint64_t lost_before = log_lost();
    int fd = jam();
    assert_int_equal(log_start(), 0);
    meanwhile = MEANWHILE;
    log_numbers(0, JAMMED);
    const uint64_t lost = log_lost() - lost_before;
    assert_true(lost > 0);
    char *text = read_until(fd, "i=10099\n");
    assert_int_equal(log_lost() - lost_before, lost);
    assert_int_equal(count(text, "log lines lost"), 1);
    assert_int_equal(check_numbers(strstr(text, "log lines lost"), JAMMED), MEANWHILE);
    free(text);
    log_stop();
    unjam(fd);
}

static void the_report_is_json(void **state) {
    (void)state;
    log_set_format(LOG_JSON);
    int fd = jam();
    assert_int_equal(log_start(), 0);
    log_numbers(0, JAMMED);
    char *text = read_until(fd, "log lines lost");
    const char *line = strstr(text, "\"level\":\"warning\",\"message\":\"log lines lost\",\"lines\":\"");
    assert_non_null(line);
    assert_non_null(strstr(line, "\"}\n"));
    free(text);
    log_stop();
    log_set_format(LOG_TEXT);
    unjam(fd);
}

/* Errors of standard error cost lines, which are counted and reported once it is well; and no turns
 * of the thread. */
static void errors_are_counted(void **state) {
    (void)state;
    const uint64_t lost_before = log_lost();
    capture();
    assert_int_equal(log_start(), 0);
    write_error = EIO;
    log_numbers(0, 5);
    while (log_lost() - lost_before < 5)
        usleep(1000);
    /* A line, or several, with the report before: no more attempts than that. */
    assert_true(failures <= 10);
    write_error = 0;
    log_numbers(5, 1);
    log_stop();
    char *text = captured();
    const char *report = strstr(text, "warning log lines lost lines=5\n");
    assert_non_null(report);
    assert_int_equal(count(text, "\n"), 2);
    assert_int_equal(check_numbers(report, 5), 1);
    free(text);
}

/* Also a gap of a single line is reported. */
static void one_lost_line_is_reported(void **state) {
    (void)state;
    const uint64_t lost_before = log_lost();
    capture();
    assert_int_equal(log_start(), 0);
    write_error = EIO;
    log_numbers(0, 1);
    while (log_lost() - lost_before < 1)
        usleep(1000);
    write_error = 0;
    log_numbers(1, 1);
    log_stop();
    char *text = captured();
    const char *report = strstr(text, "warning log lines lost lines=1\n");
    assert_non_null(report);
    assert_int_equal(check_numbers(report, 1), 1);
    free(text);
}

/* Somebody else has made the open file non-blocking. */
static void a_full_pipe_that_does_not_block(void **state) {
    (void)state;
    const uint64_t lost_before = log_lost();
    int fd = jam();
    assert_int_equal(fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(log_start(), 0);
    log_numbers(0, 1000);
    assert_int_equal(log_lost(), lost_before);
    char *text = read_until(fd, "i=999\n");
    assert_int_equal(check_numbers(text, 0), 1000);
    free(text);
    log_stop();
    unjam(fd);
}

/* The last: the thread stays where it is, so there is none after it. */
static void the_end_is_not_waited_for(void **state) {
    (void)state;
    const uint64_t lost_before = log_lost();
    int fd = jam();
    assert_int_equal(log_start(), 0);
    log_numbers(0, 1000);
    log_stop();
    log_numbers(1000, JAMMED);
    assert_true(log_lost() > lost_before);
    log_stop();
    /* The pipe stays: the thread is in it. */
    assert_int_equal(dup2(kept_fd, STDERR_FILENO), STDERR_FILENO);
    close(kept_fd);
    (void)fd;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_escaped),
        cmocka_unit_test(json_is_escaped),
        cmocka_unit_test(a_reason_is_split),
        cmocka_unit_test(long_lines),
        cmocka_unit_test(one_message_does_not_drown_the_others),
        cmocka_unit_test(uncounted_lines_are_apart),
        cmocka_unit_test(the_status_is_json_too),
        cmocka_unit_test(levels),
        cmocka_unit_test(the_journal),
        cmocka_unit_test(an_interrupted_write_loses_no_line),
        cmocka_unit_test(the_ring_keeps_order),
        cmocka_unit_test(the_rings_bound),
        cmocka_unit_test(nobody_waits_for_a_reader),
        cmocka_unit_test(what_is_logged_beside_the_report_is_not_lost),
        cmocka_unit_test(the_report_is_json),
        cmocka_unit_test(errors_are_counted),
        cmocka_unit_test(one_lost_line_is_reported),
        cmocka_unit_test(a_full_pipe_that_does_not_block),
        cmocka_unit_test(the_end_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
