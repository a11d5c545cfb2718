/* Going over the values of a reply, of which the framer has seen to it that they are well
 * formed. */
#include <sluice/resp.h>

#include <string.h>

#include "framers/resp/resp_line.h"
#include "memory/slice.h"
#include "reader/cursor.h"

/* What is left at the cursor, without references. */
static sluice_slice borrow_rest(const sluice_cursor *cursor, sluice_block *last) {
    if (cursor_left(cursor) == 0)
        return (sluice_slice){0};
    return (sluice_slice){cursor->at.block, last, cursor->at.offset, cursor_left(cursor)};
}

/* The next n bytes, without references; the cursor goes behind them. */
static sluice_slice borrow(sluice_cursor *cursor, size_t n) {
    if (n == 0)
        return (sluice_slice){0};
    sluice_slice part = {.first = cursor->at.block, .offset = cursor->at.offset, .length = n};
    cursor_skip(cursor, n - 1);
    part.last = cursor->at.block;
    cursor_skip(cursor, 1);
    return part;
}

static bool read_header(sluice_cursor *cursor, struct resp_line *line, struct resp_header *ret_header) {
    resp_line_begin(line);
    return resp_line_read(line, UINT32_MAX, cursor) == 1 && resp_line_parse(line, ret_header) == 0 &&
           ret_header->body <= cursor_left(cursor);
}

/* Goes behind so many values and all that is in them. */
static bool skip_values(sluice_cursor *cursor, uint64_t n) {
    struct resp_line line;
    struct resp_header header;
    while (n > 0) {
        if (!read_header(cursor, &line, &header))
            return false;
        cursor_skip(cursor, (size_t)header.body);
        n += header.count;
        /* which is none of the values that are counted */
        n -= header.type != SLUICE_RESP_ATTRIBUTE;
    }
    return true;
}

static void read_format(sluice_cursor *cursor, sluice_resp_value *value) {
    for (size_t i = 0; i < sizeof value->format - 1; i++)
        value->format[i] = (char)cursor_byte(cursor);
    cursor_skip(cursor, 1);
}

/* One value up to its elements. */
static bool read_value(sluice_cursor *cursor, sluice_resp_value *value) {
    struct resp_line line;
    struct resp_header header;
    sluice_cursor start = *cursor;
    if (!read_header(cursor, &line, &header))
        return false;
    value->type = header.type;
    value->boolean = header.boolean;
    value->integer = header.integer;
    value->count = (uint32_t)header.count;
    if (header.type == SLUICE_RESP_DOUBLE)
        value->number = resp_line_double(&line);
    if (header.body > 0) {
        size_t size = (size_t)header.body - RESP_CRLF_SIZE;
        if (header.type == SLUICE_RESP_VERBATIM) {
            read_format(cursor, value);
            size -= RESP_FORMAT_SIZE;
        }
        value->text = borrow(cursor, size);
        cursor_skip(cursor, RESP_CRLF_SIZE);
    } else if (header.type != SLUICE_RESP_NULL && header.kind != RESP_AGGREGATE) {
        cursor_skip(&start, 1);
        value->text = borrow(&start, line.length);
    }
    return true;
}

bool sluice_resp_walk_next(sluice_resp_walk *walk, sluice_resp_value *ret_value) {
    if (walk->left == 0)
        return false;
    sluice_cursor cursor = cursor_of_slice(&walk->rest);
    sluice_resp_walk attributes = {0};
    for (;;) {
        *ret_value = (sluice_resp_value){0};
        if (!read_value(&cursor, ret_value))
            return false;
        if (ret_value->type != SLUICE_RESP_ATTRIBUTE)
            break;
        attributes = (sluice_resp_walk){.rest = borrow_rest(&cursor, walk->rest.last), .left = ret_value->count};
        if (!skip_values(&cursor, ret_value->count))
            return false;
    }
    if (attributes.left > 0)
        ret_value->attributes = attributes;
    walk->rest = borrow_rest(&cursor, walk->rest.last);
    walk->left += ret_value->count;
    walk->left--;
    walk->inner = ret_value->count;
    return true;
}

void sluice_resp_walk_skip(sluice_resp_walk *walk) {
    if (walk->inner == 0)
        return;
    sluice_cursor cursor = cursor_of_slice(&walk->rest);
    if (!skip_values(&cursor, walk->inner))
        return;
    walk->rest = borrow_rest(&cursor, walk->rest.last);
    walk->left -= walk->inner;
    walk->inner = 0;
}

int sluice_resp_keep(const sluice_resp_value *value, sluice_slice *ret_kept) {
    sluice_slice own;
    sluice_slice_ref(&value->text, &own);
    int error = sluice_slice_take(&own, ret_kept);
    if (error)
        sluice_slice_release(&own);
    return error;
}

bool sluice_resp_equals(const sluice_resp_value *value, const char *text) {
    size_t length = strlen(text);
    if (length != value->text.length)
        return false;
    sluice_cursor cursor = cursor_of_slice(&value->text);
    while (length > 0) {
        size_t here;
        const uint8_t *view = cursor_view(&cursor, &here);
        if (memcmp(view, text, here) != 0)
            return false;
        cursor_skip(&cursor, here);
        text += here;
        length -= here;
    }
    return true;
}
