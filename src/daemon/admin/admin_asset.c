#include "daemon/admin/admin_asset.h"

#include <string.h>

/*
 * The bytes of a file, as they are: between two symbols in read-only data. The build says where the
 * files are, and that this source depends on them.
 */
#define ASSET(name, file)                                                                                              \
    extern const char asset_##name[], asset_##name##_end[];                                                            \
    __asm__(".pushsection .rodata\n"                                                                                   \
            ".hidden asset_" #name "\n.global asset_" #name "\nasset_" #name ":\n"                                     \
            ".incbin \"" file "\"\n"                                                                                   \
            ".hidden asset_" #name "_end\n.global asset_" #name "_end\nasset_" #name "_end:\n"                         \
            ".byte 0\n.popsection\n")

ASSET(openapi, SLUICED_SOURCES "/openapi.json");
ASSET(page, SLUICED_SOURCES "/console/console.html");
ASSET(script, SLUICED_SOURCES "/console/console.js");
ASSET(style, SLUICED_SOURCES "/console/console.css");
#ifdef SLUICED_MPEGTS_JS
ASSET(mpegts, SLUICED_MPEGTS_JS);
#endif

/*
 * The page runs nothing but its own scripts. Streams are played from the ports for streams, which
 * are other origins; what is played is a blob: of the page's own making.
 */
static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
                             "media-src 'self' blob:; worker-src 'self' blob:; connect-src 'self' http: ws:; "
                             "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

enum { ASSETS = 5 };

/* The sizes are not constants to the compiler. */
static const struct admin_asset *all(void) {
    static struct admin_asset assets[ASSETS];
    const struct admin_asset list[ASSETS] = {
        {"/api/v1/openapi.json", "application/json", NULL, asset_openapi, (size_t)(asset_openapi_end - asset_openapi)},
        {"/", "text/html; charset=utf-8", policy, asset_page, (size_t)(asset_page_end - asset_page)},
        {"/console.js", "text/javascript; charset=utf-8", NULL, asset_script,
         (size_t)(asset_script_end - asset_script)},
        {"/console.css", "text/css; charset=utf-8", NULL, asset_style, (size_t)(asset_style_end - asset_style)},
#ifdef SLUICED_MPEGTS_JS
        {"/mpegts.js", "text/javascript; charset=utf-8", NULL, asset_mpegts, (size_t)(asset_mpegts_end - asset_mpegts)},
#else
        {"/mpegts.js", "text/javascript; charset=utf-8", NULL, NULL, 0},
#endif
    };
    memcpy(assets, list, sizeof list);
    return assets;
}

const struct admin_asset *admin_asset_find(const char *path) {
    const struct admin_asset *assets = all();
    for (size_t i = 0; i < ASSETS; i++)
        if (strcmp(assets[i].path, path) == 0)
            return &assets[i];
    return NULL;
}
