#include "shared/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/foreign_text.h"

static void add(struct json *json, const char *text, size_t length) {
    if (json->failed)
        return;
    if (length > json->capacity - json->length) {
        size_t capacity = json->capacity ? 2 * json->capacity : 4096;
        while (capacity - json->length < length)
            capacity *= 2;
        char *grown = realloc(json->text, capacity);
        if (!grown) {
            json->failed = true;
            return;
        }
        json->text = grown;
        json->capacity = capacity;
    }
    memcpy(json->text + json->length, text, length);
    json->length += length;
}

static void add_text(struct json *json, const char *text) {
    add(json, text, strlen(text));
}

/*
 * Takes the next character of a text, as it is within a JSON string. A text from outside must not
 * make that invalid, nor drive the terminal that it is shown on.
 */
static void take_character(const char **text, char piece[8]) {
    uint32_t code;
    size_t size = foreign_character(*text, &code);
    if (code == FOREIGN_BAD)
        strcpy(piece, "\xEF\xBF\xBD"); /* U+FFFD */
    else if (code == '"' || code == '\\')
        snprintf(piece, 8, "\\%c", **text);
    else if (foreign_is_control(code))
        snprintf(piece, 8, "\\u%04x", (unsigned)code & 0xFFFF);
    else
        snprintf(piece, 8, "%.*s", (int)size, *text);
    *text += size;
}

static void add_quoted(struct json *json, const char *value) {
    char piece[8];
    add_text(json, "\"");
    while (*value) {
        take_character(&value, piece);
        add_text(json, piece);
    }
    add_text(json, "\"");
}

void json_print_string(FILE *out, const char *value) {
    char piece[8];
    fputc('"', out);
    while (*value) {
        take_character(&value, piece);
        fputs(piece, out);
    }
    fputc('"', out);
}

static void begin_value(struct json *json, const char *key) {
    if (json->needs_comma)
        add_text(json, ",");
    json->needs_comma = true;
    if (key) {
        add_quoted(json, key);
        add_text(json, ":");
    }
}

void json_open(struct json *json, const char *key, char bracket) {
    begin_value(json, key);
    add(json, &bracket, 1);
    json->needs_comma = false;
}

void json_close(struct json *json, char bracket) {
    add(json, &bracket, 1);
    json->needs_comma = true;
}

void json_put_string(struct json *json, const char *key, const char *value) {
    begin_value(json, key);
    add_quoted(json, value);
}

void json_put_unsigned(struct json *json, const char *key, uint64_t value) {
    char text[24];
    begin_value(json, key);
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    add_text(json, text);
}

void json_put_real(struct json *json, const char *key, double value) {
    char text[40];
    begin_value(json, key);
    if (isfinite(value))
        snprintf(text, sizeof text, "%.10g", value);
    else
        snprintf(text, sizeof text, "null");
    add_text(json, text);
}

void json_put_bool(struct json *json, const char *key, bool value) {
    begin_value(json, key);
    add_text(json, value ? "true" : "false");
}

void json_put_null(struct json *json, const char *key) {
    begin_value(json, key);
    add_text(json, "null");
}

void json_put_real_if(struct json *json, const char *key, bool is_known, double value) {
    if (is_known)
        json_put_real(json, key, value);
    else
        json_put_null(json, key);
}

void json_put_optional(struct json *json, const char *key, const char *value) {
    if (value && *value)
        json_put_string(json, key, value);
    else
        json_put_null(json, key);
}

void json_put_text(struct json *json, const char *key, const char *value) {
    begin_value(json, key);
    if (value)
        add_text(json, value);
    else
        json->failed = true;
}
