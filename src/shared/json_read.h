/* Reads JSON text (RFC 8259) that is one object of plain values: strings, integers, booleans and
 * null. */
#ifndef SHARED_JSON_READ_H
#define SHARED_JSON_READ_H

#include <stddef.h>
#include <stdint.h>

enum json_kind {
    JSON_KIND_STRING,
    JSON_KIND_INTEGER,
    JSON_KIND_TRUE,
    JSON_KIND_FALSE,
    JSON_KIND_NULL,
};

struct json_member {
    const char *key;
    enum json_kind kind;
    const char *text; /* of a string */
    size_t length;
    int64_t integer;
};

/* Strings are valid during the call. 0, or what ends the reading */
typedef int json_member_fn(const struct json_member *member, void *user);

/*
 * Calls @member for each, in their order. @text: @size bytes with a NUL behind them; strings are
 * decoded in place. 0; -EINVAL: it is no such object, or a string holds a NUL; or what @member has
 * returned
 */
int json_read_object(char *text, size_t size, json_member_fn *member, void *user);

#endif
