/* Files that are linked into the program: the API's description, the console. */
#ifndef SLUICED_ADMIN_ASSET_H
#define SLUICED_ADMIN_ASSET_H

#include <stddef.h>

struct admin_asset {
    const char *path, *type;
    const char *policy; /* Content-Security-Policy of pages; or NULL */
    const void *bytes;  /* NULL where the build is without it */
    size_t size;
};

/* NULL where there is none. */
const struct admin_asset *admin_asset_find(const char *path);

#endif
