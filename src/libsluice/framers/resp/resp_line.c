#include "framers/resp/resp_line.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum resp_kind resp_kind(uint8_t type) {
    switch (type) {
    case SLUICE_RESP_SIMPLE:
    case SLUICE_RESP_ERROR:
    case SLUICE_RESP_BIG_NUMBER:
        return RESP_TEXT;
    case SLUICE_RESP_INTEGER:
    case SLUICE_RESP_NULL:
    case SLUICE_RESP_BOOLEAN:
    case SLUICE_RESP_DOUBLE:
        return RESP_NUMBER;
    case SLUICE_RESP_BULK:
    case SLUICE_RESP_BULK_ERROR:
    case SLUICE_RESP_VERBATIM:
        return RESP_BLOB;
    case SLUICE_RESP_ARRAY:
    case SLUICE_RESP_MAP:
    case SLUICE_RESP_SET:
    case SLUICE_RESP_PUSH:
    case SLUICE_RESP_ATTRIBUTE:
        return RESP_AGGREGATE;
    default:
        return RESP_NO_TYPE;
    }
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_sign(char c) {
    return c == '+' || c == '-';
}

/* Looks at text that belongs to the line, and remembers what parsing will need of it. */
static bool take_text(struct resp_line *line, const uint8_t *bytes, size_t n) {
    if (line->type == SLUICE_RESP_BIG_NUMBER) {
        for (size_t i = 0; i < n; i++) {
            bool is_first = line->length + i == 0;
            if (!is_digit((char)bytes[i]) && !(is_first && is_sign((char)bytes[i])))
                return false;
            if (is_first)
                line->text[0] = (char)bytes[i];
        }
        return true;
    }
    if (line->kind == RESP_TEXT)
        return !memchr(bytes, '\n', n);
    for (size_t i = 0; i < n; i++)
        line->text[line->length + i] = (char)bytes[i];
    return true;
}

static size_t longest_text(const struct resp_line *line, uint32_t text_limit) {
    if (line->kind == RESP_TEXT)
        return text_limit;
    return line->type == SLUICE_RESP_DOUBLE ? SLUICE_RESP_MAX_DOUBLE : SLUICE_RESP_MAX_NUMBER;
}

static int read_text(struct resp_line *line, uint32_t text_limit, sluice_cursor *cursor) {
    size_t room = longest_text(line, text_limit) - line->length;
    size_t here;
    const uint8_t *view = cursor_view(cursor, &here);
    if (here > room)
        here = room + 1; /* CR must come behind the longest text: what is beyond does not count */
    const uint8_t *end = memchr(view, '\r', here);
    size_t n = end ? (size_t)(end - view) : here;
    if (!take_text(line, view, n))
        return -EPROTO;
    if (n > room)
        return line->kind == RESP_TEXT ? -EMSGSIZE : -EPROTO;
    line->length += n;
    line->cr = end != NULL;
    cursor_skip(cursor, end ? n + 1 : n);
    return 0;
}

int resp_line_read(struct resp_line *line, uint32_t text_limit, sluice_cursor *cursor) {
    while (cursor_left(cursor) > 0) {
        if (line->cr)
            return cursor_byte(cursor) == '\n' ? 1 : -EPROTO;
        if (line->type == 0) {
            line->type = cursor_byte(cursor);
            line->kind = (uint8_t)resp_kind(line->type);
            if (line->kind == RESP_NO_TYPE)
                return -EPROTO;
            continue;
        }
        int error = read_text(line, text_limit, cursor);
        if (error)
            return error;
    }
    return 0;
}

static bool parse_digits(const char *text, size_t n, uint64_t max, uint64_t *ret_value) {
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_digit(text[i]))
            return false;
        uint64_t digit = (uint64_t)(text[i] - '0');
        if (value > (max - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *ret_value = value;
    return n > 0;
}

static bool parse_integer(const struct resp_line *line, int64_t *ret_value) {
    size_t sign = line->length > 0 && is_sign(line->text[0]);
    bool negative = sign && line->text[0] == '-';
    uint64_t max = negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX;
    uint64_t value;
    if (!parse_digits(line->text + sign, line->length - sign, max, &value))
        return false;
    *ret_value = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

static size_t count_digits(const char *text, size_t n) {
    size_t count = 0;
    while (count < n && is_digit(text[count]))
        count++;
    return count;
}

/* The specification's grammar, but digits may be missing on one side of the point; strtod() would
 * take far more. */
static bool is_double(const char *text, size_t n) {
    if (n > 0 && is_sign(*text)) {
        text++;
        n--;
    }
    if (n == 3 && (strncasecmp(text, "inf", 3) == 0 || strncasecmp(text, "nan", 3) == 0))
        return true;
    size_t whole = count_digits(text, n), fraction = 0;
    text += whole;
    n -= whole;
    if (n > 0 && *text == '.') {
        fraction = count_digits(text + 1, n - 1);
        text += 1 + fraction;
        n -= 1 + fraction;
    }
    if (whole + fraction == 0)
        return false;
    if (n > 0 && (*text == 'e' || *text == 'E')) {
        size_t mark = n > 1 && is_sign(text[1]) ? 2 : 1;
        size_t exponent = count_digits(text + mark, n - mark);
        return exponent > 0 && mark + exponent == n;
    }
    return n == 0;
}

/* What a value that is its line says. */
static bool parse_scalar(const struct resp_line *line, struct resp_header *header) {
    switch (line->type) {
    case SLUICE_RESP_INTEGER:
        return parse_integer(line, &header->integer);
    case SLUICE_RESP_BOOLEAN:
        if (line->length != 1 || (line->text[0] != 't' && line->text[0] != 'f'))
            return false;
        header->boolean = line->text[0] == 't';
        return true;
    case SLUICE_RESP_DOUBLE:
        return is_double(line->text, line->length);
    case SLUICE_RESP_NULL:
        return line->length == 0;
    case SLUICE_RESP_BIG_NUMBER:
        return line->length > 1 || (line->length == 1 && is_digit(line->text[0]));
    default:
        return true;
    }
}

static bool is_text(const struct resp_line *line, const char *text) {
    return line->length == strlen(text) && memcmp(line->text, text, line->length) == 0;
}

/* What a length that is no number may be. */
static int parse_no_length(const struct resp_line *line, struct resp_header *header) {
    if (is_text(line, "?"))
        return -EOPNOTSUPP;
    if (!is_text(line, "-1") || (line->type != SLUICE_RESP_BULK && line->type != SLUICE_RESP_ARRAY))
        return -EPROTO;
    header->type = SLUICE_RESP_NULL;
    header->kind = RESP_NUMBER;
    return 0;
}

/* What follows a line that announces bytes or values. */
static int parse_length(const struct resp_line *line, struct resp_header *header) {
    uint64_t length;
    if (!parse_digits(line->text, line->length, INT64_MAX, &length))
        return parse_no_length(line, header);
    if (line->type == SLUICE_RESP_VERBATIM && length < RESP_FORMAT_SIZE)
        return -EPROTO;
    if (line->kind == RESP_BLOB)
        header->body = length + RESP_CRLF_SIZE;
    else
        header->count = line->type == SLUICE_RESP_MAP || line->type == SLUICE_RESP_ATTRIBUTE ? length * 2 : length;
    return 0;
}

int resp_line_parse(const struct resp_line *line, struct resp_header *ret_header) {
    *ret_header = (struct resp_header){.type = (sluice_resp_type)line->type, .kind = (enum resp_kind)line->kind};
    if (line->kind == RESP_BLOB || line->kind == RESP_AGGREGATE)
        return parse_length(line, ret_header);
    return parse_scalar(line, ret_header) ? 0 : -EPROTO;
}

double resp_line_double(struct resp_line *line) {
    line->text[line->length] = '\0';
    /* The point is a point whatever the program's locale; this one is a constant of the C
     * library. */
    locale_t plain = newlocale(LC_ALL_MASK, "C", NULL);
    if (!plain)
        return strtod(line->text, NULL);
    double value = strtod_l(line->text, NULL, plain);
    freelocale(plain);
    return value;
}
