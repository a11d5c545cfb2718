/*
 * The table of HTTP routes: for each a set of methods, a path pattern and a handler. The methods in
 * answers to OPTIONS and in 405 come from this table.
 */
#ifndef SLUICED_HTTP_ROUTE_H
#define SLUICED_HTTP_ROUTE_H

#include <sluice/http.h>

#include "daemon/access/rule.h"

struct http_session;
struct worker;

enum http_method {
    METHOD_GET = 1 << 0,
    METHOD_HEAD = 1 << 1,
    METHOD_POST = 1 << 2,
    METHOD_PUT = 1 << 3,
    METHOD_OPTIONS = 1 << 4, /* of every path; in no route */
};

/* Responds, or has the session wait for what it responds to later. @rest: what the star of the
 * pattern stands for */
typedef void http_handler(struct http_session *session, const sluice_http_request *request, sluice_http_text rest);

struct http_route {
    unsigned methods; /* of enum http_method */
    /* of the path; it has one star (stream_name.h) */
    const char *pattern;
    enum rule_action action;                        /* the right that it takes */
    bool (*is_served)(const struct worker *worker); /* NULL: it always is */
    /* checks the request and the client's right, and asks the hook, if there is one */
    http_handler *handle;
    http_handler *serve; /* the request is granted */
};

/*
 * The route of the request's path and method, or NULL.
 * @ret_methods: all that the path has; 0: nothing is served there
 */
const struct http_route *http_route_find(const struct worker *worker, const sluice_http_request *request,
                                         unsigned *ret_methods);
unsigned http_route_all_methods(const struct worker *worker);

sluice_http_text http_route_rest(const struct http_route *route, const sluice_http_request *request);

/* A header with the names of methods, and its end. Bytes. */
int http_route_write_methods(char *buffer, size_t size, const char *header, unsigned methods);

/* The handlers: http_stream.c, http_record.c, http_obs.c, http_acme.c */
http_handler http_stream_handle, http_stream_serve_get, http_stream_serve_head, http_stream_serve_publish;
http_handler http_record_handle, http_record_serve;
bool http_record_is_served(const struct worker *worker);
http_handler http_obs_handle_get, http_obs_handle_post;
bool http_obs_is_served(const struct worker *worker);
http_handler http_acme_handle; /* any client may ask */
bool http_acme_is_served(const struct worker *worker);

#endif
