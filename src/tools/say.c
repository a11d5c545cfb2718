#include "tools/say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

void say(const char *format, ...) {
    va_list arguments;
    flockfile(stderr);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    funlockfile(stderr);
}
