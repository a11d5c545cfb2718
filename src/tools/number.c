#include "tools/number.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/say.h"

bool number_read(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *ret_number) {
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || errno || number < least || number > most) {
        say("%s wants a number from %llu to %llu, not \"%s\"", option, (unsigned long long)least,
            (unsigned long long)most, text);
        return false;
    }
    *ret_number = number;
    return true;
}

bool number_read_real(const char *option, const char *text, double least, double most, double *ret_number) {
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || !(number >= least && number <= most)) {
        say("%s wants a number from %g to %g, not \"%s\"", option, least, most, text);
        return false;
    }
    *ret_number = number;
    return true;
}
