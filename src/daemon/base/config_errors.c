#include "daemon/base/config_errors.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool config_errors_add(struct config_errors *errors, const char *format, ...) {
    char *line, *text;
    if (++errors->count > CONFIG_ERRORS_MOST)
        return false;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&line, format, arguments);
    va_end(arguments);
    if (length < 0)
        return false;
    if (asprintf(&text, "%s%s\n", errors->text ? errors->text : "", line) >= 0) {
        free(errors->text);
        errors->text = text;
    }
    free(line);
    return false;
}

void config_errors_each(const struct config_errors *errors, void (*call)(const char *line, void *user), void *user) {
    char *text = errors->text ? strdup(errors->text) : NULL;
    char *rest = text;
    for (char *line; rest && (line = strsep(&rest, "\n"));)
        if (*line)
            call(line, user);
    if (errors->count > CONFIG_ERRORS_MOST)
        call("and more", user);
    if (errors->count > 0 && !text)
        call("out of memory", user);
    free(text);
}

void config_errors_clear(struct config_errors *errors) {
    free(errors->text);
    *errors = (struct config_errors){0};
}
