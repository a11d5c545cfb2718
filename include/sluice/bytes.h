/**
 * @file bytes.h
 * A byte builder for short text, with a size limit. The first bytes are stored inside the object,
 * so short text needs no allocation.
 *
 * The object may be moved or embedded in another. If it is copied, continue to use only one of the
 * copies.
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
    SLUICE_BYTES_INLINE = 64, /**< Capacity without an allocation, bytes. */
};

/** A byte builder. Fields are private to the library; use the calls. */
typedef struct sluice_bytes {
    /** Allocated memory, or NULL. */
    uint8_t *heap;
    size_t length;                       /**< Bytes appended. */
    size_t capacity;                     /**< Capacity of the current memory, bytes. */
    size_t limit;                        /**< Maximum length, bytes. */
    uint8_t inside[SLUICE_BYTES_INLINE]; /**< The bytes, while they fit. */
} sluice_bytes;

/**
 * Makes the object empty. After anything has been appended, it needs sluice_bytes_free().
 * @param limit maximum length, bytes
 */
static inline void sluice_bytes_init(sluice_bytes *bytes, size_t limit) {
    bytes->heap = NULL;
    bytes->length = 0;
    bytes->capacity = limit < SLUICE_BYTES_INLINE ? limit : (size_t)SLUICE_BYTES_INLINE;
    bytes->limit = limit;
}

/** Implementation of sluice_bytes_free() for allocated memory. */
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

/** Makes the object empty and keeps its memory for reuse. */
static inline void sluice_bytes_clear(sluice_bytes *bytes) {
    bytes->length = 0;
}

/**
 * Implementation of sluice_bytes_append() for bytes that do not fit into the current memory, or for
 * 0 bytes. Same result.
 */
SLUICE_API int sluice_bytes_append_slow(sluice_bytes *bytes, const void *from, size_t n);

/**
 * Appends @p n bytes, which may be part of the object itself. They do not count as copied payload.
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
 * Appends a slice's bytes and adds them to the pool's bytes_copied. The caller keeps the slice.
 * @return 0, -EMSGSIZE (over the limit), -ENOMEM; on failure nothing is changed or counted
 */
SLUICE_API int sluice_bytes_append_slice(sluice_bytes *bytes, const sluice_slice *slice);

/** Number of bytes appended. */
static inline size_t sluice_bytes_length(const sluice_bytes *bytes) {
    return bytes->length;
}

/**
 * The bytes, contiguous: valid until the object is changed or moved. Not NUL-terminated; never
 * NULL.
 */
static inline const uint8_t *sluice_bytes_view(const sluice_bytes *bytes) {
    return bytes->heap ? bytes->heap : bytes->inside;
}

#ifdef __cplusplus
}
#endif

#endif
