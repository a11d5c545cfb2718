/* What the readers of the two encodings share. */
#ifndef SLUICE_FRAMERS_AMF_READ_H
#define SLUICE_FRAMERS_AMF_READ_H

#include <sluice/amf.h>

#include "reader/cursor.h"

/* How the members of an open container are written. */
enum amf_level {
    AMF_LEVEL_NAMED,    /* AMF 0: names and values up to an end marker */
    AMF_LEVEL_ECMA,     /* the same; at the payload's end the marker may be missing */
    AMF_LEVEL_COUNTED,  /* AMF 0: so many values */
    AMF_LEVEL_COUNTED3, /* AMF 3: so many values */
    AMF_LEVEL_ARRAY3,   /* AMF 3: names and values up to an empty name, then as COUNTED3 */
    AMF_LEVEL_OBJECT3,  /* AMF 3: the values of a class, then, if it is dynamic, as ARRAY3 */
};

/* The next n bytes, which are there, without references; the cursor goes behind them. */
static inline sluice_slice amf_borrow(sluice_cursor *cursor, size_t n) {
    if (n == 0)
        return (sluice_slice){0};
    sluice_slice part = {.first = cursor->at.block, .offset = cursor->at.offset, .length = n};
    cursor_skip(cursor, n - 1);
    part.last = cursor->at.block;
    cursor_skip(cursor, 1);
    return part;
}

static inline bool amf_read_double(sluice_cursor *cursor, double *ret_number) {
    union {
        uint64_t bits;
        double number;
    } value;
    if (!cursor_be64(cursor, &value.bits))
        return false;
    *ret_number = value.number;
    return true;
}

/* Opens the container that has just been read. 0, -EMSGSIZE (too deep) */
int amf_enter(sluice_amf_reader *reader, sluice_amf_level level);

/* 1 (read), or an error of sluice_amf_next(). */
int amf3_read_value(sluice_amf_reader *reader, sluice_cursor *cursor, sluice_amf_value *value);

/* The next member's name, and its place among the others. 0, or an error. */
int amf3_read_name(sluice_amf_reader *reader, sluice_amf_level *level, sluice_cursor *cursor, sluice_slice *ret_name);

/* Whether there are more members; steps over the end of those with names. */
bool amf3_is_open(sluice_amf_level *level, sluice_cursor *cursor);

#endif
