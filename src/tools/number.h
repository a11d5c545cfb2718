/* Numbers on the command line: all of the text, and in range, or a message. */
#ifndef TOOLS_NUMBER_H
#define TOOLS_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* False, with a line on standard error, where it is no number from @least to @most. */
bool number_read(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *ret_number);

/* The same with a fraction. */
bool number_read_real(const char *option, const char *text, double least, double most, double *ret_number);

#endif
