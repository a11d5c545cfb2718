/*
 * One line of RESP: a type, text, CRLF; and the size or count that it announces. Used by the framer
 * and by walks.
 */
#ifndef SLUICE_FRAMERS_RESP_LINE_H
#define SLUICE_FRAMERS_RESP_LINE_H

#include <sluice/resp.h>

#include "reader/cursor.h"

enum {
    RESP_CRLF_SIZE = 2,
    /* of a verbatim string: three characters and a colon, counted in its length */
    RESP_FORMAT_SIZE = 4,
};

enum resp_kind {
    RESP_NO_TYPE,
    RESP_TEXT,      /* the line is the value: text of a length that the caller limits */
    RESP_NUMBER,    /* the line is the value, and short */
    RESP_BLOB,      /* the line says how many bytes follow */
    RESP_AGGREGATE, /* the line says how many values follow */
};

enum resp_kind resp_kind(uint8_t type);

/* A line as far as it has come. All zero but for the text, which need not be set, is the
 * beginning. */
struct resp_line {
    uint8_t type;  /* 0 until it has come */
    uint8_t kind;  /* of the type */
    bool cr;       /* the text has ended, LF is to come */
    size_t length; /* bytes of text so far */
    /* numbers, lengths and counts: the text; big numbers: its first byte */
    char text[SLUICE_RESP_MAX_DOUBLE + 1];
};

static inline void resp_line_begin(struct resp_line *line) {
    line->type = 0;
    line->cr = false;
    line->length = 0;
}

/*
 * Goes on reading the line: 1 (it is whole, the cursor is behind it), 0 (the cursor is at its end),
 * -EPROTO, -EMSGSIZE (over @text_limit). The result depends on the bytes alone, not on the pieces
 * in which they come.
 */
int resp_line_read(struct resp_line *line, uint32_t text_limit, sluice_cursor *cursor);

/* What a line says. */
struct resp_header {
    sluice_resp_type type; /* null where the line is a null of RESP2, and so is the kind */
    enum resp_kind kind;
    bool boolean;
    int64_t integer;
    uint64_t body;  /* bytes that follow, CRLF included; 0 where the line is all */
    uint64_t count; /* values that follow */
};

/* Understands a whole line: 0, -EPROTO, -EOPNOTSUPP; what is written is of use only with 0. */
int resp_line_parse(const struct resp_line *line, struct resp_header *ret_header);

/* The value of a line that resp_line_parse() has found to be a double. */
double resp_line_double(struct resp_line *line);

#endif
