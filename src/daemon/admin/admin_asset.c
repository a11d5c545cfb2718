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

/* The console's scripts, which are modules of the language: one for each concern. */
#define EACH_SCRIPT(call)                                                                                              \
    call(api) call(bans) call(certificates) call(cluster_page) call(dom) call(format) call(forwards) call(history)     \
        call(listeners) call(main) call(players) call(plot) call(preview) call(pulls) call(stream_page) call(streams)  \
            call(urls)

#define SCRIPT_ASSET(name) ASSET(script_##name, SLUICED_SOURCES "/console/" #name ".js");
ASSET(openapi, SLUICED_SOURCES "/openapi.json");
ASSET(page, SLUICED_SOURCES "/console/console.html");
ASSET(style, SLUICED_SOURCES "/console/console.css");
EACH_SCRIPT(SCRIPT_ASSET)
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

#define SCRIPT_COUNT(name) +1
enum { ASSETS = 4 EACH_SCRIPT(SCRIPT_COUNT) };

#define FILE_ROW(path, type, policy, name)                                                                             \
    { path, type "; charset=utf-8", policy, asset_##name, (size_t)(asset_##name##_end - asset_##name) }
#define SCRIPT_ROW(name) FILE_ROW("/console/" #name ".js", "text/javascript", NULL, script_##name),

/* The sizes are not constants to the compiler. */
static const struct admin_asset *all(void) {
    static struct admin_asset assets[ASSETS];
    const struct admin_asset list[ASSETS] = {
        {"/api/v1/openapi.json", "application/json", NULL, asset_openapi, (size_t)(asset_openapi_end - asset_openapi)},
        FILE_ROW("/", "text/html", policy, page),
        FILE_ROW("/console/console.css", "text/css", NULL, style),
        EACH_SCRIPT(SCRIPT_ROW)
#ifdef SLUICED_MPEGTS_JS
            FILE_ROW("/mpegts.js", "text/javascript", NULL, mpegts),
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
