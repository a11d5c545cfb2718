#include "daemon/protocols/http/http_route.h"

#include <stdio.h>
#include <string.h>

#include "daemon/base/stream_name.h"
#include "shared/text.h"

/* The first pattern that fits a path is the path's; rows with the same pattern belong together. */
static const struct http_route routes[] = {
    {METHOD_GET | METHOD_HEAD, "/recordings/*", RULE_PLAY, http_record_is_served, http_record_handle,
     http_record_serve},
    {METHOD_GET, "/obs/*", RULE_PUBLISH, http_obs_is_served, http_obs_handle_get, NULL},
    {METHOD_GET, "/.well-known/acme-challenge/*", RULE_PLAY, http_acme_is_served, http_acme_handle, NULL},
    {METHOD_POST, "/obs/*", RULE_PUBLISH, http_obs_is_served, http_obs_handle_post, NULL},
    {METHOD_GET, "/*.flv", RULE_PLAY, NULL, http_stream_handle, http_stream_serve_get},
    {METHOD_HEAD, "/*.flv", RULE_PLAY, NULL, http_stream_handle, http_stream_serve_head},
    {METHOD_POST | METHOD_PUT, "/*.flv", RULE_PUBLISH, NULL, http_stream_handle, http_stream_serve_publish},
};
static const struct http_route *const routes_end = routes + sizeof routes / sizeof *routes;

static const char *const method_names[] = {"GET", "HEAD", "POST", "PUT", "OPTIONS"};
enum { METHODS = sizeof method_names / sizeof *method_names };

static bool is_served(const struct http_route *route, const struct worker *worker) {
    return !route->is_served || route->is_served(worker);
}

const struct http_route *http_route_find(const struct worker *worker, const sluice_http_request *request,
                                         unsigned *ret_methods) {
    const struct http_route *found = NULL;
    const char *pattern = NULL;
    unsigned method = 0;
    for (size_t i = 0; i < METHODS; i++)
        method |= text_is(request->method, method_names[i]) ? 1u << i : 0;
    *ret_methods = 0;
    for (const struct http_route *route = routes; route < routes_end; route++) {
        bool fits = pattern ? strcmp(route->pattern, pattern) == 0
                            : stream_pattern_fits(route->pattern, request->path.text, request->path.length);
        if (!fits || !is_served(route, worker))
            continue;
        pattern = route->pattern;
        *ret_methods |= route->methods;
        if (route->methods & method)
            found = route;
    }
    return found;
}

unsigned http_route_all_methods(const struct worker *worker) {
    unsigned methods = 0;
    for (const struct http_route *route = routes; route < routes_end; route++)
        methods |= is_served(route, worker) ? route->methods : 0;
    return methods;
}

sluice_http_text http_route_rest(const struct http_route *route, const sluice_http_request *request) {
    size_t before = (size_t)(strchr(route->pattern, '*') - route->pattern);
    return (sluice_http_text){request->path.text + before, request->path.length - (strlen(route->pattern) - 1)};
}

int http_route_write_methods(char *buffer, size_t size, const char *header, unsigned methods) {
    int at = snprintf(buffer, size, "%s:", header);
    const char *comma = "";
    for (size_t i = 0; i < METHODS; i++) {
        if (!(methods & 1u << i))
            continue;
        at += snprintf(buffer + at, size - (size_t)at, "%s %s", comma, method_names[i]);
        comma = ",";
    }
    return at + snprintf(buffer + at, size - (size_t)at, "\r\n");
}
