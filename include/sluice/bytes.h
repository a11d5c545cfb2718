/**
 * @file bytes.h
 * A byte builder whose first bytes live inside the object, for short text that is put together: no
 * allocation as long as it is short, and never more than a limit.
 *
 * The object may be moved or be part of another, but of two copies only one may be used further.
 *
 * Threads: one at a time per object.
 */
#ifndef SLUICE_BYTES_H
#define SLUICE_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <sluice/slice.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SLUICE_BYTES_INLINE = 64, /**< Bytes that need no allocation. */
};

/** A byte builder. The fields are the library's; use the calls. */
typedef struct sluice_bytes {
    uint8_t *heap;                       /**< Memory beyond the inline bytes, or NULL. */
    size_t length;                       /**< Bytes appended. */
    size_t capacity;                     /**< Bytes that fit where they are now. */
    size_t limit;                        /**< Most bytes. */
    uint8_t inside[SLUICE_BYTES_INLINE]; /**< The bytes, while they fit. */
} sluice_bytes;

/**
 * Makes the object empty. It needs sluice_bytes_free() once something has been appended. @param
 * limit most bytes
 */
static inline void sluice_bytes_init(sluice_bytes *bytes, size_t limit) {
    bytes->heap = NULL;
    bytes->length = 0;
    bytes->capacity = limit < SLUICE_BYTES_INLINE ? limit : (size_t)SLUICE_BYTES_INLINE;
    bytes->limit = limit;
}

/** What sluice_bytes_free() does with memory beyond the inline bytes. */
SLUICE_API void sluice_bytes_free_slow(sluice_bytes *bytes);

/** Releases the memory. The object is empty afterwards and can be used again. NULL is allowed. */
static inline void sluice_bytes_free(sluice_bytes *bytes) {
    if (!bytes)
        return;
    if (bytes->heap)
        sluice_bytes_free_slow(bytes);
    else
        bytes->length = 0;
}

/** Makes the object empty and keeps its memory for the next bytes. */
static inline void sluice_bytes_clear(sluice_bytes *bytes) {
    bytes->length = 0;
}

/**
 * What sluice_bytes_append() does where the bytes do not fit as it is, or there are none. The same
 * result.
 */
SLUICE_API int sluice_bytes_append_slow(sluice_bytes *bytes, const void *from, size_t n);

/**
 * Appends @p n bytes, which may be the object's own. They are the caller's text, and not counted as
 * payload.
 * @return 0, -EMSGSIZE (over the limit), -ENOMEM; on failure nothing has changed
 */
static inline int sluice_bytes_append(sluice_bytes *bytes, const void *from, size_t n) {
    if (n == 0 || n > bytes->capacity - bytes->length)
        return sluice_bytes_append_slow(bytes, from, n);
    memcpy((bytes->heap ? bytes->heap : bytes->inside) + bytes->length, from, n);
    bytes->length += n;
    return 0;
}

/**
 * Appends a slice's bytes; the copy is counted in the pool's bytes_copied. The slice stays the
 * caller's.
 * @return 0, -EMSGSIZE (over the limit), -ENOMEM; on failure nothing has changed or been counted
 */
SLUICE_API int sluice_bytes_append_slice(sluice_bytes *bytes, const sluice_slice *slice);

/** Bytes appended. */
static inline size_t sluice_bytes_length(const sluice_bytes *bytes) {
    return bytes->length;
}

/**
 * The bytes, in one piece: valid until the object is next changed or moved. Not terminated by NUL;
 * never NULL.
 */
static inline const uint8_t *sluice_bytes_view(const sluice_bytes *bytes) {
    return bytes->heap ? bytes->heap : bytes->inside;
}

#ifdef __cplusplus
}
#endif

#endif
