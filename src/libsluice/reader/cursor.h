/*
 * A position in a chain or a slice, by value. Reading moves the cursor and consumes nothing; a
 * framer reads a whole header with a cursor and takes the frame out of the chain only when it is
 * complete. Integers that span blocks are assembled in registers.
 *
 * Every read checks the remaining length; a read beyond the end returns false and leaves the cursor
 * unchanged.
 */
#ifndef SLUICE_READER_CURSOR_H
#define SLUICE_READER_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/chain.h"
#include "memory/slice.h"

typedef struct sluice_cursor {
    slice_walk at;
} sluice_cursor;

static inline sluice_cursor cursor_of_chain(const sluice_chain *chain) {
    return (sluice_cursor){{chain->first, chain->last, chain_offset(chain), chain_length(chain)}};
}

/* Behind the first @n bytes, which the chain has: see chain_walk_at(). */
static inline sluice_cursor cursor_of_chain_at(sluice_chain *chain, size_t n) {
    return n == 0 ? cursor_of_chain(chain) : (sluice_cursor){chain_walk_at(chain, n)};
}

static inline sluice_cursor cursor_of_slice(const sluice_slice *slice) {
    return (sluice_cursor){{slice->first, slice->last, slice->offset, slice->length}};
}

static inline size_t cursor_left(const sluice_cursor *cursor) {
    return cursor->at.left;
}

/* Contiguous bytes at the cursor, and how many; at the end 0. */
static inline const uint8_t *cursor_view(const sluice_cursor *cursor, size_t *ret_length) {
    *ret_length = cursor->at.left ? slice_walk_span(&cursor->at) : 0;
    return cursor->at.left ? cursor->at.block->data + cursor->at.offset : NULL;
}

static inline bool cursor_skip(sluice_cursor *cursor, size_t n) {
    if (n > cursor->at.left)
        return false;
    while (n > 0) {
        size_t here = slice_walk_span(&cursor->at);
        if (n < here) {
            cursor->at.offset += (uint32_t)n;
            cursor->at.left -= n;
            break;
        }
        n -= here;
        slice_walk_next(&cursor->at);
    }
    return true;
}

/* The next byte; the caller has checked that there is one. */
static inline uint8_t cursor_byte(sluice_cursor *cursor) {
    slice_walk *at = &cursor->at;
    uint8_t byte = at->block->data[at->offset];
    if (slice_walk_span(at) == 1) {
        slice_walk_next(at);
    } else {
        at->offset++;
        at->left--;
    }
    return byte;
}

/* The bytes from @at on, most significant first: written out, so that it becomes one load. */
static inline uint64_t bytes_be16(const uint8_t *at) {
    return (uint64_t)at[0] << 8 | at[1];
}

static inline uint64_t bytes_be32(const uint8_t *at) {
    return bytes_be16(at) << 16 | bytes_be16(at + 2);
}

static inline uint64_t bytes_be64(const uint8_t *at) {
    return bytes_be32(at) << 32 | bytes_be32(at + 4);
}

/* The same, least significant first. */
static inline uint64_t bytes_le64(const uint8_t *at) {
    uint64_t value = 0;
    for (unsigned i = 0; i < 8; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

/* Where the next @n bytes lie, and one more in the same block, which the cursor is moved over; else
 * NULL, unmoved. */
static inline const uint8_t *cursor_take_within(sluice_cursor *cursor, unsigned n) {
    slice_walk *at = &cursor->at;
    if (at->left <= n || slice_walk_span(at) <= n)
        return NULL;
    const uint8_t *bytes = at->block->data + at->offset;
    at->offset += n;
    at->left -= n;
    return bytes;
}

/* n bytes, most significant first; n is at most 8. */
static inline bool cursor_be(sluice_cursor *cursor, unsigned n, uint64_t *ret_value) {
    if (n > cursor->at.left)
        return false;
    uint64_t value = 0;
    for (unsigned i = 0; i < n; i++)
        value = value << 8 | cursor_byte(cursor);
    *ret_value = value;
    return true;
}

/* n bytes, least significant first; n is at most 8. */
static inline bool cursor_le(sluice_cursor *cursor, unsigned n, uint64_t *ret_value) {
    if (n > cursor->at.left)
        return false;
    uint64_t value = 0;
    for (unsigned i = 0; i < n; i++)
        value |= (uint64_t)cursor_byte(cursor) << (8 * i);
    *ret_value = value;
    return true;
}

static inline bool cursor_u8(sluice_cursor *cursor, uint8_t *ret_value) {
    if (cursor->at.left == 0)
        return false;
    *ret_value = cursor_byte(cursor);
    return true;
}

static inline bool cursor_be16(sluice_cursor *cursor, uint16_t *ret_value) {
    const uint8_t *bytes = cursor_take_within(cursor, 2);
    uint64_t value;
    if (bytes)
        value = bytes_be16(bytes);
    else if (!cursor_be(cursor, 2, &value))
        return false;
    *ret_value = (uint16_t)value;
    return true;
}

static inline bool cursor_be24(sluice_cursor *cursor, uint32_t *ret_value) {
    const uint8_t *bytes = cursor_take_within(cursor, 3);
    uint64_t value;
    if (bytes)
        value = (uint64_t)bytes[0] << 16 | bytes_be16(bytes + 1);
    else if (!cursor_be(cursor, 3, &value))
        return false;
    *ret_value = (uint32_t)value;
    return true;
}

static inline bool cursor_be32(sluice_cursor *cursor, uint32_t *ret_value) {
    const uint8_t *bytes = cursor_take_within(cursor, 4);
    uint64_t value;
    if (bytes)
        value = bytes_be32(bytes);
    else if (!cursor_be(cursor, 4, &value))
        return false;
    *ret_value = (uint32_t)value;
    return true;
}

static inline bool cursor_be64(sluice_cursor *cursor, uint64_t *ret_value) {
    const uint8_t *bytes = cursor_take_within(cursor, 8);
    if (!bytes)
        return cursor_be(cursor, 8, ret_value);
    *ret_value = bytes_be64(bytes);
    return true;
}

#endif
