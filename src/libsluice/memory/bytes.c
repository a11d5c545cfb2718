#include <sluice/bytes.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void sluice_bytes_free_slow(sluice_bytes *bytes) {
    free(bytes->heap);
    sluice_bytes_init(bytes, bytes->limit);
}

/*
 * Room for @n more bytes. Twice the memory each time, so that all growing together copies no byte
 * more than twice; less where the allocator can extend what is there.
 */
static int reserve(sluice_bytes *bytes, size_t n) {
    if (n > bytes->limit - bytes->length)
        return -EMSGSIZE;
    size_t needed = bytes->length + n, size = bytes->capacity;
    if (needed <= size)
        return 0;
    size = size > bytes->limit / 2 ? bytes->limit : 2 * size;
    if (size < needed)
        size = needed;
    uint8_t *heap = realloc(bytes->heap, size);
    if (!heap)
        return -ENOMEM;
    if (!bytes->heap)
        memcpy(heap, bytes->inside, bytes->length);
    bytes->heap = heap;
    bytes->capacity = size;
    return 0;
}

int sluice_bytes_append_slow(sluice_bytes *bytes, const void *from, size_t n) {
    if (n == 0)
        return 0;
    /* The bytes may be the object's own, and move with it. */
    uintptr_t place = bytes->heap ? (uintptr_t)from - (uintptr_t)bytes->heap : UINTPTR_MAX;
    int error = reserve(bytes, n);
    if (error)
        return error;
    memcpy(bytes->heap + bytes->length, place < bytes->length ? bytes->heap + place : from, n);
    bytes->length += n;
    return 0;
}

int sluice_bytes_append_slice(sluice_bytes *bytes, const sluice_slice *slice) {
    size_t n = sluice_slice_length(slice);
    int error = reserve(bytes, n);
    if (!error)
        bytes->length += sluice_slice_copy(slice, 0, (bytes->heap ? bytes->heap : bytes->inside) + bytes->length, n);
    return error;
}
