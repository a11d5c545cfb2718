#include "framers/text/text_format.h"

#include <errno.h>
#include <stdio.h>

int text_format(char *buffer, size_t size, size_t *length, const char *format, va_list arguments) {
    size_t room = size - *length;
    int n = vsnprintf(buffer + *length, room, format, arguments);
    if (n < 0)
        return -EINVAL;
    if ((size_t)n >= room)
        return -EMSGSIZE;
    *length += (size_t)n;
    return 0;
}
