/*
 * Writes JSON text (RFC 8259), including commas and escapes; lack of memory is reported at the end.
 */
#ifndef SHARED_JSON_H
#define SHARED_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    char *text; /* the caller's to free */
    size_t length, capacity;
    bool needs_comma;
    bool failed; /* memory ran out: the text is not whole */
};

/* Keys are NULL in arrays and for the outermost value. */
void json_open(struct json *json, const char *key, char bracket); /* '{' or '[' */
void json_close(struct json *json, char bracket);                 /* '}' or ']' */
void json_put_string(struct json *json, const char *key, const char *value);
void json_put_unsigned(struct json *json, const char *key, uint64_t value);
/* not a number, or infinite: null */
void json_put_real(struct json *json, const char *key, double value);
void json_put_bool(struct json *json, const char *key, bool value);
void json_put_null(struct json *json, const char *key);
/* a number, or null where there is none */
void json_put_real_if(struct json *json, const char *key, bool is_known, double value);
/* a string; NULL or empty: null */
void json_put_optional(struct json *json, const char *key, const char *value);

/* A value that is JSON text already; NULL: memory has run out for it. */
void json_put_text(struct json *json, const char *key, const char *value);

/* A string alone, with its quotes. */
void json_print_string(FILE *out, const char *value);

#endif
