/* Syntax of stream names. */
#ifndef SLUICED_STREAM_NAME_H
#define SLUICED_STREAM_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STREAM_NAME = 259 }; /* four segments of 64 characters and the slashes between them */

/*
 * Names are 1 to 4 segments of [A-Za-z0-9._-], 1 to 64 characters each, none beginning with a dot,
 * the first not "api".
 */
bool stream_name_is_valid(const char *name, size_t length);

/* Whether it is a name, or made of what names are made of and "*", which stands for any
 * characters. */
bool stream_pattern_is_valid(const char *pattern, size_t length);

/* @name: of so many characters */
bool stream_pattern_fits(const char *pattern, const char *name, size_t length);

/* Spread over all 32 bits; the same for the same name in each run. */
uint32_t stream_name_hash(const char *name, size_t length);

#endif
