#include "daemon/pull/pull_rtsp.h"
#include "shared/text.h"

const struct pull_type *const pull_types[] = {
    &pull_rtsp,
    NULL,
};

const struct pull_type *pull_type_find(const char *url, size_t length) {
    sluice_http_text rest = {url, length};
    const sluice_http_text scheme = text_split(&rest, ':');
    for (size_t i = 0; pull_types[i]; i++)
        if (text_folds_to(scheme, pull_types[i]->scheme))
            return pull_types[i];
    return NULL;
}
