/* Lines up to a number of bytes: what is left out is counted, and no line is kept in part. */
#include "daemon/process/state_lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void check(const struct state_lines *lines, const char *text, unsigned dropped) {
    assert_int_equal(lines->size, strlen(text));
    if (*text)
        assert_memory_equal(lines->text, text, lines->size);
    assert_int_equal(lines->dropped, dropped);
}

/* The last byte has room, and the one behind it does not. */
static void as_many_bytes_as_there_may_be(void **state) {
    (void)state;
    struct state_lines lines;
    state_lines_init(&lines, 10);
    check(&lines, "", 0);
    state_lines_add(&lines, "%s %d\n", "ab", 12);
    state_lines_add(&lines, "%s\n", "1234");
    check(&lines, "ab 12\n", 1);
    state_lines_add(&lines, "%s\n", "123");
    check(&lines, "ab 12\n123\n", 1);
    state_lines_add(&lines, "\n");
    check(&lines, "ab 12\n123\n", 2);
    state_lines_empty(&lines);
    check(&lines, "", 0);
    state_lines_add(&lines, "%s\n", "123456789");
    check(&lines, "123456789\n", 0);
    state_lines_clear(&lines);
}

static void lines_that_grow_stay_what_they_are(void **state) {
    (void)state;
    enum { COUNT = 5000, LINE = sizeof "line 0000" };
    struct state_lines lines;
    char line[LINE + 1];
    state_lines_init(&lines, COUNT * LINE);
    for (unsigned i = 0; i <= COUNT; i++)
        state_lines_add(&lines, "line %04u\n", i);
    assert_int_equal(lines.size, COUNT * LINE);
    assert_int_equal(lines.dropped, 1);
    for (unsigned i = 0; i < COUNT; i++) {
        snprintf(line, sizeof line, "line %04u\n", i);
        assert_memory_equal(lines.text + i * LINE, line, LINE);
    }
    state_lines_clear(&lines);
}

/* At every length: the lines that are whole in it. */
static void cut_at_the_end_of_a_line(void **state) {
    (void)state;
    static const char text[] = "a\nbcd\nef\n";
    static const size_t ends[] = {0, 2, 6, 9};
    for (size_t most = 0; most <= sizeof text; most++) {
        struct state_lines lines;
        char kept[sizeof text];
        unsigned whole = 3;
        while (ends[whole] > most)
            whole--;
        state_lines_init(&lines, 100);
        state_lines_add(&lines, "a\n");
        state_lines_add(&lines, "bcd\n");
        state_lines_add(&lines, "ef\n");
        state_lines_cut(&lines, most);
        snprintf(kept, sizeof kept, "%.*s", (int)ends[whole], text);
        check(&lines, kept, 3 - whole);
        state_lines_clear(&lines);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_bytes_as_there_may_be),
        cmocka_unit_test(lines_that_grow_stay_what_they_are),
        cmocka_unit_test(cut_at_the_end_of_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
