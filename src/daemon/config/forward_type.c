#include "daemon/config/forward_type.h"

#include <pthread.h>
#include <stdio.h>

enum { EXPECTED = 512 };

static char expected[EXPECTED];

const struct forward_type *forward_type_find(const char *url, size_t length) {
    for (size_t i = 0; forward_types[i]; i++)
        if (pull_scheme_fits(&forward_types[i]->scheme, url, length))
            return forward_types[i];
    return NULL;
}

static void write_expected(void) {
    size_t used = (size_t)snprintf(expected, sizeof expected, "expected STREAM=URL, with the URL");
    for (size_t i = 0; forward_types[i] && used < sizeof expected; i++)
        used += (size_t)snprintf(expected + used, sizeof expected - used, "%s %s", i > 0 ? " or" : "",
                                 forward_types[i]->form);
}

const char *forward_type_expected(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, write_expected);
    return expected;
}
