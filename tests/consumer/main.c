/* A program that embeds the library: reads a length-prefixed message that lies across two
 * blocks. */
#include <stdio.h>
#include <string.h>

#include <sluice/sluice.h>

static int append(sluice_pool *pool, sluice_chain *chain, const void *bytes, uint32_t n) {
    sluice_block *block;
    int error = sluice_block_get(pool, &block);
    if (error)
        return error;
    memcpy(sluice_block_data(block), bytes, n);
    sluice_block_set_length(block, n);
    sluice_chain_append(chain, block);
    return 0;
}

static int read_message(sluice_chain *chain) {
    sluice_reader *reader;
    int error = sluice_reader_new(chain, &reader);
    if (error)
        return error;
    uint64_t size;
    sluice_slice message;
    error = sluice_reader_be(reader, 2, &size);
    if (!error)
        error = sluice_reader_slice(reader, (size_t)size, &message);
    if (!error) {
        struct iovec pieces[4];
        size_t count = sluice_slice_iov(&message, 0, pieces, 4);
        for (size_t i = 0; i < count; i++)
            printf("%.*s", (int)pieces[i].iov_len, (const char *)pieces[i].iov_base);
        printf("\n");
        sluice_slice_release(&message);
    }
    sluice_reader_free(reader);
    return error;
}

int main(void) {
    sluice_pool *pool;
    sluice_chain *chain;
    int error = sluice_pool_new(NULL, &pool);
    if (error)
        return 1;
    error = sluice_chain_new(pool, &chain);
    if (!error)
        error = append(pool, chain, "\0\013hello ", 8);
    if (!error)
        error = append(pool, chain, "world", 5);
    if (!error)
        error = read_message(chain);
    sluice_chain_free(chain);

    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(pool, &stats);
    sluice_pool_free(pool);
    printf("sluice %s, %u blocks held\n", SLUICE_VERSION, stats.held);
    return error || stats.held != 0;
}
