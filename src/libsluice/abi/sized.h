/*
 * Structs of the public headers that may grow: options, statistics and callbacks. Their first
 * member is `size_t size`, which the caller sets to the size known to its headers, so that program
 * and library may have different versions. A new field begins at or after the previous end of the
 * struct, including padding, so the size determines which fields exist. Zero is each field's
 * default.
 */
#ifndef SLUICE_ABI_SIZED_H
#define SLUICE_ABI_SIZED_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { SIZED_MOST = 4096 }; /* no struct gets that large: what says so was not set */

/*
 * Whether the user's struct can be used. @known and @first: bytes of the struct as this library has
 * it, and as it was in the first version. 0, -EINVAL: a size that was not set, or a field in use
 * that only the user's headers know.
 */
static inline int sized_check(const void *user, size_t known, size_t first) {
    size_t size = *(const size_t *)user;
    if (size < first || size > SIZED_MOST)
        return -EINVAL;
    for (size_t at = known; at < size; at++)
        if (((const char *)user)[at] != 0)
            return -EINVAL;
    return 0;
}

/* Reads the user's options; what they lack, and all where they are NULL, is zero. 0, -EINVAL */
static inline int sized_read(void *ret_options, const void *user, size_t known, size_t first) {
    memset(ret_options, 0, known);
    if (!user)
        return 0;
    int error = sized_check(user, known, first);
    if (!error)
        memcpy(ret_options, user, *(const size_t *)user < known ? *(const size_t *)user : known);
    return error;
}

/* Writes what both know, behind the size; what only the user's headers know stays as it is. 0,
 * -EINVAL */
static inline int sized_write(void *ret_user, const void *stats, size_t known, size_t first) {
    size_t size = *(const size_t *)ret_user;
    if (size < first || size > SIZED_MOST)
        return -EINVAL;
    size = size < known ? size : known;
    memcpy((char *)ret_user + sizeof size, (const char *)stats + sizeof size, size - sizeof size);
    return 0;
}

/*
 * The same for a struct that is as it was in the first version, which all are so far. One that has
 * grown names what it was: its last field of then, and the padding behind it.
 */
#define SIZED_CHECK(user) sized_check(user, sizeof *(user), sizeof *(user))
#define SIZED_READ(ret_options, user) sized_read(ret_options, user, sizeof *(ret_options), sizeof *(ret_options))
#define SIZED_WRITE(ret_user, stats) sized_write(ret_user, stats, sizeof *(stats), sizeof *(stats))

#endif
