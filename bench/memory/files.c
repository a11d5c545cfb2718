/* A file of 10 MiB read to its end again and again, so many bytes at a time: with a buffer and without. */
#include "memory/work.h"

#include <sluice/reader.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/content.h"
#include "common/process.h"

enum { FILE_SIZE = 10 << 20, MOST_PIECE = 64 << 10, FILL = 64 << 10, SEED = 1 };

/* In memory, so that no disk is measured. */
static int make_file(void) {
    static uint64_t words[MOST_PIECE / 8];
    uint64_t random = SEED;
    int fd = memfd_create("bench", MFD_CLOEXEC);
    for (size_t at = 0; fd >= 0 && at < FILE_SIZE; at += sizeof words) {
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            words[i] = content_random(&random);
        if (write(fd, words, sizeof words) != sizeof words)
            break;
    }
    if (fd < 0 || lseek(fd, 0, SEEK_SET) < 0)
        fail(EXIT_FAILURE, "file: %s", strerror(errno));
    return fd;
}

/* The file is endless: its end is its beginning. */
static size_t read_some(int fd, void *buffer, size_t size) {
    ssize_t n = read(fd, buffer, size);
    if (n == 0 && lseek(fd, 0, SEEK_SET) == 0)
        n = read(fd, buffer, size);
    if (n <= 0)
        fail(EXIT_FAILURE, "read: %s", strerror(errno));
    return (size_t)n;
}

static void run_read(const bench_work *work, uint64_t operations) {
    static uint8_t buffer[MOST_PIECE];
    int fd = make_file();
    uint64_t sum = 0;
    work_begin();
    for (uint64_t i = 0; i < operations; i++) {
        read_some(fd, buffer, work->most);
        sum = 31 * sum + buffer[0];
    }
    work_end(operations, operations * work->most, sum);
    close(fd);
}

static void run_stdio(const bench_work *work, uint64_t operations) {
    static uint8_t buffer[MOST_PIECE];
    static char stdio_buffer[FILL];
    FILE *file = fdopen(make_file(), "r");
    uint64_t sum = 0;
    if (!file)
        fail(EXIT_FAILURE, "file: %s", strerror(errno));
    setvbuf(file, stdio_buffer, _IOFBF, sizeof stdio_buffer);
    work_begin();
    for (uint64_t i = 0; i < operations; i++) {
        int byte = work->most == 1 ? getc_unlocked(file) : 0;
        if (byte == EOF || (work->most > 1 && fread(buffer, work->most, 1, file) == 0)) {
            rewind(file);
            i--;
            continue;
        }
        sum = 31 * sum + (work->most == 1 ? (uint8_t)byte : buffer[0]);
    }
    work_end(operations, operations * work->most, sum);
    fclose(file);
}

/* One block more. */
static void fill(sluice_pool *pool, sluice_chain *chain, int fd) {
    sluice_block *block;
    work_check("block", sluice_block_get(pool, &block));
    size_t n = read_some(fd, sluice_block_data(block), sluice_block_capacity(block));
    sluice_block_set_length(block, (uint32_t)n);
    sluice_chain_append(chain, block);
}

static void run_library(const bench_work *work, uint64_t operations) {
    const sluice_pool_options options = {.block_size = FILL, .slab_blocks = 8, .max_blocks = 64};
    sluice_pool *pool;
    sluice_chain *chain;
    sluice_reader *reader;
    uint64_t sum = 0;
    int fd = make_file();
    work_check("pool", sluice_pool_new(&options, &pool));
    work_check("chain", sluice_chain_new(pool, &chain));
    work_check("reader", sluice_reader_new(chain, &reader));
    work_begin();
    for (uint64_t i = 0; i < operations; i++) {
        uint8_t byte;
        sluice_slice slice;
        struct iovec piece;
        if (work->most == 1) {
            while (sluice_reader_u8(reader, &byte) < 0)
                fill(pool, chain, fd);
        } else {
            while (sluice_reader_slice(reader, work->most, &slice) < 0)
                fill(pool, chain, fd);
            sluice_slice_iov(&slice, 0, &piece, 1);
            byte = *(const uint8_t *)piece.iov_base;
            sluice_slice_release(&slice);
        }
        sum = 31 * sum + byte;
    }
    work_end(operations, operations * work->most, sum);
    sluice_reader_free(reader);
    sluice_chain_free(chain);
    sluice_pool_free(pool);
    close(fd);
}

/* clang-format off */
#define IN_ALL_VARIANTS(name, size)                \
    {name, "library", run_library, size, size, 0}, \
    {name, "stdio", run_stdio, size, size, 0},     \
    {name, "read", run_read, size, size, 0}

const bench_work file_work[] = {
    IN_ALL_VARIANTS("file-1", 1),
    IN_ALL_VARIANTS("file-4096", 4096),
    IN_ALL_VARIANTS("file-65536", 65536),
    {0},
};
