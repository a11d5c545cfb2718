#include "tools/say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "shared/foreign_text.h"

void say(const char *format, ...) {
    char *text;
    va_list arguments;
    va_start(arguments, format);
    int size = vasprintf(&text, format, arguments);
    va_end(arguments);
    flockfile(stderr);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    /* What peers have answered is among it. */
    foreign_print(stderr, size < 0 ? "out of memory" : text);
    fputc('\n', stderr);
    funlockfile(stderr);
    if (size >= 0)
        free(text);
}
