/* Building text in a caller's buffer. */
#ifndef SLUICE_FRAMERS_TEXT_FORMAT_H
#define SLUICE_FRAMERS_TEXT_FORMAT_H

#include <stdarg.h>
#include <stddef.h>

/* Appends formatted text at @length, which grows by it. 0, -EINVAL, -EMSGSIZE: no room for it and
 * its NUL */
int text_format(char *buffer, size_t size, size_t *length, const char *format, va_list arguments);

#endif
