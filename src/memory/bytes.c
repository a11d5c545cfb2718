#include <sluice/bytes.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void sluice_bytes_init(sluice_bytes *bytes, size_t limit) {
    bytes->heap = NULL;
    bytes->length = 0;
    bytes->capacity = 0;
    bytes->limit = limit;
}

void sluice_bytes_free(sluice_bytes *bytes) {
    if (!bytes)
        return;
    free(bytes->heap);
    sluice_bytes_init(bytes, bytes->limit);
}

void sluice_bytes_clear(sluice_bytes *bytes) {
    bytes->length = 0;
}

static size_t capacity(const sluice_bytes *bytes) {
    return bytes->heap ? bytes->capacity : sizeof bytes->inside;
}

/*
 * Room for @n more bytes. Twice the memory each time, so that all growing together copies no byte more than twice.
 * The memory that was outgrown goes to the caller, to be freed when he has appended: his bytes may lie in it.
 */
static int reserve(sluice_bytes *bytes, size_t n, void **ret_outgrown) {
    if (n > bytes->limit - bytes->length)
        return -EMSGSIZE;
    size_t needed = bytes->length + n, size = capacity(bytes);
    *ret_outgrown = NULL;
    if (needed <= size)
        return 0;
    size = size > bytes->limit / 2 ? bytes->limit : 2 * size;
    if (size < needed)
        size = needed;
    uint8_t *heap = malloc(size);
    if (!heap)
        return -ENOMEM;
    memcpy(heap, sluice_bytes_view(bytes), bytes->length);
    *ret_outgrown = bytes->heap;
    bytes->heap = heap;
    bytes->capacity = size;
    return 0;
}

static uint8_t *end(sluice_bytes *bytes) {
    return (bytes->heap ? bytes->heap : bytes->inside) + bytes->length;
}

int sluice_bytes_append(sluice_bytes *bytes, const void *from, size_t n) {
    void *outgrown;
    int error = reserve(bytes, n, &outgrown);
    if (error)
        return error;
    if (n > 0)
        memcpy(end(bytes), from, n);
    bytes->length += n;
    free(outgrown);
    return 0;
}

int sluice_bytes_append_slice(sluice_bytes *bytes, const sluice_slice *slice) {
    void *outgrown;
    size_t n = sluice_slice_length(slice);
    int error = reserve(bytes, n, &outgrown);
    if (error)
        return error;
    bytes->length += sluice_slice_copy(slice, 0, end(bytes), n);
    free(outgrown);
    return 0;
}
