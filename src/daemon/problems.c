#include "daemon/problems.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool problems_add(struct problems *problems, const char *format, ...) {
    char *line, *text;
    if (++problems->count > PROBLEMS_MOST)
        return false;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&line, format, arguments);
    va_end(arguments);
    if (length < 0)
        return false;
    if (asprintf(&text, "%s%s\n", problems->text ? problems->text : "", line) >= 0) {
        free(problems->text);
        problems->text = text;
    }
    free(line);
    return false;
}

void problems_each(const struct problems *problems, void (*call)(const char *line, void *user), void *user) {
    char *text = problems->text ? strdup(problems->text) : NULL;
    char *rest = text;
    for (char *line; rest && (line = strsep(&rest, "\n"));)
        if (*line)
            call(line, user);
    if (problems->count > PROBLEMS_MOST)
        call("and more", user);
    if (problems->count > 0 && !text)
        call("out of memory", user);
    free(text);
}

void problems_clear(struct problems *problems) {
    free(problems->text);
    *problems = (struct problems){0};
}
