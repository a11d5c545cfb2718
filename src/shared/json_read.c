#include "shared/json_read.h"

#include <errno.h>
#include <string.h>

/* Reads up to the NUL that is behind the text; one inside the text ends it too early, and is found
 * so. */
struct input {
    char *at;
};

static void skip_blanks(struct input *input) {
    input->at += strspn(input->at, " \t\r\n");
}

/* Whether the next character is this one, which is stepped over. */
static int take(struct input *input, char c) {
    skip_blanks(input);
    if (*input->at != c)
        return 0;
    input->at++;
    return 1;
}

/* -1: not four hexadecimal digits */
static long read_unit(struct input *input) {
    long unit = 0;
    for (int i = 0; i < 4; i++, input->at++) {
        const char c = *input->at, letter = (char)(c | 0x20);
        if (c >= '0' && c <= '9')
            unit = 16 * unit + (c - '0');
        else if (letter >= 'a' && letter <= 'f')
            unit = 16 * unit + (letter - 'a' + 10);
        else
            return -1;
    }
    return unit;
}

/* Behind "\u". Returns where the next byte goes, or NULL: half a pair, or a NUL */
static char *decode_unit(struct input *input, char *to) {
    long code = read_unit(input);
    if (code >= 0xd800 && code < 0xdc00) {
        if (strncmp(input->at, "\\u", 2) != 0)
            return NULL;
        input->at += 2;
        long low = read_unit(input);
        if (low < 0xdc00 || low > 0xdfff)
            return NULL;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code <= 0 || (code >= 0xdc00 && code <= 0xdfff)) {
        return NULL;
    }
    if (code < 0x80) {
        *to++ = (char)code;
        return to;
    }
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char leads[] = {0, 0xc0, 0xe0, 0xf0};
    *to++ = (char)(leads[more] | code >> (6 * more));
    for (int i = more - 1; i >= 0; i--)
        *to++ = (char)(0x80 | (code >> (6 * i) & 0x3f));
    return to;
}

/* Behind a backslash; likewise. */
static char *decode_escape(struct input *input, char *to) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char c = *input->at;
    const char *name = c ? strchr(names, c) : NULL;
    if (c == 'u') {
        input->at++;
        return decode_unit(input, to);
    }
    if (!name)
        return NULL;
    input->at++;
    *to = values[name - names];
    return to + 1;
}

/* What is decoded is never longer than what it was written as. */
static int read_string(struct input *input, const char **ret_text, size_t *ret_length) {
    if (!take(input, '"'))
        return -EINVAL;
    char *begin = input->at, *to = begin;
    while (to && *input->at != '"') {
        const unsigned char c = (unsigned char)*input->at;
        if (c < ' ')
            return -EINVAL;
        input->at++;
        if (c == '\\')
            to = decode_escape(input, to);
        else
            *to++ = (char)c;
    }
    if (!to)
        return -EINVAL;
    input->at++;
    *to = '\0';
    *ret_text = begin;
    *ret_length = (size_t)(to - begin);
    return 0;
}

static int read_integer(struct input *input, int64_t *ret_integer) {
    const int is_negative = *input->at == '-';
    const char *digits = input->at += is_negative;
    int64_t value = 0;
    for (; *input->at >= '0' && *input->at <= '9'; input->at++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *input->at - '0', &value))
            return -EINVAL;
    const size_t count = (size_t)(input->at - digits);
    /* No leading zeros, fractions or exponents. */
    if (count == 0 || (count > 1 && *digits == '0') || (*input->at && strchr(".eE", *input->at)))
        return -EINVAL;
    *ret_integer = is_negative ? -value : value;
    return 0;
}

static int read_value(struct input *input, struct json_member *member) {
    static const struct {
        const char *word;
        enum json_kind kind;
    } words[] = {{"true", JSON_KIND_TRUE}, {"false", JSON_KIND_FALSE}, {"null", JSON_KIND_NULL}};
    skip_blanks(input);
    if (*input->at == '"') {
        member->kind = JSON_KIND_STRING;
        return read_string(input, &member->text, &member->length);
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strncmp(input->at, words[i].word, strlen(words[i].word)) != 0)
            continue;
        input->at += strlen(words[i].word);
        member->kind = words[i].kind;
        return 0;
    }
    member->kind = JSON_KIND_INTEGER;
    return read_integer(input, &member->integer);
}

static int read_member(struct input *input, json_member_fn *call, void *user) {
    struct json_member member = {0};
    size_t length;
    int error = read_string(input, &member.key, &length);
    if (!error)
        error = take(input, ':') ? read_value(input, &member) : -EINVAL;
    return error ? error : call(&member, user);
}

int json_read_object(char *text, size_t size, json_member_fn *member, void *user) {
    struct input input = {text};
    if (!take(&input, '{'))
        return -EINVAL;
    if (!take(&input, '}')) {
        do {
            int error = read_member(&input, member, user);
            if (error)
                return error;
        } while (take(&input, ','));
        if (!take(&input, '}'))
            return -EINVAL;
    }
    skip_blanks(&input);
    return input.at == text + size ? 0 : -EINVAL;
}
