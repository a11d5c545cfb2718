#include "backends/io_read.h"

uint32_t io_read_pieces(const io_read *read, struct iovec *pieces, sluice_block **ret_first) {
    uint32_t skip = read->filled, left = read->length - read->filled, count = 0;
    const sluice_block *before = NULL;
    for (sluice_block *block = read->blocks; left > 0; block = block->next) {
        if (skip >= block->capacity) {
            skip -= block->capacity;
            continue;
        }
        uint8_t *memory = block->data + skip;
        uint32_t here = block->capacity - skip;
        if (here > left)
            here = left;
        if (!before)
            *ret_first = block;
        if (before && before->slab == block->slab && before->data + before->capacity == memory)
            pieces[count - 1].iov_len += here;
        else
            pieces[count++] = (struct iovec){memory, here};
        left -= here;
        skip = 0;
        before = block;
    }
    return count;
}
