#include "rtsp/chunked.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/process.h"

enum { MOST_CHUNK = 1 << 28 };

static void take_size(chunked *c, uint8_t byte) {
    if (isxdigit(byte))
        c->left = c->left * 16 + (uint64_t)(isdigit(byte) ? byte - '0' : tolower(byte) - 'a' + 10);
    else if (byte != '\r' && byte != ';')
        fail(EXIT_FAILURE, "a chunk without a size");
    else
        c->state = CHUNKED_LINE;
    if (c->left > MOST_CHUNK)
        fail(EXIT_FAILURE, "a chunk that is too large");
}

static void take_around(chunked *c, uint8_t byte) {
    if (c->state == CHUNKED_SIZE) {
        take_size(c, byte);
    } else if (byte == '\n') {
        if (c->state == CHUNKED_LINE && c->left == 0)
            fail(EXIT_FAILURE, "a player was ended");
        c->state = c->state == CHUNKED_LINE ? CHUNKED_DATA : CHUNKED_SIZE;
    } else if (c->state == CHUNKED_AFTER && byte != '\r') {
        fail(EXIT_FAILURE, "a chunk that is longer than its size");
    }
}

size_t chunked_strip(chunked *c, uint8_t *bytes, size_t size) {
    size_t kept = 0;
    for (size_t at = 0; at < size;) {
        if (c->state != CHUNKED_DATA) {
            take_around(c, bytes[at++]);
            continue;
        }
        size_t part = c->left < size - at ? (size_t)c->left : size - at;
        memmove(bytes + kept, bytes + at, part);
        kept += part;
        at += part;
        c->left -= part;
        if (c->left == 0)
            c->state = CHUNKED_AFTER;
    }
    return kept;
}
