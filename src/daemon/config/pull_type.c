#include "daemon/config/pull_type.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { EXPECTED = 512 };

static char expected_url[EXPECTED], expected_option[EXPECTED];

const struct pull_type *pull_type_find(const char *url, size_t length) {
    for (size_t i = 0; pull_types[i]; i++)
        if (pull_scheme_fits(&pull_types[i]->scheme, url, length))
            return pull_types[i];
    return NULL;
}

static void write_expected(void) {
    char forms[EXPECTED - 80] = "";
    for (size_t i = 0, used = 0; pull_types[i] && used < sizeof forms; i++)
        used += (size_t)snprintf(forms + used, sizeof forms - used, "%s%s", i > 0 ? " or " : "", pull_types[i]->form);
    snprintf(expected_url, sizeof expected_url, "expected %s", forms);
    snprintf(expected_option, sizeof expected_option, "expected URL=NAME or URL=NAME,on-demand, with the URL %s",
             forms);
}

static void prepare(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, write_expected);
}

const char *pull_type_expected_url(void) {
    prepare();
    return expected_url;
}

const char *pull_type_expected_option(void) {
    prepare();
    return expected_option;
}
